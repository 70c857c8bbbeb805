/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_valid(unsigned workers, const struct plan_port *p)
{
	if (!p->txq_count || p->txq_count > PORT_QUEUES_MAX || p->rxq_count > PORT_QUEUES_MAX)
		return false;
	for (unsigned i = 0; i < p->rxq_count; i++)
		if (p->rx_worker[i] != PLAN_NO_WORKER && p->rx_worker[i] >= workers)
			return false;
	return true;
}

/* The worker with the fewest receive queues; among equals the one with the fewest on this port, then the first. */
static unsigned least_loaded(unsigned workers, const unsigned *load, const unsigned *on_port)
{
	unsigned best = 0;

	for (unsigned w = 1; w < workers; w++)
		if (load[w] < load[best] || (load[w] == load[best] && on_port[w] < on_port[best]))
			best = w;
	return best;
}

static void spread_receive(unsigned workers, struct plan_port *p, unsigned *load)
{
	unsigned on_port[WORKERS_MAX] = { 0 };

	for (unsigned q = 0; q < p->rxq_count; q++)
		if (p->rx_worker[q] != PLAN_NO_WORKER)
			on_port[p->rx_worker[q]]++;
	for (unsigned q = 0; q < p->rxq_count; q++) {
		unsigned w;

		if (p->rx_worker[q] != PLAN_NO_WORKER)
			continue;
		w = least_loaded(workers, load, on_port);
		p->rx_worker[q] = (uint8_t)w;
		load[w]++;
		on_port[w]++;
	}
}

/* The least used transmit queue at or under @limit users, preferring those the worker receives by; -1 = none. */
static int choose_transmit(const struct plan_port *p, unsigned worker, unsigned limit)
{
	int best = -1;

	for (unsigned q = 0; q < p->txq_count; q++) {
		if (p->tx_users[q] >= limit)
			continue;
		if (q < p->rxq_count && p->rx_worker[q] == worker)
			return (int)q;
		if (best < 0 || p->tx_users[q] < p->tx_users[best])
			best = (int)q;
	}
	return best;
}

static bool receives_by_transmit_queue(const struct plan_port *p, unsigned worker)
{
	for (unsigned q = 0; q < p->rxq_count && q < p->txq_count; q++)
		if (p->rx_worker[q] == worker)
			return true;
	return false;
}

/* First those who have a queue of their own to prefer, so that nobody else takes it from them. */
static void assign_transmit(unsigned workers, struct plan_port *p)
{
	unsigned limit = (workers + p->txq_count - 1) / p->txq_count;

	memset(p->tx_users, 0, sizeof(p->tx_users));
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned w = 0; w < workers; w++) {
			int q;

			if (receives_by_transmit_queue(p, w) != (round == 0))
				continue;
			q = choose_transmit(p, w, limit);
			p->worker_tx[w] = (uint16_t)q;
			p->tx_users[q]++;
		}
	}
}

static void explain(unsigned workers, struct plan_port *p)
{
	unsigned used = 0;

	p->rung = PORT_TXQ_EXCLUSIVE;
	for (unsigned q = 0; q < p->txq_count; q++) {
		used += p->tx_users[q] > 0;
		if (p->tx_users[q] > 1)
			p->rung = PORT_TXQ_SHARED;
	}
	if (p->rung == PORT_TXQ_EXCLUSIVE)
		snprintf(p->reason, sizeof(p->reason), "each of %u worker%s has one of %u transmit queue%s to itself", workers,
			workers == 1 ? "" : "s", p->txq_count, p->txq_count == 1 ? "" : "s");
	else
		snprintf(p->reason, sizeof(p->reason), "%u workers share %u transmit queue%s under a lock each; "
			"\"ethtool -L %s combined %u\" (or tx %u) or [router] workers = %u gives each its own", workers, used,
			used == 1 ? "" : "s", p->name, workers, workers, p->txq_count);
}

int plan_make(unsigned workers, struct plan_port *ports, unsigned count)
{
	unsigned load[WORKERS_MAX] = { 0 };

	if (!workers || workers > WORKERS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++)
		if (!is_valid(workers, &ports[i]))
			return -EINVAL;
	for (unsigned i = 0; i < count; i++)
		for (unsigned q = 0; q < ports[i].rxq_count; q++)
			if (ports[i].rx_worker[q] != PLAN_NO_WORKER)
				load[ports[i].rx_worker[q]]++;
	for (unsigned i = 0; i < count; i++) {
		spread_receive(workers, &ports[i], load);
		assign_transmit(workers, &ports[i]);
		explain(workers, &ports[i]);
	}
	return 0;
}
