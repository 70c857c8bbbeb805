/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The four rings of an AF_XDP socket, as the kernel lays them out in memory that both sides map. One producer, one
 * consumer each; who that is on our side is the caller's business (a worker, or the holder of a queue's lock).
 *
 * Barriers: the producer fills entries, then releases the producer index; the consumer acquires it, reads entries, then
 * releases the consumer index; the producer acquires that before it overwrites. The kernel's half: net/xdp/xsk_queue.h.
 */
#ifndef ROUTERD_PORT_XSK_RING_H
#define ROUTERD_PORT_XSK_RING_H

#include <linux/if_xdp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not in the headers of Debian 12 (linux-libc-dev 6.1). */
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

struct xsk_ring {
	uint32_t *producer, *consumer, *flags;  /* shared with the kernel; NULL: there is no such ring */
	void *entries;                          /* struct xdp_desc, or uint64_t (fill, completion) */
	uint32_t size, mask;                    /* entries, a power of two */
	uint32_t head;                          /* our own index: of the next entry we write or read */
	uint32_t limit;                         /* the other side's index as last seen */
	void *map;
	size_t map_length;
};

/* Map the ring of @fd at @page_offset (XDP_PGOFF_*). 0 or -errno. */
int xsk_ring_map(struct xsk_ring *r, int fd, const struct xdp_ring_offset *offset, uint64_t page_offset, uint32_t size,
	size_t entry_size);
void xsk_ring_unmap(struct xsk_ring *r);

/* ---- we produce: fill, transmit ---- */

/* Entries that can be written; looks at the kernel's index only when fewer than @want are known. */
static inline uint32_t xsk_ring_room(struct xsk_ring *r, uint32_t want)
{
	uint32_t room = r->size - (r->head - r->limit);

	if (room < want) {
		r->limit = __atomic_load_n(r->consumer, __ATOMIC_ACQUIRE);
		room = r->size - (r->head - r->limit);
	}
	return room;
}

static inline void xsk_ring_submit(struct xsk_ring *r)
{
	__atomic_store_n(r->producer, r->head, __ATOMIC_RELEASE);
}

/* Entries written that the kernel has not taken yet. */
static inline uint32_t xsk_ring_pending(const struct xsk_ring *r)
{
	return r->head - __atomic_load_n(r->consumer, __ATOMIC_ACQUIRE);
}

/* The thread sanitizer knows no fences. This one orders us against the kernel, which it cannot see anyway. */
static inline void xsk_ring_fence(void)
{
#ifdef __SANITIZE_THREAD__
	uint32_t nothing = 0;

	__atomic_add_fetch(&nothing, 1, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Does the kernel want to be woken? The fence keeps the look at the flag behind the store of the index. */
static inline bool xsk_ring_needs_wakeup(const struct xsk_ring *r)
{
	xsk_ring_fence();
	return __atomic_load_n(r->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
}

/* ---- we consume: receive, completion ---- */

/* Entries that can be read; looks at the kernel's index only when fewer than @want are known. */
static inline uint32_t xsk_ring_available(struct xsk_ring *r, uint32_t want)
{
	uint32_t available = r->limit - r->head;

	if (available < want) {
		r->limit = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
		available = r->limit - r->head;
	}
	return available;
}

static inline void xsk_ring_release(struct xsk_ring *r)
{
	__atomic_store_n(r->consumer, r->head, __ATOMIC_RELEASE);
}

/* Entries that wait, seen from outside the consumer. Any thread; a moment old. */
static inline uint32_t xsk_ring_waiting(const struct xsk_ring *r)
{
	return __atomic_load_n(r->producer, __ATOMIC_RELAXED) - __atomic_load_n(r->consumer, __ATOMIC_RELAXED);
}

static inline struct xdp_desc *xsk_ring_desc(const struct xsk_ring *r, uint32_t index)
{
	return (struct xdp_desc *)r->entries + (index & r->mask);
}

static inline uint64_t *xsk_ring_addr(const struct xsk_ring *r, uint32_t index)
{
	return (uint64_t *)r->entries + (index & r->mask);
}

#endif
