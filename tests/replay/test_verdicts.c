/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Every verdict of the table, provoked, with exact counts and, where the kernel gets the packet, the exact bytes. The
 * last test fails if a verdict was added and no test here provokes it.
 */
#include "replay/check.h"

#include <errno.h>
#include <string.h>

static const uint8_t host1[6] = { 2, 0, 0, 0, 1, 1 };

static void test_forward(void **state)
{
	struct replay *r = replay_new(NULL);

	expect_forwarded(r, &(struct build){ 0 }, 2, host1);
	replay_finish(r);
}

/* F1, F2: frames that end too early, at every length. */
static void test_short(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];

	build(&(struct build){ .payload = 40 }, bytes);
	for (uint32_t n = 0; n < 34; n++)
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_SHORT);
	build(&(struct build){ .dst = "2001:db8:1::2", .payload = 40 }, bytes);
	for (uint32_t n = 14; n < 54; n++)
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_SHORT);
	/* Options that go beyond the frame. */
	build(&(struct build){ .ihl = 15, .payload = 40 }, bytes);
	for (uint32_t n = 34; n < 74; n++)
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_SHORT);
	replay_finish(r);
}

static void test_version(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];
	uint32_t n = build(&(struct build){ .payload = 90 }, bytes);

	for (unsigned first = 0; first < 256; first++) {
		if (first >> 4 == 4 && (first & 15) >= 5)
			continue;
		bytes[14] = (uint8_t)first;
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_VERSION);
	}
	n = build(&(struct build){ .dst = "2001:db8:1::2" }, bytes);
	for (unsigned first = 0; first < 256; first++) {
		if (first >> 4 == 6)
			continue;
		bytes[14] = (uint8_t)first;
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_VERSION);
	}
	replay_finish(r);
}

static void test_checksum(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];
	uint32_t n;

	/* Every single bit of the header counts; the first byte has verdicts of its own. */
	for (unsigned bit = 8; bit < 160; bit++) {
		n = build(&(struct build){ 0 }, bytes);
		bytes[14 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_CHECKSUM);
	}
	n = build(&(struct build){ .ihl = 6 }, bytes);
	bytes[36] ^= 1;
	expect_bytes(r, 0, bytes, n, VERDICT_DROP_CHECKSUM);
	replay_finish(r);
}

static void test_length(void **state)
{
	static const uint32_t totals[] = { 0, 1, 19, 47, 65535 };
	struct replay *r = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];
	uint32_t n;

	for (unsigned i = 0; i < ARRAY_LENGTH(totals); i++) {
		n = build(&(struct build){ .l3_length = 46 }, bytes);
		store_be16(bytes + 16, (uint16_t)totals[i]);
		build_checksum4(bytes + 14);
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_LENGTH);
	}
	/* Shorter than a header with options. */
	n = build(&(struct build){ .ihl = 7, .payload = 10 }, bytes);
	store_be16(bytes + 16, 27);
	build_checksum4(bytes + 14);
	expect_bytes(r, 0, bytes, n, VERDICT_DROP_LENGTH);
	n = build(&(struct build){ .dst = "2001:db8:1::2", .payload = 10 }, bytes);
	store_be16(bytes + 18, 19);
	expect_bytes(r, 0, bytes, n, VERDICT_DROP_LENGTH);
	store_be16(bytes + 18, 65535);
	expect_bytes(r, 0, bytes, n, VERDICT_DROP_LENGTH);
	replay_finish(r);
}

