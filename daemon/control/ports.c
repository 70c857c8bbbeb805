/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Ports: the manager's life, and what the mirror tells. Opening and closing of a port: ports_open.c.
 */
#include "control/ports.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "control/ports_impl.h"

#define EMPTY_PATIENCE_MS 200
#define DRAIN_PATIENCE_MS 500
#define LINK_OVERHEAD 26u           /* Ethernet header, two VLAN tags, FCS: what a zero-copy bind asks for as well */

static int start_workers(struct ports *p, struct error *e)
{
	struct workers_options o = {
		.count = p->worker_count,
		.cpus = p->options.cpus,
		.busy_poll = p->options.busy_poll,
		.fib = p->fib,
		.caches = p->memory->caches,
	};

	for (unsigned i = 0; i < p->worker_count; i++)
		o.heartbeat[i] = steer_heartbeat(p->shared, i);
	return workers_new(&o, &p->workers, e);
}

static int start(struct ports *p, struct error *e)
{
	const struct ports_options *o = &p->options;
	int r = packet_memory_new(o->memory_size, o->frame_size, p->worker_count, &p->memory, e);

	if (r == 0)
		r = steer_shared_new(&p->shared, e);
	if (r == 0)
		r = ports_set_heartbeat_timeout(p, o->heartbeat_timeout_ms);
	if (r == 0)
		r = deliver_new(o->deliver_device, &p->deliver, e);
	if (r == 0)
		r = start_workers(p, e);
	return r;
}

