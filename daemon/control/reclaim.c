/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Freeing after a grace period. What the control thread retires is collected in a list; the reclaim thread takes the
 * whole list, waits for a grace period and frees it, and so on while there is something to free or somebody waits
 * for grace periods to pass (struct route_memory, grace).
 *
 * liburcu's own call_rcu() is not used: it wants its callers registered and online, which the control thread must
 * not be while it sleeps in its event loop, and needs room for a list head in each block.
 */
#include "control/reclaim.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "common/clock.h"
#include "common/quiescent.h"

#define PACE_MS 10
#define LIST_ENTRIES 254

/* Either memory (bytes > 0) or a call. */
struct retired {
	void *p;
	size_t bytes;
	void (*fn)(void *arg);
};

struct retired_list {
	struct retired_list *next;
	unsigned count;
	struct retired entries[LIST_ENTRIES];
};

struct reclaim {
	pthread_t thread;
	size_t in_use;               /* control thread's */
	uint64_t stalls;             /* control thread's */

	pthread_mutex_t lock;        /* of all below; never held while waiting for readers or freeing */
	pthread_cond_t work;         /* for the reclaim thread */
	pthread_cond_t done;         /* for reclaim_barrier() */
	struct retired_list *list;   /* not yet taken by the thread */
	size_t waiting;
	uint64_t periods, wanted;    /* go on until @periods has come to @wanted */
	bool busy;                   /* the thread has taken a list */
	bool hurry;                  /* somebody waits: leave out the pause */
	bool stop;
};

/* ---- blocks ---- */

static void *block_alloc(size_t bytes)
{
	void *p;

	if (bytes < RECLAIM_MAP_MIN)
		return calloc(1, bytes ? bytes : 1);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void block_free(void *p, size_t bytes)
{
	if (bytes < RECLAIM_MAP_MIN)
		free(p);
	else
		munmap(p, bytes);
}

/* Returns how many bytes were freed. */
static size_t retired_free(const struct retired *e)
{
	if (e->fn)
		e->fn(e->p);
	else
		block_free(e->p, e->bytes);
	return e->bytes;
}

static size_t list_free(struct retired_list *l)
{
	size_t bytes = 0;

	while (l) {
		struct retired_list *next = l->next;

		for (unsigned i = 0; i < l->count; i++)
			bytes += retired_free(&l->entries[i]);
		free(l);
		l = next;
	}
	return bytes;
}

/* ---- the reclaim thread; all with the lock held ---- */

static bool has_work(const struct reclaim *r)
{
	return r->list || r->periods < r->wanted;
}

/* Let more come together; each grace period costs the workers a wake-up call. */
static void pause_for_more(struct reclaim *r)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PACE_MS * NS_PER_MS;
	if (until.tv_nsec >= (long)NS_PER_S) {
		until.tv_nsec -= NS_PER_S;
		until.tv_sec++;
	}
	while (!r->hurry && !r->stop)
		if (pthread_cond_timedwait(&r->work, &r->lock, &until) == ETIMEDOUT)
			return;
}

static void one_period(struct reclaim *r)
{
	struct retired_list *list;
	size_t bytes;

	pause_for_more(r);
	list = r->list;
	r->list = NULL;
	r->busy = true;
	pthread_mutex_unlock(&r->lock);
	quiescent_wait();
	bytes = list_free(list);
	pthread_mutex_lock(&r->lock);
	r->waiting -= bytes;
	r->periods++;
	r->busy = false;
}

