/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the stages found out for one packet of a batch serves the next one, as far as the two are alike. Here each
 * packet comes behind some that were forwarded by the same route, and differs from them in one thing that matters.
 */
#include "replay/check.h"

#define BEFORE 3  /* so many were forwarded before */

static void take(struct replay *r, const struct build *b, struct packet *packets, unsigned *count)
{
	inject_build(r, b);
	*count += r->ports[b->port]->ops->rx_burst(&r->ports[b->port]->rxqs[0], packets + *count, 1);
}

/* One batch: @usual some times, @odd, @usual again. Only @odd is not forwarded. */
static void expect_odd(struct replay *r, const struct build *usual, const struct build *odd, enum verdict v)
{
	uint64_t forwarded = replay_total(r, VERDICT_FORWARD), others = replay_count(r, odd->port, v);
	struct packet packets[BEFORE + 2];
	unsigned count = 0;

	for (unsigned i = 0; i < BEFORE; i++)
		take(r, usual, packets, &count);
	take(r, odd, packets, &count);
	take(r, usual, packets, &count);
	assert_int_equal(count, BEFORE + 2);
	pipeline_run(&r->pipelines[0], packets, count);
	replay_run(r);
	assert_int_equal(replay_count(r, odd->port, v), others + 1);
	assert_int_equal(replay_total(r, VERDICT_FORWARD), forwarded + BEFORE + 1);
}

static void set_flags(struct replay *r, uint16_t number, uint16_t flags)
{
	struct fib_iface i;

	replay_iface(r, number, &i);
	i.flags |= flags;
	replay_set_iface(r, &i);
}

/* F15. */
static void test_length(void **state)
{
	struct replay *r = replay_new(NULL);

	expect_odd(r, &(struct build){ .l3_length = 1500 }, &(struct build){ .l3_length = 1501 },
		VERDICT_KERNEL_TOO_BIG);
	expect_odd(r, &(struct build){ .dst = "2001:db8:1::2", .l3_length = 1500 },
		&(struct build){ .dst = "2001:db8:1::2", .l3_length = 1501 }, VERDICT_KERNEL_TOO_BIG);
	replay_finish(r);
}

/* F6: the route is the same, the source is not. */
static void test_source(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });

	set_flags(r, 1, FIB_IFACE_RP_STRICT);
	expect_odd(r, &(struct build){ 0 }, &(struct build){ .src = "10.0.2.2" }, VERDICT_KERNEL_RP_FILTER);
	replay_finish(r);
}

/* The ingress interface: with a reverse path filter, or the one that the packet would leave by (F20). */
static void test_ingress(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });

	set_flags(r, 3, FIB_IFACE_RP_STRICT);
	expect_odd(r, &(struct build){ 0 }, &(struct build){ .port = 2, .src = "10.0.0.2" }, VERDICT_KERNEL_RP_FILTER);
	set_flags(r, 2, FIB_IFACE_SEND_REDIRECTS);
	expect_odd(r, &(struct build){ 0 }, &(struct build){ .port = 1, .src = "10.0.1.9" }, VERDICT_KERNEL_REDIRECT);
	expect_odd(r, &(struct build){ .dst = "2001:db8:1::2" },
		&(struct build){ .port = 1, .src = "2001:db8:1::9", .dst = "2001:db8:1::2" }, VERDICT_KERNEL_REDIRECT);
	replay_finish(r);
}

/* A neighbour of the same interface that is not resolved; on link, the route is the same. */
static void test_neighbour(void **state)
{
	struct replay *r = replay_new(NULL);

	expect_odd(r, &(struct build){ 0 }, &(struct build){ .dst = "10.0.1.77" }, VERDICT_KERNEL_NEIGHBOUR);
	expect_odd(r, &(struct build){ .dst = "2001:db8:1::2" }, &(struct build){ .dst = "2001:db8:1::77" },
		VERDICT_KERNEL_NEIGHBOUR);
	replay_finish(r);
}

/* To leave with a tag, each packet needs room for it. */
static void test_headroom(void **state)
{
	const struct replay_path via = { .iface = 20, .gateway = "10.0.1.2" };
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });

	replay_add_vlan(r, 20, 1, 100, 0x8100);
	replay_neigh(r, 20, "10.0.1.2", 1, 1);
	replay_route(r, "10.50.0.0/16", 0, &via, 1);
	for (unsigned i = 0; i < 2; i++) {
		struct packet packets[BEFORE + 1];
		unsigned count = 0;

		memory_port_set_headroom(r->ports[0], 4);
		while (count < BEFORE)
			take(r, &(struct build){ .dst = "10.50.0.1" }, packets, &count);
		memory_port_set_headroom(r->ports[0], 3);
		take(r, &(struct build){ .dst = "10.50.0.1" }, packets, &count);
		pipeline_run(&r->pipelines[0], packets, count);
		assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), (i + 1) * BEFORE);
		assert_int_equal(replay_count(r, 0, VERDICT_KERNEL_HEADROOM), i + 1);
	}
	replay_finish(r);
}

/* Neither family's choice is the other's. */
static void test_families(void **state)
{
	struct replay *r = replay_new(NULL);

	for (unsigned i = 0; i < 8; i++) {
		inject_build(r, &(struct build){ 0 });
		inject_build(r, &(struct build){ .dst = "2001:db8:1::2" });
	}
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 16);
	assert_int_equal(replay_sent_count(r, 1), 16);
	replay_finish(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_source),
		cmocka_unit_test(test_ingress),
		cmocka_unit_test(test_neighbour),
		cmocka_unit_test(test_headroom),
		cmocka_unit_test(test_families),
	};

	replay_fail = replay_fail_cmocka;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
