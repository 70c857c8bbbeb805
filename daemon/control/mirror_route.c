/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Route records: which routes there are and in which order the kernel would try those of one prefix.
 *
 * Order within a prefix: table (local, main, default), TOS (IPv4, larger first), metric, and among equals the
 * position that the flags of the notification tell (fib_table_insert, fib6_add_rt2node): replace the first,
 * append, else IPv4 in front and IPv6 behind. IPv6 keeps routes with gateways that differ in nothing else as
 * siblings of one multipath route; a notification shows all siblings, a deletion the ones that go.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

#define BUCKETS_START 256

/* ---- the table ---- */

size_t route_address_bytes(uint8_t family)
{
	return family == 4 ? 4 : 16;
}

static struct route_table *table_of(const struct mirror *m, uint8_t family)
{
	return (struct route_table *)&m->routes[family == 6];
}

static uint32_t prefix_hash(const struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen)
{
	return (uint32_t)table_hash(m->seed ^ plen, dst, route_address_bytes(family));
}

/* The place that points at the first route of the prefix, or at the end of the bucket's chain; NULL without
 * table. */
struct route **route_run(const struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen)
{
	struct route_table *t = table_of(m, family);
	struct route **p;

	if (!t->buckets)
		return NULL;
	p = &t->buckets[prefix_hash(m, family, dst, plen) & t->mask];
	while (*p && !route_same_prefix(*p, dst, plen))
		p = &(*p)->next;
	return p;
}

