/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The longest-prefix-match tables against a naive model: an array of routes, scanned from end to end.
 * Both families go through one set of functions, an IPv4 address being the first 4 of 16 bytes.
 *
 * ROUTERD_TEST_SEED  the seed, to repeat a run
 * ROUTERD_TEST_SMALL set: fewer rounds and a smaller big table, for sanitizer builds
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <urcu-qsbr.h>

#include "route/lpm4.h"
#include "route/lpm6.h"

static bool small;
static uint64_t seed;
static uint64_t random_state;

static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static unsigned random_below(unsigned n)
{
	return random_next() % n;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static size_t resident(void)
{
	unsigned long total, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%lu %lu", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* --- memory that counts, fails and defers --- */

struct heap {
	size_t bytes, blocks;
	long fail_after;                /* this many allocations succeed, then one fails; negative = never */
	bool failed;
	bool defer;                     /* keep retired blocks until heap_reclaim() */
	uint64_t periods;
	struct retired {
		struct retired *next;
		void *p;
		size_t bytes;
	} *retired;
	unsigned n_retired;
};

static void *heap_alloc(void *ctx, size_t bytes)
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

static void heap_release(void *ctx, void *p, size_t bytes)
{
	struct heap *h = ctx;

	assert_non_null(p);
	assert_true(h->bytes >= bytes && h->blocks > 0);
	h->bytes -= bytes;
	h->blocks--;
	/* A reader that comes too late shall see nonsense. */
	if (bytes < 4096)
		memset(p, 0xdb, bytes);
	free(p);
}

static void heap_retire(void *ctx, void *p, size_t bytes)
{
	struct heap *h = ctx;
	struct retired *r;

	if (!h->defer) {
		heap_release(ctx, p, bytes);
		return;
	}
	r = malloc(sizeof(*r));
	assert_non_null(r);
	*r = (struct retired){ h->retired, p, bytes };
	h->retired = r;
	h->n_retired++;
}

static uint64_t heap_grace(void *ctx)
{
	struct heap *h = ctx;

	/* With nobody reading, time passes at once. */
	return h->defer ? h->periods : h->periods++;
}

static void heap_reclaim(struct heap *h)
{
	h->periods++;
	while (h->retired) {
		struct retired *r = h->retired;

		h->retired = r->next;
		heap_release(h, r->p, r->bytes);
		free(r);
	}
	h->n_retired = 0;
}

static struct route_memory memory_of(struct heap *h)
{
	return (struct route_memory){ heap_alloc, heap_release, heap_retire, heap_grace, h };
}

static struct heap heap_new(void)
{
	return (struct heap){ .fail_after = -1 };
}

/* --- one face for both families --- */

struct address {
	uint8_t b[16];
};

struct table {
	bool v6;
	struct lpm4 *t4;
	struct lpm6 *t6;
};

static unsigned bits_of(bool v6)
{
	return v6 ? 128 : 32;
}

static uint32_t host4(struct address a)
{
	return (uint32_t)a.b[0] << 24 | a.b[1] << 16 | a.b[2] << 8 | a.b[3];
}

static bool table_new(struct table *t, bool v6, struct heap *h)
{
	struct route_memory mem = memory_of(h);

	*t = (struct table){ .v6 = v6 };
	if (v6)
		t->t6 = lpm6_new(&mem);
	else
		t->t4 = lpm4_new(&mem);
	return t->t4 || t->t6;
}

static void table_free(struct table *t)
{
	lpm4_free(t->t4);
	lpm6_free(t->t6);
}

static int table_set(struct table *t, struct address a, unsigned plen, uint32_t v)
{
	return t->v6 ? lpm6_set(t->t6, a.b, plen, v) : lpm4_set(t->t4, host4(a), plen, v);
}

static int table_del(struct table *t, struct address a, unsigned plen)
{
	return t->v6 ? lpm6_del(t->t6, a.b, plen) : lpm4_del(t->t4, host4(a), plen);
}

static uint32_t table_exact(struct table *t, struct address a, unsigned plen)
{
	return t->v6 ? lpm6_get_exact(t->t6, a.b, plen) : lpm4_get_exact(t->t4, host4(a), plen);
}

static uint32_t table_lookup(struct table *t, struct address a)
{
	return t->v6 ? lpm6_lookup(t->t6, a.b) : lpm4_lookup(t->t4, host4(a));
}

static uint32_t table_lookup_plen(struct table *t, struct address a, uint8_t *plen)
{
	return t->v6 ? lpm6_lookup_plen(t->t6, a.b, plen) : lpm4_lookup_plen(t->t4, host4(a), plen);
}

static unsigned table_count(struct table *t)
{
	return t->v6 ? lpm6_count(t->t6) : lpm4_count(t->t4);
}

static size_t table_bytes(struct table *t)
{
	return t->v6 ? lpm6_bytes(t->t6) : lpm4_bytes(t->t4);
}

/* --- addresses --- */

static struct address address_random(void)
{
	uint64_t r[2] = { random_next(), random_next() };
	struct address a;

	memcpy(a.b, r, sizeof(a.b));
	return a;
}

static struct address address_cut(struct address a, unsigned plen)
{
	for (unsigned i = 0; i < 16; i++) {
		if (plen < 8 * i + 8)
			a.b[i] &= plen <= 8 * i ? 0 : 0xff << (8 * i + 8 - plen);
	}
	return a;
}

/* The bits of @tail behind @plen instead of those of @a. */
static struct address address_join(struct address a, struct address tail, unsigned plen)
{
	struct address head = address_cut(a, plen), cut = address_cut(tail, plen);

	for (unsigned i = 0; i < 16; i++)
		head.b[i] |= tail.b[i] & ~cut.b[i];
	return head;
}

static bool address_under(struct address a, struct address prefix, unsigned plen)
{
	a = address_cut(a, plen);
	return !memcmp(&a, &prefix, sizeof(a));
}

static struct address address_fill(uint8_t byte)
{
	struct address a;

	memset(a.b, byte, sizeof(a.b));
	return a;
}

/* --- the model --- */

struct route {
	struct address prefix;
	unsigned plen;
	uint32_t value;
};

#define MODEL_MAX 512

struct model {
	struct route r[MODEL_MAX];
	unsigned n;
};

static struct route *model_find(struct model *m, struct address prefix, unsigned plen)
{
	for (unsigned i = 0; i < m->n; i++)
		if (m->r[i].plen == plen && !memcmp(&m->r[i].prefix, &prefix, sizeof(prefix)))
			return &m->r[i];
	return NULL;
}

static void model_set(struct model *m, struct address prefix, unsigned plen, uint32_t value)
{
	struct route *r = model_find(m, prefix, plen);

	if (!r) {
		assert_true(m->n < MODEL_MAX);
		r = &m->r[m->n++];
	}
	*r = (struct route){ prefix, plen, value };
}

static const struct route *model_lookup(const struct model *m, struct address a)
{
	const struct route *best = NULL;

	for (unsigned i = 0; i < m->n; i++)
		if ((!best || m->r[i].plen > best->plen) && address_under(a, m->r[i].prefix, m->r[i].plen))
			best = &m->r[i];
	return best;
}

static void check_address(struct table *t, const struct model *m, struct address a)
{
	const struct route *r = model_lookup(m, a);
	uint8_t plen = 255;

	assert_int_equal(table_lookup(t, a), r ? r->value : 0);
	assert_int_equal(table_lookup_plen(t, a, &plen), r ? r->value : 0);
	assert_int_equal(plen, r ? r->plen : 255);
}

/* First and last address of a prefix and the ones just outside of it. */
static void check_edges(struct table *t, const struct model *m, struct address prefix, unsigned plen)
{
	struct address first = address_join(prefix, address_fill(0), plen);
	struct address last = address_join(prefix, address_fill(0xff), plen);
	int end = t->v6 ? 15 : 3, i;

	check_address(t, m, first);
	check_address(t, m, last);
	check_address(t, m, address_join(prefix, address_random(), plen));
	for (i = end; i >= 0 && first.b[i]-- == 0; i--)
		;
	check_address(t, m, first);
	for (i = end; i >= 0 && ++last.b[i] == 0; i--)
		;
	check_address(t, m, last);
}

static void check_all(struct table *t, struct model *m)
{
	assert_int_equal(table_count(t), m->n);
	for (unsigned i = 0; i < m->n; i++) {
		assert_int_equal(table_exact(t, m->r[i].prefix, m->r[i].plen), m->r[i].value);
		check_edges(t, m, m->r[i].prefix, m->r[i].plen);
	}
	check_address(t, m, address_fill(0));
	check_address(t, m, address_fill(0xff));
}

/* Few bases, so that prefixes nest and meet; lengths near the places where the structures change. Very short
 * IPv4 prefixes are rare as each repaints millions of entries. */
static struct route route_random(bool v6, const struct address *base, unsigned n_base)
{
	static const uint8_t edges4[] = { 0, 8, 16, 23, 24, 25, 26, 30, 31, 32 };
	static const uint8_t edges6[] = { 0, 1, 15, 16, 17, 21, 22, 23, 28, 46, 48, 58, 63, 64, 65, 69, 70,
					  71, 118, 123, 124, 125, 127, 128 };
	unsigned plen, bits = bits_of(v6);
	struct address a = base[random_below(n_base)];

	if (random_below(2))
		plen = v6 ? edges6[random_below(sizeof(edges6))] : edges4[random_below(sizeof(edges4))];
	else
		plen = !v6 && random_below(50) ? 8 + random_below(25) : random_below(bits + 1);
	/* Some differ from their base in one bit only: neighbours. */
	if (plen && random_below(2)) {
		unsigned bit = plen - 1 - random_below(plen < 12 ? plen : 12);

		a.b[bit / 8] ^= 0x80 >> bit % 8;
	}
	a = address_cut(a, plen);
	return (struct route){ a, plen, 1 + random_below(LPM4_VALUE_MAX) };
}

static void bases_random(struct address *base, unsigned n, bool v6)
{
	for (unsigned i = 0; i < n; i++) {
		base[i] = address_random();
		if (i && random_below(2))
			base[i] = address_join(base[0], base[i], random_below(bits_of(v6)));
		if (!v6)
			memset(base[i].b + 4, 0, 12);
	}
	base[n - 1] = address_cut(address_fill(0xff), bits_of(v6));
	base[n - 2] = address_fill(0);
}

/* One random change in both; returns what the table said. */
static int step(struct table *t, struct model *m, const struct route *r, bool remove)
{
	struct route *known = model_find(m, r->prefix, r->plen);
	int rc;

	if (remove) {
		rc = table_del(t, r->prefix, r->plen);
		if (rc == -ENOMEM)
			return rc;
		assert_int_equal(rc, known ? 0 : -ENOENT);
		if (known)
			*known = m->r[--m->n];
		return rc;
	}
	rc = table_set(t, r->prefix, r->plen, r->value);
	if (rc == -ENOMEM)
		return rc;
	assert_int_equal(rc, 0);
	model_set(m, r->prefix, r->plen, r->value);
	return rc;
}

static void step_random(struct table *t, struct model *m, const struct address *base, unsigned n_base,
			unsigned fill)
{
	struct route r = route_random(t->v6, base, n_base);
	bool remove = random_below(2 * fill) < m->n;

	if (remove && m->n && random_below(8))
		r = m->r[random_below(m->n)];
	step(t, m, &r, remove);
	assert_int_equal(table_count(t), m->n);
	check_edges(t, m, r.prefix, r.plen);
	check_address(t, m, address_join(base[random_below(n_base)], address_random(), random_below(129)));
}

static void run_random(bool v6)
{
	unsigned rounds = small ? 2 : 12, steps = small ? 400 : 2500;

	for (unsigned round = 0; round < rounds; round++) {
		struct heap h = heap_new();
		struct address base[6];
		struct model m = { .n = 0 };
		struct table t;
		unsigned fill = 4 << random_below(6);

		bases_random(base, 6, v6);
		assert_true(table_new(&t, v6, &h));
		for (unsigned i = 0; i < steps; i++)
			step_random(&t, &m, base, 6, fill);
		check_all(&t, &m);
		assert_int_equal(table_bytes(&t), h.bytes);
		while (m.n && round % 2) {
			struct route r = m.r[random_below(m.n)];

			assert_int_equal(step(&t, &m, &r, true), 0);
			check_edges(&t, &m, r.prefix, r.plen);
		}
		table_free(&t);
		assert_int_equal(h.bytes, 0);
		assert_int_equal(h.blocks, 0);
	}
}

static void test_random_v4(void **state)
{
	(void)state;
	run_random(false);
}

static void test_random_v6(void **state)
{
	(void)state;
	run_random(true);
}

/* --- single cases --- */

static void run_limits(bool v6)
{
	struct heap h = heap_new();
	struct table t;
	unsigned bits = bits_of(v6);
	struct address ones = address_cut(address_fill(0xff), bits), zero = address_fill(0);
	struct model m = { .n = 0 };

	assert_true(table_new(&t, v6, &h));
	assert_int_equal(table_set(&t, zero, bits + 1, 1), -EINVAL);
	assert_int_equal(table_del(&t, zero, bits + 1), -EINVAL);
	assert_int_equal(table_exact(&t, zero, bits + 1), 0);
	assert_int_equal(table_set(&t, zero, 8, 0), -EINVAL);
	assert_int_equal(table_set(&t, zero, 8, LPM4_VALUE_MAX + 1), -EINVAL);
	for (unsigned plen = 0; plen < bits; plen++) {
		assert_int_equal(table_set(&t, ones, plen, 1), -EINVAL);
		assert_int_equal(table_del(&t, ones, plen), -EINVAL);
		assert_int_equal(table_exact(&t, ones, plen), 0);
		assert_int_equal(table_del(&t, address_cut(ones, plen), plen), -ENOENT);
	}
	assert_int_equal(table_count(&t), 0);
	check_all(&t, &m);
	/* Both ends of the address space, all lengths nested; then removed again
	 * from the longest to the shortest. */
	for (unsigned k = 0; k <= 2 * bits + 1; k++) {
		unsigned plen = k / 2;
		struct route r = { address_cut(k % 2 ? ones : zero, plen), plen, k + 1 };

		/* Millions of entries each: too slow under a sanitizer. */
		if (small && !v6 && plen && plen < 6)
			continue;
		assert_int_equal(step(&t, &m, &r, false), 0);
		check_edges(&t, &m, r.prefix, plen);
	}
	check_all(&t, &m);
	while (m.n) {
		struct route r = m.r[m.n - 1];

		assert_int_equal(step(&t, &m, &r, true), 0);
		check_address(&t, &m, ones);
		check_address(&t, &m, zero);
	}
	assert_int_equal(table_lookup(&t, ones), 0);
	table_free(&t);
	assert_int_equal(h.bytes, 0);
}

static void test_limits_v4(void **state)
{
	(void)state;
	run_limits(false);
}

static void test_limits_v6(void **state)
{
	(void)state;
	run_limits(true);
}

/* A group that was closed serves another /24 only after two grace periods, and without grace() never. */
static void test_group_reuse(void **state)
{
	struct heap h = heap_new();
	struct table t;
	struct route_memory mem;

	(void)state;
	h.defer = true;
	assert_true(table_new(&t, false, &h));
	assert_int_equal(lpm4_set(t.t4, 0x0a000001, 32, 1), 0);
	assert_int_equal(t.t4->entry[0x0a0000], LPM4_GROUP | 0);
	assert_int_equal(lpm4_del(t.t4, 0x0a000001, 32), 0);
	assert_int_equal(t.t4->entry[0x0a0000], 0);
	h.periods++;
	assert_int_equal(lpm4_set(t.t4, 0x0a000101, 32, 2), 0);
	assert_int_equal(t.t4->entry[0x0a0001], LPM4_GROUP | 1);
	h.periods++;
	assert_int_equal(lpm4_set(t.t4, 0x0a000201, 32, 3), 0);
	assert_int_equal(t.t4->entry[0x0a0002], LPM4_GROUP | 0);
	assert_int_equal(lpm4_lookup(t.t4, 0x0a000201), 3);
	assert_int_equal(lpm4_lookup(t.t4, 0x0a000200), 0);
	table_free(&t);
	assert_int_equal(h.bytes, 0);

	mem = memory_of(&h);
	mem.grace = NULL;
	t.t4 = lpm4_new(&mem);
	assert_non_null(t.t4);
	for (uint32_t i = 0; i < 600; i++) {
		assert_int_equal(lpm4_set(t.t4, i << 8, 32, 1), 0);
		assert_int_equal(t.t4->entry[i], LPM4_GROUP | i);
		assert_int_equal(lpm4_del(t.t4, i << 8, 32), 0);
	}
	lpm4_free(t.t4);
	assert_int_equal(h.bytes, 0);
}

/* The same changes again and again, the n-th allocation failing: the change must leave no trace. */
static bool sweep_once(bool v6, long nth, uint64_t start)
{
	struct heap h = heap_new();
	struct model m = { .n = 0 };
	struct address base[6];
	struct table t;
	unsigned failures = 0;

	random_state = start;
	bases_random(base, 6, v6);
	h.fail_after = nth;
	if (!table_new(&t, v6, &h)) {
		assert_int_equal(h.blocks, 0);
		return true;
	}
	for (unsigned i = 0; i < (small ? 60 : 160); i++) {
		struct route r = route_random(v6, base, 6);
		bool remove = m.n && random_below(3) == 0;

		if (!v6 && r.plen < 12 && r.plen)
			continue;
		if (remove)
			r = m.r[random_below(m.n)];
		if (step(&t, &m, &r, remove) == -ENOMEM) {
			assert_true(h.failed);
			failures++;
			check_all(&t, &m);
			assert_int_equal(step(&t, &m, &r, remove), 0);
		}
	}
	check_all(&t, &m);
	assert_int_equal(table_bytes(&t), h.bytes);
	assert_true(failures <= 1);
	table_free(&t);
	assert_int_equal(h.bytes, 0);
	assert_int_equal(h.blocks, 0);
	return h.failed;
}

static void run_sweep(bool v6)
{
	uint64_t start = random_next();
	long n = 0;

	while (sweep_once(v6, n, start))
		n++;
	assert_true(n > 5);
	random_state = start + 1;
}

static void test_failing_memory_v4(void **state)
{
	(void)state;
	run_sweep(false);
}

static void test_failing_memory_v6(void **state)
{
	(void)state;
	run_sweep(true);
}

/* --- big tables, against a sorted array searched once for each length --- */

static int route_order(const void *a, const void *b)
{
	const struct route *x = a, *y = b;

	if (x->plen != y->plen)
		return x->plen < y->plen ? -1 : 1;
	return memcmp(&x->prefix, &y->prefix, sizeof(x->prefix));
}

static const struct route *sorted_lookup(const struct route *r, size_t n, struct address a, unsigned bits)
{
	for (unsigned plen = bits + 1; plen-- > 0;) {
		struct route want = { address_cut(a, plen), plen, 0 };
		const struct route *hit = bsearch(&want, r, n, sizeof(want), route_order);

		if (hit)
			return hit;
	}
	return NULL;
}

/* About the lengths of the public tables, plus a few long ones. */
static struct route route_public(bool v6)
{
	static const uint8_t plen4[16] = { 24, 24, 24, 24, 24, 24, 24, 24, 24, 23, 23, 22, 22, 21, 20, 19 };
	static const uint8_t plen6[16] = { 48, 48, 48, 48, 48, 48, 48, 48, 32, 32, 40, 44, 44, 36, 46, 29 };
	unsigned pick = random_below(16), rare = random_below(256);
	struct route r = { .prefix = address_random(), .value = 1 + random_below(1000) };

	r.plen = v6 ? plen6[pick] : plen4[pick];
	if (rare < 2)
		r.plen = v6 ? 64 + random_below(65) : 25 + random_below(8);
	else if (rare < 8)
		r.plen = v6 ? 20 + random_below(12) : 12 + random_below(8);
	if (v6)
		r.prefix.b[0] = 0x20 | (r.prefix.b[0] & 0x1f);
	r.prefix = address_cut(r.prefix, r.plen);
	return r;
}

static struct route route_random48(bool v6)
{
	unsigned plen = v6 ? 48 : 24;

	return (struct route){ address_cut(address_random(), plen), plen, 1 + random_below(1000) };
}

static void churn(struct table *t, struct route *r, size_t n, struct route (*pick)(bool v6))
{
	double start = seconds();
	unsigned changes = small ? 5000 : 100000;

	for (unsigned i = 0; i < changes; i += 2) {
		struct route *old = &r[random_below(n)], new;

		assert_int_equal(table_del(t, old->prefix, old->plen), 0);
		do
			new = pick(t->v6);
		while (table_exact(t, new.prefix, new.plen));
		assert_int_equal(table_set(t, new.prefix, new.plen, new.value), 0);
		*old = new;
	}
	printf("  %u changes in %.0f ms\n", changes, (seconds() - start) * 1e3);
}

static void check_sorted(struct table *t, const struct route *r, size_t n)
{
	unsigned bits = bits_of(t->v6);

	for (unsigned i = 0; i < (small ? 2000 : 30000); i++) {
		const struct route *near = &r[random_below(n)], *hit;
		struct address a = address_join(near->prefix, address_random(), near->plen - (i & 3));

		a = address_cut(a, bits);
		hit = sorted_lookup(r, n, a, bits);
		assert_int_equal(table_lookup(t, a), hit ? hit->value : 0);
	}
}

static void run_big(bool v6, size_t n, struct route (*pick)(bool v6), const char *name)
{
	size_t before, after;
	struct heap h = heap_new();
	struct route *r = malloc(n * sizeof(*r));
	struct table t;
	double start;

	assert_non_null(r);
	memset(r, 0, n * sizeof(*r));
	before = resident();
	assert_true(table_new(&t, v6, &h));
	start = seconds();
	for (size_t i = 0; i < n;) {
		r[i] = pick(v6);
		if (table_exact(&t, r[i].prefix, r[i].plen))
			continue;
		assert_int_equal(table_set(&t, r[i].prefix, r[i].plen, r[i].value), 0);
		i++;
	}
	after = resident();
	printf("%s: %u prefixes in %.0f ms: %zu bytes in %zu blocks, %zu resident\n", name, table_count(&t),
	       (seconds() - start) * 1e3, table_bytes(&t), h.blocks, after - before);
	assert_int_equal(table_bytes(&t), h.bytes);
	churn(&t, r, n, pick);
	assert_int_equal(table_count(&t), n);
	qsort(r, n, sizeof(*r), route_order);
	check_sorted(&t, r, n);
	table_free(&t);
	assert_int_equal(h.bytes, 0);
	assert_int_equal(h.blocks, 0);
	free(r);
}

static void test_big_v4(void **state)
{
	(void)state;
	run_big(false, small ? 20000 : 1000000, route_public, "v4, public-like");
}

static void test_big_v6(void **state)
{
	(void)state;
	run_big(true, small ? 10000 : 250000, route_public, "v6, public-like");
	run_big(true, small ? 10000 : 250000, route_random48, "v6, random /48");
}

/* --- readers at work while the table changes --- */

#define READERS 2
#define RACERS 48

/* A racing route's value is its number << 8 | a version; that of the fixed routes FIXED | number. */
#define FIXED 0x1000000u

struct race {
	struct table t;
	struct heap h;
	struct route fixed[3], racer[RACERS];
	int stop, wrong;
	struct reader {
		struct race *race;
		pthread_t thread;
		uint64_t state;
		uint64_t rounds;                /* atomic; see race_reclaim() */
	} reader[READERS];
};

static bool race_legal(const struct race *x, struct address a, uint32_t v)
{
	const struct route *r;

	/* Under the longest fixed route nothing races. */
	if (address_under(a, x->fixed[2].prefix, x->fixed[2].plen))
		return v == x->fixed[2].value;
	if (v & FIXED) {
		r = &x->fixed[v & 0xff];
		/* Within the second fixed route the first one must never shine through. */
		if (v == x->fixed[0].value && address_under(a, x->fixed[1].prefix, x->fixed[1].plen))
			return false;
		return (v & ~FIXED) < 3 && address_under(a, r->prefix, r->plen);
	}
	if (!v || v >> 8 >= RACERS)
		return false;
	r = &x->racer[v >> 8];
	return address_under(a, r->prefix, r->plen);
}

static struct address race_address(const struct race *x, uint64_t n)
{
	const struct route *r = n & 7 ? &x->racer[(n >> 3) % RACERS] : &x->fixed[(n >> 3) % 3];
	struct address tail = address_fill(n >> 32);

	return address_cut(address_join(r->prefix, tail, r->plen), bits_of(x->t.v6));
}

static void *race_read(void *arg)
{
	struct reader *me = arg;
	struct race *x = me->race;
	uint64_t rounds = 0;

	rcu_register_thread();
	while (!__atomic_load_n(&x->stop, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 64; i++) {
			struct address a;

			me->state = me->state * 6364136223846793005u + 1442695040888963407u;
			a = race_address(x, me->state >> 8);
			if (!race_legal(x, a, table_lookup(&x->t, a)))
				__atomic_store_n(&x->wrong, 1, __ATOMIC_RELAXED);
		}
		__atomic_store_n(&me->rounds, ++rounds, __ATOMIC_RELEASE);
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return NULL;
}

static void race_reclaim(struct race *x)
{
	synchronize_rcu();
	/* Pairs with the store in race_read(). liburcu gives this order already, but the thread sanitizer
	 * does not see into it. */
	for (unsigned i = 0; i < READERS; i++)
		(void)__atomic_load_n(&x->reader[i].rounds, __ATOMIC_ACQUIRE);
	heap_reclaim(&x->h);
}

/* A racer must neither replace a fixed route nor lie below the longest one. */
static bool race_collides(const struct race *x, const struct route *r)
{
	for (unsigned i = 0; i < 3; i++)
		if (r->plen == x->fixed[i].plen && address_under(r->prefix, x->fixed[i].prefix, r->plen))
			return true;
	return r->plen > x->fixed[2].plen && address_under(r->prefix, x->fixed[2].prefix, x->fixed[2].plen);
}

/* Anywhere below one of the first two fixed routes; half of the IPv4 ones in groups, which open and close. */
static struct route racer_random(const struct race *x, unsigned i)
{
	unsigned bits = bits_of(x->t.v6), top = x->fixed[i & 1].plen;
	unsigned plen = top + 1 + random_below(bits - top);
	struct address a;

	if (i < RACERS / 2 && !x->t.v6)
		plen = 25 + random_below(8);
	a = address_join(x->fixed[i & 1].prefix, address_random(), top + random_below(plen - top));
	return (struct route){ address_cut(a, plen), plen, 0 };
}

/* Three nested fixed routes, and racers around them. */
static void race_setup(struct race *x, bool v6)
{
	static const uint8_t fixed4[] = { 12, 20, 30 }, fixed6[] = { 20, 40, 66 };
	struct address base = address_cut(address_random(), bits_of(v6));

	for (unsigned i = 0; i < 3; i++) {
		unsigned plen = v6 ? fixed6[i] : fixed4[i];

		x->fixed[i] = (struct route){ address_cut(base, plen), plen, FIXED | i };
		assert_int_equal(table_set(&x->t, x->fixed[i].prefix, plen, x->fixed[i].value), 0);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		do
			x->racer[i] = racer_random(x, i);
		while (race_collides(x, &x->racer[i]));
	}
}

static void race_write(struct race *x)
{
	unsigned changes = small ? 10000 : 150000;

	for (unsigned i = 0; i < changes && !__atomic_load_n(&x->wrong, __ATOMIC_RELAXED); i++) {
		unsigned k = random_below(RACERS);
		const struct route *r = &x->racer[k];
		int rc;

		if (random_below(2)) {
			rc = table_set(&x->t, r->prefix, r->plen, k << 8 | 1 | random_below(256));
			assert_int_equal(rc, 0);
		} else {
			rc = table_del(&x->t, r->prefix, r->plen);
			assert_true(rc == 0 || rc == -ENOENT);
		}
		if (i % 256 == 0)
			race_reclaim(x);
	}
}

static void run_race(bool v6)
{
	struct race *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	x->h = heap_new();
	x->h.defer = true;
	assert_true(table_new(&x->t, v6, &x->h));
	race_setup(x, v6);
	for (unsigned i = 0; i < READERS; i++) {
		x->reader[i].race = x;
		x->reader[i].state = random_next();
		assert_int_equal(pthread_create(&x->reader[i].thread, NULL, race_read, &x->reader[i]), 0);
	}
	race_write(x);
	__atomic_store_n(&x->stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(x->reader[i].thread, NULL);
	assert_int_equal(x->wrong, 0);
	for (unsigned i = 0; i < READERS; i++)
		assert_true(x->reader[i].rounds > 0);
	heap_reclaim(&x->h);
	table_free(&x->t);
	assert_int_equal(x->h.bytes, 0);
	assert_int_equal(x->h.blocks, 0);
	free(x);
}

static void test_race_v4(void **state)
{
	(void)state;
	run_race(false);
}

static void test_race_v6(void **state)
{
	(void)state;
	run_race(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_v4),
		cmocka_unit_test(test_limits_v6),
		cmocka_unit_test(test_random_v4),
		cmocka_unit_test(test_random_v6),
		cmocka_unit_test(test_group_reuse),
		cmocka_unit_test(test_failing_memory_v4),
		cmocka_unit_test(test_failing_memory_v6),
		cmocka_unit_test(test_big_v4),
		cmocka_unit_test(test_big_v6),
		cmocka_unit_test(test_race_v4),
		cmocka_unit_test(test_race_v6),
	};
	const char *s = getenv("ROUTERD_TEST_SEED");

	small = getenv("ROUTERD_TEST_SMALL") != NULL;
	seed = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL);
	random_state = seed;
	printf("ROUTERD_TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
