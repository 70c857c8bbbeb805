/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The memory port: transmit and completion rings, and the device behind them with its faults.
 */
#include "port/memory_impl.h"

static inline void submit_frame(struct frame *f, uint16_t queue, uint32_t now_ms)
{
	__atomic_store_n(&f->submit_ms, now_ms, __ATOMIC_RELAXED);
	frame_set_place(f, FRAME_TX, queue);
}

static __attribute__((noinline)) void submit_segments(const struct port_txq *q, struct ring *r, uint32_t at,
	const struct packet *p, uint32_t now_ms)
{
	struct frame_table *t = q->port->frames;
	struct descriptor d = { (uint64_t)(p->data - t->memory), packet_first_length(t, p), 1 };
	uint32_t index = p->frame;

	for (unsigned i = 0; i < p->seg_count; i++) {
		struct frame *f = &t->frames[index];

		if (i)
			d = (struct descriptor){ ((uint64_t)index << t->shift) + f->seg_offset, f->seg_length, 1 };
		d.more = i + 1 < p->seg_count;
		r->descriptors[(at + i) & r->mask] = d;
		index = f->next;
		submit_frame(f, q->number, now_ms);
	}
}

unsigned memory_tx_burst(struct port_txq *q, struct packet *const *pkts, unsigned n, uint32_t now_ms)
{
	struct ring *r = &((struct memory_txq *)q->driver)->tx;
	struct descriptor *descriptors = r->descriptors;
	uint32_t room = ring_room(r), at = r->produced, end = at + room, mask = r->mask, count;
	struct frame *frames = q->port->frames->frames;
	const uint8_t *memory = q->port->frames->memory;
	uint16_t number = q->number;
	uint64_t bytes = 0;
	unsigned i;

	for (i = 0; i < n; i++) {
		const struct packet *p = pkts[i];

		if (p->seg_count > end - at)
			break;
		bytes += p->length;
		if (p->seg_count == 1) {
			descriptors[at & mask] = (struct descriptor){ (uint64_t)(p->data - memory), p->length, 0 };
			submit_frame(&frames[p->frame], number, now_ms);
			at++;
		} else {
			submit_segments(q, r, at, p, now_ms);
			at += p->seg_count;
		}
	}
	count = at - r->produced;
	if (!count)
		return 0;
	counter_pair_add(&q->sent, count, bytes);
	counter_add(&q->in_flight, count);
	ring_produce(r, count);
	return i;
}

/* ---- the device ---- */

static void hold_completion(struct memory_txq *q, uint32_t frame, uint64_t due_ns)
{
	if (q->held_count == q->held_capacity) {
		uint32_t capacity = q->held_capacity ? q->held_capacity * 2 : 64;
		struct held_completion *held = realloc(q->held, capacity * sizeof(*held));

		if (!held)
			abort();
		q->held = held;
		q->held_capacity = capacity;
	}
	q->held[q->held_count++] = (struct held_completion){ frame, due_ns };
}

/* Doubled, foreign and released ones may find the ring full: they come later. */
static void push_completion(struct memory_txq *q, uint32_t frame)
{
	struct ring *c = &q->completion;

	if (!ring_room(c)) {
		hold_completion(q, frame, 0);
		return;
	}
	c->frames[c->produced & c->mask] = frame;
	ring_produce(c, 1);
}

static void complete(struct memory_port *m, struct memory_txq *q, uint32_t frame)
{
	struct memory_faults *f = &m->faults;

	if (f->lose) {
		f->lose--;
		hold_completion(q, frame, UINT64_MAX);
		return;
	}
	if (f->late) {
		f->late--;
		hold_completion(q, frame, m->now_ns + f->late_ns);
		return;
	}
	push_completion(q, frame);
	if (f->twice) {
		f->twice--;
		push_completion(q, frame);
	}
	if (f->foreign) {
		f->foreign--;
		push_completion(q, f->foreign_frame);
	}
}

static bool any_fault(const struct memory_faults *f)
{
	return f->lose || f->late || f->twice || f->foreign || f->reorder;
}

static inline uint32_t sent_frame(const struct memory_port *m, const struct ring *tx, uint32_t at)
{
	return (uint32_t)(tx->descriptors[at & tx->mask].addr >> m->port.frames->shift);
}

static void complete_all(struct memory_port *m, struct memory_txq *q, uint32_t from, uint32_t n)
{
	const struct ring *tx = &q->tx;
	struct ring *c = &q->completion;
	const struct descriptor *sent = tx->descriptors;
	uint32_t to = c->produced, *frames = c->frames, shift = m->port.frames->shift;

	if (!any_fault(&m->faults) && ring_room(c) >= n) {
		for (uint32_t i = 0; i < n; i++)
			frames[(to + i) & c->mask] = (uint32_t)(sent[(from + i) & tx->mask].addr >> shift);
		ring_produce(c, n);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = m->faults.reorder ? n - 1 - i : i;

		complete(m, q, sent_frame(m, tx, from + k));
	}
}

