/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Life cycle of the FIB, interfaces with their port and VLAN indexes, replacement of settings, rules and local
 * prefixes, routes, sizes; and the helpers of fib_private.h.
 */
#include "route/fib.h"

#include <errno.h>
#include <string.h>

#include "route/fib_private.h"

#define VLAN_IDS 4096
#define NUMBER_POOL_START 64

/* By protocol (802.1Q, 802.1ad) and VLAN id; an entry is an interface number. Entries are changed in place. */
struct fib_vlan_index {
	uint16_t iface[2][VLAN_IDS];
};

/* ---- memory ---- */

void *fib_alloc(struct fib *f, size_t *account, size_t bytes)
{
	void *p = f->memory.alloc(f->memory.ctx, bytes);

	if (p && account)
		*account += bytes;
	return p;
}

void fib_release(struct fib *f, size_t *account, void *p, size_t bytes)
{
	if (!p)
		return;
	if (account)
		*account -= bytes;
	f->memory.release(f->memory.ctx, p, bytes);
}

void fib_retire(struct fib *f, size_t *account, void *p, size_t bytes)
{
	if (!p)
		return;
	if (account)
		*account -= bytes;
	f->memory.retire(f->memory.ctx, p, bytes);
}

int fib_grow_array(struct fib *f, size_t *account, void *p, uint32_t *capacity, uint32_t want)
{
	void **place = p;
	void **old = *place;
	void **array = fib_alloc(f, account, want * sizeof(*array));

	if (!array)
		return -ENOMEM;
	if (old)
		memcpy(array, old, *capacity * sizeof(*array));
	__atomic_store_n(place, (void *)array, __ATOMIC_RELEASE);
	fib_retire(f, account, old, *capacity * sizeof(*array));
	*capacity = want;
	return 0;
}

/* ---- numbers ---- */

void number_pool_init(struct number_pool *pool, size_t *account)
{
	*pool = (struct number_pool){ .fresh = 1, .account = account };
}

void number_pool_fini(struct fib *f, struct number_pool *pool)
{
	fib_release(f, pool->account, pool->states, pool->capacity * sizeof(*pool->states));
	pool->states = NULL;
}

static bool oldest_is_ripe(struct fib *f, const struct number_pool *pool)
{
	return pool->first && f->memory.grace &&
		f->memory.grace(f->memory.ctx) >= pool->states[pool->first].closed_at + 2;
}

static int number_pool_grow(struct fib *f, struct number_pool *pool)
{
	uint32_t want = pool->capacity ? pool->capacity * 2 : NUMBER_POOL_START;
	struct number_state *states = fib_alloc(f, pool->account, want * sizeof(*states));

	if (!states)
		return -ENOMEM;
	if (pool->states)
		memcpy(states, pool->states, pool->capacity * sizeof(*states));
	fib_release(f, pool->account, pool->states, pool->capacity * sizeof(*states));
	pool->states = states;
	pool->capacity = want;
	return 0;
}

int number_next(struct fib *f, struct number_pool *pool, uint32_t *ret)
{
	if (oldest_is_ripe(f, pool)) {
		*ret = pool->first;
		return 0;
	}
	if (pool->fresh > NUMBER_MAX)
		return -ENOSPC;
	if (pool->fresh >= pool->capacity && number_pool_grow(f, pool) < 0)
		return -ENOMEM;
	*ret = pool->fresh;
	return 0;
}

void number_take(struct number_pool *pool, uint32_t number)
{
	if (number == pool->first) {
		pool->first = pool->states[number].next;
		if (!pool->first)
			pool->last = 0;
	} else {
		pool->fresh++;
	}
	pool->states[number].closed_at = NUMBER_LIVE;
	pool->in_use++;
}

void number_close(struct fib *f, struct number_pool *pool, uint32_t number)
{
	struct number_state *s = &pool->states[number];

	s->closed_at = f->memory.grace ? f->memory.grace(f->memory.ctx) : 0;
	s->next = 0;
	if (pool->last)
		pool->states[pool->last].next = number;
	else
		pool->first = number;
	pool->last = number;
	pool->in_use--;
}

