/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The scheduler and the lives of tasks: always recorded, of every task. */
#pragma once

#define STACK_DEPTH 64

/* The enter record of the call a task is in, once: it now sleeps inside it, or
 * will never leave it. */
static __always_inline void send_enter(struct task_state *s, u32 tid, u64 now)
{
	struct rec_sys r = {};

	if (s->nr < 0 || s->flags & ST_BEGUN)
		return;
	head_fill(&r.h, REC_SYS_ENTER, 0, now);
	r.enter = s->enter;
	r.enter_seq = s->enter_seq;
	r.enter_cpu = s->enter_cpu;
	r.nr = s->nr;
	r.tid = tid;
	__builtin_memcpy(r.args, s->args, sizeof(r.args));
	if (!emit(&r, sizeof(r)))
		s->flags |= ST_BEGUN;
}

/* unshare and setns leave no trace of their own without system call programs. */
static __always_inline void send_netns(struct task_state *s, struct task_struct *t, u64 now)
{
	struct nsproxy *p = BPF_CORE_READ(t, nsproxy);
	struct rec_netns r = {};
	u64 net;

	if (!p || s->nsproxy == (u64)p)
		return;
	net = net_of(p);
	if (s->net != net && s->nsproxy) {
		head_fill(&r.h, REC_NETNS, 0, now);
		r.tid = t->pid;
		r.cookie = net;
		if (emit(&r, sizeof(r)))
			return;
	}
	s->nsproxy = (u64)p;
	s->net = net;
}

static __always_inline void described(struct task_state *s, struct task_struct *t, u32 slot, u32 with)
{
	struct scratch *b;

	if (!s || s->flags & ST_DESCRIBED)
		return;
	b = scratch(slot);
	if (b && !describe(address(b, t), slot, with))
		s->flags |= ST_DESCRIBED;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct scratch *b = scratch(SLOT_SWITCH);
	u64 now = bpf_ktime_get_ns(), min = sleep_min;
	struct cpu_context *c = context();
	struct task_state *s;
	struct rec_switch *r;
	u32 state, size = sizeof(*r);
	u8 flags = preempt ? SW_PREEMPT : 0;
	long n;

	if (c)
		c->hard = c->soft = 0; /* neither can switch: an exit was missed */
	if (!b)
		return 0;
	r = (void *)b->buf;
	if (switch_state_arg)
		state = ctx[3];
	else
		state = raw_state(prev);
	r->prev = prev->pid;
	r->next = next->pid;
	r->state = state;
	r->nr = -1;
	r->nstack = 0;
	r->pad = 0;
	if (r->prev) {
		r->nr = call_of(prev);
		if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
			flags |= SW_IOWAIT;
		s = state_of(prev);
		if (s) {
			s->out_ts = preempt || !state ? 0 : now;
			if (!(s->flags & ST_DESCRIBED) || s->nr >= 0 || s->nsproxy != (u64)prev->nsproxy) {
				described(s, prev, SLOT_SWITCH, 0);
				send_enter(s, prev->pid, now);
				send_netns(s, prev, now);
				/* the scratch slot was used */
				r->prev = prev->pid;
				r->next = next->pid;
				r->state = state;
				r->nr = call_of(prev);
				r->nstack = 0;
				r->pad = 0;
			}
		}
	}
	if (r->next && min != ~0ULL) {
		s = state_of(next);
		if (s && s->out_ts && now - s->out_ts >= min) {
			n = bpf_get_task_stack(next, b->buf + sizeof(*r), STACK_DEPTH * 8, 0);
			if (n > 0 && n <= STACK_DEPTH * 8) {
				r->nstack = n / 8;
				size += n;
			} else {
				struct cpu_count *k = count();

				flags |= SW_NO_STACK;
				if (k)
					k->stack_fails++;
			}
		}
	}
	head_fill(&r->h, REC_SWITCH, flags, now);
	emit_scratch(b, size);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *p)
{
	struct cpu_context *c = context();
	u32 cur = bpf_get_current_pid_tgid();
	u8 flags = p->on_rq ? WK_SPURIOUS : 0;

	if (flags && bpf_core_field_exists(p->se.sched_delayed) && p->se.sched_delayed)
		flags = 0;
	if (cur && in_task(c)) {
		struct rec_wake r;

		head_fill(&r.h, REC_WAKE, flags, bpf_ktime_get_ns());
		r.cur = cur;
		r.wakee = p->pid;
		emit(&r, sizeof(r));
	} else {
		struct rec_wake_irq r = {};

		fill_context(&r.ctx, c, cur);
		head_fill(&r.h, REC_WAKE_IRQ, flags, bpf_ktime_get_ns());
		r.wakee = p->pid;
		emit(&r, sizeof(r));
	}
	return 0;
}

