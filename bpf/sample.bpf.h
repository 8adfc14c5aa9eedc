/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* CPU samples: a cpu-clock event on every CPU. */
#pragma once

#define SAMPLE_DEPTH 96

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct scratch *b = scratch(SLOT_SAMPLE);
	struct cpu_context *c = context();
	struct task_struct *t = bpf_get_current_task_btf();
	struct task_state *s;
	struct rec_sample *r;
	u64 now = bpf_ktime_get_ns();
	u64 size = sizeof(*r);
	long n;

	if (!b || !t->pid)
		return 0;
	r = (void *)b->buf;
	r->tid = t->pid;
	r->nr = call_of(t);
	r->nkernel = r->nuser = 0;
	r->kind = CTX_TASK;
	r->num = 0;
	if (c && c->soft) { /* the timer interrupt itself is not what ran */
		r->kind = CTX_SOFTIRQ;
		r->num = c->soft - 1;
	}
	n = bpf_get_stack(ctx, b->buf + sizeof(*r), SAMPLE_DEPTH * 8, 0);
	if (n > 0 && n <= SAMPLE_DEPTH * 8) {
		r->nkernel = n / 8;
		size += n;
	}
	BOUND(size, 1023);
	s = state_of(t);
	if (s) {
		send_enter(s, t->pid, now);
		if (is_followed(s)) {
			n = bpf_get_stack(ctx, b->buf + size, SAMPLE_DEPTH * 8, BPF_F_USER_STACK);
			if (n > 0 && n <= SAMPLE_DEPTH * 8) {
				r->nuser = n / 8;
				size += n;
			}
		}
	}
	head_fill(&r->h, REC_SAMPLE, 0, now);
	emit_scratch(b, size);
	return 0;
}
