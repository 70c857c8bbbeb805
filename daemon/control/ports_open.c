/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Ports: opening one (the ladder zero-copy → native → generic, each refusal explained), giving queues to workers and
 * taking them away, closing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "control/ports_impl.h"

#define FILL_PATIENCE_MS 500
#define EMPTY_PATIENCE_MS 200
#define FLIGHT_PATIENCE_MS 300
#define FILL_LIMIT_MIN 16u          /* frames per receive queue below which it cannot work */
#define FLIGHT_LIMIT_MIN 64u

/* ---- queues and workers ---- */

/* Plan anew: ports that have their queues keep them. */
static int make_plan(struct ports *p)
{
	struct plan_port *plans = calloc(PORT_MAX, sizeof(*plans));
	struct ports_entry *owners[PORT_MAX];
	unsigned count = 0;
	int r;

	if (!plans)
		return -ENOMEM;
	for (unsigned i = 0; i < PORT_MAX; i++) {
		struct ports_entry *entry = ports_entry(p, (uint16_t)i);

		if (!entry || !entry->port)
			continue;
		plans[count] = entry->plan;
		owners[count++] = entry;
	}
	r = plan_make(p->worker_count, plans, count);
	for (unsigned i = 0; i < count && r == 0; i++)
		owners[i]->plan = plans[i];
	free(plans);
	return r;
}

static void init_plan(struct ports_entry *entry)
{
	struct plan_port *plan = &entry->plan;

	memset(plan, 0, sizeof(*plan));
	snprintf(plan->name, sizeof(plan->name), "%s", entry->port->name);
	plan->rxq_count = entry->port->rxq_count;
	plan->txq_count = entry->port->txq_count;
	memset(plan->rx_worker, PLAN_NO_WORKER, sizeof(plan->rx_worker));
}

/* Write the plan into a port that no worker has yet. Queue numbers follow from the port's. */
static int apply_plan(struct ports *p, struct ports_entry *entry)
{
	struct port *port = entry->port;
	int r = 0;

	for (unsigned i = 0; i < port->rxq_count && r == 0; i++) {
		port->rxqs[i].number = (uint16_t)(port->number * PORT_QUEUES_MAX + i);
		port->rxqs[i].worker = entry->plan.rx_worker[i];
		r = steer_set_queue_worker(entry->steer, port->rxqs[i].queue_id, entry->plan.rx_worker[i]);
	}
	for (unsigned i = 0; i < port->txq_count; i++) {
		port->txqs[i].number = (uint16_t)(port->number * PORT_QUEUES_MAX + i);
		port->txqs[i].rung = entry->plan.tx_users[i] > 1 ? PORT_TXQ_SHARED : PORT_TXQ_EXCLUSIVE;
	}
	for (unsigned w = 0; w < p->worker_count; w++)
		port->worker_txq[w] = &port->txqs[entry->plan.worker_tx[w]];
	return r;
}

static int publish_worker(struct ports *p, unsigned worker)
{
	struct port_rxq **rxqs = calloc(PORT_MAX * PORT_QUEUES_MAX, sizeof(*rxqs));
	struct port_txq *txqs[PORT_MAX];
	unsigned rx = 0, tx = 0;
	int r;

	if (!rxqs)
		return -ENOMEM;
	for (unsigned i = 0; i < PORT_MAX; i++) {
		const struct ports_entry *entry = p->entries[i];

		if (!entry || !entry->port)
			continue;
		for (unsigned q = 0; q < entry->port->rxq_count && !entry->leaving; q++)
			if (entry->port->rxqs[q].worker == worker)
				rxqs[rx++] = &entry->port->rxqs[q];
		if (entry->port->worker_txq[worker])
			txqs[tx++] = entry->port->worker_txq[worker];
	}
	r = workers_set_queues(p->workers, worker, rxqs, rx, txqs, tx);
	free(rxqs);
	return r;
}

/* Give the workers the queues of all ports as they are now, and wait until they have let go of others. */
static int publish(struct ports *p)
{
	int r = 0;

	if (p->stopped)
		return 0;
	for (unsigned w = 0; w < p->worker_count && r == 0; w++)
		r = publish_worker(p, w);
	return r < 0 ? r : workers_synchronize(p->workers);
}

/* Receive queues share one half of their worker's frames, the ports' transmit queues the other half: neither can starve
 * the other, and a port that has stopped sending cannot take all frames of any worker (afxdp-drivers 2.3). */
