/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror's small containers: an intrusive hash table, an intrusive circular list, a pool of records of
 * one size and a set of 64-bit identities. Thread: control. The table and the list own nothing; callers free
 * their records.
 */
#ifndef ROUTERD_CONTROL_MIRROR_TABLE_H
#define ROUTERD_CONTROL_MIRROR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bits.h"

/* ---- list ---- */

struct dlist {
	struct dlist *next, *prev;
};

static inline void dlist_init(struct dlist *l)
{
	l->next = l->prev = l;
}

static inline bool dlist_empty(const struct dlist *l)
{
	return l->next == l;
}

static inline void dlist_add_tail(struct dlist *head, struct dlist *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Take @l out; it is an empty list of its own then, so that a second removal does no harm. */
static inline void dlist_del(struct dlist *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	dlist_init(l);
}

#define dlist_entry(l, type, member) container_of(l, type, member)

/* ---- hash table ---- */

struct table_node {
	struct table_node *next;
	uint32_t hash;
};

struct table {
	struct table_node **buckets;  /* NULL while empty */
	uint32_t mask, count;
};

/* Seeded: neighbours, and through routing protocols routes, are chosen by others. */
uint64_t table_hash(uint64_t seed, const void *data, size_t bytes);

/* -ENOMEM leaves the table as it was. */
int table_insert(struct table *t, struct table_node *n, uint32_t hash);
void table_remove(struct table *t, struct table_node *n);
/* First record with this hash, or NULL; and the next one after @n with the same. */
struct table_node *table_first(const struct table *t, uint32_t hash);
struct table_node *table_next(const struct table_node *n);
/* Call @fn for each record; it may remove that record and no other. */
void table_foreach(struct table *t, void (*fn)(void *ctx, struct table_node *n), void *ctx);
/* Free the buckets. The records are the caller's. */
void table_fini(struct table *t);

/* ---- pool ---- */

struct pool_slab;

struct pool {
	struct pool_slab *slabs;
	void *free;
	size_t size;   /* of a record, a multiple of 8 */
	size_t bytes;  /* asked for, all together */
};

void *pool_alloc(struct pool *p);  /* zeroed; NULL when out of memory */
void pool_free(struct pool *p, void *record);
void pool_fini(struct pool *p);    /* all records at once */

/* ---- identities ---- */

/* What was deleted while a dump runs, so that an older piece of the dump does not bring it back. */
struct idset {
	uint64_t *cells;  /* 0 = empty, 1 = removed */
	uint32_t mask, count, filled;
};

int idset_add(struct idset *s, uint64_t id);
void idset_del(struct idset *s, uint64_t id);
bool idset_has(const struct idset *s, uint64_t id);
void idset_clear(struct idset *s);  /* and free */

#endif
