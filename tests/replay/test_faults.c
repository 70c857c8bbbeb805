/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the device does wrong, and what runs out: full rings, late, lost, doubled, reordered and foreign completions, no
 * frames, ports that close under load, several workers on one queue. The books balance after each.
 */
#include "replay/check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void inject_n(struct replay *r, unsigned n, uint32_t first_id)
{
	for (unsigned i = 0; i < n; i++)
		inject_build(r, &(struct build){ .id = (uint16_t)(first_id + i) });
}

/* A batch larger than the ring: kicked and reaped once, the rest offered again; what is left then is dropped, counted,
 * and its frames are free. The order stays. */
static void test_full_batch(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .tx_size = 8, .completion_size = 8 });

	inject_n(r, 64, 0);
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 16);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_TX_FULL), 48);
	assert_int_equal(counter_read(&r->ports[1]->txqs[0].kicks), 2);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(load_be16(replay_sent(r, 1, i)->bytes + 18), i);
	assert_int_equal(replay_place(r, FRAME_TX), 0);
	replay_finish(r);
}

/* The completion ring is full of what nobody reaped: the reap in between lets the device go on. */
static void test_full_then_reap(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .tx_size = 32, .completion_size = 32 });
	struct packet packets[BATCH_SIZE];

	for (unsigned i = 0; i < 3; i++) {
		inject_n(r, 32, i * 32);
		pipeline_run(&r->pipelines[0], packets,
			r->ports[0]->ops->rx_burst(&r->ports[0]->rxqs[0], packets, BATCH_SIZE));
	}
	/* At the third batch 32 have completed and 32 wait in the ring: reap, kick, and there is room. */
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 96);
	for (unsigned i = 0; i < 4; i++)
		replay_step(r, NS_PER_MS);
	assert_int_equal(replay_sent_count(r, 1), 96);
	for (uint32_t i = 0; i < replay_sent_count(r, 1); i++)
		assert_int_equal(load_be16(replay_sent(r, 1, i)->bytes + 18), i);
	replay_finish(r);
}

/* A packet of more segments than there is room for does not go in part. */
static void test_full_segments(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .tx_size = 4 });
	static uint8_t bytes[BUILD_MAX];
	uint32_t length = build(&(struct build){ .payload = 400 }, bytes);
	const uint32_t lengths[3] = { 100, 100, length - 200 };

	memory_port_faults(r->ports[1])->stuck = true;
	assert_true(replay_inject_segments(r, 0, bytes, lengths, 3));
	assert_true(replay_inject_segments(r, 0, bytes, lengths, 3));
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 1);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_TX_FULL), 1);
	assert_int_equal(replay_place(r, FRAME_TX), 3);
	memory_port_faults(r->ports[1])->stuck = false;
	replay_run(r);
	assert_memory_equal(replay_sent(r, 1, 0)->bytes + 14 + 20, bytes + 14 + 20, length - 34);
	replay_finish(r);
}

static void test_late(void **state)
{
	struct replay *r = replay_new(NULL);
	struct memory_faults *f = memory_port_faults(r->ports[1]);

	f->late = 10;
	f->late_ns = 3 * NS_PER_S;
	inject_n(r, 30, 0);
	replay_run(r);
	assert_int_equal(replay_place(r, FRAME_TX), 10);
	replay_check_books(r);
	replay_step(r, 2 * NS_PER_S);
	assert_int_equal(replay_place(r, FRAME_TX), 10);
	replay_step(r, 2 * NS_PER_S);
	assert_int_equal(replay_place(r, FRAME_TX), 0);
	assert_int_equal(counter_read(&r->ports[1]->txqs[0].completed), 30);
	replay_finish(r);
}

/* A lost completion keeps its frame in flight for ever: it is not used again on a guess. */
static void test_lost(void **state)
{
	struct replay *r = replay_new(NULL);

	memory_port_faults(r->ports[1])->lose = 5;
	inject_n(r, 20, 0);
	replay_run(r);
	replay_step(r, 600 * NS_PER_S);
	assert_int_equal(replay_place(r, FRAME_TX), 5);
	assert_int_equal(counter_read(&r->ports[1]->txqs[0].in_flight), 5);
	replay_check_books(r);
	/* It comes after all. */
	memory_port_release(r->ports[1]);
	replay_run(r);
	assert_int_equal(replay_place(r, FRAME_TX), 0);
	/* And once more, but the port closes first. */
	memory_port_faults(r->ports[1])->lose = 5;
	inject_n(r, 20, 0);
	replay_run(r);
	replay_finish(r);
}

