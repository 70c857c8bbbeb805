/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The FIB piece by piece: bounds of weighted paths against the kernel's formula (M1), groups found by content,
 * references, numbers that wait for a grace period, neighbours, interfaces, settings, rules.
 */
#include "unit/fib_heap.h"

#define HASH_END 0x80000000u

static struct fib_path_spec path_on_link(uint16_t iface)
{
	return (struct fib_path_spec){ .iface = iface, .weight = 1 };
}

static uint32_t get_group(struct fib *f, const struct fib_path_spec *p, unsigned n)
{
	uint32_t g = 0;

	assert_int_equal(fib_group_get(f, n ? VERDICT_FORWARD : VERDICT_DROP_BLACKHOLE, 0, p, n, &g), 0);
	assert_true(g > 0);
	return g;
}

/* ---- weights ---- */

struct weights {
	unsigned n;
	int64_t w[6];   /* negative = dead, with this weight */
};

/* M1, in another arithmetic than the code's: to the nearest, halves up. */
static uint32_t expected_bound(const struct weights *t, unsigned i)
{
	long double total = 0, sum = 0;

	for (unsigned k = 0; k < t->n; k++) {
		total += t->w[k] > 0 ? t->w[k] : 0;
		if (k <= i)
			sum += t->w[k] > 0 ? t->w[k] : 0;
	}
	return (uint32_t)(uint64_t)(sum * 2147483648.0L / total + 0.5L) - 1;
}

static void check_share(const struct fib_group *g, const struct weights *t)
{
	uint64_t hits[6] = { 0 };
	int64_t total = 0;
	const unsigned samples = 1u << 20;

	for (unsigned i = 0; i < t->n; i++)
		total += t->w[i] > 0 ? t->w[i] : 0;
	for (uint32_t k = 0; k < samples; k++)
		hits[fib_select_path(g, k * (HASH_END / samples) + random_below(HASH_END / samples)) - g->paths]++;
	for (unsigned i = 0; i < t->n; i++) {
		double want = t->w[i] > 0 ? (double)t->w[i] / total : 0;
		double got = (double)hits[i] / samples;

		assert_true(got - want < 1e-4 && want - got < 1e-4);
		if (t->w[i] <= 0)
			assert_int_equal(hits[i], 0);
	}
}

static void check_edges(const struct fib_group *g, const struct weights *t)
{
	uint32_t start = 0;
	unsigned last = 0;

	for (unsigned i = 0; i < t->n; i++) {
		if (t->w[i] < 0) {
			assert_true(g->paths[i].flags & FIB_PATH_DEAD);
			assert_int_equal(g->paths[i].bound, i ? g->paths[i - 1].bound : 0);
			continue;
		}
		assert_int_equal(g->paths[i].bound, expected_bound(t, i));
		assert_ptr_equal(fib_select_path(g, start), &g->paths[i]);
		assert_ptr_equal(fib_select_path(g, g->paths[i].bound), &g->paths[i]);
		start = g->paths[i].bound + 1;
		last = i;
	}
	assert_int_equal(g->paths[last].bound, 0x7fffffff);
}

static void test_weights(void **state)
{
	static const struct weights table[] = {
		{ 1, { 1 } }, { 1, { 65536 } }, { 2, { 1, 1 } }, { 2, { 255, 1 } }, { 2, { 4, 45 } }, { 3, { 1, 1, 1 } },
		{ 2, { 1, 65536 } }, { 2, { 65536, 1 } }, { 6, { 1, 2, 3, 4, 5, 6 } }, { 2, { -1, 1 } }, { 2, { 1, -1 } },
		{ 4, { -7, 4, -9, 45 } }, { 4, { 255, -3, 1, -3 } }, { 5, { -1, -1, 5, -1, -1 } }, { 3, { 1, -65536, 1 } },
	};
	struct heap h;
	struct fib *f = make_fib(&h);

	for (unsigned k = 0; k < ARRAY_LENGTH(table); k++) {
		struct fib_path_spec p[6];
		uint32_t g;

		for (unsigned i = 0; i < table[k].n; i++)
			p[i] = path4(1, i + 1, llabs(table[k].w[i]), table[k].w[i] < 0);
		g = get_group(f, p, table[k].n);
		check_edges(fib_group(f, g), &table[k]);
		check_share(fib_group(f, g), &table[k]);
		fib_group_put(f, g);
	}
	fib_free(f);
	check_empty(&h);
}

