/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The writing side of the IPv4 table; see lpm4.h.
 *
 * Besides the entries that readers see, the writer keeps the length of the prefix behind each of them, and
 * a hash of all prefixes. A change of prefix P repaints those entries in its range that no longer prefix
 * has set; when P goes, the hash tells which shorter prefix takes over.
 */
#include "route/lpm4.h"

#include <errno.h>
#include <stdbool.h>

#define ENTRIES (1u << 24)
#define STORE_MIN_BITS 6
#define NO_GROUP UINT32_MAX

/* A prefix shorter than 32 has room in its key for an end mark: the bit behind its last one. A /32 has
 * none and sets SLOT_HOST next to the value. Value 0 is an empty slot. */
#define SLOT_HOST 0x80000000u

struct slot {
	uint32_t key;
	uint32_t value;
};

struct lpm4_builder {
	struct route_memory mem;
	uint8_t *plen;                  /* ENTRIES; means nothing where the entry is a group */
	struct slot *slots;             /* 1 << bits, open addressing with linear probing */
	unsigned bits;
	uint32_t seed;
	unsigned stored;                /* slots in use: all prefixes but the default */
	unsigned by_plen[33];
	uint32_t groups;                /* numbers handed out so far */
	uint32_t closed_first, closed_last;
	size_t bytes;
};

static void *table_alloc(struct lpm4_builder *b, size_t bytes)
{
	void *p = b->mem.alloc(b->mem.ctx, bytes);

	if (p)
		b->bytes += bytes;
	return p;
}

static void table_release(struct lpm4_builder *b, void *p, size_t bytes)
{
	if (!p)
		return;
	b->bytes -= bytes;
	b->mem.release(b->mem.ctx, p, bytes);
}

/* Pairs with the acquire loads of lpm4_lookup(). */
static void publish(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static uint32_t mask_of(unsigned plen)
{
	return plen ? ~0u << (32 - plen) : 0;
}

/* --- the store of prefixes --- */

static struct slot slot_of(uint32_t prefix, unsigned plen, uint32_t value)
{
	if (plen == 32)
		return (struct slot){ prefix, value | SLOT_HOST };
	return (struct slot){ prefix | 1u << (31 - plen), value };
}

static bool slot_same(struct slot a, struct slot b)
{
	return a.key == b.key && (a.value & SLOT_HOST) == (b.value & SLOT_HOST);
}

/* The seed comes from where the table lies, so that a peer cannot easily pick prefixes that all collide. */
static uint32_t slot_hash(const struct lpm4_builder *b, struct slot s)
{
	uint64_t h = (s.key ^ b->seed) | (uint64_t)(s.value & SLOT_HOST) << 1;

	h *= 0x9e3779b97f4a7c15u;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	return h >> (64 - b->bits);
}

/* The slot of this prefix, or the empty one where it would go. There always is an empty one. */
static struct slot *store_seek(const struct lpm4_builder *b, struct slot want)
{
	uint32_t mask = (1u << b->bits) - 1;
	uint32_t i = slot_hash(b, want);

	while (b->slots[i].value && !slot_same(b->slots[i], want))
		i = (i + 1) & mask;
	return &b->slots[i];
}

static uint32_t store_get(const struct lpm4_builder *b, uint32_t prefix, unsigned plen)
{
	if (!b->by_plen[plen])
		return 0;
	return store_seek(b, slot_of(prefix, plen, 0))->value & ~SLOT_HOST;
}

static int store_resize(struct lpm4_builder *b, unsigned bits)
{
	struct slot *old = b->slots;
	size_t old_slots = old ? (size_t)1 << b->bits : 0;
	struct slot *slots = table_alloc(b, sizeof(*slots) << bits);

	if (!slots)
		return -ENOMEM;
	b->slots = slots;
	b->bits = bits;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].value)
			*store_seek(b, old[i]) = old[i];
	table_release(b, old, old_slots * sizeof(*old));
	return 0;
}

/* Room for one more at a fill of at most 3/4. */
static int store_reserve(struct lpm4_builder *b)
{
	if (b->stored + 1 <= (3u << b->bits) / 4)
		return 0;
	return store_resize(b, b->bits + 1);
}

static void store_remove(struct lpm4_builder *b, struct slot *s, unsigned plen)
{
	uint32_t mask = (1u << b->bits) - 1;
	uint32_t hole = s - b->slots;

	/* Move up what was pushed behind the hole, so that no search stops too early. */
	for (uint32_t i = (hole + 1) & mask; b->slots[i].value; i = (i + 1) & mask) {
		uint32_t home = slot_hash(b, b->slots[i]);

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			b->slots[hole] = b->slots[i];
			hole = i;
		}
	}
	b->slots[hole].value = 0;
	b->by_plen[plen]--;
	b->stored--;
	/* If there is no memory for a smaller store, the large one goes on. */
	if (b->bits > STORE_MIN_BITS && b->stored < (1u << b->bits) / 8)
		(void)store_resize(b, b->bits - 1);
}

