/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Workers, seen from the control thread: make, give queues, stop. The loop itself is in worker_loop.c.
 */
#include "worker/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/quiescent.h"
#include "worker/worker_impl.h"

#define SYNCHRONIZE_PATIENCE_NS (2 * NS_PER_S)
#define SYNCHRONIZE_PAUSE_NS 50000l

/* What the process may run on, if nothing is asked for. */
static void usable_cpus(const cpu_set_t *wanted, cpu_set_t *ret)
{
	*ret = *wanted;
	if (CPU_COUNT(ret))
		return;
	if (sched_getaffinity(0, sizeof(*ret), ret) < 0) {
		CPU_ZERO(ret);
		CPU_SET(0, ret);
	}
}

unsigned workers_default_count(const cpu_set_t *cpus)
{
	cpu_set_t set;
	unsigned n;

	usable_cpus(cpus, &set);
	n = (unsigned)CPU_COUNT(&set);
	return n > WORKERS_MAX ? WORKERS_MAX : n ? n : 1;
}

/* The @n-th CPU of the set, beginning anew when there are not that many. */
static int nth_cpu(const cpu_set_t *set, unsigned n)
{
	n %= (unsigned)CPU_COUNT(set);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && n-- == 0)
			return cpu;
	return -1;
}

static struct worker_queues *queues_new(struct port_rxq *const *rxqs, unsigned rx_count, struct port_txq *const *txqs,
	unsigned tx_count)
{
	struct worker_queues *q = calloc(1, sizeof(*q) + sizeof(void *) * (rx_count + tx_count));

	if (!q)
		return NULL;
	q->rxqs = (struct port_rxq **)(q + 1);
	q->txqs = (struct port_txq **)(q->rxqs + rx_count);
	q->rx_count = rx_count;
	q->tx_count = tx_count;
	for (unsigned i = 0; i < rx_count; i++)
		q->rxqs[i] = rxqs[i];
	for (unsigned i = 0; i < tx_count; i++)
		q->txqs[i] = txqs[i];
	return q;
}

static int worker_init(struct workers *all, unsigned number, const struct workers_options *o)
{
	struct worker *w = &all->workers[number];

	w->all = all;
	w->number = number;
	w->cache = o->caches[number];
	w->heartbeat = o->heartbeat[number];
	w->cpu = -1;
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake_fd < 0)
		return -errno;
	w->queues = queues_new(NULL, 0, NULL, 0);
	if (!w->queues)
		return -ENOMEM;
	return pipeline_init(&w->pipeline, (uint8_t)number, o->fib, all->ports, w->cache, o->caches);
}

/* Pinned if that is possible; a CPU that went offline is no reason to stand still. */
static int worker_start(struct worker *w, int cpu)
{
	cpu_set_t set;
	pthread_attr_t attr;
	int r;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	r = pthread_create(&w->thread, &attr, worker_run, w);
	w->cpu = r == 0 ? cpu : -1;
	if (r == EINVAL)
		r = pthread_create(&w->thread, NULL, worker_run, w);
	pthread_attr_destroy(&attr);
	w->started = r == 0;
	return -r;
}

