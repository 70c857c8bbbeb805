/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Path sets: what routes lead to, shared by all routes that say the same, and how a set becomes a group of
 * the FIB.
 *
 * A set that a change may have touched is stale: it is resolved anew (by mirror_work(), or at once if a route
 * needs it), and if its group is another one then, its routes are walked and their prefixes evaluated. Until
 * the walk is over prefixes may name the old group, so the reference is kept that long.
 */
#include <errno.h>
#include <linux/if.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

/* ---- interning ---- */

static struct path without_state(const struct path *p)
{
	struct path x = *p;

	x.flags = 0;
	return x;
}

uint64_t set_identity(const struct mirror *m, const struct set_key *key, const struct path *paths)
{
	uint64_t h = table_hash(m->seed, key, sizeof(*key));

	for (unsigned i = 0; i < key->path_count; i++) {
		struct path p = without_state(&paths[i]);

		h = table_hash(h, &p, sizeof(p));
	}
	return h;
}

static bool same_paths(const struct path_set *s, const struct path *paths)
{
	for (unsigned i = 0; i < s->key.path_count; i++) {
		struct path a = without_state(&s->paths[i]), b = without_state(&paths[i]);

		if (memcmp(&a, &b, sizeof(a)))
			return false;
	}
	return true;
}

static struct path_set *find(const struct mirror *m, const struct set_key *key, const struct path *paths,
	uint32_t hash)
{
	struct table_node *n = table_first(&m->sets, hash);

	for (; n; n = table_next(n)) {
		struct path_set *s = container_of(n, struct path_set, node);

		if (!memcmp(&s->key, key, sizeof(*key)) && same_paths(s, paths))
			return s;
	}
	return NULL;
}

struct path_set *set_find(const struct mirror *m, const struct set_key *key, const struct path *paths)
{
	return find(m, key, paths, (uint32_t)set_identity(m, key, paths));
}

static struct path_set *set_new(struct mirror *m, const struct set_key *key, const struct path *paths,
	uint32_t hash)
{
	struct path_set *s = calloc(1, sizeof(*s) + key->path_count * sizeof(*paths));

	if (!s)
		return NULL;
	s->key = *key;
	memcpy(s->paths, paths, key->path_count * sizeof(*paths));
	dlist_init(&s->routes);
	dlist_init(&s->stale);
	dlist_init(&s->of_nexthop);
	if (key->nexthop_id) {
		s->nexthop = nexthop_get(m, key->nexthop_id);
		if (!s->nexthop) {
			free(s);
			return NULL;
		}
		dlist_add_tail(&s->nexthop->sets, &s->of_nexthop);
	}
	if (table_insert(&m->sets, &s->node, hash) < 0) {
		dlist_del(&s->of_nexthop);
		if (s->nexthop)
			nexthop_unused(m, s->nexthop);
		free(s);
		return NULL;
	}
	return s;
}

/* The set with this content, made if missing. A new one has no route yet: the caller adds one or calls
 * set_unused(). */
struct path_set *set_get(struct mirror *m, const struct set_key *key, const struct path *paths)
{
	uint32_t hash = (uint32_t)set_identity(m, key, paths);
	struct path_set *s = find(m, key, paths, hash);

	return s ? s : set_new(m, key, paths, hash);
}

/* The kernel keeps the state of next hops per next hop, not per route, so the latest word holds for all. */
void set_update_flags(struct mirror *m, struct path_set *s, const struct path *paths)
{
	bool dead = false;

	for (unsigned i = 0; i < s->key.path_count; i++) {
		dead |= (s->paths[i].flags ^ paths[i].flags) & PATH_DEAD;
		s->paths[i].flags = paths[i].flags;
	}
	if (dead)
		set_stale(m, s);
}

void set_add_route(struct path_set *s, struct route *r)
{
	r->set = s;
	dlist_add_tail(&s->routes, &r->link);
	s->route_count++;
}

void set_remove_route(struct path_set *s, struct route *r)
{
	if (s->cursor == &r->link)
		s->cursor = r->link.next;
	dlist_del(&r->link);
	s->route_count--;
}

static void put_group(struct mirror *m, uint32_t group)
{
	if (group && !m->keep_groups)
		fib_group_put(m->fib, group);
}

static void put_old(struct mirror *m, struct path_set *s)
{
	for (uint32_t i = 0; i < s->old_count; i++)
		put_group(m, s->old[i]);
	free(s->old);
	s->old = NULL;
	s->old_count = 0;
}

