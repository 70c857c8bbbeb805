/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the tests of the FIB share: random numbers with a printed seed, a heap that counts, fails on demand and holds
 * back what is retired until two grace periods have passed, and makers of small objects.
 *
 * ROUTERD_TEST_SEED  the seed, to repeat a run
 * ROUTERD_TEST_SMALL set: fewer rounds, for sanitizer builds
 */
#ifndef ROUTERD_TESTS_UNIT_FIB_HEAP_H
#define ROUTERD_TESTS_UNIT_FIB_HEAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "route/fib.h"

static bool small;
static uint64_t seed;
static uint64_t random_state;

static inline uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline unsigned random_below(unsigned n)
{
	return random_next() % n;
}

/* ---- the heap ---- */

struct retired {
	struct retired *next;
	void *p;
	size_t bytes;
	uint64_t at;
};

struct heap {
	size_t bytes;
	long blocks;
	long fail_after;        /* allocations until one fails; negative = never */
	bool failed;
	uint64_t periods;
	struct retired *first;
};

static inline void *heap_alloc(void *ctx, size_t bytes)
{
	struct heap *h = ctx;
	void *p;

	if (h->fail_after >= 0 && h->fail_after-- == 0) {
		h->failed = true;
		return NULL;
	}
	p = calloc(1, bytes);
	assert_non_null(p);
	h->bytes += bytes;
	h->blocks++;
	return p;
}

static inline void heap_release(void *ctx, void *p, size_t bytes)
{
	struct heap *h = ctx;

	assert_non_null(p);
	assert_true(h->bytes >= bytes && h->blocks > 0);
	h->bytes -= bytes;
	h->blocks--;
	if (bytes < 65536)
		memset(p, 0xdb, bytes);
	free(p);
}

static inline void heap_retire(void *ctx, void *p, size_t bytes)
{
	struct heap *h = ctx;
	struct retired *r = malloc(sizeof(*r));

	assert_non_null(r);
	*r = (struct retired){ h->first, p, bytes, h->periods };
	h->first = r;
}

static inline uint64_t heap_grace(void *ctx)
{
	return ((struct heap *)ctx)->periods;
}

/* A grace period ends: what was retired two calls ago is freed. */
static inline void heap_period(struct heap *h)
{
	struct retired **place = &h->first;

	h->periods++;
	while (*place) {
		struct retired *r = *place;

		if (h->periods < r->at + 2) {
			place = &r->next;
			continue;
		}
		*place = r->next;
		heap_release(h, r->p, r->bytes);
		free(r);
	}
}

static inline struct heap heap_new(void)
{
	return (struct heap){ .fail_after = -1 };
}

static inline struct fib *make_fib(struct heap *h)
{
	struct route_memory m = { heap_alloc, heap_release, heap_retire, heap_grace, h };
	struct fib *f;

	*h = heap_new();
	f = fib_new(&m, 0x5eed);
	assert_non_null(f);
	return f;
}

static inline void check_empty(struct heap *h)
{
	heap_period(h);
	heap_period(h);
	assert_int_equal(h->bytes, 0);
	assert_int_equal(h->blocks, 0);
}

static inline struct fib_sizes sizes(const struct fib *f)
{
	struct fib_sizes s;

	fib_get_sizes(f, &s);
	return s;
}

/* ---- specifications ---- */

static inline struct fib_path_spec path4(uint16_t iface, uint8_t last, uint32_t weight, bool dead)
{
	return (struct fib_path_spec){ .iface = iface, .dead = dead, .gateway_family = 4, .weight = weight,
		.gateway = { 192, 0, 2, last } };
}

static inline struct fib_iface iface_of(uint16_t number, uint16_t port, uint16_t vlan, uint16_t proto)
{
	return (struct fib_iface){ .number = number, .port = port, .vlan = vlan, .mtu = 1500, .ifindex = 100 + number,
		.vlan_proto = __builtin_bswap16(proto) };
}

/* First thing in main(). */
static inline void test_start(void)
{
	const char *s = getenv("ROUTERD_TEST_SEED");

	small = getenv("ROUTERD_TEST_SMALL") != NULL;
	seed = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL);
	random_state = seed;
	printf("ROUTERD_TEST_SEED=%llu\n", (unsigned long long)seed);
}

#endif
