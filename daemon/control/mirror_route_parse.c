/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * RTM_NEWROUTE and RTM_DELROUTE become a struct route_message, in one canonical form: what means the same is
 * the same.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

/* The gateway of a path: RTA_GATEWAY of either family, or RTA_VIA (IPv4 by way of IPv6). */
int path_parse_gateway(struct path *p, const struct nlattr *gateway, const struct nlattr *via)
{
	static const uint8_t zero[16];
	struct {
		uint16_t family;
		uint8_t addr[16];
	} v;

	if (gateway) {
		p->gateway_family = attr_address(gateway, p->gateway);
		if (!p->gateway_family)
			return -EINVAL;
	}
	if (via && attr_bytes(via, &v, 6) && v.family == AF_INET) {
		p->gateway_family = 4;
		memcpy(p->gateway, v.addr, 4);
	} else if (via && attr_bytes(via, &v, 18) && v.family == AF_INET6) {
		p->gateway_family = 6;
		memcpy(p->gateway, v.addr, 16);
	} else if (via) {
		return -EINVAL;
	}
	if (!memcmp(p->gateway, zero, 16))
		p->gateway_family = 0;
	return 0;
}

static uint8_t path_flags(unsigned flags)
{
	return (flags & RTNH_F_DEAD ? PATH_DEAD : 0) | (flags & RTNH_F_LINKDOWN ? PATH_LINKDOWN : 0) |
		(flags & RTNH_F_ONLINK ? PATH_ON_LINK : 0);
}

/* IPv6 does not compare these, and lets a router advertisement change metrics without a word. */
static void mix_other(struct route_message *r, const struct nlattr *a)
{
	if (a && r->family == 4)
		r->key.other = (uint32_t)table_hash(r->key.other, mnl_attr_get_payload(a),
			mnl_attr_get_payload_len(a));
}

static int parse_hop(const struct rtnexthop *h, struct route_message *r)
{
	const struct nlattr *tb[RTA_MAX + 1];
	struct path *p = &r->paths[r->key.path_count];

	*p = (struct path){ .ifindex = h->rtnh_ifindex,
		.weight = h->rtnh_hops + 1u,
		.flags = path_flags(h->rtnh_flags) };
	if (mirror_parse_bytes((const char *)h + sizeof(*h), h->rtnh_len - sizeof(*h), tb, RTA_MAX) < 0)
		return -EINVAL;
	r->key.encap |= tb[RTA_ENCAP] != NULL;
	mix_other(r, tb[RTA_FLOW]);
	if (path_parse_gateway(p, tb[RTA_GATEWAY], tb[RTA_VIA]) < 0)
		return -EINVAL;
	r->key.path_count++;
	return 0;
}

static int parse_multipath(const struct nlattr *a, struct route_message *r)
{
	const char *at = mnl_attr_get_payload(a), *end = at + mnl_attr_get_payload_len(a);

	while (end - at >= (ptrdiff_t)sizeof(struct rtnexthop)) {
		const struct rtnexthop *h = (const void *)at;

		if (h->rtnh_len < sizeof(*h) || h->rtnh_len > end - at || r->key.path_count == FIB_PATHS_MAX)
			return -EINVAL;
		if (parse_hop(h, r) < 0)
			return -EINVAL;
		if (RTNH_ALIGN(h->rtnh_len) >= end - at)
			break;
		at += RTNH_ALIGN(h->rtnh_len);
	}
	return 0;
}

static int parse_single(const struct rtmsg *rtm, const struct nlattr **tb, struct route_message *r)
{
	struct path *p = &r->paths[0];

	*p = (struct path){ .weight = 1, .flags = path_flags(rtm->rtm_flags) };
	attr_u32(tb[RTA_OIF], &p->ifindex);
	if (path_parse_gateway(p, tb[RTA_GATEWAY], tb[RTA_VIA]) < 0)
		return -EINVAL;
	r->key.encap = tb[RTA_ENCAP] != NULL;
	r->key.path_count = p->ifindex || p->gateway_family;
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	const struct path *x = a, *y = b;

	if (x->ifindex != y->ifindex)
		return x->ifindex < y->ifindex ? -1 : 1;
	return memcmp(x->gateway, y->gateway, 16);
}

