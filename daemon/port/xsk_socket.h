/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One AF_XDP socket on one queue of a device, by plain system calls: libxdp can neither join a UMEM by any of its
 * sockets nor register a memory twice. Opening and closing: control thread. The rings' users: see port.h.
 */
#ifndef ROUTERD_PORT_XSK_SOCKET_H
#define ROUTERD_PORT_XSK_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "port/umem.h"
#include "port/xsk_ring.h"

struct xsk_socket {
	int fd;                          /* -1 = closed */
	uint32_t ifindex;
	uint16_t queue_id;
	bool zero_copy;                  /* as the kernel says (XDP_OPTIONS) */
	struct xsk_ring rx, tx;          /* tx is absent on queues that only receive, rx on those that only send */
	struct xsk_ring fill, completion;
	struct xsk_socket *domain_next;  /* next member of its frame domain */
	struct packet_memory *memory;
	enum umem_mode mode;
};

struct xsk_socket_config {
	uint32_t ifindex;
	uint16_t queue_id;
	enum umem_mode mode;
	bool receive, transmit;
	bool busy_poll;
	uint32_t ring_size;         /* receive, transmit and fill; a power of two */
	uint32_t completion_size;   /* >= what can be in flight; a power of two */
};

/* Make, bind and verify. A queue whose former socket is still being torn down (EBUSY) is tried again for two seconds.
 * 0, or -errno of the step that failed, with @e filled (facts only; the caller adds the cure). */
int xsk_socket_open(struct xsk_socket *s, struct packet_memory *m, const struct xsk_socket_config *c, struct error *e);
void xsk_socket_close(struct xsk_socket *s);

/* Has the kernel let go of the queue? 0 = free, -EBUSY = a socket or its remains are on it, -ENODEV = no such device or
 * queue any more, so nothing can hold it. Binds a socket of its own for a moment, in copy mode. */
int xsk_queue_probe(uint32_t ifindex, uint16_t queue_id);

/* One wake-up for sending or receiving that never blocks. 0 or -errno. Any thread. */
int xsk_socket_wake_tx(const struct xsk_socket *s);
int xsk_socket_wake_rx(const struct xsk_socket *s);

#endif
