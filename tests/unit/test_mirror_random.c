/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror without a kernel, by chance: the same messages in many orders give the same FIB; and a long random history
 * against a deliberately naive model of the kernel's IPv4 tables, which flushes without telling as the kernel does.
 */
#include "unit/mirror_world.h"

/* ---- order ---- */

static const char *const order_messages[] = {
	"add link 2 name eth0 up", "add link 3 name eth1 up", "add link 10 name eth0.5 up vlan 5 parent 2", "port 2 0", "port 3 1",
	"add addr 2 192.0.2.254/24", "add nexthop 1 via 192.0.2.1 dev 2", "add nexthop 2 via fe80::2 dev 10",
	"add nexthop 100 group 1:1 group 2:3", "add route 10.0.0.0/8 nhid 100", "add route 10.1.0.0/16 via 192.0.3.1 dev 3",
	"add route 10.1.0.0/16 via 192.0.2.9 dev 2 metric 7", "add route default dev 10 table 253",
	"add route 10.1.0.0/24 type blackhole", "add route 10.0.0.1 type local table 255 dev 2",
	"add route 2001:db8::/32 via fe80::2 dev 10 metric 4", "add route 2001:db8::1 type local table 255 dev 2",
	"add neigh 2 192.0.2.1 mac 1", "add neigh 10 fe80::2 mac 2", "add rule 4 pref 100 iif eth1 lookup 100",
	"add netconf 4 dev -1 ignore 1", "add netconf 4 dev 3 rp 1",
};

#define ORDER_COUNT ARRAY_LENGTH(order_messages)

static void outcome(const struct world *w, char *text, size_t size)
{
	static const char *const probes[] = { "10.0.0.1", "10.2.0.1", "10.1.0.1", "10.1.1.1", "11.0.0.1", "2001:db8::1",
		"2001:db8::2", "3fff::1" };

	*text = '\0';
	for (unsigned i = 0; i < ARRAY_LENGTH(probes); i++)
		world_say(text, size, "%s: %s\n", probes[i], to(w, probes[i]));
	for (uint32_t ifindex = 2; ifindex <= 10; ifindex++) {
		const struct mirror_link *l = mirror_link_by_index(w->m, ifindex);
		const struct fib_iface *i = l ? fib_iface(w->fib, l->iface) : NULL;

		if (i)
			world_say(text, size, "%s port %u vlan %u flags %x\n", i->name, i->port, i->vlan, i->flags);
	}
	world_say(text, size, "rules %u iif %u\n", sizes(w->fib).rules, w->fib->rules ? w->fib->rules->rules[0].iif : 0);
}

static void apply(struct world *w, const char *text)
{
	unsigned ifindex, port;

	if (sscanf(text, "port %u %u", &ifindex, &port) == 2)
		assert_int_equal(mirror_set_port(w->m, ifindex, (uint16_t)port), 0);
	else
		tell(w, text);
}

static void valid_neighbours(void *ctx, uint32_t slot, struct fib_neigh *n)
{
	(void)slot;
	*(unsigned *)ctx += !!(n->mac_state & FIB_NEIGH_VALID);
}

static void one_order(const unsigned *order, char *text, size_t size)
{
	struct world *w = world_new();
	unsigned valid = 0;

	for (unsigned i = 0; i < ORDER_COUNT; i++)
		apply(w, order_messages[order[i]]);
	world_settle(w);
	outcome(w, text, size);
	fib_neigh_foreach(w->fib, valid_neighbours, &valid);
	world_say(text, size, "valid neighbours %u\n", valid);
	world_free(w);
}

