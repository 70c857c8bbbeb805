/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/parse.h"

#define EXTENSIONS_MAX 8  /* more than that nobody sends; what lies behind is then simply not known */
#define ND_FIRST 133
#define ND_LAST 137

uint16_t parse_ipv4_fragment(uint16_t word)
{
	return (uint16_t)(PACKET_IPV4 | PACKET_FRAGMENT | (word & 0x4000 ? PACKET_DF : 0) |
		(word & 0x1fff ? 0 : PACKET_L4_VALID));
}

/* The order of the tests is the kernel's (F1), so that its counters and ours name the same cause. */
enum verdict parse_ipv4_uncommon(struct packet *p, uint32_t linear)
{
	const uint8_t *ip = packet_l3(p);
	uint32_t offset = p->l3_offset, header = (ip[0] & 0xfu) * 4, total = load_be16(ip + 2);
	uint16_t word = load_be16(ip + 6);

	if (ip[0] >> 4 != 4 || header < IPV4_LENGTH)
		return VERDICT_DROP_VERSION;
	if (linear < offset + header)
		return VERDICT_DROP_SHORT;
	if (checksum(ip, header) != 0)
		return VERDICT_DROP_CHECKSUM;
	if (total < header || total > p->length - offset)
		return VERDICT_DROP_LENGTH;
	p->flags = word & 0x3fff ? parse_ipv4_fragment(word) :
		(uint16_t)(PACKET_IPV4 | PACKET_L4_VALID | (word & 0x4000 ? PACKET_DF : 0));
	p->l3_length = total;
	p->l4_protocol = ip[9];
	p->l4_offset = (uint16_t)(offset + header);
	return VERDICT_KERNEL_OPTIONS;
}

/* Length of the extension header at @h, whose first 8 bytes are there. */
static uint32_t extension_length(uint8_t type, const uint8_t *h)
{
	if (type == PROTOCOL_FRAGMENT)
		return 8;
	if (type == PROTOCOL_AH)
		return (h[1] + 2u) * 4;
	return (h[1] + 1u) * 8;
}

void parse_ipv6_extensions(struct packet *p, uint32_t linear)
{
	uint32_t end = p->l3_offset + p->l3_length, at = p->l4_offset;
	uint8_t type = p->l4_protocol;
	unsigned n = 0;

	if (end > linear)
		end = linear;
	for (; parse_ipv6_is_extension(type); n++) {
		const uint8_t *h = p->data + at;

		if (n == EXTENSIONS_MAX || at + 8 > end)
			goto unknown;
		if (type == PROTOCOL_FRAGMENT) {
			p->flags |= PACKET_FRAGMENT;
			if (load_be16(h + 2) & 0xfff8)
				goto unknown;
		}
		at += extension_length(type, h);
		type = h[0];
	}
	if (at > end)
		goto unknown;
	p->l4_offset = (uint16_t)at;
	p->l4_protocol = type;
	return;
unknown:
	p->flags &= (uint16_t)~PACKET_L4_VALID;
}

bool parse_is_neighbour_discovery(const struct packet *p, uint32_t linear)
{
	uint32_t at = p->l3_offset + IPV6_LENGTH;
	uint8_t type;

	if (p->l3_length <= IPV6_LENGTH || linear <= at)
		return false;
	type = p->data[at];
	return type >= ND_FIRST && type <= ND_LAST;
}
