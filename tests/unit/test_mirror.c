/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror without a kernel: hand-made netlink messages in, the FIB's answers out. One test per rule of how the kernel
 * treats links, routes, nexthop objects and neighbours. Dumps, rules and views: test_mirror_state.c.
 */
#include "unit/mirror_world.h"

static int setup(void **state)
{
	struct world *w = world_new();

	tell_devices(w);
	w->hooks[0] = '\0';
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	world_free(*state);
	return 0;
}

/* ---- routes ---- */

static void test_single_path(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2;add route 10.1.0.0/16 dev 3;add route default via 192.0.2.9 dev 2;"
		"add route 2001:db8::/32 via fe80::1 dev 2 metric 1024;add route 2001:db8:1::/48 dev 3 metric 256");
	assert_to(w, "10.2.3.4", "2>192.0.2.1");
	assert_to(w, "10.1.3.4", "3>link");
	assert_to(w, "11.0.0.1", "2>192.0.2.9");
	assert_to(w, "2001:db8:2::1", "2>fe80::1");
	assert_to(w, "2001:db8:1::1", "3>link");
	assert_to(w, "2001:db9::1", "-");
	tell_all(w, "del route 10.1.0.0/16 dev 3;del route default via 192.0.2.9 dev 2;"
		"del route 2001:db8::/32 via fe80::1 dev 2 metric 1024");
	assert_to(w, "10.1.3.4", "2>192.0.2.1");
	assert_to(w, "11.0.0.1", "-");
	assert_to(w, "2001:db8:2::1", "-");
}

static void test_types(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.1.0.0/16 type blackhole;add route 10.2.0.0/16 type unreachable;"
		"add route 10.3.0.0/16 type prohibit;add route 10.4.0.0/16 type throw;add route 10.5.0.0/16 type nat;"
		"add route 10.6.0.0/16 type multicast dev 2;add route 10.7.0.0/16 dev 9;add route 10.8.0.0/16 via 192.0.2.1 dev 2 encap;"
		"add route 10.9.0.1 type local table 255 dev 2;add route 10.9.0.255 type broadcast table 255 dev 2;"
		"add route 10.10.0.0/16 via 192.0.2.1 dev 2 table 100;add route 10.11.0.0/16 via 192.0.2.1 dev 2 table 1000;"
		"add route 10.12.0.0/16 via 192.0.2.1 dev 2 cloned;add route 10.13.0.0/16 nexthop via 192.0.2.1 dev 2 encap "
		"nexthop via 192.0.3.1 dev 3");
	assert_to(w, "10.1.0.1", "blackhole");
	assert_to(w, "10.2.0.1", "unreachable");
	assert_to(w, "10.3.0.1", "prohibit");
	assert_to(w, "10.4.0.1", "no_route");
	assert_to(w, "10.5.0.1", "no_route");
	assert_to(w, "10.6.0.1", "local");
	assert_to(w, "10.7.0.1", "other_device");
	assert_to(w, "10.8.0.1", "encap");
	assert_to(w, "10.9.0.1", "local");
	assert_to(w, "10.9.0.255", "local");
	assert_to(w, "10.10.0.1", "-");
	assert_to(w, "10.11.0.1", "-");
	assert_to(w, "10.12.0.1", "-");
	assert_to(w, "10.13.0.1", "encap");
	tell_all(w, "add route 2001:db8:1::/48 type blackhole dev 1 metric 1024;"
		"add route 2001:db8:2::/48 type unreachable dev 1 metric 1024;add route 2001:db8:3::/48 dev 9 metric 5");
	assert_to(w, "2001:db8:1::1", "blackhole");
	assert_to(w, "2001:db8:2::1", "unreachable");
	assert_to(w, "2001:db8:3::1", "other_device");
}

static void test_metric(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.2 dev 2 metric 20;add route 10.0.0.0/8 via 192.0.2.1 dev 2 metric 10;"
		"add route 10.0.0.0/8 via 192.0.2.3 dev 2 metric 30");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.1 dev 2 metric 10");
	assert_to(w, "10.0.0.1", "2>192.0.2.2");
	tell_all(w, "replace route 10.0.0.0/8 via 192.0.2.4 dev 2 metric 20");
	assert_to(w, "10.0.0.1", "2>192.0.2.4");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.4 dev 2 metric 20");
	assert_to(w, "10.0.0.1", "2>192.0.2.3");
	assert_int_equal(w->m->want, 0);
}

/* fib_table_insert(): plain = in front of its equals, append = behind, replace = instead of the first. */
static void test_position(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2;append route 10.0.0.0/8 via 192.0.2.2 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.3 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.3");
	tell_all(w, "replace route 10.0.0.0/8 via 192.0.2.4 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.4");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.4 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.1 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.2");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.2 dev 2");
	assert_to(w, "10.0.0.1", "-");
}