/* Most paths, most weight: no overflow, the bounds rise. */
static void test_weights_max(void **state)
{
	struct fib_path_spec p[FIB_PATHS_MAX + 1];
	const struct fib_group *g;
	struct heap h;
	struct fib *f = make_fib(&h);
	uint32_t n;

	for (unsigned i = 0; i <= FIB_PATHS_MAX; i++)
		p[i] = path4(1, i, 65536, false);
	g = fib_group(f, get_group(f, p, FIB_PATHS_MAX));
	for (unsigned i = 0; i < FIB_PATHS_MAX; i++)
		assert_int_equal(g->paths[i].bound, (i + 1) * (HASH_END / FIB_PATHS_MAX) - 1);
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, p, FIB_PATHS_MAX + 1, &n), -EINVAL);
	fib_free(f);
	check_empty(&h);
}

static void test_all_dead(void **state)
{
	struct fib_path_spec p[2] = { path4(1, 1, 1, true), path4(1, 2, 3, true) };
	struct heap h;
	struct fib *f = make_fib(&h);
	uint32_t a = get_group(f, p, 2), b;

	assert_int_equal(fib_group(f, a)->verdict, VERDICT_KERNEL_UNREACHABLE);
	assert_int_equal(fib_group(f, a)->path_count, 0);
	assert_int_equal(sizes(f).neighbours, 0);
	assert_int_equal(fib_group_get(f, VERDICT_KERNEL_UNREACHABLE, 0, NULL, 0, &b), 0);
	assert_int_equal(a, b);
	fib_group_put(f, a);
	fib_group_put(f, b);
	assert_int_equal(sizes(f).groups, 0);
	fib_free(f);
	check_empty(&h);
}

/* ---- groups ---- */

static void test_bad_groups(void **state)
{
	struct fib_path_spec good = path4(1, 1, 1, false), p;
	struct heap h;
	struct fib *f = make_fib(&h);
	uint32_t g = 77;

	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, NULL, 0, &g), -EINVAL);
	assert_int_equal(fib_group_get(f, VERDICT_KERNEL_PROHIBIT, 0, &good, 1, &g), -EINVAL);
	assert_int_equal(fib_group_get(f, VERDICT_COUNT, 0, NULL, 0, &g), -EINVAL);
	p = good;
	p.weight = 0;
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, &p, 1, &g), -EINVAL);
	p = good;
	p.weight = 65537;
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, &p, 1, &g), -EINVAL);
	p = good;
	p.iface = 0;
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, &p, 1, &g), -EINVAL);
	p = good;
	p.iface = FIB_IFACE_MAX;
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, &p, 1, &g), -EINVAL);
	p = good;
	p.gateway_family = 5;
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 0, &p, 1, &g), -EINVAL);
	assert_int_equal(g, 77);
	assert_int_equal(fib_route4_set(f, 0, 0, 1), -EINVAL);
	assert_int_equal(fib_route4_set(f, 0, 0, 0), -EINVAL);
	fib_group_put(f, 0);
	fib_group_put(f, 1000000);
	fib_neigh_put(f, FIB_NEIGH_NONE);
	fib_neigh_put(f, 1000000);
	assert_int_equal(sizes(f).groups, 0);
	assert_int_equal(sizes(f).neighbours, 0);
	fib_free(f);
	check_empty(&h);
}

