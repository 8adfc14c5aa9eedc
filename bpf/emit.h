/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sending records: one ring buffer, numbers and loss by CPU, scratch space. */
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_count);
} counts SEC(".maps");

/* Records of variable length are put together here. One slot for each level
 * at which a program can interrupt another on the same CPU. */
enum slot { SLOT_TASK, SLOT_SWITCH, SLOT_ITER, SLOT_SAMPLE, SLOT_COUNT };
#define SCRATCH 8192
#define SCRATCH_FULL 4000 /* no new item from here on */

struct scratch {
	char buf[SCRATCH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOT_COUNT);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch(u32 slot)
{
	return bpf_map_lookup_elem(&scratches, &slot);
}

/* Tells the verifier that a value is at most mask, a power of two less one:
 * a mask that the compiler cannot reason away. Comparisons do not do: it makes
 * them on a copy, and kernels before 6.13 or so do not carry what a copy showed
 * over to the rest. */
#define BOUND(v, mask) asm volatile("%0 &= " #mask : "+r"(v))

/* A place in the scratch space; callers have checked against SCRATCH_FULL. */
static __always_inline char *place(struct scratch *s, u64 off)
{
	BOUND(off, 4095);
	return s->buf + off;
}

/* A kernel address as a number: global functions, which are verified once and
 * not at each call, take no typed pointers. A pointer that went through map
 * memory is a number to the verifier. */
static __always_inline u64 address(struct scratch *s, void *p)
{
	volatile u64 *at = (void *)s->buf + SCRATCH - sizeof(u64);

	*at = (u64)p;
	return *at;
}

static __always_inline struct cpu_count *count(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&counts, &zero);
}

/* The number is taken atomically: an interrupt's record may come in between. */
static __always_inline void head_fill(struct head *h, u8 type, u8 flags, u64 ts)
{
	struct cpu_count *c = count();

	h->seq = c ? __sync_fetch_and_add(&c->seq, 1) : 0;
	h->ts = ts;
	h->cpu = bpf_get_smp_processor_id();
	h->type = type;
	h->flags = flags;
}

static __always_inline int emit(void *rec, u64 size)
{
	struct cpu_count *c;

	if (!bpf_ringbuf_output(&events, rec, size, BPF_RB_NO_WAKEUP))
		return 0;
	/* Not always full: the ring's lock gives up waiting when a virtual
	 * machine stood still with it held. Once more. */
	if (!bpf_ringbuf_output(&events, rec, size, BPF_RB_NO_WAKEUP))
		return 0;
	c = count();
	if (c)
		__sync_fetch_and_add(&c->lost, 1);
	return -1;
}

/* Sends what the scratch space holds. */
static __always_inline int emit_scratch(struct scratch *s, u64 size)
{
	BOUND(size, 8191);
	return emit(s->buf, size);
}
