/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/flow_hash.h"

#include "packet/parse.h"

#define FLOW_LABEL_MASK ((uint32_t)__builtin_bswap32(0x000fffff))

/* What is hashed. The two ends are put in order before, so that both directions look alike. */
struct flow_key {
	struct flow_end {
		uint64_t hi, lo;  /* address; IPv4: hi = 0 */
		uint32_t port;    /* as on the wire */
	} ends[2];
	uint32_t label;   /* IPv6 flow label, masked, as on the wire */
	uint32_t protocol;
};

static void set_addresses4(struct flow_key *k, const uint8_t *ip)
{
	k->ends[0].lo = load_raw32(ip + 12);
	k->ends[1].lo = load_raw32(ip + 16);
}

static void set_addresses6(struct flow_key *k, const uint8_t *ip)
{
	for (unsigned i = 0; i < 2; i++) {
		k->ends[i].hi = load_raw64(ip + 8 + 16 * i);
		k->ends[i].lo = load_raw64(ip + 16 + 16 * i);
	}
}

/* Destination unreachable, source quench, redirect, time exceeded, parameter problem. */
static bool icmp_is_error(uint8_t type)
{
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* Header that an ICMP error quotes, NULL if it is none or too little of it is there. ICMP and ICMPv6 headers have
 * 8 bytes both. A fragment with an offset has no L4_VALID. */
static const uint8_t *quoted_header(const struct packet *p, uint32_t linear)
{
	const uint8_t *icmp = p->data + p->l4_offset;
	bool ipv4 = p->flags & PACKET_IPV4;
	uint32_t end = p->l3_offset + p->l3_length;

	if (end > linear)
		end = linear;
	if (!(p->flags & PACKET_L4_VALID) || p->l4_offset + 8 + (ipv4 ? IPV4_LENGTH : IPV6_LENGTH) > end)
		return NULL;
	if (ipv4)
		return p->l4_protocol == PROTOCOL_ICMP && icmp_is_error(icmp[0]) ? icmp + 8 : NULL;
	/* Directly behind the IPv6 header only; types 1 to 4 are the errors that quote a packet. */
	if (packet_l3(p)[6] != PROTOCOL_ICMPV6 || icmp[0] < 1 || icmp[0] > 4)
		return NULL;
	return icmp + 8;
}

/* Policy 0. */
static void set_l3(struct flow_key *k, const struct packet *p, uint32_t linear)
{
	const uint8_t *quoted = quoted_header(p, linear), *ip = quoted ? quoted : packet_l3(p);

	if (p->flags & PACKET_IPV4) {
		set_addresses4(k, ip);
		return;
	}
	set_addresses6(k, ip);
	k->label = load_raw32(ip) & FLOW_LABEL_MASK;
	k->protocol = ip[6];
}

static bool has_ports(uint8_t protocol)
{
	switch (protocol) {
	case PROTOCOL_TCP:
	case PROTOCOL_UDP:
	case PROTOCOL_DCCP:
	case PROTOCOL_ESP:  /* the SPI lies there */
	case PROTOCOL_SCTP:
	case PROTOCOL_UDPLITE:
		return true;
	}
	return false;
}

/* Policy 1. */
static void set_l4(struct flow_key *k, const struct packet *p, uint32_t linear)
{
	const uint8_t *ip = packet_l3(p), *l4 = p->data + p->l4_offset;

	if (p->flags & PACKET_IPV4)
		set_addresses4(k, ip);
	else
		set_addresses6(k, ip);
	k->protocol = p->l4_protocol;
	if (p->flags & PACKET_FRAGMENT) {
		/* Later IPv6 fragments do not know the protocol: leave it out for all. */
		if (p->flags & PACKET_IPV6)
			k->protocol = PROTOCOL_FRAGMENT;
		return;
	}
	if (!(p->flags & PACKET_L4_VALID) || !has_ports(p->l4_protocol))
		return;
	if (p->l4_offset + 4u > linear || p->l4_offset + 4u > p->l3_offset + p->l3_length)
		return;
	k->ends[0].port = load_raw16(l4);
	k->ends[1].port = load_raw16(l4 + 2);
}

static bool end_is_less(const struct flow_end *a, const struct flow_end *b)
{
	if (a->hi != b->hi)
		return a->hi < b->hi;
	if (a->lo != b->lo)
		return a->lo < b->lo;
	return a->port < b->port;
}

/* A multiplication by an odd number loses nothing, the shift brings the high bits down again. */
static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

static uint32_t hash_key(const struct flow_key *k, uint32_t seed)
{
	bool swap = end_is_less(&k->ends[1], &k->ends[0]);
	const struct flow_end *a = &k->ends[swap], *b = &k->ends[!swap];
	uint64_t h = mix((uint64_t)seed << 32 | (uint32_t)~seed, a->lo);

	h = mix(h, b->lo);
	h = mix(h, (uint64_t)a->port << 48 | (uint64_t)b->port << 32 | k->protocol);
	if (a->hi | b->hi | k->label) {
		h = mix(h, a->hi);
		h = mix(h, b->hi);
		h = mix(h, k->label);
	}
	h = mix(h, h >> 32);
	return (uint32_t)(h >> 33);
}

uint32_t flow_hash(const struct packet *p, uint32_t linear, uint8_t policy, uint32_t seed)
{
	struct flow_key k = { 0 };

	if (policy == 1 || policy == 3)
		set_l4(&k, p, linear);
	else
		set_l3(&k, p, linear);
	return hash_key(&k, seed);
}