/* Each field of the content makes another group; the same content in the same order does not. */
static void test_content(void **state)
{
	struct fib_path_spec a = path4(1, 1, 1, false), specs[8][2];
	uint32_t numbers[9];
	struct heap h;
	struct fib *f = make_fib(&h);

	for (unsigned i = 0; i < 8; i++) {
		specs[i][0] = a;
		specs[i][1] = path4(1, 2, 1, false);
	}
	specs[1][0].iface = 2;
	specs[2][0].weight = 2;
	specs[3][0].dead = true;
	specs[4][0].gateway[3] = 9;
	specs[5][0].gateway_family = 6;
	specs[6][0].gateway_family = 0;
	specs[7][0] = specs[0][1];
	specs[7][1] = specs[0][0];
	for (unsigned i = 0; i < 8; i++)
		numbers[i] = get_group(f, specs[i], 2);
	assert_int_equal(fib_group_get(f, VERDICT_FORWARD, 1400, specs[0], 2, &numbers[8]), 0);
	for (unsigned i = 0; i < 9; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(numbers[i], numbers[k]);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(get_group(f, specs[i], 2), numbers[i]);
	assert_int_equal(sizes(f).groups, 9);
	for (unsigned i = 0; i < 9; i++)
		fib_group_put(f, numbers[i]);
	assert_int_equal(sizes(f).groups, 8);
	for (unsigned i = 0; i < 8; i++)
		fib_group_put(f, numbers[i]);
	assert_int_equal(sizes(f).groups, 0);
	assert_int_equal(sizes(f).neighbours, 0);
	fib_free(f);
	check_empty(&h);
}

/* What a full table does: very many routes, few contents. */
static void test_many_references(void **state)
{
	uint32_t count = small ? 100000 : 1000000, g;
	uint32_t refs[64] = { 0 }, numbers[64];
	struct heap h;
	struct fib *f = make_fib(&h);
	size_t empty = sizes(f).bytes_groups;

	for (uint32_t i = 0; i < count; i++) {
		unsigned k = random_below(64);
		struct fib_path_spec p[2] = { path4(1 + k % 3, k, 1, false), path4(4, k / 2, 1 + k % 2, false) };

		g = get_group(f, p, 2);
		if (refs[k]++)
			assert_int_equal(g, numbers[k]);
		numbers[k] = g;
	}
	assert_int_equal(sizes(f).groups, 64);
	assert_int_equal(sizes(f).neighbours, 64 + 32);
	assert_true(sizes(f).bytes_groups - empty < 16384);
	for (unsigned k = 0; k < 64; k++) {
		assert_int_equal(fib_group(f, numbers[k])->references, refs[k]);
		while (refs[k]--)
			fib_group_put(f, numbers[k]);
	}
	assert_int_equal(sizes(f).groups, 0);
	assert_int_equal(sizes(f).neighbours, 0);
	fib_free(f);
	check_empty(&h);
}

/* Each allocation that a new group with two new gateways needs fails once: nothing is left behind. */
static void test_group_failing(void **state)
{
	struct heap h;
	struct fib *f = make_fib(&h);
	unsigned failures = 0;

	for (uint32_t i = 0; i < 1500; i++) {
		struct fib_path_spec p[2] = { path4(1 + i / 256, i, 1, false), path4(101 + i / 256, i, 1, false) };
		uint32_t g = 0;
		int rc;

		for (long n = 0; (h.fail_after = n, rc = fib_group_get(f, VERDICT_FORWARD, 0, p, 2, &g)); n++) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(g, 0);
			assert_int_equal(sizes(f).groups, i);
			assert_int_equal(sizes(f).neighbours, 2 * i);
			failures++;
		}
		assert_int_equal(sizes(f).neighbours, 2 * i + 2);
		heap_period(&h);
	}
	assert_true(failures > 1500);
	h.fail_after = -1;
	fib_free(f);
	check_empty(&h);
}

/* Many contents: the array, the hash and the numbers grow and stay right. */
static void test_many_groups(void **state)
{
	uint32_t count = small ? 5000 : 50000;
	uint32_t *numbers = calloc(count, sizeof(*numbers));
	struct heap h;
	struct fib *f = make_fib(&h);

	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < count; i++) {
			struct fib_path_spec p = path4(1 + i % 7, i & 0xff, 1 + i / 256, false);

			numbers[i] = get_group(f, &p, 1);
		}
		for (uint32_t i = 0; i < count; i++) {
			const struct fib_group *g = fib_group(f, numbers[i]);

			assert_int_equal(g->number, numbers[i]);
			assert_int_equal(g->paths[0].iface, 1 + i % 7);
			assert_int_equal(g->paths[0].weight, 1 + i / 256);
			assert_int_equal(fib_neigh(f, g->paths[0].neighbour)->addr[3], i & 0xff);
		}
		for (uint32_t i = count; i-- > 0;)
			fib_group_put(f, numbers[i]);
		assert_int_equal(sizes(f).groups, 0);
		assert_int_equal(sizes(f).neighbours, 0);
		heap_period(&h);
	}
	free(numbers);
	fib_free(f);
	check_empty(&h);
}

/* One to one, without order. */
static uint32_t scramble(uint32_t v)
{
	v = (v ^ v >> 16) * 0x7feb352d;
	v = (v ^ v >> 15) * 0x846ca68b;
	return v ^ v >> 16;
}

/* So many that some contents (ten pairs, as a rule) have the same 32-bit hash, and so do some neighbours. */
static void test_equal_hashes(void **state)
{
	const uint32_t count = 300000;
	struct heap h;
	struct fib *f = make_fib(&h);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t v = scramble(i), g, slot;
		const uint8_t addr[4] = { v >> 24, v >> 16, v >> 8, v };

		assert_int_equal(fib_group_get(f, VERDICT_DROP_BLACKHOLE, v, NULL, 0, &g), 0);
		assert_int_equal(fib_group(f, g)->mtu, v);
		assert_int_equal(fib_neigh_get(f, 1, 4, addr, &slot), 0);
		assert_memory_equal(fib_neigh(f, slot)->addr, addr, 4);
	}
	assert_int_equal(sizes(f).groups, count);
	assert_int_equal(sizes(f).neighbours, count);
	fib_free(f);
	check_empty(&h);
}