/* Move to twice the buckets. Routes of a prefix stay in order. */
static int grow(struct mirror *m, struct route_table *t)
{
	uint32_t want = t->buckets ? (t->mask + 1) * 2 : BUCKETS_START;
	struct route **buckets = calloc(want, sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	for (uint32_t i = 0; t->buckets && i <= t->mask; i++) {
		struct route **low = &buckets[i], **high = &buckets[i + t->mask + 1], *r, *next;

		for (r = t->buckets[i]; r; r = next) {
			next = r->next;
			r->next = NULL;
			if (prefix_hash(m, r->family, r->dst, r->plen) & (t->mask + 1)) {
				*high = r;
				high = &r->next;
			} else {
				*low = r;
				low = &r->next;
			}
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->mask = want - 1;
	return 0;
}

static int reserve(struct mirror *m, struct route_table *t)
{
	if (t->buckets && t->count <= t->mask)
		return 0;
	/* A table that cannot grow only gets slower. */
	if (grow(m, t) < 0)
		return t->buckets ? 0 : -ENOMEM;
	if (t->walk != UINT32_MAX)
		t->walk = 0;
	return 0;
}

void routes_init(struct mirror *m)
{
	for (unsigned f = 0; f < 2; f++) {
		m->routes[f].walk = UINT32_MAX;
		m->routes[f].pool.size = (offsetof(struct route, dst) + (f ? 16 : 4) + 7) & ~7ul;
	}
}

void routes_fini(struct mirror *m)
{
	for (unsigned f = 0; f < 2; f++) {
		free(m->routes[f].buckets);
		m->routes[f].buckets = NULL;
		pool_fini(&m->routes[f].pool);
	}
}

/* ---- order ---- */

/* Negative: a goes before b; 0: equals, whose order is by position. */
static int compare(const struct route *a, uint8_t table, uint8_t tos, uint32_t metric)
{
	if (a->table != table)
		return a->table < table ? -1 : 1;
	if (a->tos != tos)
		return a->tos > tos ? -1 : 1;
	return a->metric < metric ? -1 : a->metric > metric;
}

static int compare_message(const struct route *a, const struct route_message *r)
{
	return compare(a, r->table, r->tos, r->metric);
}

/* Skip routes before the equals of the message. */
static struct route **equals(struct route **p, const struct route_message *r)
{
	while (*p && route_same_prefix(*p, r->dst, r->plen) && compare_message(*p, r) < 0)
		p = &(*p)->next;
	return p;
}

static bool is_equal(const struct route *a, const struct route_message *r)
{
	return a && route_same_prefix(a, r->dst, r->plen) && !compare_message(a, r);
}

/* ---- IPv6 siblings ---- */

/* rt6_qualify_for_ecmp(): RTF_ADDRCONF shows as protocol RA. */
static bool can_ecmp(uint8_t family, uint8_t protocol, const struct set_key *key, const struct path *paths)
{
	return family == 6 && !key->nexthop_id && protocol != RTPROT_RA && key->path_count &&
		paths[0].gateway_family;
}

static bool route_can_ecmp(const struct route *r)
{
	return can_ecmp(r->family, r->protocol, &r->set->key, r->set->paths);
}

static bool same_path(const struct path *a, const struct path *b)
{
	return a->ifindex == b->ifindex && a->gateway_family == b->gateway_family &&
		!memcmp(a->gateway, b->gateway, 16);
}

static bool set_has_path(const struct path_set *s, const struct path *p)
{
	for (unsigned i = 0; i < s->key.path_count; i++)
		if (same_path(&s->paths[i], p))
			return true;
	return false;
}

/* IPv6 keeps routes for different sources apart (in subtrees). */
static bool same_source(const struct route *x, const struct route_message *r)
{
	return x->set->key.has_source == r->key.has_source && x->set->key.source_len == r->key.source_len &&
		!memcmp(x->set->key.source, r->key.source, 16);
}

/* The multipath route that the message extends: same type and protocol, or (before Linux 6.6 those did not
 * matter) one that shares a path with it. */
static struct route *find_siblings(struct route *first, const struct route_message *r)
{
	struct route *shares = NULL;

	for (struct route *x = first; is_equal(x, r); x = x->next) {
		if (!route_can_ecmp(x) || !same_source(x, r))
			continue;
		if (x->protocol == r->protocol && x->set->key.type == r->key.type)
			return x;
		for (unsigned i = 0; i < r->key.path_count && !shares; i++)
			if (set_has_path(x->set, &r->paths[i]))
				shares = x;
	}
	return shares;
}

/* ---- adding and removing records ---- */

static uint64_t identity_of(const struct mirror *m, const struct route_message *r, const struct set_key *key,
	const struct path *paths, uint8_t protocol)
{
	struct { uint64_t set; uint32_t metric; uint8_t table, tos, protocol, plen; uint8_t dst[16]; } id = {
		.set = set_identity(m, key, paths), .metric = r->metric, .table = r->table, .tos = r->tos,
		.protocol = protocol, .plen = r->plen };

	memcpy(id.dst, r->dst, 16);
	return table_hash(m->seed, &id, sizeof(id));
}

static uint64_t identity(const struct mirror *m, const struct route_message *r)
{
	return identity_of(m, r, &r->key, r->paths, r->protocol);
}

/* The message's prefix, metric and so on with what a record of ours leads to. */
static uint64_t identity_of_record(const struct mirror *m, const struct route_message *r,
	const struct route *x)
{
	return identity_of(m, r, &x->set->key, x->set->paths, x->protocol);
}

static enum mirror_dump dump_of(uint8_t family)
{
	return family == 4 ? DUMP_ROUTE4 : DUMP_ROUTE6;
}

static int insert(struct mirror *m, struct route **at, const struct route_message *r, struct path_set *s)
{
	struct route_table *t = table_of(m, r->family);
	struct route *x = pool_alloc(&t->pool);

	if (!x)
		return -ENOMEM;
	x->metric = r->metric;
	x->plen = r->plen;
	x->table = r->table;
	x->tos = r->tos;
	x->protocol = r->protocol;
	x->family = r->family;
	x->gen = t->gen;
	memcpy(x->dst, r->dst, route_address_bytes(r->family));
	x->next = *at;
	*at = x;
	set_add_route(s, x);
	t->count++;
	t->by_table[r->table]++;
	if (r->table == MIRROR_DEFAULT)
		return defaults_note(m, x, true);
	return 0;
}

void route_remove(struct mirror *m, struct route *r)
{
	struct route_table *t = table_of(m, r->family);
	struct route **p = route_run(m, r->family, r->dst, r->plen);
	struct path_set *s = r->set;

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	t->count--;
	t->by_table[r->table]--;
	set_remove_route(s, r);
	if (r->table == MIRROR_DEFAULT)
		defaults_note(m, r, false);
	prefix_evaluate(m, r->family, r->dst, r->plen);
	set_unused(m, s);
	pool_free(&t->pool, r);
}

/* Let the record lead to another set. */
static void change_set(struct mirror *m, struct route *x, struct path_set *s)
{
	struct path_set *old = x->set;

	x->gen = table_of(m, x->family)->gen;
	if (old == s)
		return;
	set_remove_route(old, x);
	set_add_route(s, x);
	prefix_evaluate(m, x->family, x->dst, x->plen);
	set_unused(m, old);
}

/* ---- a route appears ---- */

static struct route *find_same(struct route *first, const struct route_message *r, const struct path_set *s)
{
	for (struct route *x = first; is_equal(x, r); x = x->next)
		if (x->set == s && x->protocol == r->protocol)
			return x;
	return NULL;
}

/* Pieces of a dump come in the kernel's order: what has not been seen yet in this dump belongs behind. */
static struct route **dump_position(struct mirror *m, struct route **p, const struct route_message *r)
{
	uint8_t gen = table_of(m, r->family)->gen;

	while (is_equal(*p, r) && (*p)->gen == gen)
		p = &(*p)->next;
	return p;
}

static void dump_existing(struct mirror *m, struct route **first, const struct route_message *r,
	struct route *x)
{
	struct route_table *t = table_of(m, r->family);
	struct route **at = dump_position(m, first, r), **p = at;

	if (x->gen != t->gen && *at != x) {
		while (*p != x)
			p = &(*p)->next;
		*p = x->next;
		x->next = *at;
		*at = x;
		prefix_evaluate(m, x->family, x->dst, x->plen);
	}
	x->gen = t->gen;
}

/* The kernel is about to remove such a route. */
static bool all_dead(const struct route_message *r)
{
	for (unsigned i = 0; i < r->key.path_count; i++)
		if (!(r->paths[i].flags & PATH_DEAD))
			return false;
	return r->key.path_count > 0;
}

static int dump_route(struct mirror *m, struct route **first, const struct route_message *r,
	struct path_set *s)
{
	struct route *x = find_same(*first, r, s);

	if (all_dead(r))
		m->dump_changed |= DUMP_BIT(dump_of(r->family));
	if (x) {
		dump_existing(m, first, r, x);
		return 0;
	}
	m->dump_changed |= DUMP_BIT(dump_of(r->family));
	return insert(m, dump_position(m, first, r), r, s);
}

/* The record that a notification with NLM_F_REPLACE replaces. */
static struct route *find_replaced(struct route *first, const struct route_message *r)
{
	bool ecmp = can_ecmp(r->family, r->protocol, &r->key, r->paths);

	struct route *other = NULL;

	if (r->family == 4)
		return is_equal(first, r) ? first : NULL;
	for (struct route *x = first; is_equal(x, r); x = x->next) {
		if (!same_source(x, r))
			continue;
		if (route_can_ecmp(x) == ecmp)
			return x;
		other = other ? other : x;
	}
	return other;
}

static int told_route(struct mirror *m, struct route **first, const struct route_message *r,
	struct path_set *s)
{
	struct route *same = find_same(*first, r, s), *x = NULL;
	struct route **at = first;

	if (r->nlflags & NLM_F_REPLACE)
		x = find_replaced(*first, r);
	else if (!same && can_ecmp(r->family, r->protocol, &r->key, r->paths))
		x = find_siblings(*first, r);
	if (same) {
		same->gen = table_of(m, r->family)->gen;
		/* It was to replace another: then what we had was not what the kernel had. */
		if (x && x != same)
			mirror_want(m, DUMP_BIT(dump_of(r->family)), MIRROR_CAUSE_CHANGE);
		return 0;
	}
	if (x) {
		mirror_tomb_add(m, dump_of(r->family), identity_of_record(m, r, x));
		x->protocol = r->protocol;
		change_set(m, x, s);
		return 0;
	}
	if (r->family == 6 || r->nlflags & NLM_F_APPEND)
		while (is_equal(*at, r))
			at = &(*at)->next;
	return insert(m, at, r, s);
}

static int route_new(struct mirror *m, const struct route_message *r, bool dump)
{
	struct path_set *s = set_get(m, &r->key, r->paths);
	struct route **first;
	int e;

	if (!s)
		return -ENOMEM;
	if (!dump)
		mirror_tomb_del(m, dump_of(r->family), identity(m, r));
	e = reserve(m, table_of(m, r->family));
	if (!e) {
		set_update_flags(m, s, r->paths);
		first = equals(route_run(m, r->family, r->dst, r->plen), r);
		e = dump ? dump_route(m, first, r, s) : told_route(m, first, r, s);
		prefix_evaluate(m, r->family, r->dst, r->plen);
	}
	set_unused(m, s);
	return e;
}

/* ---- a route goes ---- */

static bool all_paths_in(const struct path_set *s, const struct route_message *r)
{
	for (unsigned i = 0; i < r->key.path_count; i++)
		if (!set_has_path(s, &r->paths[i]))
			return false;
	return r->key.path_count > 0;
}

/* Take some siblings out of a multipath route. */
static int remove_siblings(struct mirror *m, struct route *x, const struct route_message *r)
{
	struct set_key key = x->set->key;
	struct path paths[FIB_PATHS_MAX];
	struct path_set *s;
	bool goes;

	key.path_count = 0;
	for (unsigned i = 0; i < x->set->key.path_count; i++) {
		goes = false;
		for (unsigned j = 0; j < r->key.path_count; j++)
			goes |= same_path(&x->set->paths[i], &r->paths[j]);
		if (!goes)
			paths[key.path_count++] = x->set->paths[i];
	}
	if (!key.path_count) {
		route_remove(m, x);
		return 0;
	}
	s = set_get(m, &key, paths);
	if (!s)
		return -ENOMEM;
	set_update_flags(m, s, paths);
	change_set(m, x, s);
	return 0;
}

static int route_del(struct mirror *m, const struct route_message *r)
{
	struct route **first = route_run(m, r->family, r->dst, r->plen), *x;
	struct path_set *s = set_find(m, &r->key, r->paths);

	mirror_tomb_add(m, dump_of(r->family), identity(m, r));
	if (!first)
		return 0;
	first = equals(first, r);
	x = s ? find_same(*first, r, s) : NULL;
	if (x) {
		route_remove(m, x);
		return 0;
	}
	for (x = *first; r->family == 6 && is_equal(x, r); x = x->next) {
		if (!route_can_ecmp(x) || !same_source(x, r) || !all_paths_in(x->set, r))
			continue;
		mirror_tomb_add(m, DUMP_ROUTE6, identity_of_record(m, r, x));
		return remove_siblings(m, x, r);
	}
	/* The kernel had a route that we do not have: ours are not its. */
	if (is_equal(*first, r))
		mirror_want(m, DUMP_BIT(dump_of(r->family)), MIRROR_CAUSE_CHANGE);
	return 0;
}

int route_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	struct route_message *r = &m->message;
	int e = route_parse(m, nlh, r);
	bool dump;

	if (e < 0)
		return e;
	if (nlh->nlmsg_type == RTM_DELROUTE)
		return route_del(m, r);
	dump = mirror_is_dump(m, dump_of(r->family), nlh);
	if (dump && m->tombs.count && idset_has(&m->tombs, identity(m, r)))
		return 0;
	return route_new(m, r, dump);
}

/* ---- walks over all of them ---- */

void routes_sweep(struct mirror *m, unsigned f)
{
	struct route_table *t = &m->routes[f];

	t->sweep = true;
	if (t->buckets)
		t->walk = 0;
	sync_wanted(m);
}

void routes_reevaluate(struct mirror *m, unsigned f)
{
	struct route_table *t = &m->routes[f];

	t->reevaluate = true;
	if (t->buckets)
		t->walk = 0;
	sync_wanted(m);
}

/* One bucket. Removing evaluates the prefix. Returns how many routes there were. */
static unsigned walk_bucket(struct mirror *m, struct route_table *t, uint32_t i)
{
	struct route *r, *next;
	unsigned n = 0;

	for (r = t->buckets[i]; r; r = next, n++) {
		next = r->next;
		if (t->sweep && r->gen != t->gen) {
			m->dump_changed |= DUMP_BIT(dump_of(r->family));
			route_remove(m, r);
		} else if (t->reevaluate) {
			prefix_evaluate(m, r->family, r->dst, r->plen);
		}
	}
	return n;
}

unsigned routes_work(struct mirror *m, unsigned budget)
{
	for (unsigned f = 0; f < 2; f++) {
		struct route_table *t = &m->routes[f];

		while (budget && t->walk != UINT32_MAX) {
			unsigned n = 1 + walk_bucket(m, t, t->walk);

			budget -= n < budget ? n : budget;
			if (t->walk++ < t->mask)
				continue;
			t->walk = UINT32_MAX;
			t->sweep = t->reevaluate = false;
		}
	}
	return budget;
}