/* F2, F4, F7. The last one shows that a DHCP client's broadcast is no martian. */
static void test_martians(void **state)
{
	static const struct { const char *src, *dst; enum verdict v; } cases[] = {
		{ "224.0.0.1", "10.0.1.2", VERDICT_DROP_MARTIAN_SOURCE },
		{ "239.255.255.255", "10.0.1.2", VERDICT_DROP_MARTIAN_SOURCE },
		{ "255.255.255.255", "10.0.1.2", VERDICT_DROP_MARTIAN_SOURCE },
		{ "255.255.255.255", "255.255.255.255", VERDICT_DROP_MARTIAN_SOURCE },
		{ "0.0.0.0", "10.0.1.2", VERDICT_DROP_MARTIAN_SOURCE },
		{ "10.0.0.2", "0.0.0.0", VERDICT_DROP_MARTIAN_DESTINATION },
		{ "ff02::1", "2001:db8:1::2", VERDICT_DROP_MARTIAN_SOURCE },
		{ "::1", "2001:db8:1::2", VERDICT_DROP_MARTIAN_SOURCE },
		{ "2001:db8::2", "::1", VERDICT_DROP_MARTIAN_DESTINATION },
		{ "2001:db8::2", "ff00::1", VERDICT_DROP_MARTIAN_DESTINATION },
		{ "2001:db8::2", "ff01::1", VERDICT_DROP_MARTIAN_DESTINATION },
		{ "2001:db8::2", "ff31::1", VERDICT_DROP_MARTIAN_DESTINATION },
		{ "127.0.0.1", "10.0.1.2", VERDICT_KERNEL_SCOPE },
		{ "10.0.0.2", "127.255.255.255", VERDICT_KERNEL_SCOPE },
		{ "::", "2001:db8:1::2", VERDICT_KERNEL_SCOPE },
		{ "fe80::1", "2001:db8:1::2", VERDICT_KERNEL_SCOPE },
		{ "febf::1", "2001:db8:1::2", VERDICT_KERNEL_SCOPE },
		{ "2001:db8::2", "fe80::1", VERDICT_KERNEL_SCOPE },
		{ "10.0.0.2", "224.0.0.5", VERDICT_KERNEL_LOCAL },
		{ "10.0.0.2", "255.255.255.255", VERDICT_KERNEL_LOCAL },
		{ "2001:db8::2", "ff02::1", VERDICT_KERNEL_LOCAL },
		{ "0.0.0.0", "0.0.0.0", VERDICT_KERNEL_LOCAL },
		{ "0.0.0.0", "255.255.255.255", VERDICT_KERNEL_LOCAL },
	};
	struct replay *r = replay_new(NULL);
	const struct replay_path path4 = { .iface = 2, .gateway = "10.0.1.2" };
	const struct replay_path path6 = { .iface = 2, .gateway = "2001:db8:1::2" };

	/* Routes for all: it is not for want of a route. */
	replay_route(r, "0.0.0.0/0", 0, &path4, 1);
	replay_route(r, "::/0", 0, &path6, 1);
	for (unsigned i = 0; i < ARRAY_LENGTH(cases); i++)
		expect_verdict(r, &(struct build){ .src = cases[i].src, .dst = cases[i].dst }, cases[i].v);
	replay_finish(r);
}

static void test_route_verdicts(void **state)
{
	static const enum verdict verdicts[] = { VERDICT_KERNEL_LOCAL, VERDICT_KERNEL_UNREACHABLE,
		VERDICT_KERNEL_PROHIBIT, VERDICT_KERNEL_OTHER_DEVICE, VERDICT_KERNEL_ENCAP, VERDICT_KERNEL_RULE,
		VERDICT_DROP_BLACKHOLE };
	struct replay *r = replay_new(NULL);

	for (unsigned i = 0; i < ARRAY_LENGTH(verdicts); i++) {
		replay_route_verdict(r, "10.5.0.0/16", verdicts[i]);
		replay_route_verdict(r, "2001:db8:5::/48", verdicts[i]);
		expect_verdict(r, &(struct build){ .dst = "10.5.6.7" }, verdicts[i]);
		expect_verdict(r, &(struct build){ .dst = "2001:db8:5::1" }, verdicts[i]);
	}
	expect_verdict(r, &(struct build){ .dst = "10.200.0.1" }, VERDICT_KERNEL_NO_ROUTE);
	expect_verdict(r, &(struct build){ .dst = "2001:db9::1" }, VERDICT_KERNEL_NO_ROUTE);
	expect_verdict(r, &(struct build){ .dst = "10.0.0.1" }, VERDICT_KERNEL_LOCAL);
	/* All paths dead. */
	replay_route(r, "10.5.0.0/16", 0, &(const struct replay_path){ .iface = 2, .dead = true }, 1);
	expect_verdict(r, &(struct build){ .dst = "10.5.6.7" }, VERDICT_KERNEL_UNREACHABLE);
	replay_finish(r);
}

