/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Validation of received packets before they are forwarded, to the letter of semantics section 2 (F1, F2, F9, F10, V2),
 * and what the later stages need to know about them. Pure; the packet belongs to the caller.
 *
 * Headers must lie in the first frame; @linear is the number of the packet's bytes there (packet_linear_length).
 * The usual packet is handled inline, all others by functions of parse.c.
 */
#ifndef ROUTERD_PACKET_PARSE_H
#define ROUTERD_PACKET_PARSE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/bits.h"
#include "packet/checksum.h"
#include "packet/packet.h"
#include "packet/verdict.h"

#define ETHERNET_LENGTH 14u
#define VLAN_TAG_LENGTH 4u
#define IPV4_LENGTH 20u
#define IPV6_LENGTH 40u

/* EtherTypes as load_raw16() sees them. */
#define ETHERTYPE_IPV4 ((uint16_t)__builtin_bswap16(0x0800))
#define ETHERTYPE_IPV6 ((uint16_t)__builtin_bswap16(0x86dd))
#define ETHERTYPE_8021Q ((uint16_t)__builtin_bswap16(0x8100))
#define ETHERTYPE_8021AD ((uint16_t)__builtin_bswap16(0x88a8))

#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_DCCP 33
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_ESP 50
#define PROTOCOL_AH 51
#define PROTOCOL_ICMPV6 58
#define PROTOCOL_NO_NEXT 59
#define PROTOCOL_DESTINATION_OPTIONS 60
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDPLITE 136

static inline bool ethertype_is_vlan(uint16_t type)
{
	return type == ETHERTYPE_8021Q || type == ETHERTYPE_8021AD;
}

/* An IPv4 header that does not begin with 0x45: fills @p as far as it is valid and says why it is not plain. */
enum verdict parse_ipv4_uncommon(struct packet *p, uint32_t linear);

/* Flags of an IPv4 fragment. @word: the flags and offset, host order. */
uint16_t parse_ipv4_fragment(uint16_t word);

/* Follow the extension headers that forwarding skips (semantics F11), for l4_offset, l4_protocol and the flags. */
void parse_ipv6_extensions(struct packet *p, uint32_t linear);

/* Is it an ICMPv6 neighbour discovery message (types 133 to 137)? The kernel may be a neighbour proxy. */
bool parse_is_neighbour_discovery(const struct packet *p, uint32_t linear);

/* Needs data, length, l3_offset. FORWARD: valid and plain, and l3_length, flags, l4_* are set. */
static inline enum verdict parse_ipv4(struct packet *p, uint32_t linear)
{
	const uint8_t *ip = packet_l3(p);
	uint32_t offset = p->l3_offset, total;
	uint16_t word;

	if (unlikely(linear < offset + IPV4_LENGTH))
		return VERDICT_DROP_SHORT;
	if (unlikely(ip[0] != 0x45))
		return parse_ipv4_uncommon(p, linear);
	if (unlikely(!checksum_ipv4_good(ip)))
		return VERDICT_DROP_CHECKSUM;
	total = load_be16(ip + 2);
	if (unlikely(total < IPV4_LENGTH || total > p->length - offset))
		return VERDICT_DROP_LENGTH;
	word = load_be16(ip + 6);
	p->flags = PACKET_IPV4 | PACKET_L4_VALID | (word >> 14 & 1 ? PACKET_DF : 0);
	if (unlikely(word & 0x3fff))
		p->flags = parse_ipv4_fragment(word);
	p->l3_length = total;
	p->l4_protocol = ip[9];
	p->l4_offset = (uint16_t)(offset + IPV4_LENGTH);
	return likely(ip[8] > 1) ? VERDICT_FORWARD : VERDICT_KERNEL_TTL;
}

/* The packet that nearly all are: IPv4 without tag, options and fragmentation, in one frame, TTL > 1, valid. Does
 * everything for it at once; false = nothing was done, take the long way. @length >= 34. */
static inline bool parse_plain_ipv4(struct packet *p, const uint8_t *data, uint32_t length)
{
	const uint8_t *ip = data + ETHERNET_LENGTH;
	uint32_t total = load_be16(ip + 2);

	if (ip[0] != 0x45 || load_raw16(ip + 6) & (uint16_t)__builtin_bswap16(0x3fff) || ip[8] <= 1)
		return false;
	if (total < IPV4_LENGTH || total > length - ETHERNET_LENGTH || !checksum_ipv4_good(ip))
		return false;
	p->l3_length = total;
	p->flags = (uint16_t)(PACKET_IPV4 | PACKET_L4_VALID | (ip[6] & 0x40u) / (0x40u / PACKET_DF));
	p->l4_offset = ETHERNET_LENGTH + IPV4_LENGTH;
	p->l3_offset = ETHERNET_LENGTH;
	p->l4_protocol = ip[9];
	return true;
}

/* Likewise IPv6 with TCP or UDP directly behind the header. */
static inline bool parse_plain_ipv6(struct packet *p, const uint8_t *data, uint32_t length)
{
	const uint8_t *ip = data + ETHERNET_LENGTH;
	uint32_t total = IPV6_LENGTH + load_be16(ip + 4);

	if (length < ETHERNET_LENGTH + IPV6_LENGTH || (ip[0] & 0xf0) != 0x60 || ip[7] <= 1)
		return false;
	if (total > length - ETHERNET_LENGTH || (ip[6] != PROTOCOL_TCP && ip[6] != PROTOCOL_UDP))
		return false;
	p->l3_length = total;
	p->flags = PACKET_IPV6 | PACKET_L4_VALID;
	p->l4_offset = ETHERNET_LENGTH + IPV6_LENGTH;
	p->l3_offset = ETHERNET_LENGTH;
	p->l4_protocol = ip[6];
	return true;
}

static inline bool parse_ipv6_is_extension(uint8_t next)
{
	return next == PROTOCOL_ROUTING || next == PROTOCOL_FRAGMENT || next == PROTOCOL_AH ||
		next == PROTOCOL_DESTINATION_OPTIONS;
}

/* As parse_ipv4(). */
static inline enum verdict parse_ipv6(struct packet *p, uint32_t linear)
{
	const uint8_t *ip = packet_l3(p);
	uint32_t offset = p->l3_offset, total;
	uint8_t next;

	if (unlikely(linear < offset + IPV6_LENGTH))
		return VERDICT_DROP_SHORT;
	if (unlikely((ip[0] & 0xf0) != 0x60))
		return VERDICT_DROP_VERSION;
	total = IPV6_LENGTH + load_be16(ip + 4);
	if (unlikely(total > p->length - offset))
		return VERDICT_DROP_LENGTH;
	next = ip[6];
	p->flags = PACKET_IPV6 | PACKET_L4_VALID;
	p->l3_length = total;
	p->l4_protocol = next;
	p->l4_offset = (uint16_t)(offset + IPV6_LENGTH);
	if (next == PROTOCOL_HOP_BY_HOP)
		return VERDICT_KERNEL_OPTIONS;
	if (unlikely(ip[7] <= 1))
		return VERDICT_KERNEL_TTL;
	if (next == PROTOCOL_TCP || next == PROTOCOL_UDP)
		return VERDICT_FORWARD;
	if (next == PROTOCOL_ICMPV6 && parse_is_neighbour_discovery(p, linear))
		return VERDICT_KERNEL_ND;
	if (parse_ipv6_is_extension(next))
		parse_ipv6_extensions(p, linear);
	return VERDICT_FORWARD;
}

#endif
