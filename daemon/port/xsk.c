/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * AF_XDP, opening and closing. Control thread.
 */
#include "port/xsk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/clock.h"
#include "port/xsk_impl.h"

#define POOL_PATIENCE_NS (3 * NS_PER_S)
#define LINK_OVERHEAD 26u   /* Ethernet header, two VLAN tags, FCS: net/xdp/xsk_buff_pool.c asks for as much */

const char *xsk_mode_name(enum xsk_mode mode)
{
	static const char *const names[] = {
		[XSK_MODE_AUTO] = "auto",
		[XSK_MODE_ZERO_COPY] = "zero-copy",
		[XSK_MODE_NATIVE] = "native",
		[XSK_MODE_GENERIC] = "generic",
	};

	return names[mode];
}

static int xsk_rx_fd(const struct port_rxq *q)
{
	return ((const struct xsk_rxq *)q->driver)->socket->fd;
}

static unsigned xsk_rx_waiting(const struct port_rxq *q)
{
	return xsk_ring_waiting(&((const struct xsk_rxq *)q->driver)->socket->rx);
}

static int xsk_deliver(struct port *p, const struct packet *pkt)
{
	return deliver_packet(xsk_port_of(p)->deliver, p->number, p->frames, pkt);
}

static void xsk_kernel_stats(struct port *p, uint16_t queue_index, struct port_kernel_stats *ret)
{
	struct xdp_statistics s;
	socklen_t length = sizeof(s);

	memset(ret, 0, sizeof(*ret));
	memset(&s, 0, sizeof(s));
	if (queue_index >= p->rxq_count ||
	    getsockopt(xsk_rx_fd(&p->rxqs[queue_index]), SOL_XDP, XDP_STATISTICS, &s, &length) < 0)
		return;
	ret->rx_dropped = s.rx_dropped;
	ret->rx_invalid_descs = s.rx_invalid_descs;
	ret->tx_invalid_descs = s.tx_invalid_descs;
	ret->rx_ring_full = s.rx_ring_full;
	ret->rx_fill_ring_empty = s.rx_fill_ring_empty_descs;
	ret->tx_ring_empty = s.tx_ring_empty_descs;
}

static void *alloc_lines(size_t bytes)
{
	void *p = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));

	if (p)
		memset(p, 0, bytes);
	return p;
}

/* ---- closing ---- */

static void free_port(struct xsk_port *x)
{
	for (unsigned i = 0; i < x->port.txq_count && x->port.txqs; i++)
		pthread_spin_destroy(&x->port.txqs[i].lock);
	for (unsigned i = 0; i < x->socket_count && x->quarantines; i++)
		free(x->quarantines[i]);
	free(x->quarantines);
	free(x->sockets);
	free(x->port.rxqs);
	free(x->port.txqs);
	free(x->rx);
	free(x->tx);
	free(x);
}

/* Slots emptied, sockets closed, pools gone. The pool of a closed socket goes by a work queue; until then the device may
 * write into its frames, and detaching the program crashes a virtio-net kernel (afxdp-drivers 8, 24). */
static void close_sockets(struct xsk_port *x)
{
	uint64_t now = clock_now_ns();
	unsigned opened = 0;

	for (unsigned i = 0; i < x->port.rxq_count; i++)
		steer_set_socket(x->steer, (uint16_t)i, -1);
	for (unsigned i = 0; i < x->socket_count; i++) {
		if (x->sockets[i].fd >= 0)
			opened = i + 1;
		xsk_socket_close(&x->sockets[i]);
	}
	for (unsigned i = 0; i < opened; i++) {
		uint16_t rx = i < x->port.rxq_count ? x->port.rxqs[i].number : FRAME_NO_QUEUE;
		uint16_t tx = i < x->port.txq_count ? x->port.txqs[i].number : FRAME_NO_QUEUE;

		packet_memory_quarantine(x->memory, x->quarantines[i], rx, tx, now);
		x->quarantines[i] = NULL;
	}
	packet_memory_release(x->memory, x->device.ifindex, POOL_PATIENCE_NS);
}

static void xsk_close(struct port *p)
{
	struct xsk_port *x = xsk_port_of(p);

	steer_enable(x->steer, false);
	close_sockets(x);
	if (x->delivers)
		deliver_close_port(x->deliver, p->number);
	free_port(x);
}

static const struct port_ops xsk_ops = {
	.name = "xsk",
	.rx_burst = xsk_rx_burst,
	.refill = xsk_refill,
	.rx_fd = xsk_rx_fd,
	.tx_burst = xsk_tx_burst,
	.tx_kick = xsk_tx_kick,
	.tx_reap = xsk_tx_reap,
	.deliver = xsk_deliver,
	.kernel_stats = xsk_kernel_stats,
	.rx_waiting = xsk_rx_waiting,
	.close = xsk_close,
};

