/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Links: what the kernel says about its network devices, and what follows for routes when one goes down or
 * comes up.
 *
 * When a device goes down the kernel removes IPv4 routes and nexthop objects by it without telling; routes
 * with several paths keep a dead one. Here the paths die at once (the others take over) and a re-read makes
 * it exact.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

#define IFLA_TB_MAX IFLA_MAX

static uint32_t link_hash(const struct mirror *m, uint32_t ifindex)
{
	return (uint32_t)table_hash(m->seed, &ifindex, sizeof(ifindex));
}

struct link *link_find(const struct mirror *m, uint32_t ifindex)
{
	struct table_node *n = table_first(&m->links, link_hash(m, ifindex));

	while (n && container_of(n, struct link, node)->pub.ifindex != ifindex)
		n = table_next(n);
	return n ? container_of(n, struct link, node) : NULL;
}

struct link *link_get(struct mirror *m, uint32_t ifindex)
{
	struct link *l = link_find(m, ifindex);

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->pub.ifindex = ifindex;
	l->pub.netnsid = -1;
	l->pub.port = MIRROR_NO_PORT;
	if (table_insert(&m->links, &l->node, link_hash(m, ifindex)) < 0) {
		free(l);
		return NULL;
	}
	return l;
}

/* The kernel looks at IFF_RUNNING and IFF_LOWER_UP (fib_netdev_event, nh_netdev_event). */
static bool no_carrier(uint32_t flags)
{
	return !(flags & (IFF_RUNNING | IFF_LOWER_UP));
}

bool link_linkdown(const struct link *l)
{
	return no_carrier(l->pub.flags);
}

bool link_ignores_linkdown(const struct mirror *m, const struct link *l, uint8_t family)
{
	if (family == 6)
		return l->conf.ignore_linkdown6;
	return l->conf.ignore_linkdown4 || m->all.ignore_linkdown4;
}

/* ---- parsing ---- */

static void parse_vlan(const struct nlattr *data, struct mirror_link *l)
{
	const struct nlattr *tb[IFLA_VLAN_MAX + 1];
	uint16_t id, proto = htons(0x8100);

	if (mirror_parse_nested(data, tb, IFLA_VLAN_MAX) < 0 || !attr_u16(tb[IFLA_VLAN_ID], &id))
		return;
	attr_u16(tb[IFLA_VLAN_PROTOCOL], &proto);
	l->vlan_id = id;
	l->vlan_proto = proto;
}

static void parse_info(const struct nlattr *info, struct mirror_link *l)
{
	const struct nlattr *tb[IFLA_INFO_MAX + 1];
	char slave[16] = "";

	if (mirror_parse_nested(info, tb, IFLA_INFO_MAX) < 0)
		return;
	attr_name(tb[IFLA_INFO_KIND], l->kind, sizeof(l->kind));
	attr_name(tb[IFLA_INFO_SLAVE_KIND], slave, sizeof(slave));
	l->vrf = !strcmp(slave, "vrf");
	if (!strcmp(l->kind, "vlan") && tb[IFLA_INFO_DATA])
		parse_vlan(tb[IFLA_INFO_DATA], l);
}

static void parse_xdp(const struct nlattr *xdp, struct mirror_link *l)
{
	const struct nlattr *tb[IFLA_XDP_MAX + 1];

	if (mirror_parse_nested(xdp, tb, IFLA_XDP_MAX) < 0)
		return;
	attr_u8(tb[IFLA_XDP_ATTACHED], &l->xdp_mode);
	attr_u32(tb[IFLA_XDP_PROG_ID], &l->xdp_program);
}

static void parse_numbers(const struct nlattr **tb, struct mirror_link *l)
{
	uint32_t netnsid;

	attr_u32(tb[IFLA_MTU], &l->mtu);
	attr_u32(tb[IFLA_MAX_MTU], &l->max_mtu);
	attr_u32(tb[IFLA_MASTER], &l->master);
	attr_u32(tb[IFLA_LINK], &l->parent);
	if (attr_u32(tb[IFLA_LINK_NETNSID], &netnsid))
		l->netnsid = (int32_t)netnsid;
	attr_u32(tb[IFLA_NUM_RX_QUEUES], &l->rx_queues);
	attr_u32(tb[IFLA_NUM_TX_QUEUES], &l->tx_queues);
	attr_u8(tb[IFLA_OPERSTATE], &l->operstate);
}