/* The fast path does not look at the TOS nor (IPv6) at the source: such prefixes are the kernel's. */
static void test_more_than_destination(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2;add route 10.0.0.0/8 via 192.0.2.2 dev 2 tos 16;"
		"add route 2001:db8::/32 via fe80::1 dev 2 metric 1024;"
		"add route 2001:db8::/32 from 2001:db8:9::/48 via fe80::2 dev 2 metric 1024");
	assert_to(w, "10.0.0.1", "rule");
	assert_to(w, "2001:db8::1", "rule");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.2 dev 2 tos 16;"
		"del route 2001:db8::/32 from 2001:db8:9::/48 via fe80::2 dev 2 metric 1024");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	assert_to(w, "2001:db8::1", "2>fe80::1");
}

static void test_multipath(void **state)
{
	struct world *w = *state;
	const struct fib_group *g;

	tell_all(w, "add route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 weight 1 nexthop via 192.0.3.1 dev 3 weight 3;"
		"add route 11.0.0.0/8 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.9.1 dev 9");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*3");
	g = fib_lookup4(w->fib, 0x0a000001);
	/* semantics M1 */
	assert_int_equal(g->paths[0].bound, (1u << 29) - 1);
	assert_int_equal(g->paths[1].bound, (1u << 31) - 1);
	/* One of several paths leaves by a foreign device: the kernel must choose. */
	assert_to(w, "11.0.0.1", "other_device");
}

static void test_via_other_family(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via fe80::1 dev 2;"
		"add route 11.0.0.0/8 nexthop via fe80::2 dev 2 nexthop via 192.0.3.1 dev 3;add route 12.0.0.0/8 via 0.0.0.0 dev 2");
	assert_to(w, "10.0.0.1", "2>fe80::1");
	assert_to(w, "11.0.0.1", "2>fe80::2*1 3>192.0.3.1*1");
	assert_to(w, "12.0.0.1", "2>link");
}

static void test_mtu_metric(void **state)
{
	struct world *w = *state;

	/* semantics F15 */
	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2 mtu 1400;add route 2001:db8::/32 via fe80::1 dev 2 mtu 1300");
	assert_to(w, "10.0.0.1", "2>192.0.2.1 mtu=1400");
	assert_to(w, "2001:db8::1", "2>fe80::1 mtu=1300");
}

/* Routes that differ in what does not matter here are two all the same: one goes, the other stays. */
static void test_aliases(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2 advmss 1400;append route 10.0.0.0/8 via 192.0.2.1 dev 2 advmss 1300;"
		"del route 10.0.0.0/8 via 192.0.2.1 dev 2 advmss 1400");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2 realm 7;del route 10.0.0.0/8 via 192.0.2.1 dev 2 advmss 1300");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.1 dev 2 realm 7");
	assert_to(w, "10.0.0.1", "-");
	assert_int_equal(w->m->want, 0);
}

static void test_siblings(void **state)
{
	struct world *w = *state;

	/* Each notification shows all siblings, beginning with any of them. */
	tell_all(w, "add route 2001:db8::/32 via fe80::1 dev 2 metric 1024;"
		"append route 2001:db8::/32 metric 1024 nexthop via fe80::1 dev 2 nexthop via fe80::3 dev 3");
	assert_to(w, "2001:db8::1", "2>fe80::1*1 3>fe80::3*1");
	tell_all(w, "append route 2001:db8::/32 metric 1024 nexthop via fe80::2 dev 2 nexthop via fe80::1 dev 2 "
		"nexthop via fe80::3 dev 3");
	assert_to(w, "2001:db8::1", "2>fe80::1*1 2>fe80::2*1 3>fe80::3*1");
	assert_int_equal(w->m->routes[1].count, 1);
	/* A deletion shows only the ones that go. */
	tell_all(w, "del route 2001:db8::/32 via fe80::1 dev 2 metric 1024");
	assert_to(w, "2001:db8::1", "2>fe80::2*1 3>fe80::3*1");
	tell_all(w, "replace route 2001:db8::/32 via fe80::9 dev 3 metric 1024");
	assert_to(w, "2001:db8::1", "3>fe80::9");
	tell_all(w, "del route 2001:db8::/32 via fe80::9 dev 3 metric 1024");
	assert_to(w, "2001:db8::1", "-");
	assert_int_equal(w->m->routes[1].count, 0);
	assert_int_equal(w->m->want, 0);
}

/* Routes on link are no siblings: the first one is taken; nor are those from router advertisements, where the preference
 * decides first. */
