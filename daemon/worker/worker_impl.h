/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Inside the workers: what control (worker.c) and the loop (worker_loop.c) share.
 */
#ifndef ROUTERD_WORKER_WORKER_IMPL_H
#define ROUTERD_WORKER_WORKER_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/worker.h"

/* Immutable once published. */
struct worker_queues {
	unsigned rx_count, tx_count;
	struct port_rxq **rxqs;
	struct port_txq **txqs;
	struct worker_queues *retired;  /* next list that waits to be freed; control's */
};

struct worker {
	/* control */
	struct workers *all;
	unsigned number;
	int cpu;
	pthread_t thread;
	bool started;
	int wake_fd;                     /* eventfd: ends a sleep */
	struct worker_queues *queues;    /* atomic; published by control, read at the start of each round */
	/* the worker's own from here on */
	uint64_t round cache_aligned;    /* atomic; written at the start of each round, before @queues is read */
	uint64_t *heartbeat;
	struct frame_cache *cache;
	struct pipeline pipeline;
	uint64_t mark_ns;                /* up to here busy_ns and idle_ns are accounted for */
	uint64_t kicked_ns;              /* when queues with frames in flight were last kicked */
	unsigned nap_ms;                 /* last sleep while frames were in flight; doubles */
	struct packet packets[BATCH_SIZE];
	struct worker_stats stats;
};

struct workers {
	unsigned count;
	bool busy_poll;
	bool stop;                       /* atomic */
	uint64_t deadline_ns;            /* atomic; until then a stopping worker drains */
	struct worker_queues *retired;
	struct port *ports[PORT_MAX];    /* atomic pointers, by number */
	struct worker workers[];
};

void *worker_run(void *worker);

#endif