static void test_rules(void **state)
{
	struct replay *r = replay_new(NULL);
	struct fib_rule rule = { .priority = 100, .iif = 100, .flags = FIB_RULE_FAMILY4, .protocol = 17,
		.dport_min = 53, .dport_max = 53, .src_len = 24, .src = { 10, 0, 0, 0 } };
	static uint8_t bytes[BUILD_MAX];

	assert_int_equal(fib_rules_set(r->fib, &rule, 1), 0);
	expect_verdict(r, &(struct build){ .dport = 53 }, VERDICT_KERNEL_RULE);
	/* Every selector by itself keeps the packet here. */
	expect_forwarded(r, &(struct build){ .dport = 54 }, 2, host1);
	expect_forwarded(r, &(struct build){ .dport = 53, .protocol = 6, .payload = 20 }, 2, host1);
	expect_forwarded(r, &(struct build){ .dport = 53, .src = "10.0.9.2" }, 2, host1);
	expect_forwarded(r, &(struct build){ .dport = 53, .dst = "2001:db8:1::2" }, 2, host1);
	/* Ports of a fragment, and those behind the end of the packet, are none (M4). */
	expect_forwarded(r, &(struct build){ .dport = 53, .fragment = 0x2000, .payload = 40 }, 2, host1);
	build(&(struct build){ .l3_length = 22, .padding = 24 }, bytes);
	store_be16(bytes + 36, 53);
	expect_bytes(r, 0, bytes, 60, VERDICT_FORWARD);
	rule.iif = 101;
	assert_int_equal(fib_rules_set(r->fib, &rule, 1), 0);
	expect_forwarded(r, &(struct build){ .dport = 53 }, 2, host1);
	rule = (struct fib_rule){ .flags = FIB_RULE_FAMILY6, .dst_len = 48, .dst = { 0x20, 1, 0xd, 0xb8, 0, 1 } };
	assert_int_equal(fib_rules_set(r->fib, &rule, 1), 0);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:1::2" }, VERDICT_KERNEL_RULE);
	expect_forwarded(r, &(struct build){ 0 }, 2, host1);
	assert_int_equal(fib_rules_set(r->fib, NULL, 0), 0);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2" }, 2, host1);
	replay_finish(r);
}

static void test_local6(void **state)
{
	static const uint8_t addr[1][16] = { { 0x20, 1, 0xd, 0xb8, 0, 1, 0, 0 } };
	static const uint8_t plen[1] = { 127 };
	struct replay *r = replay_new(NULL);

	/* The local table's prefix wins over any route in main, and over longer ones. */
	assert_int_equal(fib_local6_set(r->fib, addr, plen, 1), 0);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:1::" }, VERDICT_KERNEL_LOCAL);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:1::1" }, VERDICT_KERNEL_LOCAL);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2" }, 2, host1);
	replay_finish(r);
}

static void set_flags(struct replay *r, uint16_t number, uint16_t on, uint16_t off)
{
	struct fib_iface i;

	replay_iface(r, number, &i);
	i.flags = (uint16_t)((i.flags | on) & ~off);
	replay_set_iface(r, &i);
}

