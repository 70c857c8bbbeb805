/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Neighbours: slots in chunks that never move, and an index by (interface, family, address).
 *
 * The index is read by workers while it changes. Its cells are 64-bit words, the hash above the slot; a cell goes
 * from empty to a slot, to "gone" and to another slot, never back to empty, so that a search which is under way does
 * not stop too early. When it is three quarters full, gone ones included, a new index takes its place.
 * A slot that is freed keeps its content until its number is given out again, after a grace period: a reader that
 * found it before may still look at it.
 */
#include "route/fib.h"

#include <errno.h>
#include <string.h>

#include "route/fib_private.h"

#define CELLS_START 64
#define CELL_EMPTY 0
#define CELL_GONE ((uint64_t)UINT32_MAX << 32)  /* of no slot */

/* Only the cells are ever changed. */
struct fib_neigh_index {
	uint64_t seed;
	uint32_t mask;
	uint32_t reserved;
	uint64_t cells[];
};

struct neigh_key {
	uint16_t iface;
	uint16_t family;
	uint8_t addr[16];  /* IPv4: zeros behind the first four */
};

static struct neigh_key key_of(uint16_t iface, uint8_t family, const uint8_t *addr)
{
	struct neigh_key k = { .iface = iface, .family = family };

	memcpy(k.addr, addr, family == 4 ? 4 : 16);
	return k;
}

static uint32_t key_hash(uint64_t seed, const struct neigh_key *k)
{
	return fib_hash_words(seed, k, k->family == 4 ? 2 : 5);
}

static bool key_is_of(const struct neigh_key *k, const struct fib_neigh *n)
{
	return n->iface == k->iface && n->family == k->family && !memcmp(n->addr, k->addr, 16);
}

static size_t index_bytes(uint32_t cells)
{
	return sizeof(struct fib_neigh_index) + cells * sizeof(uint64_t);
}

static uint32_t index_find(const struct fib *f, const struct neigh_key *k)
{
	const struct fib_neigh_index *x = __atomic_load_n(&f->neigh_index, __ATOMIC_CONSUME);
	uint32_t hash = key_hash(x->seed, k);

	for (uint32_t i = hash & x->mask;; i = (i + 1) & x->mask) {
		/* Pairs with the release in cell_set(): the slot's content is complete. */
		uint64_t c = __atomic_load_n(&x->cells[i], __ATOMIC_ACQUIRE);

		if (c == CELL_EMPTY)
			return FIB_NEIGH_NONE;
		if (c >> 32 == hash && c != CELL_GONE && key_is_of(k, fib_neigh(f, (uint32_t)c)))
			return (uint32_t)c;
	}
}

static void cell_set(uint64_t *cell, uint64_t c)
{
	__atomic_store_n(cell, c, __ATOMIC_RELEASE);
}

/* Into the first cell that is free. The key is not in the index yet. Tells whether one cell more is filled now. */
static bool index_insert(struct fib_neigh_index *x, uint32_t hash, uint32_t slot)
{
	uint32_t i = hash & x->mask;
	bool was_empty;

	while ((uint32_t)x->cells[i])
		i = (i + 1) & x->mask;
	was_empty = x->cells[i] == CELL_EMPTY;
	cell_set(&x->cells[i], (uint64_t)hash << 32 | slot);
	return was_empty;
}

static void index_remove(struct fib_neigh_index *x, uint32_t hash, uint32_t slot)
{
	uint32_t i = hash & x->mask;

	while ((uint32_t)x->cells[i] != slot)
		i = (i + 1) & x->mask;
	cell_set(&x->cells[i], CELL_GONE);
}

/* Room for one more. */
static int index_reserve(struct fib *f)
{
	struct fib_writer *w = f->writer;
	struct fib_neigh_index *new, *old = f->neigh_index;
	uint32_t cells;

	if (old && (uint64_t)(w->index_filled + 1) * 4 <= ((uint64_t)old->mask + 1) * 3)
		return 0;
	cells = round_up_pow2((w->slots.in_use + 1) * 2);
	if (cells < CELLS_START)
		cells = CELLS_START;
	new = fib_alloc(f, &w->bytes_neighbours, index_bytes(cells));
	if (!new)
		return -ENOMEM;
	new->seed = w->seed;
	new->mask = cells - 1;
	for (uint32_t i = 0; old && i <= old->mask; i++)
		if ((uint32_t)old->cells[i])
			index_insert(new, old->cells[i] >> 32, (uint32_t)old->cells[i]);
	w->index_filled = w->slots.in_use;
	__atomic_store_n(&f->neigh_index, new, __ATOMIC_RELEASE);
	if (old)
		fib_retire(f, &w->bytes_neighbours, old, index_bytes(old->mask + 1));
	return 0;
}

