/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Ports: what routerctl and the metrics show. Reads only.
 */
#include <stdio.h>
#include <string.h>

#include "control/ports_impl.h"

void ports_foreach(const struct ports *p, void (*fn)(void *ctx, uint16_t number), void *ctx)
{
	for (unsigned i = 0; i < PORT_MAX; i++)
		if (ports_entry(p, (uint16_t)i))
			fn(ctx, (uint16_t)i);
}

static bool all_zero_copy(const struct port *port)
{
	for (unsigned i = 0; i < port->rxq_count; i++)
		if (!xsk_rxq_zero_copy(&port->rxqs[i]))
			return false;
	return true;
}

int ports_get_info(const struct ports *p, uint16_t number, struct port_info *ret)
{
	const struct ports_entry *entry = ports_entry(p, number);

	if (!entry)
		return -ENOENT;
	*ret = (struct port_info){
		.number = number,
		.ifindex = entry->device.ifindex,
		.mode_requested = entry->options.mode,
		.mode = entry->mode,
		.zero_copy = all_zero_copy(entry->port),
		.native = steer_is_native(entry->steer),
		.enabled = steer_is_enabled(entry->steer),
		.carrier = entry->device.carrier,
		.gone = entry->gone,
		.mtu = entry->device.mtu,
		.rxq_count = entry->port->rxq_count,
		.txq_count = entry->port->txq_count,
		.device_rx = entry->device.rx_queues,
		.device_tx = entry->device.tx_queues_numbered,
		.rung = entry->plan.rung,
	};
	memcpy(ret->name, entry->device.name, sizeof(ret->name));
	memcpy(ret->driver, entry->device.driver, sizeof(ret->driver));
	memcpy(ret->rung_reason, entry->plan.reason, sizeof(ret->rung_reason));
	memcpy(ret->attempts, entry->attempts, sizeof(ret->attempts));
	return 0;
}

int ports_rx_info(const struct ports *p, uint16_t number, unsigned index, struct port_queue_info *ret)
{
	const struct ports_entry *entry = ports_entry(p, number);
	const struct port_rxq *q;

	if (!entry || index >= entry->port->rxq_count)
		return -ENOENT;
	q = &entry->port->rxqs[index];
	*ret = (struct port_queue_info){
		.queue_id = q->queue_id,
		.worker = q->worker,
		.zero_copy = xsk_rxq_zero_copy(q),
		.packets = counter_read(&q->received.packets),
		.bytes = counter_read(&q->received.bytes),
		.invalid = counter_read(&q->invalid),
		.refill_short = counter_read(&q->refill_short),
		.in_fill = counter_read(&q->in_fill),
		.waiting = entry->port->ops->rx_waiting(q),
	};
	entry->port->ops->kernel_stats(entry->port, (uint16_t)index, &ret->kernel);
	return 0;
}

static uint8_t first_user(const struct ports *p, const struct ports_entry *entry, unsigned index)
{
	for (unsigned w = 0; w < p->worker_count; w++)
		if (entry->plan.worker_tx[w] == index)
			return (uint8_t)w;
	return PLAN_NO_WORKER;
}

int ports_tx_info(const struct ports *p, uint16_t number, unsigned index, struct port_queue_info *ret)
{
	const struct ports_entry *entry = ports_entry(p, number);
	const struct port_txq *q;

	if (!entry || index >= entry->port->txq_count)
		return -ENOENT;
	q = &entry->port->txqs[index];
	*ret = (struct port_queue_info){
		.queue_id = q->queue_id,
		.worker = first_user(p, entry, index),
		.users = entry->plan.tx_users[index],
		.rung = q->rung,
		.zero_copy = xsk_txq_zero_copy(q),
		.packets = counter_read(&q->sent.packets),
		.bytes = counter_read(&q->sent.bytes),
		.completed = counter_read(&q->completed),
		.bogus_completions = counter_read(&q->bogus_completions),
		.kicks = counter_read(&q->kicks),
		.kick_again = counter_read(&q->kick_again),
		.kick_errors = counter_read(&q->kick_errors),
		.busy_drops = xsk_txq_busy_drops(q),
		.late = counter_read(&q->late),
		.stuck = entry->stuck[index],
		.in_flight = counter_read(&q->in_flight),
		.lock_contended = counter_read(&q->lock_contended),
	};
	return 0;
}

int ports_steer_info(const struct ports *p, uint16_t number, struct port_steer_info *ret)
{
	const struct ports_entry *entry = ports_entry(p, number);

	return entry ? steer_read_stats(entry->steer, ret->packets, ret->bytes) : -ENOENT;
}

int ports_deliver_info(const struct ports *p, uint16_t number, uint64_t *ret_packets, uint64_t *ret_shot)
{
	return ports_entry(p, number) ? deliver_read_stats(p->deliver, number, ret_packets, ret_shot) : -ENOENT;
}

const char *ports_deliver_device(const struct ports *p)
{
	return deliver_device(p->deliver);
}

void ports_ledger(const struct ports *p, struct ledger *ret)
{
	ledger_count_records(ret, &p->memory->table);
	for (unsigned w = 0; w < p->worker_count; w++) {
		struct worker_info info;

		workers_get_info(p->workers, w, &info);
		ledger_add_free(ret, info.free_frames);
		ledger_add_returning(ret, p->memory->caches[w]);
		ledger_add_held(ret, counter_read(&workers_pipeline_stats(p->workers, w)->held));
	}
	for (unsigned i = 0; i < PORT_MAX; i++)
		if (p->entries[i] && p->entries[i]->port)
			ledger_add_port(ret, p->entries[i]->port);
	ledger_add_quarantine(ret, packet_memory_quarantined(p->memory));
	ledger_close(ret);
}

unsigned ports_workers(const struct ports *p)
{
	return p->worker_count;
}

struct workers *ports_get_workers(const struct ports *p)
{
	return p->workers;
}
