/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The daemon's memory for RCU tables: what is retired stays while a reader may see it and goes after; and the FIB in
 * this memory, changed and grown by one thread while others look up. Thread sanitizer builds prove more of it.
 *
 * ROUTERD_TEST_SMALL set: shorter, for sanitizer builds
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/quiescent.h"
#include "control/reclaim.h"
#include "route/fib.h"

static struct reclaim_sizes sizes(struct reclaim *r)
{
	struct reclaim_sizes s;

	reclaim_get_sizes(r, &s);
	return s;
}

/* ---- a reader that does as it is told ---- */

struct reader {
	pthread_t thread;
	int ready;
	int release;   /* may pass its quiescent state */
};

static void wait_for(int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void *reader_run(void *arg)
{
	struct reader *x = arg;

	quiescent_register();
	__atomic_store_n(&x->ready, 1, __ATOMIC_RELEASE);
	wait_for(&x->release);
	quiescent_state();
	quiescent_offline();
	quiescent_online();
	quiescent_unregister();
	return NULL;
}

static void reader_start(struct reader *x)
{
	*x = (struct reader){ 0 };
	assert_int_equal(pthread_create(&x->thread, NULL, reader_run, x), 0);
	wait_for(&x->ready);
}

static void reader_end(struct reader *x)
{
	__atomic_store_n(&x->release, 1, __ATOMIC_RELEASE);
	pthread_join(x->thread, NULL);
}

/* ---- memory ---- */

static void test_blocks(void **state)
{
	static const size_t bytes[] = { 0, 1, 100, RECLAIM_MAP_MIN - 1, RECLAIM_MAP_MIN, RECLAIM_MAP_MIN + 1, 64u << 20 };
	struct reclaim *r = reclaim_new();
	struct route_memory m = reclaim_memory(r);
	size_t sum = 0;

	for (unsigned i = 0; i < ARRAY_LENGTH(bytes); i++) {
		uint8_t *p = m.alloc(m.ctx, bytes[i]);

		assert_non_null(p);
		sum += bytes[i];
		assert_int_equal(sizes(r).in_use, sum);
		if (bytes[i]) {
			assert_int_equal(p[0] | p[bytes[i] / 2] | p[bytes[i] - 1], 0);
			p[0] = p[bytes[i] - 1] = 1;
		}
		if (i % 2) {
			m.release(m.ctx, p, bytes[i]);
		} else {
			m.retire(m.ctx, p, bytes[i]);
		}
		sum -= bytes[i];
		assert_int_equal(sizes(r).in_use, sum);
	}
	assert_null(m.alloc(m.ctx, (size_t)1 << 62));
	reclaim_barrier(r);
	assert_int_equal(sizes(r).waiting, 0);
	reclaim_free(r);
	reclaim_free(NULL);
}

static void set_flag(void *arg)
{
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

/* Nothing is freed, and no grace period ends, while a reader is on its way; then all is. */
static void test_reader_holds(void **state)
{
	struct reclaim *r = reclaim_new();
	struct route_memory m = reclaim_memory(r);
	int called = 0;
	struct reader x;
	uint64_t before;

	reader_start(&x);
	before = m.grace(m.ctx);
	for (unsigned i = 0; i < 1000; i++)
		m.retire(m.ctx, m.alloc(m.ctx, 100), 100);
	reclaim_defer(r, set_flag, &called);
	usleep(100000);
	assert_int_equal(sizes(r).waiting, 100000);
	assert_int_equal(sizes(r).in_use, 0);
	assert_int_equal(m.grace(m.ctx), before);
	assert_int_equal(__atomic_load_n(&called, __ATOMIC_ACQUIRE), 0);
	reader_end(&x);
	for (unsigned i = 0; i < 1000 && (sizes(r).waiting || m.grace(m.ctx) < before + 2); i++)
		usleep(10000);
	assert_int_equal(sizes(r).waiting, 0);
	assert_true(m.grace(m.ctx) >= before + 2);
	assert_int_equal(called, 1);
	assert_int_equal(sizes(r).stalls, 0);
	reclaim_free(r);
}

/* Without work the thread rests. */
static void test_idle(void **state)
{
	struct reclaim *r = reclaim_new();
	struct route_memory m = reclaim_memory(r);
	uint64_t n = m.grace(m.ctx);

	reclaim_barrier(r);
	assert_int_equal(sizes(r).periods, n + 2);
	usleep(60000);
	assert_int_equal(sizes(r).periods, n + 2);
	reclaim_free(r);
}

static void *release_soon(void *arg)
{
	struct reader *x = arg;

	usleep(50000);
	reader_end(x);
	return NULL;
}

/* More waits than may: retire itself waits for the reader, and memory stays bounded. */
static void test_limit(void **state)
{
	struct reclaim *r = reclaim_new();
	struct route_memory m = reclaim_memory(r);
	size_t bytes = RECLAIM_WAITING_MAX / 8;
	struct reader x;
	pthread_t later;

	reader_start(&x);
	for (unsigned i = 0; i < 8; i++)
		m.retire(m.ctx, m.alloc(m.ctx, bytes), bytes);
	assert_int_equal(sizes(r).stalls, 0);
	assert_int_equal(sizes(r).waiting, RECLAIM_WAITING_MAX);
	assert_int_equal(pthread_create(&later, NULL, release_soon, &x), 0);
	m.retire(m.ctx, m.alloc(m.ctx, bytes), bytes);
	assert_int_equal(__atomic_load_n(&x.release, __ATOMIC_ACQUIRE), 1);
	assert_int_equal(sizes(r).stalls, 1);
	pthread_join(later, NULL);
	reclaim_barrier(r);
	assert_int_equal(sizes(r).waiting, 0);
	reclaim_free(r);
}

/* What waits at the end is freed too (the address sanitizer would tell). */
static void test_end(void **state)
{
	struct reclaim *r = reclaim_new();
	struct route_memory m = reclaim_memory(r);
	int called = 0;

	for (unsigned i = 0; i < 600; i++)
		m.retire(m.ctx, m.alloc(m.ctx, 8), 8);
	reclaim_defer(r, set_flag, &called);
	reclaim_free(r);
	assert_int_equal(called, 1);
}

/* ---- the FIB under readers ---- */

#define READERS 2
#define PREFIXES 64

struct race {
	struct fib *f;
	int stop;
	struct race_reader {
		struct race *race;
		pthread_t thread;
		uint64_t lookups, found, bad;
	} readers[READERS];
};

/* Prefix k is 10.0.k.0/24 or 2001:db8:0:k::/64, and whatever it leads to says k: mtu = 1000 + k, and the gateway of
 * its one path ends in k. A neighbour's MAC is made from its address. So a reader can judge what it sees. */
static void gateway_of(unsigned k, uint32_t variant, uint8_t addr[16])
{
	memset(addr, 0, 16);
	addr[0] = 10;
	addr[1] = variant >> 8;
	addr[2] = variant;
	addr[3] = k;
}

static bool mac_fits(const struct fib_neigh *n)
{
	uint64_t s = __atomic_load_n(&n->mac_state, __ATOMIC_ACQUIRE);
	uint8_t mac[8];

	memcpy(mac, &s, 8);
	return !(s & FIB_NEIGH_VALID) || (mac[0] == 2 && !memcmp(mac + 2, n->addr, 4));
}

static bool group_fits(struct fib *f, const struct fib_group *g, unsigned k)
{
	const struct fib_path *p = fib_select_path(g, 0x12345678);
	struct fib_neigh *n = fib_neigh(f, p->neighbour);

	fib_neigh_mark(n, k);
	return g->mtu == 1000 + k && n->addr[3] == k && n->iface == p->iface && mac_fits(n);
}

static bool neighbour_fits(struct fib *f, unsigned k, uint32_t variant, bool *found)
{
	uint8_t addr[16];
	uint32_t slot;

	gateway_of(k, variant, addr);
	slot = fib_neigh_find(f, 1, 4, addr);
	*found = slot != FIB_NEIGH_NONE;
	return !*found || (!memcmp(fib_neigh(f, slot)->addr, addr, 16) && mac_fits(fib_neigh(f, slot)));
}

static void race_look(struct race_reader *x, uint32_t i)
{
	struct fib *f = x->race->f;
	uint8_t addr6[16] = { 0x20, 1, 0xd, 0xb8, [7] = i % PREFIXES, [15] = 1 };
	const struct fib_group *g = fib_lookup4(f, 0x0a000001 | i % PREFIXES << 8);
	const struct fib_iface *iface = fib_iface(f, 1 + i % 4);
	uint16_t tagged = fib_vlan_iface(f, 0, 1 + i % 4, __builtin_bswap16(0x8100));
	const struct fib_rules *rules = __atomic_load_n(&f->rules, __ATOMIC_CONSUME);
	bool found = false;

	x->bad += g && !group_fits(f, g, i % PREFIXES);
	x->found += !!g;
	g = fib_lookup6(f, addr6);
	x->bad += g && !group_fits(f, g, i % PREFIXES);
	x->bad += !neighbour_fits(f, i % PREFIXES, i / PREFIXES % 512, &found);
	x->bad += iface && (iface->number != 1 + i % 4 || iface->ifindex != iface->mtu);
	x->bad += tagged > 4;
	x->bad += rules && rules->count != rules->rules[0].priority;
	x->bad += fib_settings(f)->hash_seed != fib_settings(f)->hash_policy4;
	x->lookups++;
}

static void *race_run(void *arg)
{
	struct race_reader *x = arg;

	quiescent_register();
	for (uint32_t i = 0; !__atomic_load_n(&x->race->stop, __ATOMIC_RELAXED); i++) {
		for (unsigned k = 0; k < 32; k++)
			race_look(x, i * 32 + k);
		quiescent_state();
		if (i % 64)
			continue;
		quiescent_offline();
		usleep(100);
		quiescent_online();
	}
	quiescent_unregister();
	return NULL;
}

/* ---- the writer ---- */

static uint32_t make_group(struct fib *f, unsigned k, uint32_t variant)
{
	struct fib_path_spec p = { .iface = 1, .gateway_family = 4, .weight = 1 + variant / 512 };
	uint8_t mac[6] = { 2, 0 };
	uint32_t g, slot;

	gateway_of(k, variant % 512, p.gateway);
	memcpy(mac + 2, p.gateway, 4);
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 1000 + k, &p, 1, &g), 0);
	slot = fib_neigh_find(f, 1, 4, p.gateway);
	fib_neigh_set_mac(f, slot, mac, variant % 3);
	return g;
}

