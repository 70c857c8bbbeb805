/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Plain forwarding: exact bytes out, tags, lengths, and the boundary values of semantics sections 2 and 3.
 */
#include "replay/check.h"

#include <string.h>

static const uint8_t host1[6] = { 2, 0, 0, 0, 1, 1 };

static void test_ipv4(void **state)
{
	struct replay *r = replay_new(NULL);

	for (uint32_t payload = 0; payload < 1473; payload += 23)
		expect_forwarded(r, &(struct build){ .payload = payload, .tos = 0xb9, .id = 0xbeef, .seed = payload },
			2, host1);
	expect_forwarded(r, &(struct build){ .fragment = 0x4000 }, 2, host1);
	expect_forwarded(r, &(struct build){ .fragment = 0x8000 }, 2, host1);  /* the reserved bit is passed on */
	expect_forwarded(r, &(struct build){ .l3_length = 20 }, 2, host1);
	expect_forwarded(r, &(struct build){ .protocol = 6, .sport = 80, .payload = 99 }, 2, host1);
	replay_finish(r);
}

static void test_ipv6(void **state)
{
	struct replay *r = replay_new(NULL);
	static const uint8_t options[8] = { 0, 0, 1, 4, 0, 0, 0, 0 };

	for (uint32_t payload = 0; payload < 1453; payload += 23)
		expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .payload = payload, .tos = 0x5a,
			.label = 0xabcde }, 2, host1);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .l3_length = 40 }, 2, host1);
	/* F11: extension headers but hop-by-hop are not looked at. */
	for (unsigned type = 43; type <= 60; type += 17)
		expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .extension = options,
			.extension_type = (uint8_t)type, .extension_length = 8 }, 2, host1);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .has_fragment = true, .fragment = 0x0129 }, 2, host1);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .protocol = 59 }, 2, host1);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .protocol = 58, .l3_length = 40 }, 2, host1);
	replay_finish(r);
}

/* F1, F2: padding of the link is cut, whatever its length. */
static void test_padding(void **state)
{
	struct replay *r = replay_new(NULL);

	for (uint32_t padding = 1; padding < 200; padding += 18) {
		expect_forwarded(r, &(struct build){ .padding = padding }, 2, host1);
		expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .padding = padding }, 2, host1);
	}
	replay_finish(r);
}

/* F14: the incremental checksum equals a full one for every header: all 2^16 ids take the sum through all values. */
static void test_checksum_sweep(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .fill_size = 64, .frames = 256 });
	static uint8_t in[BUILD_MAX], out[BUILD_MAX];
	uint32_t length = 0, n;

	for (uint32_t id = 0; id < 65536; id += 32) {
		for (uint32_t k = 0; k < 32; k++) {
			length = build(&(struct build){ .id = (uint16_t)(id + k), .ttl = (uint8_t)(2 + (id >> 5) % 254) }, in);
			assert_true(replay_inject(r, 0, in, length));
		}
		replay_run(r);
		for (uint32_t k = 0; k < 32; k++) {
			const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };

			build(&(struct build){ .id = (uint16_t)(id + k), .ttl = (uint8_t)(2 + (id >> 5) % 254) }, in);
			n = build_forwarded(in, out, host1, mac, 0, 0);
			assert_memory_equal(replay_sent(r, 1, id + k)->bytes, out, n);
		}
	}
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 65536);
	replay_finish(r);
}

/* V2: a checksum of 0xffff where 0 is due is accepted, and what leaves has the right one. */
static void test_checksum_ffff(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t in[BUILD_MAX], out[BUILD_MAX];
	const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	uint32_t length, n, id = 0, seen = 0;

	for (; id < 65536; id++) {
		length = build(&(struct build){ .id = (uint16_t)id }, in);
		if (in[24] || in[25])
			continue;
		n = build_forwarded(in, out, host1, mac, 0, 0);
		in[24] = in[25] = 0xff;
		assert_true(replay_inject(r, 0, in, length));
		replay_run(r);
		assert_memory_equal(replay_sent(r, 1, seen++)->bytes, out, n);
		/* One bit off is not. */
		in[24] = 0xfe;
		assert_true(replay_inject(r, 0, in, length));
		replay_run(r);
		assert_int_equal(replay_count(r, 0, VERDICT_DROP_CHECKSUM), seen);
	}
	assert_true(seen >= 1);
	replay_finish(r);
}