/* F6. */
static void test_rp_filter(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });
	const struct replay_path paths[] = { { .iface = 2, .gateway = "10.0.1.2" }, { .iface = 1, .gateway = "10.0.0.2" } };
	const struct build known = { 0 }, elsewhere = { .src = "10.0.2.2" }, nowhere = { .src = "99.0.0.1" },
		other = { .src = "10.8.0.1" }, several = { .src = "10.9.0.1" }, dead_end = { .src = "10.10.0.1" };

	replay_route_verdict(r, "10.8.0.0/16", VERDICT_KERNEL_OTHER_DEVICE);
	replay_route(r, "10.9.0.0/16", 0, paths, 2);
	replay_route_verdict(r, "10.10.0.0/16", VERDICT_DROP_BLACKHOLE);
	expect_forwarded(r, &nowhere, 2, host1);
	set_flags(r, 1, FIB_IFACE_RP_STRICT, 0);
	expect_forwarded(r, &known, 2, host1);
	expect_forwarded(r, &several, 2, host1);
	expect_verdict(r, &elsewhere, VERDICT_KERNEL_RP_FILTER);
	expect_verdict(r, &nowhere, VERDICT_KERNEL_RP_FILTER);
	expect_verdict(r, &other, VERDICT_KERNEL_RP_FILTER);
	expect_verdict(r, &(struct build){ .src = "10.0.0.1" }, VERDICT_KERNEL_RP_FILTER);  /* our own address */
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .src = "2001:db8:dead::1" }, 2, host1);
	set_flags(r, 1, FIB_IFACE_RP_LOOSE, FIB_IFACE_RP_STRICT);
	expect_forwarded(r, &known, 2, host1);
	expect_forwarded(r, &elsewhere, 2, host1);
	expect_forwarded(r, &other, 2, host1);
	expect_verdict(r, &nowhere, VERDICT_KERNEL_RP_FILTER);
	expect_verdict(r, &dead_end, VERDICT_KERNEL_RP_FILTER);
	replay_finish(r);
}

/* A rule that would look at the reverse look-up makes its answer doubtful. */
static void test_rp_filter_rules(void **state)
{
	struct replay *r = replay_new(NULL);
	const struct fib_rule rule = { .flags = FIB_RULE_FAMILY4, .dst_len = 32, .dst = { 10, 0, 0, 2 } };

	assert_int_equal(fib_rules_set(r->fib, &rule, 1), 0);
	expect_forwarded(r, &(struct build){ 0 }, 2, host1);
	set_flags(r, 1, FIB_IFACE_RP_STRICT, 0);
	expect_verdict(r, &(struct build){ 0 }, VERDICT_KERNEL_RULE);
	replay_finish(r);
}

static void test_redirect(void **state)
{
	const uint8_t host0[6] = { 2, 0, 0, 0, 1, 0 };
	struct replay *r = replay_new(NULL);

	/* F20: IPv4 only where redirects are sent; IPv6 always. */
	expect_forwarded(r, &(struct build){ .src = "10.0.0.9", .dst = "10.0.0.2" }, 1, host0);
	expect_verdict(r, &(struct build){ .dst = "2001:db8::2" }, VERDICT_KERNEL_REDIRECT);
	set_flags(r, 1, FIB_IFACE_SEND_REDIRECTS, 0);
	expect_verdict(r, &(struct build){ .src = "10.0.0.9", .dst = "10.0.0.2" }, VERDICT_KERNEL_REDIRECT);
	set_flags(r, 2, FIB_IFACE_SEND_REDIRECTS, 0);
	expect_forwarded(r, &(struct build){ 0 }, 2, host1);
	replay_finish(r);
}

/* F21: unknown, known and not resolved, resolved, lost again; on link and gateway. */
static void test_neighbour(void **state)
{
	static const char *const dst[] = { "10.0.1.77", "2001:db8:1::77", "10.77.0.1", "2001:db8:77::1" };
	static const char *const hop[] = { "10.0.1.77", "2001:db8:1::77", "10.0.1.78", "fe80::78" };
	struct replay *r = replay_new(NULL);
	const uint8_t mac[6] = { 2, 0, 0, 0, 1, 7 };

	replay_route(r, "10.77.0.0/16", 0, &(const struct replay_path){ .iface = 2, .gateway = hop[2] }, 1);
	replay_route(r, "2001:db8:77::/48", 0, &(const struct replay_path){ .iface = 2, .gateway = hop[3] }, 1);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t slot;

		expect_verdict(r, &(struct build){ .dst = dst[i] }, VERDICT_KERNEL_NEIGHBOUR);
		slot = replay_neigh(r, 2, hop[i], 0xff, 0);
		expect_verdict(r, &(struct build){ .dst = dst[i] }, VERDICT_KERNEL_NEIGHBOUR);
		assert_int_equal(fib_neigh(r->fib, slot)->used, 0);
		fib_neigh_set_mac(r->fib, slot, mac, true);
		expect_forwarded(r, &(struct build){ .dst = dst[i] }, 2, mac);
		fib_neigh_set_mac(r->fib, slot, mac, false);
		expect_verdict(r, &(struct build){ .dst = dst[i] }, VERDICT_KERNEL_NEIGHBOUR);
		fib_neigh_set_mac(r->fib, slot, mac, true);
		expect_forwarded(r, &(struct build){ .dst = dst[i] }, 2, mac);
		fib_neigh_put(r->fib, slot);
	}
	replay_finish(r);
}

