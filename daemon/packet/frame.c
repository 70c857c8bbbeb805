/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/frame.h"

const char *const frame_place_label[FRAME_PLACE_COUNT] = {
#define X(id, label, help) [FRAME_##id] = label,
	FRAME_PLACES(X)
#undef X
};

void frame_cache_init(struct frame_cache *c, struct frame_table *t, uint8_t worker, uint32_t *stack, uint32_t capacity)
{
	c->table = t;
	c->stack = stack;
	c->count = 0;
	c->capacity = capacity;
	c->worker = worker;
	__atomic_store_n(&c->returned, FRAME_NONE, __ATOMIC_RELAXED);
}

void frame_cache_adopt(struct frame_cache *c, uint32_t first, uint32_t count)
{
	/* Downwards, so that the lowest index is taken first. */
	for (uint32_t i = count; i-- > 0;) {
		struct frame *f = &c->table->frames[first + i];

		f->refs = 0;
		f->next = FRAME_NONE;
		f->home = c->worker;
		frame_set_place(f, FRAME_FREE, FRAME_NO_QUEUE);
		c->stack[c->count++] = first + i;
	}
}

uint32_t frame_alloc(struct frame_cache *c)
{
	uint32_t index;

	if (!c->count)
		return FRAME_NONE;
	index = c->stack[--c->count];
	__atomic_store_n(&c->table->frames[index].refs, 1, __ATOMIC_RELAXED);
	frame_set_place(&c->table->frames[index], FRAME_WORKER, FRAME_NO_QUEUE);
	return index;
}

unsigned frame_alloc_fill(struct frame_cache *c, uint16_t queue, uint32_t *out, unsigned max)
{
	unsigned n = max < c->count ? max : c->count;
	const uint32_t *top = c->stack + c->count;
	struct frame *frames = c->table->frames;

	for (unsigned i = 0; i < n; i++) {
		uint32_t index = *--top;

		out[i] = index;
		frame_set_place(&frames[index], FRAME_FILL, queue);
	}
	c->count -= n;
	return n;
}

void frame_get(struct frame_table *t, uint32_t index)
{
	__atomic_add_fetch(&t->frames[index].refs, 1, __ATOMIC_RELAXED);
}

void frame_return(struct frame_cache *home, uint32_t index)
{
	struct frame *f = &home->table->frames[index];
	uint32_t head = __atomic_load_n(&home->returned, __ATOMIC_RELAXED);

	frame_set_place(f, FRAME_RETURNING, FRAME_NO_QUEUE);
	/* Release pairs with the acquire in frame_collect(): the owner sees the link and the record. The list is only
	 * ever taken whole, so a head that went away and came back does no harm. */
	do {
		__atomic_store_n(&f->next, head, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&home->returned, &head, index, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

unsigned frame_collect(struct frame_cache *c)
{
	unsigned n = 0;
	uint32_t index;

	if (__atomic_load_n(&c->returned, __ATOMIC_RELAXED) == FRAME_NONE)
		return 0;
	index = __atomic_exchange_n(&c->returned, FRAME_NONE, __ATOMIC_ACQUIRE);
	for (; index != FRAME_NONE; n++) {
		struct frame *f = &c->table->frames[index];

		frame_set_place(f, FRAME_FREE, FRAME_NO_QUEUE);
		c->stack[c->count++] = index;
		index = __atomic_load_n(&f->next, __ATOMIC_RELAXED);
	}
	return n;
}

void frame_put_shared(struct frame_cache *c, struct frame_cache *const *caches, uint32_t index)
{
	struct frame *f = &c->table->frames[index];

	if (__atomic_load_n(&f->refs, __ATOMIC_RELAXED) == 0) {
#ifdef ROUTERD_SANITIZED
		__builtin_trap();  /* semantics C7: put below 0 */
#endif
		return;  /* the frame has a place already: giving it a second one would be worse */
	}
	if (__atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	if (f->home != c->worker) {
		frame_return(caches[f->home], index);
		return;
	}
	frame_set_place(f, FRAME_FREE, FRAME_NO_QUEUE);
	c->stack[c->count++] = index;
}