static void test_any_order(void **state)
{
	unsigned order[ORDER_COUNT], rounds = small ? 100 : 1000;
	char first[4096], text[4096];

	(void)state;
	for (unsigned i = 0; i < ORDER_COUNT; i++)
		order[i] = i;
	one_order(order, first, sizeof(first));
	assert_non_null(strstr(first, "10.2.0.1: 2>192.0.2.1*1 10>fe80::2*3\n"));
	assert_non_null(strstr(first, "10.1.0.1: no_route\n10.1.1.1: 3>192.0.3.1\n11.0.0.1: 10>link\n"));
	assert_non_null(strstr(first, "2001:db8::1: local\n2001:db8::2: 10>fe80::2\n"));
	assert_non_null(strstr(first, "valid neighbours 2\n"));
	for (unsigned r = 0; r < rounds; r++) {
		for (unsigned i = ORDER_COUNT; i > 1; i--) {
			unsigned j = random_below(i), x = order[i - 1];

			order[i - 1] = order[j];
			order[j] = x;
		}
		one_order(order, text, sizeof(text));
		if (strcmp(first, text))
			for (unsigned i = 0; i < ORDER_COUNT; i++)
				print_error("%s\n", order_messages[order[i]]);
		assert_string_equal(text, first);
	}
}

/* ---- the naive kernel ---- */

#define MODEL_ROUTES 400
#define MODEL_NEXTHOPS 4

struct model_path {
	unsigned dev, gateway, weight;
	bool dead;
};

struct model_route {
	unsigned table, length, metric, nhid, count;
	uint32_t prefix;
	bool blackhole;
	struct model_path paths[3];
};

struct model_nexthop {
	bool present;
	unsigned dev, gateway;
};

/* Routes in the order of position; nexthop objects 1..3, and 10 = group of all that are there when it is made. */
static struct model {
	struct model_route routes[MODEL_ROUTES];
	unsigned count;
	struct model_nexthop nexthops[MODEL_NEXTHOPS];
	bool group, member[MODEL_NEXTHOPS];
	bool up[4];
} k;

static bool same_content(const struct model_route *a, const struct model_route *b)
{
	bool same = a->table == b->table && a->length == b->length && a->prefix == b->prefix && a->metric == b->metric &&
		a->nhid == b->nhid && a->blackhole == b->blackhole && a->count == b->count;

	for (unsigned i = 0; same && i < a->count; i++)
		same = a->paths[i].dev == b->paths[i].dev && a->paths[i].gateway == b->paths[i].gateway &&
			a->paths[i].weight == b->paths[i].weight;
	return same;
}

static bool same_key(const struct model_route *a, const struct model_route *b)
{
	return a->table == b->table && a->length == b->length && a->prefix == b->prefix && a->metric == b->metric;
}

static void route_text(char *text, size_t size, const char *verb, const struct model_route *r)
{
	snprintf(text, size, "%s route %u.%u.%u.0/%u table %u metric %u", verb, r->prefix >> 24, r->prefix >> 16 & 255,
		r->prefix >> 8 & 255, r->length, r->table, r->metric);
	if (r->blackhole)
		world_say(text, size, " type blackhole");
	if (r->nhid)
		world_say(text, size, " nhid %u", r->nhid);
	for (unsigned i = 0; i < r->count; i++)
		world_say(text, size, "%s via 192.0.%u.%u dev %u%s%s", r->count > 1 ? " nexthop" : "", r->paths[i].dev,
			r->paths[i].gateway, r->paths[i].dev, r->count > 1 ? r->paths[i].weight == 2 ? " weight 2" : "" : "",
			r->paths[i].dead ? " dead" : "");
}

static void model_remove(unsigned i)
{
	memmove(&k.routes[i], &k.routes[i + 1], (k.count - i - 1) * sizeof(k.routes[0]));
	k.count--;
}

static void model_insert(unsigned i, const struct model_route *r)
{
	memmove(&k.routes[i + 1], &k.routes[i], (k.count - i) * sizeof(k.routes[0]));
	k.routes[i] = *r;
	k.count++;
}

static struct model_route random_route(void)
{
	static const unsigned lengths[] = { 0, 8, 12, 16, 20, 24 };
	struct model_route r = { .table = random_below(6) ? 254 : 253, .length = lengths[random_below(6)],
		.metric = random_below(3) };