/* ---- life cycle ---- */

static size_t rules_bytes(const struct fib_rules *r)
{
	return sizeof(*r) + r->count * sizeof(r->rules[0]);
}

static size_t local6_bytes(const struct fib_local6 *l)
{
	return sizeof(*l) + l->count * sizeof(l->prefixes[0]);
}

static int fib_init(struct fib *f, uint32_t hash_seed)
{
	f->writer = fib_alloc(f, NULL, sizeof(*f->writer));
	if (!f->writer)
		return -ENOMEM;
	f->writer->seed = hash_seed * 0xd6e8feb86659fd93ull + ((uintptr_t)f->writer >> 4);
	number_pool_init(&f->writer->groups, &f->writer->bytes_groups);
	number_pool_init(&f->writer->slots, &f->writer->bytes_neighbours);
	f->settings = fib_alloc(f, NULL, sizeof(*f->settings));
	f->lpm4 = lpm4_new(&f->memory);
	f->lpm6 = lpm6_new(&f->memory);
	if (!f->settings || !f->lpm4 || !f->lpm6)
		return -ENOMEM;
	f->settings->hash_seed = hash_seed;
	if (fib_groups_init(f) < 0)
		return -ENOMEM;
	return fib_neighbours_init(f);
}

struct fib *fib_new(const struct route_memory *memory, uint32_t hash_seed)
{
	struct fib *f = memory->alloc(memory->ctx, sizeof(*f));

	if (!f)
		return NULL;
	f->memory = *memory;
	if (fib_init(f, hash_seed) < 0) {
		fib_free(f);
		return NULL;
	}
	return f;
}

static void free_replaceable(struct fib *f)
{
	for (unsigned i = 0; i < FIB_IFACE_MAX; i++)
		fib_release(f, NULL, f->ifaces[i], sizeof(*f->ifaces[i]));
	for (unsigned i = 0; i < FIB_PORT_MAX; i++)
		fib_release(f, NULL, f->vlan_index[i], sizeof(*f->vlan_index[i]));
	if (f->rules)
		fib_release(f, NULL, f->rules, rules_bytes(f->rules));
	if (f->local6)
		fib_release(f, NULL, f->local6, local6_bytes(f->local6));
	fib_release(f, NULL, f->settings, sizeof(*f->settings));
}

void fib_free(struct fib *f)
{
	struct route_memory memory;

	if (!f)
		return;
	memory = f->memory;
	lpm4_free(f->lpm4);
	lpm6_free(f->lpm6);
	free_replaceable(f);
	if (f->writer) {
		fib_groups_fini(f);
		fib_neighbours_fini(f);
		fib_release(f, NULL, f->writer, sizeof(*f->writer));
	}
	memory.release(memory.ctx, f, sizeof(*f));
}

/* ---- interfaces ---- */

/* Row of the VLAN index, -1 for any other protocol. */
static int vlan_row(__be16 proto)
{
	switch (load_be16(&proto)) {
	case 0x8100:
		return 0;
	case 0x88a8:
		return 1;
	default:
		return -1;
	}
}

static bool iface_ok(const struct fib_iface *i)
{
	return i->number != FIB_IFACE_NONE && i->number < FIB_IFACE_MAX && i->port < FIB_PORT_MAX &&
		i->vlan < VLAN_IDS - 1 && (!i->vlan || vlan_row(i->vlan_proto) >= 0);
}

static bool same_key(const struct fib_iface *a, const struct fib_iface *b)
{
	return a->port == b->port && a->vlan == b->vlan && (!a->vlan || a->vlan_proto == b->vlan_proto);
}

/* Where the frames of this interface find its number. */
static uint16_t *index_entry(struct fib *f, const struct fib_iface *i)
{
	if (!i->vlan)
		return &f->port_iface[i->port];
	return &f->vlan_index[i->port]->iface[vlan_row(i->vlan_proto)][i->vlan];
}

