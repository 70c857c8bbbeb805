/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Who takes a packet: the kernel (XDP_PASS) or a worker of the daemon (its AF_XDP socket). One object per
 * port.
 *
 * Only what is clearly plain forwarding is taken; all that the data path would treat otherwise than the
 * kernel is passed, so that parity is by construction (semantics 9a RULE). Validation (version, lengths,
 * checksum) is not repeated here: a frame that has the bytes of an IP header goes on, and user space drops
 * and counts it.
 *
 * Multi-buffer ports: all headers read here lie in the linear part, so the same code is loaded for frames
 * beyond one page by bpf_program__set_flags(prog, BPF_F_XDP_HAS_FRAGS) before the load. Then count() must be
 * given bpf_xdp_get_buff_len() (Linux 5.18), because data_end is the end of the first buffer only.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

#define VLAN_ID_MASK 0x0fff
#define HOP_BY_HOP 0
#define ICMPV6 58
#define ND_FIRST 133
#define ND_LAST 137

#define IPV4_NET(a, bits, net) (((a) & bpf_htonl(~0u << (32 - (bits)))) == bpf_htonl(net))
#define IPV4_MULTICAST(a) IPV4_NET(a, 4, 0xe0000000)
#define IPV4_LOOPBACK(a) IPV4_NET(a, 8, 0x7f000000)

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, STEER_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct steer_port);
} port_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_VLANS);
	__type(key, struct steer_vlan_key);
	__type(value, struct steer_link);
} vlans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STEER_REASON_COUNT);
	__type(key, __u32);
	__type(value, struct steer_count);
} steer_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_ADDRESSES);
	__type(key, __be32);
	__type(value, __u32);
} local4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, STEER_ADDRESSES);
	__type(key, struct in6_addr);
	__type(value, __u32);
} local6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STEER_WORKERS);
	__type(key, __u32);
	__type(value, struct steer_heartbeat);
} heartbeat SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct steer_config);
} steer_config SEC(".maps");

struct vlan_tag {
	__be16 tci;
	__be16 inner_protocol;
};

static __always_inline void count(__u32 reason, __u64 bytes)
{
	struct steer_count *slot = bpf_map_lookup_elem(&steer_stats, &reason);

	if (!slot)
		return;
	slot->packets++;
	slot->bytes += bytes;
}

/* 16-bit loads: where access must be aligned, the Ethernet header lies 2 bytes off a multiple of 4. */
static __always_inline bool same_mac(const __u8 *a, const __u8 *b)
{
	const __u16 *x = (const __u16 *)a, *y = (const __u16 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]));
}

