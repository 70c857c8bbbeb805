/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The packet memory and its ledger: both books agree while frames move as they should, and each kind of mistake (lost,
 * doubled, in the wrong place) shows. Also quarantine and late frames. Queues are only numbers here.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "port/ledger.h"
#include "port/umem.h"

#define WORKERS 2
#define HOME 256u
#define RX 5
#define TX 7

static struct packet_memory *m;
static struct port_rxq rxq;
static struct port_txq txq;
static struct port port = { .rxq_count = 1, .txq_count = 1, .rxqs = &rxq, .txqs = &txq };

static int set_up(void **state)
{
	struct error e = { 0 };

	(void)state;
	memset(&rxq, 0, sizeof(rxq));
	memset(&txq, 0, sizeof(txq));
	return packet_memory_new(WORKERS * HOME * 2048, 2048, WORKERS, &m, &e);
}

static int tear_down(void **state)
{
	(void)state;
	packet_memory_free(m);
	return 0;
}

static struct ledger count(void)
{
	struct ledger l;

	ledger_count_records(&l, &m->table);
	for (unsigned w = 0; w < WORKERS; w++) {
		ledger_add_free(&l, m->caches[w]->count);
		ledger_add_returning(&l, m->caches[w]);
	}
	ledger_add_port(&l, &port);
	ledger_add_quarantine(&l, packet_memory_quarantined(m));
	ledger_close(&l);
	return l;
}

static void assert_balanced(void)
{
	struct ledger l = count();

	assert_int_equal(l.difference, 0);
	assert_true(l.balanced);
}

/* What a driver does when it refills: worker 0, @n frames. */
static void fill(unsigned n)
{
	uint32_t out[HOME];

	assert_int_equal(frame_alloc_fill(m->caches[0], RX, out, n), n);
	counter_add(&rxq.in_fill, n);
}

/* ... and when worker 0 sends a frame of its own. */
static uint32_t send_frame(uint32_t submit_ms)
{
	uint32_t index = frame_alloc(m->caches[0]);

	assert_int_not_equal(index, FRAME_NONE);
	m->table.frames[index].submit_ms = submit_ms;
	frame_set_place(&m->table.frames[index], FRAME_TX, TX);
	counter_add(&txq.in_flight, 1);
	return index;
}

