/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Work that runs on somebody else's time. Interrupts, softirqs and timers are
 * not records: they keep the context of their CPU, which goes out with a wake
 * or a queued work item. Workqueue items are records.
 */
#pragma once

struct cpu_context {
	u32 hard_count; /* interrupts begun on this CPU */
	u16 irq;
	u8 hard;      /* enum ctx_what of the interrupt it is in */
	u8 soft;      /* vector + 1 */
	u8 is_inline; /* the softirq runs in the task that raised it */
	u64 irqaction;
	u64 hr_fn[2], hr_timer[2]; /* hrtimer that expires: [0] in softirq, [1] in interrupt context */
	u64 tm_fn, tm_timer;       /* timer wheel timer that expires */
	u64 raised_by[16];         /* task that raised the vector */
	u32 raised_at[16];         /* hard_count then */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_context);
} contexts SEC(".maps");

/* The generation in which an interrupt's name was sent, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} irq_named SEC(".maps");

static __always_inline struct cpu_context *context(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&contexts, &zero);
}

static __always_inline void send_irq_name(u32 irq, u64 action)
{
	u32 *named = bpf_map_lookup_elem(&irq_named, &irq), gen = generation;
	struct rec_irq_name r = {};

	if (!named || *named == gen)
		return;
	head_fill(&r.h, REC_IRQ_NAME, 0, bpf_ktime_get_ns());
	r.num = irq;
	bpf_probe_read_kernel_str(r.name, sizeof(r.name), BPF_CORE_READ((struct irqaction *)action, name));
	if (!emit(&r, sizeof(r)))
		*named = gen;
}

/* True when the current task itself is what runs. */
static __always_inline bool in_task(struct cpu_context *c)
{
	return !c || !(c->hard | c->soft);
}

static __always_inline void fill_context(struct context *x, struct cpu_context *c, u32 cur)
{
	__builtin_memset(x, 0, sizeof(*x));
	x->cur = cur;
	if (!c) {
		return;
	} else if (c->hard) {
		x->kind = CTX_HARDIRQ;
		x->what = c->hard;
		if (c->hr_fn[1]) {
			x->what = WHAT_HRTIMER;
			x->fn = c->hr_fn[1];
			x->flow = c->hr_timer[1];
		} else if (c->hard == WHAT_IRQ) {
			x->num = c->irq;
			send_irq_name(c->irq, c->irqaction);
		}
	} else if (c->soft) {
		x->kind = CTX_SOFTIRQ;
		x->what = WHAT_SOFTIRQ;
		x->num = c->soft - 1;
		x->is_inline = c->is_inline;
		if (c->tm_fn) {
			x->what = WHAT_TIMER;
			x->fn = c->tm_fn;
			x->flow = c->tm_timer;
		} else if (c->hr_fn[0]) {
			x->what = WHAT_HRTIMER;
			x->fn = c->hr_fn[0];
			x->flow = c->hr_timer[0];
		}
	} else if (!cur) {
		x->kind = CTX_IDLE;
	}
}

static __always_inline int hard_enter(u8 what)
{
	struct cpu_context *c = context();

	if (c) {
		c->hard = what;
		c->hard_count++;
	}
	return 0;
}

static __always_inline int hard_exit(void)
{
	struct cpu_context *c = context();

	if (c) {
		c->hard = 0;
		c->hr_fn[1] = 0;
	}
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_entry, int irq, struct irqaction *action)
{
	struct cpu_context *c = context();

	if (c) {
		c->hard = WHAT_IRQ;
		c->hard_count++;
		c->irq = irq;
		c->irqaction = (u64)action;
	}
	return 0;
}