/* The last put frees a slot: the neighbour is unknown again. */
static void test_neighbour_deleted(void **state)
{
	struct replay *r = replay_new(NULL);
	const uint8_t mac[6] = { 2, 0, 0, 0, 1, 7 };
	uint32_t slot = replay_neigh(r, 2, "10.0.1.77", 1, 7);

	expect_forwarded(r, &(struct build){ .dst = "10.0.1.77" }, 2, mac);
	fib_neigh_put(r->fib, slot);
	expect_verdict(r, &(struct build){ .dst = "10.0.1.77" }, VERDICT_KERNEL_NEIGHBOUR);
	replay_finish(r);
}

/* F9, F10. Options win over TTL, as in steer.bpf. */
static void test_options(void **state)
{
	static const uint8_t padding[8] = { 0, 0, 1, 4, 0, 0, 0, 0 };
	struct replay *r = replay_new(NULL);

	for (unsigned ihl = 6; ihl < 16; ihl++)
		expect_verdict(r, &(struct build){ .ihl = (uint8_t)ihl, .payload = 20, .padding = 3 }, VERDICT_KERNEL_OPTIONS);
	expect_verdict(r, &(struct build){ .ihl = 6, .ttl = 1 }, VERDICT_KERNEL_OPTIONS);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:1::2", .extension = padding, .extension_type = 0,
		.extension_length = 8 }, VERDICT_KERNEL_OPTIONS);
	replay_finish(r);
}

static void test_neighbour_discovery(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];
	uint32_t n = build(&(struct build){ .dst = "2001:db8:1::2", .protocol = 58 }, bytes);

	for (unsigned type = 133; type <= 137; type++) {
		bytes[54] = (uint8_t)type;
		expect_bytes(r, 0, bytes, n, VERDICT_KERNEL_ND);
	}
	bytes[54] = 132;
	expect_bytes(r, 0, bytes, n, VERDICT_FORWARD);
	bytes[54] = 138;
	expect_bytes(r, 0, bytes, n, VERDICT_FORWARD);
	/* A type that is only padding. */
	n = build(&(struct build){ .dst = "2001:db8:1::2", .protocol = 58, .l3_length = 40, .padding = 6 }, bytes);
	memset(bytes + 54, 135, 6);
	expect_bytes(r, 0, bytes, n, VERDICT_FORWARD);
	replay_finish(r);
}

static void test_link(void **state)
{
	static const uint16_t types[] = { 0x0806, 0x88cc, 0x8864, 0x05dc, 0x0801, 0x86de };
	static const uint8_t other[6] = { 2, 0, 0, 0, 0, 1 }, all[6] = { 255, 255, 255, 255, 255, 255 },
		multicast[6] = { 1, 0, 0x5e, 0, 0, 1 }, group[6] = { 3, 0, 0, 0, 0, 0 };
	struct replay *r = replay_new(NULL);

	for (unsigned i = 0; i < ARRAY_LENGTH(types); i++) {
		expect_verdict(r, &(struct build){ .ethertype = types[i] }, VERDICT_KERNEL_NOT_IP);
	}
	expect_verdict(r, &(struct build){ .dst_mac = other }, VERDICT_KERNEL_NOT_OUR_MAC);
	expect_verdict(r, &(struct build){ .dst_mac = all }, VERDICT_KERNEL_NOT_OUR_MAC);
	expect_verdict(r, &(struct build){ .dst_mac = multicast, .dst = "2001:db8:1::2" }, VERDICT_KERNEL_NOT_OUR_MAC);
	expect_verdict(r, &(struct build){ .dst_mac = group }, VERDICT_KERNEL_NOT_OUR_MAC);
	set_flags(r, 1, FIB_IFACE_VRF, 0);
	expect_verdict(r, &(struct build){ 0 }, VERDICT_KERNEL_VRF);
	fib_iface_del(r->fib, 1);
	expect_verdict(r, &(struct build){ 0 }, VERDICT_KERNEL_NOT_OUR_MAC);
	replay_finish(r);
}

