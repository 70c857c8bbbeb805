/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Several equal paths: shares by weight, one path for a flow, one path for all fragments of a datagram, and groups that
 * change under traffic (semantics section 5, public bug 2).
 */
#include "replay/check.h"

#include <stdio.h>
#include <string.h>

static void set_policy(struct replay *r, uint8_t policy)
{
	struct fib_settings s = *fib_settings(r->fib);

	s.hash_policy4 = s.hash_policy6 = policy;
	assert_int_equal(fib_settings_set(r->fib, &s), 0);
}

/* Port 0 in, ports 1 and 2 out with these weights, to 10.50.0.0/16 and 2001:db8:50::/48. */
static struct replay *two_paths(uint32_t weight1, uint32_t weight2, uint8_t policy)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3, .frames = 2048 });
	const struct replay_path via4[] = { { 2, "10.0.1.2", weight1, false }, { 3, "10.0.2.2", weight2, false } };
	const struct replay_path via6[] = { { 2, "2001:db8:1::2", weight1, false }, { 3, "2001:db8:2::2", weight2, false } };

	replay_route(r, "10.50.0.0/16", 0, via4, 2);
	replay_route(r, "2001:db8:50::/48", 0, via6, 2);
	set_policy(r, policy);
	return r;
}

static void send_flows(struct replay *r, bool six, bool by_port, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char dst[64];

		snprintf(dst, sizeof(dst), six ? "2001:db8:50::%x" : "10.50.%u.%u", by_port ? 1 : six ? i : i >> 8, by_port ? 1 : i & 255);
		inject_build(r, &(struct build){ .dst = dst, .sport = (uint16_t)(by_port ? 1 + i : 1), .dport = 53 });
		if (i % 64 == 63)
			replay_run(r);
	}
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), n);
}

/* M5: the kernel's own test allows 15 %; an even hash does better. */
static void check_share(uint32_t w1, uint32_t w2, uint8_t policy, bool six)
{
	struct replay *r = two_paths(w1, w2, policy);
	const unsigned n = 20000;
	double wanted = (double)n * w1 / (w1 + w2), got;

	send_flows(r, six, policy == 1, n);
	got = replay_sent_count(r, 1);
	assert_true(got > wanted * 0.95 - 60 && got < wanted * 1.05 + 60);
	assert_int_equal(replay_sent_count(r, 1) + replay_sent_count(r, 2), n);
	replay_finish(r);
}

static void test_shares(void **state)
{
	static const uint32_t weights[][2] = { { 1, 1 }, { 4, 45 }, { 45, 4 }, { 255, 1 }, { 1, 255 }, { 2, 3 } };

	for (unsigned i = 0; i < ARRAY_LENGTH(weights); i++)
		for (unsigned k = 0; k < 4; k++)
			check_share(weights[i][0], weights[i][1], k & 1, k >> 1);
}

/* Policy 0 does not look at ports: all of them one way. And a flow is always the same way. */
static void test_stable(void **state)
{
	struct replay *r = two_paths(1, 1, 0);

	send_flows(r, false, true, 500);
	assert_true(replay_sent_count(r, 1) == 0 || replay_sent_count(r, 2) == 0);
	replay_finish(r);
	r = two_paths(1, 1, 1);
	for (unsigned i = 0; i < 500; i++) {
		inject_build(r, &(struct build){ .dst = "10.50.0.1", .tos = (uint8_t)i, .id = (uint16_t)i, .payload = i % 300 });
		if (i % 50 == 49)
			replay_run(r);
	}
	assert_true(replay_sent_count(r, 1) == 0 || replay_sent_count(r, 2) == 0);
	replay_finish(r);
}

/* A single path, or a single one alive, needs no hash and gets all. */
static void test_dead_path(void **state)
{
	struct replay *r = two_paths(1, 1, 1);
	const struct replay_path one_dead[] = { { 2, "10.0.1.2", 1, true }, { 3, "10.0.2.2", 1, false } };
	const struct replay_path other_dead[] = { { 2, "10.0.1.2", 1, false }, { 3, "10.0.2.2", 1, true } };

	replay_route(r, "10.50.0.0/16", 0, one_dead, 2);
	send_flows(r, false, true, 300);
	assert_int_equal(replay_sent_count(r, 2), 300);
	replay_route(r, "10.50.0.0/16", 0, other_dead, 2);
	for (unsigned i = 0; i < 200; i++)
		inject_build(r, &(struct build){ .dst = "10.50.0.1", .sport = (uint16_t)(1 + i) });
	replay_run(r);
	assert_int_equal(replay_sent_count(r, 1), 200);
	replay_finish(r);
}

/* A group changes while packets flow: not one is lost, and each leaves by a path that the group had. */
static void test_change_under_traffic(void **state)
{
	struct replay *r = two_paths(1, 1, 1);
	uint32_t before1, before2;

	for (unsigned round = 0; round < 200; round++) {
		const struct replay_path paths[] = { { 2, "10.0.1.2", 1 + round % 7, round % 3 == 1 },
			{ 3, "10.0.2.2", 1 + round % 5, round % 3 == 2 } };

		for (unsigned i = 0; i < 40; i++)
			inject_build(r, &(struct build){ .dst = "10.50.0.1", .sport = (uint16_t)(1 + i) });
		replay_route(r, "10.50.0.0/16", 0, paths, 2);
		before1 = replay_sent_count(r, 1);
		before2 = replay_sent_count(r, 2);
		replay_run(r);
		if (round % 3 == 1)
			assert_int_equal(replay_sent_count(r, 1), before1);
		if (round % 3 == 2)
			assert_int_equal(replay_sent_count(r, 2), before2);
	}
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 200 * 40);
	replay_finish(r);
}