static void test_memory(void **state)
{
	(void)state;
	assert_int_equal(m->table.count, WORKERS * HOME);
	assert_int_equal(m->size, (size_t)WORKERS * HOME * 2048);
	assert_int_equal(fcntl(m->memfd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal((uintptr_t)m->table.memory % 4096, 0);
	assert_int_equal(packet_memory_home(m), HOME);
	for (uint32_t i = 0; i < m->table.count; i++)
		assert_int_equal(m->table.frames[i].home, i / HOME);
	assert_balanced();
}

static void test_bad_memory(void **state)
{
	struct packet_memory *none = NULL;
	struct error e = { 0 };

	(void)state;
	assert_int_equal(packet_memory_new(1 << 20, 2048, 32, &none, &e), -EINVAL);
	assert_non_null(strstr(e.text, "[memory] size"));
	assert_int_equal(packet_memory_new(1 << 20, 1024, 1, &none, &e), -EINVAL);
	assert_int_equal(packet_memory_new(1 << 20, 2048, 0, &none, &e), -EINVAL);
	assert_null(none);
}

static void test_moves(void **state)
{
	uint32_t index;
	struct ledger l;

	(void)state;
	fill(100);
	index = send_frame(0);
	assert_balanced();
	l = count();
	assert_int_equal(l.records[FRAME_FILL], 100);
	assert_int_equal(l.records[FRAME_TX], 1);
	assert_int_equal(l.records[FRAME_FREE], WORKERS * HOME - 101);
	/* Another worker reaps it: it is on its way home. */
	frame_put(m->caches[1], m->caches, index);
	counter_add(&txq.in_flight, -1ull);
	l = count();
	assert_int_equal(l.records[FRAME_RETURNING], 1);
	assert_int_equal(l.containers[FRAME_RETURNING], 1);
	assert_true(l.balanced);
	assert_int_equal(frame_collect(m->caches[0]), 1);
	assert_balanced();
}

/* A frame that a driver forgot: no holder counts it. */
static void test_lost(void **state)
{
	struct ledger l;

	(void)state;
	send_frame(0);
	counter_add(&txq.in_flight, -1ull);
	l = count();
	assert_int_equal(l.difference, 1);
	assert_false(l.balanced);
}

/* A completion that was believed twice. */
static void test_doubled(void **state)
{
	uint32_t index = send_frame(0);
	struct ledger l;

	(void)state;
	fill(1);  /* makes room in the cache for one too many */
	frame_put(m->caches[0], m->caches, index);
	counter_add(&txq.in_flight, -1ull);
	m->caches[0]->stack[m->caches[0]->count++] = index;
	l = count();
	assert_int_equal(l.difference, -1);
	assert_false(l.balanced);
}

/* The totals agree, the places do not. */
static void test_wrong_place(void **state)
{
	struct ledger l;

	(void)state;
	send_frame(0);
	counter_add(&txq.in_flight, -1ull);
	counter_add(&rxq.in_fill, 1);
	l = count();
	assert_int_equal(l.difference, 0);
	assert_false(l.balanced);
}

static struct quarantine *new_quarantine(void)
{
	struct quarantine *q = calloc(1, sizeof(*q));

	assert_non_null(q);
	q->ifindex = 0x7ffffff0;  /* no such device: nobody holds the queue */
	q->queue_id = 3;
	return q;
}

static void test_quarantine(void **state)
{
	uint64_t now = clock_now_ns();
	uint32_t other = frame_alloc(m->caches[0]);
	struct ledger l;

	(void)state;
	if (geteuid() != 0)
		skip();  /* asking whether a queue is free takes CAP_NET_RAW */
	fill(20);
	for (unsigned i = 0; i < 5; i++)
		send_frame(0);
	frame_set_place(&m->table.frames[other], FRAME_TX, TX + 1);  /* another queue's */
	assert_int_equal(packet_memory_quarantine(m, new_quarantine(), RX, TX, now), 25);
	rxq.in_fill.value = 0;
	txq.in_flight.value = 1;  /* stands for the other queue */
	l = count();
	assert_int_equal(l.records[FRAME_QUARANTINE], 25);
	assert_true(l.balanced);
	assert_int_equal(packet_memory_release(m, 0, 0), 0);
	l = count();
	assert_int_equal(l.records[FRAME_RETURNING], 25);
	assert_true(l.balanced);
	assert_int_equal(frame_collect(m->caches[0]), 25);
	assert_balanced();
	/* They are whole again. */
	for (unsigned i = 0; i < HOME - 1; i++)
		assert_int_not_equal(frame_alloc(m->caches[0]), FRAME_NONE);
	assert_int_equal(frame_alloc(m->caches[0]), FRAME_NONE);
}

/* A queue that never had numbers takes nothing, also not the frames that have none. */
static void test_quarantine_nothing(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	fill(3);
	assert_int_equal(packet_memory_quarantine(m, new_quarantine(), FRAME_NO_QUEUE, FRAME_NO_QUEUE, 0), 0);
	assert_int_equal(packet_memory_release(m, 0, 0), 0);
	assert_balanced();
}

/* Each frame is late once, however often one looks. The clock of 32 bits wraps. */
static void test_late(void **state)
{
	struct ledger_late late[TX + 1];
	uint32_t start = UINT32_MAX - 500;

	(void)state;
	send_frame(start);
	ledger_find_late(&m->table, start + 999, 1000, late, TX + 1);
	assert_int_equal(late[TX].crossed, 0);
	ledger_find_late(&m->table, start + 1999, 1000, late, TX + 1);
	assert_int_equal(late[TX].crossed, 1);
	assert_int_equal(late[TX].stuck, 0);
	ledger_find_late(&m->table, start + 2999, 1000, late, TX + 1);
	assert_int_equal(late[TX].crossed, 0);
	ledger_find_late(&m->table, start + 5000, 1000, late, TX + 1);
	assert_int_equal(late[TX].stuck, 1);
	/* Submitted after the clock was read. */
	ledger_find_late(&m->table, start - 1, 1000, late, TX + 1);
	assert_int_equal(late[TX].crossed + late[TX].stuck, 0);
	/* A queue number beyond the table is passed over. */
	ledger_find_late(&m->table, start + 5000, 1000, late, TX);
	assert_int_equal(late[0].stuck, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
		cmocka_unit_test(test_bad_memory),
		cmocka_unit_test_setup_teardown(test_moves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_doubled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wrong_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_quarantine, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_quarantine_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