	r.prefix = (10u << 24 | random_below(2) << 20 | random_below(2) << 16 | random_below(2) << 12 | random_below(2) << 8);
	r.prefix &= r.length ? ~0u << (32 - r.length) : 0;
	switch (random_below(6)) {
	case 0:
		r.blackhole = true;
		break;
	case 1:
		r.nhid = 1 + random_below(3);
		break;
	case 2:
		r.nhid = 10;
		break;
	default:
		r.count = 1 + random_below(3);
	}
	for (unsigned i = 0; i < r.count; i++)
		r.paths[i] = (struct model_path){ 2 + random_below(2), 1 + random_below(3), r.count > 1 ? 1 + random_below(2) : 1, false };
	return r;
}

static bool acceptable(const struct model_route *r)
{
	if (r->nhid && (r->nhid == 10 ? !k.group : !k.nexthops[r->nhid].present))
		return false;
	for (unsigned i = 0; i < r->count; i++)
		if (!k.up[r->paths[i].dev])
			return false;
	return k.count < MODEL_ROUTES;
}

/* As fib_table_insert(). */
static void op_add(struct world *w)
{
	static const char *const verbs[] = { "add", "append", "replace" };
	struct model_route r = random_route();
	unsigned how = random_below(3), first = k.count, last = 0;
	char text[512];

	if (!acceptable(&r))
		return;
	for (unsigned i = 0; i < k.count; i++) {
		if (!same_key(&k.routes[i], &r))
			continue;
		if (same_content(&k.routes[i], &r))
			return;
		first = first < i ? first : i;
		last = i + 1;
	}
	if (how == 2 && first < k.count)
		k.routes[first] = r;
	else if (how == 2)
		return;
	else
		model_insert(how == 1 && last ? last : first, &r);
	route_text(text, sizeof(text), verbs[how], &r);
	tell(w, text);
}

static void op_delete(struct world *w)
{
	unsigned i = k.count ? random_below(k.count) : 0;
	char text[512];

	if (!k.count)
		return;
	route_text(text, sizeof(text), "del", &k.routes[i]);
	model_remove(i);
	tell(w, text);
}

static void flush_nexthop_routes(unsigned id)
{
	for (unsigned i = k.count; i--;)
		if (k.routes[i].nhid == id)
			model_remove(i);
}

/* A member goes: the group shrinks, and goes with its last one. Tells of the group if @w (the kernel does not when it is the
 * device that took the member away). */
static void nexthop_gone(struct world *w, unsigned id)
{
	char text[256] = "replace nexthop 10";
	unsigned left = 0;

	k.nexthops[id].present = false;
	flush_nexthop_routes(id);
	if (!k.group || !k.member[id])
		return;
	k.member[id] = false;
	for (unsigned i = 1; i < MODEL_NEXTHOPS; i++) {
		left += k.member[i];
		if (k.member[i])
			world_say(text, sizeof(text), " group %u:%u", i, i);
	}
	if (!left) {
		k.group = false;
		flush_nexthop_routes(10);
	}
	if (w)
		tell(w, left ? text : "del nexthop 10");
}

static void op_nexthop(struct world *w)
{
	unsigned id = 1 + random_below(3);
	struct model_nexthop *n = &k.nexthops[id];
	char text[256];

	if (n->present && !random_below(3)) {
		snprintf(text, sizeof(text), "del nexthop %u", id);
		tell(w, text);
		nexthop_gone(w, id);
		return;
	}
	n->dev = 2 + random_below(2);
	n->gateway = 1 + random_below(3);
	if (!k.up[n->dev]) {
		/* The kernel refuses; an existing one stays as it was, which the device's fall has removed. */
		n->dev = 5 - n->dev;
		if (!k.up[n->dev])
			return;
	}
	n->present = true;
	snprintf(text, sizeof(text), "replace nexthop %u via 192.0.%u.%u dev %u", id, n->dev, n->gateway, n->dev);
	tell(w, text);
}