static void change_rest(struct fib *f, uint32_t i)
{
	struct fib_iface iface = { .number = 1 + i % 4, .ifindex = 1280 + i, .mtu = 1280 + i, .vlan = 1 + i / 4 % 4,
		.vlan_proto = __builtin_bswap16(0x8100) };
	struct fib_rule rules[3] = { [0] = { .priority = 1 + i % 3, .flags = FIB_RULE_FAMILY4 },
		{ .flags = FIB_RULE_FAMILY4 }, { .flags = FIB_RULE_FAMILY4 } };
	/* Both are read one after the other from what may be two objects: they only ever hold one value. */
	struct fib_settings s = { .hash_seed = 1, .hash_policy4 = 1 };

	if (i % 7 == 0)
		fib_iface_del(f, iface.number);
	else
		assert_int_equal(fib_iface_set(f, &iface), 0);
	assert_int_equal(fib_rules_set(f, rules, i % 5 ? 1 + i % 3 : 0), 0);
	assert_int_equal(fib_settings_set(f, &s), 0);
}

struct writer {
	struct fib *f;
	uint32_t group[2][PREFIXES];   /* by family; 0 = no route */
};

static void route_set(struct fib *f, unsigned family, unsigned k, uint32_t g)
{
	const uint8_t prefix6[16] = { 0x20, 1, 0xd, 0xb8, [7] = k };
	uint32_t prefix4 = 0x0a000000 | k << 8;

	if (g)
		assert_int_equal(family ? fib_route6_set(f, prefix6, 64, g) : fib_route4_set(f, prefix4, 24, g), 0);
	else
		assert_int_equal(family ? fib_route6_del(f, prefix6, 64) : fib_route4_del(f, prefix4, 24), 0);
}

