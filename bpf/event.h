/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The wire format: what the programs put into the ring buffer and tracer/ebpf
 * decodes. Records have a common head and a length of their own, the ring
 * buffer's. Little endian, times are bpf_ktime_get_ns, tasks are tids of the
 * initial pid namespace (0 is idle); a rec_task says which task a tid is from
 * then on. The Go side of these structs is generated from this file.
 */
#pragma once

enum rec_type {
	REC_NONE,
	REC_TASK,
	REC_STATUS,
	REC_SWITCH,
	REC_WAKE,
	REC_WAKE_IRQ,
	REC_FORK,
	REC_EXEC,
	REC_ARGV,
	REC_COMM,
	REC_EXIT,
	REC_NETNS,
	REC_SYS_ENTER,
	REC_SYS_EXIT,
	REC_WORK_QUEUE,
	REC_WORK_START,
	REC_WORK_END,
	REC_TIMER,
	REC_BLOCK_ISSUE,
	REC_BLOCK_DONE,
	REC_LOCK_BEGIN,
	REC_LOCK_END,
	REC_POINT,
	REC_SAMPLE,
	REC_IRQ_NAME,
	REC_MESSAGE_SENT,
	REC_MESSAGE_READ,
	REC_BIO,
	REC_USER,
};

/* Numbers of one CPU are consecutive, lost records included: a hole is a loss. */
struct head {
	u64 ts;
	u32 seq;
	u16 cpu;
	u8 type;
	u8 flags;
};

/* head.flags of REC_SWITCH and REC_STATUS */
#define SW_PREEMPT 1
#define SW_IOWAIT 2
#define SW_NO_STACK 4 /* slept long enough, but the stack could not be taken */
#define SW_ON_CPU 8   /* REC_STATUS: running */
#define SW_ON_RQ 16   /* REC_STATUS: runnable */
/* of REC_WAKE* */
#define WK_SPURIOUS 1
/* of REC_EXIT */
#define EX_GROUP 1
/* of REC_SYS_EXIT: a REC_SYS_ENTER was sent */
#define SY_BEGUN 1
/* of REC_USER: it returns, or goes on without */
#define US_END 1
/* of REC_TASK */
#define TA_KTHREAD 1
/* of REC_ARGV */
#define AV_CUT 1

#define COMM_LEN 16

/* Followed by exe_len bytes of the executable's path, then cg_len of the
 * cgroup's: components leaf first, each ended by a zero byte. */
struct rec_task {
	struct head h;
	u32 tid, tgid, parent, nspid;
	u64 start, leader_start, net;
	char comm[COMM_LEN];
	u16 exe_len, cg_len;
	u32 pad;
};

/* state is task->__state; nr the system call, -1 for none. nstack frames of 8
 * bytes follow, leaf first: of next in a switch, of the task in a status. */
struct rec_switch {
	struct head h;
	u32 prev, next;
	u16 state;
	s16 nr;
	u16 nstack;
	u16 pad;
};

enum ctx_kind { CTX_TASK, CTX_SOFTIRQ, CTX_HARDIRQ, CTX_NMI, CTX_IDLE };
enum ctx_what {
	WHAT_NONE,
	WHAT_IRQ,     /* num: interrupt */
	WHAT_SOFTIRQ, /* num: vector */
	WHAT_HRTIMER, /* fn, flow */
	WHAT_TIMER,   /* fn, flow */
	WHAT_LOCAL_TIMER,
	WHAT_IRQ_WORK,
	WHAT_RESCHEDULE,
	WHAT_CALL_FUNCTION,
	WHAT_CALL_FUNCTION_SINGLE,
	WHAT_PLATFORM_IPI,
};

/* Who really did it: cur was the current task. */
struct context {
	u64 flow, fn;
	u32 cur;
	u16 num;
	u8 kind, what;
	u8 is_inline; /* a softirq that runs in the task that raised it */
	u8 pad[7];
};

struct rec_wake {
	struct head h;
	u32 cur, wakee;
};

struct rec_wake_irq {
	struct head h;
	struct context ctx;
	u32 wakee, pad;
};

struct rec_fork {
	struct head h;
	u32 parent, child;
	u64 clone_flags;
};

