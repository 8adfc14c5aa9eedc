/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * User functions of followed tasks. A hit costs the task a trap into the kernel,
 * some microseconds, whoever it is: who has nothing to do with the operations
 * pays too, and is left out here.
 */
#pragma once

static __always_inline int user_function(struct pt_regs *ctx, u8 flags)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct task_state *s = state_of(t);
	struct rec_user r = {};

	if (!s || !is_followed(s))
		return 0;
	r.tid = t->pid;
	r.sp = ctx->sp;
	r.function = bpf_get_attach_cookie(ctx);
	head_fill(&r.h, REC_USER, flags, bpf_ktime_get_ns());
	emit(&r, sizeof(r));
	return 0;
}

SEC("uprobe")
int user_begin(struct pt_regs *ctx)
{
	return user_function(ctx, 0);
}

SEC("uprobe")
int user_end(struct pt_regs *ctx)
{
	return user_function(ctx, US_END);
}