/* Signals are the control thread's. */
static int start_all(struct workers *all, const cpu_set_t *wanted)
{
	sigset_t every, old;
	cpu_set_t cpus;
	int r = 0;

	usable_cpus(wanted, &cpus);
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &old);
	for (unsigned i = 0; i < all->count && r == 0; i++)
		r = worker_start(&all->workers[i], nth_cpu(&cpus, i));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int workers_new(const struct workers_options *o, struct workers **ret, struct error *e)
{
	size_t size = sizeof(struct workers) + sizeof(struct worker) * o->count;
	struct workers *all;
	int r = 0;

	if (!o->count || o->count > WORKERS_MAX)
		return error_set(e, EINVAL, "%u workers are not possible: 1 to %u", o->count, WORKERS_MAX);
	size = (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	all = aligned_alloc(CACHE_LINE, size);
	if (!all)
		return error_set(e, ENOMEM, "out of memory");
	memset(all, 0, size);
	all->count = o->count;
	all->busy_poll = o->busy_poll;
	for (unsigned i = 0; i < all->count; i++)
		all->workers[i].wake_fd = -1;
	for (unsigned i = 0; i < all->count && r == 0; i++)
		r = worker_init(all, i, o);
	if (r == 0)
		r = start_all(all, &o->cpus);
	if (r < 0) {
		workers_free(all);
		return error_set(e, -r, "cannot start %u workers: %s", o->count, strerror(-r));
	}
	*ret = all;
	return 0;
}

unsigned workers_count(const struct workers *w)
{
	return w->count;
}

void workers_set_port(struct workers *w, uint16_t number, struct port *port)
{
	__atomic_store_n(&w->ports[number], port, __ATOMIC_RELEASE);
}

struct port *workers_get_port(const struct workers *w, uint16_t number)
{
	return w->ports[number];
}

int workers_set_queues(struct workers *w, unsigned worker, struct port_rxq *const *rxqs, unsigned rx_count,
	struct port_txq *const *txqs, unsigned tx_count)
{
	struct worker_queues *new = queues_new(rxqs, rx_count, txqs, tx_count), *old;

	if (!new)
		return -ENOMEM;
	old = __atomic_exchange_n(&w->workers[worker].queues, new, __ATOMIC_SEQ_CST);
	old->retired = w->retired;
	w->retired = old;
	return 0;
}

static void wake(const struct worker *w)
{
	uint64_t one = 1;

	/* Fails only when it is awake already. */
	if (write(w->wake_fd, &one, sizeof(one)) < 0)
		errno = 0;
}

/* A worker that begins a new round has let go of all it read in former ones, and has left poll(2). */
static int wait_for_round(const struct worker *w, uint64_t end_ns)
{
	uint64_t round = __atomic_load_n(&w->round, __ATOMIC_SEQ_CST);
	struct timespec pause = { .tv_nsec = SYNCHRONIZE_PAUSE_NS };

	if (!w->started)
		return 0;
	wake(w);
	while (__atomic_load_n(&w->round, __ATOMIC_SEQ_CST) == round) {
		if (clock_now_ns() > end_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static void free_retired(struct workers *w)
{
	while (w->retired) {
		struct worker_queues *next = w->retired->retired;

		free(w->retired);
		w->retired = next;
	}
}

int workers_synchronize(struct workers *w)
{
	uint64_t end = clock_now_ns() + SYNCHRONIZE_PATIENCE_NS;

	for (unsigned i = 0; i < w->count; i++) {
		int r = wait_for_round(&w->workers[i], end);

		if (r < 0)
			return r;
	}
	/* For whoever else reads under RCU; the workers have passed already. */
	quiescent_wait();
	free_retired(w);
	return 0;
}

void workers_stop(struct workers *w, unsigned drain_ms)
{
	uint64_t deadline = clock_now_ns() + drain_ms * NS_PER_MS;

	__atomic_store_n(&w->deadline_ns, deadline, __ATOMIC_RELAXED);
	__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < w->count; i++)
		if (w->workers[i].started)
			wake(&w->workers[i]);
	for (unsigned i = 0; i < w->count; i++) {
		if (w->workers[i].started)
			pthread_join(w->workers[i].thread, NULL);
		w->workers[i].started = false;
	}
}

void workers_free(struct workers *w)
{
	if (!w)
		return;
	workers_stop(w, 0);
	free_retired(w);
	for (unsigned i = 0; i < w->count; i++) {
		pipeline_fini(&w->workers[i].pipeline);
		free(w->workers[i].queues);
		if (w->workers[i].wake_fd >= 0)
			close(w->workers[i].wake_fd);
	}
	free(w);
}

void workers_get_info(const struct workers *w, unsigned worker, struct worker_info *ret)
{
	const struct worker *x = &w->workers[worker];
	const struct worker_stats *s = &x->stats;

	*ret = (struct worker_info){
		.number = worker,
		.cpu = x->cpu,
		.rx_queues = x->queues->rx_count,
		.tx_queues = x->queues->tx_count,
		.loops = counter_read(&s->loops),
		.sleeps = counter_read(&s->sleeps),
		.wakeups = counter_read(&s->wakeups),
		.packets = counter_read(&s->packets),
		.busy_ns = counter_read(&s->busy_ns),
		.idle_ns = counter_read(&s->idle_ns),
		.batches = counter_read(&x->pipeline.stats->batches),
		.free_frames = counter_read(&s->free_frames),
		.heartbeat_ns = counter_read(&s->heartbeat_ns),
	};
}

const struct pipeline_stats *workers_pipeline_stats(const struct workers *w, unsigned worker)
{
	return w->workers[worker].pipeline.stats;
}
