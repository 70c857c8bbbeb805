/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The stages a batch goes through, in one place and in this order:
 *   parse/validate → route (rules, look-up, source checks, path) → neighbour → rewrite → transmit | deliver | drop.
 * Reentrant per struct pipeline; one per worker, used by that worker alone. No allocation, lock, log or system call
 * but what the port does in deliver, tx_kick.
 */
#ifndef ROUTERD_WORKER_PIPELINE_H
#define ROUTERD_WORKER_PIPELINE_H

#include "port/port.h"
#include "route/fib.h"

/* What one worker did with packets that came in by one port. Written by that worker, read by anyone. */
struct pipeline_port_stats {
	struct counter_pair verdicts[VERDICT_COUNT];
} cache_aligned;

struct pipeline_stats {
	struct pipeline_port_stats ports[PORT_MAX];  /* by ingress port number */
	counter lookups4, lookups6;                  /* longest-prefix look-ups */
	counter batches;
	counter batch_size[8];                       /* batches of 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64, unused */
	counter held;                                /* gauge: packets without a verdict that stay in the worker */
};

/* Packets waiting for one egress port until the flush at the end of the batch. */
struct pipeline_out {
	uint16_t count;
	uint16_t port;
	struct packet *packets[BATCH_SIZE];
};

/* What a batch needs to know of an egress interface, looked up once: one cache line. Valid within one batch. */
struct egress {
	const struct fib_iface *iface;
	struct pipeline_out *out;   /* of its port */
	uint64_t mac_head;          /* source MAC's first two bytes, in the place they have behind the destination's */
	uint32_t mac_tail;          /* its other four, as on the wire */
	uint32_t plain_mtu4;        /* packets up to this length need no more questions; 0 = always ask (see route) */
	uint32_t plain_mtu6;
	uint16_t number;            /* of the interface */
	uint16_t vlan;
} cache_aligned;

struct pipeline {
	const struct fib *fib;
	struct port *const *ports;             /* [PORT_MAX] by number, NULL = none; entries RCU-published by control */
	struct frame_cache *cache;
	struct frame_cache *const *caches;     /* [WORKERS_MAX] */
	struct pipeline_stats *stats;
	uint8_t worker;
	uint16_t out_count;                    /* egress ports used in this batch */
	uint16_t out_used[PORT_MAX];           /* their numbers */
	struct pipeline_out *outs;             /* [PORT_MAX] */
	uint8_t *egress_index;                 /* [FIB_IFACE_MAX] by interface: index in egresses, 0 = not in this batch */
	struct egress *egresses;               /* [1 + BATCH_SIZE]; the first one stays empty */
	uint16_t egress_count;
	uint64_t now_ns;                       /* set by the caller before each batch */
};

/* Allocate the outs and statistics. 0 or -ENOMEM. Context: control, before the worker starts. */
int pipeline_init(struct pipeline *pl, uint8_t worker, const struct fib *fib, struct port *const *ports,
	struct frame_cache *cache, struct frame_cache *const *caches);
void pipeline_fini(struct pipeline *pl);

/* Run @n <= BATCH_SIZE received packets to their verdicts. All frames have been passed on or put when it returns. */
void pipeline_run(struct pipeline *pl, struct packet *pkts, unsigned n);

#endif
