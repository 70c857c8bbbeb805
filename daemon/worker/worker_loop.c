/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The worker's loop. A round: receive from each own queue, at most four batches, and run them through the pipeline; reap
 * what was sent; take back frames that other workers returned; refill. A round without work ends in a sleep.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/quiescent.h"
#include "worker/worker_impl.h"

#define BATCHES_PER_TURN 4        /* of one queue, before the next one has its turn */
#define HEARTBEAT_MS 100          /* the longest sleep */
#define NAP_MAX_MS 10             /* the longest sleep while frames are in flight: completions are not announced */
#define KICK_INTERVAL_NS NS_PER_MS
#define POLL_MAX (WORKERS_MAX * PORT_QUEUES_MAX)

static unsigned receive(struct worker *w, struct port_rxq *q)
{
	const struct port_ops *ops = q->port->ops;
	unsigned total = 0;

	for (unsigned i = 0; i < BATCHES_PER_TURN; i++) {
		unsigned n = ops->rx_burst(q, w->packets, BATCH_SIZE);

		if (!n)
			break;
		pipeline_run(&w->pipeline, w->packets, n);
		total += n;
		if (n < BATCH_SIZE)
			break;
	}
	return total;
}

/* Take completions; with @kick also remind the device of what is still in flight. Returns how many came. */
static unsigned reap(struct worker *w, struct port_txq *q, bool kick)
{
	const struct port_ops *ops = q->port->ops;
	unsigned n;

	if (!counter_read(&q->in_flight))
		return 0;
	port_txq_lock(q);
	if (kick)
		ops->tx_kick(q);
	n = ops->tx_reap(q, w->cache, w->pipeline.caches);
	port_txq_unlock(q);
	return n;
}

static bool kick_is_due(struct worker *w)
{
	if (w->pipeline.now_ns - w->kicked_ns < KICK_INTERVAL_NS)
		return false;
	w->kicked_ns = w->pipeline.now_ns;
	return true;
}

/* Returns whether there was anything to do. */
static bool do_round(struct worker *w, const struct worker_queues *qs)
{
	unsigned received = 0, reaped = 0;
	bool kick;

	for (unsigned i = 0; i < qs->rx_count; i++)
		received += receive(w, qs->rxqs[i]);
	kick = kick_is_due(w);
	for (unsigned i = 0; i < qs->tx_count; i++)
		reaped += reap(w, qs->txqs[i], kick);
	frame_collect(w->cache);
	for (unsigned i = 0; i < qs->rx_count; i++)
		qs->rxqs[i]->port->ops->refill(qs->rxqs[i], w->cache);
	counter_add(&w->stats.packets, received);
	__atomic_store_n(&w->stats.free_frames.value, w->cache->count, __ATOMIC_RELAXED);
	return received || reaped;
}

/* The time since the last call belongs to @to. */
static void account(struct worker *w, uint64_t now_ns, counter *to)
{
	counter_add(to, now_ns - w->mark_ns);
	w->mark_ns = now_ns;
}

static bool has_in_flight(const struct worker_queues *qs)
{
	for (unsigned i = 0; i < qs->tx_count; i++)
		if (counter_read(&qs->txqs[i]->in_flight))
			return true;
	return false;
}

/* Fill a receive queue could not be given what it may hold, or must be polled: nothing will wake us for it. */
static bool must_look_again(const struct worker *w, const struct worker_queues *qs)
{
	for (unsigned i = 0; i < qs->rx_count; i++)
		if (qs->rxqs[i]->port->ops->rx_fd(qs->rxqs[i]) < 0)
			return true;
	return qs->rx_count && !w->cache->count;
}

static int choose_timeout(struct worker *w, const struct worker_queues *qs)
{
	if (!has_in_flight(qs) && !must_look_again(w, qs)) {
		w->nap_ms = 0;
		return HEARTBEAT_MS;
	}
	w->nap_ms = w->nap_ms ? w->nap_ms * 2 : 1;
	if (w->nap_ms > NAP_MAX_MS)
		w->nap_ms = NAP_MAX_MS;
	return (int)w->nap_ms;
}

static void sleep_for_work(struct worker *w, const struct worker_queues *qs)
{
	struct pollfd fds[POLL_MAX];
	int timeout = choose_timeout(w, qs), n;
	nfds_t count = 0;
	uint64_t drained;

	fds[count++] = (struct pollfd){ .fd = w->wake_fd, .events = POLLIN };
	/* A negative descriptor is passed over. */
	for (unsigned i = 0; i < qs->rx_count && count < POLL_MAX; i++)
		fds[count++] = (struct pollfd){ .fd = qs->rxqs[i]->port->ops->rx_fd(qs->rxqs[i]), .events = POLLIN };
	counter_add(&w->stats.sleeps, 1);
	quiescent_offline();
	n = poll(fds, count, timeout);
	quiescent_online();
	if (n > 0 && (fds[0].revents & POLLIN)) {
		if (read(w->wake_fd, &drained, sizeof(drained)) > 0)
			n--;
	}
	if (n > 0) {
		counter_add(&w->stats.wakeups, 1);
		w->nap_ms = 0;
	}
}

static void begin_round(struct worker *w)
{
	uint64_t now = w->mark_ns;

	__atomic_store_n(&w->round, w->round + 1, __ATOMIC_SEQ_CST);
	w->pipeline.now_ns = now;
	if (w->heartbeat)
		__atomic_store_n(w->heartbeat, now, __ATOMIC_RELAXED);
	__atomic_store_n(&w->stats.heartbeat_ns.value, now, __ATOMIC_RELAXED);
	counter_add(&w->stats.loops, 1);
}

/* Told to stop: go on while there is something to empty, but not beyond the deadline. */
static bool may_end(const struct worker *w, const struct worker_queues *qs, bool worked)
{
	if (w->mark_ns >= __atomic_load_n(&w->all->deadline_ns, __ATOMIC_RELAXED))
		return true;
	return !worked && !has_in_flight(qs);
}

static void run_rounds(struct worker *w)
{
	for (;;) {
		const struct worker_queues *qs;
		bool worked;

		begin_round(w);
		qs = __atomic_load_n(&w->queues, __ATOMIC_SEQ_CST);
		worked = do_round(w, qs);
		account(w, clock_now_ns(), worked || !w->all->busy_poll ? &w->stats.busy_ns : &w->stats.idle_ns);
		if (__atomic_load_n(&w->all->stop, __ATOMIC_ACQUIRE) && may_end(w, qs, worked))
			return;
		quiescent_state();
		if (worked || w->all->busy_poll)
			continue;
		sleep_for_work(w, qs);
		account(w, clock_now_ns(), &w->stats.idle_ns);
	}
}

void *worker_run(void *worker)
{
	struct worker *w = worker;
	char name[16];

	snprintf(name, sizeof(name), "routerd/w%u", w->number);
	pthread_setname_np(pthread_self(), name);
	quiescent_register();
	w->mark_ns = clock_now_ns();
	run_rounds(w);
	if (w->heartbeat)
		__atomic_store_n(w->heartbeat, 0, __ATOMIC_RELAXED);
	quiescent_unregister();
	return NULL;
}