static void test_vlan(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];

	replay_add_vlan(r, 10, 0, 100, 0x8100);
	expect_verdict(r, &(struct build){ .vlan = 101, .vlan_proto = 0x8100 }, VERDICT_KERNEL_VLAN);
	expect_verdict(r, &(struct build){ .vlan = 100, .vlan_proto = 0x88a8 }, VERDICT_KERNEL_VLAN);
	expect_verdict(r, &(struct build){ .vlan = 0, .vlan_proto = 0x8100, .pcp = 7 }, VERDICT_KERNEL_VLAN);
	expect_verdict(r, &(struct build){ .vlan = 100, .vlan_proto = 0x8100, .ethertype = 0x8100 }, VERDICT_KERNEL_VLAN);
	expect_verdict(r, &(struct build){ .vlan = 100, .vlan_proto = 0x8100, .ethertype = 0x88a8 }, VERDICT_KERNEL_VLAN);
	expect_verdict(r, &(struct build){ .vlan = 100, .vlan_proto = 0x8100, .ethertype = 0x0806 }, VERDICT_KERNEL_NOT_IP);
	/* On another port the same id is not known. */
	expect_verdict(r, &(struct build){ .port = 1, .vlan = 100, .vlan_proto = 0x8100 }, VERDICT_KERNEL_VLAN);
	build(&(struct build){ .vlan = 100, .vlan_proto = 0x8100 }, bytes);
	for (uint32_t n = 14; n < 18; n++)
		expect_bytes(r, 0, bytes, n, VERDICT_KERNEL_VLAN);
	for (uint32_t n = 18; n < 38; n++)
		expect_bytes(r, 0, bytes, n, VERDICT_DROP_SHORT);
	expect_forwarded(r, &(struct build){ .vlan = 100, .vlan_proto = 0x8100 }, 2, host1);
	set_flags(r, 10, 0, FIB_IFACE_UP);
	expect_verdict(r, &(struct build){ .vlan = 100, .vlan_proto = 0x8100 }, VERDICT_KERNEL_VLAN);
	set_flags(r, 10, FIB_IFACE_VRF | FIB_IFACE_UP, 0);
	expect_verdict(r, &(struct build){ .vlan = 100, .vlan_proto = 0x8100 }, VERDICT_KERNEL_VRF);
	replay_finish(r);
}

/* A tag needs four bytes before the packet; one that has a tag already needs none. */
static void test_headroom(void **state)
{
	const uint8_t mac[6] = { 2, 0, 0, 0, 1, 9 };
	struct replay *r = replay_new(NULL);

	replay_add_vlan(r, 10, 0, 100, 0x8100);
	replay_add_vlan(r, 20, 1, 100, 0x8100);
	replay_neigh(r, 20, "10.20.0.1", 1, 9);
	replay_route(r, "10.20.0.0/16", 0, &(const struct replay_path){ .iface = 20 }, 1);
	for (uint32_t room = 0; room < 4; room++) {
		memory_port_set_headroom(r->ports[0], room);
		expect_verdict(r, &(struct build){ .dst = "10.20.0.1" }, VERDICT_KERNEL_HEADROOM);
		expect_forwarded(r, &(struct build){ .dst = "10.20.0.1", .vlan = 100, .vlan_proto = 0x8100 }, 20, mac);
		expect_forwarded(r, &(struct build){ 0 }, 2, host1);
	}
	memory_port_set_headroom(r->ports[0], 4);
	expect_forwarded(r, &(struct build){ .dst = "10.20.0.1" }, 20, mac);
	memory_port_set_headroom(r->ports[0], 128);
	expect_forwarded(r, &(struct build){ .dst = "10.20.0.1" }, 20, mac);
	replay_finish(r);
}

