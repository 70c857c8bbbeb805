/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The FIB against a naive model (a list of prefixes, each with the specification it leads to) under random changes,
 * with and without memory that fails; and a life in which each allocation fails once.
 */
#include "unit/fib_heap.h"

/* ---- the model ---- */

#define MODEL_SPECS 24
#define MODEL_PREFIXES 200
#define PATHS 4

struct model_spec {
	enum verdict verdict;
	uint32_t mtu;
	unsigned count;
	struct fib_path_spec paths[PATHS];
};

struct model_route {
	bool v6;
	uint8_t addr[16];
	uint8_t plen;
	int spec;         /* -1 = not in the table */
	uint32_t group;
};

/* What a slow reader holds: it must not change until two periods after. */
struct model_reader {
	uint64_t since;
	uint32_t number;
	struct fib_group group;
	struct fib_path paths[PATHS];
	struct fib_neigh neigh[PATHS];
};

struct model {
	struct heap heap;
	struct fib *f;
	struct model_spec specs[MODEL_SPECS];
	struct model_route routes[MODEL_PREFIXES];
	struct model_reader reader;
};

static struct fib_path_spec random_path(void)
{
	struct fib_path_spec p = path4(1 + random_below(3), random_below(6), 1 + random_below(3), !random_below(4));

	p.gateway_family = (uint8_t[]){ 0, 4, 6 }[random_below(3)];
	return p;
}

static void random_spec(struct model_spec *s)
{
	static const enum verdict others[] = { VERDICT_DROP_BLACKHOLE, VERDICT_KERNEL_LOCAL, VERDICT_KERNEL_UNREACHABLE };

	*s = (struct model_spec){ .verdict = others[random_below(3)], .mtu = random_below(3) * 1400 };
	if (!random_below(4))
		return;
	s->verdict = VERDICT_FORWARD;
	s->count = 1 + random_below(PATHS);
	for (unsigned i = 0; i < s->count; i++)
		s->paths[i] = random_path();
}

/* Few bits, so that prefixes lie within each other. */
static void random_route(struct model_route *r)
{
	*r = (struct model_route){ .v6 = random_below(2), .spec = -1 };
	/* Short IPv4 prefixes (but the default) cost millions of stores each; test_lpm has them. */
	r->plen = r->v6 ? random_below(65) : 8 + random_below(25);
	if (!random_below(20))
		r->plen = 0;
	r->addr[0] = 0x20;
	for (unsigned i = 1; i < 8; i++)
		r->addr[i] = random_below(2) << 7;
	for (unsigned i = 0; i < 16; i++)
		if (i * 8 + 8 > r->plen)
			r->addr[i] &= i * 8 >= r->plen ? 0 : 0xff00 >> (r->plen - i * 8);
}

static bool covers(const struct model_route *r, const uint8_t addr[16])
{
	for (unsigned i = 0; i < r->plen; i++)
		if ((r->addr[i / 8] ^ addr[i / 8]) & 0x80 >> i % 8)
			return false;
	return true;
}

static bool same_route(const struct model_route *a, const struct model_route *b)
{
	return a->v6 == b->v6 && a->plen == b->plen && !memcmp(a->addr, b->addr, 16);
}

static void model_init(struct model *m)
{
	memset(m, 0, sizeof(*m));
	m->f = make_fib(&m->heap);
	for (unsigned i = 0; i < MODEL_SPECS; i++)
		random_spec(&m->specs[i]);
	for (unsigned i = 0; i < MODEL_PREFIXES; i++) {
		unsigned k;

		do {
			random_route(&m->routes[i]);
			for (k = 0; k < i && !same_route(&m->routes[k], &m->routes[i]); k++)
				;
		} while (k < i);
	}
}

static unsigned alive_of(const struct model_spec *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->count; i++)
		n += !s->paths[i].dead;
	return n;
}

static void check_group(struct model *m, const struct fib_group *g, const struct model_spec *s)
{
	assert_int_equal(g->mtu, s->mtu);
	if (s->count && !alive_of(s)) {
		assert_int_equal(g->verdict, VERDICT_KERNEL_UNREACHABLE);
		assert_int_equal(g->path_count, 0);
		return;
	}
	assert_int_equal(g->verdict, s->verdict);
	assert_int_equal(g->path_count, s->count);
	for (unsigned i = 0; i < s->count; i++) {
		const struct fib_path *p = &g->paths[i];
		const struct fib_neigh *n;

		assert_int_equal(p->iface, s->paths[i].iface);
		assert_int_equal(p->weight, s->paths[i].weight);
		assert_int_equal(!!(p->flags & FIB_PATH_DEAD), s->paths[i].dead);
		assert_int_equal(!!(p->flags & FIB_PATH_ON_LINK), !s->paths[i].gateway_family);
		if (!s->paths[i].gateway_family) {
			assert_int_equal(p->neighbour, FIB_NEIGH_NONE);
			continue;
		}
		n = fib_neigh(m->f, p->neighbour);
		assert_int_equal(n->iface, p->iface);
		assert_int_equal(n->family, s->paths[i].gateway_family);
		assert_memory_equal(n->addr, s->paths[i].gateway, 4);
	}
}

