/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror without a kernel: re-reading (dumps that meet notifications), rules, sysctls, malformed messages, bounded
 * work, and what it shows to routerctl.
 */
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- dumps ---- */

static void test_dump_reconciles(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2;add route 11.0.0.0/8 via 192.0.2.1 dev 2;"
		"add route 2001:db8::/32 dev 2 metric 1");
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "dump route 10.0.0.0/8 via 192.0.2.1 dev 2;dump route 12.0.0.0/8 via 192.0.2.9 dev 2");
	/* Nothing goes before the end, and an interrupted dump removes nothing. */
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
	assert_to(w, "12.0.0.1", "2>192.0.2.9");
	mirror_dump_end(w->m, DUMP_ROUTE4, false);
	world_settle(w);
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "dump route 10.0.0.0/8 via 192.0.2.1 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	assert_to(w, "11.0.0.1", "-");
	assert_to(w, "12.0.0.1", "-");
	assert_to(w, "2001:db8::1", "2>link");
	assert_int_equal(w->m->routes[0].count, 1);
}

/* Notifications are newer than the pieces of a dump that began before. */
static void test_dump_and_notifications(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2;add neigh 2 192.0.2.1 mac 1;add neigh 2 192.0.2.2 mac 2");
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.1 dev 2;add route 11.0.0.0/8 via 192.0.2.1 dev 2;"
		"add route 12.0.0.0/8 via 192.0.2.1 dev 2;replace route 12.0.0.0/8 via 192.0.2.2 dev 2;"
		"del route 13.0.0.0/8 via 192.0.2.1 dev 2;"
		"dump route 10.0.0.0/8 via 192.0.2.1 dev 2;dump route 12.0.0.0/8 via 192.0.2.1 dev 2;"
		"dump route 13.0.0.0/8 via 192.0.2.1 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
	assert_to(w, "10.0.0.1", "-");
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
	assert_to(w, "12.0.0.1", "2>192.0.2.2");
	assert_to(w, "13.0.0.1", "-");
	assert_int_equal(w->m->routes[0].count, 2);
	/* Deleted and back again during the dump. */
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "del route 11.0.0.0/8 via 192.0.2.1 dev 2;add route 11.0.0.0/8 via 192.0.2.1 dev 2;"
		"dump route 12.0.0.0/8 via 192.0.2.2 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
	assert_to(w, "11.0.0.1", "2>192.0.2.1");
	assert_to(w, "12.0.0.1", "2>192.0.2.2");
	mirror_dump_begin(w->m, DUMP_NEIGH);
	tell_all(w, "add neigh 2 192.0.2.1 mac 9;del neigh 2 192.0.2.2;add neigh 2 192.0.2.3 mac 3;dump neigh 2 192.0.2.1 mac 1;"
		"dump neigh 2 192.0.2.2 mac 2");
	mirror_dump_end(w->m, DUMP_NEIGH, true);
	assert_int_equal(w->m->neighs.count, 2);
	assert_int_equal(fib_neigh(w->fib, fib_lookup4(w->fib, 0x0b000001)->paths[0].neighbour)->mac_state >> 40 & 0xff, 9);
}