/* F12, F13, T13: 0 and 1 are the kernel's, 2 and 255 are forwarded; TTL wins over MTU. */
static void test_ttl(void **state)
{
	struct replay *r = replay_new(NULL);
	static const char *const dst[] = { "10.0.1.2", "2001:db8:1::2" };

	for (unsigned f = 0; f < 2; f++) {
		expect_verdict(r, &(struct build){ .dst = dst[f], .zero_ttl = true }, VERDICT_KERNEL_TTL);
		expect_verdict(r, &(struct build){ .dst = dst[f], .ttl = 1 }, VERDICT_KERNEL_TTL);
		expect_forwarded(r, &(struct build){ .dst = dst[f], .ttl = 2 }, 2, host1);
		expect_forwarded(r, &(struct build){ .dst = dst[f], .ttl = 255 }, 2, host1);
		expect_verdict(r, &(struct build){ .dst = dst[f], .ttl = 1, .l3_length = 1501 }, VERDICT_KERNEL_TTL);
	}
	replay_finish(r);
}

static void set_mtu(struct replay *r, uint16_t number, uint32_t mtu, uint32_t mtu6)
{
	struct fib_iface i;

	replay_iface(r, number, &i);
	i.mtu = mtu;
	i.mtu6 = mtu6;
	replay_set_iface(r, &i);
}

/* F15-F17, T14: by the packet's own length; DF makes no difference to who decides; padding does not count. */
static void test_mtu_ipv4(void **state)
{
	static const uint32_t mtus[] = { 68, 69, 76, 576, 1279, 1280, 1500, 1501, 1508, 3700 };
	struct replay *r = replay_new(NULL);

	for (unsigned i = 0; i < ARRAY_LENGTH(mtus); i++) {
		set_mtu(r, 2, mtus[i], 1500);
		for (unsigned df = 0; df < 2; df++) {
			uint16_t word = df ? 0x4000 : 0;

			expect_forwarded(r, &(struct build){ .l3_length = mtus[i] - 1, .fragment = word }, 2, host1);
			expect_forwarded(r, &(struct build){ .l3_length = mtus[i], .fragment = word, .padding = 9 },
				2, host1);
			expect_verdict(r, &(struct build){ .l3_length = mtus[i] + 1, .fragment = word },
				VERDICT_KERNEL_TOO_BIG);
		}
		/* A fragment is judged alone. */
		expect_forwarded(r, &(struct build){ .l3_length = mtus[i], .fragment = 0x2010 }, 2, host1);
		expect_verdict(r, &(struct build){ .l3_length = mtus[i] + 1, .fragment = 0x2010 }, VERDICT_KERNEL_TOO_BIG);
	}
	replay_finish(r);
}

/* F15: the route's mtu metric; the IPv6 floor of 1280 holds against metric and device. */
static void test_mtu_route(void **state)
{
	struct replay *r = replay_new(NULL);
	const struct replay_path path = { .iface = 2 };

	replay_neigh(r, 2, "10.9.0.1", 1, 1);
	replay_neigh(r, 2, "2001:db8:99::1", 1, 1);
	replay_route(r, "10.9.0.0/16", 1000, &path, 1);
	replay_route(r, "2001:db8:99::/48", 1000, &path, 1);
	expect_forwarded(r, &(struct build){ .dst = "10.9.0.1", .l3_length = 1000 }, 2, host1);
	expect_verdict(r, &(struct build){ .dst = "10.9.0.1", .l3_length = 1001 }, VERDICT_KERNEL_TOO_BIG);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:99::1", .l3_length = 1280 }, 2, host1);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:99::1", .l3_length = 1281 }, VERDICT_KERNEL_TOO_BIG);
	set_mtu(r, 2, 1500, 1400);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .l3_length = 1400 }, 2, host1);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:1::2", .l3_length = 1401 }, VERDICT_KERNEL_TOO_BIG);
	/* A metric beyond the device's MTU does not let through what the device refuses. */
	replay_route(r, "10.9.0.0/16", 9000, &path, 1);
	expect_verdict(r, &(struct build){ .dst = "10.9.0.1", .l3_length = 1501 }, VERDICT_KERNEL_TOO_BIG);
	replay_finish(r);
}