static void op_group(struct world *w)
{
	char text[256] = "replace nexthop 10";
	unsigned members = 0;

	for (unsigned i = 1; i < MODEL_NEXTHOPS; i++) {
		bool in = k.nexthops[i].present && random_below(3);

		k.member[i] = in && (members++, true);
		if (in)
			world_say(text, sizeof(text), " group %u:%u", i, i);
	}
	if (members) {
		k.group = true;
		tell(w, text);
	} else if (k.group) {
		k.group = false;
		flush_nexthop_routes(10);
		tell(w, "del nexthop 10");
	}
}

static void model_down(unsigned dev)
{
	k.up[dev] = false;
	for (unsigned i = k.count; i--;) {
		struct model_route *r = &k.routes[i];
		unsigned dead = 0;

		for (unsigned p = 0; p < r->count; p++) {
			r->paths[p].dead |= r->paths[p].dev == dev;
			dead += r->paths[p].dead;
		}
		if (r->count && dead == r->count)
			model_remove(i);
	}
	for (unsigned i = 1; i < MODEL_NEXTHOPS; i++)
		if (k.nexthops[i].present && k.nexthops[i].dev == dev)
			nexthop_gone(NULL, i);
}

static void model_up(unsigned dev)
{
	k.up[dev] = true;
	for (unsigned i = 0; i < k.count; i++)
		for (unsigned p = 0; p < k.routes[i].count; p++)
			if (k.routes[i].paths[p].dev == dev)
				k.routes[i].paths[p].dead = false;
}

static void op_link(struct world *w)
{
	unsigned dev = 2 + random_below(2);
	char text[64];

	if (k.up[dev])
		model_down(dev);
	else
		model_up(dev);
	snprintf(text, sizeof(text), "add link %u name eth%u%s", dev, dev - 2, k.up[dev] ? " up" : "");
	tell(w, text);
}

/* ---- what the naive kernel answers ---- */

static bool model_answer(const struct model_route *r, bool defaults, char *text, size_t size)
{
	unsigned alive = 0;

	*text = '\0';
	if (r->blackhole) {
		snprintf(text, size, "%s", defaults ? "no_route" : "blackhole");
		return true;
	}
	for (unsigned i = 0; i < r->count; i++)
		alive += !r->paths[i].dead;
	for (unsigned i = 0; i < r->count; i++) {
		if (r->paths[i].dead)
			continue;
		world_say(text, size, "%s%u>192.0.%u.%u", *text ? " " : "", r->paths[i].dev, r->paths[i].dev, r->paths[i].gateway);
		if (alive > 1)
			world_say(text, size, "*%u", r->paths[i].weight);
	}
	for (unsigned id = 1; r->nhid == 10 && id < MODEL_NEXTHOPS; id++)
		alive += k.member[id];
	for (unsigned id = 1; r->nhid && id < MODEL_NEXTHOPS; id++) {
		if (r->nhid != id && !(r->nhid == 10 && k.member[id]))
			continue;
		world_say(text, size, "%s%u>192.0.%u.%u", *text ? " " : "", k.nexthops[id].dev, k.nexthops[id].dev,
			k.nexthops[id].gateway);
		if (alive > 1)
			world_say(text, size, "*%u", id);
	}
	return *text;
}

static bool model_table(uint32_t dst, unsigned table, bool defaults, char *text, size_t size)
{
	for (int length = 32; length >= 0; length--)
		for (unsigned metric = 0; metric < 3; metric++)
			for (unsigned i = 0; i < k.count; i++) {
				const struct model_route *r = &k.routes[i];
				uint32_t mask = length ? ~0u << (32 - length) : 0;

				if (r->table == table && (int)r->length == length && r->metric == metric &&
						r->prefix == (dst & mask) && model_answer(r, defaults, text, size))
					return true;
			}
	return false;
}

