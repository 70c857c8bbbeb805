/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The AF_XDP driver of port.h: a socket per queue of one device, all in one mode, its steer program, its way into the
 * kernel (deliver). One attempt = one mode; the ladder zero-copy → native → generic and what is said about refusals is
 * control's (control/ports_open.c).
 *
 * Opening, by the control thread: xsk_port_open() binds all queues (and attaches the program first, where the driver
 * wants it in that order) → queue numbers and workers are assigned, workers get the queues and fill them →
 * xsk_port_attach() (nothing more to do if it is attached) → steer_enable(). Closing: the program is told to pass everything
 * → the workers let go → port->ops->close() → steer_free(), which detaches: in this order, for a program must not go while
 * the kernel still holds a queue's pool (afxdp-drivers 8, 24); close() waits for that.
 *
 * Limits: multi-buffer (XDP_USE_SG) is not asked for: one packet, one frame. Received segments (XDP_PKT_CONTD) are
 * understood all the same.
 */
#ifndef ROUTERD_PORT_XSK_H
#define ROUTERD_PORT_XSK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "port/deliver.h"
#include "port/netdev.h"
#include "port/port.h"
#include "port/steer.h"
#include "port/umem.h"
#include "port/xsk_socket.h"

#define XSK_HEADROOM 256u  /* bytes before a received packet in its frame (XDP_PACKET_HEADROOM, afxdp-drivers 1.1) */

/* As the configuration says, in the order in which they are tried. */
enum xsk_mode { XSK_MODE_AUTO, XSK_MODE_ZERO_COPY, XSK_MODE_NATIVE, XSK_MODE_GENERIC };

const char *xsk_mode_name(enum xsk_mode mode);  /* "auto", "zero-copy", "native", "generic" */

struct xsk_options {
	const struct netdev *device;      /* facts, as of now */
	enum xsk_mode mode;               /* not AUTO */
	unsigned queues;                  /* receive on at most so many; 0 = all */
	unsigned workers;                 /* transmit queues beyond this number are of no use */
	uint16_t number;                  /* the port's */
	uint32_t ring_size;               /* a power of two */
	bool busy_poll;
	struct packet_memory *memory;
	struct steer *steer;              /* loaded, not attached; stays the caller's */
	struct deliver *deliver;          /* shared by all ports */
};

/* 0, *@ret with queues whose number and worker are still to be set, and nobody receiving; or -errno and @e, with no socket
 * left. The program may be left attached, for the next attempt to use; detaching it is the caller's. */
int xsk_port_open(const struct xsk_options *o, struct port **ret, struct error *e);

/* Attach the program if it is not; steer_attach() checks by reading back that it runs where it should. On failure the
 * caller closes the port. */
int xsk_port_attach(struct port *p, struct error *e);

/* How many frames a receive queue may hold at most. Context: control, any time; takes effect as packets come in. */
void xsk_rxq_set_limit(struct port_rxq *q, uint32_t frames);
/* How many frames may be in flight at most on a transmit queue. */
void xsk_txq_set_limit(struct port_txq *q, uint32_t frames);

/* Has the worker given the ring what it can hold (as limited)? */
bool xsk_rxq_is_filled(const struct port_rxq *q);

bool xsk_rxq_zero_copy(const struct port_rxq *q);
bool xsk_txq_zero_copy(const struct port_txq *q);

/* Packets that the device dropped as they were handed to it (EBUSY: its queue was full or it had no link). */
uint64_t xsk_txq_busy_drops(const struct port_txq *q);

#endif
