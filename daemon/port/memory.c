/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/memory.h"

#include <stdio.h>

#include "port/memory_impl.h"

#define RING_DEFAULT 256u

/* ---- logs ---- */

static bool log_reserve(struct memory_log *log)
{
	uint32_t capacity = log->capacity ? log->capacity * 2 : 64;
	struct memory_packet *packets;

	if (log->count < log->capacity)
		return true;
	packets = realloc(log->packets, capacity * sizeof(*packets));
	if (!packets)
		return false;
	log->packets = packets;
	log->capacity = capacity;
	return true;
}

void memory_log_clear(struct memory_log *log)
{
	for (uint32_t i = 0; i < log->count && log->packets; i++)
		free(log->packets[i].bytes);
	free(log->packets);
	*log = (struct memory_log){ 0 };
}

uint8_t *memory_log_add(struct memory_log *log, uint32_t length, uint32_t segments, uint64_t now_ns)
{
	uint8_t *bytes;

	log->bytes += length;
	if (!log_reserve(log))
		abort();  /* a test without its evidence is worth nothing */
	bytes = malloc(length ? length : 1);
	if (!bytes)
		abort();
	log->packets[log->count++] = (struct memory_packet){ bytes, length, segments, now_ns };
	return bytes;
}

/* ---- to the kernel ---- */

static int deliver_locked(struct memory_port *m, const struct packet *pkt)
{
	if (m->faults.deliver_fail) {
		m->faults.deliver_fail--;
		return m->faults.deliver_error ? m->faults.deliver_error : -ENOBUFS;
	}
	if (!m->discard)
		packet_copy_out(m->port.frames, pkt,
			memory_log_add(&m->delivered, pkt->length, pkt->seg_count, m->now_ns));
	return 0;
}

static int memory_deliver(struct port *p, const struct packet *pkt)
{
	struct memory_port *m = memory_port(p);
	int r;

	pthread_mutex_lock(&m->deliver_lock);
	r = deliver_locked(m, pkt);
	pthread_mutex_unlock(&m->deliver_lock);
	return r;
}

/* ---- evidence ---- */

const struct memory_log *memory_port_sent(const struct port *p, unsigned queue)
{
	return &memory_port(p)->txqs[queue].sent;
}

const struct memory_log *memory_port_delivered(const struct port *p)
{
	return &memory_port(p)->delivered;
}

void memory_port_clear(struct port *p)
{
	struct memory_port *m = memory_port(p);

	for (unsigned i = 0; i < p->txq_count; i++)
		memory_log_clear(&m->txqs[i].sent);
	memory_log_clear(&m->delivered);
}

static void memory_kernel_stats(struct port *p, uint16_t queue_index, struct port_kernel_stats *ret)
{
	*ret = (struct port_kernel_stats){ .rx_fill_ring_empty = memory_port(p)->rxqs[queue_index].fill_empty };
}

/* A completion ring may name a frame twice or one that is not ours: count what the records confirm, once. The
 * transmit ring and the held completions name each frame once. */
static uint32_t count_completions(const struct port *p, const struct memory_txq *q, uint16_t number)
{
	const struct ring *c = &q->completion;
	uint32_t n = 0;

	for (uint32_t i = c->consumed; i != c->produced; i++) {
		uint32_t frame = c->frames[i & c->mask], k = c->consumed;

		while (k != i && c->frames[k & c->mask] != frame)
			k++;
		if (k == i && frame < p->frames->count && memory_in_flight(&p->frames->frames[frame], number))
			n++;
	}
	return n;
}

void memory_port_count_frames(const struct port *p, struct memory_port_frames *ret)
{
	const struct memory_port *m = memory_port(p);

	*ret = (struct memory_port_frames){ 0 };
	for (unsigned i = 0; i < p->rxq_count; i++) {
		const struct memory_rxq *q = &m->rxqs[i];

		ret->fill += ring_waiting(&q->fill);
		for (uint32_t k = q->rx.consumed; k != q->rx.produced; k++)
			ret->fill += frame_of_addr(p->frames, q->rx.descriptors[k & q->rx.mask].addr) != FRAME_NONE;
	}
	for (unsigned i = 0; i < p->txq_count; i++) {
		const struct memory_txq *q = &m->txqs[i];

		ret->in_flight += ring_waiting(&q->tx) + q->held_count + count_completions(p, q, p->txqs[i].number);
	}
}

