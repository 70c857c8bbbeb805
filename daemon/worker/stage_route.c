/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Second stage: addresses that are special, policy rules, look-up, reverse path filter, choice of the path, and what
 * the egress interface has to say. Order as in the kernel (semantics F12, F13), but that TTL has been looked at.
 */
#include "packet/flow_hash.h"
#include "packet/parse.h"
#include "packet/rewrite.h"
#include "worker/stage.h"

#define IPV6_MTU_MIN 1280u
#define LOOPBACK_IFINDEX 1u  /* the ingress interface of the kernel's reverse look-ups */

/* By the first byte of an address: may it be special? 0/8, 127/8, 224/3; ::/8, fe00::/8, ff00::/8. */
static const uint8_t suspect4[256] = { [0] = 1, [127] = 1, [224 ... 255] = 1 };
static const uint8_t suspect6[256] = { [0] = 1, [0xfe] = 1, [0xff] = 1 };

/* F4, F8 as overruled by V1; order as in the kernel's ip_route_input. 240/4 is forwarded (F5). */
static __attribute__((noinline)) enum verdict special4(const uint8_t *ip)
{
	uint32_t src = load_be32(ip + 12), dst = load_be32(ip + 16);

	if (dst >> 28 == 0xe)
		return VERDICT_KERNEL_LOCAL;
	if (src >> 28 == 0xe || src == 0xffffffff)
		return VERDICT_DROP_MARTIAN_SOURCE;
	if (dst == 0xffffffff || !(src | dst))
		return VERDICT_KERNEL_LOCAL;
	if (!src)
		return VERDICT_DROP_MARTIAN_SOURCE;
	if (!dst)
		return VERDICT_DROP_MARTIAN_DESTINATION;
	if (src >> 24 == 127 || dst >> 24 == 127)
		return VERDICT_KERNEL_SCOPE;
	return VERDICT_FORWARD;
}

static bool is_zero(const uint8_t *p, unsigned n)
{
	while (n && !*p)
		p++, n--;
	return !n;
}

static bool is_loopback6(const uint8_t *a)
{
	return is_zero(a, 15) && a[15] == 1;
}

static bool is_link_local6(const uint8_t *a)
{
	return a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
}

/* F2, F7. v4-mapped, ::/96 and fec0::/10 are forwarded (V5). */
static __attribute__((noinline)) enum verdict special6(const uint8_t *src, const uint8_t *dst)
{
	if (src[0] == 0xff || is_loopback6(src))
		return VERDICT_DROP_MARTIAN_SOURCE;
	if (is_loopback6(dst) || (dst[0] == 0xff && (dst[1] & 0xf) <= 1))
		return VERDICT_DROP_MARTIAN_DESTINATION;
	if (dst[0] == 0xff)
		return VERDICT_KERNEL_LOCAL;
	if (is_link_local6(src) || is_link_local6(dst) || is_zero(src, 16))
		return VERDICT_KERNEL_SCOPE;
	return VERDICT_FORWARD;
}

/* Would a rule look at this packet, or (@reverse) at the kernel's look-up of its source? Fragments have no ports,
 * the first one neither, as the kernel's dissector sees it (M4). */
static bool rules_match(const struct batch *b, const struct fib_rules *rules, const struct packet *p, uint32_t iif,
	bool reverse)
{
	const uint8_t *ip = packet_l3(p), *l4 = p->data + p->l4_offset;
	bool ipv4 = p->flags & PACKET_IPV4, ports;
	const uint8_t *src = ip + (ipv4 ? 12 : 8), *dst = ip + (ipv4 ? 16 : 24);
	uint8_t tos = ipv4 ? ip[1] : (uint8_t)(load_be16(ip) >> 4);
	uint32_t linear = packet_linear_length(b->pl->cache->table, p), end = p->l3_offset + p->l3_length;
	uint16_t sport = 0, dport = 0;

	ports = (p->flags & (PACKET_L4_VALID | PACKET_FRAGMENT)) == PACKET_L4_VALID &&
		p->l4_offset + 4u <= (linear < end ? linear : end);
	if (ports) {
		sport = load_be16(l4);
		dport = load_be16(l4 + 2);
	}
	if (reverse)
		return fib_rules_match(rules, ipv4 ? 4 : 6, iif, dst, src, tos, p->l4_protocol, dport, sport);
	return fib_rules_match(rules, ipv4 ? 4 : 6, iif, src, dst, tos, p->l4_protocol, sport, dport);
}

static bool leaves_by(const struct fib_group *g, uint16_t iface)
{
	for (unsigned i = 0; i < g->path_count; i++)
		if (g->paths[i].iface == iface)
			return true;
	return false;
}

