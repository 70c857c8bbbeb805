/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Inside the ports: what ports.c (life, hooks), ports_open.c (opening, queues, closing) and ports_info.c share.
 */
#ifndef ROUTERD_CONTROL_PORTS_IMPL_H
#define ROUTERD_CONTROL_PORTS_IMPL_H

#include "control/ports.h"
#include "port/deliver.h"
#include "port/plan.h"
#include "port/steer.h"
#include "port/umem.h"

struct ports_entry {
	struct port *port;
	struct steer *steer;
	struct port_options options;
	struct netdev device;             /* facts, as read last */
	struct plan_port plan;
	enum xsk_mode mode;               /* what was got */
	bool wanted;                      /* ports_enable() */
	bool fits;                        /* packets of the device's MTU fit a frame; otherwise all is passed to the kernel */
	bool gone;
	bool leaving;                     /* no receive queue is given to a worker any more */
	bool lost;                        /* a worker hangs and may still use it: detached, never freed */
	uint32_t stuck[PORT_QUEUES_MAX];  /* by transmit queue: frames in flight for over five seconds */
	char attempts[PORTS_TEXT_LENGTH];
};

struct ports {
	struct ports_options options;
	const struct fib *fib;
	struct packet_memory *memory;
	struct steer_shared *shared;
	struct deliver *deliver;
	struct workers *workers;
	unsigned worker_count;
	struct ports_entry *entries[PORT_MAX];
	struct ledger_late *late;         /* [PORT_MAX * PORT_QUEUES_MAX], scratch of ports_tick() */
	uint64_t tick_ns;
	bool deliver_gone;                /* somebody has deleted the delivery device */
	bool stopped;                     /* the workers are gone */
};

/* The entry of an open port; NULL. */
static inline struct ports_entry *ports_entry(const struct ports *p, uint16_t number)
{
	return number < PORT_MAX && p->entries[number] && !p->entries[number]->lost ? p->entries[number] : NULL;
}

/* Tell the program what follows from wanted, fits and the delivery device. */
int ports_apply_enable(const struct ports *p, struct ports_entry *entry);

/* Does an MTU fit? Says what to do about it where it does not. */
bool ports_mtu_fits(const struct ports *p, const char *name, uint32_t mtu, struct error *e);

/* Wait, at most @patience_ms, until the ports' receive rings are empty (all ports, or one). */
void ports_wait_empty(const struct ports *p, const struct ports_entry *only, unsigned patience_ms);

#endif