static void test_link_down(void **state)
{
	struct replay *r = replay_new(NULL);
	struct port *p = r->ports[1];

	memory_port_set_carrier(p, false);
	expect_verdict(r, &(struct build){ 0 }, VERDICT_DROP_LINK_DOWN);
	memory_port_set_carrier(p, true);
	expect_forwarded(r, &(struct build){ 0 }, 2, host1);
	set_flags(r, 2, 0, FIB_IFACE_UP);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:1::2" }, VERDICT_DROP_LINK_DOWN);
	set_flags(r, 2, FIB_IFACE_UP, 0);
	/* What the kernel must answer it answers, link or not. */
	memory_port_set_carrier(p, false);
	expect_verdict(r, &(struct build){ .l3_length = 1501 }, VERDICT_KERNEL_TOO_BIG);
	/* A port that is being taken away, a worker without a queue of it, an interface that is gone: the kernel
	 * forwards meanwhile. */
	r->ports[1] = NULL;
	expect_verdict(r, &(struct build){ 0 }, VERDICT_KERNEL_OTHER_DEVICE);
	r->ports[1] = p;
	p->worker_txq[0] = NULL;
	expect_verdict(r, &(struct build){ 0 }, VERDICT_KERNEL_OTHER_DEVICE);
	p->worker_txq[0] = &p->txqs[0];
	fib_iface_del(r->fib, 2);
	expect_verdict(r, &(struct build){ 0 }, VERDICT_KERNEL_OTHER_DEVICE);
	replay_finish(r);
}

static void test_tx_full(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .tx_size = 16 });

	memory_port_faults(r->ports[1])->stuck = true;
	for (unsigned i = 0; i < 40; i++)
		inject_build(r, &(struct build){ .id = (uint16_t)i });
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 16);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_TX_FULL), 24);
	assert_int_equal(replay_place(r, FRAME_TX), 16);
	assert_int_equal(counter_read(&r->ports[1]->txqs[0].kicks), 1);
	replay_check_books(r);
	/* It is the first ones that go, in order. */
	memory_port_faults(r->ports[1])->stuck = false;
	replay_run(r);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(load_be16(replay_sent(r, 1, i)->bytes + 18), i);
	replay_finish(r);
}

static void test_deliver_fails(void **state)
{
	struct replay *r = replay_new(NULL);

	memory_port_faults(r->ports[0])->deliver_fail = 2;
	memory_port_faults(r->ports[0])->deliver_error = -EAGAIN;
	for (unsigned i = 0; i < 5; i++)
		inject_build(r, &(struct build){ .dst = "10.0.0.1" });
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_DELIVER), 2);
	assert_int_equal(replay_count(r, 0, VERDICT_KERNEL_LOCAL), 3);
	replay_finish(r);
}

static void test_invalid_descriptor(void **state)
{
	struct replay *r = replay_new(NULL);

	inject_build(r, &(struct build){ .id = 1 });
	assert_int_equal(memory_port_inject_invalid(r->ports[0], 0), 0);
	r->injected[0]++;
	inject_build(r, &(struct build){ .id = 2 });
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_INVALID_DESCRIPTOR), 1);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 2);
	assert_int_equal(counter_read(&r->ports[0]->rxqs[0].invalid), 1);
	replay_finish(r);
}

static void test_ttl_and_mtu(void **state)
{
	struct replay *r = replay_new(NULL);

	expect_verdict(r, &(struct build){ .ttl = 1 }, VERDICT_KERNEL_TTL);
	expect_verdict(r, &(struct build){ .l3_length = 1501 }, VERDICT_KERNEL_TOO_BIG);
	replay_finish(r);
}

