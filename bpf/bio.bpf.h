/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who reads and writes: what tasks hand to block devices. Of all tasks, for
 * whoever writes is in the way of an operation that waits for a disk. At
 * block_bio_queue the task is still the one that wants it; requests are issued
 * later, often by a worker of the block layer. */
#pragma once

SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_queue, struct bio *bio)
{
	struct rec_bio r = {};

	if (!in_task(context()))
		return 0;
	head_fill(&r.h, REC_BIO, 0, bpf_ktime_get_ns());
	r.tid = bpf_get_current_pid_tgid();
	r.bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	r.op = BPF_CORE_READ(bio, bi_opf);
	emit(&r, sizeof(r));
	return 0;
}