/* Doubled, and naming a frame that is elsewhere: counted, ignored. */
static void test_bogus(void **state)
{
	struct replay *r = replay_new(NULL);
	struct memory_faults *f = memory_port_faults(r->ports[1]);
	struct port_txq *q = &r->ports[1]->txqs[0];
	uint32_t fill = FRAME_NONE;

	f->twice = 7;
	inject_n(r, 20, 0);
	replay_run(r);
	assert_int_equal(counter_read(&q->bogus_completions), 7);
	assert_int_equal(counter_read(&q->completed), 20);
	for (uint32_t i = 0; i < r->table.count; i++)
		if (frame_get_place(&r->table.frames[i]) == FRAME_FILL)
			fill = i;
	f->foreign = 3;
	f->foreign_frame = fill;
	inject_n(r, 20, 0);
	replay_run(r);
	assert_int_equal(counter_read(&q->bogus_completions), 10);
	f->foreign = 2;
	f->foreign_frame = r->table.count;
	inject_n(r, 2, 0);
	replay_run(r);
	f->foreign = 1;
	f->foreign_frame = UINT32_MAX;
	inject_n(r, 2, 0);
	replay_run(r);
	assert_int_equal(counter_read(&q->bogus_completions), 13);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 44);
	replay_finish(r);
}

/* A frame in flight on one port, named by another port's completion ring, stays in flight. */
static void test_foreign_queue(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });
	uint32_t frame = FRAME_NONE;

	memory_port_faults(r->ports[1])->lose = 1;
	inject_n(r, 1, 0);
	replay_run(r);
	for (uint32_t i = 0; i < r->table.count; i++)
		if (frame_get_place(&r->table.frames[i]) == FRAME_TX)
			frame = i;
	assert_int_not_equal(frame, FRAME_NONE);
	memory_port_faults(r->ports[2])->foreign = 1;
	memory_port_faults(r->ports[2])->foreign_frame = frame;
	inject_build(r, &(struct build){ .dst = "10.0.2.2" });
	replay_run(r);
	assert_int_equal(frame_get_place(&r->table.frames[frame]), FRAME_TX);
	assert_int_equal(counter_read(&r->ports[2]->txqs[0].bogus_completions), 1);
	replay_finish(r);
}

static void test_reordered(void **state)
{
	struct replay *r = replay_new(NULL);

	memory_port_faults(r->ports[1])->reorder = true;
	inject_n(r, 64, 0);
	replay_run(r);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(load_be16(replay_sent(r, 1, i)->bytes + 18), i);
	assert_int_equal(replay_place(r, FRAME_TX), 0);
	replay_finish(r);
}

/* The completion ring is smaller than what completes: the rest follows when there is room. */
static void test_completion_ring_full(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .completion_size = 8 });

	inject_n(r, 60, 0);
	replay_run(r);
	for (unsigned i = 0; i < 20; i++)
		replay_step(r, NS_PER_MS);
	assert_int_equal(replay_place(r, FRAME_TX), 0);
	assert_int_equal(counter_read(&r->ports[1]->txqs[0].completed), 60);
	replay_finish(r);
}

/* All frames are in flight: the fill ring runs dry, the device drops (not we), and it goes on when they come back. */
static void test_exhaustion(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .frames = 64, .fill_size = 64, .ports = 2 });
	static uint8_t bytes[BUILD_MAX];
	uint32_t length = build(&(struct build){ 0 }, bytes);
	struct port_kernel_stats stats;
	unsigned taken = 0;

	memory_port_faults(r->ports[1])->lose = 1000;
	for (unsigned i = 0; i < 200; i++) {
		taken += replay_inject(r, 0, bytes, length);
		replay_step(r, 0);
	}
	assert_int_equal(taken, 64);
	assert_int_equal(replay_place(r, FRAME_TX), 64);
	assert_true(counter_read(&r->ports[0]->rxqs[0].refill_short) > 0);
	r->ports[0]->ops->kernel_stats(r->ports[0], 0, &stats);
	assert_int_equal(stats.rx_fill_ring_empty, 200 - taken);
	replay_check_books(r);
	memory_port_faults(r->ports[1])->lose = 0;
	memory_port_release(r->ports[1]);
	replay_step(r, 0);
	replay_step(r, 0);
	assert_true(replay_inject(r, 0, bytes, length));
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 65);
	replay_finish(r);
}

/* Link down and up under traffic: exact counts, no frame is lost. */
static void test_link_flaps(void **state)
{
	struct replay *r = replay_new(NULL);

	for (unsigned i = 0; i < 10; i++) {
		memory_port_set_carrier(r->ports[1], i & 1);
		inject_n(r, 50, 0);
		replay_run(r);
	}
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 250);
	assert_int_equal(replay_count(r, 0, VERDICT_DROP_LINK_DOWN), 250);
	replay_finish(r);
}