int ports_new(const struct ports_options *o, const struct fib *fib, struct ports **ret, struct error *e)
{
	struct ports *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_set(e, ENOMEM, "out of memory");
	p->options = *o;
	p->fib = fib;
	if (!p->options.ring_size)
		p->options.ring_size = 2048;
	p->worker_count = o->workers ? o->workers : workers_default_count(&o->cpus);
	p->late = calloc(PORT_MAX * PORT_QUEUES_MAX, sizeof(*p->late));
	r = p->late ? start(p, e) : error_set(e, ENOMEM, "out of memory");
	if (r < 0) {
		ports_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void ports_free(struct ports *p)
{
	if (!p)
		return;
	ports_close_all(p);
	workers_free(p->workers);
	deliver_free(p->deliver);
	steer_shared_free(p->shared);
	packet_memory_free(p->memory);
	free(p->late);
	free(p);
}

static bool is_empty(const struct ports_entry *entry)
{
	for (unsigned i = 0; i < entry->port->rxq_count; i++)
		if (entry->port->ops->rx_waiting(&entry->port->rxqs[i]))
			return false;
	return true;
}

static bool all_empty(const struct ports *p, const struct ports_entry *only)
{
	for (unsigned i = 0; i < PORT_MAX; i++) {
		const struct ports_entry *entry = ports_entry(p, (uint16_t)i);

		if (entry && (!only || entry == only) && !is_empty(entry))
			return false;
	}
	return true;
}

void ports_wait_empty(const struct ports *p, const struct ports_entry *only, unsigned patience_ms)
{
	uint64_t end = clock_now_ns() + patience_ms * NS_PER_MS;
	struct timespec pause = { .tv_nsec = (long)NS_PER_MS };

	/* What was on its way into a ring when the program was told to pass arrives within moments. */
	do
		nanosleep(&pause, NULL);
	while (!all_empty(p, only) && clock_now_ns() < end);
}

void ports_close_all(struct ports *p)
{
	for (unsigned i = 0; i < PORT_MAX; i++)
		if (ports_entry(p, (uint16_t)i))
			steer_enable(p->entries[i]->steer, false);
	if (!p->stopped && p->workers) {
		ports_wait_empty(p, NULL, EMPTY_PATIENCE_MS);
		workers_stop(p->workers, DRAIN_PATIENCE_MS);
	}
	p->stopped = true;
	for (unsigned i = 0; i < PORT_MAX; i++)
		if (ports_entry(p, (uint16_t)i))
			ports_close(p, (uint16_t)i, p->entries[i]->gone);
}

/* ---- switches ---- */

int ports_apply_enable(const struct ports *p, struct ports_entry *entry)
{
	return steer_enable(entry->steer, entry->wanted && entry->fits && !p->deliver_gone);
}

int ports_enable(struct ports *p, uint16_t number, bool on)
{
	struct ports_entry *entry = ports_entry(p, number);

	if (!entry)
		return -ENOENT;
	entry->wanted = on;
	return ports_apply_enable(p, entry);
}

int ports_set_heartbeat_timeout(struct ports *p, uint32_t ms)
{
	return steer_set_stale(p->shared, ms * NS_PER_MS);
}

int ports_find(const struct ports *p, uint32_t ifindex, uint16_t *ret_number)
{
	for (unsigned i = 0; i < PORT_MAX; i++) {
		const struct ports_entry *entry = ports_entry(p, (uint16_t)i);

		if (entry && entry->device.ifindex == ifindex) {
			*ret_number = (uint16_t)i;
			return 0;
		}
	}
	return -ENOENT;
}

struct port *ports_get(const struct ports *p, uint16_t number)
{
	const struct ports_entry *entry = ports_entry(p, number);

	return entry ? entry->port : NULL;
}

/* ---- from the mirror ---- */

int ports_local_address(struct ports *p, int family, const void *addr, bool present)
{
	return steer_local_address(p->shared, family, addr, present);
}

bool ports_mtu_fits(const struct ports *p, const char *name, uint32_t mtu, struct error *e)
{
	uint32_t most = p->options.frame_size - XSK_HEADROOM - LINK_OVERHEAD;

	if (mtu <= most)
		return true;
	error_set(e, EMSGSIZE, "packets of MTU %u do not fit a frame of %u bytes; \"ip link set dev %s mtu %u\"%s helps", mtu,
		p->options.frame_size, name, most, p->options.frame_size < 4096 ? " or [memory] frame_size = 4096" : "");
	return false;
}

static void note_mtu(const struct ports *p, struct ports_entry *entry, uint32_t mtu)
{
	struct error e = { 0 };
	bool fits = ports_mtu_fits(p, entry->device.name, mtu, &e);

	entry->device.mtu = mtu;
	if (fits == entry->fits)
		return;
	entry->fits = fits;
	if (fits)
		log_port(LOG_LEVEL_NOTICE, entry->device.name, "packets of MTU %u fit again: taking packets", mtu);
	else
		log_port(LOG_LEVEL_WARNING, entry->device.name, "all packets are left to the kernel: %s", e.text);
}

int ports_link(struct ports *p, uint16_t number, const uint8_t mac[6], uint32_t pass_flags, bool carrier, uint32_t mtu)
{
	struct ports_entry *entry = ports_entry(p, number);
	int r;

	if (!entry)
		return -ENOENT;
	note_mtu(p, entry, mtu);
	entry->device.carrier = carrier;
	memcpy(entry->device.mac, mac, sizeof(entry->device.mac));
	for (unsigned i = 0; i < entry->port->txq_count; i++)
		__atomic_store_n(&entry->port->txqs[i].carrier, carrier, __ATOMIC_RELAXED);
	r = steer_set_link(entry->steer, mac, pass_flags);
	return r < 0 ? r : ports_apply_enable(p, entry);
}

int ports_vlan(struct ports *p, uint16_t number, uint16_t protocol, uint16_t vid, const uint8_t mac[6],
	uint32_t pass_flags, bool present)
{
	struct ports_entry *entry = ports_entry(p, number);

	return entry ? steer_vlan(entry->steer, protocol, vid, mac, pass_flags, present) : -ENOENT;
}

/* ---- every second ---- */

static void note_late(struct ports *p, struct ports_entry *entry)
{
	for (unsigned i = 0; i < entry->port->txq_count; i++) {
		struct port_txq *q = &entry->port->txqs[i];
		const struct ledger_late *late = &p->late[q->number];

		if (late->crossed)
			counter_add(&q->late, late->crossed);  /* this thread is its only writer */
		if (late->stuck && !entry->stuck[i])
			log_port(LOG_LEVEL_WARNING, entry->device.name, "transmit queue %u: %u frames have been in flight for over "
				"%u s; the device has not said that it sent them", i, late->stuck, LEDGER_STUCK_MS / 1000);
		entry->stuck[i] = late->stuck;
	}
}

/* Without the delivery device nothing can be given to the kernel packet by packet: then it gets everything. */
static void watch_deliver(struct ports *p)
{
	bool gone = deliver_revive(p->deliver) == -ENODEV;

	if (gone == p->deliver_gone)
		return;
	p->deliver_gone = gone;
	log_error("the delivery device %s has been deleted: all packets are left to the kernel; restart routerd",
		deliver_device(p->deliver));
	for (unsigned i = 0; i < PORT_MAX; i++) {
		struct ports_entry *entry = ports_entry(p, (uint16_t)i);

		if (entry)
			ports_apply_enable(p, entry);
	}
}

void ports_tick(struct ports *p, uint64_t now_ns)
{
	uint64_t interval = p->tick_ns ? now_ns - p->tick_ns : NS_PER_S;

	p->tick_ns = now_ns;
	ledger_find_late(&p->memory->table, (uint32_t)(now_ns / NS_PER_MS), (uint32_t)(interval / NS_PER_MS), p->late,
		PORT_MAX * PORT_QUEUES_MAX);
	for (unsigned i = 0; i < PORT_MAX; i++) {
		struct ports_entry *entry = ports_entry(p, (uint16_t)i);

		if (!entry)
			continue;
		note_late(p, entry);
		entry->gone = !netdev_exists(entry->device.ifindex);
	}
	watch_deliver(p);
	if (p->memory->quarantines)
		packet_memory_release(p->memory, 0, 0);
}
