/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * From the routes of a prefix to the FIB: which one the kernel would take, and where tables meet.
 *
 * IPv4: the kernel keeps the tables local and main in one trie (the longest match over both) until the first
 * ip rule is added, and in two (local first) from then on. They differ only for main routes inside a shorter
 * local prefix; the kernel gets those. Table default is looked at for what main does not match at all, and
 * (without rules) for what main only answers with an error. IPv6: local first; its prefixes are in the FIB's
 * local6 list, its host routes in the LPM.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "control/mirror_private.h"

/* ---- prefixes ---- */

static void mask_prefix(uint8_t ret[16], const uint8_t *addr, uint8_t plen)
{
	memset(ret, 0, 16);
	memcpy(ret, addr, (plen + 7) / 8);
	if (plen % 8)
		ret[plen / 8] &= (uint8_t)(0xff00 >> plen % 8);
}

static bool covers(const struct prefix *p, const uint8_t *addr, uint8_t plen)
{
	unsigned bytes = p->plen / 8, bits = p->plen % 8;

	if (p->plen > plen || memcmp(p->addr, addr, bytes))
		return false;
	return !bits || !((p->addr[bytes] ^ addr[bytes]) & (0xff00 >> bits & 0xff));
}

static uint32_t list_find(const struct prefix_list *l, const uint8_t *addr, uint8_t plen, unsigned bytes)
{
	uint32_t i = 0;

	while (i < l->count && (l->prefixes[i].plen != plen || memcmp(l->prefixes[i].addr, addr, bytes)))
		i++;
	return i;
}

static int list_add(struct prefix_list *l, uint8_t family, const uint8_t *addr, uint8_t plen)
{
	struct prefix *p;

	if (l->count == l->capacity) {
		uint32_t want = l->capacity ? l->capacity * 2 : 8;

		p = realloc(l->prefixes, want * sizeof(*p));
		if (!p)
			return -ENOMEM;
		l->prefixes = p;
		l->capacity = want;
	}
	p = &l->prefixes[l->count++];
	*p = (struct prefix){ .family = family, .plen = plen };
	memcpy(p->addr, addr, route_address_bytes(family));
	return 0;
}

static void list_del(struct prefix_list *l, uint32_t i)
{
	l->prefixes[i] = l->prefixes[--l->count];
}

/* ---- the local table ---- */

static struct local_host *host_find(const struct mirror *m, uint8_t family, const uint8_t *addr,
	uint32_t hash)
{
	struct table_node *n = table_first(&m->local_hosts, hash);

	for (; n; n = table_next(n)) {
		struct local_host *h = container_of(n, struct local_host, node);

		if (h->family == family && !memcmp(h->addr, addr, route_address_bytes(family)))
			return h;
	}
	return NULL;
}

static void note_host(struct mirror *m, uint8_t family, const uint8_t *addr, bool present)
{
	uint32_t hash = (uint32_t)table_hash(m->seed, addr, route_address_bytes(family));
	struct local_host *h = host_find(m, family, addr, hash);

	if (present == !!h)
		return;
	if (present) {
		h = calloc(1, sizeof(*h));
		if (!h || table_insert(&m->local_hosts, &h->node, hash) < 0) {
			free(h);
			mirror_out_of_memory(m);
			return;
		}
		h->family = family;
		memcpy(h->addr, addr, route_address_bytes(family));
	} else {
		table_remove(&m->local_hosts, &h->node);
	}
	if (m->hooks.local_address)
		m->hooks.local_address(m->ctx, family, h->addr, present);
	if (!present)
		free(h);
}

void local6_publish(struct mirror *m)
{
	const struct prefix_list *l = &m->local[1];
	uint8_t (*addr)[16] = malloc((l->count + 1) * sizeof(*addr));
	uint8_t *plen = malloc(l->count + 1);

	for (uint32_t i = 0; addr && plen && i < l->count; i++) {
		memcpy(addr[i], l->prefixes[i].addr, 16);
		plen[i] = l->prefixes[i].plen;
	}
	if (!addr || !plen || fib_local6_set(m->fib, (const uint8_t (*)[16])addr, plen, l->count) < 0)
		mirror_out_of_memory(m);
	free(addr);
	free(plen);
}

static void note_prefix(struct mirror *m, uint8_t family, const uint8_t *addr, uint8_t plen, bool present)
{
	unsigned f = family == 6;
	struct prefix_list *l = &m->local[f];
	uint32_t i = list_find(l, addr, plen, route_address_bytes(family));

	if (present == (i < l->count))
		return;
	if (!present)
		list_del(l, i);
	else if (list_add(l, family, addr, plen) < 0)
		mirror_out_of_memory(m);
	if (family == 6)
		local6_publish(m);
	else
		routes_reevaluate(m, 0);
}