/* A deletion makes the kernel leave out as many of the rest, so such a dump is no reason to remove anything. */
static void test_dump_hides_what_follows_a_deletion(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 2001:db8:1::/48 dev 2;add route 2001:db8:2::/48 dev 2;add route 2001:db8:3::/48 dev 2");
	mirror_dump_begin(w->m, DUMP_ROUTE6);
	tell_all(w, "dump route 2001:db8:1::/48 dev 2;del route 2001:db8:1::/48 dev 2;dump route 2001:db8:3::/48 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE6, true);
	world_settle(w);
	assert_to(w, "2001:db8:1::1", "-");
	assert_to(w, "2001:db8:2::1", "2>link");
	assert_int_equal(w->m->want, DUMP_BIT(DUMP_ROUTE6));
	assert_int_equal(w->m->want_cause, MIRROR_CAUSE_INTERRUPTED);
	w->m->want = 0;
	/* Without one, what is not shown goes. */
	mirror_dump_begin(w->m, DUMP_ROUTE6);
	tell_all(w, "dump route 2001:db8:3::/48 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE6, true);
	world_settle(w);
	assert_to(w, "2001:db8:2::1", "-");
	assert_to(w, "2001:db8:3::1", "2>link");
	assert_int_equal(w->m->want, 0);

	tell_all(w, "add neigh 2 192.0.2.1 mac 1;add neigh 2 192.0.2.2 mac 2");
	mirror_dump_begin(w->m, DUMP_NEIGH);
	tell_all(w, "dump neigh 2 192.0.2.1 mac 1;del neigh 2 192.0.2.1");
	mirror_dump_end(w->m, DUMP_NEIGH, true);
	assert_int_equal(w->m->neighs.count, 1);
	assert_int_equal(w->m->want, DUMP_BIT(DUMP_NEIGH));
}

static uint32_t settle_after(struct world *w, const char *pieces)
{
	w->m->want = 0;
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, pieces);
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
	mirror_settle(w->m, DUMP_BIT(DUMP_ROUTE4));
	return w->m->want;
}

/* The kernel may still be removing what it does not tell of: until a re-read is no news. */
static void test_dump_until_no_news(void **state)
{
	struct world *w = *state;
	unsigned repeats = 0;

	assert_int_equal(settle_after(w, "dump route 10.0.0.0/8 dev 2;dump route 11.0.0.0/8 dev 2"), DUMP_BIT(DUMP_ROUTE4));
	assert_int_equal(settle_after(w, "dump route 10.0.0.0/8 dev 2"), DUMP_BIT(DUMP_ROUTE4));
	assert_to(w, "11.0.0.1", "-");
	assert_int_equal(settle_after(w, "dump route 10.0.0.0/8 dev 2"), 0);
	/* What is shown as dead is about to go. */
	tell_all(w, "add route 12.0.0.0/8 via 192.0.2.1 dev 2 dead");
	assert_int_equal(settle_after(w, "dump route 10.0.0.0/8 dev 2;dump route 12.0.0.0/8 via 192.0.2.1 dev 2 dead"),
		DUMP_BIT(DUMP_ROUTE4));
	/* A table that never stands still is not read for ever. */
	w->m->settle_count = 0;
	while (settle_after(w, repeats % 2 ? "dump route 10.0.0.0/8 dev 2" : "dump route 11.0.0.0/8 dev 2"))
		repeats++;
	assert_int_equal(repeats, MIRROR_SETTLE_MAX);
}

/* Among routes of one metric the dump's order is the kernel's; a dump that shows what is known changes nothing. */
static void test_dump_order(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.0/8 via 192.0.2.1 dev 2;append route 10.0.0.0/8 via 192.0.2.2 dev 2");
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "dump route 10.0.0.0/8 via 192.0.2.1 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	tell_all(w, "dump route 10.0.0.0/8 via 192.0.2.2 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "dump route 10.0.0.0/8 via 192.0.2.3 dev 2;dump route 10.0.0.0/8 via 192.0.2.2 dev 2;"
		"dump route 10.0.0.0/8 via 192.0.2.1 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
	assert_to(w, "10.0.0.1", "2>192.0.2.3");
	tell_all(w, "del route 10.0.0.0/8 via 192.0.2.3 dev 2");
	assert_to(w, "10.0.0.1", "2>192.0.2.2");
}

static void test_dump_of_everything(void **state)
{
	struct world *w = *state;

	tell_all(w, "add addr 2 192.0.2.9/24;add nexthop 1 via 192.0.2.1 dev 2;add nexthop 2 group 1:1;add nexthop 3 dev 3;"
		"add route 10.0.0.0/8 nhid 2;add rule 4 pref 100 from 10.0.0.0/8 lookup 100");
	mirror_dump_begin(w->m, DUMP_LINK);
	tell_all(w, "dump link 2 name eth0 up;dump link 3 name eth1 up");
	mirror_dump_end(w->m, DUMP_LINK, true);
	assert_null(mirror_link_by_index(w->m, 9));
	mirror_dump_begin(w->m, DUMP_ADDR);
	mirror_dump_end(w->m, DUMP_ADDR, true);
	assert_int_equal(w->m->addrs.count, 0);
	mirror_dump_begin(w->m, DUMP_NEXTHOP);
	tell_all(w, "dump nexthop 2 group 3:1;dump nexthop 3 dev 3");
	mirror_dump_end(w->m, DUMP_NEXTHOP, true);
	world_settle(w);
	assert_to(w, "10.0.0.1", "3>link");
	assert_int_equal(w->m->nexthops.count, 2);
	mirror_dump_begin(w->m, DUMP_RULE4);
	tell_all(w, "dump rule 4 pref 0 lookup 255;dump rule 4 pref 32766 lookup 254;dump rule 4 pref 32767 lookup 253");
	mirror_dump_end(w->m, DUMP_RULE4, true);
	assert_null(w->fib->rules);
	assert_int_equal(w->m->rule_count, 3);
}

/* Full replacement: only differences are told. */
static void test_dump_local_differences(void **state)
{
	struct world *w = *state;

	tell_all(w, "add route 10.0.0.1 type local table 255 dev 2;add route 10.0.0.2 type local table 255 dev 2");
	w->hooks[0] = '\0';
	mirror_dump_begin(w->m, DUMP_ROUTE4);
	tell_all(w, "dump route 10.0.0.2 type local table 255 dev 2;dump route 10.0.0.3 type local table 255 dev 2");
	mirror_dump_end(w->m, DUMP_ROUTE4, true);
	world_settle(w);
	assert_string_equal(w->hooks, "+local 10.0.0.3\n-local 10.0.0.1\n");
}

/* ---- rules ---- */

#define DEFAULTS4 "add rule 4 pref 0 lookup 255;add rule 4 pref 32766 lookup 254;add rule 4 pref 32767 lookup 253;"
#define DEFAULTS6 "add rule 6 pref 0 lookup 255;add rule 6 pref 32766 lookup 254;"

static bool ruled(const struct world *w, const char *src, const char *dst, uint32_t iif)
{
	uint8_t s[16], d[16], length;
	int family = message_address(src, s, &length);

	message_address(dst, d, &length);
	return w->fib->rules && fib_rules_match(w->fib->rules, family == AF_INET ? 4 : 6, iif, s, d, 0, 17, 1000, 53);
}

static void test_rules(void **state)
{
	struct world *w = *state;
	static const struct { const char *rule; bool from10, from11, from10_iif3, from6; } cases[] = {
		{ "rule 4 pref 100 from 10.0.0.0/8 lookup 100", true, false, true, false },
		{ "rule 4 pref 100 not from 10.0.0.0/8 lookup 100", false, true, false, false },
		{ "rule 4 pref 100 iif eth1 lookup 100", false, false, true, false },
		{ "rule 4 pref 100 iif nowhere lookup 100", false, false, false, false },
		{ "rule 4 pref 100 not iif nowhere lookup 100", true, true, true, false },
		{ "rule 4 pref 100 oif eth1 lookup 100", false, false, false, false },
		{ "rule 4 pref 100 not oif eth1 lookup 100", true, true, true, false },
		{ "rule 4 pref 100 mark 1 from 10.0.0.0/8 lookup 100", true, false, true, false },
		{ "rule 4 pref 100 not mark 1 from 10.0.0.0/8 lookup 100", true, true, true, false },
		{ "rule 4 pref 100 uid lookup 100", true, true, true, false },
		{ "rule 4 pref 100 lookup 254 suppress 0", true, true, true, false },
		{ "rule 4 pref 1000 l3mdev lookup 0", false, false, false, false },
		{ "rule 4 pref 100 ipproto 17 dport 53 lookup 100", true, true, true, false },
		{ "rule 4 pref 100 ipproto 6 dport 53 lookup 100", false, false, false, false },
		{ "rule 4 pref 100 dport 54 lookup 100", false, false, false, false },
		{ "rule 4 pref 100 dport 54 unknown lookup 100", true, true, true, false },
		{ "rule 4 pref 100 dport 54 dmask 65535 lookup 100", false, false, false, false },
		{ "rule 4 pref 100 dport 53 dmask 65535 lookup 100", true, true, true, false },
		{ "rule 4 pref 100 dport 54 dmask 65280 lookup 100", true, true, true, false },
		{ "rule 4 pref 100 dport 54 dscp 8 lookup 100", true, true, true, false },
		{ "rule 4 pref 100 action 6 from 11.0.0.0/8", false, true, false, false },
		{ "rule 4 pref 100 action 3 from 11.0.0.0/8", false, false, false, false },
		{ "rule 4 pref 40000 lookup 100", false, false, false, false },
		{ "rule 6 pref 100 lookup 100", false, false, false, true },
	};
	char text[160];

	tell_all(w, DEFAULTS4 DEFAULTS6);
	assert_null(w->fib->rules);
	for (unsigned i = 0; i < ARRAY_LENGTH(cases); i++) {
		snprintf(text, sizeof(text), "add %s", cases[i].rule);
		tell_all(w, text);
		print_message("%s\n", text);
		assert_int_equal(ruled(w, "10.0.0.1", "12.0.0.1", 2), cases[i].from10);
		assert_int_equal(ruled(w, "11.0.0.1", "12.0.0.1", 2), cases[i].from11);
		assert_int_equal(ruled(w, "10.0.0.1", "12.0.0.1", 3), cases[i].from10_iif3);
		assert_int_equal(ruled(w, "2001:db8::1", "2001:db8::2", 2), cases[i].from6);
		/* The kernel's flag for "interface does not exist" may differ by then. */
		snprintf(text, sizeof(text), "del %s detached", cases[i].rule);
		tell_all(w, text);
		assert_null(w->fib->rules);
	}
}

/* Two rules that say the same have one record. */
static void test_rule_twins(void **state)
{
	struct world *w = *state;

	tell_all(w, DEFAULTS4 "add rule 4 pref 100 from 10.0.0.0/8 lookup 100;add rule 4 pref 100 from 10.0.0.0/8 lookup 100");
	assert_int_equal(w->m->want, 0);
	tell_all(w, "del rule 4 pref 100 from 10.0.0.0/8 lookup 100");
	assert_int_equal(w->m->want, DUMP_BIT(DUMP_RULE4));
	mirror_dump_begin(w->m, DUMP_RULE4);
	tell_all(w, "dump rule 4 pref 0 lookup 255;dump rule 4 pref 100 from 10.0.0.0/8 lookup 100;"
		"dump rule 4 pref 32766 lookup 254;dump rule 4 pref 32767 lookup 253");
	mirror_dump_end(w->m, DUMP_RULE4, true);
	assert_true(ruled(w, "10.0.0.1", "12.0.0.1", 2));
}

static void test_default_rules_missing(void **state)
{
	struct world *w = *state;

	/* Nobody knows before the rules have been read. */
	assert_null(w->fib->rules);
	mirror_dump_begin(w->m, DUMP_RULE4);
	tell_all(w, "dump rule 4 pref 0 lookup 255;dump rule 4 pref 32767 lookup 253");
	mirror_dump_end(w->m, DUMP_RULE4, true);
	assert_true(ruled(w, "10.0.0.1", "10.0.0.2", 2));
	assert_false(ruled(w, "2001:db8::1", "2001:db8::2", 2));
	tell_all(w, "add rule 4 pref 32766 lookup 254");
	assert_null(w->fib->rules);
	/* The one for table default is missed only while that has routes. */
	tell_all(w, "del rule 4 pref 32767 lookup 253");
	assert_null(w->fib->rules);
	tell_all(w, "add route 10.0.0.0/8 dev 2 table 253");
	assert_true(ruled(w, "10.0.0.1", "10.0.0.2", 2));
	tell_all(w, "add rule 4 pref 32767 lookup 253");
	assert_null(w->fib->rules);
	tell_all(w, "add rule 4 pref 32766 to 10.0.0.0/8 lookup 77");
	assert_true(ruled(w, "10.0.0.1", "10.0.0.2", 2));
	tell_all(w, "del route 10.0.0.0/8 dev 2 table 253");
	assert_null(w->fib->rules);
	/* Local moved behind main. */
	tell_all(w, "del rule 4 pref 0 lookup 255;add rule 4 pref 32770 lookup 255");
	assert_true(ruled(w, "10.0.0.1", "10.0.0.2", 2));
}

static void test_rule_interface(void **state)
{
	struct world *w = *state;

	tell_all(w, DEFAULTS4 "add rule 4 pref 5 iif lan lookup 100");
	assert_null(w->fib->rules);
	tell_all(w, "add link 3 name lan up");
	assert_true(ruled(w, "10.0.0.1", "10.0.0.2", 3));
	assert_false(ruled(w, "10.0.0.1", "10.0.0.2", 2));
	tell_all(w, "del link 3 name lan");
	assert_null(w->fib->rules);
	tell_all(w, "add link 30 name lan up");
	assert_true(ruled(w, "10.0.0.1", "10.0.0.2", 30));
}

static void collect_text(void *ctx, uint8_t family, const char *text)
{
	struct world *w = ctx;

	world_say(w->hooks, sizeof(w->hooks), "v%u %s\n", family, text);
}

static void test_rule_text(void **state)
{
	struct world *w = *state;

	tell_all(w, DEFAULTS4 DEFAULTS6 "add rule 4 pref 100 not from 10.0.0.0/8 to 11.0.0.0/8 iif eth1 mark 5 tos 16 "
		"ipproto 17 dport 53 lookup 1000;add rule 6 pref 7 from 2001:db8::/32 action 6;add rule 4 pref 200 lookup 254 suppress 0");
	w->hooks[0] = '\0';
	mirror_kernel_rule_foreach(w->m, collect_text, w);
	assert_string_equal(w->hooks, "v4 100: not from 10.0.0.0/8 to 11.0.0.0/8 tos 0x10 fwmark 0x5/0xffffffff iif eth1 ipproto 17 "
		"dport 53-53 lookup 1000\nv4 200: from all lookup 254 suppress_prefixlength 0\n"
		"v6 7: from 2001:db8::/32 blackhole\n");
}

/* ---- sysctls ---- */

static char sysctl_dir[] = "/tmp/mirror-sysctl-XXXXXX";

static void put_file(const char *path, const char *text)
{
	char full[300], *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", sysctl_dir, path);
	for (slash = strchr(full + 6, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_sysctls(void **state)
{
	struct world *w = *state;
	const struct fib_iface *i;

	assert_non_null(mkdtemp(sysctl_dir));
	put_file("ipv4/fib_multipath_hash_policy", "1\n");
	put_file("ipv6/fib_multipath_hash_policy", "2\n");
	put_file("ipv4/conf/all/send_redirects", "0\n");
	put_file("ipv4/conf/eth0/send_redirects", "1\n");
	put_file("ipv4/conf/eth1/send_redirects", "0\n");
	put_file("ipv4/conf/all/rp_filter", "1\n");
	put_file("ipv4/conf/eth1/rp_filter", "2\n");
	put_file("ipv6/conf/eth0/mtu", "1300\n");
	w->m->sysctl_root = sysctl_dir;
	mirror_refresh_neighbours(w->m, 100);
	assert_int_equal(fib_settings(w->fib)->hash_policy4, 1);
	assert_int_equal(fib_settings(w->fib)->hash_policy6, 2);
	assert_int_equal(fib_settings(w->fib)->hash_seed, 0x5eed);
	i = fib_iface(w->fib, mirror_link_by_index(w->m, 2)->iface);
	assert_int_equal(i->flags & (FIB_IFACE_SEND_REDIRECTS | FIB_IFACE_RP_STRICT | FIB_IFACE_RP_LOOSE),
		FIB_IFACE_SEND_REDIRECTS | FIB_IFACE_RP_STRICT);
	assert_int_equal(i->mtu6, 1300);
	i = fib_iface(w->fib, mirror_link_by_index(w->m, 3)->iface);
	assert_int_equal(i->flags & (FIB_IFACE_SEND_REDIRECTS | FIB_IFACE_RP_STRICT | FIB_IFACE_RP_LOOSE), FIB_IFACE_RP_LOOSE);
	/* Read every few seconds; an unreadable file keeps what was known. */
	put_file("ipv4/fib_multipath_hash_policy", "0\n");
	mirror_refresh_neighbours(w->m, 101);
	assert_int_equal(fib_settings(w->fib)->hash_policy4, 1);
	mirror_refresh_neighbours(w->m, 104);
	assert_int_equal(fib_settings(w->fib)->hash_policy4, 0);
	/* A new interface is read at once. */
	put_file("ipv4/conf/other/rp_filter", "2\n");
	mirror_set_port(w->m, 9, 5);
	assert_true(fib_iface(w->fib, mirror_link_by_index(w->m, 9)->iface)->flags & FIB_IFACE_RP_LOOSE);
}

/* ---- malformed ---- */

/* Every message cut at every length, and with every byte of the attributes' lengths spoiled: counted, never believed
 * in part. The sanitizer build looks at the reads. */
static void test_malformed(void **state)
{
	struct world *w = *state;
	static const char *const texts[] = { "add link 50 name x up vlan 5 parent 2", "add addr 2 192.0.2.7/24",
		"add route 50.0.0.0/8 metric 3 mtu 1400 nexthop via 192.0.2.1 dev 2 nexthop via fe80::1 dev 3",
		"add nexthop 70 group 1:1 group 2:2", "add neigh 2 192.0.2.77 mac 5",
		"add rule 4 pref 100 from 10.0.0.0/8 iif eth0 ipproto 17 dport 53 lookup 100", "add netconf 4 dev 2 rp 1" };
	char *buffer = malloc(MESSAGE_MAX);
	struct mirror_stats before, after;

	mirror_get_stats(w->m, &before);
	for (unsigned t = 0; t < ARRAY_LENGTH(texts); t++) {
		struct nlmsghdr *nlh = message(buffer, texts[t]);
		uint32_t full = nlh->nlmsg_len;

		for (uint32_t n = 0; n < full; n++) {
			struct nlmsghdr *copy = malloc(n < sizeof(*copy) ? sizeof(*copy) : n);

			memcpy(copy, nlh, n < sizeof(*copy) ? sizeof(*copy) : n);
			copy->nlmsg_len = n;
			mirror_handle_message(w->m, copy);
			free(copy);
		}
		for (uint32_t at = NLMSG_HDRLEN; at < full; at++) {
			struct nlmsghdr *copy = malloc(full);

			memcpy(copy, nlh, full);
			((uint8_t *)copy)[at] = 0xff;
			mirror_handle_message(w->m, copy);
			free(copy);
		}
	}
	world_settle(w);
	mirror_get_stats(w->m, &after);
	assert_true(after.malformed > before.malformed + 100);
	free(buffer);
}

/* ---- bounded work ---- */

static void test_work_is_bounded(void **state)
{
	struct world *w = *state;
	unsigned routes = small ? 5000 : 50000, calls = 0;
	char text[128];

	tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2");
	for (unsigned i = 0; i < routes; i++) {
		snprintf(text, sizeof(text), "add route 50.%u.%u.0/24 nhid 1", i >> 8, i & 255);
		tell(w, text);
	}
	assert_int_equal(sizes(w->fib).groups, 1);
	tell(w, "replace nexthop 1 via 192.0.3.1 dev 3");
	/* Some have moved, the rest follows in pieces, and the old group lives as long as a prefix names it. */
	assert_int_equal(sizes(w->fib).groups, 2);
	while (mirror_work(w->m, 1000))
		calls++;
	assert_in_range(calls, (routes - MIRROR_INLINE_WORK) / 1000 - 1, routes / 1000 + 1);
	assert_int_equal(sizes(w->fib).groups, 1);
	assert_to(w, "50.0.0.1", "3>192.0.3.1");
	snprintf(text, sizeof(text), "50.%u.%u.1", (routes - 1) >> 8, (routes - 1) & 255);
	assert_to(w, text, "3>192.0.3.1");
	/* Changes while a walk is under way. */
	tell(w, "replace nexthop 1 via 192.0.3.2 dev 3");
	tell(w, "replace nexthop 1 via 192.0.3.3 dev 3");
	tell(w, "replace nexthop 1 via 192.0.3.2 dev 3");
	for (unsigned i = 0; i < routes; i += 2) {
		snprintf(text, sizeof(text), "del route 50.%u.%u.0/24 nhid 1", i >> 8, i & 255);
		tell(w, text);
	}
	world_settle(w);
	assert_int_equal(sizes(w->fib).groups, 1);
	assert_int_equal(sizes(w->fib).routes4, routes / 2);
	assert_to(w, "50.0.1.1", "3>192.0.3.2");
}

/* The FIB's memory fails at each allocation in turn: nothing breaks, and a second later all is as it should be. */
static void test_memory_short(void **state)
{
	unsigned failures = 0;

	(void)state;
	for (long at = 0; at < 400; at++) {
		struct world *w = world_new();

		tell_devices(w);
		w->heap.fail_after = at;
		tell_all(w, "add nexthop 1 via 192.0.2.1 dev 2;add nexthop 2 via fe80::2 dev 3;add nexthop 10 group 1:1 group 2:1;"
			"add route 10.0.0.0/8 nhid 10;add route 10.1.0.0/16 via 192.0.2.1 dev 2;add route 10.1.2.0/25 type blackhole;"
			"add route 2001:db8::/32 via fe80::1 dev 2;add route 2001:db8::/48 dev 3;add neigh 2 192.0.2.1 mac 5;"
			"add link 10 name v up vlan 5 parent 2;add route 2001:db8:9::/48 type local table 255 dev 1;" DEFAULTS4
			"add rule 4 pref 10 from 10.0.0.0/8 lookup 100;replace nexthop 1 via 192.0.2.9 dev 2;"
			"replace route 10.1.0.0/16 via 192.0.3.1 dev 3;del route 2001:db8::/48 dev 3;add link 2 name eth0;"
			"add link 2 name eth0 up;add nexthop 1 via 192.0.2.8 dev 2;add route 11.0.0.0/8 dev 10");
		w->heap.fail_after = -1;
		failures += w->heap.failed;
		heap_period(&w->heap);
		mirror_refresh_neighbours(w->m, 5);
		world_settle(w);
		/* What the kernel would tell again. */
		tell_all(w, "add neigh 2 192.0.2.1 mac 5");
		assert_to(w, "10.0.0.1", "2>192.0.2.8*1 3>fe80::2*1");
		assert_to(w, "10.1.0.1", "3>192.0.3.1");
		assert_to(w, "10.1.2.1", "blackhole");
		assert_to(w, "11.0.0.1", "10>link");
		assert_to(w, "2001:db8::1", "-");
		assert_to(w, "2001:db8:9::1", "local");
		assert_int_equal(w->fib->rules->count, 1);
		assert_false(w->m->keep_groups);
		mirror_free(w->m);
		fib_free(w->fib);
		check_empty(&w->heap);
		free(w);
	}
	assert_in_range(failures, 20, 400);
}

/* ---- views ---- */

struct listing {
	unsigned count, best;
	char text[2048];
};

static void list_route(void *ctx, const struct mirror_route *r)
{
	struct listing *l = ctx;

	l->count++;
	l->best += r->best;
	if (l->count <= 8)
		world_say(l->text, sizeof(l->text), "%u.%u/%u m%u %s%s dev %s w%u;", r->dst[0], r->dst[1], r->plen, r->metric,
			r->best ? "*" : "", r->best ? verdict_info[r->verdict].label : "", r->path_count ? r->paths[0].device : "-",
			r->path_count ? r->paths[r->path_count - 1].weight : 0);
}

static void test_route_pages(void **state)
{
	struct world *w = *state;
	struct listing l = { 0 };
	uint64_t cursor = 0;
	unsigned pages = 0, added = 0;
	char text[128];

	tell_all(w, "add route 10.0.0.0/8 metric 5 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.3.1 dev 3 weight 7;"
		"add route 10.0.0.0/8 dev 3 metric 6");
	assert_false(mirror_route_foreach(w->m, 4, &cursor, 1000, list_route, &l));
	assert_string_equal(l.text, "10.0/8 m5 *forwarded dev eth0 w7;10.0/8 m6  dev eth1 w1;");
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(text, sizeof(text), "add route 50.%u.%u.0/24 dev 2", i >> 8, i & 255);
		tell(w, text);
	}
	memset(&l, 0, sizeof(l));
	/* The table grows between pages: what was there before is shown all the same. */
	while (mirror_route_foreach(w->m, 4, &cursor, 100, list_route, &l)) {
		pages++;
		for (unsigned i = 0; pages < 20 && i < 200; i++, added++) {
			snprintf(text, sizeof(text), "add route 60.%u.%u.0/24 dev 2", added >> 8, added & 255);
			tell(w, text);
		}
	}
	assert_true(pages > 10 && l.count >= 3002 && l.best >= 3001);
}

static void test_lookup(void **state)
{
	struct world *w = *state;
	struct mirror_query q = { .family = 4, .dst = { 10, 1, 2, 3 }, .src = { 11, 0, 0, 1 }, .iif = 3, .hash = 0x7fffffff };
	struct mirror_answer a;

	tell_all(w, DEFAULTS4 "add route 10.0.0.0/8 metric 5 mtu 1400 nexthop via 192.0.2.1 dev 2 nexthop via 192.0.3.1 dev 3;"
		"add neigh 3 192.0.3.1 mac 6");
	mirror_route_lookup(w->m, &q, &a);
	assert_int_equal(a.verdict, VERDICT_FORWARD);
	assert_true(a.matched && a.route.plen == 8 && a.route.metric == 5 && a.route.table == RT_TABLE_MAIN);
	assert_int_equal(a.ifindex, 3);
	assert_string_equal(a.device, "eth1");
	assert_int_equal(a.gateway[2], 3);
	assert_int_equal(a.mtu, 1400);
	assert_true(a.neighbour_valid && a.neighbour_mac[5] == 6);
	q.hash = 0;
	mirror_route_lookup(w->m, &q, &a);
	assert_true(a.ifindex == 2 && !a.neighbour_valid);
	tell_all(w, "add rule 4 pref 9 from 11.0.0.0/8 lookup 100");
	mirror_route_lookup(w->m, &q, &a);
	assert_true(a.by_rule && a.verdict == VERDICT_KERNEL_RULE && a.matched);
	q.dst[0] = 12;
	q.src[0] = 12;
	mirror_route_lookup(w->m, &q, &a);
	assert_true(!a.matched && a.verdict == VERDICT_KERNEL_NO_ROUTE);
}

static void test_stats(void **state)
{
	struct world *w = *state;
	struct mirror_stats s;

	tell_all(w, "add addr 2 192.0.2.1/24;add route 10.0.0.0/8 dev 2;add route 10.0.0.1 type local table 255 dev 2;"
		"add route default dev 3 table 253;add route 2001:db8::/32 dev 2;add nexthop 4 dev 2;add neigh 2 192.0.2.2 mac 1;"
		"add route 10.0.0.0/8 dev 2 table 77;" DEFAULTS4);
	mirror_get_stats(w->m, &s);
	assert_true(s.links == 3 && s.addresses == 1 && s.nexthops == 1 && s.neighbours == 1 && s.rules == 3);
	assert_true(s.routes4[MIRROR_LOCAL] == 1 && s.routes4[MIRROR_MAIN] == 1 && s.routes4[MIRROR_DEFAULT] == 1);
	assert_true(s.routes6[MIRROR_MAIN] == 1 && s.routes6[MIRROR_LOCAL] == 0);
	assert_true(s.skipped == 1 && s.malformed == 0 && s.messages == 14 && s.kernel_rules == 0 && !s.pending);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { T(test_dump_reconciles), T(test_dump_and_notifications), T(test_dump_order), T(test_dump_hides_what_follows_a_deletion),
		T(test_dump_until_no_news), T(test_rule_twins),
		T(test_dump_of_everything), T(test_dump_local_differences), T(test_rules), T(test_default_rules_missing),
		T(test_rule_interface), T(test_rule_text), T(test_sysctls), T(test_malformed), T(test_work_is_bounded), cmocka_unit_test(test_memory_short),
		T(test_route_pages), T(test_lookup), T(test_stats) };

	test_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
