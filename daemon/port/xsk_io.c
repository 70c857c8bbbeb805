/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * AF_XDP, packets: receive, refill, send, kick, reap. Called by the queue's worker (or the holder of its lock).
 */
#include "port/xsk_impl.h"

#define REFILL_CHUNK 64u
#define KICKS_MAX 32u         /* system calls per kick; what is left waits for the next one */
#define FRAME_LENGTH_MIN 17u  /* gve takes no less (afxdp-drivers 3.3) */
#define ETHERNET_MIN 60u      /* without FCS; shorter frames are padded */

/* The frame of a descriptor, now ours; FRAME_NONE when we did not give this frame to this queue. */
static inline uint32_t take_frame(const struct port_rxq *q, uint64_t addr)
{
	const struct frame_table *t = q->port->frames;
	uint32_t index = frame_of_addr(t, addr);
	struct frame *f;

	if (unlikely(index == FRAME_NONE))
		return FRAME_NONE;
	f = &t->frames[index];
	if (unlikely(!frame_is_at(f, FRAME_FILL, q->number)))
		return FRAME_NONE;
	__atomic_store_n(&f->refs, 1, __ATOMIC_RELAXED);
	frame_set_place(f, FRAME_WORKER, FRAME_NO_QUEUE);
	return index;
}

static inline bool fits(const struct frame_table *t, const struct xdp_desc *d)
{
	return (d->addr & (frame_size(t) - 1)) + d->len <= frame_size(t);
}

/* Segments behind the first one: their frames are linked, their places noted in their records. An invalid one makes the
 * packet one of length 0, which goes to its verdict with the frames it has. */
static void read_segments(struct port_rxq *q, const struct xsk_ring *r, unsigned count, struct packet *p)
{
	const struct frame_table *t = q->port->frames;
	uint32_t last = p->frame;
	bool valid = p->frame != FRAME_NONE && p->length;

	for (unsigned i = 1; i < count; i++) {
		const struct xdp_desc *d = xsk_ring_desc(r, r->head + i);
		uint32_t index = take_frame(q, d->addr);
		struct frame *f;

		if (index == FRAME_NONE || !fits(t, d))
			valid = false;
		if (index == FRAME_NONE)
			continue;
		f = &t->frames[index];
		f->seg_offset = (uint16_t)(d->addr & (frame_size(t) - 1));
		f->seg_length = (uint16_t)d->len;
		f->next = FRAME_NONE;
		if (last == FRAME_NONE) {
			p->frame = index;
			p->data = frame_data(t, index);
			p->seg_count = 1;
		} else {
			t->frames[last].next = index;
			p->seg_count++;
		}
		last = index;
		p->length += d->len;
	}
	if (!valid)
		p->length = 0;
}

/* Descriptors of the packet at the ring's head; 0 = it has not arrived whole yet. */
static unsigned count_segments(const struct xsk_ring *r, uint32_t available)
{
	for (uint32_t i = 0; i < available; i++)
		if (!(xsk_ring_desc(r, r->head + i)->options & XDP_PKT_CONTD))
			return i + 1;
	return 0;
}

/* Read the packet of @count descriptors at the ring's head. */
static inline void read_packet(struct port_rxq *q, const struct xsk_ring *r, unsigned count, struct packet *p)
{
	const struct frame_table *t = q->port->frames;
	const struct xdp_desc *d = xsk_ring_desc(r, r->head);
	uint32_t index = take_frame(q, d->addr);

	*p = (struct packet){
		.frame = index,
		.port = q->port->number,
		.seg_count = 1,
	};
	if (likely(index != FRAME_NONE)) {
		p->data = t->memory + d->addr;
		__builtin_prefetch(p->data);
		p->length = likely(fits(t, d)) ? d->len : 0;
		t->frames[index].next = FRAME_NONE;
	}
	if (unlikely(count > 1))
		read_segments(q, r, count, p);
	if (unlikely(!p->length))
		counter_add(&q->invalid, 1);
}

