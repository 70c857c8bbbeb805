/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/port.h"

void port_txq_lock(struct port_txq *q)
{
	if (q->rung != PORT_TXQ_SHARED)
		return;
	if (pthread_spin_trylock(&q->lock) != 0) {
		pthread_spin_lock(&q->lock);
		counter_add(&q->lock_contended, 1);
	}
}

void port_txq_unlock(struct port_txq *q)
{
	if (q->rung == PORT_TXQ_SHARED)
		pthread_spin_unlock(&q->lock);
}
