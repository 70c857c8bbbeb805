/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * IPv6 longest prefix match: address -> 31-bit value (a nexthop-group index), 0 = no route.
 *
 * The first 16 bits choose a root slot, which holds the best value among prefixes up to /16 and a tree of
 * the longer ones. A node of the tree handles 6 bits: a bitmap of the prefixes that end in it (0 to 5 bits
 * below its level), one of its children, and both as dense arrays behind it. Nodes that would have one
 * child and nothing else are left out, so a node says which bits must be equal above it. It compares one
 * 64-bit half of the address: levels are 16, 22, ... 64, 70, ... 124, and a path that goes deeper than 64
 * always has a node at 64.
 *
 * Threads: lpm6_lookup() from any number of threads without a lock, each inside a read section of the RCU
 * flavour behind route_memory; everything else from the one writing thread. A node is never changed but
 * for child pointers and values; otherwise a new one takes its place with one store, and the old one is
 * retired. A look-up sees each change wholly or not at all; one that overlaps several may see a later one
 * without an earlier one. Values are stored with release and loaded with acquire: what the writer set up
 * before it installed a value is visible to a reader that got this value.
 * Addresses are 16 bytes in network order.
 *
 * Cost: 1.5 MiB when all root slots are in use, and at most three nodes of 32 bytes for each prefix, plus
 * 4 bytes for its value and 8 for each child pointer.
 */
#ifndef ROUTERD_ROUTE_LPM6_H
#define ROUTERD_ROUTE_LPM6_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "route/memory.h"

#define LPM6_VALUE_MAX 0x7fffffffu

struct lpm6_builder;

struct lpm6_node {
	uint64_t key;           /* the half of the address that holds the bits above the level; host order */
	uint64_t prefixes;      /* bit 1 << n | (the n bits below the level), for a prefix n bits longer */
	uint64_t children;      /* bit: the 6 bits below the level */
	uint8_t shift;          /* of the key, to compare only what is above the level */
	uint8_t rotate;         /* left, to get the 6 bits down to bit 0 */
	uint8_t level;
	uint8_t n_children;
	uint8_t n_values;
	struct lpm6_node *child[];      /* followed by uint32_t values[n_values] */
};

/* Public only for lpm6_lookup() to be inlined. */
struct lpm6 {
	uint32_t default_value;
	struct lpm6_builder *builder;
	struct lpm6_root {
		struct lpm6_node *node;
		uint32_t value;         /* of the best prefix from /1 to /16 */
	} root[1 << 16];
};

/* Where a walk found the longest prefix: the highest bit of @match; nowhere if it is 0. */
struct lpm6_found {
	const struct lpm6_node *node;
	uint64_t match;
};

/* NULL when out of memory. */
struct lpm6 *lpm6_new(const struct route_memory *mem);

/* Gives all memory back at once: no reader may be left. @t may be NULL. */
void lpm6_free(struct lpm6 *t);

/* Insert a prefix, or replace its value, which is 1 to LPM6_VALUE_MAX.
 * -EINVAL: value out of range, @plen over 128, bits set behind @plen; -ENOMEM. On error nothing changes.
 * To replace needs no memory. */
int lpm6_set(struct lpm6 *t, const uint8_t prefix[16], uint8_t plen, uint32_t value);

/* -EINVAL as above; -ENOENT if this very prefix is not in the table; -ENOMEM, as a node may have to be
 * built anew. On error nothing changes. */
int lpm6_del(struct lpm6 *t, const uint8_t prefix[16], uint8_t plen);

/* The value of this very prefix, 0 if it is not in the table. Writing thread. */
uint32_t lpm6_get_exact(const struct lpm6 *t, const uint8_t prefix[16], uint8_t plen);

/* As lpm6_lookup(); *@plen is the length of the prefix found, untouched if none. Writing thread. */
uint32_t lpm6_lookup_plen(const struct lpm6 *t, const uint8_t addr[16], uint8_t *plen);

/* Bytes asked for and neither given back nor retired. */
size_t lpm6_bytes(const struct lpm6 *t);

/* Number of prefixes. */
unsigned lpm6_count(const struct lpm6 *t);

/* For a six-bit number: the bits in lpm6_node.prefixes of all prefixes around it, by its upper five bits. */
extern const uint64_t lpm6_around[32];

/* The place of bit @bit in the array that belongs to @map. */
static inline unsigned lpm6_rank(uint64_t map, unsigned bit)
{
	return __builtin_popcountll(map & (((uint64_t)1 << bit) - 1));
}

static inline uint64_t lpm6_rotate(uint64_t v, unsigned n)
{
	return v << (n & 63) | v >> (-n & 63);
}

static inline uint32_t *lpm6_values(const struct lpm6_node *n)
{
	return (uint32_t *)&n->child[n->n_children];
}

static inline struct lpm6_found lpm6_walk(const struct lpm6_node *n, uint64_t hi, uint64_t lo)
{
	struct lpm6_found found = { NULL, 0 };
	uint64_t word = hi;

	while (n && !((word ^ n->key) >> n->shift)) {
		unsigned six;
		uint64_t match;

		/* At 64 the key is still the upper half, and the bits come from the lower one. */
		if (n->level == 64)
			word = lo;
		/* At 124 the last two are bits from the other end: there they choose neither prefix nor
		 * child. */
		six = lpm6_rotate(word, n->rotate) & 63;
		match = n->prefixes & lpm6_around[six >> 1];
		if (match) {
			found.node = n;
			found.match = match;
		}
		if (!(n->children >> six & 1))
			break;
		/* Pairs with the release in publish() of lpm6.c: the node is complete. */
		n = __atomic_load_n(&n->child[lpm6_rank(n->children, six)], __ATOMIC_ACQUIRE);
	}
	return found;
}

static inline uint32_t lpm6_found_value(struct lpm6_found f)
{
	unsigned k = lpm6_rank(f.node->prefixes, 63 - __builtin_clzll(f.match));

	return __atomic_load_n(&lpm6_values(f.node)[k], __ATOMIC_ACQUIRE);
}

static inline uint64_t lpm6_half(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

static inline uint32_t lpm6_lookup(const struct lpm6 *t, const uint8_t addr[16])
{
	uint64_t hi = lpm6_half(addr);
	const struct lpm6_root *r = &t->root[hi >> 48];
	const struct lpm6_node *n = __atomic_load_n(&r->node, __ATOMIC_ACQUIRE);
	struct lpm6_found f = lpm6_walk(n, hi, lpm6_half(addr + 8));
	uint32_t v;

	if (f.match)
		return lpm6_found_value(f);
	v = __atomic_load_n(&r->value, __ATOMIC_ACQUIRE);
	if (__builtin_expect(!v, 0))
		v = __atomic_load_n(&t->default_value, __ATOMIC_ACQUIRE);
	return v;
}

#endif
