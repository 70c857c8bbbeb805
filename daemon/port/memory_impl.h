/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the files of the memory port share: rings, queues, logs. See memory.h for threads and ownership.
 */
#ifndef ROUTERD_PORT_MEMORY_IMPL_H
#define ROUTERD_PORT_MEMORY_IMPL_H

#include <errno.h>
#include <stdlib.h>

#include "port/memory.h"

/* As in a ring of AF_XDP. */
struct descriptor {
	uint64_t addr;    /* offset in the packet memory */
	uint32_t length;
	uint32_t more;    /* the packet goes on in the next descriptor */
};

/* One producer, one consumer; counts run freely. */
struct ring {
	uint32_t mask;
	uint32_t produced, consumed;  /* atomic */
	union {
		struct descriptor *descriptors;
		uint32_t *frames;
	};
};

struct memory_rxq {
	struct ring fill, rx;
	uint64_t fill_empty;  /* injections that found no frame */
};

/* A completion that is kept back. */
struct held_completion {
	uint32_t frame;
	uint64_t due_ns;  /* UINT64_MAX: lost */
};

struct memory_txq {
	struct ring tx, completion;
	struct held_completion *held;
	uint32_t held_count, held_capacity;
	struct memory_log sent;
};

struct memory_port {
	struct port port;
	struct memory_rxq *rxqs;
	struct memory_txq *txqs;
	struct memory_faults faults;
	struct memory_log delivered;
	pthread_mutex_t deliver_lock;
	struct frame_cache *const *caches;
	uint64_t now_ns;
	uint32_t headroom;
	bool discard;
};

static inline struct memory_port *memory_port(const struct port *p)
{
	return p->driver;
}

/* The consumer's and the producer's view; acquire pairs with the other side's release. */
static inline uint32_t ring_waiting(const struct ring *r)
{
	return __atomic_load_n(&r->produced, __ATOMIC_ACQUIRE) - r->consumed;
}

static inline uint32_t ring_room(const struct ring *r)
{
	return r->mask + 1 - (r->produced - __atomic_load_n(&r->consumed, __ATOMIC_ACQUIRE));
}

static inline void ring_produce(struct ring *r, uint32_t n)
{
	__atomic_store_n(&r->produced, r->produced + n, __ATOMIC_RELEASE);
}

static inline void ring_consume(struct ring *r, uint32_t n)
{
	__atomic_store_n(&r->consumed, r->consumed + n, __ATOMIC_RELEASE);
}

/* A new entry of @length bytes at the end of a log, to be filled in. */
uint8_t *memory_log_add(struct memory_log *log, uint32_t length, uint32_t segments, uint64_t now_ns);
void memory_log_clear(struct memory_log *log);

/* The receive half (memory_rx.c) and the transmit half (memory_tx.c) of the contract. */
unsigned memory_rx_burst(struct port_rxq *q, struct packet *out, unsigned max);
void memory_refill(struct port_rxq *q, struct frame_cache *cache);
unsigned memory_rx_waiting(const struct port_rxq *q);
unsigned memory_tx_burst(struct port_txq *q, struct packet *const *pkts, unsigned n, uint32_t now_ms);
void memory_tx_kick(struct port_txq *q);
unsigned memory_tx_reap(struct port_txq *q, struct frame_cache *cache, struct frame_cache *const *caches);

/* Is the frame in flight on this queue? Its record says so, whatever the device says. */
static inline bool memory_in_flight(const struct frame *f, uint16_t queue)
{
	return frame_is_at(f, FRAME_TX, queue);
}

#endif