/* The chunk of a slot. */
static int chunk_reserve(struct fib *f, uint32_t slot)
{
	struct fib_writer *w = f->writer;
	uint32_t c = slot >> FIB_NEIGH_CHUNK_SHIFT;
	struct fib_neigh *chunk;

	if (c >= w->chunks_capacity && fib_grow_array(f, &w->bytes_neighbours, &f->neigh_chunks,
			&w->chunks_capacity, round_up_pow2(c + 8)) < 0)
		return -ENOMEM;
	if (f->neigh_chunks[c])
		return 0;
	chunk = fib_alloc(f, &w->bytes_neighbours, FIB_NEIGH_CHUNK_SIZE * sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	/* Readers come here only by a slot number that is published later. */
	f->neigh_chunks[c] = chunk;
	return 0;
}

uint32_t fib_neigh_find(const struct fib *f, uint16_t iface, uint8_t family, const uint8_t *addr)
{
	struct neigh_key k = key_of(iface, family, addr);

	return index_find(f, &k);
}

static int neigh_make(struct fib *f, const struct neigh_key *k, uint32_t *ret_slot)
{
	struct fib_writer *w = f->writer;
	struct fib_neigh *n;
	uint32_t slot;
	int rc = number_next(f, &w->slots, &slot);

	if (rc < 0)
		return rc;
	if (chunk_reserve(f, slot) < 0 || index_reserve(f) < 0)
		return -ENOMEM;
	number_take(&w->slots, slot);
	n = fib_neigh(f, slot);
	*n = (struct fib_neigh){ .iface = k->iface, .family = k->family, .references = 1 };
	memcpy(n->addr, k->addr, sizeof(n->addr));
	w->index_filled += index_insert(f->neigh_index, key_hash(w->seed, k), slot);
	*ret_slot = slot;
	return 0;
}

int fib_neigh_get(struct fib *f, uint16_t iface, uint8_t family, const uint8_t *addr, uint32_t *ret_slot)
{
	struct neigh_key k;
	uint32_t slot;

	if (iface == FIB_IFACE_NONE || iface >= FIB_IFACE_MAX || (family != 4 && family != 6))
		return -EINVAL;
	k = key_of(iface, family, addr);
	slot = index_find(f, &k);
	if (slot == FIB_NEIGH_NONE)
		return neigh_make(f, &k, ret_slot);
	fib_neigh(f, slot)->references++;
	*ret_slot = slot;
	return 0;
}

void fib_neigh_put(struct fib *f, uint32_t slot)
{
	struct neigh_key k;
	struct fib_neigh *n;

	if (!number_live(&f->writer->slots, slot))
		return;
	n = fib_neigh(f, slot);
	if (--n->references)
		return;
	k = key_of(n->iface, n->family, n->addr);
	index_remove(f->neigh_index, key_hash(f->writer->seed, &k), slot);
	number_close(f, &f->writer->slots, slot);
}

void fib_neigh_set_mac(struct fib *f, uint32_t slot, const uint8_t mac[6], bool valid)
{
	struct fib_neigh *n;
	uint64_t state = 0;

	if (!number_live(&f->writer->slots, slot))
		return;
	n = fib_neigh(f, slot);
	if (valid) {
		for (unsigned i = 0; i < 6; i++)
			state |= (uint64_t)mac[i] << 8 * i;
		state |= FIB_NEIGH_VALID;
	}
	/* The kernel often says what is known already: leave the line to the workers then. */
	if (__atomic_load_n(&n->mac_state, __ATOMIC_RELAXED) != state)
		__atomic_store_n(&n->mac_state, state, __ATOMIC_RELEASE);
}

void fib_neigh_foreach(struct fib *f, void (*fn)(void *ctx, uint32_t slot, struct fib_neigh *n), void *ctx)
{
	const struct number_pool *slots = &f->writer->slots;

	for (uint32_t slot = 1; slot < slots->fresh; slot++)
		if (number_live(slots, slot))
			fn(ctx, slot, fib_neigh(f, slot));
}

int fib_neighbours_init(struct fib *f)
{
	return index_reserve(f);
}

void fib_neighbours_fini(struct fib *f)
{
	struct fib_writer *w = f->writer;
	size_t *account = &w->bytes_neighbours;

	for (uint32_t c = 0; c < w->chunks_capacity; c++)
		fib_release(f, account, f->neigh_chunks[c], FIB_NEIGH_CHUNK_SIZE * sizeof(**f->neigh_chunks));
	fib_release(f, account, f->neigh_chunks, w->chunks_capacity * sizeof(*f->neigh_chunks));
	if (f->neigh_index)
		fib_release(f, account, f->neigh_index, index_bytes(f->neigh_index->mask + 1));
	number_pool_fini(f, &w->slots);
}
