/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Changes to a packet that is about to be forwarded: MAC addresses, VLAN tag, TTL or hop limit, IPv4 checksum; nothing
 * else is touched (semantics R36). Pure. The caller owns the packet and holds the only reference to its first frame.
 */
#ifndef ROUTERD_PACKET_REWRITE_H
#define ROUTERD_PACKET_REWRITE_H

#include "packet/parse.h"

/* Is there room before the packet to make it leave with a VLAN tag? */
static inline bool rewrite_has_headroom(const struct frame_table *t, const struct packet *p)
{
	return p->l3_offset > ETHERNET_LENGTH || (size_t)(p->data - frame_data(t, p->frame)) >= VLAN_TAG_LENGTH;
}

/* Add, remove or replace the VLAN tag by moving the start of the frame; the EtherType stays where it is. The priority
 * bits are 0, as the kernel sends them by default. Then the MAC addresses must be written. */
void rewrite_vlan(struct packet *p, uint16_t vlan, __be16 vlan_proto);

/* @dst_mac: 6 bytes as on the wire, low end first, the other two 0; @src_head: the source's first two bytes in those
 * two; @src_tail: its other four. */
static inline void rewrite_macs(uint8_t *data, uint64_t dst_mac, uint64_t src_head, uint32_t src_tail)
{
	uint64_t first = dst_mac | src_head;

	memcpy(data, &first, sizeof(first));
	memcpy(data + sizeof(first), &src_tail, sizeof(src_tail));
}

/* TTL - 1, and the checksum to it, which is then one more (RFC 1141, 1624; F14). Both lie in one little-endian word:
 * TTL in its low byte, which is > 1, so nothing is borrowed; the checksum in its upper half. A sum of 0xffff is written
 * as 0, and a carry out of the top comes in again at the bottom: both happen from 0xfffe on and both add one. */
static inline void rewrite_ttl4(uint8_t *ip)
{
	uint32_t word = load_raw32(ip + 8), next = word - 1 + 0x10000;

	if (word >= 0xfffe0000)
		next += 0x10000;
	memcpy(ip + 8, &next, sizeof(next));
}

static inline void rewrite_hop_limit(uint8_t *ip)
{
	ip[7]--;
}

#endif
