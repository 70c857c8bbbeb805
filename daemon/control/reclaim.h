/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The memory of the tables that workers read without locks: the daemon's struct route_memory, by userspace RCU
 * (liburcu, QSBR flavour). What is retired is freed after a grace period by a thread of its own ("reclaim"), in
 * batches, at most one grace period each 10 ms; without anything to free that thread sleeps.
 *
 * Threads:
 * - Each thread that looks something up (the workers) must be registered (quiescent_register(), common/quiescent.h)
 *   before its first look-up, pass a quiescent state in each loop, and be offline whenever it may sleep. One that
 *   does not holds up all freeing; one that is not registered reads freed memory.
 * - The control thread, the only writer, calls everything below, and needs no registration: what it reads, only
 *   itself takes away. If it is registered all the same it must be offline in reclaim_barrier() and reclaim_free().
 * - The reclaim thread is not registered; signals are blocked in it.
 *
 * Memory is bounded: when RECLAIM_WAITING_MAX bytes wait (or the list of them cannot grow), retire waits for a grace
 * period itself, that is for the slowest worker's loop, and frees at once.
 */
#ifndef ROUTERD_CONTROL_RECLAIM_H
#define ROUTERD_CONTROL_RECLAIM_H

#include <stddef.h>
#include <stdint.h>

#include "route/memory.h"

#define RECLAIM_WAITING_MAX (64u << 20)
#define RECLAIM_MAP_MIN (1u << 20)  /* blocks from this size on are mapped: pages never touched cost nothing */

struct reclaim;

struct reclaim_sizes {
	size_t in_use;     /* bytes allocated, neither released nor retired */
	size_t waiting;    /* bytes retired and not freed yet */
	uint64_t periods;  /* grace periods ended */
	uint64_t stalls;   /* times that retire had to wait */
};

/* NULL with errno set when there is no memory or no thread. */
struct reclaim *reclaim_new(void);

/* Free what waits (as reclaim_barrier()) and end the thread. Blocks that were neither released nor retired remain
 * their owner's, who can no longer give them back. NULL is fine. */
void reclaim_free(struct reclaim *r);

/* The functions of route_memory. They are valid until reclaim_free(). Control thread. */
struct route_memory reclaim_memory(struct reclaim *r);

/* Call @fn in the reclaim thread after a grace period. Cannot fail; may wait, and then @fn runs in the caller.
 * @fn calls nothing of this header. */
void reclaim_defer(struct reclaim *r, void (*fn)(void *arg), void *arg);

/* Wait until all that was retired or deferred before is freed. Workers must be running, offline or gone. */
void reclaim_barrier(struct reclaim *r);

void reclaim_get_sizes(struct reclaim *r, struct reclaim_sizes *ret);

#endif