static void share_frames(struct ports *p, uint32_t *ret_smallest)
{
	uint32_t home = packet_memory_home(p->memory), rx[WORKERS_MAX] = { 0 }, ports = 0;

	*ret_smallest = UINT32_MAX;
	for (unsigned i = 0; i < PORT_MAX; i++) {
		const struct ports_entry *entry = ports_entry(p, (uint16_t)i);

		if (!entry || !entry->port)
			continue;
		for (unsigned q = 0; q < entry->port->rxq_count; q++)
			rx[entry->port->rxqs[q].worker]++;
		ports++;
	}
	for (unsigned i = 0; i < PORT_MAX; i++) {
		const struct ports_entry *entry = ports_entry(p, (uint16_t)i);
		uint32_t flight = ports ? home / 2 / ports : 0;

		if (!entry || !entry->port)
			continue;
		for (unsigned q = 0; q < entry->port->rxq_count; q++) {
			uint32_t limit = home / 2 / rx[entry->port->rxqs[q].worker];

			xsk_rxq_set_limit(&entry->port->rxqs[q], limit);
			if (limit < *ret_smallest)
				*ret_smallest = limit;
		}
		for (unsigned q = 0; q < entry->port->txq_count; q++)
			xsk_txq_set_limit(&entry->port->txqs[q], flight < FLIGHT_LIMIT_MIN ? FLIGHT_LIMIT_MIN : flight);
	}
}

static bool is_filled(const struct port *port)
{
	for (unsigned i = 0; i < port->rxq_count; i++)
		if (!xsk_rxq_is_filled(&port->rxqs[i]))
			return false;
	return true;
}

/* The workers fill the rings of a new port. What is not filled by then fills later; only gve minds. */
static void wait_filled(const struct port *port)
{
	uint64_t end = clock_now_ns() + FILL_PATIENCE_MS * NS_PER_MS;
	struct timespec pause = { .tv_nsec = (long)NS_PER_MS };

	while (!is_filled(port) && clock_now_ns() < end)
		nanosleep(&pause, NULL);
}

static int hand_over(struct ports *p, struct ports_entry *entry, struct error *e)
{
	uint32_t smallest;
	int r;

	init_plan(entry);
	r = make_plan(p);
	if (r == 0)
		r = apply_plan(p, entry);
	if (r < 0)
		return error_set(e, -r, "cannot plan the queues: %s", strerror(-r));
	share_frames(p, &smallest);
	if (smallest < FILL_LIMIT_MIN)
		return error_set(e, ENOMEM, "too few frames: %u for each receive queue; a larger [memory] size helps", smallest);
	workers_set_port(p->workers, entry->port->number, entry->port);
	r = publish(p);
	if (r < 0)
		return error_set(e, -r, "cannot give the queues to the workers: %s", strerror(-r));
	wait_filled(entry->port);
	return 0;
}

/* ---- closing ---- */

static bool has_in_flight(const struct port *port)
{
	for (unsigned i = 0; i < port->txq_count; i++)
		if (counter_read(&port->txqs[i].in_flight))
			return true;
	return false;
}

static void wait_completed(const struct port *port)
{
	uint64_t end = clock_now_ns() + FLIGHT_PATIENCE_MS * NS_PER_MS;
	struct timespec pause = { .tv_nsec = (long)NS_PER_MS };

	while (has_in_flight(port) && clock_now_ns() < end)
		nanosleep(&pause, NULL);
}

/* First the ways in and the port's entry in the table; its transmit queues stay with the workers until what is in flight
 * has been completed, or will not be. */
static int take_back(struct ports *p, struct ports_entry *entry)
{
	struct port *port = entry->port;
	int r;

	workers_set_port(p->workers, port->number, NULL);
	entry->leaving = true;
	r = publish(p);
	if (r < 0)
		return r;
	if (!p->stopped && !entry->gone)
		wait_completed(port);
	entry->port = NULL;
	r = publish(p);
	if (r < 0)
		entry->port = port;
	return r;
}

/* Close the sockets of an entry that workers may have. On failure they may still use it, and it must not be freed. */
static int close_queues(struct ports *p, struct ports_entry *entry)
{
	struct port *port = entry->port;
	uint32_t smallest;
	int r;

	if (!port)
		return 0;
	r = take_back(p, entry);
	if (r < 0)
		return r;
	port->ops->close(port);
	entry->leaving = false;
	share_frames(p, &smallest);
	return 0;
}

void ports_close(struct ports *p, uint16_t number, bool device_gone)
{
	struct ports_entry *entry = ports_entry(p, number);
	int r;

	if (!entry)
		return;
	entry->gone = device_gone;
	steer_enable(entry->steer, false);
	if (!p->stopped && !device_gone)
		ports_wait_empty(p, entry, EMPTY_PATIENCE_MS);
	r = close_queues(p, entry);
	if (r < 0) {
		/* Nothing is freed, but nothing stays attached either. */
		log_port(LOG_LEVEL_ERROR, entry->device.name, "a worker does not answer (%s): the port's memory stays in use "
			"until routerd is restarted", strerror(-r));
		steer_detach(entry->steer);
		entry->lost = true;
		return;
	}
	steer_free(entry->steer);
	p->entries[number] = NULL;
	free(entry);
}

/* ---- the ladder ---- */