/* F6: what fails here is not dropped, the kernel repeats the test, counts and drops. */
static __attribute__((noinline)) enum verdict check_reverse_path(struct batch *b, const struct packet *p,
	const struct fib_iface *in)
{
	const struct fib_rules *rules = __atomic_load_n(&b->fib->rules, __ATOMIC_CONSUME);
	const struct fib_group *g;
	bool fine;

	if (rules && rules_match(b, rules, p, LOOPBACK_IFINDEX, true))
		return VERDICT_KERNEL_RULE;
	b->lookups4++;
	g = fib_lookup4(b->fib, load_be32(packet_l3(p) + 12));
	if (!g)
		return VERDICT_KERNEL_RP_FILTER;
	if (in->flags & FIB_IFACE_RP_STRICT)
		fine = g->verdict == VERDICT_FORWARD && leaves_by(g, p->iface);
	else
		fine = g->verdict == VERDICT_FORWARD || g->verdict == VERDICT_KERNEL_OTHER_DEVICE;
	return fine ? VERDICT_FORWARD : VERDICT_KERNEL_RP_FILTER;
}

static __attribute__((noinline)) const struct fib_path *select_by_hash(const struct batch *b, struct packet *p,
	const struct fib_group *g)
{
	const struct fib_settings *s = fib_settings(b->fib);
	uint8_t policy = p->flags & PACKET_IPV4 ? s->hash_policy4 : s->hash_policy6;

	p->flow_hash = flow_hash(p, packet_linear_length(b->pl->cache->table, p), policy, s->hash_seed);
	p->flags |= PACKET_HASHED;
	return fib_select_path(g, p->flow_hash);
}

/* F15: the route's mtu, else the device's; a packet that the smaller one refuses is the kernel's to judge. */
static inline uint32_t path_mtu(const struct packet *p, const struct fib_group *g, const struct fib_iface *out)
{
	bool ipv4 = p->flags & PACKET_IPV4;
	uint32_t mtu = ipv4 ? out->mtu : out->mtu6;

	if (g->mtu && g->mtu < mtu)
		mtu = g->mtu;
	return ipv4 || mtu > IPV6_MTU_MIN ? mtu : IPV6_MTU_MIN;
}

/* The path is chosen: is its interface able to send the packet? A port that is being taken away leaves its traffic to
 * the kernel; a port without link drops, as the kernel's queue would. */
static enum verdict check_egress(const struct batch *b, const struct packet *p, const struct fib_group *g)
{
	const struct fib_iface *out = p->egress->iface;
	const struct pipeline *pl = b->pl;
	const struct port *port = out ? __atomic_load_n(&pl->ports[out->port], __ATOMIC_CONSUME) : NULL;
	const struct port_txq *txq = port ? port->worker_txq[pl->worker] : NULL;

	if (!txq)
		return VERDICT_KERNEL_OTHER_DEVICE;
	if (p->egress_iface == p->iface && (!(p->flags & PACKET_IPV4) || out->flags & FIB_IFACE_SEND_REDIRECTS))
		return VERDICT_KERNEL_REDIRECT;
	if (p->l3_length > path_mtu(p, g, out))
		return VERDICT_KERNEL_TOO_BIG;
	if (out->vlan && !rewrite_has_headroom(pl->cache->table, p))
		return VERDICT_KERNEL_HEADROOM;
	if (!(out->flags & FIB_IFACE_UP) || !__atomic_load_n(&txq->carrier, __ATOMIC_RELAXED))
		return VERDICT_DROP_LINK_DOWN;
	return VERDICT_FORWARD;
}

/* First packet of the batch for this interface: note what all of them need. plain_mtu: check_egress() would say
 * FORWARD to any packet up to that length that did not come in by the interface, whose route has no mtu, and that has
 * headroom for a tag if one is needed. */
static __attribute__((noinline)) struct egress *add_egress(const struct batch *b, uint16_t number)
{
	struct pipeline *pl = b->pl;
	struct egress *e = &pl->egresses[++pl->egress_count];
	const struct fib_iface *out = fib_iface(b->fib, number);
	const struct port *port = out ? __atomic_load_n(&pl->ports[out->port], __ATOMIC_CONSUME) : NULL;
	const struct port_txq *txq = port ? port->worker_txq[pl->worker] : NULL;

	pl->egress_index[number] = (uint8_t)pl->egress_count;
	*e = (struct egress){ .iface = out, .number = number };
	if (!out)
		return e;
	e->out = &pl->outs[out->port];
	e->mac_head = (uint64_t)load_raw16(out->mac) << 48;
	e->mac_tail = load_raw32(out->mac + 2);
	e->vlan = out->vlan;
	if (txq && out->flags & FIB_IFACE_UP && __atomic_load_n(&txq->carrier, __ATOMIC_RELAXED)) {
		e->plain_mtu4 = out->mtu;
		e->plain_mtu6 = out->mtu6 > IPV6_MTU_MIN ? out->mtu6 : IPV6_MTU_MIN;
	}
	return e;
}

/* What the short way below does not decide. */
static __attribute__((noinline)) enum verdict take_path_uncommon(const struct batch *b, struct packet *p,
	const struct fib_group *g, uint16_t number)
{
	if (p->egress == b->pl->egresses)
		p->egress = add_egress(b, number);
	return check_egress(b, p, g);
}

/* The last group of the batch that sent a packet the short way, whatever was in it: one path, no mtu of its own,
 * another interface than @in, which has no reverse path filter. What is left to ask of the next packet is its length
 * and, for a tag, its headroom. */
