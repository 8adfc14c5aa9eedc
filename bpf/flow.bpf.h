/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What carries cause from one place to another, and single moments: timers,
 * block requests, locks, cgroups. Attached when a probe asks. */
#pragma once

static __always_inline int send_timer(void *timer, u64 fn, u32 what)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct rec_timer r = {};
	struct task_state *s;

	if (!in_task(context()))
		return 0;
	s = state_of(t);
	if (!s || !is_followed(s))
		return 0;
	head_fill(&r.h, REC_TIMER, 0, bpf_ktime_get_ns());
	r.tid = t->pid;
	r.what = what;
	r.timer = (u64)timer;
	r.fn = fn;
	emit(&r, sizeof(r));
	return 0;
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(hrtimer_start, struct hrtimer *timer)
{
	return send_timer(timer, (u64)BPF_CORE_READ(timer, function), WHAT_HRTIMER);
}

SEC("tp_btf/timer_start")
int BPF_PROG(timer_start, struct timer_list *timer)
{
	return send_timer(timer, (u64)BPF_CORE_READ(timer, function), WHAT_TIMER);
}

static __always_inline int send_block(struct request *rq, u8 type, u32 bytes)
{
	struct rec_block r = {};

	head_fill(&r.h, type, 0, bpf_ktime_get_ns());
	r.rq = (u64)rq;
	r.bytes = bytes;
	r.op = BPF_CORE_READ(rq, cmd_flags);
	fill_context(&r.ctx, context(), bpf_get_current_pid_tgid());
	emit(&r, sizeof(r));
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_issue, struct request *rq)
{
	return send_block(rq, REC_BLOCK_ISSUE, BPF_CORE_READ(rq, __data_len));
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_done, struct request *rq, int error, unsigned int bytes)
{
	return send_block(rq, REC_BLOCK_DONE, bytes);
}

static __always_inline int send_lock(void *lock, u8 type, u32 how)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct rec_lock r = {};
	struct task_state *s;

	if (!t->pid || !in_task(context()))
		return 0;
	s = state_of(t);
	if (!s || !is_followed(s))
		return 0;
	head_fill(&r.h, type, 0, bpf_ktime_get_ns());
	r.tid = t->pid;
	r.how = how;
	r.lock = (u64)lock;
	emit(&r, sizeof(r));
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(lock_begin, void *lock, unsigned int flags)
{
	return send_lock(lock, REC_LOCK_BEGIN, flags);
}

SEC("tp_btf/contention_end")
int BPF_PROG(lock_end, void *lock, int ret)
{
	return send_lock(lock, REC_LOCK_END, ret);
}

static __always_inline int send_point(u16 id, u64 flow, s64 value, const char *path)
{
	struct scratch *b = scratch(SLOT_TASK);
	struct rec_point *r;
	u64 len = 0;
	long n;

	if (!b)
		return 0;
	r = (void *)b->buf;
	r->flow = flow;
	r->value = value;
	r->tid = bpf_get_current_pid_tgid();
	r->id = id;
	if (path) {
		n = bpf_probe_read_kernel_str(b->buf + sizeof(*r), 1024, path);
		if (n > 0 && n <= 1024)
			len = n;
	}
	r->len = len;
	head_fill(&r->h, REC_POINT, 0, bpf_ktime_get_ns());
	BOUND(len, 2047);
	emit(r, sizeof(*r) + len);
	return 0;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_mkdir, struct cgroup *c, const char *path)
{
	return send_point(POINT_CGROUP_MKDIR, BPF_CORE_READ(c, kn, id), 0, path);
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_rmdir, struct cgroup *c, const char *path)
{
	return send_point(POINT_CGROUP_RMDIR, BPF_CORE_READ(c, kn, id), 0, path);
}

SEC("tp_btf/cgroup_release")
int BPF_PROG(cgroup_release, struct cgroup *c, const char *path)
{
	return send_point(POINT_CGROUP_RELEASE, BPF_CORE_READ(c, kn, id), 0, path);
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach, struct cgroup *c, const char *path, struct task_struct *t)
{
	return send_point(POINT_CGROUP_ATTACH, BPF_CORE_READ(c, kn, id), BPF_CORE_READ(t, pid), path);
}

/* do_wait, entered: the caller reaps a child now, or sleeps until it can. */
SEC("tp_btf/sched_process_wait")
int BPF_PROG(wait_child)
{
	struct task_state *s = state_of(bpf_get_current_task_btf());

	if (!s || !is_followed(s))
		return 0;
	return send_point(POINT_WAIT, 0, 0, NULL);
}

SEC("tp_btf/exit_mmap")
int BPF_PROG(exit_mmap)
{
	return send_point(POINT_EXIT_MMAP, 0, 0, NULL);
}