/* In copy_process, with the flags, for kernel threads and io workers too;
 * wake_up_new_task follows at once. */
SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *child, u64 clone_flags)
{
	struct task_struct *cur = bpf_get_current_task_btf();
	struct task_state *p = state_of(cur), *s = state_of(child);
	struct rec_fork r = {};

	if (s) {
		described(s, child, SLOT_TASK, WITH_CGROUP);
		struct nsproxy *np = BPF_CORE_READ(child, nsproxy);

		s->nsproxy = (u64)np;
		s->net = net_of(np);
		if (p && is_followed(p))
			s->flags |= ST_FOLLOWED;
	}
	head_fill(&r.h, REC_FORK, 0, bpf_ktime_get_ns());
	r.parent = cur->pid;
	r.child = child->pid;
	r.clone_flags = clone_flags;
	emit(&r, sizeof(r));
	return 0;
}

#define ARGV_MAX (28 << 10)
struct argv_buf {
	struct rec_argv r;
	char argv[ARGV_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct argv_buf);
} argvs SEC(".maps");

static __always_inline void send_argv(struct task_struct *t)
{
	u32 zero = 0, len;
	struct argv_buf *b = bpf_map_lookup_elem(&argvs, &zero);
	u64 start = BPF_CORE_READ(t, mm, arg_start), end = BPF_CORE_READ(t, mm, arg_end);
	u8 flags = 0;

	if (!b || end <= start)
		return;
	if (end - start > ARGV_MAX)
		flags = AV_CUT;
	len = flags ? ARGV_MAX : end - start;
	/* The compiler must not reason len's bound away from the verifier. */
	asm volatile("" : "+r"(len));
	if (len > ARGV_MAX)
		return;
	if (bpf_probe_read_user(b->argv, len, (void *)start)) {
		/* Only what execve itself has touched is sure to be there. */
		long n = bpf_probe_read_user_str(b->argv, 4096, (void *)start);

		if (n <= 0)
			return;
		flags = AV_CUT;
		len = n & 4095;
	}
	head_fill(&b->r.h, REC_ARGV, flags, bpf_ktime_get_ns());
	b->r.tid = t->pid;
	b->r.len = len;
	if (len <= ARGV_MAX)
		emit(b, sizeof(b->r) + len);
}