/* A capture holds a second reference of a frame that is sent: it comes home at the last put. */
static void test_second_holder(void **state)
{
	struct replay *r = replay_new(NULL);
	uint32_t frame = FRAME_NONE;

	memory_port_faults(r->ports[1])->stuck = true;
	inject_n(r, 1, 0);
	replay_run(r);
	for (uint32_t i = 0; i < r->table.count; i++)
		if (frame_get_place(&r->table.frames[i]) == FRAME_TX)
			frame = i;
	frame_get(&r->table, frame);
	memory_port_faults(r->ports[1])->stuck = false;
	replay_run(r);
	assert_int_equal(frame_get_place(&r->table.frames[frame]), FRAME_HELD);
	r->held = 1;
	replay_check_books(r);
	r->held = 0;
	frame_put(&r->caches[0], r->cache_list, frame);
	replay_finish(r);
}

/* A port closes with packets in every ring; the others go on. */
static void test_close_under_load(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = 3 });
	struct port *p = r->ports[1];

	memory_port_faults(p)->lose = 5;
	inject_n(r, 20, 0);
	replay_step(r, 0);
	memory_port_faults(p)->stuck = true;
	inject_n(r, 20, 0);
	replay_step(r, 0);
	inject_build(r, &(struct build){ .port = 1, .src = "10.0.1.2", .dst = "10.0.0.2" });
	r->injected[1] = 0;
	/* The books of a port that is gone are closed with it. */
	p->ops->close(p);
	r->ports[1] = NULL;
	frame_collect(&r->caches[0]);
	assert_int_equal(replay_place(r, FRAME_TX), 0);
	inject_n(r, 10, 0);
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 40);
	assert_int_equal(replay_count(r, 0, VERDICT_KERNEL_OTHER_DEVICE), 10);
	/* That a forwarded packet left cannot be seen any more: leave it out of the final check. */
	r->discard = true;
	replay_finish(r);
}

/* Two workers step by step: frames of one are sent by its own queue and come home to it. */
static void test_two_workers(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .workers = 2, .txqs = 1, .rung = PORT_TXQ_SHARED });
	static uint8_t bytes[BUILD_MAX];
	uint32_t length = build(&(struct build){ 0 }, bytes);

	for (unsigned i = 0; i < 300; i++) {
		assert_true(replay_inject_queue(r, 0, i & 1, bytes, length));
		if (i % 50 == 49)
			replay_run(r);
	}
	replay_run(r);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD), 300);
	assert_true(counter_read(&r->pipelines[0].stats->ports[0].verdicts[VERDICT_FORWARD].packets) == 150);
	replay_finish(r);
}

/* Public bug 10: several threads send by one queue while each reaps; a producer thread per receive queue. */
#define THREADS 3
#define PACKETS 20000

struct thread_arg {
	struct replay *r;
	unsigned worker;
	uint32_t received;
};

static void *worker_thread(void *p)
{
	struct thread_arg *a = p;
	unsigned idle = 0;

	a->r->pipelines[a->worker].now_ns = a->r->now_ns;
	while (a->received < PACKETS && idle < 50000000) {
		unsigned n = replay_step_worker(a->r, a->worker);

		a->received += n;
		idle = n ? 0 : idle + 1;
		if (!n)
			sched_yield();
	}
	return NULL;
}

/* Flow = worker; the id counts up, so that order can be seen. */
static void *producer_thread(void *p)
{
	struct thread_arg *a = p;
	uint8_t *bytes = malloc(BUILD_MAX);
	uint32_t sent = 0;

	while (sent < PACKETS) {
		uint32_t length = build(&(struct build){ .id = (uint16_t)sent, .sport = (uint16_t)(100 + a->worker) }, bytes);

		if (memory_port_inject(a->r->ports[0], a->worker, bytes, length) == 0)
			sent++;
		else
			sched_yield();
	}
	free(bytes);
	return NULL;
}

