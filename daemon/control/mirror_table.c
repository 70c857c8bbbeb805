/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/mirror_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_START 16
#define SLAB_RECORDS 1024
#define ID_EMPTY 0
#define ID_GONE 1

uint64_t table_hash(uint64_t seed, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	uint64_t h = seed ^ bytes, w;

	for (; bytes; p += w, bytes -= w) {
		uint64_t v = 0;

		w = bytes < 8 ? bytes : 8;
		memcpy(&v, p, w);
		h = (h ^ v) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	h *= 0xd6e8feb86659fd93ull;
	return h ^ h >> 32;
}

/* ---- hash table ---- */

static int table_grow(struct table *t)
{
	uint32_t want = t->buckets ? (t->mask + 1) * 2 : BUCKETS_START;
	struct table_node **buckets = calloc(want, sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	for (uint32_t i = 0; t->buckets && i <= t->mask; i++) {
		struct table_node *n, *next;

		for (n = t->buckets[i]; n; n = next) {
			next = n->next;
			n->next = buckets[n->hash & (want - 1)];
			buckets[n->hash & (want - 1)] = n;
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->mask = want - 1;
	return 0;
}

int table_insert(struct table *t, struct table_node *n, uint32_t hash)
{
	struct table_node **b;

	/* A full table that cannot grow only gets slower. */
	if ((!t->buckets || t->count > t->mask) && table_grow(t) < 0 && !t->buckets)
		return -ENOMEM;
	b = &t->buckets[hash & t->mask];
	n->hash = hash;
	n->next = *b;
	*b = n;
	t->count++;
	return 0;
}

void table_remove(struct table *t, struct table_node *n)
{
	struct table_node **p = &t->buckets[n->hash & t->mask];

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	t->count--;
}

static struct table_node *same_hash(struct table_node *n, uint32_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct table_node *table_first(const struct table *t, uint32_t hash)
{
	return t->buckets ? same_hash(t->buckets[hash & t->mask], hash) : NULL;
}

struct table_node *table_next(const struct table_node *n)
{
	return same_hash(n->next, n->hash);
}

void table_foreach(struct table *t, void (*fn)(void *ctx, struct table_node *n), void *ctx)
{
	for (uint32_t i = 0; t->buckets && i <= t->mask; i++) {
		struct table_node *n, *next;

		for (n = t->buckets[i]; n; n = next) {
			next = n->next;
			fn(ctx, n);
		}
	}
}

void table_fini(struct table *t)
{
	free(t->buckets);
	*t = (struct table){ 0 };
}

/* ---- pool ---- */

struct pool_slab {
	struct pool_slab *next;
	uint64_t records[];
};

static int pool_grow(struct pool *p)
{
	size_t bytes = sizeof(struct pool_slab) + SLAB_RECORDS * p->size;
	struct pool_slab *s = malloc(bytes);

	if (!s)
		return -ENOMEM;
	s->next = p->slabs;
	p->slabs = s;
	p->bytes += bytes;
	for (unsigned i = SLAB_RECORDS; i--;)
		pool_free(p, (char *)s->records + i * p->size);
	return 0;
}

void *pool_alloc(struct pool *p)
{
	void *record;

	if (!p->free && pool_grow(p) < 0)
		return NULL;
	record = p->free;
	memcpy(&p->free, record, sizeof(p->free));
	memset(record, 0, p->size);
	return record;
}

void pool_free(struct pool *p, void *record)
{
	memcpy(record, &p->free, sizeof(p->free));
	p->free = record;
}

void pool_fini(struct pool *p)
{
	struct pool_slab *s, *next;

	for (s = p->slabs; s; s = next) {
		next = s->next;
		free(s);
	}
	*p = (struct pool){ .size = p->size };
}

/* ---- identities ---- */

static uint64_t id_value(uint64_t id)
{
	return id > ID_GONE ? id : id + 2;
}

static uint64_t *id_seek(const struct idset *s, uint64_t id)
{
	uint32_t i = (uint32_t)(id >> 7) & s->mask;

	while (s->cells[i] != ID_EMPTY && s->cells[i] != id)
		i = (i + 1) & s->mask;
	return &s->cells[i];
}

static int idset_grow(struct idset *s)
{
	struct idset bigger = { .mask = s->cells ? round_up_pow2(s->count * 2 + 2) * 2 - 1 : 63 };

	bigger.cells = calloc((size_t)bigger.mask + 1, sizeof(*bigger.cells));
	if (!bigger.cells)
		return -ENOMEM;
	for (uint32_t i = 0; s->cells && i <= s->mask; i++)
		if (s->cells[i] > ID_GONE)
			*id_seek(&bigger, s->cells[i]) = s->cells[i];
	bigger.count = bigger.filled = s->count;
	free(s->cells);
	*s = bigger;
	return 0;
}

int idset_add(struct idset *s, uint64_t id)
{
	uint64_t *c;

	if ((!s->cells || s->filled * 4ull >= s->mask * 3ull) && idset_grow(s) < 0)
		return -ENOMEM;
	id = id_value(id);
	c = id_seek(s, id);
	if (*c == id)
		return 0;
	*c = id;
	s->count++;
	s->filled++;
	return 0;
}

void idset_del(struct idset *s, uint64_t id)
{
	uint64_t *c;

	if (!s->count)
		return;
	c = id_seek(s, id_value(id));
	if (*c == ID_EMPTY)
		return;
	*c = ID_GONE;
	s->count--;
}

bool idset_has(const struct idset *s, uint64_t id)
{
	return s->count && *id_seek(s, id_value(id)) != ID_EMPTY;
}

void idset_clear(struct idset *s)
{
	free(s->cells);
	*s = (struct idset){ 0 };
}