/* Followed by the paths of a rec_task, then name_len of bprm->filename. */
struct rec_exec {
	struct head h;
	u32 tid, old;
	char comm[COMM_LEN];
	u16 exe_len, cg_len, name_len, pad;
};

/* Followed by len bytes of the argument area: zero-ended strings. */
struct rec_argv {
	struct head h;
	u32 tid, len;
};

struct rec_comm {
	struct head h;
	u32 tid, pad;
	char comm[COMM_LEN];
};

struct rec_exit {
	struct head h;
	u32 tid;
	s32 code;
};

struct rec_netns {
	struct head h;
	u32 tid, pad;
	u64 cookie;
};

/* Followed by items up to the end: struct item, then its bytes. */
struct rec_sys {
	struct head h;
	u64 enter;
	u32 enter_seq;
	u16 enter_cpu;
	s16 nr;
	u32 tid, pad;
	s64 ret;
	u64 args[6];
};

/* How an argument of a system call is read; the table by call is Go's. */
enum arg_kind {
	ARG_NONE,     /* the register says it all */
	ARG_PATH,     /* user string; a relative one starts at the working folder */
	ARG_DFD,      /* folder that the path in the next argument starts at */
	ARG_PATH_AT,  /* user string; the argument before it is an ARG_DFD */
	ARG_STRING,   /* user string */
	ARG_FD,       /* file descriptor: its file's path, or its socket */
	ARG_SOCKADDR, /* struct sockaddr, length in the next argument */
	ARG_NETLINK,  /* buffer sent on the descriptor in argument 0 */
	ARG_MSGHDR,   /* struct msghdr sent on the descriptor in argument 0 */
	ARG_FLAGS64,  /* pointer to a u64 of flags (clone3) */
};

enum item_kind {
	ITEM_NONE,
	ITEM_STRING,  /* zero-ended */
	ITEM_BASE,    /* components of the folder a relative path starts at */
	ITEM_FILE,    /* components of a descriptor's file */
	ITEM_SOCKET,  /* struct sock_item, then the Unix address of the peer or the socket itself */
	ITEM_ADDR,    /* struct sockaddr */
	ITEM_NETLINK, /* u16 protocol, then the u16 types of its messages */
	ITEM_U64,
};

struct item {
	u8 kind, arg;
	u16 len;
};

struct sock_item {
	u16 family, protocol;
};

struct rec_work {
	struct head h;
	u64 work, fn;
	u64 value; /* of the object the item is part of: network namespace cookie, cgroup id */
	struct context ctx;
};

struct rec_timer {
	struct head h;
	u32 tid, what;
	u64 timer, fn;
};

struct rec_block {
	struct head h;
	u64 rq;
	u32 bytes, op;
	struct context ctx;
};

/* What a task hands to a block device. */
struct rec_bio {
	struct head h;
	u32 tid, bytes, op, pad;
};

struct rec_lock {
	struct head h;
	u32 tid, how;
	u64 lock;
};

enum point_id { POINT_NONE, POINT_CGROUP_MKDIR, POINT_CGROUP_RMDIR, POINT_CGROUP_RELEASE, POINT_CGROUP_ATTACH, POINT_EXIT_MMAP, POINT_WAIT };

/* Followed by a zero-ended path when there is one. */
struct rec_point {
	struct head h;
	u64 flow;
	s64 value;
	u32 tid;
	u16 id, len;
};

/* Followed by nkernel, then nuser frames of 8 bytes. */
struct rec_sample {
	struct head h;
	u32 tid;
	s16 nr;
	u8 nkernel, nuser;
	u8 kind, num;
	u8 pad[6];
};

/* Bytes that a task sent on a socket or read from one. flow is the connection's
 * number, the same at both ends; its lowest bit is the direction. */
struct rec_message {
	struct head h;
	u64 flow;
	u32 tid, bytes;
	u16 family, protocol;
	u32 pad;
};

/* A task enters or leaves a user function. */
struct rec_user {
	struct head h;
	u32 tid, function; /* number of the function in the recording */
	u64 sp;
};

struct rec_irq_name {
	struct head h;
	u32 num, pad;
	char name[32];
};

/* How the arguments of one system call are read. */
struct call_spec {
	u8 want;
	u8 arg[6];
	u8 pad;
};

/* Counters of one CPU, for Go. */
struct cpu_count {
	u32 seq, lost, stack_fails, pad;
};