unsigned xsk_rx_burst(struct port_rxq *q, struct packet *out, unsigned max)
{
	struct xsk_ring *r = &((struct xsk_rxq *)q->driver)->socket->rx;
	uint32_t available = xsk_ring_available(r, max);
	uint64_t bytes = 0, frames = 0;
	unsigned n = 0;

	while (n < max && available) {
		unsigned count = count_segments(r, available);

		if (!count)
			break;
		read_packet(q, r, count, &out[n]);
		if (out[n].frame != FRAME_NONE)
			frames += out[n].seg_count;
		bytes += out[n].length;
		r->head += count;
		available -= count;
		n++;
	}
	if (!n)
		return 0;
	xsk_ring_release(r);
	counter_pair_add(&q->received, n, bytes);
	counter_add(&q->in_fill, -frames);
	return n;
}

/* Write up to @want free frames into the fill ring. Returns how many. */
static uint32_t fill(struct port_rxq *q, struct xsk_ring *r, struct frame_cache *cache, uint32_t want)
{
	uint32_t indexes[REFILL_CHUNK], done = 0;

	while (done < want) {
		uint32_t chunk = want - done < REFILL_CHUNK ? want - done : REFILL_CHUNK;
		unsigned n = frame_alloc_fill(cache, q->number, indexes, chunk);

		for (unsigned i = 0; i < n; i++)
			*xsk_ring_addr(r, r->head++) = (uint64_t)indexes[i] << q->port->frames->shift;
		done += n;
		if (n < chunk) {
			counter_add(&q->refill_short, 1);
			break;
		}
	}
	return done;
}

void xsk_refill(struct port_rxq *q, struct frame_cache *cache)
{
	struct xsk_rxq *x = q->driver;
	struct xsk_ring *r = &x->socket->fill;
	uint32_t limit = __atomic_load_n(&x->limit, __ATOMIC_RELAXED);
	uint32_t held = (uint32_t)counter_read(&q->in_fill), want, room;

	if (held >= limit)
		return;
	want = limit - held;
	if (want < XSK_REFILL_MIN && held >= limit / 2)
		return;
	room = xsk_ring_room(r, want);
	want = fill(q, r, cache, want < room ? want : room);
	if (!want)
		return;
	counter_add(&q->in_fill, want);
	xsk_ring_submit(r);
	/* Without buffers a driver may take no interrupt any more: not telling it would stop the queue for ever. */
	if (xsk_ring_needs_wakeup(r))
		xsk_socket_wake_rx(x->socket);
}

/* Can it be described to the kernel? What cannot must not be published: it would vanish without a completion, or be
 * refused for ever (afxdp-drivers 1.8, 2.2). Sets *@ret to the descriptor. */
static inline bool describe(const struct frame_table *t, struct packet *p, struct xdp_desc *ret)
{
	uint64_t addr = (uint64_t)(p->data - t->memory);
	uint32_t offset = addr & (frame_size(t) - 1), length = p->length;

	if (unlikely(p->seg_count != 1 || length < FRAME_LENGTH_MIN || frame_of_addr(t, addr) != p->frame))
		return false;
	if (unlikely(length < ETHERNET_MIN && offset + ETHERNET_MIN <= frame_size(t) &&
		     __atomic_load_n(&t->frames[p->frame].refs, __ATOMIC_RELAXED) == 1)) {
		memset(p->data + length, 0, ETHERNET_MIN - length);
		length = ETHERNET_MIN;
	}
	*ret = (struct xdp_desc){ .addr = addr, .len = length };
	return likely(offset + length <= frame_size(t));
}