/* ---- grace periods ---- */

/* The reader's race: it has the number, then the route changes and the group goes; then it looks. */
static void test_group_number_waits(void **state)
{
	struct fib_path_spec p = path4(1, 1, 1, false), q = path_on_link(2);
	struct heap h;
	struct fib *f = make_fib(&h);
	uint32_t held = get_group(f, &p, 1), other = get_group(f, &q, 1), slot, g;

	assert_int_equal(fib_route4_set(f, 0x0a000000, 8, held), 0);
	slot = fib_group(f, held)->paths[0].neighbour;
	assert_int_equal(fib_route4_set(f, 0x0a000000, 8, other), 0);
	fib_group_put(f, held);
	for (unsigned period = 0; period < 2; period++) {
		/* Other numbers are given out, and what the reader holds says what it said. */
		for (uint32_t i = 0; i < 100; i++) {
			struct fib_path_spec n = path4(3, i, 1 + period, false);

			g = get_group(f, &n, 1);
			assert_int_not_equal(g, held);
			assert_int_not_equal(fib_group(f, g)->paths[0].neighbour, slot);
		}
		assert_int_equal(fib_group(f, held)->number, held);
		assert_int_equal(fib_group(f, held)->paths[0].neighbour, slot);
		assert_int_equal(fib_neigh(f, slot)->addr[3], 1);
		assert_int_equal(fib_neigh(f, slot)->iface, 1);
		heap_period(&h);
	}
	p = path4(5, 77, 1, false);
	g = get_group(f, &p, 1);
	assert_int_equal(g, held);
	assert_int_equal(fib_group(f, g)->paths[0].neighbour, slot);
	assert_int_equal(fib_neigh(f, slot)->addr[3], 77);
	fib_free(f);
	check_empty(&h);
}

/* A neighbour's number too; and without grace() a number is not used twice. */
static void test_slot_waits(void **state)
{
	const uint8_t a[4] = { 10, 0, 0, 1 }, b[4] = { 10, 0, 0, 2 };
	struct heap h;
	struct fib *f = make_fib(&h);
	uint32_t slot, other;

	assert_int_equal(fib_neigh_get(f, 1, 4, a, &slot), 0);
	fib_neigh_put(f, slot);
	assert_int_equal(fib_neigh_find(f, 1, 4, a), FIB_NEIGH_NONE);
	assert_int_equal(fib_neigh_get(f, 1, 4, a, &other), 0);
	assert_int_not_equal(other, slot);
	heap_period(&h);
	heap_period(&h);
	assert_int_equal(fib_neigh_get(f, 1, 4, b, &other), 0);
	assert_int_equal(other, slot);
	f->memory.grace = NULL;
	fib_neigh_put(f, other);
	for (unsigned i = 0; i < 10; i++) {
		heap_period(&h);
		assert_int_equal(fib_neigh_get(f, 1, 4, b, &other), 0);
		assert_int_not_equal(other, slot);
		fib_neigh_put(f, other);
	}
	fib_free(f);
	check_empty(&h);
}

/* ---- neighbours ---- */

static void neigh_address(uint32_t i, uint8_t addr[16])
{
	memset(addr, 0, 16);
	addr[0] = i >> 24;
	addr[1] = i >> 16;
	addr[2] = i >> 8;
	addr[3] = i;
	if (i & 1)
		memcpy(addr + 4, (const uint8_t[12]){ 0x20, 1, 0xd, 0xb8, [11] = 7 }, 12);
}

static void count_slot(void *ctx, uint32_t slot, struct fib_neigh *n)
{
	assert_int_not_equal(slot, FIB_NEIGH_NONE);
	assert_true(n->references > 0);
	++*(unsigned *)ctx;
}