/* F5, V1, V5, O2: addresses that look special and are forwarded. */
static void test_addresses_forwarded(void **state)
{
	static const char *const pairs[][2] = {
		{ "240.0.0.1", "10.0.1.2" }, { "10.0.0.2", "240.1.2.3" }, { "254.255.255.255", "10.0.1.2" },
		{ "169.254.1.1", "10.0.1.2" }, { "10.0.0.2", "169.254.7.7" }, { "10.0.1.2", "10.0.1.2" },
		{ "0.1.2.3", "10.0.1.2" }, { "10.0.0.2", "0.0.0.1" }, { "255.255.255.254", "10.0.1.2" },
		{ "223.255.255.255", "10.0.1.2" }, { "126.255.255.255", "10.0.1.2" }, { "128.0.0.0", "10.0.1.2" },
		{ "::ffff:1.2.3.4", "2001:db8:1::2" }, { "2001:db8::2", "::ffff:1.2.3.4" },
		{ "fec0::1", "2001:db8:1::2" }, { "2001:db8::2", "fec0::1" }, { "::2", "2001:db8:1::2" },
		{ "2001:db8:1::2", "2001:db8:1::2" }, { "fe00::1", "2001:db8:1::2" },
	};
	struct replay *r = replay_new(NULL);
	const struct replay_path path4 = { .iface = 2, .gateway = "10.0.1.2" };
	const struct replay_path path6 = { .iface = 2, .gateway = "2001:db8:1::2" };

	replay_route(r, "0.0.0.0/0", 0, &path4, 1);
	replay_route(r, "::/0", 0, &path6, 1);
	for (unsigned i = 0; i < ARRAY_LENGTH(pairs); i++)
		expect_forwarded(r, &(struct build){ .src = pairs[i][0], .dst = pairs[i][1] }, 2, host1);
	replay_finish(r);
}

/* In and out untagged, 802.1Q, 802.1ad: nine combinations. The priority bits do not survive, as in the kernel. */
static void test_vlan(void **state)
{
	static const struct { uint16_t in, out, vlan, proto; } kinds[] = {
		{ 1, 2, 0, 0 }, { 10, 20, 100, 0x8100 }, { 11, 21, 200, 0x88a8 }, { 12, 22, 4094, 0x8100 },
	};
	struct replay *r = replay_new(NULL);

	for (unsigned i = 1; i < 4; i++) {
		replay_add_vlan(r, kinds[i].in, 0, kinds[i].vlan, kinds[i].proto);
		replay_add_vlan(r, kinds[i].out, 1, kinds[i].vlan, kinds[i].proto);
	}
	for (unsigned o = 0; o < 4; o++) {
		const struct replay_path path = { .iface = kinds[o].out };

		replay_neigh(r, kinds[o].out, "10.7.0.9", 1, 77);
		replay_neigh(r, kinds[o].out, "2001:db8:77::9", 1, 77);
		replay_route(r, "10.7.0.0/16", 0, &path, 1);
		replay_route(r, "2001:db8:77::/64", 0, &path, 1);
		for (unsigned i = 0; i < 4; i++) {
			const uint8_t mac[6] = { 2, 0, 0, 0, 1, 77 };
			struct build b = { .dst = "10.7.0.9", .vlan = kinds[i].vlan, .vlan_proto = kinds[i].proto,
				.pcp = 5, .padding = i };

			expect_forwarded(r, &b, kinds[o].out, mac);
			/* A full-sized packet still fits: the tag is no part of the MTU. */
			b.l3_length = 1500;
			expect_forwarded(r, &b, kinds[o].out, mac);
			b.dst = "2001:db8:77::9";
			expect_forwarded(r, &b, kinds[o].out, mac);
			b.l3_length = 1501;
			expect_verdict(r, &b, VERDICT_KERNEL_TOO_BIG);
			b.l3_length = 0;
			b.ttl = 1;
			expect_verdict(r, &b, VERDICT_KERNEL_TTL);
		}
	}
	replay_finish(r);
}

