/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Frames: the chunks of the packet memory (a memfd that is registered as UMEM once per frame domain; the chunk
 * index means the same memory in every domain). A frame's record lies in a side array, never in the chunk.
 *
 * Ownership: a frame is in exactly one place (enum frame_place). Only the thread that holds it moves it on:
 * the home worker while FREE, FILL or WORKER; whoever holds the transmit queue (its worker, or its lock) while TX;
 * the control thread while QUARANTINE. `where` (`queue` and `place`) and `submit_ms` are written with relaxed atomics
 * so that the ledger (control thread) may read them at any time; the rings and the return list order the hand-overs.
 * References: frame_get/frame_put are atomic from any thread; the last put sends the frame home. A frame with more
 * than one reference, or in a transmit ring, is never written (design.md section 4, semantics C7/C8).
 */
#ifndef ROUTERD_PACKET_FRAME_H
#define ROUTERD_PACKET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bits.h"
#include "common/counter.h"

#define FRAME_NONE UINT32_MAX
#define FRAME_NO_QUEUE UINT16_MAX

/* X(identifier, label, help) */
#define FRAME_PLACES(X) \
	X(FREE, "free", "in its home worker's cache") \
	X(FILL, "fill", "given to a port for receiving: fill ring, driver, or receive ring") \
	X(WORKER, "worker", "in a worker's hands") \
	X(HELD, "held", "waiting: reassembly, capture") \
	X(TX, "tx", "in a transmit ring or in flight; its completion has not come") \
	X(RETURNING, "returning", "on its home worker's return list") \
	X(QUARANTINE, "quarantine", "of a closed queue: the device may still touch it")

enum frame_place {
#define X(id, label, help) FRAME_##id,
	FRAME_PLACES(X)
#undef X
	FRAME_PLACE_COUNT
};

extern const char *const frame_place_label[FRAME_PLACE_COUNT];

struct frame {
	uint32_t refs;       /* atomic; 0 only while FREE, FILL, RETURNING or QUARANTINE */
	uint32_t next;       /* frame index: next in the free/return list, or the packet's next segment */
	uint32_t submit_ms;  /* TX: when it was submitted, CLOCK_MONOTONIC, milliseconds, wraps */
	union {
		struct {
			uint16_t queue;  /* FILL, TX, QUARANTINE: number of the owning rx/tx queue (port.h);
			                  * else FRAME_NO_QUEUE */
			uint8_t place;   /* enum frame_place */
			uint8_t unused;  /* 0 */
		};
		uint32_t where;      /* all of them as one word: frame_where() */
	};
	uint16_t seg_offset; /* of a packet's second and later segments: byte offset in the chunk */
	uint16_t seg_length; /* and bytes there */
	uint8_t home;        /* worker number; never changes */
	uint8_t reserved[11];
};

_Static_assert(sizeof(struct frame) == 32, "an index becomes an address by a shift");

/* The packet memory. Set up once before workers start; constant afterwards except for the records. */
struct frame_table {
	uint8_t *memory;       /* page aligned, count << shift bytes */
	struct frame *frames;  /* count records */
	uint32_t count;
	uint32_t shift;        /* log2 of the chunk size: 11 or 12 */
};

static inline uint8_t *frame_data(const struct frame_table *t, uint32_t index)
{
	return t->memory + ((size_t)index << t->shift);
}

static inline uint32_t frame_size(const struct frame_table *t)
{
	return 1u << t->shift;
}

/* Index of the frame that a UMEM address (offset in the packet memory) lies in; FRAME_NONE when outside. */
static inline uint32_t frame_of_addr(const struct frame_table *t, uint64_t addr)
{
	uint64_t index = addr >> t->shift;

	return index < t->count ? (uint32_t)index : FRAME_NONE;
}

/* A place and its queue as they lie in frame.where (little-endian, as all of the packet code). */
static inline uint32_t frame_where(enum frame_place place, uint16_t queue)
{
	return (uint32_t)place << 16 | queue;
}

static inline void frame_set_place(struct frame *f, enum frame_place place, uint16_t queue)
{
	__atomic_store_n(&f->where, frame_where(place, queue), __ATOMIC_RELAXED);
}

static inline bool frame_is_at(const struct frame *f, enum frame_place place, uint16_t queue)
{
	return __atomic_load_n(&f->where, __ATOMIC_RELAXED) == frame_where(place, queue);
}

static inline enum frame_place frame_get_place(const struct frame *f)
{
	return (enum frame_place)__atomic_load_n(&f->place, __ATOMIC_RELAXED);
}

/* A worker's free frames and the list on which others give frames back. One per worker; `returned` is the only
 * field that other threads touch. */
struct frame_cache {
	struct frame_table *table;
	uint32_t *stack;     /* FREE frames, the last one put is the first one taken (warm in the cache) */
	uint32_t count;
	uint32_t capacity;   /* = all frames whose home this is, so a put always fits */
	uint8_t worker;
	uint32_t returned cache_aligned;  /* atomic list head through frame.next; FRAME_NONE = empty */
};

/* Set up an empty cache. @stack has room for @capacity indexes and stays the caller's. Context: control. */
void frame_cache_init(struct frame_cache *c, struct frame_table *t, uint8_t worker, uint32_t *stack, uint32_t capacity);

/* Make frames @first .. @first + @count - 1 this cache's own, all FREE. Context: control, before the worker starts. */
void frame_cache_adopt(struct frame_cache *c, uint32_t first, uint32_t count);

/* Take a free frame (FREE → WORKER, one reference). FRAME_NONE when there is none. Context: the home worker. */
uint32_t frame_alloc(struct frame_cache *c);

/* Take up to @max free frames for a fill ring (FREE → FILL of @queue, no reference). Returns how many.
 * Context: the home worker. */
unsigned frame_alloc_fill(struct frame_cache *c, uint16_t queue, uint32_t *out, unsigned max);

/* Another holder. The caller holds a reference already. Any thread. */
void frame_get(struct frame_table *t, uint32_t index);

/* Push a whole frame (reference already gone) on its home's return list. Any thread. */
void frame_return(struct frame_cache *home, uint32_t index);

/* Take the whole return list in one exchange into the cache. Returns how many. Context: the home worker. */
unsigned frame_collect(struct frame_cache *c);

/* The uncommon half of frame_put(): several holders, or another worker's frame. */
void frame_put_shared(struct frame_cache *c, struct frame_cache *const *caches, uint32_t index);

/* Put a frame that is ours alone and at home here; false = it is not, and nothing was done.
 * One reference means that we are the only holder, so nobody can be adding one: no locked instruction is needed.
 * Acquire pairs with the release of the holders that went before us (semantics C8). */
static inline bool frame_put_own(struct frame_cache *c, struct frame *f, uint32_t index)
{
	if (__atomic_load_n(&f->refs, __ATOMIC_ACQUIRE) != 1 || f->home != c->worker)
		return false;
	__atomic_store_n(&f->refs, 0, __ATOMIC_RELAXED);
	frame_set_place(f, FRAME_FREE, FRAME_NO_QUEUE);
	c->stack[c->count++] = index;
	return true;
}

/* Drop a reference; on the last one the frame goes home: into @c if @c is its home cache, else on its home's return
 * list. @caches: all workers' caches, by worker number. Context: the worker that owns @c. */
static inline void frame_put(struct frame_cache *c, struct frame_cache *const *caches, uint32_t index)
{
	if (!frame_put_own(c, &c->table->frames[index], index))
		frame_put_shared(c, caches, index);
}

#endif