static void set_free(struct mirror *m, struct path_set *s)
{
	dlist_del(&s->stale);
	dlist_del(&s->of_nexthop);
	put_old(m, s);
	put_group(m, s->group);
	if (!s->doomed)
		table_remove(&m->sets, &s->node);
	if (s->nexthop)
		nexthop_unused(m, s->nexthop);
	free(s);
}

void set_unused(struct mirror *m, struct path_set *s)
{
	if (!s->route_count)
		set_free(m, s);
}

static void fini_one(void *ctx, struct table_node *n)
{
	set_free(ctx, container_of(n, struct path_set, node));
}

void sets_fini(struct mirror *m)
{
	table_foreach(&m->sets, fini_one, m);
	while (!dlist_empty(&m->stale))
		set_free(m, dlist_entry(m->stale.next, struct path_set, stale));
	table_fini(&m->sets);
}

/* ---- resolving ---- */

struct resolution {
	struct mirror *m;
	uint8_t family;
	bool alive, other, encap, overflow;
	unsigned count;
};

static bool path_dead(const struct mirror *m, const struct path *p, const struct link *l, uint8_t family)
{
	if (p->flags & PATH_DEAD)
		return true;
	if (!l || !l->known)
		return false;
	return !link_up(l) || (link_linkdown(l) && link_ignores_linkdown(m, l, family));
}

/* One next hop. Dead ones are left out: the others share their part as in the kernel (semantics M1). */
static void resolve_path(struct resolution *x, const struct path *p, uint32_t weight, bool encap)
{
	const struct link *l = link_find(x->m, p->ifindex);
	struct fib_path_spec *spec = &x->m->specs[x->count];

	if (path_dead(x->m, p, l, x->family))
		return;
	x->alive = true;
	x->encap |= encap;
	if (!l || l->pub.iface == FIB_IFACE_NONE) {
		x->other = true;
		return;
	}
	if (x->count == FIB_PATHS_MAX) {
		x->overflow = true;
		return;
	}
	*spec = (struct fib_path_spec){ .iface = l->pub.iface,
		.gateway_family = p->gateway_family,
		.weight = weight };
	memcpy(spec->gateway, p->gateway, sizeof(spec->gateway));
	x->count++;
}

static enum verdict verdict_of(const struct resolution *x)
{
	if (x->encap)
		return VERDICT_KERNEL_ENCAP;
	if (x->other)
		return VERDICT_KERNEL_OTHER_DEVICE;
	return x->overflow ? VERDICT_KERNEL_ENCAP : VERDICT_FORWARD;
}

/* A nexthop object or group. False = the routes by it are gone. */
static bool resolve_nexthop(struct resolution *x, const struct nexthop *nh, enum verdict *ret)
{
	if (!nh->known && !nh->gone) {
		*ret = VERDICT_KERNEL_NO_ROUTE;  /* not told of yet: the kernel knows */
		return true;
	}
	if (nh->gone || nh->fdb)
		return false;
	if (nh->resilient) {
		/* Its buckets keep flows where they are when members change; a hash threshold would move
		 * them. */
		*ret = VERDICT_KERNEL_RULE;
		return true;
	}
	if (nh->blackhole) {
		*ret = VERDICT_DROP_BLACKHOLE;
		return true;
	}
	if (!nh->is_group)
		resolve_path(x, &nh->path, 1, nh->encap);
	for (unsigned i = 0; i < nh->member_count; i++) {
		const struct nexthop *member = nh->members[i].member;

		if (!member->known || member->gone || member->is_group || member->fdb)
			continue;
		if (member->blackhole) {
			*ret = nh->member_count == 1 ? VERDICT_DROP_BLACKHOLE : VERDICT_KERNEL_UNREACHABLE;
			return true;
		}
		resolve_path(x, &member->path, nh->members[i].weight, member->encap);
	}
	*ret = verdict_of(x);
	return x->alive;
}

static enum verdict verdict_of_type(uint8_t type)
{
	switch (type) {
	case RTN_LOCAL:
	case RTN_BROADCAST:
	case RTN_ANYCAST:
	case RTN_MULTICAST:
		return VERDICT_KERNEL_LOCAL;
	case RTN_BLACKHOLE:
		return VERDICT_DROP_BLACKHOLE;
	case RTN_UNREACHABLE:
		return VERDICT_KERNEL_UNREACHABLE;
	case RTN_PROHIBIT:
		return VERDICT_KERNEL_PROHIBIT;
	default:
		return VERDICT_KERNEL_NO_ROUTE;  /* throw, nat ...: the kernel goes on looking */
	}
}

