/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who is recorded, and what is remembered of each task. */
#pragma once

#define PF_KTHREAD 0x00200000
#define PF_IO_WORKER 0x10
#define PF_USER_WORKER 0x4000
#define TASK_DEAD 0x80

/* Settings before loading. */
const volatile u8 switch_state_arg = 0;     /* sched_switch has prev_state as its 4th argument (since 5.19) */
const volatile u64 fn_fqdir = 0;            /* addresses of work functions whose object is told, 0: unknown */
const volatile u64 fn_css_killed = 0, fn_css_release = 0, fn_css_free = 0;
#define CALLS 512
const volatile struct call_spec calls[CALLS] = {};

/* Settings while running. */
volatile u32 generation = 0; /* of the recording; what an older one remembered does not count */
volatile u32 iterate = 0;    /* enum iterate: what the task iterator is run for */
volatile u64 sleep_min = 20000; /* ns: sleeps from this length on have a stack; ~0: none */

enum iterate { ITERATE_SNAPSHOT, ITERATE_FOLLOW, ITERATE_CALLS };

#define ST_DESCRIBED 1
#define ST_FOLLOWED 2
#define ST_BEGUN 4 /* the enter record of the call it is in was sent */

struct task_state {
	u32 generation;
	u32 flags;
	u32 pad;
	s32 nr; /* system call it is in and that is recorded, -1: none */
	u64 out_ts; /* when it went to sleep, 0: it did not */
	u64 nsproxy, net;
	u64 enter;
	u32 enter_seq, enter_cpu;
	u64 args[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/* Thread group -> start time of its leader, so that a pid used again is nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u64);
} followed SEC(".maps");

static __always_inline struct task_state *state_of(struct task_struct *t)
{
	struct task_state *s = bpf_task_storage_get(&tasks, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (s && s->generation != generation) {
		u32 kept = s->flags & ST_FOLLOWED;

		__builtin_memset(s, 0, sizeof(*s));
		s->flags = kept;
		s->generation = generation;
		s->nr = -1;
	}
	return s;
}

static __always_inline bool is_followed(struct task_state *s)
{
	return s->flags & ST_FOLLOWED;
}

/* Pointers in tasks are read by BPF_CORE_READ where time does not matter: for
 * each that a program follows by itself the verifier searches all of the
 * kernel's types, a millisecond or two.
 *
 * Marks a task whose process, or whose parent's process, is in the map. A
 * start time of 0 there is one that is not known yet. Run over all tasks; twice,
 * for children with a lower pid than their parent. */
static __always_inline void mark_followed(struct task_state *s, struct task_struct *t)
{
	u32 tgid = t->tgid, parent = BPF_CORE_READ(t, real_parent, tgid);
	u64 start = BPF_CORE_READ(t, group_leader, start_time), *known;

	known = bpf_map_lookup_elem(&followed, &tgid);
	if (known && !*known)
		*known = start;
	if (!known || *known != start) {
		known = bpf_map_lookup_elem(&followed, &parent);
		if (!known || (*known && *known != BPF_CORE_READ(t, real_parent, group_leader, start_time)))
			return;
		bpf_map_update_elem(&followed, &tgid, &start, BPF_ANY);
	}
	s->flags |= ST_FOLLOWED;
}

static __always_inline u32 raw_state(struct task_struct *t)
{
	if (bpf_core_field_exists(t->__state))
		return t->__state;
	return BPF_CORE_READ((struct task_struct___old *)t, state);
}

/* The system call a task is in, by its saved user registers; -1 for none, for
 * kernel threads and for 32-bit calls, whose numbers mean something else. */
static __always_inline s16 call_of(struct task_struct *t)
{
	struct pt_regs *regs;

	if (t->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return -1;
	regs = (struct pt_regs *)bpf_task_pt_regs(t);
#if defined(__TARGET_ARCH_x86)
	if (t->thread_info.status & 2 /* TS_COMPAT */)
		return -1;
	return regs->orig_ax;
#else
	if (t->thread_info.flags & (1 << 22) /* TIF_32BIT */)
		return -1;
	return regs->syscallno;
#endif
}

static __always_inline u64 net_of(struct nsproxy *p)
{
	struct net *n = BPF_CORE_READ(p, net_ns);

	if (!n)
		return 0;
	if (bpf_core_field_exists(n->net_cookie))
		return BPF_CORE_READ(n, net_cookie);
	return BPF_CORE_READ(n, ns.inum);
}

/* Where a walk from a file or a cgroup to its root is, at the end of the
 * scratch slot: to the verifier, numbers that a function called in a loop may
 * change, so that it follows one step and not every number of them. */
struct walk {
	u64 at, mount;           /* dentry and its vfsmount; a kernfs_node */
	u64 root, root_mount;    /* where it ends; 0: at the top */
};

static __always_inline struct walk *walk(struct scratch *s)
{
	return (void *)s->buf + SCRATCH - 64;
}

/* One step of put_path. Returns the offset after it, or 0 at the end. */
__noinline u32 step_path(u32 slot, u32 off)
{
	struct scratch *s = scratch(slot);
	struct dentry *d, *parent;
	struct vfsmount *m;
	struct mount *mnt, *up;
	struct walk *w;
	long n;

	if (!s)
		return 0;
	w = walk(s);
	d = (void *)w->at;
	m = (void *)w->mount;
	if (!d || off >= SCRATCH_FULL || ((u64)d == w->root && (u64)m == w->root_mount))
		return 0;
	if (d == BPF_CORE_READ(m, mnt_root)) {
		mnt = (void *)m - bpf_core_field_offset(struct mount, mnt);
		up = BPF_CORE_READ(mnt, mnt_parent);
		if (!up || up == mnt)
			return 0;
		w->at = (u64)BPF_CORE_READ(mnt, mnt_mountpoint);
		w->mount = (u64)((void *)up + bpf_core_field_offset(struct mount, mnt));
		return off;
	}
	parent = BPF_CORE_READ(d, d_parent);
	n = bpf_probe_read_kernel_str(place(s, off), 256, BPF_CORE_READ(d, d_name.name));
	if (n <= 0)
		return 0;
	/* Not below the root of its mount: an anonymous file (pipe:, memfd:),
	 * whose name is all there is. */
	w->at = parent == d ? 0 : (u64)parent;
	return off + n;
}

/* The path of a file, as d_path: components leaf first into the scratch slot
 * from off on. root (a struct path *, may be 0) is where it ends. Returns the
 * offset after it. */
__noinline u32 put_path(u32 slot, u32 off, u64 path, u64 root)
{
	struct scratch *s = scratch(slot);
	struct path *p = (void *)path, *r = (void *)root;
	struct walk *w;

	if (!s || !path)
		return off;
	w = walk(s);
	w->at = (u64)BPF_CORE_READ(p, dentry);
	w->mount = (u64)BPF_CORE_READ(p, mnt);
	w->root = r ? (u64)BPF_CORE_READ(r, dentry) : 0;
	w->root_mount = r ? (u64)BPF_CORE_READ(r, mnt) : 0;
	for (int i = 0; i < 40; i++) {
		u32 next = step_path(slot, off);

		if (!next)
			break;
		off = next;
	}
	return off;
}

/* One step of put_cgroup, likewise. */
__noinline u32 step_cgroup(u32 slot, u32 off)
{
	struct scratch *s = scratch(slot);
	struct kernfs_node *k, *up;
	struct walk *w;
	long n;

	if (!s)
		return 0;
	w = walk(s);
	k = (void *)w->at;
	if (!k || off >= SCRATCH_FULL)
		return 0;
	if (bpf_core_field_exists(k->__parent))
		up = BPF_CORE_READ(k, __parent);
	else
		up = (void *)BPF_CORE_READ((struct kernfs_node___old *)k, parent);
	if (!up)
		return 0;
	n = bpf_probe_read_kernel_str(place(s, off), 256, BPF_CORE_READ(k, name));
	if (n <= 0)
		return 0;
	w->at = (u64)up;
	return off + n;
}

/* The path of a cgroup in its hierarchy, likewise. */
__noinline u32 put_cgroup(u32 slot, u32 off, u64 cgroup)
{
	struct scratch *s = scratch(slot);

	if (!s || !cgroup)
		return off;
	walk(s)->at = (u64)BPF_CORE_READ((struct cgroup *)cgroup, kn);
	for (int i = 0; i < 16; i++) {
		u32 next = step_cgroup(slot, off);

		if (!next)
			break;
		off = next;
	}
	return off;
}

enum cgroup_subsys_id { memory_cgrp_id = 4, pids_cgrp_id = 11 };

static __always_inline bool is_root_cgroup(struct cgroup *c)
{
	struct kernfs_node *k = BPF_CORE_READ(c, kn);

	if (!k)
		return true;
	if (bpf_core_field_exists(k->__parent))
		return !BPF_CORE_READ(k, __parent);
	return !BPF_CORE_READ((struct kernfs_node___old *)k, parent);
}

/* The cgroup that says most: the v2 one, or with v1 hierarchies that of a
 * controller that every container manager uses. */
static __always_inline u64 cgroup_of(struct task_struct *t)
{
	struct css_set *set = BPF_CORE_READ(t, cgroups);
	struct cgroup *c = BPF_CORE_READ(set, dfl_cgrp);
	struct cgroup_subsys_state *css = NULL;

	if (c && !is_root_cgroup(c))
		return (u64)c;
	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		css = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)]);
		css = css && !is_root_cgroup(BPF_CORE_READ(css, cgroup)) ? css : NULL;
	}
	if (!css && bpf_core_enum_value_exists(enum cgroup_subsys_id, pids_cgrp_id))
		css = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id)]);
	return css ? (u64)BPF_CORE_READ(css, cgroup) : (u64)c;
}

