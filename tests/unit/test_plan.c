/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The queue plan: its properties over random inputs (the seed is printed), and a few plans by hand.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "port/plan.h"

#define ROUNDS 3000
#define PORTS 12

static void init_port(struct plan_port *p, unsigned rx, unsigned tx)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "eth%u", rx);
	p->rxq_count = (uint16_t)rx;
	p->txq_count = (uint16_t)tx;
	memset(p->rx_worker, PLAN_NO_WORKER, sizeof(p->rx_worker));
}

static void load_of(const struct plan_port *ports, unsigned count, unsigned *load)
{
	memset(load, 0, sizeof(*load) * WORKERS_MAX);
	for (unsigned i = 0; i < count; i++)
		for (unsigned q = 0; q < ports[i].rxq_count; q++)
			load[ports[i].rx_worker[q]]++;
}

static void assert_balanced(const unsigned *load, unsigned workers)
{
	unsigned least = load[0], most = load[0];

	for (unsigned w = 1; w < workers; w++) {
		least = load[w] < least ? load[w] : least;
		most = load[w] > most ? load[w] : most;
	}
	assert_true(most - least <= 1);
}

/* A way out of every port for every worker; users counted right; exclusive if and only if nobody shares. */
static void assert_transmit(const struct plan_port *p, unsigned workers)
{
	unsigned users[PORT_QUEUES_MAX] = { 0 }, limit = (workers + p->txq_count - 1) / p->txq_count;
	bool shared = false;

	for (unsigned w = 0; w < workers; w++) {
		assert_true(p->worker_tx[w] < p->txq_count);
		users[p->worker_tx[w]]++;
	}
	for (unsigned q = 0; q < p->txq_count; q++) {
		assert_int_equal(users[q], p->tx_users[q]);
		assert_true(users[q] <= limit);
		shared = shared || users[q] > 1;
	}
	assert_int_equal(p->rung, shared ? PORT_TXQ_SHARED : PORT_TXQ_EXCLUSIVE);
	assert_int_equal(shared, workers > p->txq_count);
	assert_true(p->reason[0] != '\0');
	if (shared)
		assert_non_null(strstr(p->reason, "ethtool -L"));
}

static void test_properties(void **state)
{
	unsigned seed = (unsigned)time(NULL);

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct plan_port ports[PORTS];
		unsigned load[WORKERS_MAX], workers = 1 + (unsigned)rand() % WORKERS_MAX;
		unsigned count = (unsigned)rand() % PORTS;

		for (unsigned i = 0; i < count; i++)
			init_port(&ports[i], (unsigned)rand() % (PORT_QUEUES_MAX + 1), 1 + (unsigned)rand() % PORT_QUEUES_MAX);
		assert_int_equal(plan_make(workers, ports, count), 0);
		load_of(ports, count, load);
		for (unsigned w = workers; w < WORKERS_MAX; w++)
			assert_int_equal(load[w], 0);
		assert_balanced(load, workers);
		for (unsigned i = 0; i < count; i++)
			assert_transmit(&ports[i], workers);
	}
}

/* Ports come and go: those that stay keep their queues, and the plan of what stays is the same plan. */
static void test_kept_queues(void **state)
{
	struct plan_port ports[3], before[3];
	unsigned load[WORKERS_MAX];

	(void)state;
	init_port(&ports[0], 2, 2);
	init_port(&ports[1], 4, 4);
	assert_int_equal(plan_make(3, ports, 2), 0);
	memcpy(before, ports, sizeof(ports));
	init_port(&ports[2], 3, 1);
	assert_int_equal(plan_make(3, ports, 3), 0);
	assert_memory_equal(before, ports, 2 * sizeof(ports[0]));
	load_of(ports, 3, load);
	assert_balanced(load, 3);
	/* The first one goes: what comes fills the gap. */
	init_port(&ports[0], 2, 2);
	assert_int_equal(plan_make(3, ports, 3), 0);
	load_of(ports, 3, load);
	assert_balanced(load, 3);
	assert_memory_equal(before[1].rx_worker, ports[1].rx_worker, 4);
}

/* Two ports of two queues for two workers: each receives on one queue of each port and sends by the same one. */
static void test_affinity(void **state)
{
	struct plan_port ports[2];

	(void)state;
	init_port(&ports[0], 2, 2);
	init_port(&ports[1], 2, 2);
	assert_int_equal(plan_make(2, ports, 2), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_not_equal(ports[i].rx_worker[0], ports[i].rx_worker[1]);
		for (unsigned q = 0; q < 2; q++)
			assert_int_equal(ports[i].worker_tx[ports[i].rx_worker[q]], q);
	}
}

/* virtio-net with a program attached: more receive than transmit queues (afxdp-drivers 8, 25). */
static void test_scarce_transmit(void **state)
{
	struct plan_port p;

	(void)state;
	init_port(&p, 4, 2);
	assert_int_equal(plan_make(4, &p, 1), 0);
	assert_int_equal(p.rung, PORT_TXQ_SHARED);
	assert_int_equal(p.tx_users[0], 2);
	assert_int_equal(p.tx_users[1], 2);
}

static void test_bad_input(void **state)
{
	struct plan_port p, before;

	(void)state;
	init_port(&p, 2, 2);
	before = p;
	assert_int_equal(plan_make(0, &p, 1), -EINVAL);
	assert_int_equal(plan_make(WORKERS_MAX + 1, &p, 1), -EINVAL);
	assert_memory_equal(&p, &before, sizeof(p));
	p.txq_count = 0;
	assert_int_equal(plan_make(1, &p, 1), -EINVAL);
	p.txq_count = PORT_QUEUES_MAX + 1;
	assert_int_equal(plan_make(1, &p, 1), -EINVAL);
	init_port(&p, 2, 2);
	p.rx_worker[1] = 3;
	assert_int_equal(plan_make(3, &p, 1), -EINVAL);
	assert_int_equal(plan_make(1, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_kept_queues),
		cmocka_unit_test(test_affinity),
		cmocka_unit_test(test_scarce_transmit),
		cmocka_unit_test(test_bad_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