static int parse_link(const struct nlmsghdr *nlh, const struct nlattr **tb, struct mirror_link *l)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	uint8_t carrier;

	*l = (struct mirror_link){ .ifindex = ifi->ifi_index, .flags = ifi->ifi_flags, .type = ifi->ifi_type,
		.netnsid = -1, .port = MIRROR_NO_PORT };
	if (!attr_name(tb[IFLA_IFNAME], l->name, sizeof(l->name)) || !l->name[0])
		return -EINVAL;
	parse_numbers(tb, l);
	l->carrier = attr_u8(tb[IFLA_CARRIER], &carrier) ? carrier : !no_carrier(l->flags);
	if (tb[IFLA_ADDRESS]) {
		l->mac_length = mnl_attr_get_payload_len(tb[IFLA_ADDRESS]);
		if (l->mac_length == 6)
			attr_bytes(tb[IFLA_ADDRESS], l->mac, 6);
	}
	if (tb[IFLA_LINKINFO])
		parse_info(tb[IFLA_LINKINFO], l);
	if (tb[IFLA_XDP])
		parse_xdp(tb[IFLA_XDP], l);
	return 0;
}

/* ---- changes ---- */

/* What the kernel does to routes by the device, without telling. */
static void follow_up_down(struct mirror *m, struct link *l)
{
	bool down = !link_up(l);

	if (sets_device_dead(m, l->pub.ifindex, 0, down) | nexthop_device_changed(m, l->pub.ifindex))
		mirror_want(m, DUMP_ROUTING, MIRROR_CAUSE_CHANGE);
}

/* nh_netdev_event(). By state, not by change: the flags show the loss before the kernel gets to act on it,
 * and it tells again when it has. */
static void follow_carrier(struct mirror *m, struct link *l)
{
	if ((!link_up(l) || link_linkdown(l)) && nexthop_device_lost(m, l->pub.ifindex))
		mirror_want(m, DUMP_ROUTING, MIRROR_CAUSE_CHANGE);
}

static void link_changed(struct mirror *m, struct link *l, const struct mirror_link *was, bool was_known)
{
	uint32_t flags = was->flags ^ l->pub.flags;

	follow_carrier(m, l);
	if (was_known && !memcmp(was, &l->pub, sizeof(*was)))
		return;
	iface_update(m, l);
	if (was_known && flags & IFF_UP)
		follow_up_down(m, l);
	else if (!was_known || no_carrier(was->flags) != link_linkdown(l)) {
		nexthop_device_changed(m, l->pub.ifindex);
		sets_device_changed(m, l->pub.ifindex);
	}
	if (!was_known || strcmp(was->name, l->pub.name))
		rules_publish(m);  /* rules name their ingress interface */
	if (m->hooks.link)
		m->hooks.link(m->ctx, &l->pub, false);
}

static int link_new(struct mirror *m, const struct nlmsghdr *nlh, const struct nlattr **tb)
{
	struct mirror_link new, was;
	struct link *l;
	bool was_known;

	/* An event of a wireless driver and the like: not a description of the link. */
	if (!tb[IFLA_MTU])
		return -EAGAIN;
	if (parse_link(nlh, tb, &new) < 0 || !new.ifindex)
		return -EINVAL;
	l = link_get(m, new.ifindex);
	if (!l)
		return -ENOMEM;
	if (mirror_is_dump(m, DUMP_LINK, nlh)) {
		l->gen = m->gen[DUMP_LINK];
		if (l->known && l->noted == m->gen[DUMP_LINK])
			return 0;
	} else {
		l->gen = l->noted = m->gen[DUMP_LINK];
		mirror_tomb_del(m, DUMP_LINK, new.ifindex);
	}
	was = l->pub;
	was_known = l->known;
	new.iface = was.iface;
	new.port = was.port;
	l->pub = new;
	l->known = true;
	link_changed(m, l, &was, was_known);
	return 0;
}

