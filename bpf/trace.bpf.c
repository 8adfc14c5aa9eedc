//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* One object; the programs are in the headers, one for each concern. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "event.h"
#include "emit.h"
#include "scope.h"
#include "deferred.bpf.h"
#include "sched.bpf.h"
#include "syscall.bpf.h"
#include "flow.bpf.h"
#include "bio.bpf.h"
#include "message.bpf.h"
#include "sample.bpf.h"
#include "user.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Only types that something refers to are in the object's BTF, from which the
 * Go side is generated. */
union wire {
	struct head head;
	struct rec_task rec_task;
	struct rec_switch rec_switch;
	struct rec_wake rec_wake;
	struct rec_wake_irq rec_wake_irq;
	struct rec_fork rec_fork;
	struct rec_exec rec_exec;
	struct rec_argv rec_argv;
	struct rec_comm rec_comm;
	struct rec_exit rec_exit;
	struct rec_netns rec_netns;
	struct rec_sys rec_sys;
	struct rec_work rec_work;
	struct rec_timer rec_timer;
	struct rec_block rec_block;
	struct rec_bio rec_bio;
	struct rec_lock rec_lock;
	struct rec_point rec_point;
	struct rec_sample rec_sample;
	struct rec_irq_name rec_irq_name;
	struct rec_message rec_message;
	struct rec_user rec_user;
	struct context context;
	struct item item;
	struct sock_item sock_item;
	struct call_spec call_spec;
	struct cpu_count cpu_count;
	enum rec_type rec_type;
	enum arg_kind arg_kind;
	enum item_kind item_kind;
	enum ctx_kind ctx_kind;
	enum ctx_what ctx_what;
	enum point_id point_id;
};
const union wire *wire __attribute__((unused));
