/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Inside the AF_XDP driver: what xsk.c (open, close) and xsk_io.c (packets) share.
 */
#ifndef ROUTERD_PORT_XSK_IMPL_H
#define ROUTERD_PORT_XSK_IMPL_H

#include "port/xsk.h"

#define XSK_REFILL_MIN 16u  /* fewer frames are not worth the stores, unless the queue runs low */

struct xsk_rxq {
	struct xsk_socket *socket;
	uint32_t limit;  /* atomic; written by control: frames the queue may hold */
};

struct xsk_txq {
	struct xsk_socket *socket;
	uint32_t limit;  /* atomic; written by control: frames in flight at most, never more than the completion ring holds */
	counter busy_drops;
} cache_aligned;

struct xsk_port {
	struct port port;
	struct netdev device;            /* as it was after attaching */
	enum xsk_mode mode;
	struct packet_memory *memory;
	struct steer *steer;
	struct deliver *deliver;
	bool delivers;                   /* the way into the kernel is open */
	struct xsk_socket *sockets;      /* [socket_count], by queue id */
	struct quarantine **quarantines; /* [socket_count], made at open so that close cannot fail */
	struct xsk_rxq *rx;              /* [port.rxq_count] */
	struct xsk_txq *tx;              /* [port.txq_count] */
	unsigned socket_count;
};

static inline struct xsk_port *xsk_port_of(struct port *p)
{
	return p->driver;
}

unsigned xsk_rx_burst(struct port_rxq *q, struct packet *out, unsigned max);
void xsk_refill(struct port_rxq *q, struct frame_cache *cache);
unsigned xsk_tx_burst(struct port_txq *q, struct packet *const *pkts, unsigned n, uint32_t now_ms);
void xsk_tx_kick(struct port_txq *q);
unsigned xsk_tx_reap(struct port_txq *q, struct frame_cache *cache, struct frame_cache *const *caches);

#endif
