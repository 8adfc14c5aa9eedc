/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * System calls of followed tasks. Attached only when some probe asks: a program
 * here, even one that only filters, doubles the time of the shortest calls of
 * the whole system. One record at the call's exit, when the memory it points to
 * has been paged in by the kernel's own reading of it.
 */
#pragma once

#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define AF_UNIX 1
#define AF_NETLINK 16
#define AT_FDCWD -100

static __always_inline bool wanted(long nr)
{
	return nr >= 0 && nr < CALLS && calls[nr & (CALLS - 1)].want;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *t;
	struct task_state *s;
	struct cpu_count *c;

	if (!wanted(nr))
		return 0;
	t = bpf_get_current_task_btf();
#if defined(__TARGET_ARCH_x86)
	if (t->thread_info.status & 2 /* TS_COMPAT */)
		return 0;
#endif
	s = state_of(t);
	if (!s || !is_followed(s))
		return 0;
	c = count();
	/* A sample in the middle of this must not send half of it. */
	s->nr = -1;
	barrier();
	s->flags &= ~ST_BEGUN;
	s->enter = bpf_ktime_get_ns();
	s->enter_cpu = bpf_get_smp_processor_id();
	s->enter_seq = c ? c->seq : 0;
#if defined(__TARGET_ARCH_x86)
	s->args[0] = regs->di;
	s->args[1] = regs->si;
	s->args[2] = regs->dx;
	s->args[3] = regs->r10;
	s->args[4] = regs->r8;
	s->args[5] = regs->r9;
#else
	s->args[0] = regs->orig_x0;
	s->args[1] = regs->regs[1];
	s->args[2] = regs->regs[2];
	s->args[3] = regs->regs[3];
	s->args[4] = regs->regs[4];
	s->args[5] = regs->regs[5];
#endif
	barrier();
	s->nr = nr;
	return 0;
}

static __always_inline u64 file_of(int fd)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct fdtable *f = BPF_CORE_READ(t, files, fdt);
	struct file **at, *file = NULL;

	if (fd < 0 || (u32)fd >= BPF_CORE_READ(f, max_fds))
		return 0;
	at = BPF_CORE_READ(f, fd);
	bpf_probe_read_kernel(&file, sizeof(file), at + fd);
	return (u64)file;
}

