/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The frame ledger: where all frames of the packet memory are, counted in two independent ways. "Records" walks the
 * frames' own records (each names one place). "Containers" adds up what the holders say they hold: the caches' counts,
 * the queues' in_fill and in_flight gauges, the length of the return lists and quarantines. A frame that was lost,
 * doubled or freed twice shows as a difference between the two. While packets move, a difference of a few frames is
 * only the moment between two reads; at rest both books agree to the frame (design.md, promise 3).
 *
 * Context: control. Everything read here belongs to running workers and is read with relaxed atomics.
 */
#ifndef ROUTERD_PORT_LEDGER_H
#define ROUTERD_PORT_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/frame.h"
#include "port/port.h"

struct ledger {
	uint64_t total;                          /* frames of the packet memory */
	uint64_t records[FRAME_PLACE_COUNT];     /* by enum frame_place */
	uint64_t containers[FRAME_PLACE_COUNT];  /* FRAME_WORKER has no container: 0 */
	int64_t difference;                      /* total - sum of containers: frames that no holder knows of (< 0: too many) */
	bool balanced;                           /* difference is 0 and both books agree place by place */
};

/* Start a ledger: count the records. */
void ledger_count_records(struct ledger *l, const struct frame_table *t);

/* Add a holder. @free: frames in a worker's cache, as the worker says. */
void ledger_add_free(struct ledger *l, uint64_t free);
void ledger_add_returning(struct ledger *l, const struct frame_cache *c);
void ledger_add_port(struct ledger *l, const struct port *p);
void ledger_add_held(struct ledger *l, uint64_t held);
void ledger_add_quarantine(struct ledger *l, uint64_t count);

/* Compare the books. */
void ledger_close(struct ledger *l);

/* Frames in flight for long, per transmit queue number. */
struct ledger_late {
	uint32_t crossed;  /* came to be older than one second since the walk before */
	uint32_t stuck;    /* older than five seconds now */
};

#define LEDGER_LATE_MS 1000u
#define LEDGER_STUCK_MS 5000u

/* Walk the frames in flight. @now_ms as in frame.submit_ms, @interval_ms since the walk before. @ret has @queues
 * entries, by transmit queue number; it is set, not added to. */
void ledger_find_late(const struct frame_table *t, uint32_t now_ms, uint32_t interval_ms, struct ledger_late *ret,
	unsigned queues);

#endif
