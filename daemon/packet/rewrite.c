/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/rewrite.h"

void rewrite_vlan(struct packet *p, uint16_t vlan, __be16 vlan_proto)
{
	uint8_t *l3 = packet_l3(p);
	uint8_t offset = vlan ? ETHERNET_LENGTH + VLAN_TAG_LENGTH : ETHERNET_LENGTH;

	p->data = l3 - offset;
	p->length = p->length - p->l3_offset + offset;
	p->l4_offset = (uint16_t)(p->l4_offset - p->l3_offset + offset);
	p->l3_offset = offset;
	if (!vlan)
		return;
	memcpy(p->data + 12, &vlan_proto, sizeof(vlan_proto));
	store_be16(p->data + 14, vlan);
}