static __always_inline bool is_vlan(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

/* Martians (F4), limited broadcast, route_localnet: the kernel's. 0/8 and 240/4 are plain (V1, F5). */
static __always_inline bool special_ipv4(const struct iphdr *ip)
{
	__be32 from = ip->saddr, to = ip->daddr;

	return !to || to == bpf_htonl(INADDR_BROADCAST) || IPV4_LOOPBACK(to) || !from ||
	       from == bpf_htonl(INADDR_BROADCAST) || IPV4_LOOPBACK(from) || IPV4_MULTICAST(from);
}

static __always_inline enum steer_reason classify_ipv4(const struct iphdr *ip, const void *end)
{
	__be32 from, to;

	if ((const void *)(ip + 1) > end)
		return STEER_SHORT;
	if (ip->version != 4)
		return STEER_REDIRECTED; /* user space drops and counts it (F1) */
	if (ip->ihl != 5)
		return STEER_OPTIONS; /* F9 */
	if (ip->ttl <= 1)
		return STEER_TTL; /* F12 */
	from = ip->saddr;
	to = ip->daddr;
	if (IPV4_MULTICAST(to))
		return STEER_MULTICAST; /* F8 */
	if (special_ipv4(ip))
		return STEER_SPECIAL_ADDRESS;
	if (bpf_map_lookup_elem(&local4, &to))
		return STEER_LOCAL;
	if (bpf_map_lookup_elem(&local4, &from))
		return STEER_OWN_SOURCE; /* F4: a martian unless accept_local, which only the kernel knows */
	return STEER_REDIRECTED;
}

static __always_inline bool is_multicast(const struct in6_addr *a)
{
	return a->s6_addr[0] == 0xff;
}

static __always_inline bool is_link_local(const struct in6_addr *a)
{
	return a->s6_addr[0] == 0xfe && (a->s6_addr[1] & 0xc0) == 0x80;
}

/* :: or ::1 */
static __always_inline bool is_loopback_or_none(const struct in6_addr *a)
{
	const __be32 *w = a->s6_addr32;

	return !(w[0] | w[1] | w[2] | (w[3] & ~bpf_htonl(1)));
}

/* Never meant for transit, and a router that proxies neighbours must see them (kernel: ip6_forward). */
static __always_inline bool is_neighbour_discovery(const struct ipv6hdr *ip, const void *end)
{
	const __u8 *type = (const __u8 *)(ip + 1);

	if (ip->nexthdr != ICMPV6 || (const void *)(type + 1) > end)
		return false;
	return *type >= ND_FIRST && *type <= ND_LAST;
}

/* An own source address is no martian in IPv6: the kernel forwards it, and so may we. */
static __always_inline enum steer_reason classify_ipv6(const struct ipv6hdr *ip, const void *end)
{
	struct in6_addr to;

	if ((const void *)(ip + 1) > end)
		return STEER_SHORT;
	if (ip->version != 6)
		return STEER_REDIRECTED; /* user space drops and counts it (F2) */
	if (ip->nexthdr == HOP_BY_HOP)
		return STEER_HOP_BY_HOP; /* F10; other extension headers are not looked at in transit (F11) */
	if (ip->hop_limit <= 1)
		return STEER_TTL; /* F13 */
	if (is_multicast(&ip->daddr))
		return STEER_MULTICAST; /* F8 */
	if (is_loopback_or_none(&ip->daddr) || is_loopback_or_none(&ip->saddr) || is_multicast(&ip->saddr))
		return STEER_SPECIAL_ADDRESS; /* F2, F7 */
	if (is_link_local(&ip->daddr) || is_link_local(&ip->saddr))
		return STEER_LINK_LOCAL; /* F7: never leaves its link */
	to = ip->daddr;
	if (bpf_map_lookup_elem(&local6, &to))
		return STEER_LOCAL;
	if (is_neighbour_discovery(ip, end))
		return STEER_ICMPV6_ND;
	return STEER_REDIRECTED;
}

/* What is common to port and sub-interface, from the EtherType behind the tag on. */
static __always_inline enum steer_reason classify_link(const struct steer_link *link,
	const struct ethhdr *eth, __be16 protocol, const void *l3, const void *end)
{
	bool ipv4 = protocol == bpf_htons(ETH_P_IP);

	if (!ipv4 && protocol != bpf_htons(ETH_P_IPV6))
		return STEER_NOT_IP;
	if (eth->h_dest[0] & 1)
		return STEER_L2_MULTICAST; /* F3 */
	if (!same_mac(eth->h_dest, link->mac))
		return STEER_NOT_OUR_MAC; /* F3; macvlan and VRRP addresses too: the kernel knows them */
	if (link->flags & (ipv4 ? STEER_PASS_IPV4 : STEER_PASS_IPV6))
		return STEER_FORWARDING_OFF;
	return ipv4 ? classify_ipv4(l3, end) : classify_ipv6(l3, end);
}

/* One tag of a known sub-interface is fine and stays in the frame. The rest is the kernel's (V4). */
static __always_inline enum steer_reason classify_tagged(const struct ethhdr *eth, const void *end)
{
	const struct vlan_tag *tag = (const void *)(eth + 1);
	struct steer_vlan_key key;
	struct steer_link *link;

	if ((const void *)(tag + 1) > end)
		return STEER_SHORT;
	key.protocol = bpf_ntohs(eth->h_proto);
	key.id = bpf_ntohs(tag->tci) & VLAN_ID_MASK;
	if (!key.id || is_vlan(tag->inner_protocol))
		return STEER_VLAN_PRIORITY;
	link = bpf_map_lookup_elem(&vlans, &key);
	if (!link)
		return STEER_VLAN_UNKNOWN;
	return classify_link(link, eth, tag->inner_protocol, tag + 1, end);
}

/* STEER_REDIRECTED: the packet is one for the daemon, if the daemon is able to take it. */
static __always_inline enum steer_reason classify(const struct steer_port *port, const void *data,
	const void *end)
{
	const struct ethhdr *eth = data;

	if (!(port->flags & STEER_ENABLED))
		return STEER_DISABLED;
	if ((const void *)(eth + 1) > end)
		return STEER_SHORT;
	if (is_vlan(eth->h_proto))
		return classify_tagged(eth, end);
	return classify_link(&port->link, eth, eth->h_proto, eth + 1, end);
}

/*
 * The coarse clock (Linux 5.11) is exact enough and saves 16 of 118 ns per packet (test run on 6.18). It lags
 * behind the worker's clock by up to a tick, so a heartbeat may lie in the future; far in the future it is
 * garbage.
 */
static __always_inline bool is_stale(__u32 worker)
{
	struct steer_heartbeat *beat = bpf_map_lookup_elem(&heartbeat, &worker);
	__u32 zero = 0;
	struct steer_config *config = bpf_map_lookup_elem(&steer_config, &zero);
	__u64 now, then, limit;

	if (!beat || !config)
		return true;
	then = *(volatile __u64 *)&beat->nanoseconds;
	limit = *(volatile __u64 *)&config->stale_ns;
	if (!then || !limit)
		return true;
	now = bpf_ktime_get_coarse_ns();
	return (now > then ? now - then : then - now) > limit;
}

/* An empty slot gives the action in the flags: nothing is lost (afxdp-drivers 7). A full ring still drops. */
static __always_inline enum steer_reason redirect(const struct steer_port *port, __u32 queue, __u64 length)
{
	if (queue >= STEER_QUEUES)
		return STEER_NO_SOCKET;
	/* The socket would drop it; in generic mode GRO makes such frames (afxdp-drivers 5.5). */
	if (length > port->max_length)
		return STEER_TOO_LONG;
	if (is_stale(port->queue_worker[queue]))
		return STEER_STALE;
	if (bpf_redirect_map(&xsks, queue, XDP_PASS) != XDP_REDIRECT)
		return STEER_NO_SOCKET;
	return STEER_REDIRECTED;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	const void *data = (const void *)(long)ctx->data;
	const void *end = (const void *)(long)ctx->data_end;
	enum steer_reason reason = STEER_DISABLED;
	__u32 zero = 0;
	struct steer_port *port = bpf_map_lookup_elem(&port_config, &zero);

	if (port) {
		reason = classify(port, data, end);
		if (reason == STEER_REDIRECTED)
			reason = redirect(port, ctx->rx_queue_index, end - data);
	}
	count(reason, end - data);
	return reason == STEER_REDIRECTED ? XDP_REDIRECT : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
