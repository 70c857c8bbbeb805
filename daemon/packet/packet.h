/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A packet in a worker's hands: one or more frames (more: linked through frame.next, see seg_count) and what the
 * stages learn about it. Bytes stay where they were received. One cache line. Owned by one worker at a time.
 * Multi-byte fields are in host order unless named __be.
 */
#ifndef ROUTERD_PACKET_PACKET_H
#define ROUTERD_PACKET_PACKET_H

#include <stdint.h>

#include "common/counter.h"
#include "packet/frame.h"

#define BATCH_SIZE 64  /* packets per run through the stages */

enum packet_flag {
	PACKET_IPV4 = 1 << 0,
	PACKET_IPV6 = 1 << 1,
	PACKET_FRAGMENT = 1 << 2,       /* MF set or offset > 0; IPv6: fragment header */
	PACKET_DF = 1 << 3,             /* IPv4 */
	PACKET_L4_VALID = 1 << 4,       /* l4_offset and l4_protocol found (not a non-first fragment); the L4
	                                 * header itself may still be cut short: compare with the lengths */
	PACKET_HASHED = 1 << 5,         /* flow_hash is set */
};

struct egress;

struct packet {
	uint8_t *data;          /* first byte of the Ethernet header, in the first frame */
	uint32_t frame;         /* first frame; FRAME_NONE = the driver's descriptor was invalid, length is 0 then */
	uint32_t length;        /* bytes from the Ethernet header on, over all segments; padding is cut by rewrite */
	uint32_t wire_length;   /* length as received: what the counters count; set by parse */
	uint32_t l3_length;     /* IP total length, header included (IPv6: 40 + payload length, so up to 65575) */
	uint32_t flow_hash;     /* 31 bits, by the hash policy (semantics M1-M5) */
	uint32_t neighbour;     /* slot (fib.h) of the gateway, set by route; 0 = on link */
	uint16_t seg_count;     /* 1 = all in the first frame */
	uint16_t port;          /* ingress port number */
	uint16_t iface;         /* ingress interface (fib.h number): the port itself or a VLAN sub-interface */
	uint16_t egress_iface;  /* set by route */
	uint16_t flags;         /* enum packet_flag */
	uint16_t l4_offset;     /* from data */
	uint8_t l3_offset;      /* from data: 14, or 18 with one VLAN tag */
	uint8_t verdict;        /* enum verdict; 0 (FORWARD) until decided otherwise */
	uint8_t l4_protocol;    /* IPPROTO_*, after the extension headers (IPv6) */
	uint8_t reserved;
	uint64_t dst_mac;       /* set by the neighbour stage: 6 bytes as they lie on the wire, low end first */
	struct egress *egress;  /* set by route: the worker's notes on the egress interface (pipeline.h) */
} cache_aligned;

_Static_assert(sizeof(struct packet) == CACHE_LINE, "one packet, one cache line");

static inline uint8_t *packet_l3(const struct packet *p)
{
	return p->data + p->l3_offset;
}

/* Bytes of the packet that lie in its first frame; headers are looked for only there. */
uint32_t packet_first_length(const struct frame_table *t, const struct packet *p);

static inline uint32_t packet_linear_length(const struct frame_table *t, const struct packet *p)
{
	return p->seg_count <= 1 ? p->length : packet_first_length(t, p);
}

/* Cut the end off, down to @length bytes, which are at least those of the headers. Returns the first frame of the
 * segments that fell off (linked by frame.next, *@ret_count of them; the caller puts them), or FRAME_NONE. */
uint32_t packet_trim(struct frame_table *t, struct packet *p, uint32_t length, unsigned *ret_count);

/* Copy the whole packet, over all segments, to @out, which has room for @p->length bytes. */
void packet_copy_out(const struct frame_table *t, const struct packet *p, uint8_t *out);

#endif