static int parse_paths(const struct rtmsg *rtm, const struct nlattr **tb, struct route_message *r)
{
	int e;

	/* The object says it all; whether the hops are spelled out besides is up to a sysctl
	 * (nexthop_compat_mode). By a blackhole object the kernel calls the route a blackhole, but the object
	 * may become another. */
	if (attr_u32(tb[RTA_NH_ID], &r->key.nexthop_id) && r->key.nexthop_id) {
		if (r->key.type == RTN_BLACKHOLE)
			r->key.type = RTN_UNICAST;
		return 0;
	}
	e = tb[RTA_MULTIPATH] ? parse_multipath(tb[RTA_MULTIPATH], r) : parse_single(rtm, tb, r);
	/* IPv6 begins its list with whichever sibling changed last: no order is meant. */
	if (!e && r->family == 6)
		qsort(r->paths, r->key.path_count, sizeof(r->paths[0]), compare_paths);
	return e;
}

static void parse_metrics(const struct nlattr *a, struct route_message *r)
{
	const struct nlattr *tb[RTAX_MAX + 1];

	if (a && mirror_parse_nested(a, tb, RTAX_MAX) >= 0)
		attr_u32(tb[RTAX_MTU], &r->key.mtu);
}

static int parse_table(const struct rtmsg *rtm, const struct nlattr **tb, struct route_message *r)
{
	uint32_t table = rtm->rtm_table;

	attr_u32(tb[RTA_TABLE], &table);
	switch (table) {
	case RT_TABLE_LOCAL:
		r->table = MIRROR_LOCAL;
		return 0;
	case RT_TABLE_MAIN:
		r->table = MIRROR_MAIN;
		return 0;
	case RT_TABLE_DEFAULT:
		/* IPv6 has no rule for it. */
		r->table = MIRROR_DEFAULT;
		return r->family == 4 ? 0 : -EAGAIN;
	}
	return -EAGAIN;
}

static bool clean_prefix(const uint8_t *addr, uint8_t plen, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++) {
		unsigned keep = plen > i * 8 ? plen - i * 8 : 0;

		if (keep < 8 && addr[i] & (0xff >> keep))
			return false;
	}
	return true;
}

static int parse_prefix(const struct rtmsg *rtm, const struct nlattr **tb, struct route_message *r)
{
	unsigned bytes = r->family == 4 ? 4 : 16;

	r->plen = rtm->rtm_dst_len;
	if (r->plen > bytes * 8 || (tb[RTA_DST] && !attr_bytes(tb[RTA_DST], r->dst, bytes)) ||
		(!tb[RTA_DST] && r->plen))
		return -EINVAL;
	if (!clean_prefix(r->dst, r->plen, bytes))
		return -EINVAL;
	if (r->family == 6 && rtm->rtm_src_len) {
		if (rtm->rtm_src_len > 128 || !attr_bytes(tb[RTA_SRC], r->key.source, 16))
			return -EINVAL;
		r->key.has_source = 1;
		r->key.source_len = rtm->rtm_src_len;
	}
	return 0;
}

static void parse_rest(const struct rtmsg *rtm, const struct nlattr **tb, struct route_message *r)
{
	r->tos = r->family == 4 ? rtm->rtm_tos : 0;
	r->protocol = rtm->rtm_protocol;
	r->key.family = r->family;
	r->key.type = rtm->rtm_type;
	attr_u32(tb[RTA_PRIORITY], &r->metric);
	parse_metrics(tb[RTA_METRICS], r);
	mix_other(r, tb[RTA_METRICS]);
	mix_other(r, tb[RTA_FLOW]);
	if (r->family == 4)
		attr_bytes(tb[RTA_PREFSRC], r->key.prefsrc, 4);
	else
		attr_u8(tb[RTA_PREF], &r->key.pref);
}

int route_parse(struct mirror *m, const struct nlmsghdr *nlh, struct route_message *r)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[RTA_MAX + 1];
	int e;

	(void)m;
	if (mirror_parse(nlh, sizeof(*rtm), tb, RTA_MAX) < 0)
		return -EINVAL;
	if ((rtm->rtm_family != AF_INET && rtm->rtm_family != AF_INET6) || rtm->rtm_flags & RTM_F_CLONED)
		return -EAGAIN;
	memset(r, 0, offsetof(struct route_message, paths));
	r->family = rtm->rtm_family == AF_INET ? 4 : 6;
	r->nlflags = nlh->nlmsg_flags;
	e = parse_table(rtm, tb, r);
	if (!e)
		e = parse_prefix(rtm, tb, r);
	if (!e)
		parse_rest(rtm, tb, r);
	return e ? e : parse_paths(rtm, tb, r);
}