/* False = no path is usable: the kernel goes on to the next metric, then to a shorter prefix. */
static bool resolve(struct mirror *m, const struct path_set *s, enum verdict *ret, unsigned *ret_count)
{
	struct resolution x = { .m = m, .family = s->key.family };
	bool usable = true;

	*ret_count = 0;
	if (s->doomed)
		return false;
	if (s->key.type != RTN_UNICAST) {
		*ret = verdict_of_type(s->key.type);
		return true;
	}
	if (s->nexthop) {
		usable = resolve_nexthop(&x, s->nexthop, ret);
	} else {
		for (unsigned i = 0; i < s->key.path_count; i++)
			resolve_path(&x, &s->paths[i], s->paths[i].weight, s->key.encap);
		*ret = verdict_of(&x);
		usable = x.alive;
	}
	if (*ret == VERDICT_FORWARD)
		*ret_count = x.count;
	return usable;
}

/* Remember a group that prefixes may still name. */
static int keep_old(struct path_set *s, uint32_t group)
{
	uint32_t *old = realloc(s->old, (s->old_count + 1) * sizeof(*old));

	if (!old)
		return -ENOMEM;
	s->old = old;
	s->old[s->old_count++] = group;
	return 0;
}

/* Bring s->group up to date. When it changes a walk of the routes begins. */
static void set_resolve(struct mirror *m, struct path_set *s)
{
	enum verdict v = VERDICT_KERNEL_NO_ROUTE;
	uint32_t group = 0;
	unsigned count;

	s->resolved = true;
	if (resolve(m, s, &v, &count) &&
		fib_group_get(m->fib, v, s->key.mtu, m->specs, count, &group) < 0) {
		mirror_out_of_memory(m);
		group = verdict_group(m, VERDICT_KERNEL_NO_ROUTE);
		if (group)
			fib_group_get(m->fib, VERDICT_KERNEL_NO_ROUTE, 0, NULL, 0, &group);
	}
	if (group == s->group) {
		put_group(m, group);
		return;
	}
	if (s->group && s->route_count && keep_old(s, s->group) < 0) {
		m->keep_groups = true;
		mirror_out_of_memory(m);
	} else if (s->group && !s->route_count) {
		put_group(m, s->group);
	}
	s->group = group;
	s->cursor = dlist_empty(&s->routes) ? NULL : s->routes.next;
	if (s->cursor && dlist_empty(&s->stale))
		dlist_add_tail(&m->stale, &s->stale);
}

uint32_t set_group(struct mirror *m, struct path_set *s)
{
	if (!s->resolved)
		set_resolve(m, s);
	return s->group;
}

/* ---- staleness ---- */

void set_stale(struct mirror *m, struct path_set *s)
{
	s->resolved = false;
	if (dlist_empty(&s->stale))
		dlist_add_tail(&m->stale, &s->stale);
}

static void stale_one(void *ctx, struct table_node *n)
{
	set_stale(ctx, container_of(n, struct path_set, node));
}

void sets_all_stale(struct mirror *m)
{
	table_foreach(&m->sets, stale_one, m);
}

void sets_of_nexthop_stale(struct mirror *m, struct nexthop *nh)
{
	for (struct dlist *l = nh->sets.next; l != &nh->sets; l = l->next)
		set_stale(m, dlist_entry(l, struct path_set, of_nexthop));
}

/* The kernel has removed all routes by this set. So does the next mirror_work(); a route that leads to the
 * same comes with a set of its own. */
static void set_doom(struct mirror *m, struct path_set *s)
{
	table_remove(&m->sets, &s->node);
	s->doomed = true;
	dlist_del(&s->of_nexthop);
	s->nexthop = NULL;
	set_stale(m, s);
}

void sets_of_nexthop_doom(struct mirror *m, struct nexthop *nh)
{
	while (!dlist_empty(&nh->sets))
		set_doom(m, dlist_entry(nh->sets.next, struct path_set, of_nexthop));
}

struct device_walk {
	struct mirror *m;
	uint32_t ifindex;
	unsigned count;
	uint8_t family;
	bool dead, removed;
	const uint8_t *prefsrc;
};

static bool by_device(const struct path_set *s, uint32_t ifindex)
{
	for (unsigned i = 0; i < s->key.path_count; i++)
		if (s->paths[i].ifindex == ifindex || !ifindex)
			return true;
	return false;
}

static void changed_one(void *ctx, struct table_node *n)
{
	struct path_set *s = container_of(n, struct path_set, node);
	struct device_walk *w = ctx;

	if (s->key.type != RTN_UNICAST || (!by_device(s, w->ifindex) && (w->ifindex || !s->nexthop)))
		return;
	w->count++;
	set_stale(w->m, s);
}

