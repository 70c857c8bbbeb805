/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/umem.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "port/xsk_socket.h"

#define HOME_MIN 64                          /* frames per worker below which nothing works */
#define RELEASE_PAUSE_NS (10 * (long)NS_PER_MS)
#define QUARANTINE_MAX_NS (60 * NS_PER_S)    /* design.md section 4, "in flight" */

static void *alloc_lines(size_t bytes)
{
	void *p = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));

	if (p)
		memset(p, 0, bytes);
	return p;
}

static int map_memory(struct packet_memory *m, struct error *e)
{
	void *p;

	m->memfd = memfd_create("routerd-packets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->memfd < 0)
		return error_set(e, errno, "cannot create the packet memory: memfd_create: %s", strerror(errno));
	if (ftruncate(m->memfd, (off_t)m->size) < 0 || fcntl(m->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return error_set(e, errno, "cannot size the packet memory to %zu bytes: %s", m->size, strerror(errno));
	p = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, m->memfd, 0);
	if (p == MAP_FAILED)
		return error_set(e, errno, "cannot map the packet memory (%zu MiB): %s; a smaller [memory] size helps",
			m->size >> 20, strerror(errno));
	m->table.memory = p;
	/* Not all huge page settings allow it for shared memory; no loss then. */
	madvise(p, m->size, MADV_DONTDUMP);
	return 0;
}

static int make_cache(struct packet_memory *m, unsigned worker, uint32_t home)
{
	struct frame_cache *c = alloc_lines(sizeof(*c));
	uint32_t *stack = c ? calloc(home, sizeof(*stack)) : NULL;

	if (!stack) {
		free(c);
		return -ENOMEM;
	}
	frame_cache_init(c, &m->table, (uint8_t)worker, stack, home);
	frame_cache_adopt(c, worker * home, home);
	m->caches[worker] = c;
	return 0;
}

static int make_frames(struct packet_memory *m, uint32_t home, struct error *e)
{
	m->table.frames = alloc_lines(sizeof(struct frame) * m->table.count);
	if (!m->table.frames)
		return error_set(e, ENOMEM, "no memory for the records of %u frames", m->table.count);
	for (unsigned i = 0; i < m->workers; i++)
		if (make_cache(m, i, home) < 0)
			return error_set(e, ENOMEM, "no memory for the frame caches");
	return 0;
}

/* Frames per worker: whole pages, so that the memory is a multiple of the page size as well. */
static uint32_t frames_per_worker(uint64_t size, uint32_t frame_size, unsigned workers)
{
	uint64_t home = size / frame_size / workers;

	if (home > FRAME_NONE / 2 / workers)
		home = FRAME_NONE / 2 / workers;
	return (uint32_t)(home & ~1ull);
}

int packet_memory_new(uint64_t size, uint32_t frame_size, unsigned workers, struct packet_memory **ret, struct error *e)
{
	uint32_t home;
	struct packet_memory *m;
	int r;

	if ((frame_size != 2048 && frame_size != 4096) || !workers || workers > WORKERS_MAX)
		return error_set(e, EINVAL, "frame size %u or %u workers cannot be", frame_size, workers);
	home = frames_per_worker(size, frame_size, workers);
	if (home < HOME_MIN)
		return error_set(e, EINVAL, "[memory] size is too small: %u workers need at least %u KiB", workers,
			workers * HOME_MIN * (frame_size >> 10));
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(e, ENOMEM, "out of memory");
	m->memfd = -1;
	m->workers = workers;
	m->table.count = home * workers;
	m->table.shift = frame_size == 4096 ? 12 : 11;
	m->size = (size_t)m->table.count << m->table.shift;
	r = map_memory(m, e);
	if (r == 0)
		r = make_frames(m, home, e);
	if (r < 0) {
		packet_memory_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void packet_memory_free(struct packet_memory *m)
{
	if (!m)
		return;
	while (m->quarantines) {
		struct quarantine *next = m->quarantines->next;

		free(m->quarantines);
		m->quarantines = next;
	}
	for (unsigned i = 0; i < m->workers; i++) {
		if (m->caches[i])
			free(m->caches[i]->stack);
		free(m->caches[i]);
	}
	free(m->table.frames);
	if (m->table.memory)
		munmap(m->table.memory, m->size);
	if (m->memfd >= 0)
		close(m->memfd);
	free(m);
}

uint32_t packet_memory_home(const struct packet_memory *m)
{
	return m->table.count / m->workers;
}

static bool belongs_to(const struct frame *f, uint16_t rx_number, uint16_t tx_number)
{
	uint16_t queue = __atomic_load_n(&f->queue, __ATOMIC_RELAXED);

	switch (frame_get_place(f)) {
	case FRAME_FILL:
		return queue == rx_number && rx_number != FRAME_NO_QUEUE;
	case FRAME_TX:
		return queue == tx_number && tx_number != FRAME_NO_QUEUE;
	case FRAME_FREE:
	case FRAME_WORKER:
	case FRAME_HELD:
	case FRAME_RETURNING:
	case FRAME_QUARANTINE:
	case FRAME_PLACE_COUNT:
		break;
	}
	return false;
}

uint32_t packet_memory_quarantine(struct packet_memory *m, struct quarantine *q, uint16_t rx_number, uint16_t tx_number,
	uint64_t now_ns)
{
	q->first = FRAME_NONE;
	q->count = 0;
	q->since_ns = now_ns;
	for (uint32_t i = 0; i < m->table.count; i++) {
		struct frame *f = &m->table.frames[i];

		if (!belongs_to(f, rx_number, tx_number))
			continue;
		/* FILL has no reference, TX has one at least: release() drops it. */
		__atomic_store_n(&f->next, q->first, __ATOMIC_RELAXED);
		frame_set_place(f, FRAME_QUARANTINE, q->queue_id);
		q->first = i;
		q->count++;
	}
	q->next = m->quarantines;
	m->quarantines = q;
	return q->count;
}

/* The last holder's put would have done the same; here there is no cache of our own to put into. */
static void send_home(struct packet_memory *m, const struct quarantine *q)
{
	uint32_t index = q->first;

	while (index != FRAME_NONE) {
		struct frame *f = &m->table.frames[index];
		uint32_t next = __atomic_load_n(&f->next, __ATOMIC_RELAXED);

		if (__atomic_load_n(&f->refs, __ATOMIC_RELAXED) == 0 ||
		    __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) == 0)
			frame_return(m->caches[f->home], index);
		else
			frame_set_place(f, FRAME_HELD, FRAME_NO_QUEUE);
		index = next;
	}
}

/* One question may take a moment to be forgotten: a socket that asks leaves remains of its own. So a yes is a yes, and must
 * not be asked for twice. */
static bool is_let_go(const struct quarantine *q, uint64_t end_ns)
{
	struct timespec pause = { .tv_nsec = RELEASE_PAUSE_NS };

	while (xsk_queue_probe(q->ifindex, q->queue_id) == -EBUSY) {
		uint64_t now = clock_now_ns();

		if (now - q->since_ns >= QUARANTINE_MAX_NS)
			return true;
		if (now >= end_ns)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

uint32_t packet_memory_release(struct packet_memory *m, uint32_t ifindex, uint64_t patience_ns)
{
	struct quarantine **at = &m->quarantines;
	uint64_t end = clock_now_ns() + patience_ns;

	while (*at) {
		struct quarantine *q = *at;

		if ((ifindex && q->ifindex != ifindex) || !is_let_go(q, end)) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		send_home(m, q);
		free(q);
	}
	return packet_memory_quarantined(m);
}

uint32_t packet_memory_quarantined(const struct packet_memory *m)
{
	uint32_t n = 0;

	for (const struct quarantine *q = m->quarantines; q; q = q->next)
		n += q->count;
	return n;
}
