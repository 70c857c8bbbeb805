/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the writer of the FIB keeps for itself; shared by fib.c, nexthop.c, neighbour.c. Control thread only.
 *
 * Numbers (of groups, of neighbour slots) and grace periods: a reader may hold a number that it loaded from the
 * longest-prefix table or the neighbour index until its next quiescent state, and only then looks at what the number
 * stands for. So a number that is no longer used is closed with the time of its closing in grace periods
 * (route_memory.grace), keeps its meaning until then, and is given out again only two periods later, the oldest
 * first. Without grace() it is never given out again.
 */
#ifndef ROUTERD_ROUTE_FIB_PRIVATE_H
#define ROUTERD_ROUTE_FIB_PRIVATE_H

#include "route/fib.h"

#define NUMBER_MAX LPM4_VALUE_MAX
#define NUMBER_LIVE UINT64_MAX

/* Numbers from 1 on. */
struct number_pool {
	struct number_state {
		uint64_t closed_at;  /* grace() at the closing, NUMBER_LIVE while in use */
		uint32_t next;       /* closed after this one, 0 = none */
	} *states;                   /* [capacity] */
	uint32_t capacity;
	uint32_t fresh;              /* the lowest number that was never given out */
	uint32_t first, last;        /* closed ones, the oldest first; 0 = none */
	uint32_t in_use;
	size_t *account;             /* where its bytes are counted */
};

struct fib_group_cell {
	uint32_t hash;
	uint32_t number;  /* 0 = empty */
};

struct fib_writer {
	uint64_t seed;                 /* of the two hash tables, so that nobody can aim at one chain */
	struct number_pool groups, slots;
	uint32_t groups_capacity;      /* of fib.groups */
	uint32_t chunks_capacity;      /* of fib.neigh_chunks */
	uint32_t index_filled;         /* cells of fib.neigh_index that are not empty */
	struct fib_group_cell *cells;  /* open addressing, by content */
	uint32_t cells_mask;
	struct fib_group *scratch;     /* room for a group with FIB_PATHS_MAX paths */
	uint32_t iface_count;
	uint16_t vlan_count[FIB_PORT_MAX];  /* VLAN interfaces by port */
	size_t bytes_groups, bytes_neighbours;
};

/* Memory that is counted in @account (may be NULL). fib_release: no reader has seen it; fib_retire: one may have. */
void *fib_alloc(struct fib *f, size_t *account, size_t bytes);
void fib_release(struct fib *f, size_t *account, void *p, size_t bytes);
void fib_retire(struct fib *f, size_t *account, void *p, size_t bytes);

/* A larger copy of a pointer array that readers index: published, the old one retired. @p is its place in the FIB. */
int fib_grow_array(struct fib *f, size_t *account, void *p, uint32_t *capacity, uint32_t want);

void number_pool_init(struct number_pool *pool, size_t *account);
void number_pool_fini(struct fib *f, struct number_pool *pool);
/* Which number comes next; makes room for it. Changes nothing that is seen. -ENOMEM, -ENOSPC. */
int number_next(struct fib *f, struct number_pool *pool, uint32_t *ret);
/* Take the number that number_next() just told. */
void number_take(struct number_pool *pool, uint32_t number);
void number_close(struct fib *f, struct number_pool *pool, uint32_t number);

static inline bool number_live(const struct number_pool *pool, uint32_t number)
{
	return number > 0 && number < pool->fresh && pool->states[number].closed_at == NUMBER_LIVE;
}

/* 32 bits over @n words. */
static inline uint32_t fib_hash_words(uint64_t seed, const void *words, unsigned n)
{
	const uint8_t *p = words;
	uint64_t h = seed;

	for (unsigned i = 0; i < n; i++) {
		h = (h ^ load_raw32(p + 4 * i)) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	h *= 0xbf58476d1ce4e5b9ull;
	return h >> 32;
}

/* nexthop.c and neighbour.c: their part of fib_new() and fib_free(). */
int fib_groups_init(struct fib *f);
void fib_groups_fini(struct fib *f);
int fib_neighbours_init(struct fib *f);
void fib_neighbours_fini(struct fib *f);

#endif