static void test_neighbours(void **state)
{
	enum { COUNT = 10000 };
	static uint32_t slots[COUNT];
	uint8_t addr[16];
	unsigned seen = 0;
	struct heap h;
	struct fib *f = make_fib(&h);

	for (uint32_t i = 0; i < COUNT; i++) {
		neigh_address(i, addr);
		assert_int_equal(fib_neigh_get(f, 1 + i % 50, i & 1 ? 6 : 4, addr, &slots[i]), 0);
	}
	assert_int_equal(sizes(f).neighbours, COUNT);
	fib_neigh_foreach(f, count_slot, &seen);
	assert_int_equal(seen, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		neigh_address(i, addr);
		assert_int_equal(fib_neigh_find(f, 1 + i % 50, i & 1 ? 6 : 4, addr), slots[i]);
		assert_int_equal(fib_neigh_find(f, 51, i & 1 ? 6 : 4, addr), FIB_NEIGH_NONE);
		assert_int_equal(fib_neigh_find(f, 1 + i % 50, i & 1 ? 4 : 6, addr), FIB_NEIGH_NONE);
		assert_memory_equal(fib_neigh(f, slots[i])->addr, addr, 16);
	}
	for (uint32_t i = 0; i < COUNT; i += 2)
		fib_neigh_put(f, slots[i]);
	for (uint32_t i = 0; i < COUNT; i++) {
		neigh_address(i, addr);
		assert_int_equal(fib_neigh_find(f, 1 + i % 50, i & 1 ? 6 : 4, addr), i & 1 ? slots[i] : FIB_NEIGH_NONE);
	}
	assert_int_equal(sizes(f).neighbours, COUNT / 2);
	fib_free(f);
	check_empty(&h);
}

static void test_neighbour_mac(void **state)
{
	static const uint8_t mac[6] = { 2, 0x11, 0x22, 0x33, 0x44, 0x55 }, addr[4] = { 10, 0, 0, 1 };
	uint8_t bytes[8];
	struct heap h;
	struct fib *f = make_fib(&h);
	uint32_t slot, again;
	uint64_t mac_state;

	assert_int_equal(fib_neigh_get(f, 0, 4, addr, &slot), -EINVAL);
	assert_int_equal(fib_neigh_get(f, 1, 7, addr, &slot), -EINVAL);
	assert_int_equal(fib_neigh_get(f, 1, 4, addr, &slot), 0);
	assert_int_equal(fib_neigh_get(f, 1, 4, addr, &again), 0);
	assert_int_equal(slot, again);
	assert_int_equal(fib_neigh(f, slot)->references, 2);
	assert_int_equal(fib_neigh(f, slot)->mac_state, 0);
	fib_neigh_set_mac(f, slot, mac, true);
	mac_state = fib_neigh(f, slot)->mac_state;
	assert_true(mac_state & FIB_NEIGH_VALID);
	memcpy(bytes, &mac_state, 8);
	assert_memory_equal(bytes, mac, 6);
	fib_neigh_mark(fib_neigh(f, slot), 4711);
	assert_int_equal(fib_neigh(f, slot)->used, 4711);
	fib_neigh_set_mac(f, slot, mac, false);
	assert_false(fib_neigh(f, slot)->mac_state & FIB_NEIGH_VALID);
	fib_neigh_put(f, slot);
	assert_int_equal(fib_neigh_find(f, 1, 4, addr), slot);
	fib_neigh_put(f, slot);
	assert_int_equal(fib_neigh_find(f, 1, 4, addr), FIB_NEIGH_NONE);
	fib_neigh_set_mac(f, slot, mac, true);
	assert_int_equal(fib_neigh(f, slot)->mac_state, 0);
	fib_free(f);
	check_empty(&h);
}

/* Come and go for long: gone cells must not fill the index, nor memory grow. */
static void test_neighbour_churn(void **state)
{
	struct heap h;
	struct fib *f = make_fib(&h);
	size_t settled = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		uint8_t addr[16];
		uint32_t slot;

		neigh_address(i * 2, addr);
		assert_int_equal(fib_neigh_get(f, 1, 4, addr, &slot), 0);
		fib_neigh_put(f, slot);
		assert_int_equal(fib_neigh_find(f, 1, 4, addr), FIB_NEIGH_NONE);
		if (i % 10 == 0)
			heap_period(&h);
		if (i == 1000)
			settled = sizes(f).bytes_neighbours;
	}
	assert_int_equal(sizes(f).bytes_neighbours, settled);
	fib_free(f);
	check_empty(&h);
}

/* ---- interfaces ---- */

static int set_iface(struct fib *f, uint16_t number, uint16_t port, uint16_t vlan, uint16_t proto)
{
	struct fib_iface i = iface_of(number, port, vlan, proto);

	return fib_iface_set(f, &i);
}

static uint16_t by_tag(struct fib *f, uint16_t port, uint16_t vlan, uint16_t proto)
{
	return fib_vlan_iface(f, port, vlan, __builtin_bswap16(proto));
}