/* ---- open and close ---- *//* ---- open and close ---- */

static int ring_init(struct ring *r, uint32_t size, size_t element)
{
	if (!size)
		size = RING_DEFAULT;
	if (size & (size - 1))
		return -EINVAL;
	r->mask = size - 1;
	r->frames = calloc(size, element);
	return r->frames ? 0 : -ENOMEM;
}

static int memory_rx_fd(const struct port_rxq *q)
{
	return -1;
}

static void bring_home(struct memory_port *m, uint32_t index, enum frame_place place, uint16_t queue)
{
	struct frame_table *t = m->port.frames;
	struct frame *f = index < t->count ? &t->frames[index] : NULL;

	if (!f || frame_get_place(f) != place || f->queue != queue)
		return;
	if (place == FRAME_TX && __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) != 0) {
		frame_set_place(f, FRAME_HELD, FRAME_NO_QUEUE);
		return;
	}
	frame_return(m->caches[f->home], index);
}

static uint32_t descriptor_frame(const struct memory_port *m, const struct ring *r)
{
	return frame_of_addr(m->port.frames, r->descriptors[r->consumed & r->mask].addr);
}

static void free_rxq(struct memory_port *m, struct memory_rxq *q, uint16_t number)
{
	if (q->fill.frames)
		for (; q->fill.consumed != q->fill.produced; q->fill.consumed++)
			bring_home(m, q->fill.frames[q->fill.consumed & q->fill.mask], FRAME_FILL, number);
	if (q->rx.descriptors)
		for (; q->rx.consumed != q->rx.produced; q->rx.consumed++)
			bring_home(m, descriptor_frame(m, &q->rx), FRAME_FILL, number);
	free(q->fill.frames);
	free(q->rx.descriptors);
}

static void free_txq(struct memory_port *m, struct memory_txq *q, uint16_t number)
{
	if (q->tx.descriptors)
		for (; q->tx.consumed != q->tx.produced; q->tx.consumed++)
			bring_home(m, descriptor_frame(m, &q->tx), FRAME_TX, number);
	if (q->completion.frames)
		for (; q->completion.consumed != q->completion.produced; q->completion.consumed++)
			bring_home(m, q->completion.frames[q->completion.consumed & q->completion.mask], FRAME_TX, number);
	for (uint32_t i = 0; i < q->held_count; i++)
		bring_home(m, q->held[i].frame, FRAME_TX, number);
	free(q->held);
	free(q->tx.descriptors);
	free(q->completion.frames);
	memory_log_clear(&q->sent);
}

static void memory_close(struct port *p)
{
	struct memory_port *m = memory_port(p);

	for (unsigned i = 0; m->rxqs && i < p->rxq_count; i++)
		free_rxq(m, &m->rxqs[i], p->rxqs ? p->rxqs[i].number : 0);
	for (unsigned i = 0; m->txqs && i < p->txq_count; i++)
		free_txq(m, &m->txqs[i], p->txqs ? p->txqs[i].number : 0);
	for (unsigned i = 0; p->txqs && i < p->txq_count; i++)
		pthread_spin_destroy(&p->txqs[i].lock);
	memory_log_clear(&m->delivered);
	pthread_mutex_destroy(&m->deliver_lock);
	free(m->rxqs);
	free(m->txqs);
	free(p->rxqs);
	free(p->txqs);
	free(m);
}

