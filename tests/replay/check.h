/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For cmocka tests on the harness: assertions go to cmocka, and the packet under test is built, run and compared.
 */
#ifndef ROUTERD_TESTS_CHECK_H
#define ROUTERD_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "replay/build.h"
#include "replay/replay.h"

static inline void replay_fail_cmocka(const char *file, int line, const char *text)
{
	print_error("%s:%d: %s\n", file, line, text);
	_fail(file, line);
}

static inline void inject_build(struct replay *r, const struct build *b)
{
	static uint8_t bytes[BUILD_MAX];

	assert_true(replay_inject(r, b->port, bytes, build(b, bytes)));
}

static inline void print_verdicts(const struct replay *r, unsigned port)
{
	for (unsigned v = 0; v < VERDICT_COUNT; v++)
		if (replay_count(r, port, v))
			print_error("port %u: %s %lu\n", port, verdict_info[v].label, replay_count(r, port, v));
}

/* The packet twice in one batch: the first of a batch and those after it go different ways through the stages. What
 * became of them is known from the counters: exactly @v, both times, with their lengths. */
static inline void expect_bytes(struct replay *r, unsigned port, const uint8_t *bytes, uint32_t length, enum verdict v)
{
	uint64_t before = replay_count(r, port, v), before_bytes = replay_count_bytes(r, port, v);
	uint32_t delivered = memory_port_delivered(r->ports[port])->count;

	assert_true(replay_inject(r, port, bytes, length));
	assert_true(replay_inject(r, port, bytes, length));
	replay_run(r);
	if (replay_count(r, port, v) != before + 2)
		print_verdicts(r, port);
	assert_int_equal(replay_count(r, port, v), before + 2);
	assert_int_equal(replay_count_bytes(r, port, v), before_bytes + 2 * length);
	if (verdict_class(v) != VERDICT_CLASS_KERNEL)
		return;
	for (unsigned i = 0; i < 2; i++) {
		const struct memory_packet *p = replay_delivered(r, port, delivered + i);

		/* As received, to the byte, padding included. */
		assert_int_equal(p->length, length);
		assert_memory_equal(p->bytes, bytes, length);
	}
}

static inline void expect_verdict(struct replay *r, const struct build *b, enum verdict v)
{
	static uint8_t bytes[BUILD_MAX];

	expect_bytes(r, b->port, bytes, build(b, bytes), v);
}

/* The packet leaves by interface @out with the MAC @dst_mac, changed only where it must be. */
static inline void expect_forwarded(struct replay *r, const struct build *b, uint16_t out, const uint8_t *dst_mac)
{
	static uint8_t bytes[BUILD_MAX], wanted[BUILD_MAX];
	uint32_t length = build(b, bytes), n, sent;
	struct fib_iface i;

	replay_iface(r, out, &i);
	sent = memory_port_sent(r->ports[i.port], 0)->count;
	n = build_forwarded(bytes, wanted, dst_mac, i.mac, i.vlan,
		i.vlan ? (uint16_t)(i.vlan_proto << 8 | i.vlan_proto >> 8) : 0);
	expect_bytes(r, b->port, bytes, length, VERDICT_FORWARD);
	for (unsigned k = 0; k < 2; k++) {
		const struct memory_packet *p = replay_sent(r, i.port, sent + k);

		assert_int_equal(p->length, n);
		assert_memory_equal(p->bytes, wanted, n);
	}
}

#endif