static void test_threads_share_queue(void **state)
{
	struct replay *r = replay_new(&(struct replay_options){ .workers = THREADS, .txqs = 1,
		.rung = PORT_TXQ_SHARED, .tx_size = 1024, .completion_size = 1024, .frames = 600, .fill_size = 128 });
	pthread_t threads[2 * THREADS];
	struct thread_arg args[THREADS];
	uint32_t next[THREADS] = { 0 }, full;

	for (unsigned i = 0; i < THREADS; i++) {
		args[i] = (struct thread_arg){ r, i, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, worker_thread, &args[i]), 0);
		assert_int_equal(pthread_create(&threads[THREADS + i], NULL, producer_thread, &args[i]), 0);
	}
	for (unsigned i = 0; i < 2 * THREADS; i++)
		pthread_join(threads[i], NULL);
	r->injected[0] = THREADS * PACKETS;
	replay_run(r);
	full = (uint32_t)replay_count(r, 0, VERDICT_DROP_TX_FULL);
	assert_int_equal(replay_count(r, 0, VERDICT_FORWARD) + full, THREADS * PACKETS);
	for (uint32_t i = 0; i < replay_sent_count(r, 1); i++) {
		const uint8_t *bytes = replay_sent(r, 1, i)->bytes;
		unsigned flow = load_be16(bytes + 34) - 100u;
		uint32_t id = load_be16(bytes + 18);

		assert_true(flow < THREADS);
		/* None twice, none out of order; gaps only for packets counted as dropped. */
		assert_true(id >= next[flow]);
		assert_true(full || id == next[flow]);
		next[flow] = id + 1;
	}
	replay_finish(r);
}

static int inject_from_file(void *ctx, const uint8_t *bytes, uint32_t length)
{
	return replay_inject(ctx, 0, bytes, length) ? 0 : -1;
}

/* pcap out, pcap in: the same bytes. */
static void test_pcap(void **state)
{
	char path[] = "/tmp/routerd-replay-XXXXXX";
	struct replay *r = replay_new(NULL), *s = replay_new(NULL);
	static uint8_t bytes[BUILD_MAX];
	FILE *f;

	close(mkstemp(path));
	for (uint32_t i = 0; i < 20; i++) {
		inject_build(r, &(struct build){ .dst = "10.0.0.1", .payload = i * 50 });
		replay_step(r, NS_PER_MS);
	}
	replay_run(r);
	assert_int_equal(memory_pcap_write(path, memory_port_delivered(r->ports[0])), 0);
	assert_int_equal(memory_pcap_read(path, inject_from_file, s), 0);
	replay_run(s);
	assert_int_equal(replay_count(s, 0, VERDICT_KERNEL_LOCAL), 20);
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t length = build(&(struct build){ .dst = "10.0.0.1", .payload = i * 50 }, bytes);

		assert_int_equal(replay_delivered(s, 0, i)->length, length);
		assert_memory_equal(replay_delivered(s, 0, i)->bytes, bytes, length);
	}
	/* Not a pcap file, and one that is cut off. */
	f = fopen(path, "r+");
	assert_int_equal(ftruncate(fileno(f), 24 + 16 + 10), 0);
	assert_int_equal(memory_pcap_read(path, inject_from_file, s), -EINVAL);
	fputs("nonsense", f);
	fclose(f);
	assert_int_equal(memory_pcap_read(path, inject_from_file, s), -EINVAL);
	unlink(path);
	assert_int_equal(memory_pcap_read(path, inject_from_file, s), -ENOENT);
	replay_finish(r);
	replay_finish(s);
}

static void test_open_errors(void **state)
{
	struct replay *r = replay_new(NULL);
	struct port *p = NULL;
	struct memory_port_options o = { .name = "x", .number = 9, .frames = &r->table, .caches = r->cache_list };

	o.tx_size = 100;
	assert_int_equal(memory_port_open(&o, &p), -EINVAL);
	o.tx_size = 0;
	o.number = PORT_MAX;
	assert_int_equal(memory_port_open(&o, &p), -EINVAL);
	assert_null(p);
	assert_int_equal(memory_port_inject(r->ports[0], 9, "", 0), -EINVAL);
	assert_int_equal(memory_port_inject(r->ports[0], 0, "", 4000), -EMSGSIZE);
	replay_finish(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_batch),
		cmocka_unit_test(test_full_then_reap),
		cmocka_unit_test(test_full_segments),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_bogus),
		cmocka_unit_test(test_foreign_queue),
		cmocka_unit_test(test_reordered),
		cmocka_unit_test(test_completion_ring_full),
		cmocka_unit_test(test_exhaustion),
		cmocka_unit_test(test_link_flaps),
		cmocka_unit_test(test_second_holder),
		cmocka_unit_test(test_close_under_load),
		cmocka_unit_test(test_two_workers),
		cmocka_unit_test(test_threads_share_queue),
		cmocka_unit_test(test_pcap),
		cmocka_unit_test(test_open_errors),
	};

	replay_fail = replay_fail_cmocka;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