static void test_no_siblings(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 2001:db8::/64 dev 2 metric 256;add route 2001:db8::/64 dev 3 metric 256");
	assert_to(w, "2001:db8::1", "2>link");
	tell_all(w, "del route 2001:db8::/64 dev 2 metric 256");
	assert_to(w, "2001:db8::1", "3>link");
	tell_all(w, "add route default6 via fe80::1 dev 2 metric 1024 proto 9 pref 0;"
		"add route default6 via fe80::2 dev 2 metric 1024 proto 9 pref 1;"
		"add route default6 via fe80::3 dev 2 metric 1024 proto 9 pref 3");
	assert_to(w, "3fff::1", "2>fe80::2");
	tell_all(w, "del route default6 via fe80::2 dev 2 metric 1024 proto 9 pref 1");
	assert_to(w, "3fff::1", "2>fe80::1");
	assert_int_equal(w->m->want, 0);
}

/* ---- tables ---- */

static void test_local_table4(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.1 via 192.0.2.1 dev 2;add route 10.0.0.1 type local table 255 dev 3");
	assert_to(w, "10.0.0.1", "local");
	/* Inside a shorter local prefix main's route counts or not, depending on whether there ever was an ip rule. */
	tell_all(w, "add route 20.1.0.0/16 via 192.0.2.1 dev 2;add route 20.0.0.0/8 type local table 255 dev 1");
	assert_to(w, "20.1.0.1", "local");
	assert_to(w, "20.2.0.1", "local");
	tell_all(w, "del route 20.0.0.0/8 type local table 255 dev 1");
	assert_to(w, "20.1.0.1", "2>192.0.2.1");
}

static void test_local_table6(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 2001:db8::/64 dev 2 metric 256;add route 2001:db8::1 type local table 255 dev 2;"
		"add route 2001:db8:: type anycast table 255 dev 2;add route ff00::/8 type multicast table 255 dev 2 metric 256;"
		"add route ff00::/8 type multicast table 255 dev 3 metric 256;"
		"add route 2001:db8:5::/48 type local table 255 dev 1;add route 2001:db8:5:6::/64 via fe80::1 dev 2");
	assert_to(w, "2001:db8::1", "local");
	assert_to(w, "2001:db8::", "local");
	assert_to(w, "2001:db8::2", "2>link");
	assert_int_equal(w->fib->local6->count, 2);
	/* The local table comes first, also with a shorter prefix. */
	assert_to(w, "2001:db8:5:6::1", "local");
	tell_all(w, "del route ff00::/8 type multicast table 255 dev 2 metric 256;del route 2001:db8:5::/48 type local table 255 dev 1");
	assert_int_equal(w->fib->local6->count, 1);
	assert_to(w, "2001:db8:5:6::1", "2>fe80::1");
	tell_all(w, "del route ff00::/8 type multicast table 255 dev 3 metric 256");
	assert_null(w->fib->local6);
}

static void test_local_hook(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.1 type local table 255 dev 2;add route 10.0.0.255 type broadcast table 255 dev 2;"
		"add route 127.0.0.0/8 type local table 255 dev 1;append route 10.0.0.1 type local table 255 dev 3;"
		"add route 2001:db8::1 type local table 255 dev 2;add route 10.9.9.9 via 192.0.2.1 dev 2");
	assert_string_equal(w->hooks, "+local 10.0.0.1\n+local 10.0.0.255\n+local 2001:db8::1\n");
	w->hooks[0] = '\0';
	tell_all(w, "del route 10.0.0.1 type local table 255 dev 2");
	assert_string_equal(w->hooks, "");
	tell_all(w, "del route 10.0.0.1 type local table 255 dev 3;del route 2001:db8::1 type local table 255 dev 2");
	assert_string_equal(w->hooks, "-local 10.0.0.1\n-local 2001:db8::1\n");
}

/* Table default: for what main does not match at all. */
static void test_default_table(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route default via 192.0.2.1 dev 2 table 253;add route 10.1.2.0/24 via 192.0.2.2 dev 2 table 253;"
		"add route 10.0.0.0/8 via 192.0.3.1 dev 3");
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
	assert_to(w, "10.1.2.1", "3>192.0.3.1");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.3.1 dev 3");
	assert_to(w, "10.1.2.1", "2>192.0.2.2");
	tell_all(w, "add route default via 192.0.3.9 dev 3");
	assert_to(w, "10.1.2.1", "3>192.0.3.9");
	assert_to(w, "11.0.0.1", "3>192.0.3.9");
	/* An error route of main is not the last word, as long as table default has routes. */
	tell_all(w, "add route 12.0.0.0/8 type blackhole");
	assert_to(w, "12.0.0.1", "no_route");
	tell_all(w, "del route default via 192.0.2.1 dev 2 table 253;del route 10.1.2.0/24 via 192.0.2.2 dev 2 table 253");
	assert_to(w, "12.0.0.1", "blackhole");
}