static bool model_has_defaults(void)
{
	for (unsigned i = 0; i < k.count; i++)
		if (k.routes[i].table == 253)
			return true;
	return false;
}

static void compare(struct world *w, unsigned step)
{
	char text[512], address[32];
	bool defaults = model_has_defaults();

	for (unsigned i = 0; i < 60; i++) {
		uint32_t dst = random_below(10) ? 10u << 24 | random_below(2) << 20 | random_below(2) << 16 |
			random_below(2) << 12 | random_below(2) << 8 | random_below(256) : (uint32_t)random_next();

		if (!model_table(dst, 254, defaults, text, sizeof(text)) && !model_table(dst, 253, false, text, sizeof(text)))
			snprintf(text, sizeof(text), "-");
		snprintf(address, sizeof(address), "%u.%u.%u.%u", dst >> 24, dst >> 16 & 255, dst >> 8 & 255, dst & 255);
		if (strcmp(to(w, address), text))
			print_error("step %u, %s\n", step, address);
		assert_string_equal(to(w, address), text);
	}
}

/* ---- reading it all again ---- */

static void dump_nexthops(struct world *w)
{
	char text[256];

	mirror_dump_begin(w->m, DUMP_NEXTHOP);
	for (unsigned i = 1; i < MODEL_NEXTHOPS; i++) {
		if (!k.nexthops[i].present)
			continue;
		snprintf(text, sizeof(text), "dump nexthop %u via 192.0.%u.%u dev %u", i, k.nexthops[i].dev, k.nexthops[i].gateway,
			k.nexthops[i].dev);
		tell(w, text);
	}
	snprintf(text, sizeof(text), "dump nexthop 10");
	for (unsigned i = 1; i < MODEL_NEXTHOPS; i++)
		if (k.member[i])
			world_say(text, sizeof(text), " group %u:%u", i, i);
	if (k.group)
		tell(w, text);
	mirror_dump_end(w->m, DUMP_NEXTHOP, true);
}

static void random_op(struct world *w);

/* With @churn, changes come between the pieces: the pieces are a snapshot of the beginning. */
static void dump_routes(struct world *w, bool churn)
{
	static struct model_route snapshot[MODEL_ROUTES];
	unsigned count = k.count;
	char text[512];

	memcpy(snapshot, k.routes, sizeof(snapshot));
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	for (unsigned i = 0; i < count; i++) {
		if (churn && !random_below(4))
			random_op(w);
		route_text(text, sizeof(text), "dump", &snapshot[i]);
		tell(w, text);
	}
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
}

static void random_op(struct world *w)
{
	unsigned what = random_below(12);

	if (what < 6)
		op_add(w);
	else if (what < 9)
		op_delete(w);
	else if (what < 11)
		op_nexthop(w);
	else
		op_group(w);
}

/* Each link event may leave a difference until the next dump (mirror.h); between them, and after the dump, none. */
static void test_history(void **state)
{
	unsigned steps = small ? 4000 : 30000;
	struct world *w = world_new();

	(void)state;
	tell_devices(w);
	memset(&k, 0, sizeof(k));
	k.up[2] = k.up[3] = true;
	for (unsigned step = 0; step < steps; step++) {
		bool down;

		if (random_below(40)) {
			random_op(w);
			world_settle(w);
			compare(w, step);
			continue;
		}
		down = k.up[2] && k.up[3];
		op_link(w);
		world_settle(w);
		/* At once, as far as it can be known. */
		if (down)
			compare(w, step);
		for (unsigned i = random_below(10); i; i--)
			random_op(w);
		dump_nexthops(w);
		/* What the dump of that time shows of positions may be older than the changes: once more, quietly. */
		dump_routes(w, random_below(2));
		dump_routes(w, false);
		compare(w, step);
	}
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_any_order), cmocka_unit_test(test_history) };

	test_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
