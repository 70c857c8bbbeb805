/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Looking at routes: page by page, and one packet's way through rules, tables and paths.
 */
#include <linux/rtnetlink.h>
#include <string.h>

#include "control/mirror_private.h"

static const uint8_t table_id[MIRROR_TABLES] = { RT_TABLE_LOCAL, RT_TABLE_MAIN, RT_TABLE_DEFAULT };

struct paths {
	struct mirror_path paths[FIB_PATHS_MAX];
	unsigned count;
};

static void show_path(const struct mirror *m, struct paths *out, const struct path *p, uint32_t weight,
	bool gone)
{
	const struct link *l = link_find(m, p->ifindex);
	struct mirror_path *x;
	bool known = l && l->known;

	if (out->count == FIB_PATHS_MAX)
		return;
	x = &out->paths[out->count++];
	*x = (struct mirror_path){ .ifindex = p->ifindex,
		.weight = weight,
		.gateway_family = p->gateway_family,
		.device = known ? l->pub.name : "" };
	memcpy(x->gateway, p->gateway, 16);
	if (gone || p->flags & PATH_DEAD || (known && !link_up(l)))
		x->flags |= RTNH_F_DEAD;
	if (known && link_linkdown(l))
		x->flags |= RTNH_F_LINKDOWN;
	if (p->flags & PATH_ON_LINK)
		x->flags |= RTNH_F_ONLINK;
}

static void show_nexthop(const struct mirror *m, struct paths *out, const struct nexthop *nh)
{
	if (!nh->known)
		return;
	if (!nh->is_group && !nh->blackhole)
		show_path(m, out, &nh->path, 1, nh->gone);
	for (unsigned i = 0; i < nh->member_count; i++) {
		const struct nexthop *x = nh->members[i].member;

		if (x->known && !x->is_group && !x->blackhole)
			show_path(m, out, &x->path, nh->members[i].weight, x->gone);
	}
}

static void show_paths(const struct mirror *m, struct paths *out, const struct path_set *s)
{
	out->count = 0;
	if (s->nexthop)
		show_nexthop(m, out, s->nexthop);
	for (unsigned i = 0; i < s->key.path_count; i++)
		show_path(m, out, &s->paths[i], s->paths[i].weight, false);
}

static void show_route(struct mirror *m, const struct route *r, const struct route *best, uint32_t group,
	struct mirror_route *ret)
{
	const struct fib_group *g = best == r && group ? fib_group(m->fib, group) : NULL;

	memset(ret, 0, sizeof(*ret));
	ret->family = r->family;
	ret->plen = r->plen;
	ret->table = table_id[r->table];
	ret->type = r->set->nexthop && r->set->nexthop->blackhole ? RTN_BLACKHOLE : r->set->key.type;
	ret->protocol = r->protocol;
	ret->tos = r->tos;
	ret->best = g != NULL;
	ret->verdict = g ? g->verdict : VERDICT_KERNEL_NO_ROUTE;
	ret->metric = r->metric;
	ret->mtu = r->set->key.mtu;
	ret->nexthop_id = r->set->key.nexthop_id;
	memcpy(ret->dst, r->dst, route_address_bytes(r->family));
}

struct view {
	struct mirror *m;
	struct paths paths;
	void (*fn)(void *ctx, const struct mirror_route *r);
	void *ctx;
};

/* All routes of one prefix. Returns the first route behind them. */
static struct route *show_run(struct view *v, struct route *run, unsigned *budget)
{
	struct mirror_route shown;
	uint32_t group;
	struct route *best = prefix_best(v->m, run, &group), *r;

	for (r = run; r && route_same_prefix(r, run->dst, run->plen); r = r->next) {
		show_route(v->m, r, best, group, &shown);
		show_paths(v->m, &v->paths, r->set);
		shown.paths = v->paths.paths;
		shown.path_count = v->paths.count;
		v->fn(v->ctx, &shown);
		if (*budget)
			--*budget;
	}
	return r;
}

/* Next bucket in the order of the mirrored bits: the table may grow between two calls, and what has been
 * shown of a bucket is then in the buckets that mirrored counting has passed already. */
static uint64_t next_bucket(uint64_t cursor, uint32_t mask)
{
	uint32_t bit = (mask >> 1) + 1;

	if (!mask)
		return 0;
	while (cursor & bit) {
		cursor &= ~(uint64_t)bit;
		bit >>= 1;
	}
	return bit ? cursor | bit : 0;
}