static void note_local(struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen,
	const struct route *run)
{
	bool present = false;

	for (const struct route *r = run; r && route_same_prefix(r, dst, plen) && r->table == MIRROR_LOCAL;
		r = r->next)
		present |= r->set->key.type != RTN_THROW;
	if (plen == route_address_bytes(family) * 8)
		note_host(m, family, dst, present);
	else
		note_prefix(m, family, dst, plen, present);
}

/* ---- table default (IPv4) ---- */

int defaults_note(struct mirror *m, const struct route *r, bool present)
{
	struct prefix_list *l = &m->defaults;
	uint32_t was = l->count, i;

	if (present && list_add(l, 4, r->dst, r->plen) < 0)
		return -ENOMEM;
	if (!present) {
		i = list_find(l, r->dst, r->plen, 4);
		if (i < l->count)
			list_del(l, i);
	}
	/* Table default is in use or not; or it is too large to be followed here, and the kernel looks into
	 * it. */
	if (!was != !l->count || (was > MIRROR_DEFAULT_MAX) != (l->count > MIRROR_DEFAULT_MAX))
		routes_reevaluate(m, 0);
	if (!was != !l->count)
		rules_publish(m);
	return 0;
}

static bool default_usable(struct mirror *m, const struct route *r)
{
	uint8_t dst[16];

	if (m->defaults.count > MIRROR_DEFAULT_MAX)
		return false;
	for (int plen = r->plen - 1; plen >= 0; plen--) {
		struct route **run;

		mask_prefix(dst, r->dst, (uint8_t)plen);
		run = route_run(m, 4, dst, (uint8_t)plen);
		for (struct route *x = run ? *run : NULL; x && route_same_prefix(x, dst, (uint8_t)plen);
			x = x->next)
			if (x->table != MIRROR_DEFAULT && set_group(m, x->set))
				return false;
	}
	return true;
}

void defaults_work(struct mirror *m)
{
	for (uint32_t i = 0; i < m->defaults.count && i <= MIRROR_DEFAULT_MAX; i++) {
		struct prefix p = m->defaults.prefixes[i];

		prefix_evaluate(m, 4, p.addr, p.plen);
	}
	m->defaults_stale = false;
}

static void note_change4(struct mirror *m, const uint8_t *dst, uint8_t plen)
{
	struct prefix changed = { .family = 4, .plen = plen };

	memcpy(changed.addr, dst, 4);
	for (uint32_t i = 0; i < m->defaults.count && i <= MIRROR_DEFAULT_MAX; i++)
		m->defaults_stale |= covers(&changed, m->defaults.prefixes[i].addr,
			m->defaults.prefixes[i].plen);
}

/* ---- the choice ---- */

uint32_t verdict_group(struct mirror *m, enum verdict v)
{
	if (!m->verdict_group[v] && fib_group_get(m->fib, v, 0, NULL, 0, &m->verdict_group[v]) < 0)
		mirror_out_of_memory(m);
	return m->verdict_group[v];
}

/* Routes that look at more than the destination: the fast path does not, so the prefix is the kernel's. */
static struct route *find_special(struct route *run)
{
	for (struct route *r = run; r && route_same_prefix(r, run->dst, run->plen); r = r->next)
		if (r->tos || r->set->key.has_source)
			return r;
	return NULL;
}

static bool is_error_type(uint8_t type)
{
	return type == RTN_BLACKHOLE || type == RTN_UNREACHABLE || type == RTN_PROHIBIT;
}

static bool is_local_covered(const struct mirror *m, const struct route *r)
{
	for (uint32_t i = 0; i < m->local[0].count; i++)
		if (m->local[0].prefixes[i].plen < r->plen &&
			covers(&m->local[0].prefixes[i], r->dst, r->plen))
			return true;
	return false;
}

static uint32_t group_of(struct mirror *m, const struct route *r)
{
	uint32_t group = set_group(m, r->set);

	if (!group || r->family == 6 || r->table == MIRROR_LOCAL)
		return group;
	if (is_local_covered(m, r))
		return verdict_group(m, VERDICT_KERNEL_LOCAL);
	if (r->table == MIRROR_MAIN && m->defaults.count && is_error_type(r->set->key.type))
		return verdict_group(m, VERDICT_KERNEL_NO_ROUTE);
	return group;
}