static const char *hint(const struct netdev *d, enum xsk_mode mode, int code)
{
	if (code == EBUSY)
		return "another AF_XDP socket is on the queue; \"ss --xdp -ep\" may name its process";
	if (mode == XSK_MODE_ZERO_COPY && code == EOPNOTSUPP && d->features_known &&
	    !(d->xdp_features & NETDEV_FEATURE_XSK_ZEROCOPY))
		return "the driver offers no zero-copy (netdev xdp-features)";
	return d->known->hint;
}

/* One line per refused mode: the error's name, what failed, what helps. */
static void note_attempt(struct ports_entry *entry, enum xsk_mode mode, const struct error *e)
{
	size_t used = strlen(entry->attempts);
	const char *name = strerrorname_np(e->code), *help = hint(&entry->device, mode, e->code);

	/* A text that has a cure already says so behind a semicolon. */
	if (strchr(e->text, ';'))
		help = NULL;
	snprintf(entry->attempts + used, sizeof(entry->attempts) - used, "%s%s: %s (%s)%s%s", used ? "\n" : "",
		xsk_mode_name(mode), e->text, name ? name : "?", help ? "; " : "", help ? help : "");
}

static int try_mode(struct ports *p, struct ports_entry *entry, uint16_t number, enum xsk_mode mode, struct error *e)
{
	struct xsk_options o = {
		.device = &entry->device,
		.mode = mode,
		.queues = entry->options.queues,
		.workers = p->worker_count,
		.number = number,
		.ring_size = p->options.ring_size,
		.busy_poll = p->options.busy_poll,
		.memory = p->memory,
		.steer = entry->steer,
		.deliver = p->deliver,
	};
	int r = xsk_port_open(&o, &entry->port, e);

	if (r < 0)
		return r;
	r = hand_over(p, entry, e);
	if (r == 0)
		r = xsk_port_attach(entry->port, e);
	if (r == 0)
		return 0;
	if (close_queues(p, entry) < 0)
		entry->lost = true;
	return r;
}

static int climb_down(struct ports *p, struct ports_entry *entry, uint16_t number, struct error *e)
{
	enum xsk_mode wanted = entry->options.mode;
	enum xsk_mode first = wanted == XSK_MODE_AUTO ? XSK_MODE_ZERO_COPY : wanted;
	enum xsk_mode last = wanted == XSK_MODE_AUTO ? XSK_MODE_GENERIC : wanted;
	int r = -EINVAL;

	for (enum xsk_mode mode = first; mode <= last && !entry->lost; mode++) {
		struct error why = { 0 };

		r = try_mode(p, entry, number, mode, &why);
		if (r == 0) {
			entry->mode = mode;
			return 0;
		}
		note_attempt(entry, mode, &why);
		log_port(LOG_LEVEL_DEBUG, entry->device.name, "%s is refused: %s", xsk_mode_name(mode), why.text);
	}
	for (char *c = entry->attempts; (c = strchr(c, '\n')); c++)
		*c = '|';
	error_set(e, -r, "%s", entry->attempts);
	return r;
}

static int prepare(struct ports *p, struct ports_entry *entry, struct error *e)
{
	const struct port_options *o = &entry->options;
	int r = netdev_read(o->ifindex, &entry->device, e);

	if (r < 0)
		return r;
	if (!ports_mtu_fits(p, entry->device.name, entry->device.mtu, e))
		return -EMSGSIZE;
	entry->fits = true;
	r = steer_new(p->shared, frame_size(&p->memory->table) - XSK_HEADROOM, &entry->steer, e);
	if (r < 0)
		return r;
	return steer_set_link(entry->steer, entry->device.mac, 0);
}

static int find_number(const struct ports *p)
{
	for (int i = 0; i < PORT_MAX; i++)
		if (!p->entries[i])
			return i;
	return -ENOSPC;
}

static void read_back(struct ports_entry *entry)
{
	struct netdev now;

	if (netdev_read(entry->options.ifindex, &now, NULL) == 0)
		entry->device = now;
	if (entry->device.rx_queues > entry->port->rxq_count && !entry->options.queues)
		log_port(LOG_LEVEL_WARNING, entry->device.name, "%u of %u receive queues are served; packets of the others stay "
			"with the kernel", entry->port->rxq_count, entry->device.rx_queues);
}

int ports_open(struct ports *p, const struct port_options *o, uint16_t *ret_number, struct error *e)
{
	struct ports_entry *entry;
	int number = find_number(p), r;

	if (p->stopped)
		return error_set(e, ESHUTDOWN, "routerd is stopping");
	if (number < 0)
		return error_set(e, ENOSPC, "no more than %u ports are possible", PORT_MAX);
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return error_set(e, ENOMEM, "out of memory");
	entry->options = *o;
	p->entries[number] = entry;
	r = prepare(p, entry, e);
	if (r == 0)
		r = climb_down(p, entry, (uint16_t)number, e);
	if (r == 0) {
		read_back(entry);
		*ret_number = (uint16_t)number;
		return 0;
	}
	if (entry->steer)
		steer_detach(entry->steer);
	if (entry->lost)
		return r;
	steer_free(entry->steer);
	p->entries[number] = NULL;
	free(entry);
	return r;
}
