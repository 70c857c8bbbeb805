/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "worker/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/stage.h"

static void *alloc_lines(size_t bytes)
{
	void *p = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));

	if (p)
		memset(p, 0, bytes);
	return p;
}

int pipeline_init(struct pipeline *pl, uint8_t worker, const struct fib *fib, struct port *const *ports,
	struct frame_cache *cache, struct frame_cache *const *caches)
{
	struct pipeline_out *outs = alloc_lines(sizeof(*outs) * PORT_MAX);
	struct pipeline_stats *stats = alloc_lines(sizeof(*stats));
	struct egress *egresses = alloc_lines(sizeof(*egresses) * (1 + BATCH_SIZE));
	uint8_t *egress_index = alloc_lines(FIB_IFACE_MAX);

	if (!outs || !stats || !egresses || !egress_index) {
		free(outs);
		free(stats);
		free(egresses);
		free(egress_index);
		return -ENOMEM;
	}
	*pl = (struct pipeline){
		.fib = fib,
		.ports = ports,
		.cache = cache,
		.caches = caches,
		.stats = stats,
		.worker = worker,
		.outs = outs,
		.egress_index = egress_index,
		.egresses = egresses,
	};
	for (unsigned i = 0; i < PORT_MAX; i++)
		outs[i].port = (uint16_t)i;
	return 0;
}

void pipeline_fini(struct pipeline *pl)
{
	free(pl->outs);
	free(pl->stats);
	free(pl->egresses);
	free(pl->egress_index);
	pl->outs = NULL;
	pl->stats = NULL;
	pl->egresses = NULL;
	pl->egress_index = NULL;
}

static void count_batch(struct pipeline_stats *s, const struct batch *b)
{
	counter_add(&s->batches, 1);
	counter_add(&s->batch_size[31 - __builtin_clz(b->count)], 1);
	if (b->lookups4)
		counter_add(&s->lookups4, b->lookups4);
	if (b->lookups6)
		counter_add(&s->lookups6, b->lookups6);
}

static void forget_egresses(struct pipeline *pl)
{
	for (unsigned i = 1; i <= pl->egress_count; i++)
		pl->egress_index[pl->egresses[i].number] = 0;
	pl->egress_count = 0;
}

void pipeline_run(struct pipeline *pl, struct packet *pkts, unsigned n)
{
	struct batch b;

	if (!n)
		return;
	b.pl = pl;
	b.fib = pl->fib;
	b.packets = pkts;
	b.count = n;
	b.lookups4 = 0;
	b.lookups6 = 0;
	stage_parse(&b);
	stage_route(&b);
	stage_neighbour(&b);
	stage_rewrite(&b);
	stage_transmit(&b);
	forget_egresses(pl);
	count_batch(pl->stats, &b);
}