static void change_route(struct writer *w, unsigned family, unsigned k, uint32_t variant)
{
	uint32_t old = w->group[family][k];
	uint32_t new = variant % 11 == 0 ? 0 : make_group(w->f, k, variant);

	if (old || new)
		route_set(w->f, family, k, new);
	fib_group_put(w->f, old);
	w->group[family][k] = new;
}

/* Neighbours that no route names: the chunks and the index grow under the readers' eyes, and shrink in use. */
static void grow(struct fib *f, uint32_t *slots, uint32_t count, bool up)
{
	uint8_t addr[16], mac[6] = { 2, 0 };

	for (uint32_t i = 0; i < count; i++) {
		gateway_of(i % PREFIXES, i / PREFIXES, addr);
		if (!up) {
			fib_neigh_put(f, slots[i]);
			continue;
		}
		assert_int_equal(fib_neigh_get(f, 1, 4, addr, &slots[i]), 0);
		memcpy(mac + 2, addr, 4);
		fib_neigh_set_mac(f, slots[i], mac, true);
	}
}

static void race_write(struct race *x, uint32_t rounds)
{
	enum { GROWN = 20000 };
	static uint32_t slots[GROWN];
	struct writer w = { .f = x->f };

	for (uint32_t i = 0; i < rounds; i++) {
		change_route(&w, i & 1, i * 7 % PREFIXES, i * 31);
		if (i % 16 == 0)
			change_rest(x->f, i / 16);
		if (i % (rounds / 4) == 0)
			grow(x->f, slots, GROWN, i / (rounds / 4) % 2 == 0);
	}
	for (unsigned i = 0; i < 2 * PREFIXES; i++)
		change_route(&w, i / PREFIXES, i % PREFIXES, 0);
}