static void test_default_table_large(void **state)
{
	struct world *w = *state;
	char text[128];

	for (unsigned i = 0; i <= MIRROR_DEFAULT_MAX; i++) {
		snprintf(text, sizeof(text), "add route 30.%u.%u.0/24 via 192.0.2.1 dev 2 table 253", i >> 8, i & 255);
		tell_all(w, text);
		assert_to(w, "30.0.7.1", i < 7 || i == MIRROR_DEFAULT_MAX ? "-" : "2>192.0.2.1");
	}
	tell_all(w, "del route 30.0.9.0/24 via 192.0.2.1 dev 2 table 253");
	assert_to(w, "30.0.7.1", "2>192.0.2.1");
}

/* ---- links ---- */

static void test_link_down_single(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.1.0.0/16 via 192.0.2.1 dev 2;add route 10.1.0.0/16 via 192.0.3.1 dev 3 metric 10;"
		"add route 10.0.0.0/8 via 192.0.3.9 dev 3;add route 10.2.0.0/16 via 192.0.2.1 dev 2");
	tell_all(w, "add link 2 name eth0");
	assert_to(w, "10.1.0.1", "3>192.0.3.1");  /* the next metric */
	assert_to(w, "10.2.0.1", "3>192.0.3.9");  /* a shorter prefix */
	assert_true(w->m->want & DUMP_BIT(DUMP_ROUTE4) && w->m->want & DUMP_BIT(DUMP_ROUTE6));
	/* The kernel has removed them (fib_sync_down_dev): they are not back with the link but when told of again. */
	tell_all(w, "add link 2 name eth0 up");
	assert_to(w, "10.2.0.1", "3>192.0.3.9");
	tell_all(w, "add route 10.2.0.0/16 via 192.0.2.1 dev 2");
	assert_to(w, "10.2.0.1", "2>192.0.2.1");
}

static void test_link_down_multipath(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 weight 2 nexthop via 192.0.3.1 dev 3;"
		"add route 2001:db8::/32 metric 9 nexthop via fe80::1 dev 2 nexthop via fe80::2 dev 3");
	tell_all(w, "add link 2 name eth0");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	assert_to(w, "2001:db8::1", "3>fe80::2");
	tell_all(w, "add link 2 name eth0 up");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*2 3>192.0.3.1*1");
	assert_to(w, "2001:db8::1", "2>fe80::1*1 3>fe80::2*1");
	tell_all(w, "add link 2 name eth0;add link 3 name eth1");
	assert_to(w, "10.0.0.1", "-");
}

static void test_carrier(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.3.1 dev 3;"
		"add route 2001:db8::/32 metric 9 nexthop via fe80::1 dev 2 nexthop via fe80::2 dev 3");
	tell_all(w, "add link 2 name eth0 up nocarrier");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
	/* ignore_routes_with_linkdown: IPv4 of all or the device, IPv6 of the device. */
	tell_all(w, "add netconf 4 dev -1 ignore 1");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	assert_to(w, "2001:db8::1", "2>fe80::1*1 3>fe80::2*1");
	tell_all(w, "add netconf 4 dev -1 ignore 0;add netconf 6 dev 2 ignore 1");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
	assert_to(w, "2001:db8::1", "3>fe80::2");
	tell_all(w, "add netconf 4 dev 2 ignore 1");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	tell_all(w, "add link 2 name eth0 up");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
	assert_to(w, "2001:db8::1", "2>fe80::1*1 3>fe80::2*1");
	/* Nothing was removed in the kernel: no re-read. */
	assert_int_equal(w->m->want, 0);
}

static void test_dead_flag(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 dead nexthop via 192.0.3.1 dev 3;"
		"add route 11.0.0.0/8 via 192.0.2.7 dev 2 dead");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	assert_to(w, "11.0.0.1", "-");
	tell_all(w, "replace route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.3.1 dev 3");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
}

static void test_link_leaves(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.3.1 dev 3;"
		"add route 2001:db8::/32 metric 9 nexthop via fe80::1 dev 2 nexthop via fe80::2 dev 3;"
		"add neigh 2 192.0.2.1 mac 7;add route 11.0.0.0/8 via 192.0.2.1 dev 2");
	tell_all(w, "del link 2 name eth0");
	/* IPv4 routes go as a whole, as in the kernel. */
	assert_to(w, "10.0.0.1", "-");
	assert_to(w, "11.0.0.1", "-");
	assert_to(w, "2001:db8::1", "3>fe80::2");
	tell_all(w, "del route 2001:db8::/32 metric 9 via fe80::1 dev 2");
	assert_to(w, "2001:db8::1", "3>fe80::2");
	assert_true(w->m->want & DUMP_BIT(DUMP_ROUTE4));
	assert_null(mirror_link_by_index(w->m, 2));
	/* The number comes again as another device, which is no port. */
	tell_all(w, "add link 2 name new up;add route 12.0.0.0/8 via 192.0.2.1 dev 2");
	assert_to(w, "12.0.0.1", "other_device");
	assert_int_equal(mirror_set_port(w->m, 2, 7), 0);
	world_settle(w);
	assert_to(w, "12.0.0.1", "2>192.0.2.1");
	assert_int_equal(fib_iface(w->fib, mirror_link_by_index(w->m, 2)->iface)->port, 7);
}

