/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which links are interfaces of the FIB: the ports and their VLAN sub-interfaces, in whatever order they become
 * known.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "control/mirror_private.h"

/* ---- ports ---- */

static int port_find(const struct mirror *m, uint32_t ifindex)
{
	for (unsigned i = 0; i < FIB_PORT_MAX; i++)
		if (m->ports[i].used && m->ports[i].ifindex == ifindex)
			return i;
	return -1;
}

uint16_t iface_port_of(const struct mirror *m, uint32_t ifindex)
{
	int i = port_find(m, ifindex);

	return i < 0 ? MIRROR_NO_PORT : m->ports[i].port;
}

struct family_walk {
	struct mirror *m;
	uint32_t parent;
};

static void update_child(void *ctx, struct table_node *n)
{
	struct family_walk *w = ctx;
	struct link *l = container_of(n, struct link, node);

	if (l->known && l->pub.vlan_proto && l->pub.parent == w->parent)
		iface_update(w->m, l);
}

static void port_changed(struct mirror *m, uint32_t ifindex)
{
	struct family_walk w = { m, ifindex };
	struct link *l = link_find(m, ifindex);

	if (l)
		iface_update(m, l);
	table_foreach(&m->links, update_child, &w);
	sets_work(m, MIRROR_INLINE_WORK);
	sync_wanted(m);
}

int mirror_set_port(struct mirror *m, uint32_t ifindex, uint16_t port)
{
	int i = port_find(m, ifindex);

	if (!ifindex || port >= FIB_PORT_MAX)
		return -EINVAL;
	for (unsigned free = 0; i < 0 && free < FIB_PORT_MAX; free++)
		if (!m->ports[free].used)
			i = free;
	if (i < 0)
		return -ENOSPC;
	m->ports[i].ifindex = ifindex;
	m->ports[i].port = port;
	m->ports[i].used = true;
	port_changed(m, ifindex);
	return 0;
}

void mirror_clear_port(struct mirror *m, uint32_t ifindex)
{
	int i = port_find(m, ifindex);

	if (i < 0)
		return;
	m->ports[i].used = false;
	port_changed(m, ifindex);
}

/* ---- numbers ---- */

/* Round robin, so that a number which packets under way still carry is not another device at once. */
static uint16_t number_alloc(struct mirror *m)
{
	for (unsigned i = 0; i < FIB_IFACE_MAX - 1; i++) {
		m->last_iface = m->last_iface % (FIB_IFACE_MAX - 1) + 1;
		if (!m->ifaces[m->last_iface])
			return m->last_iface;
	}
	return FIB_IFACE_NONE;
}

/* ---- the FIB's view ---- */

static bool is_vlan(const struct link *l)
{
	bool proto = l->pub.vlan_proto == htons(0x8100) || l->pub.vlan_proto == htons(0x88a8);

	/* VLAN 0 is a priority tag; the kernel gets those. */
	return proto && l->pub.netnsid < 0 && l->pub.vlan_id >= 1 && l->pub.vlan_id <= 4094;
}

static uint16_t port_for(const struct mirror *m, const struct link *l)
{
	if (!l->known)
		return MIRROR_NO_PORT;
	if (!l->pub.vlan_proto)
		return iface_port_of(m, l->pub.ifindex);
	return is_vlan(l) ? iface_port_of(m, l->pub.parent) : MIRROR_NO_PORT;
}

static uint16_t flags_for(const struct mirror *m, const struct link *l)
{
	uint8_t rp = l->conf.rp_filter > m->all.rp_filter ? l->conf.rp_filter : m->all.rp_filter;
	bool oper = l->pub.operstate == IF_OPER_UP || l->pub.operstate == IF_OPER_UNKNOWN;
	uint16_t flags = 0;

	if (l->pub.flags & IFF_UP && l->pub.carrier && oper)
		flags |= FIB_IFACE_UP;
	if (l->pub.vrf)
		flags |= FIB_IFACE_VRF;
	if (rp)
		flags |= rp == 1 ? FIB_IFACE_RP_STRICT : FIB_IFACE_RP_LOOSE;
	if (l->conf.send_redirects || m->all.send_redirects)
		flags |= FIB_IFACE_SEND_REDIRECTS;
	if (l->conf.forwarding4)
		flags |= FIB_IFACE_FORWARDING4;
	if (l->conf.forwarding6)
		flags |= FIB_IFACE_FORWARDING6;
	return flags;
}