/* The socket of a descriptor, 0 when it is none. */
static __always_inline u64 sock_of(u64 file)
{
	struct file *f = (void *)file;
	struct socket *so;

	if (!f || (BPF_CORE_READ(f, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	so = BPF_CORE_READ(f, private_data);
	return (u64)BPF_CORE_READ(so, sk);
}

static __always_inline u32 item_head(struct scratch *b, u32 off, u8 kind, u8 arg, u32 len)
{
	struct item *it;

	if (off > SCRATCH_FULL)
		return off;
	it = (void *)place(b, off);
	it->kind = kind;
	it->arg = arg;
	it->len = len;
	return off + sizeof(*it) + len;
}

__noinline u32 put_string(u32 off, u32 arg, u64 addr)
{
	struct scratch *b = scratch(SLOT_TASK);
	long n;

	if (!b || off > SCRATCH_FULL)
		return off;
	n = bpf_probe_read_user_str(place(b, off) + sizeof(struct item), 512, (void *)addr);
	if (n <= 0 || n > 512)
		return off;
	return item_head(b, off, ITEM_STRING, arg, n);
}

/* Where a relative path starts. */
__noinline u32 put_base(u32 off, u32 arg, u64 addr, s32 dfd)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct scratch *b = scratch(SLOT_TASK);
	struct fs_struct *fs = BPF_CORE_READ(t, fs);
	u64 path, file;
	char first = 0;
	u32 end;

	if (!b || off > SCRATCH_FULL)
		return off;
	bpf_probe_read_user(&first, 1, (void *)addr);
	if (first == '/')
		return off;
	path = (u64)&fs->pwd;
	if (dfd != AT_FDCWD) {
		file = file_of(dfd);
		if (!file)
			return off;
		path = (u64)&((struct file *)file)->f_path;
	}
	end = put_path(SLOT_TASK, off + sizeof(struct item), path, (u64)&fs->root);
	return item_head(b, off, ITEM_BASE, arg, end - off - sizeof(struct item));
}

__noinline u32 put_socket(u32 off, u32 arg, u64 sk)
{
	struct scratch *b = scratch(SLOT_TASK);
	struct sock_item *it;
	struct unix_address *a;
	struct sock *peer;
	u32 len = sizeof(*it);
	u64 n = 0;

	if (!b || off > SCRATCH_FULL || !sk)
		return off;
	it = (void *)place(b, off) + sizeof(struct item);
	it->family = BPF_CORE_READ((struct sock *)sk, __sk_common.skc_family);
	it->protocol = BPF_CORE_READ((struct sock *)sk, sk_protocol);
	if (it->family == AF_UNIX) {
		peer = BPF_CORE_READ((struct unix_sock *)sk, peer);
		a = BPF_CORE_READ((struct unix_sock *)peer, addr);
		if (!a)
			a = BPF_CORE_READ((struct unix_sock *)sk, addr);
		n = (u32)BPF_CORE_READ(a, len);
		if (n > 110)
			n = 0;
		BOUND(n, 127);
		if (n > 2 && !bpf_probe_read_kernel(place(b, off) + sizeof(struct item) + sizeof(*it), n, a->name))
			len += n;
	}
	return item_head(b, off, ITEM_SOCKET, arg, len);
}

__noinline u32 put_fd(u32 off, u32 arg, s32 fd)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct scratch *b = scratch(SLOT_TASK);
	struct fs_struct *fs = BPF_CORE_READ(t, fs);
	u64 file = file_of(fd), sk = sock_of(file);
	u32 end;

	if (!b || off > SCRATCH_FULL || !file)
		return off;
	if (sk)
		return put_socket(off, arg, sk);
	end = put_path(SLOT_TASK, off + sizeof(struct item), (u64)&((struct file *)file)->f_path, (u64)&fs->root);
	return item_head(b, off, ITEM_FILE, arg, end - off - sizeof(struct item));
}

__noinline u32 put_sockaddr(u32 off, u32 arg, u64 addr, u64 len)
{
	struct scratch *b = scratch(SLOT_TASK);

	if (!b || off > SCRATCH_FULL || len < 2)
		return off;
	if (len > 110)
		len = 110;
	BOUND(len, 127);
	if (bpf_probe_read_user(place(b, off) + sizeof(struct item), len, (void *)addr))
		return off;
	return item_head(b, off, ITEM_ADDR, arg, len);
}

/* Types of the first messages in a buffer sent on a netlink socket. */
__noinline u32 put_netlink(u32 off, u32 arg, s32 fd, u64 buf, u64 size)
{
	u64 end = buf + size;
	struct scratch *b = scratch(SLOT_TASK);
	u64 sk = sock_of(file_of(fd));
	struct {
		u32 len;
		u16 type;
	} msg;
	u16 *out;
	u32 n = 0;

	if (!b || off > SCRATCH_FULL || !sk)
		return off;
	if (BPF_CORE_READ((struct sock *)sk, __sk_common.skc_family) != AF_NETLINK)
		return off;
	out = (void *)place(b, off) + sizeof(struct item);
	out[n++] = BPF_CORE_READ((struct sock *)sk, sk_protocol);
	for (int i = 0; i < 6; i++) {
		if (buf + 16 > end || bpf_probe_read_user(&msg, 6, (void *)buf) || msg.len < 16)
			break;
		out[i + 1] = msg.type;
		n++;
		buf += (msg.len + 3) & ~3;
	}
	return item_head(b, off, ITEM_NETLINK, arg, (n & 7) * 2);
}

/* struct user_msghdr: name, namelen, iov, iovlen, ... */
__noinline u32 put_msghdr(u32 off, u32 arg, s32 fd, u64 msg)
{
	u64 m[3] = {}, iov[2] = {};

	if (bpf_probe_read_user(m, sizeof(m), (void *)msg))
		return off;
	if (m[0] && (u32)m[1] >= 2)
		off = put_sockaddr(off, arg, m[0], (u32)m[1]);
	if (bpf_probe_read_user(iov, sizeof(iov), (void *)m[2]))
		return off;
	return put_netlink(off, arg, fd, iov[0], iov[1]);
}

__noinline u32 put_u64(u32 off, u32 arg, u64 addr)
{
	struct scratch *b = scratch(SLOT_TASK);

	if (!b || off > SCRATCH_FULL)
		return off;
	if (bpf_probe_read_user(place(b, off) + sizeof(struct item), 8, (void *)addr))
		return off;
	return item_head(b, off, ITEM_U64, arg, 8);
}

__noinline u32 put_arg(u32 off, u32 i, u32 kind)
{
	struct scratch *b = scratch(SLOT_TASK);
	struct rec_sys *r;
	u64 arg0, val, next;

	if (!b || i > 5)
		return off;
	r = (void *)b->buf;
	arg0 = r->args[0];
	val = r->args[i];
	next = i < 5 ? r->args[i + 1] : 0;
	if (kind == ARG_PATH) {
		off = put_base(off, i, val, AT_FDCWD);
		return put_string(off, i, val);
	}
	if (kind == ARG_DFD)
		return put_base(off, i + 1, next, val);
	if (kind == ARG_PATH_AT || kind == ARG_STRING)
		return put_string(off, i, val);
	if (kind == ARG_FD)
		return put_fd(off, i, val);
	if (kind == ARG_SOCKADDR)
		return put_sockaddr(off, i, val, next);
	if (kind == ARG_NETLINK)
		return put_netlink(off, i, arg0, val, next);
	if (kind == ARG_MSGHDR)
		return put_msghdr(off, i, arg0, val);
	if (kind == ARG_FLAGS64)
		return put_u64(off, i, val);
	return off;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *t;
	struct task_state *s;
	struct scratch *b;
	struct rec_sys *r;
	u32 off = sizeof(*r);
	u64 now;
	s16 nr;

#if defined(__TARGET_ARCH_x86)
	nr = regs->orig_ax;
#else
	nr = regs->syscallno;
#endif
	/* rt_sigreturn restores the registers of before the signal: its number
	 * is gone at its exit. */
	if (nr >= 0 && !wanted(nr))
		return 0;
	t = bpf_get_current_task_btf();
	s = bpf_task_storage_get(&tasks, t, 0, 0);
	if (!s || s->generation != generation || s->nr < 0 || (nr >= 0 && s->nr != nr))
		return 0;
	nr = s->nr;
	s->nr = -1;
	barrier();
	b = scratch(SLOT_TASK);
	if (!b)
		return 0;
	now = bpf_ktime_get_ns();
	described(s, t, SLOT_TASK, WITH_EXE | WITH_CGROUP);
	r = (void *)b->buf;
	r->enter = s->enter;
	r->enter_seq = s->enter_seq;
	r->enter_cpu = s->enter_cpu;
	r->nr = nr;
	r->tid = t->pid;
	r->pad = 0;
	r->ret = ret;
	__builtin_memcpy(r->args, s->args, sizeof(r->args));
	for (u32 i = 0; i < 6; i++) {
		u8 kind = calls[nr & (CALLS - 1)].arg[i];

		if (kind)
			off = put_arg(off, i, kind);
	}
	if (off < sizeof(*r))
		return 0;
	head_fill(&r->h, REC_SYS_EXIT, s->flags & ST_BEGUN ? SY_BEGUN : 0, now);
	emit_scratch(b, off);
	return 0;
}
