/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/ledger.h"

#include <string.h>

void ledger_count_records(struct ledger *l, const struct frame_table *t)
{
	memset(l, 0, sizeof(*l));
	l->total = t->count;
	for (uint32_t i = 0; i < t->count; i++) {
		enum frame_place place = frame_get_place(&t->frames[i]);

		if (place < FRAME_PLACE_COUNT)
			l->records[place]++;
	}
}

void ledger_add_free(struct ledger *l, uint64_t free)
{
	l->containers[FRAME_FREE] += free;
}

/* The owner may take the list away meanwhile, so what is walked may be stale; it is bounded and never followed out of
 * the table. */
void ledger_add_returning(struct ledger *l, const struct frame_cache *c)
{
	const struct frame_table *t = c->table;
	uint32_t index = __atomic_load_n(&c->returned, __ATOMIC_ACQUIRE);

	for (uint32_t n = 0; index < t->count && n < t->count; n++) {
		l->containers[FRAME_RETURNING]++;
		index = __atomic_load_n(&t->frames[index].next, __ATOMIC_RELAXED);
	}
}

void ledger_add_port(struct ledger *l, const struct port *p)
{
	for (unsigned i = 0; i < p->rxq_count; i++)
		l->containers[FRAME_FILL] += counter_read(&p->rxqs[i].in_fill);
	for (unsigned i = 0; i < p->txq_count; i++)
		l->containers[FRAME_TX] += counter_read(&p->txqs[i].in_flight);
}

void ledger_add_held(struct ledger *l, uint64_t held)
{
	l->containers[FRAME_HELD] += held;
}

void ledger_add_quarantine(struct ledger *l, uint64_t count)
{
	l->containers[FRAME_QUARANTINE] += count;
}

void ledger_close(struct ledger *l)
{
	int64_t sum = 0;

	l->balanced = true;
	for (unsigned i = 0; i < FRAME_PLACE_COUNT; i++) {
		sum += (int64_t)l->containers[i];
		if (l->containers[i] != l->records[i])
			l->balanced = false;
	}
	l->difference = (int64_t)l->total - sum;
	if (l->difference)
		l->balanced = false;
}

void ledger_find_late(const struct frame_table *t, uint32_t now_ms, uint32_t interval_ms, struct ledger_late *ret,
	unsigned queues)
{
	memset(ret, 0, sizeof(*ret) * queues);
	for (uint32_t i = 0; i < t->count; i++) {
		const struct frame *f = &t->frames[i];
		uint32_t age;
		uint16_t queue;

		if (frame_get_place(f) != FRAME_TX)
			continue;
		queue = __atomic_load_n(&f->queue, __ATOMIC_RELAXED);
		age = now_ms - __atomic_load_n(&f->submit_ms, __ATOMIC_RELAXED);
		/* Submitted since now was read: the difference has wrapped. */
		if (queue >= queues || age > INT32_MAX)
			continue;
		if (age >= LEDGER_LATE_MS && age - LEDGER_LATE_MS < interval_ms)
			ret[queue].crossed++;
		if (age >= LEDGER_STUCK_MS)
			ret[queue].stuck++;
	}
}
