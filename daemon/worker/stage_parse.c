/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * First stage: ingress interface, station address, validation. What steer.bpf passes to the kernel is recognised here
 * again, because the two may disagree for a moment when a setting changes.
 */
#include "packet/parse.h"
#include "worker/stage.h"

static inline bool same_mac(const uint8_t *a, const uint8_t *b)
{
	return !((load_raw32(a) ^ load_raw32(b)) | (uint32_t)(load_raw16(a + 4) ^ load_raw16(b + 4)));
}

/* The sub-interface of a tagged frame; FIB_IFACE_NONE when the kernel is to look after it (V4). */
static uint16_t vlan_iface(const struct fib *fib, struct packet *p, uint32_t linear, uint16_t *type)
{
	uint16_t outer = *type, id, number;
	const struct fib_iface *iface;

	if (linear < ETHERNET_LENGTH + VLAN_TAG_LENGTH)
		return FIB_IFACE_NONE;
	id = load_be16(p->data + 14) & 0xfff;
	*type = load_raw16(p->data + 16);
	if (!id || ethertype_is_vlan(*type))
		return FIB_IFACE_NONE;
	p->l3_offset = ETHERNET_LENGTH + VLAN_TAG_LENGTH;
	number = fib_vlan_iface(fib, p->port, id, outer);
	iface = fib_iface(fib, number);
	return iface && iface->flags & FIB_IFACE_UP ? number : FIB_IFACE_NONE;
}

static inline enum verdict parse_l3(struct packet *p, uint32_t linear, uint16_t type, const struct fib_iface *iface)
{
	if (unlikely(type != ETHERTYPE_IPV4 && type != ETHERTYPE_IPV6))
		return VERDICT_KERNEL_NOT_IP;
	if (unlikely(!iface || !same_mac(p->data, iface->mac)))
		return VERDICT_KERNEL_NOT_OUR_MAC;
	if (iface->flags & FIB_IFACE_VRF)
		return VERDICT_KERNEL_VRF;
	return type == ETHERTYPE_IPV4 ? parse_ipv4(p, linear) : parse_ipv6(p, linear);
}

/* Any packet, in any state. */
static __attribute__((noinline)) enum verdict parse_any(const struct batch *b, struct packet *p,
	const struct fib_iface **ret_iface)
{
	uint32_t linear = packet_linear_length(b->pl->cache->table, p);
	uint16_t number, type;

	if (unlikely(linear < ETHERNET_LENGTH))
		return p->frame == FRAME_NONE ? VERDICT_DROP_INVALID_DESCRIPTOR : VERDICT_DROP_SHORT;
	number = __atomic_load_n(&b->fib->port_iface[p->port], __ATOMIC_RELAXED);
	type = load_raw16(p->data + 12);
	p->l3_offset = ETHERNET_LENGTH;
	if (ethertype_is_vlan(type)) {
		number = vlan_iface(b->fib, p, linear, &type);
		if (number == FIB_IFACE_NONE)
			return VERDICT_KERNEL_VLAN;
	}
	p->iface = number;
	*ret_iface = fib_iface(b->fib, number);
	return parse_l3(p, linear, type, *ret_iface);
}

/* The untagged interface of the port that the last packet came from; packets of a batch mostly share it. */
struct ingress {
	const struct fib_iface *iface;
	uint64_t mac;     /* shifted up by 16 bits, as it is compared; all ones: nothing is plain here (none, or VRF) */
	uint16_t number;
	uint16_t port;
};

static inline struct ingress look_up_ingress(const struct fib *fib, uint16_t port)
{
	uint16_t number = __atomic_load_n(&fib->port_iface[port], __ATOMIC_RELAXED);
	const struct fib_iface *iface = fib_iface(fib, number);
	uint64_t mac = UINT64_MAX;

	if (iface && !(iface->flags & FIB_IFACE_VRF))
		mac = (uint64_t)load_raw32(iface->mac) << 16 | (uint64_t)load_raw16(iface->mac + 4) << 48;
	return (struct ingress){ .iface = iface, .mac = mac, .number = number, .port = port };
}

/* The short way of a plain packet to its station. */
static inline bool parse_plain(const struct ingress *in, struct packet *p, uint32_t length)
{
	const uint8_t *data = p->data;
	uint64_t head;
	uint16_t type;

	if (p->seg_count != 1 || length < ETHERNET_LENGTH + IPV4_LENGTH)
		return false;
	memcpy(&head, data, sizeof(head));
	type = load_raw16(data + 12);
	if (head << 16 != in->mac)
		return false;
	if (type == ETHERTYPE_IPV4)
		return parse_plain_ipv4(p, data, length);
	return type == ETHERTYPE_IPV6 && parse_plain_ipv6(p, data, length);
}

void stage_parse(struct batch *b)
{
	struct packet *p = b->packets, *end = p + b->count;
	const struct fib_iface **iface = b->ingress;
	struct ingress in = look_up_ingress(b->fib, p->port);

	for (; p < end; p++, iface++) {
		uint32_t length = p->length;

		if (p->port != in.port)
			in = look_up_ingress(b->fib, p->port);
		p->wire_length = length;
		p->iface = in.number;
		*iface = in.iface;
		if (!parse_plain(&in, p, length))
			p->verdict = (uint8_t)parse_any(b, p, iface);
	}
}