/* From one VLAN to another on the same port is not "the way it came". */
static void test_vlan_same_port(void **state)
{
	struct replay *r = replay_new(NULL);
	const struct replay_path path = { .iface = 11 };
	const uint8_t mac[6] = { 2, 0, 0, 0, 1, 55 };

	replay_add_vlan(r, 10, 0, 100, 0x8100);
	replay_add_vlan(r, 11, 0, 200, 0x8100);
	replay_neigh(r, 11, "2001:db8:55::5", 1, 55);
	replay_route(r, "2001:db8:55::/64", 0, &path, 1);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:55::5", .vlan = 100, .vlan_proto = 0x8100 }, 11, mac);
	expect_verdict(r, &(struct build){ .dst = "2001:db8:55::5", .vlan = 200, .vlan_proto = 0x8100 },
		VERDICT_KERNEL_REDIRECT);
	replay_finish(r);
}

/* IPv4 with an IPv6 next hop (RFC 5549/8950): IPv4 frame, the IPv6 neighbour's MAC. And an onlink gateway, whose
 * address lies in no network of the port. */
static void test_next_hops(void **state)
{
	struct replay *r = replay_new(NULL);
	const struct replay_path via6 = { .iface = 2, .gateway = "fe80::77" };
	const struct replay_path onlink = { .iface = 2, .gateway = "192.0.2.99" };
	const uint8_t mac6[6] = { 2, 0, 0, 0, 1, 66 }, mac4[6] = { 2, 0, 0, 0, 1, 44 };

	replay_neigh(r, 2, "fe80::77", 1, 66);
	replay_neigh(r, 2, "192.0.2.99", 1, 44);
	replay_route(r, "10.6.0.0/16", 0, &via6, 1);
	replay_route(r, "2001:db8:66::/48", 0, &via6, 1);
	replay_route(r, "10.4.0.0/16", 0, &onlink, 1);
	expect_forwarded(r, &(struct build){ .dst = "10.6.1.1" }, 2, mac6);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:66::1" }, 2, mac6);
	expect_forwarded(r, &(struct build){ .dst = "10.4.1.1" }, 2, mac4);
	replay_finish(r);
}

/* A packet in several frames leaves in as many, with its bytes in order; only trailing padding may take frames away. */
static void test_segments(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .shift = 11 });
	static uint8_t in[BUILD_MAX], out[BUILD_MAX];
	static const uint32_t splits[][4] = { { 34, 1000, 700, 0 }, { 1000, 1, 1, 732 }, { 54, 54, 54, 1572 },
		{ 1733, 1, 0, 0 } };
	const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	struct fib_iface i;
	uint32_t n, length;

	replay_iface(r, 2, &i);
	i.mtu = i.mtu6 = 9000;
	replay_set_iface(r, &i);
	for (unsigned s = 0; s < ARRAY_LENGTH(splits); s++) {
		unsigned k = 0;

		length = build(&(struct build){ .l3_length = 1720, .seed = s }, in);
		assert_int_equal(length, 1734);
		while (k < 4 && splits[s][k])
			k++;
		assert_true(replay_inject_segments(r, 0, in, splits[s], k));
		replay_run(r);
		n = build_forwarded(in, out, host1, mac, 0, 0);
		assert_int_equal(replay_sent(r, 1, s)->length, n);
		assert_int_equal(replay_sent(r, 1, s)->segments, k);
		assert_memory_equal(replay_sent(r, 1, s)->bytes, out, n);
	}
	replay_finish(r);
}