static void describe(const struct mirror *m, const struct link *l, struct fib_iface *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ifindex = l->pub.ifindex;
	ret->mtu = l->pub.mtu;
	ret->mtu6 = l->conf.mtu6 && l->conf.mtu6 < l->pub.mtu ? l->conf.mtu6 : l->pub.mtu;
	if (ret->mtu6 < 1280)
		ret->mtu6 = 1280;
	ret->number = l->pub.iface;
	ret->port = l->pub.port;
	ret->vlan = l->pub.vlan_proto ? l->pub.vlan_id : 0;
	ret->vlan_proto = l->pub.vlan_proto;
	ret->flags = flags_for(m, l);
	memcpy(ret->mac, l->pub.mac, 6);
	memcpy(ret->name, l->pub.name, sizeof(ret->name));
}

static void tell_vlan(struct mirror *m, struct link *l, bool present)
{
	bool same = l->vlan_told && present && l->vlan_port == l->pub.port && l->vlan_id == l->pub.vlan_id &&
		l->vlan_proto == l->pub.vlan_proto;

	if (l->vlan_told && !same && m->hooks.vlan)
		m->hooks.vlan(m->ctx, l->vlan_port, l->vlan_id, l->vlan_proto, l->vlan_mac, false);
	if (present && m->hooks.vlan && !(same && !memcmp(l->vlan_mac, l->pub.mac, 6)))
		m->hooks.vlan(m->ctx, l->pub.port, l->pub.vlan_id, l->pub.vlan_proto, l->pub.mac, true);
	l->vlan_told = present;
	l->vlan_port = l->pub.port;
	l->vlan_id = l->pub.vlan_id;
	l->vlan_proto = l->pub.vlan_proto;
	memcpy(l->vlan_mac, l->pub.mac, 6);
}

static void users_changed(struct mirror *m, struct link *l, bool ours)
{
	nexthop_device_changed(m, l->pub.ifindex);
	sets_device_changed(m, l->pub.ifindex);
	neigh_iface_changed(m, l, ours);
}

void iface_drop(struct mirror *m, struct link *l)
{
	if (l->vlan_told)
		tell_vlan(m, l, false);
	if (l->pub.iface == FIB_IFACE_NONE)
		return;
	neigh_iface_changed(m, l, false);
	if (l->published)
		fib_iface_del(m->fib, l->pub.iface);
	m->ifaces[l->pub.iface] = NULL;
	l->published = false;
	l->pub.iface = FIB_IFACE_NONE;
	l->pub.port = MIRROR_NO_PORT;
	users_changed(m, l, false);
}

/* The FIB compares nothing, so that is done here: links are told about often, and mostly without news. */
static void iface_publish(struct mirror *m, struct link *l)
{
	const struct fib_iface *old = l->published ? fib_iface(m->fib, l->pub.iface) : NULL;
	struct fib_iface new;

	describe(m, l, &new);
	if (old && !memcmp(old, &new, sizeof(new)))
		return;
	if (fib_iface_set(m->fib, &new) < 0)
		mirror_out_of_memory(m);
	else
		l->published = true;
}

/* Each message about the link comes by here. */
static void warn_full(const struct link *l)
{
	static struct log_ratelimit limit = { .burst = 5, .interval_ns = 60 * NS_PER_S };
	unsigned suppressed;

	if (log_ratelimit_pass(&limit, clock_now_ns(), &suppressed))
		log_warning("%s is left to the kernel: there are %u interfaces already, the most that "
			"routerd can serve; remove VLAN sub-interfaces or ports",
			l->pub.name, FIB_IFACE_MAX - 1);
}

void iface_update(struct mirror *m, struct link *l)
{
	uint16_t port = port_for(m, l);
	bool fresh = l->pub.iface == FIB_IFACE_NONE;

	if (port == MIRROR_NO_PORT || (!fresh && port != l->pub.port)) {
		iface_drop(m, l);
		fresh = true;
	}
	if (port == MIRROR_NO_PORT)
		return;
	if (fresh) {
		uint16_t number = number_alloc(m);

		if (number == FIB_IFACE_NONE) {
			warn_full(l);
			return;
		}
		l->pub.iface = number;
		l->pub.port = port;
		m->ifaces[number] = l;
		conf_read_link(m, l);
	}
	iface_publish(m, l);
	if (l->pub.vlan_proto)
		tell_vlan(m, l, true);
	if (fresh)
		users_changed(m, l, true);
}

static void update_one(void *ctx, struct table_node *n)
{
	struct link *l = container_of(n, struct link, node);

	if (l->pub.iface != FIB_IFACE_NONE)
		iface_update(ctx, l);
}

void iface_update_all(struct mirror *m)
{
	table_foreach(&m->links, update_one, m);
}