unsigned xsk_tx_burst(struct port_txq *q, struct packet *const *pkts, unsigned n, uint32_t now_ms)
{
	struct xsk_txq *x = q->driver;
	struct xsk_ring *r = &x->socket->tx;
	const struct frame_table *t = q->port->frames;
	uint32_t in_flight = (uint32_t)counter_read(&q->in_flight);
	uint32_t limit = __atomic_load_n(&x->limit, __ATOMIC_RELAXED);
	uint32_t room = xsk_ring_room(r, n);
	uint64_t bytes = 0;
	unsigned sent;

	if (!__atomic_load_n(&q->carrier, __ATOMIC_RELAXED) || in_flight >= limit)
		return 0;
	if (room > limit - in_flight)
		room = limit - in_flight;
	if (n > room)
		n = room;
	for (sent = 0; sent < n; sent++) {
		struct packet *p = pkts[sent];
		struct frame *f;

		if (unlikely(!describe(t, p, xsk_ring_desc(r, r->head))))
			break;
		f = &t->frames[p->frame];
		__atomic_store_n(&f->submit_ms, now_ms, __ATOMIC_RELAXED);
		frame_set_place(f, FRAME_TX, q->number);
		bytes += p->length;
		r->head++;
	}
	if (!sent)
		return 0;
	counter_add(&q->in_flight, sent);
	counter_pair_add(&q->sent, sent, bytes);
	xsk_ring_submit(r);
	return sent;
}

/* The kernel takes a bounded number of descriptors per call, and its return value says nothing about how many: compare
 * the indexes (afxdp-drivers 1.8). */
static void kick_copy(struct port_txq *q, struct xsk_txq *x)
{
	const struct xsk_ring *r = &x->socket->tx;
	uint32_t before = xsk_ring_pending(r);

	for (unsigned i = 0; i < KICKS_MAX && before; i++) {
		int error = xsk_socket_wake_tx(x->socket);
		uint32_t after = xsk_ring_pending(r);

		counter_add(&q->kicks, 1);
		switch (error) {
		case 0:
			break;
		case -EBUSY:  /* one packet was dropped, and completed: queue full, or no link */
			counter_add(&x->busy_drops, 1);
			counter_add(&q->kick_again, 1);
			break;
		case -EAGAIN: /* more is left, or there is no room: completion ring, send buffer, device queue */
			counter_add(&q->kick_again, 1);
			break;
		default:      /* ENETDOWN, ENXIO, ENOBUFS: they stay in the ring until a later kick */
			counter_add(&q->kick_errors, 1);
			return;
		}
		if (after == before)
			return;
		before = after;
	}
}

static void kick_zero_copy(struct port_txq *q, struct xsk_txq *x)
{
	int error;

	if (!counter_read(&q->in_flight) || !xsk_ring_needs_wakeup(&x->socket->tx))
		return;
	error = xsk_socket_wake_tx(x->socket);
	counter_add(&q->kicks, 1);
	if (error == -EAGAIN || error == -EBUSY)
		counter_add(&q->kick_again, 1);
	else if (error)
		counter_add(&q->kick_errors, 1);
}

void xsk_tx_kick(struct port_txq *q)
{
	struct xsk_txq *x = q->driver;

	if (x->socket->zero_copy)
		kick_zero_copy(q, x);
	else
		kick_copy(q, x);
}

unsigned xsk_tx_reap(struct port_txq *q, struct frame_cache *cache, struct frame_cache *const *caches)
{
	struct xsk_txq *x = q->driver;
	struct xsk_ring *r = &x->socket->completion;
	const struct frame_table *t = q->port->frames;
	uint32_t n = xsk_ring_available(r, r->size), bogus = 0;

	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = frame_of_addr(t, *xsk_ring_addr(r, r->head++));

		if (unlikely(index == FRAME_NONE || !frame_is_at(&t->frames[index], FRAME_TX, q->number))) {
			bogus++;
			continue;
		}
		frame_put(cache, caches, index);
	}
	xsk_ring_release(r);
	if (bogus)
		counter_add(&q->bogus_completions, bogus);
	counter_add(&q->completed, n - bogus);
	counter_add(&q->in_flight, -(uint64_t)(n - bogus));
	return n - bogus;
}