/* Padding that fills the later segments: cut inside, at the edge, and before a segment. */
static void test_segments_padding(void **state)
{
	static const struct { uint32_t lengths[3], segments; } cases[] = {
		{ { 60, 40, 20 }, 2 }, { { 60, 14, 46 }, 2 }, { { 74, 26, 20 }, 1 }, { { 100, 10, 10 }, 1 },
		{ { 42, 10, 68 }, 3 }, { { 60, 13, 47 }, 3 },
	};
	struct replay *r = replay_new(NULL);
	static uint8_t in[BUILD_MAX], out[BUILD_MAX];
	const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };

	for (unsigned s = 0; s < ARRAY_LENGTH(cases); s++) {
		uint32_t length = build(&(struct build){ .l3_length = 60, .padding = 46, .seed = s }, in), n;

		assert_int_equal(length, 120);
		assert_true(replay_inject_segments(r, 0, in, cases[s].lengths, 3));
		replay_run(r);
		n = build_forwarded(in, out, host1, mac, 0, 0);
		assert_int_equal(n, 74);
		assert_int_equal(replay_sent(r, 1, s)->length, n);
		assert_int_equal(replay_sent(r, 1, s)->segments, cases[s].segments);
		assert_memory_equal(replay_sent(r, 1, s)->bytes, out, n);
	}
	assert_int_equal(replay_count_bytes(r, 0, VERDICT_FORWARD), 6 * 120);
	replay_finish(r);
}

/* Headers that are not in the first segment: dropped, never read. To the kernel a packet goes whole. */
static void test_segments_short(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t in[BUILD_MAX];
	uint32_t length = build(&(struct build){ .payload = 100 }, in);

	for (uint32_t first = 1; first < 34; first++) {
		const uint32_t lengths[] = { first, length - first };

		assert_true(replay_inject_segments(r, 0, in, lengths, 2));
		replay_run(r);
		assert_int_equal(replay_count(r, 0, VERDICT_DROP_SHORT), first);
	}
	length = build(&(struct build){ .payload = 1000, .dst = "10.0.0.1" }, in);
	assert_true(replay_inject_segments(r, 0, in, (const uint32_t[]){ 40, 300, length - 340 }, 3));
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_KERNEL_LOCAL), 1);
	assert_int_equal(replay_delivered(r, 0, 0)->segments, 3);
	assert_memory_equal(replay_delivered(r, 0, 0)->bytes, in, length);
	replay_finish(r);
}

/* A frame of the largest IPv6 packet without a jumbo option: 65575 bytes do not fit 16 bits (public bug 7). */
static void test_segments_largest(void **state)
{
	struct replay *r = replay_new(NULL);
	static uint8_t in[BUILD_MAX], out[BUILD_MAX];
	const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	uint32_t lengths[32], n = 0, length = build(&(struct build){ .dst = "2001:db8:1::2", .l3_length = 65575 }, in);
	struct fib_iface i;

	for (uint32_t left = length; left; left -= lengths[n++])
		lengths[n] = left > 3800 ? 3800 : left;
	assert_true(replay_inject_segments(r, 0, in, lengths, n));
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_KERNEL_TOO_BIG), 1);
	assert_memory_equal(replay_delivered(r, 0, 0)->bytes, in, length);
	replay_iface(r, 2, &i);
	i.mtu = i.mtu6 = 65575;
	replay_set_iface(r, &i);
	assert_true(replay_inject_segments(r, 0, in, lengths, n));
	replay_run(r);
	n = build_forwarded(in, out, host1, mac, 0, 0);
	assert_int_equal(replay_sent(r, 1, 0)->length, n);
	assert_memory_equal(replay_sent(r, 1, 0)->bytes, out, n);
	replay_finish(r);
}