static void test_ifaces(void **state)
{
	struct heap h;
	struct fib *f = make_fib(&h);
	struct fib_iface i = iface_of(1, 7, 0, 0);

	assert_int_equal(fib_iface_set(f, &i), 0);
	assert_int_equal(set_iface(f, 2, 7, 100, 0x8100), 0);
	assert_int_equal(set_iface(f, 3, 7, 100, 0x88a8), 0);
	assert_int_equal(set_iface(f, 4, 8, 4094, 0x8100), 0);
	assert_int_equal(f->port_iface[7], 1);
	assert_int_equal(f->port_iface[8], FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, 7, 100, 0x8100), 2);
	assert_int_equal(by_tag(f, 7, 100, 0x88a8), 3);
	assert_int_equal(by_tag(f, 8, 4094, 0x8100), 4);
	assert_int_equal(by_tag(f, 8, 100, 0x8100), FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, 7, 0, 0x8100), FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, 7, 100, 0x9100), FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, 9, 100, 0x8100), FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, FIB_PORT_MAX, 100, 0x8100), FIB_IFACE_NONE);
	assert_int_equal(sizes(f).ifaces, 4);
	i.mtu = 9000;
	assert_int_equal(fib_iface_set(f, &i), 0);
	assert_int_equal(fib_iface(f, 1)->mtu, 9000);
	assert_int_equal(f->port_iface[7], 1);
	/* 2 moves to another tag of the same port, then to another port. */
	assert_int_equal(set_iface(f, 2, 7, 200, 0x8100), 0);
	assert_int_equal(by_tag(f, 7, 100, 0x8100), FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, 7, 200, 0x8100), 2);
	assert_int_equal(set_iface(f, 2, 9, 200, 0x8100), 0);
	assert_int_equal(by_tag(f, 7, 200, 0x8100), FIB_IFACE_NONE);
	assert_int_equal(by_tag(f, 9, 200, 0x8100), 2);
	fib_iface_del(f, 3);
	assert_null(f->vlan_index[7]);
	assert_null(fib_iface(f, 3));
	fib_iface_del(f, 1);
	assert_int_equal(f->port_iface[7], FIB_IFACE_NONE);
	fib_iface_del(f, 1);
	fib_iface_del(f, FIB_IFACE_MAX);
	assert_int_equal(sizes(f).ifaces, 2);
	fib_free(f);
	check_empty(&h);
}

static void test_iface_claims(void **state)
{
	struct heap h;
	struct fib *f = make_fib(&h);

	assert_int_equal(set_iface(f, 1, 7, 5, 0x8100), 0);
	assert_int_equal(set_iface(f, 2, 7, 5, 0x8100), 0);
	assert_int_equal(by_tag(f, 7, 5, 0x8100), 2);
	fib_iface_del(f, 2);
	assert_int_equal(by_tag(f, 7, 5, 0x8100), 1);
	assert_int_equal(set_iface(f, 2, 7, 5, 0x8100), 0);
	fib_iface_del(f, 1);
	assert_int_equal(by_tag(f, 7, 5, 0x8100), 2);
	/* The last VLAN of the port moves within it: its index stays. */
	assert_int_equal(set_iface(f, 2, 7, 6, 0x8100), 0);
	assert_int_equal(by_tag(f, 7, 6, 0x8100), 2);
	/* Tagged becomes untagged. */
	assert_int_equal(set_iface(f, 2, 7, 0, 0), 0);
	assert_null(f->vlan_index[7]);
	assert_int_equal(f->port_iface[7], 2);
	assert_int_equal(set_iface(f, 0, 7, 0, 0), -EINVAL);
	assert_int_equal(set_iface(f, FIB_IFACE_MAX, 7, 0, 0), -EINVAL);
	assert_int_equal(set_iface(f, 3, FIB_PORT_MAX, 0, 0), -EINVAL);
	assert_int_equal(set_iface(f, 3, 7, 4095, 0x8100), -EINVAL);
	assert_int_equal(set_iface(f, 3, 7, 5, 0x9100), -EINVAL);
	fib_free(f);
	check_empty(&h);
}

/* ---- settings, rules, local prefixes ---- */

