/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * IPv4 longest prefix match: address -> 31-bit value (a nexthop-group index), 0 = no route.
 *
 * The look-up side is one array with an entry for each /24. An entry holds the value, or the number of a
 * group of 256 entries when a prefix longer than 24 lies inside. The default route is kept apart and
 * stands in for an entry of 0, so that a small table touches few pages.
 *
 * Threads: lpm4_lookup() from any number of threads without a lock, each inside a read section of the RCU
 * flavour behind route_memory; everything else from the one writing thread. A reader gets the value from
 * before or from after a change, for each address by itself; a look-up that overlaps several changes may
 * see a later one without an earlier one. Values are stored with release and loaded with acquire: what the
 * writer set up before it installed a value is visible to a reader that got this value.
 * Addresses and prefixes are in host byte order.
 *
 * Cost: 64 MiB + 16 MiB when all of the address space is in use, 1.3 KiB for each /24 that has longer
 * prefixes inside, 11 to 21 bytes for each prefix. A change writes the part of the array that its prefix
 * covers.
 */
#ifndef ROUTERD_ROUTE_LPM4_H
#define ROUTERD_ROUTE_LPM4_H

#include <stddef.h>
#include <stdint.h>

#include "route/memory.h"

#define LPM4_VALUE_MAX 0x7fffffffu
#define LPM4_GROUP 0x80000000u        /* flag of an entry: the rest is a group number */
#define LPM4_CHUNK_GROUPS 256
#define LPM4_CHUNKS (1u << 16)        /* enough for a group in each /24 */

struct lpm4_builder;

/* Groups are allocated by the chunk, and a chunk stays where it is until the table is freed. Below the
 * entries is what only the writer uses. */
struct lpm4_chunk {
	uint32_t entry[LPM4_CHUNK_GROUPS][256];
	uint8_t plen[LPM4_CHUNK_GROUPS][256];   /* length of the prefix that set the entry, 0 = none */
	struct lpm4_group {
		uint64_t closed_at;             /* grace() when the group was unlinked */
		uint32_t next;                  /* in the queue of closed groups */
		uint32_t prefixes;              /* longer than 24, inside this group */
	} group[LPM4_CHUNK_GROUPS];
};

/* Public only for lpm4_lookup() to be inlined. */
struct lpm4 {
	uint32_t *entry;                        /* 1 << 24 */
	uint32_t default_value;
	struct lpm4_builder *builder;
	struct lpm4_chunk *chunk[LPM4_CHUNKS];
};

/* NULL when out of memory. */
struct lpm4 *lpm4_new(const struct route_memory *mem);

/* Gives all memory back at once: no reader may be left. @t may be NULL. */
void lpm4_free(struct lpm4 *t);

/* Insert a prefix, or replace its value, which is 1 to LPM4_VALUE_MAX.
 * -EINVAL: value out of range, @plen over 32, bits set behind @plen; -ENOMEM. On error nothing changes. */
int lpm4_set(struct lpm4 *t, uint32_t prefix, uint8_t plen, uint32_t value);

/* -EINVAL as above; -ENOENT if this very prefix is not in the table. Needs no memory. */
int lpm4_del(struct lpm4 *t, uint32_t prefix, uint8_t plen);

/* The value of this very prefix, 0 if it is not in the table. Writing thread. */
uint32_t lpm4_get_exact(const struct lpm4 *t, uint32_t prefix, uint8_t plen);

/* As lpm4_lookup(); *@plen is the length of the prefix found, untouched if none. Writing thread. */
uint32_t lpm4_lookup_plen(const struct lpm4 *t, uint32_t addr, uint8_t *plen);

/* Bytes asked for and not given back. The pages never touched count too; see alloc in memory.h. */
size_t lpm4_bytes(const struct lpm4 *t);

/* Number of prefixes. */
unsigned lpm4_count(const struct lpm4 *t);

static inline uint32_t lpm4_lookup(const struct lpm4 *t, uint32_t addr)
{
	/* Pairs with the release in publish(), which also covers the group and its chunk pointer. */
	uint32_t v = __atomic_load_n(&t->entry[addr >> 8], __ATOMIC_ACQUIRE);

	if (__builtin_expect(v & LPM4_GROUP, 0)) {
		uint32_t g = v & ~LPM4_GROUP;
		const struct lpm4_chunk *c;

		c = __atomic_load_n(&t->chunk[g / LPM4_CHUNK_GROUPS], __ATOMIC_RELAXED);
		v = __atomic_load_n(&c->entry[g % LPM4_CHUNK_GROUPS][addr & 0xff], __ATOMIC_ACQUIRE);
	}
	if (__builtin_expect(!v, 0))
		v = __atomic_load_n(&t->default_value, __ATOMIC_ACQUIRE);
	return v;
}

#endif