static void test_rename_and_attributes(void **state)
{
	struct world *w = *state;
	const struct mirror_link *l = mirror_link_by_index(w->m, 2);
	const struct fib_iface *i = fib_iface(w->fib, l->iface);

	assert_string_equal(i->name, "eth0");
	assert_int_equal(i->mtu, 1500);
	assert_true(i->flags & FIB_IFACE_UP);
	tell_all(w, "add link 2 name wan up mtu 9000 mac 77 vrf;add netconf 4 dev -1 rp 1;add netconf 4 dev 2 rp 2 forwarding 1");
	i = fib_iface(w->fib, mirror_link_by_name(w->m, "wan")->iface);
	assert_string_equal(i->name, "wan");
	assert_int_equal(i->mtu, 9000);
	assert_int_equal(i->mac[5], 77);
	assert_true(i->flags & FIB_IFACE_VRF && i->flags & FIB_IFACE_RP_LOOSE && i->flags & FIB_IFACE_FORWARDING4);
	assert_false(i->flags & FIB_IFACE_RP_STRICT);
	assert_null(mirror_link_by_name(w->m, "eth0"));
	tell_all(w, "add netconf 4 dev 2 rp 0;add link 2 name wan up nocarrier");
	i = fib_iface(w->fib, mirror_link_by_index(w->m, 2)->iface);
	assert_true(i->flags & FIB_IFACE_RP_STRICT && !(i->flags & FIB_IFACE_UP) && !(i->flags & FIB_IFACE_VRF));
	/* What a bridge tells about its ports is not about the link. */
	tell_all(w, "del link 2 name wan family 7");
	assert_non_null(mirror_link_by_index(w->m, 2));
}

static void test_port_set(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.9.1 dev 9;add neigh 9 192.0.9.1 mac 5");
	assert_to(w, "10.0.0.1", "other_device");
	assert_int_equal(mirror_set_port(w->m, 9, 2), 0);
	assert_to(w, "10.0.0.1", "9>192.0.9.1");
	assert_true(fib_neigh(w->fib, fib_lookup4(w->fib, 0x0a000001)->paths[0].neighbour)->mac_state & FIB_NEIGH_VALID);
	mirror_clear_port(w->m, 9);
	assert_to(w, "10.0.0.1", "other_device");
	/* Before the kernel tells of the device. */
	assert_int_equal(mirror_set_port(w->m, 20, 3), 0);
	tell_all(w, "add route 11.0.0.0/8 via 192.0.9.1 dev 20");
	assert_to(w, "11.0.0.1", "other_device");
	tell_all(w, "add link 20 name late up");
	assert_to(w, "11.0.0.1", "20>192.0.9.1");
	assert_int_equal(mirror_set_port(w->m, 0, 3), -EINVAL);
	assert_int_equal(mirror_set_port(w->m, 30, FIB_PORT_MAX), -EINVAL);
}

static void test_vlan(void **state)
{
	struct world *w = *state;
	const struct mirror_link *l;

	tell_all(w, "add link 10 name eth0.5 up vlan 5 parent 2 mac 2;add route 10.0.0.0/8 via 192.0.2.1 dev 10");
	assert_to(w, "10.0.0.1", "10>192.0.2.1");
	l = mirror_link_by_index(w->m, 10);
	assert_int_equal(l->port, 0);
	assert_int_equal(fib_vlan_iface(w->fib, 0, 5, htons(0x8100)), l->iface);
	assert_string_equal(w->hooks, "+vlan 0.5/8100 mac 2\n+link eth0.5\n");
	/* Before the parent is a port; another protocol; not ours: VLAN of a foreign device, parent in another namespace. */
	w->hooks[0] = '\0';
	tell_all(w, "add link 11 name o.6 up vlan 6 parent 9 proto 0x88a8;add link 12 name x up vlan 7 parent 3 netnsid 4;"
		"add route 11.0.0.0/8 dev 11;add route 12.0.0.0/8 dev 12");
	assert_to(w, "11.0.0.1", "other_device");
	assert_to(w, "12.0.0.1", "other_device");
	mirror_set_port(w->m, 9, 4);
	assert_to(w, "11.0.0.1", "11>link");
	assert_int_equal(fib_vlan_iface(w->fib, 4, 6, htons(0x88a8)), mirror_link_by_index(w->m, 11)->iface);
	mirror_clear_port(w->m, 9);
	assert_to(w, "11.0.0.1", "other_device");
	assert_int_equal(fib_vlan_iface(w->fib, 4, 6, htons(0x88a8)), FIB_IFACE_NONE);
	assert_string_equal(w->hooks, "+link o.6\n+link x\n+vlan 4.6/88a8 mac 11\n-vlan 4.6/88a8 mac 11\n");
	w->hooks[0] = '\0';
	tell_all(w, "add link 10 name eth0.5 up vlan 5 parent 2 mac 66;del link 10 name eth0.5");
	assert_string_equal(w->hooks, "+vlan 0.5/8100 mac 66\n+link eth0.5\n-vlan 0.5/8100 mac 66\n-link eth0.5\n");
	assert_to(w, "10.0.0.1", "-");
}

