/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Packets for tests, built from what differs from the usual: a UDP datagram from the host of port 0 to that of port 1.
 */
#ifndef ROUTERD_TESTS_BUILD_H
#define ROUTERD_TESTS_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#define BUILD_MAX 70000

struct build {
	const char *src, *dst;   /* NULL = 10.0.0.2, 10.0.1.2; the family is dst's (IPv6 default src 2001:db8:0::2) */
	unsigned port;           /* ingress port: MACs are 02:..:00:port from 02:..:01:port */
	const uint8_t *dst_mac;  /* NULL = the port's */
	uint16_t vlan, vlan_proto, pcp;  /* one tag if vlan_proto != 0 */
	uint16_t ethertype;      /* 0 = by family */
	uint8_t ttl;             /* 0 = 64; see zero_ttl */
	bool zero_ttl;
	uint8_t protocol;        /* 0 = 17 */
	uint8_t tos;
	uint16_t id, fragment;   /* IPv4 flags and offset word; IPv6: of a fragment header if has_fragment */
	bool has_fragment;       /* IPv6: put a fragment header in */
	uint32_t label;          /* IPv6 flow label */
	uint16_t sport, dport;   /* 0 = 1000, 2000; left out when the fragment has an offset */
	uint32_t payload;        /* bytes behind the L4 header; see l3_length */
	uint32_t l3_length;      /* != 0: payload such that the IP length is this */
	uint8_t ihl;             /* 0 = 5; options are NOPs */
	uint32_t padding;        /* bytes behind the IP packet */
	const uint8_t *extension;  /* IPv6: bytes put behind the fixed header */
	uint8_t extension_type, extension_length;
	uint32_t seed;           /* of the payload's bytes */
};

/* Build into @out (BUILD_MAX bytes). Returns the frame's length. */
uint32_t build(const struct build *b, uint8_t *out);

/* Write the IPv4 header checksum anew. @ip: the header. */
void build_checksum4(uint8_t *ip);

/* What a router makes of @in (untagged or tagged IPv4/IPv6): @out gets the frame as it must leave. @vlan_proto 0 = no
 * tag. Written without any of the daemon's code. Returns the length. */
uint32_t build_forwarded(const uint8_t *in, uint8_t *out, const uint8_t *dst_mac, const uint8_t *src_mac, uint16_t vlan,
	uint16_t vlan_proto);

/* A small random number generator (xorshift64*), so that a seed reproduces a run anywhere. */
uint64_t build_random(uint64_t *state);
/* ROUTERD_TEST_SEED or the time; printed to standard error with @name. */
uint64_t build_seed(const char *name);

#endif