struct last_choice {
	const struct fib_group *group;
	const struct fib_iface *in;   /* NULL = no choice yet */
	struct egress *egress;
};

static inline bool same_choice(const struct last_choice *last, const struct fib_group *g, const struct fib_iface *in)
{
	return g == last->group && in == last->in;
}

static inline void set_path(struct packet *p, const struct fib_path *path, struct egress *e)
{
	p->egress_iface = path->iface;
	p->neighbour = path->neighbour;
	p->egress = e;
}

static inline enum verdict check_headroom(const struct batch *b, const struct packet *p, const struct egress *e)
{
	if (e->vlan && !rewrite_has_headroom(b->pl->cache->table, p))
		return VERDICT_KERNEL_HEADROOM;
	return VERDICT_FORWARD;
}

static inline uint32_t plain_mtu(const struct egress *e, bool ipv4)
{
	return ipv4 ? e->plain_mtu4 : e->plain_mtu6;
}

static inline enum verdict take_path(const struct batch *b, struct packet *p, const struct fib_group *g,
	const struct fib_iface *in, struct last_choice *last, bool ipv4)
{
	const struct fib_path *path = g->path_count > 1 ? select_by_hash(b, p, g) : g->paths;
	const struct pipeline *pl = b->pl;
	uint16_t number = path->iface;
	struct egress *e = &pl->egresses[pl->egress_index[number]];

	set_path(p, path, e);
	/* The empty entry, of an interface not seen in this batch, lets nothing pass. */
	if (p->l3_length > plain_mtu(e, ipv4) || g->mtu || number == p->iface)
		return take_path_uncommon(b, p, g, number);
	if (g->path_count == 1 && !(ipv4 && in->flags & (FIB_IFACE_RP_STRICT | FIB_IFACE_RP_LOOSE)))
		*last = (struct last_choice){ g, in, e };
	return check_headroom(b, p, e);
}

static inline enum verdict route4(struct batch *b, struct packet *p, const struct fib_rules *rules,
	const struct fib_iface *in, struct last_choice *last)
{
	const uint8_t *ip = packet_l3(p);
	const struct fib_group *g;
	enum verdict v;

	if (unlikely(suspect4[ip[12]] | suspect4[ip[16]])) {
		v = special4(ip);
		if (v != VERDICT_FORWARD)
			return v;
	}
	if (rules && rules_match(b, rules, p, in->ifindex, false))
		return VERDICT_KERNEL_RULE;
	b->lookups4++;
	g = fib_lookup4(b->fib, load_be32(ip + 16));
	if (same_choice(last, g, in) && p->l3_length <= last->egress->plain_mtu4) {
		set_path(p, g->paths, last->egress);
		return check_headroom(b, p, last->egress);
	}
	if (!g)
		return VERDICT_KERNEL_NO_ROUTE;
	if (g->verdict != VERDICT_FORWARD)
		return g->verdict;
	if (in->flags & (FIB_IFACE_RP_STRICT | FIB_IFACE_RP_LOOSE)) {
		v = check_reverse_path(b, p, in);
		if (v != VERDICT_FORWARD)
			return v;
	}
	return take_path(b, p, g, in, last, true);
}

static inline enum verdict route6(struct batch *b, struct packet *p, const struct fib_rules *rules,
	const struct fib_iface *in, struct last_choice *last)
{
	const uint8_t *src = packet_l3(p) + 8, *dst = src + 16;
	const struct fib_local6 *local = __atomic_load_n(&b->fib->local6, __ATOMIC_CONSUME);
	const struct fib_group *g;
	enum verdict v;

	if (unlikely(suspect6[src[0]] | suspect6[dst[0]])) {
		v = special6(src, dst);
		if (v != VERDICT_FORWARD)
			return v;
	}
	if (rules && rules_match(b, rules, p, in->ifindex, false))
		return VERDICT_KERNEL_RULE;
	if (local && fib_local6_match(local, dst))
		return VERDICT_KERNEL_LOCAL;
	b->lookups6++;
	g = fib_lookup6(b->fib, dst);
	if (same_choice(last, g, in) && p->l3_length <= last->egress->plain_mtu6) {
		set_path(p, g->paths, last->egress);
		return check_headroom(b, p, last->egress);
	}
	if (!g)
		return VERDICT_KERNEL_NO_ROUTE;
	if (g->verdict != VERDICT_FORWARD)
		return g->verdict;
	return take_path(b, p, g, in, last, false);
}

void stage_route(struct batch *b)
{
	const struct fib_rules *rules = __atomic_load_n(&b->fib->rules, __ATOMIC_CONSUME);
	const struct fib_iface **in = b->ingress;
	struct packet *p = b->packets, *end = p + b->count;
	struct last_choice last4 = { 0 }, last6 = { 0 };

	for (; p < end; p++, in++) {
		if (p->verdict != VERDICT_FORWARD)
			continue;
		if (p->flags & PACKET_IPV4)
			p->verdict = (uint8_t)route4(b, p, rules, *in, &last4);
		else
			p->verdict = (uint8_t)route6(b, p, rules, *in, &last6);
	}
}