bool mirror_route_foreach(struct mirror *m, uint8_t family, uint64_t *cursor, unsigned budget,
	void (*fn)(void *ctx, const struct mirror_route *r), void *ctx)
{
	struct route_table *t = &m->routes[family == 6];
	struct view v = { .m = m, .fn = fn, .ctx = ctx };
	uint64_t bucket = *cursor;

	if (!t->buckets)
		return false;
	do {
		for (struct route *r = t->buckets[bucket & t->mask]; r;)
			r = show_run(&v, r, &budget);
		bucket = next_bucket(bucket & t->mask, t->mask);
		if (budget)
			budget--;
	} while (bucket && budget);
	*cursor = bucket;
	return bucket != 0;
}

/* ---- one packet ---- */

static bool longest_match(const struct mirror *m, const struct mirror_query *q, uint8_t *ret_plen,
	uint32_t *ret_group)
{
	*ret_group = q->family == 4 ? lpm4_lookup_plen(m->fib->lpm4, load_be32(q->dst), ret_plen) :
		lpm6_lookup_plen(m->fib->lpm6, q->dst, ret_plen);
	return *ret_group != 0;
}

static void mask_address(uint8_t *addr, uint8_t plen)
{
	for (unsigned i = 0; i < 16; i++) {
		unsigned keep = plen > i * 8 ? plen - i * 8u : 0;

		if (keep < 8)
			addr[i] &= (uint8_t)(0xff00 >> keep);
	}
}

static void answer_route(struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen,
	struct mirror_answer *ret)
{
	uint8_t prefix[16];
	struct route **run, *best;
	uint32_t group;

	memcpy(prefix, dst, 16);
	mask_address(prefix, plen);
	run = route_run(m, family, prefix, plen);
	best = run && *run ? prefix_best(m, *run, &group) : NULL;
	if (!best)
		return;
	ret->matched = true;
	show_route(m, best, best, group, &ret->route);
}

static void answer_path(struct mirror *m, const struct mirror_query *q, const struct fib_group *g,
	struct mirror_answer *ret)
{
	const struct fib_path *p = fib_select_path(g, q->hash & 0x7fffffff);
	const struct fib_iface *i = fib_iface(m->fib, p->iface);
	const struct fib_neigh *n = NULL;
	uint32_t slot = p->neighbour;

	if (!i)
		return;
	ret->ifindex = i->ifindex;
	memcpy(ret->device, i->name, sizeof(ret->device));
	ret->mtu = q->family == 4 ? i->mtu : i->mtu6;
	if (g->mtu && g->mtu < ret->mtu)
		ret->mtu = g->mtu;
	if (p->flags & FIB_PATH_ON_LINK)
		slot = fib_neigh_find(m->fib, p->iface, q->family, q->dst);
	if (slot != FIB_NEIGH_NONE)
		n = fib_neigh(m->fib, slot);
	if (n && !(p->flags & FIB_PATH_ON_LINK)) {
		ret->gateway_family = n->family;
		memcpy(ret->gateway, n->addr, 16);
	}
	ret->neighbour_valid = n && n->mac_state & FIB_NEIGH_VALID;
	for (unsigned b = 0; n && b < 6; b++)
		ret->neighbour_mac[b] = (uint8_t)(n->mac_state >> 8 * b);
}

void mirror_route_lookup(struct mirror *m, const struct mirror_query *q, struct mirror_answer *ret)
{
	const struct fib_group *g;
	uint8_t plen = 0;

	memset(ret, 0, sizeof(*ret));
	ret->verdict = VERDICT_KERNEL_NO_ROUTE;
	if (longest_match(m, q, &plen, &ret->group)) {
		g = fib_group(m->fib, ret->group);
		ret->verdict = g->verdict;
		answer_route(m, q->family, q->dst, plen, ret);
		if (g->verdict == VERDICT_FORWARD)
			answer_path(m, q, g, ret);
	}
	if (q->family == 6 && m->fib->local6 && fib_local6_match(m->fib->local6, q->dst))
		ret->verdict = VERDICT_KERNEL_LOCAL;
	ret->by_rule = m->fib->rules &&
		fib_rules_match(m->fib->rules, q->family, q->iif, q->src, q->dst, q->tos, q->protocol,
			q->sport, q->dport);
	if (ret->by_rule)
		ret->verdict = VERDICT_KERNEL_RULE;
}
