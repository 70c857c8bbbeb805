/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Third stage: the link-layer address of the next hop. Unknown: the kernel gets the packet and resolves it (F21).
 */
#include "common/clock.h"
#include "packet/parse.h"
#include "worker/stage.h"

/* On link: the packet's own destination is the neighbour. */
static uint32_t find_on_link(const struct fib *fib, const struct packet *p)
{
	const uint8_t *ip = packet_l3(p);

	if (p->flags & PACKET_IPV4)
		return fib_neigh_find(fib, p->egress_iface, 4, ip + 16);
	return fib_neigh_find(fib, p->egress_iface, 6, ip + 24);
}

static __attribute__((noinline)) enum verdict resolve(const struct fib *fib, struct packet *p, uint32_t now_s)
{
	uint32_t slot = p->neighbour;
	struct fib_neigh *n;
	uint64_t state;

	if (slot == FIB_NEIGH_NONE) {
		slot = find_on_link(fib, p);
		if (slot == FIB_NEIGH_NONE)
			return VERDICT_KERNEL_NEIGHBOUR;
		p->neighbour = slot;
	}
	n = fib_neigh(fib, slot);
	state = __atomic_load_n(&n->mac_state, __ATOMIC_RELAXED);
	if (!(state & FIB_NEIGH_VALID))
		return VERDICT_KERNEL_NEIGHBOUR;
	p->dst_mac = state & FIB_NEIGH_MAC_MASK;
	fib_neigh_mark(n, now_s);
	return VERDICT_FORWARD;
}

void stage_neighbour(struct batch *b)
{
	uint32_t now_s = (uint32_t)(b->pl->now_ns / NS_PER_S);
	uint32_t last = UINT32_MAX;  /* slot of the last packet's neighbour, at first none: packets in a row share it */
	const struct fib *fib = b->fib;
	uint64_t last_mac = 0;

	for (struct packet *p = b->packets, *end = p + b->count; p < end; p++) {
		if (p->verdict != VERDICT_FORWARD)
			continue;
		if (p->neighbour == last) {
			p->dst_mac = last_mac;
			continue;
		}
		p->verdict = (uint8_t)resolve(fib, p, now_s);
		if (p->verdict != VERDICT_FORWARD)
			continue;
		last = p->neighbour;
		last_mac = p->dst_mac;
	}
}
