/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The memory port: receive rings, and the injection of packets into them.
 */
#include "port/memory_impl.h"

static inline struct frame *take(struct frame_table *t, uint32_t index)
{
	struct frame *f = &t->frames[index];

	__atomic_store_n(&f->refs, 1, __ATOMIC_RELAXED);
	frame_set_place(f, FRAME_WORKER, FRAME_NO_QUEUE);
	return f;
}

/* Link the following descriptors' frames to the first. The producer writes whole packets, so they are all there. */
static __attribute__((noinline)) uint32_t receive_segments(struct frame_table *t, const struct ring *r, uint32_t at,
	struct packet *p)
{
	const struct descriptor *d = &r->descriptors[at & r->mask];
	uint32_t last = p->frame, n = 1;

	while (d->more) {
		uint32_t index;
		struct frame *f;

		d = &r->descriptors[(at + n++) & r->mask];
		index = frame_of_addr(t, d->addr);
		f = take(t, index);
		f->seg_offset = (uint16_t)(d->addr & (frame_size(t) - 1));
		f->seg_length = (uint16_t)d->length;
		t->frames[last].next = index;
		last = index;
		p->length += d->length;
	}
	t->frames[last].next = FRAME_NONE;
	p->seg_count = (uint16_t)n;
	return n;
}

unsigned memory_rx_burst(struct port_rxq *q, struct packet *out, unsigned max)
{
	struct ring *r = &((struct memory_rxq *)q->driver)->rx;
	struct frame_table *t = q->port->frames;
	const struct descriptor *descriptors = r->descriptors;
	uint32_t at = r->consumed, end = at + ring_waiting(r), used, mask = r->mask, invalid = 0;
	uint16_t number = q->port->number;
	uint8_t *memory = t->memory;
	struct packet *p = out;
	uint64_t bytes = 0;

	for (; p < out + max && at != end; p++) {
		const struct descriptor *d = &descriptors[at & mask];
		uint32_t index = frame_of_addr(t, d->addr);

		if (unlikely(index == FRAME_NONE)) {
			*p = (struct packet){ .frame = FRAME_NONE, .port = number, .seg_count = 1 };
			invalid++;
			at++;
			continue;
		}
		*p = (struct packet){ .data = memory + d->addr, .frame = index, .length = d->length, .seg_count = 1,
			.port = number };
		__builtin_prefetch(p->data);
		take(t, index);
		at += d->more ? receive_segments(t, r, at, p) : 1;
		bytes += p->length;
	}
	used = at - r->consumed;
	if (!used)
		return 0;
	ring_consume(r, used);
	counter_pair_add(&q->received, (uint64_t)(p - out), bytes);
	counter_add(&q->in_fill, -(uint64_t)(used - invalid));
	if (invalid)
		counter_add(&q->invalid, invalid);
	return (unsigned)(p - out);
}

void memory_refill(struct port_rxq *q, struct frame_cache *cache)
{
	struct ring *r = &((struct memory_rxq *)q->driver)->fill;
	uint32_t room = ring_room(r), total = 0;

	while (room) {
		uint32_t at = r->produced & r->mask, contiguous = r->mask + 1 - at;
		uint32_t n = frame_alloc_fill(cache, q->number, r->frames + at, room < contiguous ? room : contiguous);

		if (!n)
			break;
		ring_produce(r, n);
		room -= n;
		total += n;
	}
	if (total)
		counter_add(&q->in_fill, total);
	if (room)
		counter_add(&q->refill_short, 1);
}

unsigned memory_rx_waiting(const struct port_rxq *q)
{
	const struct ring *r = &((const struct memory_rxq *)q->driver)->rx;

	return __atomic_load_n(&r->produced, __ATOMIC_RELAXED) - __atomic_load_n(&r->consumed, __ATOMIC_RELAXED);
}

/* ---- inject ---- */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

/* Let the address sanitizer see every access beside the packet, but for the four bytes that a VLAN tag may take. */
static void guard_frame(const struct frame_table *t, uint32_t frame, uint32_t offset, uint32_t length)
{
	uint8_t *chunk = frame_data(t, frame);

	ASAN_UNPOISON_MEMORY_REGION(chunk, frame_size(t));
	ASAN_POISON_MEMORY_REGION(chunk + offset + length, frame_size(t) - offset - length);
	if (offset >= 4)
		ASAN_POISON_MEMORY_REGION(chunk, (offset - 4) & ~7u);
}
#else
static void guard_frame(const struct frame_table *t, uint32_t frame, uint32_t offset, uint32_t length)
{
}
#endif

static int check_inject(struct memory_port *m, struct memory_rxq *q, const uint32_t *lengths, unsigned n)
{
	uint32_t room = frame_size(m->port.frames);

	for (unsigned i = 0; i < n; i++)
		if (m->headroom > room || lengths[i] > room - m->headroom)
			return -EMSGSIZE;
	if (ring_waiting(&q->fill) < n) {
		q->fill_empty++;
		return -ENOBUFS;
	}
	return ring_room(&q->rx) < n ? -ENOSPC : 0;
}

int memory_port_inject_segments(struct port *p, unsigned queue, const void *bytes, const uint32_t *lengths, unsigned n)
{
	struct memory_port *m = memory_port(p);
	const uint8_t *from = bytes;
	struct memory_rxq *q;
	int r;

	if (queue >= p->rxq_count || !n)
		return -EINVAL;
	q = &m->rxqs[queue];
	r = check_inject(m, q, lengths, n);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < n; i++) {
		uint32_t frame = q->fill.frames[(q->fill.consumed + i) & q->fill.mask];

		guard_frame(p->frames, frame, m->headroom, lengths[i]);
		memcpy(frame_data(p->frames, frame) + m->headroom, from, lengths[i]);
		from += lengths[i];
		q->rx.descriptors[(q->rx.produced + i) & q->rx.mask] = (struct descriptor){
			((uint64_t)frame << p->frames->shift) + m->headroom, lengths[i], i + 1 < n };
	}
	ring_consume(&q->fill, n);
	ring_produce(&q->rx, n);
	return 0;
}

int memory_port_inject(struct port *p, unsigned queue, const void *bytes, uint32_t length)
{
	return memory_port_inject_segments(p, queue, bytes, &length, 1);
}

int memory_port_inject_invalid(struct port *p, unsigned queue)
{
	struct memory_port *m = memory_port(p);
	struct ring *r;

	if (queue >= p->rxq_count)
		return -EINVAL;
	r = &m->rxqs[queue].rx;
	if (!ring_room(r))
		return -ENOSPC;
	r->descriptors[r->produced & r->mask] = (struct descriptor){
		.addr = ((uint64_t)p->frames->count << p->frames->shift) + 7, .length = 60 };
	ring_produce(r, 1);
	return 0;
}

void memory_port_set_headroom(struct port *p, uint32_t bytes)
{
	memory_port(p)->headroom = bytes;
}