static void test_settings(void **state)
{
	const uint8_t addr[2][16] = { { 0x20, 1, 0xd, 0xb8 }, { 0xfd, 0x80 } }, plen[2] = { 61, 10 };
	const uint8_t in[16] = { 0x20, 1, 0xd, 0xb8, 0, 0, 0, 7, 1 }, out[16] = { 0x20, 1, 0xd, 0xb8, 0, 0, 0, 8 };
	const uint8_t bad_plen[1] = { 129 };
	struct fib_settings s = { .hash_seed = 9, .hash_policy4 = 1 };
	struct heap h;
	struct fib *f = make_fib(&h);

	assert_int_equal(fib_settings(f)->hash_seed, 0x5eed);
	assert_int_equal(fib_settings(f)->hash_policy4, 0);
	assert_int_equal(fib_settings_set(f, &s), 0);
	assert_int_equal(fib_settings(f)->hash_seed, 9);
	assert_int_equal(fib_local6_set(f, addr, plen, 2), 0);
	assert_true(fib_local6_match(f->local6, in));
	assert_true(fib_local6_match(f->local6, (const uint8_t[16]){ 0xfd, 0xbf }));
	assert_false(fib_local6_match(f->local6, (const uint8_t[16]){ 0xfd, 0xc0 }));
	assert_false(fib_local6_match(f->local6, out));
	assert_int_equal(fib_local6_set(f, addr, bad_plen, 1), -EINVAL);
	assert_int_equal(f->local6->count, 2);
	assert_int_equal(fib_local6_set(f, NULL, NULL, 0), 0);
	assert_null(f->local6);
	fib_free(f);
	check_empty(&h);
}

struct rule_case {
	const char *what;
	bool match;
	struct fib_rule rule;
	uint8_t family;
	uint32_t iif;
	uint8_t src[16], dst[16];
	uint8_t tos, protocol;
	uint16_t sport, dport;
};

#define R4 .flags = FIB_RULE_FAMILY4
#define R6 .flags = FIB_RULE_FAMILY6
#define NOT4 .flags = FIB_RULE_FAMILY4 | FIB_RULE_INVERT
#define NOT6 .flags = FIB_RULE_FAMILY6 | FIB_RULE_INVERT
#define P4 .family = 4, .iif = 3, .src = { 10, 1, 2, 3 }, .dst = { 192, 0, 2, 1 }
#define P6 .family = 6, .iif = 3, .src = { 0x20, 1, 0xd, 0xb8, [15] = 1 }, .dst = { 0xfd, [15] = 1 }

static const struct rule_case rule_cases[] = {
	{ "all", true, { R4 }, P4 },
	{ "all, other family", false, { R4 }, P6 },
	{ "all IPv6", true, { R6 }, P6 },
	{ "both families, IPv4", true, { .flags = FIB_RULE_FAMILY4 | FIB_RULE_FAMILY6 }, P4 },
	{ "both families, IPv6", true, { .flags = FIB_RULE_FAMILY4 | FIB_RULE_FAMILY6 }, P6 },
	{ "no family left", false, { NOT6 }, P4 },
	{ "not all", false, { NOT4 }, P4 },
	{ "from /8", true, { R4, .src_len = 8, .src = { 10 } }, P4 },
	{ "from /8, other", false, { R4, .src_len = 8, .src = { 11 } }, P4 },
	{ "not from /8", false, { NOT4, .src_len = 8, .src = { 10 } }, P4 },
	{ "not from /8, other", true, { NOT4, .src_len = 8, .src = { 11 } }, P4 },
	{ "from /15", true, { R4, .src_len = 15, .src = { 10, 0 } }, P4 },
	{ "from /16", false, { R4, .src_len = 16, .src = { 10, 0 } }, P4 },
	{ "from /32", true, { R4, .src_len = 32, .src = { 10, 1, 2, 3 } }, P4 },
	{ "from /32, other", false, { R4, .src_len = 32, .src = { 10, 1, 2, 2 } }, P4 },
	{ "to /24", true, { R4, .dst_len = 24, .dst = { 192, 0, 2 } }, P4 },
	{ "to /25, other", false, { R4, .dst_len = 25, .dst = { 192, 0, 2, 128 } }, P4 },
	{ "from yes, to no", false, { R4, .src_len = 8, .src = { 10 }, .dst_len = 8, .dst = { 10 } }, P4 },
	{ "not (from yes, to no)", true, { NOT4, .src_len = 8, .src = { 10 }, .dst_len = 8, .dst = { 10 } }, P4 },
	{ "IPv6 from /35", true, { R6, .src_len = 35, .src = { 0x20, 1, 0xd, 0xb8 } }, P6 },
	{ "IPv6 from /35, other", false, { R6, .src_len = 35, .src = { 0x20, 1, 0xd, 0xb8, 0x20 } }, P6 },
	{ "IPv6 to /128", true, { R6, .dst_len = 128, .dst = { 0xfd, [15] = 1 } }, P6 },
	{ "IPv6 to /128, other", false, { R6, .dst_len = 128, .dst = { 0xfd, [15] = 2 } }, P6 },
	{ "iif", true, { R4, .iif = 3 }, P4 },
	{ "iif, other", false, { R4, .iif = 4 }, P4 },
	{ "not iif", false, { NOT4, .iif = 3 }, P4 },
	{ "not iif, other", true, { NOT4, .iif = 4 }, P4 },
	{ "protocol", true, { R4, .protocol = 17 }, P4, .protocol = 17 },
	{ "protocol, other", false, { R4, .protocol = 17 }, P4, .protocol = 6 },
	{ "sport low", false, { R4, .sport_min = 100, .sport_max = 200 }, P4, .sport = 99 },
	{ "sport first", true, { R4, .sport_min = 100, .sport_max = 200 }, P4, .sport = 100 },
	{ "sport last", true, { R4, .sport_min = 100, .sport_max = 200 }, P4, .sport = 200 },
	{ "sport high", false, { R4, .sport_min = 100, .sport_max = 200 }, P4, .sport = 201 },
	{ "sport is not dport", false, { R4, .sport_min = 100, .sport_max = 200 }, P4, .dport = 150 },
	{ "dport", true, { R6, .dport_min = 53, .dport_max = 53 }, P6, .dport = 53 },
	{ "dport, no ports", false, { R6, .dport_min = 53, .dport_max = 53 }, P6 },
	{ "not dport", false, { NOT6, .dport_min = 53, .dport_max = 53 }, P6, .dport = 53 },
	{ "tos", true, { R4, .tos = 0x10 }, P4, .tos = 0x10 },
	{ "tos, ECN ignored", true, { R4, .tos = 0x10 }, P4, .tos = 0x13 },
	{ "tos, other", false, { R4, .tos = 0x10 }, P4, .tos = 0x08 },
	{ "tos, precedence ignored", true, { R4, .tos = 0x10 }, P4, .tos = 0xb0 },
	{ "dscp, whole", true, { R4, .tos = 0xb8 }, P4, .tos = 0xb8 },
	{ "dscp, whole, other", false, { R4, .tos = 0xb8 }, P4, .tos = 0x18 },
	{ "not tos", false, { NOT4, .tos = 0x10 }, P4, .tos = 0x10 },
	{ "not tos, kernels differ", true, { NOT4, .tos = 0x10 }, P4, .tos = 0xb0 },
	{ "IPv6 class", true, { R6, .tos = 0xb8 }, P6, .tos = 0xba },
	{ "IPv6 class has no such mask", false, { R6, .tos = 0x10 }, P6, .tos = 0xb0 },
};