/* The next shorter prefix around this one, the default left out. */
static uint32_t store_parent(const struct lpm4_builder *b, uint32_t prefix, unsigned plen, uint8_t *ret_plen)
{
	while (--plen > 0) {
		uint32_t v = store_get(b, prefix & mask_of(plen), plen);

		if (v) {
			*ret_plen = plen;
			return v;
		}
	}
	*ret_plen = 0;
	return 0;
}

/* --- groups --- */

static struct lpm4_chunk *chunk_of(const struct lpm4 *t, uint32_t g)
{
	return t->chunk[(g & ~LPM4_GROUP) / LPM4_CHUNK_GROUPS];
}

static struct lpm4_group *group_of(const struct lpm4 *t, uint32_t g)
{
	return &chunk_of(t, g)->group[g % LPM4_CHUNK_GROUPS];
}

/* The oldest closed group, if no reader can still be in it. */
static uint32_t group_reuse(struct lpm4 *t)
{
	struct lpm4_builder *b = t->builder;
	uint32_t g = b->closed_first;

	if (g == NO_GROUP || !b->mem.grace || b->mem.grace(b->mem.ctx) < group_of(t, g)->closed_at + 2)
		return NO_GROUP;
	b->closed_first = group_of(t, g)->next;
	return g;
}

static uint32_t group_take(struct lpm4 *t)
{
	struct lpm4_builder *b = t->builder;
	uint32_t g = group_reuse(t);
	uint32_t c = b->groups / LPM4_CHUNK_GROUPS;

	if (g != NO_GROUP)
		return g;
	if (c >= LPM4_CHUNKS)
		return NO_GROUP;
	if (!t->chunk[c]) {
		struct lpm4_chunk *chunk = table_alloc(b, sizeof(*chunk));

		if (!chunk)
			return NO_GROUP;
		/* Readers come here only by an entry that is published later. */
		__atomic_store_n(&t->chunk[c], chunk, __ATOMIC_RELAXED);
	}
	return b->groups++;
}

/* Turn entry @i into a group that says the same. */
static int group_open(struct lpm4 *t, uint32_t i)
{
	uint32_t g, old = t->entry[i];
	struct lpm4_chunk *c;

	if (old & LPM4_GROUP)
		return 0;
	g = group_take(t);
	if (g == NO_GROUP)
		return -ENOMEM;
	c = chunk_of(t, g);
	for (unsigned k = 0; k < 256; k++) {
		__atomic_store_n(&c->entry[g % LPM4_CHUNK_GROUPS][k], old, __ATOMIC_RELAXED);
		c->plen[g % LPM4_CHUNK_GROUPS][k] = t->builder->plen[i];
	}
	group_of(t, g)->prefixes = 0;
	publish(&t->entry[i], g | LPM4_GROUP);
	return 0;
}

/* No prefix longer than 24 is left inside: all 256 entries are the same and become one again. */
static void group_close(struct lpm4 *t, uint32_t i)
{
	struct lpm4_builder *b = t->builder;
	uint32_t g = t->entry[i] & ~LPM4_GROUP;
	struct lpm4_chunk *c = chunk_of(t, g);

	b->plen[i] = c->plen[g % LPM4_CHUNK_GROUPS][0];
	publish(&t->entry[i], c->entry[g % LPM4_CHUNK_GROUPS][0]);
	group_of(t, g)->closed_at = b->mem.grace ? b->mem.grace(b->mem.ctx) : 0;
	group_of(t, g)->next = NO_GROUP;
	if (b->closed_first == NO_GROUP)
		b->closed_first = g;
	else
		group_of(t, b->closed_last)->next = g;
	b->closed_last = g;
}

/* --- painting --- */

/* One colour: the value and the length of the prefix it comes from. It covers what a prefix of length
 * @over or shorter has set. */
struct paint {
	uint32_t value;
	uint8_t plen;
	uint8_t over;
};

static void paint_group(struct lpm4 *t, uint32_t g, unsigned first, unsigned n, struct paint p)
{
	uint32_t *entry = chunk_of(t, g)->entry[g % LPM4_CHUNK_GROUPS];
	uint8_t *plen = chunk_of(t, g)->plen[g % LPM4_CHUNK_GROUPS];

	for (unsigned k = first; k < first + n; k++) {
		if (plen[k] > p.over)
			continue;
		plen[k] = p.plen;
		publish(&entry[k], p.value);
	}
}

/* The range is the one of prefix/p.over. */
static void paint(struct lpm4 *t, uint32_t prefix, struct paint p)
{
	uint32_t i = prefix >> 8;
	uint8_t *plen = t->builder->plen;

	if (p.over > 24) {
		paint_group(t, t->entry[i], prefix & 0xff, 1u << (32 - p.over), p);
		return;
	}
	for (uint32_t end = i + (1u << (24 - p.over)); i < end; i++) {
		if (t->entry[i] & LPM4_GROUP) {
			paint_group(t, t->entry[i], 0, 256, p);
		} else if (plen[i] <= p.over) {
			plen[i] = p.plen;
			publish(&t->entry[i], p.value);
		}
	}
}