/* Keep a copy of the packet that begins at @at. Returns its number of descriptors. */
static uint32_t record_sent(struct memory_port *m, struct memory_txq *q, uint32_t at)
{
	const struct ring *r = &q->tx;
	uint32_t n = 1, length = r->descriptors[at & r->mask].length;
	uint8_t *to;

	while (r->descriptors[(at + n - 1) & r->mask].more)
		length += r->descriptors[(at + n++) & r->mask].length;
	to = memory_log_add(&q->sent, length, n, m->now_ns);
	for (uint32_t i = 0; i < n; i++) {
		const struct descriptor *d = &r->descriptors[(at + i) & r->mask];

		memcpy(to, m->port.frames->memory + d->addr, d->length);
		to += d->length;
	}
	return n;
}

/* As in the kernel, a packet is taken only when its completions will fit their ring. */
static uint32_t takeable(const struct memory_txq *q)
{
	const struct ring *r = &q->tx;
	uint32_t n = ring_waiting(r), room = ring_room(&q->completion);

	if (n <= room)
		return n;
	for (n = room; n && r->descriptors[(r->consumed + n - 1) & r->mask].more;)
		n--;
	return n;
}

/* The device takes what was submitted. */
static void transmit(struct memory_port *m, struct memory_txq *q)
{
	struct ring *r = &q->tx;
	uint32_t from = r->consumed, n = takeable(q);

	if (m->faults.stuck || !n)
		return;
	for (uint32_t i = 0; i < n && !m->discard;)
		i += record_sent(m, q, from + i);
	complete_all(m, q, from, n);
	ring_consume(r, n);
}

void memory_tx_kick(struct port_txq *q)
{
	struct memory_port *m = memory_port(q->port);

	counter_add(&q->kicks, 1);
	if (m->faults.stuck)
		counter_add(&q->kick_again, 1);
	transmit(m, q->driver);
}

/* It is captured or held besides: then it stays with the others, but is in flight no more. */
static void put_shared(struct frame_cache *cache, struct frame_cache *const *caches, struct frame *f, uint32_t index)
{
	if (__atomic_load_n(&f->refs, __ATOMIC_RELAXED) != 1)
		frame_set_place(f, FRAME_HELD, FRAME_NO_QUEUE);
	frame_put_shared(cache, caches, index);
}

unsigned memory_tx_reap(struct port_txq *q, struct frame_cache *cache, struct frame_cache *const *caches)
{
	struct ring *c = &((struct memory_txq *)q->driver)->completion;
	uint32_t waiting = ring_waiting(c), bogus = 0, count = q->port->frames->count, mask = c->mask, at = c->consumed;
	struct frame *frames = q->port->frames->frames;
	const uint32_t *completed = c->frames;
	uint16_t number = q->number;

	for (uint32_t end = at + waiting; at != end; at++) {
		uint32_t index = completed[at & mask];
		struct frame *f = &frames[index];

		if (unlikely(index >= count || !memory_in_flight(f, number)))
			bogus++;
		else if (!frame_put_own(cache, f, index))
			put_shared(cache, caches, f, index);
	}
	if (!waiting)
		return 0;
	ring_consume(c, waiting);
	if (bogus)
		counter_add(&q->bogus_completions, bogus);
	counter_add(&q->completed, waiting - bogus);
	counter_add(&q->in_flight, -(uint64_t)(waiting - bogus));
	return waiting - bogus;
}

/* Let in what is due; what finds the completion ring full waits on. */
static void release_due(struct memory_txq *q, uint64_t now_ns)
{
	uint32_t count = q->held_count;

	q->held_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct held_completion h = q->held[i];

		if (h.due_ns <= now_ns)
			push_completion(q, h.frame);
		else
			q->held[q->held_count++] = h;
	}
}

void memory_port_step(struct port *p, uint64_t now_ns)
{
	struct memory_port *m = memory_port(p);

	m->now_ns = now_ns;
	for (unsigned i = 0; i < p->txq_count; i++) {
		release_due(&m->txqs[i], now_ns);
		transmit(m, &m->txqs[i]);
	}
}

void memory_port_release(struct port *p)
{
	struct memory_port *m = memory_port(p);

	for (unsigned i = 0; i < p->txq_count; i++)
		for (uint32_t k = 0; k < m->txqs[i].held_count; k++)
			if (m->txqs[i].held[k].due_ns == UINT64_MAX)
				m->txqs[i].held[k].due_ns = 0;
	memory_port_step(p, m->now_ns);
}

void memory_port_set_carrier(struct port *p, bool carrier)
{
	for (unsigned i = 0; i < p->txq_count; i++)
		__atomic_store_n(&p->txqs[i].carrier, carrier, __ATOMIC_RELAXED);
}

struct memory_faults *memory_port_faults(struct port *p)
{
	return &memory_port(p)->faults;
}
