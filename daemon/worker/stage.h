/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Between the stages of pipeline.c: a batch on its way and what is known about its packets beside their own records.
 * A packet whose verdict is not FORWARD any more is passed over by the stages up to transmit, which finishes it.
 * The interface records are read once and kept, so that all stages of a batch see the same (RCU read section).
 */
#ifndef ROUTERD_WORKER_STAGE_H
#define ROUTERD_WORKER_STAGE_H

#include "worker/pipeline.h"

struct batch {
	struct pipeline *pl;
	const struct fib *fib;
	struct packet *packets;
	unsigned count;
	uint32_t lookups4, lookups6;
	const struct fib_iface *ingress[BATCH_SIZE];  /* set by parse where the verdict is FORWARD */
};

void stage_parse(struct batch *b);
void stage_route(struct batch *b);
void stage_neighbour(struct batch *b);
void stage_rewrite(struct batch *b);
void stage_transmit(struct batch *b);

#endif