/* --- the table --- */

static bool prefix_ok(uint32_t prefix, uint8_t plen)
{
	return plen <= 32 && !(prefix & ~mask_of(plen));
}

struct lpm4 *lpm4_new(const struct route_memory *mem)
{
	struct lpm4 *t = mem->alloc(mem->ctx, sizeof(*t));
	struct lpm4_builder *b = mem->alloc(mem->ctx, sizeof(*b));

	if (!t || !b) {
		if (t)
			mem->release(mem->ctx, t, sizeof(*t));
		if (b)
			mem->release(mem->ctx, b, sizeof(*b));
		return NULL;
	}
	b->mem = *mem;
	b->bytes = sizeof(*t) + sizeof(*b);
	b->seed = (uintptr_t)b >> 4;
	b->closed_first = NO_GROUP;
	t->builder = b;
	t->entry = table_alloc(b, ENTRIES * sizeof(*t->entry));
	b->plen = table_alloc(b, ENTRIES);
	if (!t->entry || !b->plen || store_resize(b, STORE_MIN_BITS) < 0) {
		lpm4_free(t);
		return NULL;
	}
	return t;
}

void lpm4_free(struct lpm4 *t)
{
	struct lpm4_builder *b;
	struct route_memory mem;

	if (!t)
		return;
	b = t->builder;
	mem = b->mem;
	for (unsigned c = 0; c < LPM4_CHUNKS && t->chunk[c]; c++)
		table_release(b, t->chunk[c], sizeof(*t->chunk[c]));
	table_release(b, t->entry, ENTRIES * sizeof(*t->entry));
	table_release(b, b->plen, ENTRIES);
	table_release(b, b->slots, sizeof(*b->slots) << b->bits);
	mem.release(mem.ctx, b, sizeof(*b));
	mem.release(mem.ctx, t, sizeof(*t));
}

static int insert(struct lpm4 *t, uint32_t prefix, uint8_t plen, uint32_t value)
{
	struct lpm4_builder *b = t->builder;
	struct slot s = slot_of(prefix, plen, value);

	if (store_reserve(b) < 0 || (plen > 24 && group_open(t, prefix >> 8) < 0))
		return -ENOMEM;
	*store_seek(b, s) = s;
	b->stored++;
	b->by_plen[plen]++;
	if (plen > 24)
		group_of(t, t->entry[prefix >> 8])->prefixes++;
	return 0;
}

int lpm4_set(struct lpm4 *t, uint32_t prefix, uint8_t plen, uint32_t value)
{
	struct slot *s;
	int rc;

	if (!prefix_ok(prefix, plen) || !value || value > LPM4_VALUE_MAX)
		return -EINVAL;
	if (!plen) {
		publish(&t->default_value, value);
		return 0;
	}
	s = store_seek(t->builder, slot_of(prefix, plen, 0));
	if (!s->value) {
		rc = insert(t, prefix, plen, value);
		if (rc < 0)
			return rc;
	} else if ((s->value & ~SLOT_HOST) == value) {
		return 0;
	} else {
		*s = slot_of(prefix, plen, value);
	}
	paint(t, prefix, (struct paint){ .value = value, .plen = plen, .over = plen });
	return 0;
}

int lpm4_del(struct lpm4 *t, uint32_t prefix, uint8_t plen)
{
	struct paint p = { .over = plen };
	struct slot *s;

	if (!prefix_ok(prefix, plen))
		return -EINVAL;
	if (!plen) {
		if (!t->default_value)
			return -ENOENT;
		publish(&t->default_value, 0);
		return 0;
	}
	s = store_seek(t->builder, slot_of(prefix, plen, 0));
	if (!s->value)
		return -ENOENT;
	store_remove(t->builder, s, plen);
	p.value = store_parent(t->builder, prefix, plen, &p.plen);
	paint(t, prefix, p);
	if (plen > 24 && --group_of(t, t->entry[prefix >> 8])->prefixes == 0)
		group_close(t, prefix >> 8);
	return 0;
}

uint32_t lpm4_get_exact(const struct lpm4 *t, uint32_t prefix, uint8_t plen)
{
	if (!prefix_ok(prefix, plen))
		return 0;
	return plen ? store_get(t->builder, prefix, plen) : t->default_value;
}

uint32_t lpm4_lookup_plen(const struct lpm4 *t, uint32_t addr, uint8_t *plen)
{
	uint32_t v = lpm4_lookup(t, addr);
	uint32_t e = t->entry[addr >> 8];

	if (!v)
		return 0;
	/* Where only the default matches, the length kept is 0, which is the right one. */
	if (e & LPM4_GROUP)
		*plen = chunk_of(t, e)->plen[e % LPM4_CHUNK_GROUPS][addr & 0xff];
	else
		*plen = t->builder->plen[addr >> 8];
	return v;
}

size_t lpm4_bytes(const struct lpm4 *t)
{
	return t->builder->bytes;
}

unsigned lpm4_count(const struct lpm4 *t)
{
	return t->builder->stored + (t->default_value != 0);
}