/* While netlink messages are still on their way two interfaces may claim the same tag: when the one that has it
 * goes, the other gets it back. */
static uint16_t other_claimant(const struct fib *f, const struct fib_iface *i)
{
	for (uint16_t n = 1; n < FIB_IFACE_MAX; n++)
		if (f->ifaces[n] && n != i->number && same_key(f->ifaces[n], i))
			return n;
	return FIB_IFACE_NONE;
}

static void index_enter(struct fib *f, const struct fib_iface *i)
{
	__atomic_store_n(index_entry(f, i), i->number, __ATOMIC_RELEASE);
}

static void index_leave(struct fib *f, const struct fib_iface *i)
{
	uint16_t *entry = index_entry(f, i);

	if (*entry == i->number)
		__atomic_store_n(entry, other_claimant(f, i), __ATOMIC_RELEASE);
}

/* A port has a VLAN index while it has VLAN interfaces. */
static int vlan_index_hold(struct fib *f, const struct fib_iface *i)
{
	struct fib_vlan_index *index;

	if (!i->vlan)
		return 0;
	if (!f->vlan_index[i->port]) {
		index = fib_alloc(f, NULL, sizeof(*index));
		if (!index)
			return -ENOMEM;
		__atomic_store_n(&f->vlan_index[i->port], index, __ATOMIC_RELEASE);
	}
	f->writer->vlan_count[i->port]++;
	return 0;
}

static void vlan_index_drop(struct fib *f, const struct fib_iface *i)
{
	struct fib_vlan_index *index = f->vlan_index[i->port];

	if (!i->vlan || --f->writer->vlan_count[i->port])
		return;
	__atomic_store_n(&f->vlan_index[i->port], NULL, __ATOMIC_RELEASE);
	fib_retire(f, NULL, index, sizeof(*index));
}

/* Put @new, which may be NULL, into the place of @old, which may be NULL too. Frames of the old interface lose their
 * number before it gets another meaning; where only other fields change they keep it throughout. */
static void iface_exchange(struct fib *f, uint16_t number, struct fib_iface *new)
{
	struct fib_iface *old = f->ifaces[number];

	if (old && !(new && same_key(old, new)))
		index_leave(f, old);
	__atomic_store_n(&f->ifaces[number], new, __ATOMIC_RELEASE);
	if (new)
		index_enter(f, new);
	f->writer->iface_count += !!new - !!old;
	if (old) {
		vlan_index_drop(f, old);
		fib_retire(f, NULL, old, sizeof(*old));
	}
}

int fib_iface_set(struct fib *f, const struct fib_iface *iface)
{
	struct fib_iface *new;

	if (!iface_ok(iface))
		return -EINVAL;
	new = fib_alloc(f, NULL, sizeof(*new));
	if (!new)
		return -ENOMEM;
	if (vlan_index_hold(f, iface) < 0) {
		fib_release(f, NULL, new, sizeof(*new));
		return -ENOMEM;
	}
	*new = *iface;
	iface_exchange(f, new->number, new);
	return 0;
}

void fib_iface_del(struct fib *f, uint16_t number)
{
	if (number < FIB_IFACE_MAX && f->ifaces[number])
		iface_exchange(f, number, NULL);
}

uint16_t fib_vlan_iface(const struct fib *f, uint16_t port, uint16_t vlan_id, __be16 proto)
{
	const struct fib_vlan_index *index;
	int row = vlan_row(proto);

	if (unlikely(port >= FIB_PORT_MAX || row < 0))
		return FIB_IFACE_NONE;
	index = __atomic_load_n(&f->vlan_index[port], __ATOMIC_CONSUME);
	if (!index)
		return FIB_IFACE_NONE;
	return __atomic_load_n(&index->iface[row][vlan_id % VLAN_IDS], __ATOMIC_ACQUIRE);
}