/* The device has left: for good, or for another namespace. Its number may come again as another device. */
static void link_remove(struct mirror *m, struct link *l)
{
	uint32_t ifindex = l->pub.ifindex;
	unsigned users;

	l->pub.flags = 0;
	users = sets_device_removed(m, ifindex) + nexthop_device_lost(m, ifindex);
	mirror_clear_port(m, ifindex);
	iface_drop(m, l);
	if (l->known && m->hooks.link)
		m->hooks.link(m->ctx, &l->pub, true);
	table_remove(&m->links, &l->node);
	free(l);
	rules_publish(m);
	if (users)
		mirror_want(m, DUMP_ROUTING, MIRROR_CAUSE_CHANGE);
}

int link_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct nlattr *tb[IFLA_TB_MAX + 1];
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	struct link *l;

	if (mirror_parse(nlh, sizeof(*ifi), tb, IFLA_TB_MAX) < 0)
		return -EINVAL;
	/* A bridge tells of its ports by the same messages; a "deletion" is one of the port then. */
	if (ifi->ifi_family != AF_UNSPEC)
		return -EAGAIN;
	if (ifi->ifi_index <= 0)
		return -EINVAL;
	if (nlh->nlmsg_type == RTM_NEWLINK) {
		if (mirror_is_dump(m, DUMP_LINK, nlh) && idset_has(&m->tombs, ifi->ifi_index))
			return 0;
		return link_new(m, nlh, tb);
	}
	mirror_tomb_add(m, DUMP_LINK, ifi->ifi_index);
	l = link_find(m, ifi->ifi_index);
	if (l)
		link_remove(m, l);
	return 0;
}

/* ---- all of them ---- */

struct sweep {
	struct mirror *m;
	struct link *old;
};

static void find_old(void *ctx, struct table_node *n)
{
	struct sweep *s = ctx;
	struct link *l = container_of(n, struct link, node);

	if (l->known && l->gen != s->m->gen[DUMP_LINK])
		s->old = l;
}

void link_sweep(struct mirror *m)
{
	struct sweep s = { .m = m };

	/* One at a time: removing a link may touch others (its VLANs). Links are few. */
	do {
		s.old = NULL;
		table_foreach(&m->links, find_old, &s);
		if (s.old)
			link_remove(m, s.old);
	} while (s.old);
}

static void link_release(void *ctx, struct table_node *n)
{
	free(container_of(n, struct link, node));
}

void link_fini(struct mirror *m)
{
	table_foreach(&m->links, link_release, m);
	table_fini(&m->links);
}

const struct mirror_link *mirror_link_by_index(const struct mirror *m, uint32_t ifindex)
{
	const struct link *l = link_find(m, ifindex);

	return l && l->known ? &l->pub : NULL;
}

struct visit {
	void (*fn)(void *ctx, const struct mirror_link *l);
	void *ctx;
	const char *name;
	const struct mirror_link *found;
};

static void visit_link(void *ctx, struct table_node *n)
{
	struct visit *v = ctx;
	struct link *l = container_of(n, struct link, node);

	if (!l->known)
		return;
	if (v->fn)
		v->fn(v->ctx, &l->pub);
	else if (!strcmp(l->pub.name, v->name))
		v->found = &l->pub;
}

const struct mirror_link *mirror_link_by_name(const struct mirror *m, const char *name)
{
	struct visit v = { .name = name };

	table_foreach((struct table *)&m->links, visit_link, &v);
	return v.found;
}

void mirror_link_foreach(const struct mirror *m, void (*fn)(void *ctx, const struct mirror_link *l),
	void *ctx)
{
	struct visit v = { .fn = fn, .ctx = ctx };

	table_foreach((struct table *)&m->links, visit_link, &v);
}
