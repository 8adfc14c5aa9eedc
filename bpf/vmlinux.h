/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * The kernel types the programs read, by hand: only the members in use, in any
 * order, relocated at load time against the running kernel (CO-RE). A member
 * that only some kernels have is read behind bpf_core_field_exists; a member
 * that was renamed has a flavour (struct name___old).
 */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef __u8 u8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_USER_STACK = 1 << 8,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0,
	BPF_RB_NO_WAKEUP = 1 << 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

/* Registers of the system call a task is in. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long ax, di, si, dx, r10, r8, r9, orig_ax, sp;
};
struct thread_info {
	u32 status; /* TS_COMPAT while in a 32-bit call */
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
};
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 orig_x0;
	s32 syscallno;
};
struct thread_info {
	unsigned long flags; /* TIF_32BIT */
};
#endif

struct qstr {
	u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct inode {
	u16 i_mode;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root, pwd;
};

struct mm_struct {
	unsigned long arg_start, arg_end;
	struct file *exe_file;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	u64 net_cookie; /* since 5.14 */
	struct ns_common ns;
};

struct nsproxy {
	struct net *net_ns;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	struct pid *pids[4];
};

struct kernfs_node {
	const char *name;
	struct kernfs_node *__parent; /* since 6.15 */
	u64 id;
};
struct kernfs_node___old {
	struct kernfs_node___old *parent;
};

struct cgroup;

struct work_struct {
	void *func;
};

struct rcu_work {
	struct work_struct work;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct work_struct destroy_work;
	struct rcu_work destroy_rwork;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
	struct cgroup_subsys_state *subsys[16];
};

struct sched_entity {
	unsigned char sched_delayed; /* since 6.12: asleep, though on_rq */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int on_cpu, on_rq;
	struct sched_entity se;
	int exit_state, exit_code;
	unsigned in_iowait : 1;
	int pid, tgid;
	u64 start_time;
	char comm[16];
	struct task_struct *real_parent, *group_leader;
	struct mm_struct *mm;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct files_struct *files;
	struct fs_struct *fs;
};
struct task_struct___old {
	long state; /* until 5.14 */
};

struct linux_binprm {
	const char *filename;
	struct file *file;
};

struct irqaction {
	unsigned int irq;
	const char *name;
};

struct hrtimer {
	void *function;
};

struct timer_list {
	void *function;
};

struct fqdir {
	struct net *net;
	struct work_struct destroy_work;
};

struct request {
	unsigned int cmd_flags, __data_len;
};

struct bvec_iter {
	unsigned int bi_size;
};

struct bio {
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
};

struct in6_addr {
	u8 in6_u[16];
};

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

struct unix_address {
	int len;
	char name[0];
};

struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct sock *peer;
};

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_perf_event_data {
	u64 sample_period;
};

#pragma clang attribute pop
