/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Workers: pinned threads "routerd/wN" that take packets from their receive queues, run them through the pipeline,
 * reap completions and refill. Idle workers sleep in poll(2); they wake for packets, for a change of their queues,
 * every 100 ms for the heartbeat, and sooner while frames are in flight (nothing announces completions).
 *
 * Threads: everything here is called by the control thread, but for what is said to be a worker's own. Control changes
 * a worker's queues by publishing a new list (workers_set_queues) and waiting until every worker has let go of the old
 * one and of everything it had read under RCU (workers_synchronize); after that, queues and ports that are in no list
 * and not in the port table may be closed.
 * RCU: liburcu-qsbr. Workers are registered readers: a quiescent state per loop, offline while they sleep. The control
 * thread needs no registration (it only calls synchronize_rcu/call_rcu).
 */
#ifndef ROUTERD_WORKER_WORKER_H
#define ROUTERD_WORKER_WORKER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/counter.h"
#include "common/error.h"
#include "port/port.h"
#include "worker/pipeline.h"

/* Written by the worker, read by anyone. */
struct worker_stats {
	counter loops;         /* rounds over all queues */
	counter sleeps;        /* times it went to sleep */
	counter wakeups;       /* of these, ended by packets (the others: timer, queue change) */
	counter packets;       /* received */
	counter busy_ns;       /* rounds that had something to do */
	counter idle_ns;       /* asleep, and with busy_poll the rounds without work */
	counter free_frames;   /* gauge: frames in the cache after the last round */
	counter heartbeat_ns;  /* gauge: CLOCK_MONOTONIC of the last heartbeat */
} cache_aligned;

struct worker_info {
	unsigned number;
	int cpu;                             /* pinned to; -1 = could not be pinned */
	unsigned rx_queues, tx_queues;
	uint64_t loops, sleeps, wakeups, packets, busy_ns, idle_ns, batches, free_frames, heartbeat_ns;
};

struct workers_options {
	unsigned count;                       /* 1..WORKERS_MAX */
	cpu_set_t cpus;                       /* worker i runs on the i-th CPU of the set; empty: those the process may use */
	bool busy_poll;                       /* never sleep */
	const struct fib *fib;
	struct frame_cache *const *caches;    /* [count], one per worker; the caller's */
	uint64_t *heartbeat[WORKERS_MAX];     /* where worker i stores CLOCK_MONOTONIC ns; NULL = nowhere */
};

struct workers;

/* How many workers "automatic" means: the CPUs of @cpus, or, if empty, those the process may run on; 1..WORKERS_MAX. */
unsigned workers_default_count(const cpu_set_t *cpus);

/* Make and start the threads; they have no queues yet. 0 or -errno with @e filled and nothing left running. */
int workers_new(const struct workers_options *o, struct workers **ret, struct error *e);

unsigned workers_count(const struct workers *w);

/* Publish a port under its number, or take it away (NULL). Readers still see the old one until workers_synchronize(). */
void workers_set_port(struct workers *w, uint16_t number, struct port *port);
struct port *workers_get_port(const struct workers *w, uint16_t number);

/* The queues of worker @worker from now on; copied. Receive queues are its own, transmit queues are those it sends by
 * (its own or shared). 0 or -ENOMEM (the old ones stay). */
int workers_set_queues(struct workers *w, unsigned worker, struct port_rxq *const *rxqs, unsigned rx_count,
	struct port_txq *const *txqs, unsigned tx_count);

/* Wait until every worker uses the lists and ports published before the call. 0, or -ETIMEDOUT after 2 s: a worker
 * hangs, and nothing it may use must be freed. */
int workers_synchronize(struct workers *w);

/* Stop. With @drain_ms > 0 the workers first empty their receive queues and wait, at most so long, for frames in flight.
 * Joins the threads. The heartbeats are set to 0 ("gone"). May be called twice. */
void workers_stop(struct workers *w, unsigned drain_ms);

/* workers_stop() if need be, then free. NULL is fine. Ports are the caller's. */
void workers_free(struct workers *w);

void workers_get_info(const struct workers *w, unsigned worker, struct worker_info *ret);

/* Statistics of the pipeline of one worker; read with counter_read(). */
const struct pipeline_stats *workers_pipeline_stats(const struct workers *w, unsigned worker);

#endif