static bool considered(struct mirror *m, const struct route *r)
{
	if (r->family == 6)
		return r->table != MIRROR_LOCAL || (r->plen == 128 && r->set->key.type != RTN_THROW);
	return r->table != MIRROR_DEFAULT || default_usable(m, r);
}

/* RFC 4191: low 3, medium 0, high 1. */
static int preference(const struct route *r)
{
	return r->set->key.pref == 1 ? 2 : r->set->key.pref == 3 ? 0 : 1;
}

/* Among IPv6 routes of one metric the router preference decides (rt6_score_route), then the first. */
static struct route *prefer(struct mirror *m, struct route *best)
{
	struct route *first = best;

	for (struct route *r = first->next; r && route_same_prefix(r, first->dst, first->plen) &&
			r->table == first->table && r->metric == first->metric; r = r->next)
		if (preference(r) > preference(best) && set_group(m, r->set))
			best = r;
	return best;
}

/* The route of the run that the FIB is to follow, NULL if none; its group. */
struct route *prefix_best(struct mirror *m, struct route *run, uint32_t *ret_group)
{
	struct route *special = find_special(run);

	*ret_group = 0;
	if (special) {
		*ret_group = verdict_group(m, VERDICT_KERNEL_RULE);
		return special;
	}
	for (struct route *r = run; r && route_same_prefix(r, run->dst, run->plen); r = r->next) {
		if (!considered(m, r) || !group_of(m, r))
			continue;
		if (r->family == 6)
			r = prefer(m, r);
		*ret_group = group_of(m, r);
		return r;
	}
	return NULL;
}

static int fib_set(struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen, uint32_t group)
{
	if (family == 6)
		return group ? fib_route6_set(m->fib, dst, plen, group) : fib_route6_del(m->fib, dst, plen);
	return group ? fib_route4_set(m->fib, load_be32(dst), plen, group) :
		fib_route4_del(m->fib, load_be32(dst), plen);
}

static uint32_t fib_get(const struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen)
{
	return family == 6 ? lpm6_get_exact(m->fib->lpm6, dst, plen) :
		lpm4_get_exact(m->fib->lpm4, load_be32(dst), plen);
}

/* No memory to change the prefix. It names a group that would be given back, so from now on none is; and the
 * kernel gets its packets, if that can be said (to replace a group needs no memory). */
static void publish_failed(struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen)
{
	uint32_t group = verdict_group(m, VERDICT_KERNEL_NO_ROUTE);

	m->keep_groups = true;
	if (group && fib_get(m, family, dst, plen))
		fib_set(m, family, dst, plen, group);
	m->failed_lost |= list_add(&m->failed, family, dst, plen) < 0;
	mirror_out_of_memory(m);
}

/* Find out what the FIB should say about the prefix, and say it if that is news. */
void prefix_evaluate(struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen)
{
	struct route **place = route_run(m, family, dst, plen);
	struct route *run = place ? *place : NULL;
	uint32_t group = 0;

	note_local(m, family, dst, plen, run);
	if (run)
		prefix_best(m, run, &group);
	/* Not only when the group changes: main's route and table default's may share one. */
	if (family == 4 && m->defaults.count)
		note_change4(m, dst, plen);
	if (fib_get(m, family, dst, plen) == group)
		return;
	if (fib_set(m, family, dst, plen, group) < 0)
		publish_failed(m, family, dst, plen);
}

/* Those that could not be published; also such as have no route left that a walk would find. */
void failed_prefixes_evaluate(struct mirror *m)
{
	struct prefix_list failed = m->failed;

	m->failed = (struct prefix_list){ 0 };
	for (uint32_t i = 0; i < failed.count; i++)
		prefix_evaluate(m, failed.prefixes[i].family, failed.prefixes[i].addr,
			failed.prefixes[i].plen);
	free(failed.prefixes);
}

static void release_host(void *ctx, struct table_node *n)
{
	free(container_of(n, struct local_host, node));
}

void publish_fini(struct mirror *m)
{
	for (unsigned v = 0; v < VERDICT_COUNT; v++)
		if (m->verdict_group[v])
			fib_group_put(m->fib, m->verdict_group[v]);
	table_foreach(&m->local_hosts, release_host, m);
	table_fini(&m->local_hosts);
	for (unsigned f = 0; f < 2; f++)
		free(m->local[f].prefixes);
	free(m->defaults.prefixes);
	free(m->failed.prefixes);
}