#define HARD(name, what)                                                      \
	SEC("tp_btf/" #name "_entry") int BPF_PROG(name##_in) { return hard_enter(what); } \
	SEC("tp_btf/" #name "_exit") int BPF_PROG(name##_out) { return hard_exit(); }

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_exit)
{
	return hard_exit();
}
HARD(local_timer, WHAT_LOCAL_TIMER)
HARD(irq_work, WHAT_IRQ_WORK)
HARD(reschedule, WHAT_RESCHEDULE)
HARD(call_function, WHAT_CALL_FUNCTION)
HARD(call_function_single, WHAT_CALL_FUNCTION_SINGLE)
HARD(x86_platform_ipi, WHAT_PLATFORM_IPI)

/* arm64 and others: one pair of tracepoints for all inter-processor interrupts. */
SEC("tp_btf/ipi_entry")
int BPF_PROG(ipi_in)
{
	return hard_enter(WHAT_CALL_FUNCTION);
}
SEC("tp_btf/ipi_exit")
int BPF_PROG(ipi_out)
{
	return hard_exit();
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raise, unsigned int vec)
{
	struct cpu_context *c = context();

	if (c) {
		vec &= 15;
		c->raised_by[vec] = in_task(c) ? bpf_get_current_task() : 0;
		c->raised_at[vec] = c->hard_count;
	}
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vec)
{
	struct cpu_context *c = context();

	if (c) {
		vec &= 15;
		c->soft = vec + 1;
		/* local_bh_enable runs it at once; with an interrupt in
		 * between it is irq_exit that does. */
		c->is_inline = c->raised_by[vec] == bpf_get_current_task() && c->raised_at[vec] == c->hard_count;
		c->raised_by[vec] = 0;
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit)
{
	struct cpu_context *c = context();

	if (c) {
		c->soft = 0;
		c->tm_fn = 0;
		c->hr_fn[0] = 0;
	}
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_in, struct hrtimer *timer)
{
	struct cpu_context *c = context();
	u32 hard;

	if (c) {
		hard = c->hard ? 1 : 0;
		c->hr_fn[hard] = (u64)BPF_CORE_READ(timer, function);
		c->hr_timer[hard] = (u64)timer;
	}
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(hrtimer_out)
{
	struct cpu_context *c = context();

	if (c)
		c->hr_fn[c->hard ? 1 : 0] = 0;
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(timer_in, struct timer_list *timer)
{
	struct cpu_context *c = context();

	if (c) {
		c->tm_fn = (u64)BPF_CORE_READ(timer, function);
		c->tm_timer = (u64)timer;
	}
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(timer_out)
{
	struct cpu_context *c = context();

	if (c)
		c->tm_fn = 0;
	return 0;
}

/* The object a work item is embedded in, for the few kinds that a teardown is
 * made of: it says whose teardown it is, which no queuer does. */
static __always_inline u64 work_object(struct work_struct *w, u64 fn)
{
	struct cgroup_subsys_state *css;
	struct fqdir *f;

	if (!fn)
		return 0;
	if (fn == fn_fqdir) {
		struct net *n;

		f = (void *)w - bpf_core_field_offset(struct fqdir, destroy_work);
		n = BPF_CORE_READ(f, net);
		if (!n)
			return 0;
		return bpf_core_field_exists(n->net_cookie) ? BPF_CORE_READ(n, net_cookie) : BPF_CORE_READ(n, ns.inum);
	}
	if (fn == fn_css_killed || fn == fn_css_release)
		css = (void *)w - bpf_core_field_offset(struct cgroup_subsys_state, destroy_work);
	else if (fn == fn_css_free)
		css = (void *)w - bpf_core_field_offset(struct cgroup_subsys_state, destroy_rwork);
	else
		return 0;
	return BPF_CORE_READ(css, cgroup, kn, id);
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(work_queue, int cpu, void *pwq, struct work_struct *work)
{
	struct rec_work r = {};

	head_fill(&r.h, REC_WORK_QUEUE, 0, bpf_ktime_get_ns());
	r.work = (u64)work;
	r.fn = (u64)BPF_CORE_READ(work, func);
	r.value = work_object(work, r.fn);
	fill_context(&r.ctx, context(), bpf_get_current_pid_tgid());
	emit(&r, sizeof(r));
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(work_start, struct work_struct *work)
{
	struct rec_work r = {};

	head_fill(&r.h, REC_WORK_START, 0, bpf_ktime_get_ns());
	r.work = (u64)work;
	r.fn = (u64)BPF_CORE_READ(work, func);
	r.value = work_object(work, r.fn);
	r.ctx.cur = bpf_get_current_pid_tgid();
	emit(&r, sizeof(r));
	return 0;
}

/* The item may be freed by now: only its address is used. */
SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(work_end, struct work_struct *work)
{
	struct rec_work r = {};

	head_fill(&r.h, REC_WORK_END, 0, bpf_ktime_get_ns());
	r.work = (u64)work;
	r.ctx.cur = bpf_get_current_pid_tgid();
	emit(&r, sizeof(r));
	return 0;
}