__noinline u32 put_exec(u64 task, u64 bprm)
{
	struct task_struct *t = (void *)task;
	struct linux_binprm *bp = (void *)bprm;
	struct scratch *s = scratch(SLOT_TASK);
	u32 off = sizeof(struct rec_exec), at;
	struct rec_exec *r;
	struct file *exe;
	long n;

	if (!s)
		return 0;
	r = (void *)s->buf;
	exe = BPF_CORE_READ(t, mm, exe_file);
	if (exe)
		off = put_path(SLOT_TASK, off, (u64)&exe->f_path, (u64)&BPF_CORE_READ(t, fs)->root);
	r->exe_len = off - sizeof(*r);
	at = off;
	off = put_cgroup(SLOT_TASK, off, cgroup_of(t));
	r->cg_len = off - at;
	r->name_len = 0;
	if (off < SCRATCH_FULL) {
		n = bpf_probe_read_kernel_str(place(s, off), 512, BPF_CORE_READ(bp, filename));
		if (n > 0) {
			r->name_len = n;
			off += n;
		}
	}
	r->pad = 0;
	return off;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_exec, struct task_struct *t, int old, struct linux_binprm *bprm)
{
	struct scratch *b = scratch(SLOT_TASK);
	struct task_state *s = state_of(t);
	struct rec_exec *r;
	u32 size;

	if (!b)
		return 0;
	/* A thread that is not the leader now has the leader's tid and start
	 * time (de_thread): what was said of it holds no longer. */
	if (s && old != t->pid) {
		send_enter(s, old, bpf_ktime_get_ns());
		s->flags &= ~ST_DESCRIBED;
	}
	described(s, t, SLOT_TASK, 0);
	size = put_exec(address(b, t), address(b, bprm));
	if (size < sizeof(*r))
		return 0;
	r = (void *)b->buf;
	r->tid = t->pid;
	r->old = old;
	bpf_core_read(r->comm, sizeof(r->comm), &t->comm);
	head_fill(&r->h, REC_EXEC, 0, bpf_ktime_get_ns());
	emit_scratch(b, size);
	send_argv(t);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(task_rename, struct task_struct *t, const char *comm)
{
	struct rec_comm r = {};

	head_fill(&r.h, REC_COMM, 0, bpf_ktime_get_ns());
	r.tid = t->pid;
	bpf_probe_read_kernel_str(r.comm, sizeof(r.comm), comm);
	emit(&r, sizeof(r));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_exit, struct task_struct *t)
{
	struct task_state *s = state_of(t);
	struct rec_exit r = {};
	u64 now = bpf_ktime_get_ns();

	if (s) {
		described(s, t, SLOT_TASK, 0);
		send_enter(s, t->pid, now);
		s->nr = -1;
		send_netns(s, t, now);
	}
	r.tid = t->pid;
	r.code = t->exit_code;
	head_fill(&r.h, REC_EXIT, BPF_CORE_READ(t, signal, live.counter) ? 0 : EX_GROUP, now);
	emit(&r, sizeof(r));
	return 0;
}

/* Over all tasks. ITERATE_SNAPSHOT: one record each, with its identity before
 * it. ITERATE_CALLS: the calls they are in. All of them mark who is followed. */
SEC("iter/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct scratch *b = scratch(SLOT_ITER);
	struct task_state *s;
	struct rec_switch *r;
	u32 size = sizeof(*r);
	u8 flags = 0;
	long n;

	if (!t || !b)
		return 0;
	s = state_of(t);
	if (s) {
		mark_followed(s, t);
		if (iterate == ITERATE_CALLS)
			send_enter(s, t->pid, bpf_ktime_get_ns());
		if (!s->nsproxy) {
			struct nsproxy *p = BPF_CORE_READ(t, nsproxy);

			s->nsproxy = (u64)p;
			s->net = net_of(p);
		}
	}
	if (iterate != ITERATE_SNAPSHOT)
		return 0;
	if (!describe(address(b, t), SLOT_ITER, WITH_EXE | WITH_CGROUP) && s)
		s->flags |= ST_DESCRIBED;
	r = (void *)b->buf;
	r->prev = t->pid;
	r->next = 0;
	r->state = raw_state(t);
	r->nr = call_of(t);
	r->nstack = 0;
	r->pad = 0;
	if (BPF_CORE_READ_BITFIELD(t, in_iowait))
		flags |= SW_IOWAIT;
	if (t->on_cpu)
		flags |= SW_ON_CPU;
	else if (t->on_rq && !(bpf_core_field_exists(t->se.sched_delayed) && t->se.sched_delayed))
		flags |= SW_ON_RQ;
	else {
		n = bpf_get_task_stack(t, b->buf + sizeof(*r), STACK_DEPTH * 8, 0);
		if (n > 0 && n <= STACK_DEPTH * 8) {
			r->nstack = n / 8;
			size += n;
		}
	}
	head_fill(&r->h, REC_STATUS, flags, bpf_ktime_get_ns());
	emit_scratch(b, size);
	return 0;
}