/* ---- addresses ---- */

static void test_address_removal(void **state)
{
	struct world *w = *state;

	tell_all(w, "add addr 2 192.0.2.254/24;add addr 2 192.0.2.253/24;add addr 3 192.0.3.254/24;"
		"add route 10.0.0.0/8 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.3.1 dev 3;"
		"add route 11.0.0.0/8 via 192.0.3.1 dev 3 src 192.0.2.254;add route 12.0.0.0/8 via 192.0.3.1 dev 3");
	tell_all(w, "del addr 2 192.0.2.254/24");
	assert_to(w, "11.0.0.1", "-");  /* fib_sync_down_addr() */
	assert_to(w, "12.0.0.1", "3>192.0.3.1");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
	assert_int_equal(w->m->want, DUMP_BIT(DUMP_ROUTE4));
	/* The last one of the device. */
	tell_all(w, "del addr 2 192.0.2.253/24");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	tell_all(w, "add addr 2 192.0.2.1/24");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
}

/* ---- nexthop objects ---- */

static void test_nexthop(void **state)
{
	struct world *w = *state;

	/* The route may spell its hops out or not. */
	tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2;add nexthop 2 via fe80::3 dev 3;add route 10.0.0.0/8 nhid 1;"
		"add route 11.0.0.0/8 nhid 1 via 192.0.2.1 dev 2;add route 12.0.0.0/8 nhid 2;add route 2001:db8::/32 nhid 2 metric 8");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
	assert_to(w, "12.0.0.1", "3>fe80::3");
	assert_to(w, "2001:db8::1", "3>fe80::3");
	tell_all(w, "replace nexthop 1 via 192.0.3.1 dev 3");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	assert_to(w, "11.0.0.1", "3>192.0.3.1");
	tell_all(w, "replace nexthop 1 blackhole");
	assert_to(w, "10.0.0.1", "blackhole");
	tell_all(w, "replace nexthop 1 dev 2 encap");
	assert_to(w, "10.0.0.1", "encap");
	tell_all(w, "replace nexthop 1 dev 9");
	assert_to(w, "10.0.0.1", "other_device");
	tell_all(w, "replace nexthop 1 dev 2 fdb");
	assert_to(w, "10.0.0.1", "-");
	tell_all(w, "del route 12.0.0.0/8 nhid 2 via fe80::3 dev 3");
	assert_to(w, "12.0.0.1", "-");
	assert_int_equal(w->m->want, 0);
}

static void test_nexthop_group(void **state)
{
	struct world *w = *state;

	tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2;add nexthop 2 via 192.0.3.1 dev 3;add nexthop 100 group 1:1 group 2:500;"
		"add route 10.0.0.0/8 nhid 100;add route 11.0.0.0/8 via 192.0.2.1 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*500");
	tell_all(w, "replace nexthop 1 via 192.0.2.7 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.7*1 3>192.0.3.1*500");
	tell_all(w, "replace nexthop 100 group 2:3");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	tell_all(w, "replace nexthop 100 group 1:1 group 2:1 resilient");
	assert_to(w, "10.0.0.1", "rule");
	tell_all(w, "add nexthop 3 blackhole;replace nexthop 100 group 3:1");
	assert_to(w, "10.0.0.1", "blackhole");
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
}

static void test_nexthop_deleted(void **state)
{
	struct world *w = *state;

	tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2;add nexthop 2 via 192.0.3.1 dev 3;add nexthop 100 group 1:1 group 2:1;"
		"add route 10.0.0.0/8 nhid 100;add route 11.0.0.0/8 nhid 1;add route default via 192.0.3.9 dev 3");
	tell_all(w, "del nexthop 1");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	assert_to(w, "11.0.0.1", "3>192.0.3.9");
	assert_int_equal(w->m->want, DUMP_ROUTING);
	tell_all(w, "del nexthop 100;del nexthop 2");
	assert_to(w, "10.0.0.1", "3>192.0.3.9");
	/* The same number again, as something else: routes of the old one are gone in the kernel, and reading will tell. */
	tell_all(w, "add nexthop 1 via 192.0.3.5 dev 3;add route 12.0.0.0/8 nhid 1");
	assert_to(w, "12.0.0.1", "3>192.0.3.5");
}