static void check_address(struct model *m, bool v6, const uint8_t addr[16])
{
	const struct model_route *best = NULL;
	const struct fib_group *g = v6 ? fib_lookup6(m->f, addr) : fib_lookup4(m->f, load_be32(addr));

	for (unsigned i = 0; i < MODEL_PREFIXES; i++) {
		const struct model_route *r = &m->routes[i];

		if (r->spec >= 0 && r->v6 == v6 && (!best || r->plen > best->plen) && covers(r, addr))
			best = r;
	}
	if (!best) {
		assert_null(g);
		return;
	}
	assert_non_null(g);
	assert_int_equal(g->number, best->group);
	check_group(m, g, &m->specs[best->spec]);
}

static void add_references(void *ctx, uint32_t slot, struct fib_neigh *n)
{
	*(unsigned *)ctx += n->references;
}

static unsigned gateways_of(const struct fib_group *g)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g->path_count; i++)
		n += !(g->paths[i].flags & FIB_PATH_ON_LINK);
	return n;
}

/* All routes' addresses, and the counts of what they need. */
static void check_model(struct model *m)
{
	unsigned count[2] = { 0 }, groups = 0, gateways = 0, held = 0;

	for (unsigned i = 0; i < MODEL_PREFIXES; i++) {
		const struct model_route *r = &m->routes[i];
		unsigned k = 0, references = 0;

		check_address(m, r->v6, r->addr);
		if (r->spec < 0)
			continue;
		count[r->v6]++;
		for (; k < MODEL_PREFIXES; k++)
			if (m->routes[k].spec >= 0 && m->routes[k].group == r->group) {
				references++;
				if (references > 1 || k != i)
					continue;
				groups++;  /* the first route of its group */
				gateways += gateways_of(fib_group(m->f, r->group));
			}
		assert_int_equal(fib_group(m->f, r->group)->references, references);
	}
	assert_int_equal(sizes(m->f).routes4, count[0]);
	assert_int_equal(sizes(m->f).routes6, count[1]);
	assert_int_equal(sizes(m->f).groups, groups);
	fib_neigh_foreach(m->f, add_references, &held);
	assert_int_equal(held, gateways);
}

static int route_set(struct fib *f, const struct model_route *r, uint32_t group)
{
	return r->v6 ? fib_route6_set(f, r->addr, r->plen, group) : fib_route4_set(f, load_be32(r->addr), r->plen, group);
}

static int route_del(struct fib *f, const struct model_route *r)
{
	return r->v6 ? fib_route6_del(f, r->addr, r->plen) : fib_route4_del(f, load_be32(r->addr), r->plen);
}

/* 0, or the error after which nothing has changed. */
static int model_set(struct model *m, struct model_route *r, int spec)
{
	const struct model_spec *s = &m->specs[spec];
	uint32_t group;
	int rc = fib_group_get(m->f, s->verdict, s->mtu, s->paths, s->count, &group);

	if (rc < 0)
		return rc;
	rc = route_set(m->f, r, group);
	if (rc < 0) {
		fib_group_put(m->f, group);
		return rc;
	}
	if (r->spec >= 0)
		fib_group_put(m->f, r->group);
	r->spec = spec;
	r->group = group;
	return 0;
}

static int model_del(struct model *m, struct model_route *r)
{
	int rc = route_del(m->f, r);

	if (r->spec < 0) {
		assert_int_equal(rc, -ENOENT);
		return 0;
	}
	if (rc < 0)
		return rc;
	fib_group_put(m->f, r->group);
	r->spec = -1;
	return 0;
}

static void reader_start(struct model *m)
{
	struct model_reader *x = &m->reader;
	const struct model_route *r = &m->routes[random_below(MODEL_PREFIXES)];
	const struct fib_group *g;

	x->number = 0;
	if (r->spec < 0)
		return;
	g = fib_group(m->f, r->group);
	x->number = r->group;
	x->since = m->heap.periods;
	x->group = *g;
	memcpy(x->paths, g->paths, g->path_count * sizeof(g->paths[0]));
	for (unsigned i = 0; i < g->path_count; i++)
		if (g->paths[i].neighbour != FIB_NEIGH_NONE)
			x->neigh[i] = *fib_neigh(m->f, g->paths[i].neighbour);
}

static void reader_check(struct model *m)
{
	const struct model_reader *x = &m->reader;
	const struct fib_group *g;

	if (!x->number || m->heap.periods >= x->since + 2)
		return;
	g = fib_group(m->f, x->number);
	assert_int_equal(g->number, x->number);
	assert_int_equal(g->path_count, x->group.path_count);
	assert_memory_equal(g->paths, x->paths, g->path_count * sizeof(g->paths[0]));
	for (unsigned i = 0; i < g->path_count; i++) {
		const struct fib_neigh *n;

		if (g->paths[i].neighbour == FIB_NEIGH_NONE)
			continue;
		n = fib_neigh(m->f, g->paths[i].neighbour);
		assert_int_equal(n->iface, x->neigh[i].iface);
		assert_memory_equal(n->addr, x->neigh[i].addr, 16);
	}
}

