/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages between tasks of this machine: what followed tasks send on stream
 * and datagram sockets that know their other end, and read from them. A message
 * to a task that is awake wakes nobody, so without these nothing would tell
 * when a server took a request up. call_trace_sock_send_length and
 * call_trace_sock_recv_length in net/socket.c, for every family.
 */
#pragma once

#define AF_INET 2
#define AF_INET6 10

/* One end of a connection as a number. */
static __always_inline u64 inet_end(u64 addr, u16 port)
{
	return addr << 16 | port;
}

static __always_inline u64 v6_word(void *a)
{
	u64 w[2];

	if (bpf_probe_read_kernel(w, sizeof(w), a))
		return 0;
	return w[0] * 31 + w[1];
}

/* A socket that takes IPv4 peers, too, keeps their addresses in both forms. */
static __always_inline bool is_mapped(struct sock *sk)
{
	u32 w[4];

	if (!bpf_core_field_exists(sk->__sk_common.skc_v6_daddr))
		return false;
	return !bpf_probe_read_kernel(w, sizeof(w), &sk->__sk_common.skc_v6_daddr) && !w[0] && !w[1] && w[2] == __builtin_bswap32(0xffff);
}

/* Both ends of a socket, as it sees them; false when it is not connected. */
static __always_inline bool ends_of(struct sock *sk, u16 family, u64 *own, u64 *peer)
{
	u16 port;

	if (family == AF_UNIX) {
		struct unix_sock *u = bpf_skc_to_unix_sock(sk);
		struct sock *other;

		if (!u)
			return false;
		other = u->peer;
		if (!other)
			return false;
		*own = bpf_get_socket_cookie(sk);
		*peer = bpf_get_socket_cookie(other);
		return true;
	}
	if (family != AF_INET && family != AF_INET6)
		return false;
	port = sk->__sk_common.skc_dport;
	if (!port)
		return false;
	if (family == AF_INET || is_mapped(sk)) {
		*own = inet_end(sk->__sk_common.skc_rcv_saddr, sk->__sk_common.skc_num);
		*peer = inet_end(sk->__sk_common.skc_daddr, __builtin_bswap16(port));
	} else if (bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		*own = inet_end(v6_word(&sk->__sk_common.skc_v6_rcv_saddr), sk->__sk_common.skc_num);
		*peer = inet_end(v6_word(&sk->__sk_common.skc_v6_daddr), __builtin_bswap16(port));
	}
	return true;
}

/* The number of a connection, lowest bit: which end sends. */
static __always_inline u64 connection(u64 from, u64 to)
{
	u64 a = from < to ? from : to, b = from < to ? to : from, h = a * 0x9e3779b97f4a7c15 ^ b;

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9;
	return (h ^ h >> 32) << 1 | (from < to);
}

static __always_inline int send_message(struct sock *sk, int bytes, u8 type)
{
	struct task_struct *t;
	struct rec_message r;
	struct task_state *s;
	u64 own, peer;

	if (bytes <= 0)
		return 0;
	t = bpf_get_current_task_btf();
	s = state_of(t);
	if (!s || !is_followed(s))
		return 0;
	__builtin_memset(&r, 0, sizeof(r));
	r.family = sk->__sk_common.skc_family;
	if (!ends_of(sk, r.family, &own, &peer))
		return 0;
	r.flow = type == REC_MESSAGE_SENT ? connection(own, peer) : connection(peer, own);
	r.protocol = sk->sk_protocol;
	r.tid = t->pid;
	r.bytes = bytes;
	head_fill(&r.h, type, 0, bpf_ktime_get_ns());
	return emit(&r, sizeof(r));
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(message_sent, struct sock *sk, int ret)
{
	send_message(sk, ret, REC_MESSAGE_SENT);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(message_read, struct sock *sk, int ret)
{
	send_message(sk, ret, REC_MESSAGE_READ);
	return 0;
}