/* Packets of one flow and of several leave in the order they came, across batches. */
static void test_order(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });
	uint32_t next[2] = { 0, 0 };

	for (uint32_t i = 0; i < 200; i++)
		inject_build(r, &(struct build){ .dst = i % 3 ? "10.0.1.2" : "10.0.2.2", .id = (uint16_t)i,
			.sport = (uint16_t)(1 + i % 7) });
	replay_run(r);
	for (unsigned port = 1; port <= 2; port++) {
		for (uint32_t i = 0; i < replay_sent_count(r, port); i++) {
			uint32_t id = load_be16(replay_sent(r, port, i)->bytes + 18);

			assert_true(!i || id > next[port - 1]);
			assert_int_equal(id % 3 == 0, port == 2);
			next[port - 1] = id;
		}
	}
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 200);
	assert_int_equal(counter_read(&r->pipelines[0].stats->batch_size[6]), 3);
	assert_int_equal(counter_read(&r->pipelines[0].stats->batch_size[3]), 1);
	assert_int_equal(counter_read(&r->pipelines[0].stats->lookups4), 200);
	replay_finish(r);
}

/* Public bug 7: a fragment whose end lies beyond 65535 is a packet like any other on its way; the next one too. */
static void test_fragment_beyond_end(void **state)
{
	struct replay *r = replay_new(NULL);

	expect_forwarded(r, &(struct build){ .fragment = 0x1ffe, .l3_length = 136 }, 2, host1);
	expect_forwarded(r, &(struct build){ .fragment = 8191, .l3_length = 28 }, 2, host1);
	expect_forwarded(r, &(struct build){ .fragment = 8191, .l3_length = 1500 }, 2, host1);
	expect_verdict(r, &(struct build){ .fragment = 8191, .l3_length = 1500, .ihl = 15 }, VERDICT_KERNEL_OPTIONS);
	expect_forwarded(r, &(struct build){ .dst = "2001:db8:1::2", .has_fragment = true, .fragment = 0xfff8 }, 2, host1);
	expect_forwarded(r, &(struct build){ .fragment = 0x2000, .l3_length = 1500 }, 2, host1);
	expect_forwarded(r, &(struct build){ .fragment = 185, .l3_length = 100 }, 2, host1);
	replay_finish(r);
}

/* Public bug 3: fragments in any order, of more datagrams than any table would hold: all forwarded, no state. */
static void test_fragments_any_order(void **state)
{
	static const uint16_t words[] = { 0x2000 | 185, 370, 0x2000 };
	struct replay *r = replay_new(NULL);

	for (uint32_t d = 0; d < 3000; d++) {
		for (unsigned k = 0; k < 3; k++)
			inject_build(r, &(struct build){ .id = (uint16_t)d, .fragment = words[(k + d % 2) % 3],
				.l3_length = 500 });
		if (d % 32 == 31)
			replay_run(r);
	}
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 9000);
	assert_int_equal(replay_sent_count(r, 1), 9000);
	replay_finish(r);
}

/* What the neighbour stage notes, so that the control side keeps used neighbours alive. */
static void test_neighbour_marked(void **state)
{
	struct replay *r = replay_new(NULL);
	uint32_t slot = replay_neigh(r, 2, "10.0.1.2", 1, 1), idle = replay_neigh(r, 2, "10.0.1.3", 1, 3);

	inject_build(r, &(struct build){ 0 });
	replay_step(r, 0);
	assert_int_equal(fib_neigh(r->fib, slot)->used, r->now_ns / NS_PER_S);
	assert_int_equal(fib_neigh(r->fib, idle)->used, 0);
	inject_build(r, &(struct build){ 0 });
	replay_step(r, 2 * NS_PER_S);
	assert_int_equal(fib_neigh(r->fib, slot)->used, r->now_ns / NS_PER_S);
	replay_finish(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_padding),
		cmocka_unit_test(test_checksum_sweep),
		cmocka_unit_test(test_checksum_ffff),
		cmocka_unit_test(test_ttl),
		cmocka_unit_test(test_mtu_ipv4),
		cmocka_unit_test(test_mtu_route),
		cmocka_unit_test(test_addresses_forwarded),
		cmocka_unit_test(test_vlan),
		cmocka_unit_test(test_vlan_same_port),
		cmocka_unit_test(test_next_hops),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_segments_padding),
		cmocka_unit_test(test_segments_short),
		cmocka_unit_test(test_segments_largest),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_fragment_beyond_end),
		cmocka_unit_test(test_fragments_any_order),
		cmocka_unit_test(test_neighbour_marked),
	};

	replay_fail = replay_fail_cmocka;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