/* Several verdicts in one batch, on two ingress ports: each counted where it belongs. */
static void test_mixed_batch(void **state)
{
	struct replay *r = replay_new(NULL);

	for (unsigned i = 0; i < 20; i++) {
		inject_build(r, &(struct build){ .port = 0 });
		inject_build(r, &(struct build){ .port = 0, .dst = "10.0.0.1" });
		inject_build(r, &(struct build){ .port = 0, .src = "224.0.0.1" });
		inject_build(r, &(struct build){ .port = 1, .src = "10.0.1.2", .dst = "10.0.0.2", .payload = i });
	}
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 20);
	assert_int_equal(replay_count(r, 0, VERDICT_KERNEL_LOCAL), 20);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_MARTIAN_SOURCE), 20);
	assert_int_equal(replay_count(r, 1, VERDICT_FORWARD), 20);
	assert_int_equal(replay_count_bytes(r, 0, VERDICT_FORWARD), 20 * 42);
	assert_int_equal(replay_count_bytes(r, 1, VERDICT_FORWARD), 20 * 42 + 190);
	replay_finish(r);
}

/* One packet of each port in turn, @n times, as one batch. A worker's loop does not mix ports today, but it may. */
static void run_mixed(struct replay *r, const struct build *b0, const struct build *b1, unsigned n)
{
	struct packet packets[BATCH_SIZE];
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		inject_build(r, b0);
		inject_build(r, b1);
		for (unsigned p = 0; p < 2; p++)
			count += r->ports[p]->ops->rx_burst(&r->ports[p]->rxqs[0], packets + count, 1);
	}
	pipeline_run(&r->pipelines[0], packets, count);
}

static void test_batch_of_two_ports(void **state)
{
	const struct build b0 = { 0 }, b1 = { .port = 1, .src = "10.0.1.2", .dst = "10.0.0.2" };
	const struct build wrong_side = { .port = 1, .src = "10.0.0.2", .dst = "10.0.0.9" };
	struct replay *r = replay_new(NULL);
	struct build other_mac = b1;
	struct fib_iface i, j;

	run_mixed(r, &b0, &b1, 6);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 6);
	assert_int_equal(replay_count(r, 1, VERDICT_FORWARD), 6);
	set_flags(r, 2, FIB_IFACE_VRF, 0);
	run_mixed(r, &b0, &b1, 4);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 10);
	assert_int_equal(replay_count(r, 1, VERDICT_KERNEL_VRF), 4);
	/* The other port's address is none of this one's. */
	replay_iface(r, 1, &i);
	other_mac.dst_mac = i.mac;
	run_mixed(r, &b0, &other_mac, 4);
	assert_int_equal(replay_count(r, 1, VERDICT_KERNEL_NOT_OUR_MAC), 4);
	/* Ports with the same address are still two interfaces. */
	replay_iface(r, 2, &j);
	memcpy(j.mac, i.mac, 6);
	j.flags = (uint16_t)((j.flags & ~FIB_IFACE_VRF) | FIB_IFACE_RP_STRICT);
	replay_set_iface(r, &j);
	other_mac = wrong_side;
	other_mac.dst_mac = i.mac;
	run_mixed(r, &b0, &other_mac, 4);
	assert_int_equal(replay_count(r, 1, VERDICT_KERNEL_RP_FILTER), 4);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 18);
	replay_finish(r);
}

/* Last: is there a verdict that nothing above provoked? */
static void test_all_provoked(void **state)
{
	unsigned missing = 0;

	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		if (replay_provoked[v])
			continue;
		print_error("no test here provokes \"%s\"\n", verdict_info[v].label);
		missing++;
	}
	assert_int_equal(missing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_checksum),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_martians),
		cmocka_unit_test(test_route_verdicts),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_local6),
		cmocka_unit_test(test_rp_filter),
		cmocka_unit_test(test_rp_filter_rules),
		cmocka_unit_test(test_redirect),
		cmocka_unit_test(test_neighbour),
		cmocka_unit_test(test_neighbour_deleted),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_neighbour_discovery),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_vlan),
		cmocka_unit_test(test_headroom),
		cmocka_unit_test(test_link_down),
		cmocka_unit_test(test_tx_full),
		cmocka_unit_test(test_deliver_fails),
		cmocka_unit_test(test_invalid_descriptor),
		cmocka_unit_test(test_ttl_and_mtu),
		cmocka_unit_test(test_mixed_batch),
		cmocka_unit_test(test_batch_of_two_ports),
		cmocka_unit_test(test_all_provoked),
	};

	replay_fail = replay_fail_cmocka;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