/* A number can be used again only because a worker has been through its loop; so it must be, or the test is blind. */
static void check_reuse(struct fib *f, uint32_t changes)
{
	uint32_t highest = 0;

	for (unsigned i = 0; i < 100; i++) {
		uint32_t g = make_group(f, 1, 600 + i);

		highest = g > highest ? g : highest;
		fib_group_put(f, g);
	}
	assert_true(highest < changes / 2);
}

static void test_race(void **state)
{
	uint32_t rounds = getenv("ROUTERD_TEST_SMALL") ? 40000 : 400000;
	struct reclaim *r = reclaim_new();
	struct route_memory m = reclaim_memory(r);
	struct fib_settings s = { .hash_seed = 1, .hash_policy4 = 1 };
	static struct race x;
	struct fib_sizes left;

	x.f = fib_new(&m, 1);
	assert_non_null(x.f);
	assert_int_equal(fib_settings_set(x.f, &s), 0);
	for (unsigned i = 0; i < READERS; i++) {
		x.readers[i].race = &x;
		assert_int_equal(pthread_create(&x.readers[i].thread, NULL, race_run, &x.readers[i]), 0);
	}
	race_write(&x, rounds);
	reclaim_barrier(r);
	check_reuse(x.f, rounds);
	__atomic_store_n(&x.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(x.readers[i].thread, NULL);
		assert_true(x.readers[i].lookups > 1000 && x.readers[i].found > 100);
		assert_int_equal(x.readers[i].bad, 0);
	}
	fib_get_sizes(x.f, &left);
	assert_int_equal(left.routes4 + left.routes6 + left.groups + left.neighbours, 0);
	fib_free(x.f);
	reclaim_barrier(r);
	assert_int_equal(sizes(r).in_use, 0);
	assert_int_equal(sizes(r).waiting, 0);
	reclaim_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_reader_holds),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_race),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