/* Sets by a device (0 = any) are to be resolved anew. Returns how many there are. */
unsigned sets_device_changed(struct mirror *m, uint32_t ifindex)
{
	struct device_walk w = { .m = m, .ifindex = ifindex };

	table_foreach(&m->sets, changed_one, &w);
	return w.count;
}

static bool all_dead(const struct path_set *s)
{
	for (unsigned i = 0; i < s->key.path_count; i++)
		if (!(s->paths[i].flags & PATH_DEAD))
			return false;
	return true;
}

static void dead_one(void *ctx, struct table_node *n)
{
	struct path_set *s = container_of(n, struct path_set, node);
	struct device_walk *w = ctx;

	if (s->key.type != RTN_UNICAST || (w->family && w->family != s->key.family) ||
		!by_device(s, w->ifindex))
		return;
	for (unsigned i = 0; i < s->key.path_count; i++) {
		if (s->paths[i].ifindex != w->ifindex)
			continue;
		s->paths[i].flags &= ~PATH_DEAD;
		if (w->dead)
			s->paths[i].flags |= PATH_DEAD;
	}
	w->count++;
	if (all_dead(s) || (w->removed && s->key.family == 4))
		set_doom(w->m, s);
	else
		set_stale(w->m, s);
}

/* As fib_sync_down_dev() and fib_sync_up() do: routes whose last path dies are removed. Returns how many sets
 * there are. */
unsigned sets_device_dead(struct mirror *m, uint32_t ifindex, uint8_t family, bool dead)
{
	struct device_walk w = { .m = m, .ifindex = ifindex, .family = family, .dead = dead };

	table_foreach(&m->sets, dead_one, &w);
	return w.count;
}

/* The device has left. IPv4 removes every route by it, also one that has other paths (NETDEV_UNREGISTER in
 * fib_sync_down_dev); IPv6 takes out the path, and says so. */
unsigned sets_device_removed(struct mirror *m, uint32_t ifindex)
{
	struct device_walk w = { .m = m, .ifindex = ifindex, .dead = true, .removed = true };

	table_foreach(&m->sets, dead_one, &w);
	return w.count;
}

static void source_one(void *ctx, struct table_node *n)
{
	struct path_set *s = container_of(n, struct path_set, node);
	struct device_walk *w = ctx;

	if (s->key.type != RTN_UNICAST || s->key.family != 4 || memcmp(s->key.prefsrc, w->prefsrc, 4))
		return;
	w->count++;
	set_doom(w->m, s);
}

/* fib_sync_down_addr(): routes with this preferred source are removed. */
unsigned sets_source_dead(struct mirror *m, const uint8_t prefsrc[4])
{
	struct device_walk w = { .m = m, .prefsrc = prefsrc };

	table_foreach(&m->sets, source_one, &w);
	return w.count;
}

/* ---- the walk ---- */

/* Remove routes of a doomed set, and with the last one the set. Returns how many. */
static unsigned walk_doomed(struct mirror *m, struct path_set *s, unsigned budget)
{
	unsigned done = 0;
	bool last = false;

	if (!s->resolved)
		set_resolve(m, s);
	while (!last && done < budget) {
		last = s->route_count == 1;
		route_remove(m, dlist_entry(s->routes.next, struct route, link));
		done++;
	}
	return done;
}

/* Evaluate routes of the first stale set. Returns how many were looked at, at least 1. */
static unsigned walk(struct mirror *m, struct path_set *s, unsigned budget)
{
	unsigned done = 1;

	if (s->doomed)
		return walk_doomed(m, s, budget);
	if (!s->resolved)
		set_resolve(m, s);
	while (s->cursor && done < budget) {
		struct route *r;

		if (s->cursor == &s->routes) {
			s->cursor = NULL;
			break;
		}
		r = dlist_entry(s->cursor, struct route, link);
		s->cursor = s->cursor->next;
		prefix_evaluate(m, r->family, r->dst, r->plen);
		done++;
	}
	if (s->cursor == &s->routes)
		s->cursor = NULL;
	/* An evaluation may have made another of its groups stale again. */
	if (!s->cursor && s->resolved) {
		put_old(m, s);
		dlist_del(&s->stale);
	}
	return done;
}

unsigned sets_work(struct mirror *m, unsigned budget)
{
	while (budget > 1 && !dlist_empty(&m->stale)) {
		unsigned done = walk(m, dlist_entry(m->stale.next, struct path_set, stale), budget);

		budget -= done < budget ? done : budget;
	}
	return budget;
}