static int model_step(struct model *m)
{
	struct model_route *r = &m->routes[random_below(MODEL_PREFIXES)];

	switch (random_below(8)) {
	case 0:
		random_spec(&m->specs[0]);  /* its routes change under live traffic */
		for (unsigned i = 0; i < MODEL_PREFIXES; i++)
			if (m->routes[i].spec == 0)
				assert_int_equal(model_set(m, &m->routes[i], 0), 0);
		return 0;
	case 1:
	case 2:
	case 3:
		return model_del(m, r);
	default:
		return model_set(m, r, random_below(MODEL_SPECS));
	}
}

static void test_random(void **state)
{
	static struct model m;
	unsigned steps = small ? 2000 : 20000;

	model_init(&m);
	for (unsigned i = 0; i < steps; i++) {
		assert_int_equal(model_step(&m), 0);
		reader_check(&m);
		if (m.heap.periods >= m.reader.since + 2 || !m.reader.number)
			reader_start(&m);
		if (!random_below(8))
			heap_period(&m.heap);
		if (i % 16 == 0)
			check_model(&m);
	}
	for (unsigned i = 0; i < MODEL_PREFIXES; i++)
		assert_int_equal(model_del(&m, &m.routes[i]), 0);
	check_model(&m);
	assert_int_equal(sizes(m.f).neighbours, 0);
	fib_free(m.f);
	check_empty(&m.heap);
}

/* As above, but now and then an allocation fails: nothing may have changed then. */
static void test_random_failing(void **state)
{
	static struct model m;
	unsigned steps = small ? 3000 : 20000, failures = 0;

	model_init(&m);
	for (unsigned i = 0; i < steps; i++) {
		struct model_route *r = &m.routes[random_below(MODEL_PREFIXES)];
		int rc;

		m.heap.fail_after = random_below(4);
		m.heap.failed = false;
		rc = random_below(3) ? model_set(&m, r, random_below(MODEL_SPECS)) : model_del(&m, r);
		m.heap.fail_after = -1;
		assert_true(!rc || (rc == -ENOMEM && m.heap.failed));
		failures += !!rc;
		if (rc || i % 64 == 0)
			check_model(&m);
		if (!random_below(6))
			heap_period(&m.heap);
	}
	assert_true(failures > 20);
	fib_free(m.f);
	check_empty(&m.heap);
}

/* ---- each allocation of a life fails once ---- */

static int life_objects(struct fib *f)
{
	static const uint8_t addr[1][16] = { { 0xfd } }, plen[1] = { 8 };
	struct fib_iface plain = iface_of(1, 1, 0, 0), tagged = iface_of(2, 1, 5, 0x8100);
	struct fib_rule rule = { .flags = FIB_RULE_FAMILY4 };
	struct fib_settings settings = { .hash_seed = 1 };

	if (fib_iface_set(f, &plain) < 0 || fib_iface_set(f, &tagged) < 0 || fib_iface_set(f, &plain) < 0)
		return -ENOMEM;
	if (fib_settings_set(f, &settings) < 0 || fib_rules_set(f, &rule, 1) < 0)
		return -ENOMEM;
	return fib_local6_set(f, addr, plen, 1);
}

static int life_routes(struct fib *f, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct fib_path_spec p[2] = { path4(1, i, 1 + i / 256, false), path4(2, i, 1, false) };
		struct fib_sizes before = sizes(f);
		uint32_t g = 0;

		if (fib_group_get(f, VERDICT_FORWARD, 0, p, 2, &g) < 0) {
			assert_int_equal(g, 0);
			assert_int_equal(sizes(f).groups, before.groups);
			assert_int_equal(sizes(f).neighbours, before.neighbours);
			return -ENOMEM;
		}
		if (fib_route4_set(f, i << 8, 24, g) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void test_failing_memory(void **state)
{
	long n = 0;
	bool failed;

	do {
		struct heap h = heap_new();
		struct route_memory m = { heap_alloc, heap_release, heap_retire, heap_grace, &h };
		struct fib *f;
		int rc;

		h.fail_after = n;
		n += small && n > 25 ? 17 : 1;
		f = fib_new(&m, 1);
		if (f) {
			rc = life_objects(f);
			if (!rc)
				rc = life_routes(f, 100);
			assert_int_equal(rc, h.failed ? -ENOMEM : 0);
		}
		failed = h.failed;
		h.fail_after = -1;
		fib_free(f);
		check_empty(&h);
	} while (failed);
	assert_true(n > 100);
}

static void test_free_null(void **state)
{
	fib_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_random_failing),
		cmocka_unit_test(test_failing_memory),
		cmocka_unit_test(test_free_null),
	};

	test_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