/* ---- public bug 2 ---- */

enum { PIECES = 3, DATAGRAMS = 200 };

static void send_piece(struct replay *r, bool six, unsigned d, unsigned piece)
{
	static const uint16_t words[PIECES] = { 0x2000, 0x2000 | 125, 250 };
	struct build b = { .dst = six ? "2001:db8:50::7" : "10.50.0.7", .id = (uint16_t)(1000 + d),
		.sport = (uint16_t)(2000 + d), .l3_length = 600, .fragment = words[piece] };

	if (six) {
		b.has_fragment = true;
		b.fragment = (uint16_t)((words[piece] & 0x1fff) << 3 | words[piece] >> 13);
	}
	inject_build(r, &b);
}

/* Port that a datagram's pieces left by; fails if they parted. */
static void check_one_path(struct replay *r, bool six)
{
	uint8_t port_of[DATAGRAMS] = { 0 };
	unsigned pieces[DATAGRAMS] = { 0 }, total = 0;

	for (unsigned port = 1; port <= 2; port++) {
		for (uint32_t i = 0; i < replay_sent_count(r, port); i++) {
			const uint8_t *bytes = replay_sent(r, port, i)->bytes;
			unsigned d = load_be16(bytes + (six ? 60 : 18)) - 1000u;

			if (d >= DATAGRAMS)
				continue;  /* an unfragmented one */
			assert_true(!port_of[d] || port_of[d] == port);
			port_of[d] = (uint8_t)port;
			pieces[d]++;
			total++;
		}
	}
	assert_int_equal(total, DATAGRAMS * PIECES);
	for (unsigned d = 0; d < DATAGRAMS; d++)
		assert_int_equal(pieces[d], PIECES);
}

/* All fragments of a datagram take one path: in order, reversed, first in the middle, mixed with whole packets. */
static void test_fragments_one_path(void **state)
{
	static const uint8_t orders[6][PIECES] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 }, { 0, 2, 1 }, { 1, 0, 2 }, { 2, 0, 1 } };

	for (unsigned k = 0; k < 4; k++) {
		struct replay *r = two_paths(1, 1, k & 1);
		bool six = k >> 1;

		for (unsigned d = 0; d < DATAGRAMS; d++) {
			for (unsigned i = 0; i < PIECES; i++) {
				send_piece(r, six, d, orders[d % 6][i]);
				inject_build(r, &(struct build){ .dst = six ? "2001:db8:50::7" : "10.50.0.7",
					.sport = (uint16_t)(2000 + d), .id = 7 });
			}
			if (d % 10 == 9)
				replay_run(r);
		}
		replay_run(r);
		assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), DATAGRAMS * PIECES * 2);
		check_one_path(r, six);
		replay_finish(r);
	}
}

/* Interleaved: all first pieces, then all second ones, then all third ones, and the other way round. */
static void test_fragments_interleaved(void **state)
{
	for (unsigned k = 0; k < 4; k++) {
		struct replay *r = two_paths(3, 2, 1);

		for (unsigned i = 0; i < PIECES; i++)
			for (unsigned d = 0; d < DATAGRAMS; d++) {
				send_piece(r, k >> 1, d, k & 1 ? PIECES - 1 - i : i);
				if (d % 50 == 49)
					replay_run(r);
			}
		replay_run(r);
		check_one_path(r, k >> 1);
		replay_finish(r);
	}
}

/* Paths of one group with an on-link and a gateway path, IPv4 via IPv6 among them. */
static void test_mixed_paths(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });
	const struct replay_path paths[] = { { 2, NULL, 1, false }, { 3, "fe80::9", 1, false } };
	const uint8_t on_link[6] = { 2, 0, 0, 0, 1, 31 }, gateway[6] = { 2, 0, 0, 0, 1, 32 };

	replay_neigh(r, 2, "10.50.0.1", 1, 31);
	replay_neigh(r, 3, "fe80::9", 1, 32);
	replay_route(r, "10.50.0.0/16", 0, paths, 2);
	set_policy(r, 1);
	for (unsigned i = 0; i < 200; i++)
		inject_build(r, &(struct build){ .dst = "10.50.0.1", .sport = (uint16_t)(1 + i) });
	replay_run(r);
	assert_true(replay_sent_count(r, 1) > 60 && replay_sent_count(r, 2) > 60);
	for (uint32_t i = 0; i < replay_sent_count(r, 1); i++)
		assert_memory_equal(replay_sent(r, 1, i)->bytes, on_link, 6);
	for (uint32_t i = 0; i < replay_sent_count(r, 2); i++)
		assert_memory_equal(replay_sent(r, 2, i)->bytes, gateway, 6);
	replay_finish(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_stable),
		cmocka_unit_test(test_dead_path),
		cmocka_unit_test(test_change_under_traffic),
		cmocka_unit_test(test_fragments_one_path),
		cmocka_unit_test(test_fragments_interleaved),
		cmocka_unit_test(test_mixed_paths),
	};

	replay_fail = replay_fail_cmocka;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