static void *reclaim_run(void *arg)
{
	struct reclaim *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->stop || has_work(r)) {
		if (has_work(r)) {
			one_period(r);
			continue;
		}
		pthread_cond_broadcast(&r->done);
		pthread_cond_wait(&r->work, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- route_memory ---- */

static void *reclaim_alloc(void *ctx, size_t bytes)
{
	struct reclaim *r = ctx;
	void *p = block_alloc(bytes);

	if (p)
		r->in_use += bytes;
	return p;
}

static void reclaim_release(void *ctx, void *p, size_t bytes)
{
	struct reclaim *r = ctx;

	r->in_use -= bytes;
	block_free(p, bytes);
}

/* Wait here and now, and free all that the thread has not taken yet. */
static void stall(struct reclaim *r, const struct retired *e)
{
	struct retired_list *list;
	size_t bytes;

	pthread_mutex_lock(&r->lock);
	list = r->list;
	r->list = NULL;
	pthread_mutex_unlock(&r->lock);
	quiescent_wait();
	bytes = list_free(list);
	retired_free(e);
	pthread_mutex_lock(&r->lock);
	r->waiting -= bytes;
	pthread_mutex_unlock(&r->lock);
	r->stalls++;
}

static bool list_append(struct reclaim *r, const struct retired *e)
{
	struct retired_list *l = r->list;

	if (r->waiting + e->bytes > RECLAIM_WAITING_MAX)
		return false;
	if (!l || l->count == LIST_ENTRIES) {
		l = malloc(sizeof(*l));
		if (!l)
			return false;
		l->count = 0;
		l->next = r->list;
		r->list = l;
	}
	l->entries[l->count++] = *e;
	r->waiting += e->bytes;
	return true;
}

static void retire(struct reclaim *r, const struct retired *e)
{
	bool idle, listed;

	pthread_mutex_lock(&r->lock);
	idle = !r->busy && !has_work(r);
	listed = list_append(r, e);
	if (idle && listed)
		pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	if (!listed)
		stall(r, e);
}

static void reclaim_retire(void *ctx, void *p, size_t bytes)
{
	struct reclaim *r = ctx;

	r->in_use -= bytes;
	retire(r, &(struct retired){ .p = p, .bytes = bytes });
}

static uint64_t reclaim_grace(void *ctx)
{
	struct reclaim *r = ctx;
	uint64_t now;
	bool idle;

	pthread_mutex_lock(&r->lock);
	idle = !r->busy && !has_work(r);
	now = r->periods;
	r->wanted = now + 2;
	if (idle)
		pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	return now;
}

struct route_memory reclaim_memory(struct reclaim *r)
{
	return (struct route_memory){ reclaim_alloc, reclaim_release, reclaim_retire, reclaim_grace, r };
}

void reclaim_defer(struct reclaim *r, void (*fn)(void *arg), void *arg)
{
	retire(r, &(struct retired){ .p = arg, .fn = fn });
}

/* ---- life cycle ---- */

void reclaim_barrier(struct reclaim *r)
{
	pthread_mutex_lock(&r->lock);
	r->hurry = true;
	pthread_cond_signal(&r->work);
	while (r->busy || has_work(r))
		pthread_cond_wait(&r->done, &r->lock);
	r->hurry = false;
	pthread_mutex_unlock(&r->lock);
}

void reclaim_get_sizes(struct reclaim *r, struct reclaim_sizes *ret)
{
	pthread_mutex_lock(&r->lock);
	*ret = (struct reclaim_sizes){ r->in_use, r->waiting, r->periods, r->stalls };
	pthread_mutex_unlock(&r->lock);
}

static int start_thread(struct reclaim *r)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&r->thread, NULL, reclaim_run, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!rc)
		pthread_setname_np(r->thread, "reclaim");
	return rc;
}

struct reclaim *reclaim_new(void)
{
	struct reclaim *r = calloc(1, sizeof(*r));
	pthread_condattr_t monotonic;
	int rc;

	if (!r)
		return NULL;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, &monotonic);
	pthread_cond_init(&r->done, NULL);
	pthread_condattr_destroy(&monotonic);
	rc = start_thread(r);
	if (rc) {
		free(r);
		errno = rc;
		return NULL;
	}
	return r;
}

void reclaim_free(struct reclaim *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->done);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