/* nexthop_flush_dev(): without a word, when the device is down or has lost its carrier. */
static void test_nexthop_device(void **state)
{
	struct world *w = *state;

	tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2;add nexthop 2 via 192.0.3.1 dev 3;add nexthop 100 group 1:1 group 2:1;"
		"add nexthop 5 blackhole;add route 10.0.0.0/8 nhid 100;add route 11.0.0.0/8 nhid 1;add route 12.0.0.0/8 nhid 5");
	tell_all(w, "add link 2 name eth0 up nocarrier");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	assert_to(w, "11.0.0.1", "-");
	assert_to(w, "12.0.0.1", "blackhole");
	assert_int_equal(w->m->want, DUMP_ROUTING);
	tell_all(w, "add link 2 name eth0 up");
	assert_to(w, "10.0.0.1", "3>192.0.3.1");
	tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>192.0.3.1*1");
}

static void test_nexthop_unknown(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 nhid 7");
	assert_to(w, "10.0.0.1", "no_route");  /* the kernel knows more */
	tell_all(w, "add nexthop 7 group 8:1 group 9:1");
	assert_to(w, "10.0.0.1", "-");
	tell_all(w, "add nexthop 8 via 192.0.2.1 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "add nexthop 9 dev 3");
	assert_to(w, "10.0.0.1", "2>192.0.2.1*1 3>link*1");
	assert_int_equal(w->m->nexthops.count, 3);
	tell_all(w, "del route 10.0.0.0/8 nhid 7;del nexthop 7;del nexthop 8;del nexthop 9");
	assert_int_equal(w->m->nexthops.count, 0);
	assert_int_equal(w->m->sets.count, 0);
}

/* ---- neighbours ---- */

static uint64_t neigh_state(const struct world *w, uint32_t ifindex, const char *address)
{
	const struct mirror_link *l = mirror_link_by_index(w->m, ifindex);
	uint8_t addr[16], length;
	int family = message_address(address, addr, &length);
	uint32_t slot = fib_neigh_find(w->fib, l->iface, family == AF_INET ? 4 : 6, addr);

	return slot ? fib_neigh(w->fib, slot)->mac_state : 0;
}

#define MAC(n) (FIB_NEIGH_VALID | (uint64_t)(n) << 40 | 2)

static void test_neighbour_states(void **state)
{
	struct world *w = *state;
	static const struct { unsigned state; bool valid; } cases[] = { { NUD_INCOMPLETE, false }, { NUD_REACHABLE, true },
		{ NUD_STALE, true }, { NUD_DELAY, true }, { NUD_PROBE, true }, { NUD_FAILED, false }, { NUD_NOARP, true },
		{ NUD_PERMANENT, true }, { NUD_NONE, false } };
	char text[128];

	for (unsigned i = 0; i < ARRAY_LENGTH(cases); i++) {
		snprintf(text, sizeof(text), "add neigh 2 192.0.2.1 mac %u state %u", i + 1, cases[i].state);
		tell_all(w, text);
		assert_int_equal(neigh_state(w, 2, "192.0.2.1"), cases[i].valid ? MAC(i + 1) : 0);
	}
	tell_all(w, "add neigh 2 192.0.2.1 mac 9;add neigh 2 fe80::1 mac 8;add neigh 2 192.0.2.3 state 2;"
		"add neigh 2 192.0.2.4 mac 3 proxy");
	assert_int_equal(neigh_state(w, 2, "192.0.2.1"), MAC(9));
	assert_int_equal(neigh_state(w, 2, "fe80::1"), MAC(8));
	assert_int_equal(neigh_state(w, 2, "192.0.2.3"), 0);  /* no link-layer address */
	assert_int_equal(neigh_state(w, 2, "192.0.2.4"), 0);
	tell_all(w, "del neigh 2 192.0.2.1 mac 9");
	assert_int_equal(neigh_state(w, 2, "192.0.2.1"), 0);
	assert_int_equal(sizes(w->fib).neighbours, 1);
}

/* A gateway's slot is there before the kernel lists the neighbour, and after. */
static void test_neighbour_of_group(void **state)
{
	struct world *w = *state;
	uint32_t slot;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2");
	slot = fib_lookup4(w->fib, 0x0a000001)->paths[0].neighbour;
	assert_int_equal(fib_neigh(w->fib, slot)->mac_state, 0);
	tell_all(w, "add neigh 2 192.0.2.1 mac 4");
	assert_int_equal(fib_neigh(w->fib, slot)->mac_state, MAC(4));
	tell_all(w, "del neigh 2 192.0.2.1 mac 4");
	assert_int_equal(fib_neigh(w->fib, slot)->mac_state, 0);
	assert_int_equal(sizes(w->fib).neighbours, 1);
	tell_all(w, "add neigh 2 192.0.2.1 mac 5;del route 10.0.0.0/8 via 192.0.2.1 dev 2");
	assert_int_equal(neigh_state(w, 2, "192.0.2.1"), MAC(5));
	/* Of a foreign device: only remembered. */
	tell_all(w, "add neigh 9 192.0.9.1 mac 4");
	assert_int_equal(sizes(w->fib).neighbours, 1);
	assert_int_equal(w->m->neighs.count, 2);
}

static void use(struct world *w, uint32_t ifindex, const char *address, uint32_t now_s)
{
	uint8_t addr[16], length;
	int family = message_address(address, addr, &length);
	uint32_t slot = fib_neigh_find(w->fib, mirror_link_by_index(w->m, ifindex)->iface, family == AF_INET ? 4 : 6, addr);

	assert_int_not_equal(slot, FIB_NEIGH_NONE);
	fib_neigh_mark(fib_neigh(w->fib, slot), now_s);
}

static void test_refresh(void **state)
{
	struct world *w = *state;

	tell_all(w, "add neigh 2 192.0.2.1 mac 1 state 2;add neigh 2 192.0.2.2 mac 2 state 4;add neigh 2 192.0.2.3 mac 3 state 4;"
		"add neigh 2 192.0.2.4 mac 4 state 128;add neigh 3 fe80::5 mac 5 state 16;add route 10.0.0.0/8 via 192.0.3.6 dev 3");
	for (unsigned i = 1; i <= 4; i++) {
		char text[32];

		snprintf(text, sizeof(text), "192.0.2.%u", i);
		if (i != 3)
			use(w, 2, text, 1000);
	}
	use(w, 3, "fe80::5", 1000);
	use(w, 3, "192.0.3.6", 1000);
	mirror_refresh_neighbours(w->m, 1000);
	/* Reachable and stale ones in use, and the one that the kernel does not have; not the unused one (.3), the
	 * permanent one (.4) nor the one under probe. */
	assert_non_null(strstr(w->sent, "use 192.0.2.1 dev 2\n"));
	assert_non_null(strstr(w->sent, "use 192.0.2.2 dev 2\n"));
	assert_non_null(strstr(w->sent, "use 192.0.3.6 dev 3 create\n"));
	assert_int_equal(w->sends, 3);
	w->sends = 0;
	use(w, 2, "192.0.2.1", 1001);
	mirror_refresh_neighbours(w->m, 1001);
	assert_int_equal(w->sends, 1);  /* only the missing one again */
	use(w, 2, "192.0.2.1", 1005);
	w->sends = 0;
	mirror_refresh_neighbours(w->m, 1005);
	assert_int_equal(w->sends, 1);
	w->sends = 0;
	mirror_refresh_neighbours(w->m, 1020);
	assert_int_equal(w->sends, 0);  /* nobody sends by them any more */
}

/* Bounded per call, and nobody starves. */
static void test_refresh_bounded(void **state)
{
	struct world *w = *state;
	char text[128];

	for (unsigned i = 0; i < 600; i++) {
		snprintf(text, sizeof(text), "add neigh 2 10.9.%u.%u mac 1 state 4", i >> 8, i & 255);
		tell_all(w, text);
		snprintf(text, sizeof(text), "10.9.%u.%u", i >> 8, i & 255);
		use(w, 2, text, 50);
	}
	mirror_refresh_neighbours(w->m, 50);
	assert_int_equal(w->sends, 256);
	mirror_refresh_neighbours(w->m, 50);
	assert_int_equal(w->sends, 512);
	mirror_refresh_neighbours(w->m, 50);
	assert_int_equal(w->sends, 600);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { T(test_single_path), T(test_types), T(test_metric), T(test_position),
		T(test_more_than_destination), T(test_multipath), T(test_via_other_family), T(test_mtu_metric), T(test_aliases), T(test_siblings),
		T(test_no_siblings), T(test_local_table4), T(test_local_table6), T(test_local_hook), T(test_default_table),
		T(test_default_table_large), T(test_link_down_single), T(test_link_down_multipath), T(test_carrier),
		T(test_dead_flag), T(test_link_leaves), T(test_rename_and_attributes), T(test_port_set), T(test_vlan),
		T(test_address_removal), T(test_nexthop), T(test_nexthop_group), T(test_nexthop_deleted),
		T(test_nexthop_device), T(test_nexthop_unknown), T(test_neighbour_states), T(test_neighbour_of_group),
		T(test_refresh), T(test_refresh_bounded) };

	test_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