/* ---- opening ---- */

static unsigned min_unsigned(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Receive on the device's queues; transmit on those that its stack numbers. A socket has both rings where both apply.
 * Transmit queues without a receive queue get a socket of their own as far as there are workers for them. */
static int make_queues(struct xsk_port *x, const struct xsk_options *o)
{
	unsigned rx = min_unsigned(x->device.rx_queues, PORT_QUEUES_MAX);
	unsigned tx = min_unsigned(x->device.tx_queues_numbered, PORT_QUEUES_MAX);

	if (o->queues)
		rx = min_unsigned(rx, o->queues);
	tx = min_unsigned(tx, rx > o->workers ? rx : o->workers);
	x->socket_count = rx > tx ? rx : tx;
	x->port.rxq_count = (uint16_t)rx;
	x->port.txq_count = (uint16_t)tx;
	x->sockets = calloc(x->socket_count, sizeof(*x->sockets));
	x->quarantines = calloc(x->socket_count, sizeof(*x->quarantines));
	x->port.rxqs = alloc_lines(sizeof(*x->port.rxqs) * rx);
	x->port.txqs = alloc_lines(sizeof(*x->port.txqs) * tx);
	x->rx = calloc(rx, sizeof(*x->rx));
	x->tx = alloc_lines(sizeof(*x->tx) * tx);
	if (!x->sockets || !x->quarantines || !x->port.rxqs || !x->port.txqs || !x->rx || !x->tx) {
		x->socket_count = x->port.rxq_count = x->port.txq_count = 0;
		return -ENOMEM;
	}
	for (unsigned i = 0; i < x->socket_count; i++)
		x->sockets[i].fd = -1;
	for (unsigned i = 0; i < x->socket_count; i++) {
		x->quarantines[i] = calloc(1, sizeof(**x->quarantines));
		if (!x->quarantines[i])
			return -ENOMEM;
		x->quarantines[i]->ifindex = x->device.ifindex;
		x->quarantines[i]->queue_id = (uint16_t)i;
	}
	return 0;
}

static void init_queues(struct xsk_port *x, const struct xsk_options *o)
{
	for (unsigned i = 0; i < x->port.rxq_count; i++) {
		/* In zero-copy the device's own ring holds frames beside the fill ring. */
		uint32_t ring = o->mode == XSK_MODE_ZERO_COPY ? x->device.rx_ring : 0;

		x->rx[i] = (struct xsk_rxq){ .socket = &x->sockets[i], .limit = o->ring_size + ring };
		x->port.rxqs[i].port = &x->port;
		x->port.rxqs[i].queue_id = (uint16_t)i;
		x->port.rxqs[i].number = FRAME_NO_QUEUE;
		x->port.rxqs[i].driver = &x->rx[i];
	}
	for (unsigned i = 0; i < x->port.txq_count; i++) {
		x->tx[i].socket = &x->sockets[i];
		x->tx[i].limit = 2 * o->ring_size;
		x->port.txqs[i].port = &x->port;
		x->port.txqs[i].queue_id = (uint16_t)i;
		x->port.txqs[i].number = FRAME_NO_QUEUE;
		x->port.txqs[i].carrier = true;  /* until control says otherwise: right after attaching it may flap */
		x->port.txqs[i].driver = &x->tx[i];
		pthread_spin_init(&x->port.txqs[i].lock, PTHREAD_PROCESS_PRIVATE);
	}
}

static int open_sockets(struct xsk_port *x, const struct xsk_options *o, struct error *e)
{
	struct xsk_socket_config c = {
		.ifindex = x->device.ifindex,
		.mode = o->mode == XSK_MODE_ZERO_COPY ? UMEM_ZERO_COPY : UMEM_COPY,
		.busy_poll = o->busy_poll,
		.ring_size = o->ring_size,
		.completion_size = 2 * o->ring_size,
	};
	int r;

	for (unsigned i = 0; i < x->socket_count; i++) {
		c.queue_id = (uint16_t)i;
		c.receive = i < x->port.rxq_count;
		c.transmit = i < x->port.txq_count;
		r = xsk_socket_open(&x->sockets[i], x->memory, &c, e);
		if (r < 0 && !c.receive) {
			/* Not every driver takes a socket on a queue that only sends; do without. */
			for (unsigned j = i; j < x->port.txq_count; j++)
				pthread_spin_destroy(&x->port.txqs[j].lock);
			x->port.txq_count = (uint16_t)i;
			return 0;
		}
		if (r < 0)
			return r;
		if (c.receive)
			r = steer_set_socket(x->steer, c.queue_id, x->sockets[i].fd);
		if (r < 0)
			return error_set(e, -r, "queue %u: cannot enter the socket into the XSKMAP: %s", i, strerror(-r));
	}
	return 0;
}

/* A program that a former attempt left attached in the same way stays: on many devices attaching resets the link. */
static int attach(struct xsk_port *x, const struct netdev *device, struct error *e)
{
	bool native = x->mode != XSK_MODE_GENERIC;

	if (steer_is_attached(x->steer) && steer_is_native(x->steer) == native)
		return 0;
	steer_detach(x->steer);
	return steer_attach(x->steer, device, native, e);
}

/* What the driver would not refuse, and yet get wrong. */
static int check_zero_copy(const struct xsk_options *o, struct error *e)
{
	uint32_t room = frame_size(&o->memory->table) - XSK_HEADROOM, unit = o->device->known->buffer_unit;

	if (o->mode != XSK_MODE_ZERO_COPY || !unit || o->device->mtu + LINK_OVERHEAD <= room - room % unit)
		return 0;
	return error_set(e, EMSGSIZE, "driver %s would use only %u bytes of a frame of %u, too few for MTU %u; "
		"[memory] frame_size = 4096 or a smaller MTU helps", o->device->driver, room - room % unit,
		frame_size(&o->memory->table), o->device->mtu);
}

static int set_up(struct xsk_port *x, const struct xsk_options *o, struct error *e)
{
	int r = check_zero_copy(o, e);

	if (r == 0 && !o->device->known->bind_before_attach)
		r = attach(x, o->device, e);
	/* Attaching may have changed the queues (virtio-net). */
	if (r == 0)
		r = netdev_read(o->device->ifindex, &x->device, e);
	if (r < 0)
		return r;
	r = make_queues(x, o);
	if (r < 0)
		return error_set(e, -r, "out of memory");
	init_queues(x, o);
	r = open_sockets(x, o, e);
	if (r == 0)
		r = deliver_open_port(x->deliver, o->number, x->device.ifindex, o->mode == XSK_MODE_GENERIC, e);
	x->delivers = r == 0;
	return r;
}

int xsk_port_open(const struct xsk_options *o, struct port **ret, struct error *e)
{
	struct xsk_port *x = alloc_lines(sizeof(*x));
	int r;

	if (!x)
		return error_set(e, ENOMEM, "out of memory");
	x->device = *o->device;
	x->mode = o->mode;
	x->memory = o->memory;
	x->steer = o->steer;
	x->deliver = o->deliver;
	x->port.ops = &xsk_ops;
	x->port.number = o->number;
	x->port.ifindex = o->device->ifindex;
	x->port.frames = &o->memory->table;
	x->port.driver = x;
	snprintf(x->port.name, sizeof(x->port.name), "%s", o->device->name);
	r = set_up(x, o, e);
	if (r < 0) {
		xsk_close(&x->port);
		return r;
	}
	*ret = &x->port;
	return 0;
}

int xsk_port_attach(struct port *p, struct error *e)
{
	struct xsk_port *x = xsk_port_of(p);

	return attach(x, &x->device, e);
}

/* ---- settings and facts ---- */

void xsk_rxq_set_limit(struct port_rxq *q, uint32_t frames)
{
	struct xsk_rxq *x = q->driver;
	const struct xsk_port *port = xsk_port_of(q->port);
	uint32_t most = x->socket->fill.size + (x->socket->zero_copy ? port->device.rx_ring : 0);

	__atomic_store_n(&x->limit, frames < most ? frames : most, __ATOMIC_RELAXED);
}

void xsk_txq_set_limit(struct port_txq *q, uint32_t frames)
{
	struct xsk_txq *x = q->driver;
	uint32_t most = x->socket->completion.size;

	__atomic_store_n(&x->limit, frames < most ? frames : most, __ATOMIC_RELAXED);
}

bool xsk_rxq_is_filled(const struct port_rxq *q)
{
	const struct xsk_rxq *x = q->driver;
	uint64_t held = counter_read(&q->in_fill);
	uint32_t limit = __atomic_load_n(&x->limit, __ATOMIC_RELAXED);

	return held + XSK_REFILL_MIN >= limit || held >= x->socket->fill.size;
}

bool xsk_rxq_zero_copy(const struct port_rxq *q)
{
	return ((const struct xsk_rxq *)q->driver)->socket->zero_copy;
}

bool xsk_txq_zero_copy(const struct port_txq *q)
{
	return ((const struct xsk_txq *)q->driver)->socket->zero_copy;
}

uint64_t xsk_txq_busy_drops(const struct port_txq *q)
{
	return counter_read(&((const struct xsk_txq *)q->driver)->busy_drops);
}