static __always_inline u32 ns_pid(struct task_struct *t)
{
	struct pid *p = BPF_CORE_READ(t, signal, pids[1] /* PIDTYPE_TGID */);
	u32 level = BPF_CORE_READ(p, level), nr = 0;
	void *at = (void *)p + bpf_core_field_offset(struct pid, numbers);

	if (level < 33) /* MAX_PID_NS_LEVEL */
		bpf_probe_read_kernel(&nr, sizeof(nr),
				      at + level * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, nr));
	return nr;
}

#define WITH_EXE 1
#define WITH_CGROUP 2

/* Sends a rec_task, with the paths that are asked for. */
__noinline int describe(u64 task, u32 slot, u32 with)
{
	struct task_struct *t = (void *)task;
	struct scratch *s = scratch(slot);
	struct rec_task *r;
	struct file *exe;
	u32 off = sizeof(*r), at;

	if (!s || !t)
		return -1;
	r = (void *)s->buf;
	head_fill(&r->h, REC_TASK, BPF_CORE_READ(t, flags) & PF_KTHREAD ? TA_KTHREAD : 0, bpf_ktime_get_ns());
	r->tid = BPF_CORE_READ(t, pid);
	r->tgid = BPF_CORE_READ(t, tgid);
	r->parent = BPF_CORE_READ(t, real_parent, pid);
	r->start = BPF_CORE_READ(t, start_time);
	r->leader_start = BPF_CORE_READ(t, group_leader, start_time);
	r->net = net_of(BPF_CORE_READ(t, nsproxy));
	r->nspid = ns_pid(t);
	bpf_core_read(r->comm, sizeof(r->comm), &t->comm);
	r->pad = 0;
	exe = with & WITH_EXE ? BPF_CORE_READ(t, mm, exe_file) : NULL;
	if (exe)
		off = put_path(slot, off, (u64)&exe->f_path, (u64)&BPF_CORE_READ(t, fs)->root);
	r->exe_len = off - sizeof(*r);
	at = off;
	if (with & WITH_CGROUP)
		off = put_cgroup(slot, off, cgroup_of(t));
	r->cg_len = off - at;
	return emit_scratch(s, off);
}