static bool match_one(const struct fib_rules *rules, const struct rule_case *c)
{
	return fib_rules_match(rules, c->family, c->iif, c->src, c->dst, c->tos, c->protocol, c->sport, c->dport);
}

static void test_rules(void **state)
{
	struct fib_rule never = { R4, .iif = 99 }, pair[2], bad = { .src_len = 1 };
	struct heap h;
	struct fib *f = make_fib(&h);

	assert_null(f->rules);
	for (unsigned i = 0; i < ARRAY_LENGTH(rule_cases); i++) {
		const struct rule_case *c = &rule_cases[i];

		assert_int_equal(fib_rules_set(f, &c->rule, 1), 0);
		if (match_one(f->rules, c) != c->match)
			fail_msg("%s", c->what);
		pair[0] = never;
		pair[1] = c->rule;
		assert_int_equal(fib_rules_set(f, pair, 2), 0);
		if (match_one(f->rules, c) != c->match)
			fail_msg("%s, as the second rule", c->what);
	}
	assert_int_equal(sizes(f).rules, 2);
	assert_int_equal(fib_rules_set(f, &bad, 1), -EINVAL);
	bad = (struct fib_rule){ R4, .dst_len = 33 };
	assert_int_equal(fib_rules_set(f, &bad, 1), -EINVAL);
	bad = (struct fib_rule){ R6, .dst_len = 129 };
	assert_int_equal(fib_rules_set(f, &bad, 1), -EINVAL);
	assert_int_equal(sizes(f).rules, 2);
	assert_int_equal(fib_rules_set(f, NULL, 0), 0);
	assert_null(f->rules);
	fib_free(f);
	check_empty(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_weights_max),
		cmocka_unit_test(test_all_dead),
		cmocka_unit_test(test_bad_groups),
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_many_references),
		cmocka_unit_test(test_group_failing),
		cmocka_unit_test(test_many_groups),
		cmocka_unit_test(test_equal_hashes),
		cmocka_unit_test(test_group_number_waits),
		cmocka_unit_test(test_slot_waits),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_neighbour_mac),
		cmocka_unit_test(test_neighbour_churn),
		cmocka_unit_test(test_ifaces),
		cmocka_unit_test(test_iface_claims),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_rules),
	};

	test_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