static const struct port_ops memory_ops = {
	.name = "memory",
	.rx_burst = memory_rx_burst,
	.refill = memory_refill,
	.rx_fd = memory_rx_fd,
	.tx_burst = memory_tx_burst,
	.tx_kick = memory_tx_kick,
	.tx_reap = memory_tx_reap,
	.deliver = memory_deliver,
	.kernel_stats = memory_kernel_stats,
	.rx_waiting = memory_rx_waiting,
	.close = memory_close,
};

static int open_rxqs(struct memory_port *m, const struct memory_port_options *o)
{
	for (uint16_t i = 0; i < m->port.rxq_count; i++) {
		struct memory_rxq *q = &m->rxqs[i];
		int r = ring_init(&q->fill, o->fill_size, sizeof(uint32_t));

		if (r == 0)
			r = ring_init(&q->rx, o->rx_size, sizeof(struct descriptor));
		if (r < 0)
			return r;
		m->port.rxqs[i].port = &m->port;
		m->port.rxqs[i].queue_id = i;
		m->port.rxqs[i].number = (uint16_t)(o->first_rxq + i);
		m->port.rxqs[i].driver = q;
	}
	return 0;
}

static int open_txqs(struct memory_port *m, const struct memory_port_options *o)
{
	for (uint16_t i = 0; i < m->port.txq_count; i++) {
		struct memory_txq *q = &m->txqs[i];
		int r = ring_init(&q->tx, o->tx_size, sizeof(struct descriptor));

		if (r == 0)
			r = ring_init(&q->completion, o->completion_size, sizeof(uint32_t));
		if (r < 0)
			return r;
		m->port.txqs[i].port = &m->port;
		m->port.txqs[i].queue_id = i;
		m->port.txqs[i].number = (uint16_t)(o->first_txq + i);
		m->port.txqs[i].rung = o->rung;
		m->port.txqs[i].carrier = true;
		m->port.txqs[i].driver = q;
	}
	for (unsigned w = 0; w < WORKERS_MAX; w++)
		m->port.worker_txq[w] = &m->port.txqs[w % m->port.txq_count];
	return 0;
}

static int alloc_queues(struct memory_port *m)
{
	struct port *p = &m->port;

	m->rxqs = calloc(p->rxq_count, sizeof(*m->rxqs));
	m->txqs = calloc(p->txq_count, sizeof(*m->txqs));
	p->rxqs = aligned_alloc(CACHE_LINE, p->rxq_count * sizeof(*p->rxqs));
	p->txqs = aligned_alloc(CACHE_LINE, p->txq_count * sizeof(*p->txqs));
	if (p->rxqs)
		memset(p->rxqs, 0, p->rxq_count * sizeof(*p->rxqs));
	if (!p->txqs)
		return -ENOMEM;
	memset(p->txqs, 0, p->txq_count * sizeof(*p->txqs));
	for (unsigned i = 0; i < p->txq_count; i++)
		pthread_spin_init(&p->txqs[i].lock, PTHREAD_PROCESS_PRIVATE);
	return m->rxqs && m->txqs && p->rxqs ? 0 : -ENOMEM;
}

int memory_port_open(const struct memory_port_options *o, struct port **ret)
{
	struct memory_port *m;
	int r;

	if (o->number >= PORT_MAX || o->rxqs > PORT_QUEUES_MAX || o->txqs > PORT_QUEUES_MAX)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->port = (struct port){ .ops = &memory_ops, .number = o->number, .rxq_count = o->rxqs ? o->rxqs : 1,
		.txq_count = o->txqs ? o->txqs : 1, .frames = o->frames, .driver = m };
	snprintf(m->port.name, sizeof(m->port.name), "%s", o->name);
	m->caches = o->caches;
	m->headroom = MEMORY_HEADROOM;
	m->discard = o->discard;
	pthread_mutex_init(&m->deliver_lock, NULL);
	r = alloc_queues(m);
	if (r == 0)
		r = open_rxqs(m, o);
	if (r == 0)
		r = open_txqs(m, o);
	if (r < 0) {
		memory_close(&m->port);
		return r;
	}
	*ret = &m->port;
	return 0;
}