/* ---- replaced as a whole ---- */

int fib_settings_set(struct fib *f, const struct fib_settings *s)
{
	struct fib_settings *old = f->settings;
	struct fib_settings *new = fib_alloc(f, NULL, sizeof(*new));

	if (!new)
		return -ENOMEM;
	*new = *s;
	__atomic_store_n(&f->settings, new, __ATOMIC_RELEASE);
	fib_retire(f, NULL, old, sizeof(*old));
	return 0;
}

static bool rule_ok(const struct fib_rule *r)
{
	unsigned bits = r->flags & FIB_RULE_FAMILY4 ? 32 : 128;

	return r->flags & (FIB_RULE_FAMILY4 | FIB_RULE_FAMILY6) && r->src_len <= bits && r->dst_len <= bits;
}

int fib_rules_set(struct fib *f, const struct fib_rule *rules, uint32_t count)
{
	struct fib_rules *old = f->rules, *new = NULL;

	for (uint32_t i = 0; i < count; i++)
		if (!rule_ok(&rules[i]))
			return -EINVAL;
	if (count) {
		new = fib_alloc(f, NULL, sizeof(*new) + count * sizeof(*rules));
		if (!new)
			return -ENOMEM;
		new->count = count;
		memcpy(new->rules, rules, count * sizeof(*rules));
	}
	__atomic_store_n(&f->rules, new, __ATOMIC_RELEASE);
	if (old)
		fib_retire(f, NULL, old, rules_bytes(old));
	return 0;
}

int fib_local6_set(struct fib *f, const uint8_t (*addr)[16], const uint8_t *plen, uint32_t count)
{
	struct fib_local6 *old = f->local6, *new = NULL;

	for (uint32_t i = 0; i < count; i++)
		if (plen[i] > 128)
			return -EINVAL;
	if (count) {
		new = fib_alloc(f, NULL, sizeof(*new) + count * sizeof(new->prefixes[0]));
		if (!new)
			return -ENOMEM;
		new->count = count;
		for (uint32_t i = 0; i < count; i++) {
			memcpy(new->prefixes[i].addr, addr[i], 16);
			new->prefixes[i].plen = plen[i];
		}
	}
	__atomic_store_n(&f->local6, new, __ATOMIC_RELEASE);
	if (old)
		fib_retire(f, NULL, old, local6_bytes(old));
	return 0;
}

/* ---- prefixes ---- */

int fib_route4_set(struct fib *f, uint32_t prefix, uint8_t plen, uint32_t group)
{
	if (!number_live(&f->writer->groups, group))
		return -EINVAL;
	return lpm4_set(f->lpm4, prefix, plen, group);
}

int fib_route4_del(struct fib *f, uint32_t prefix, uint8_t plen)
{
	return lpm4_del(f->lpm4, prefix, plen);
}

int fib_route6_set(struct fib *f, const uint8_t prefix[16], uint8_t plen, uint32_t group)
{
	if (!number_live(&f->writer->groups, group))
		return -EINVAL;
	return lpm6_set(f->lpm6, prefix, plen, group);
}

int fib_route6_del(struct fib *f, const uint8_t prefix[16], uint8_t plen)
{
	return lpm6_del(f->lpm6, prefix, plen);
}

void fib_get_sizes(const struct fib *f, struct fib_sizes *ret)
{
	const struct fib_writer *w = f->writer;

	*ret = (struct fib_sizes){
		.routes4 = lpm4_count(f->lpm4),
		.routes6 = lpm6_count(f->lpm6),
		.groups = w->groups.in_use,
		.neighbours = w->slots.in_use,
		.ifaces = w->iface_count,
		.rules = f->rules ? f->rules->count : 0,
		.bytes4 = lpm4_bytes(f->lpm4),
		.bytes6 = lpm6_bytes(f->lpm6),
		.bytes_groups = w->bytes_groups,
		.bytes_neighbours = w->bytes_neighbours,
	};
}
