/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Counters with one writing thread and any number of readers: no locked instruction is spent on them.
 * A reader may see a value that is a moment old, never a torn one.
 */
#ifndef ROUTERD_COMMON_COUNTER_H
#define ROUTERD_COMMON_COUNTER_H

#include <stdint.h>

#define CACHE_LINE 64
#define cache_aligned __attribute__((aligned(CACHE_LINE)))

typedef struct { uint64_t value; } counter;

/* Context: the owning thread only. */
static inline void counter_add(counter *c, uint64_t n)
{
	__atomic_store_n(&c->value, __atomic_load_n(&c->value, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Context: any thread. */
static inline uint64_t counter_read(const counter *c)
{
	return __atomic_load_n(&c->value, __ATOMIC_RELAXED);
}

struct counter_pair { counter packets, bytes; };

static inline void counter_pair_add(struct counter_pair *c, uint64_t packets, uint64_t bytes)
{
	counter_add(&c->packets, packets);
	counter_add(&c->bytes, bytes);
}

#endif
