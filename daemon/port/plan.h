/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The queue plan: which worker owns which receive queue, and by which transmit queue each worker sends on each port.
 * A pure function of what is given; asked again whenever a port comes or goes. Context: any.
 *
 * Rules: a receive queue that has an owner keeps it; the others go, port by port, to the worker with the fewest. A worker
 * sends by the transmit queue that has the number of a receive queue of its own on that port, if it can; transmit
 * queues are shared only when there are more workers than transmit queues, and then evenly.
 */
#ifndef ROUTERD_PORT_PLAN_H
#define ROUTERD_PORT_PLAN_H

#include <stdint.h>

#include "port/port.h"

#define PLAN_NO_WORKER UINT8_MAX
#define PLAN_REASON_LENGTH 256

/* One port. The first three are the question, the rest the answer; rx_worker is both. */
struct plan_port {
	char name[16];
	uint16_t rxq_count, txq_count;              /* txq_count >= 1 */
	uint8_t rx_worker[PORT_QUEUES_MAX];         /* owner, or PLAN_NO_WORKER: to be decided */
	uint16_t worker_tx[WORKERS_MAX];            /* by worker: transmit queue index */
	uint8_t tx_users[PORT_QUEUES_MAX];          /* by transmit queue: how many workers use it */
	enum port_txq_rung rung;                    /* the worst of the queues in use */
	char reason[PLAN_REASON_LENGTH];            /* why this rung, and the cure; never empty */
};

/* @workers 1..WORKERS_MAX. 0, or -EINVAL: numbers out of range (nothing is changed then). */
int plan_make(unsigned workers, struct plan_port *ports, unsigned count);

#endif
