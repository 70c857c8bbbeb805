/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The contract of a port: something with receive queues and transmit queues whose frames come from the one packet
 * memory. Drivers: xsk (AF_XDP), memory (tests and benchmarks), later packet (the kernel's own queues).
 *
 * Life cycle, all by the control thread: driver-specific open (makes the struct port and its queues) → workers use
 * the queues → close. Between open and close each receive queue belongs to one worker, which alone calls its
 * functions; a transmit queue belongs to one worker (PORT_TXQ_EXCLUSIVE) or to several (PORT_TXQ_SHARED: the caller
 * holds q->lock around burst, kick and reap; see port_txq_lock). No function blocks or spins without bound.
 *
 * Frames. rx_burst: FILL → WORKER, one reference each, the caller owns them. refill: FREE → FILL. tx_burst: the
 * accepted prefix goes WORKER → TX and the caller forgets it; what was not accepted stays the caller's. tx_reap:
 * TX → home (frame_put). A completion for a frame that is not in flight on that queue is counted and ignored.
 *
 * Counters are written by the thread that holds the queue and read by anyone.
 */
#ifndef ROUTERD_PORT_PORT_H
#define ROUTERD_PORT_PORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/counter.h"
#include "packet/frame.h"
#include "packet/packet.h"
#include "route/fib.h"

#define PORT_MAX FIB_PORT_MAX
#define PORT_QUEUES_MAX 64     /* per port and direction */
#define WORKERS_MAX 32

struct port;

struct port_rxq {
	struct port *port;
	uint16_t queue_id;      /* the device's */
	uint16_t number;        /* unique among all rx queues of the daemon (frame.queue while FILL) */
	uint8_t worker;
	void *driver;           /* driver's own */
	/* written by the owning worker */
	struct counter_pair received;       /* packets handed to the worker */
	counter invalid;                    /* descriptors outside the packet memory, dropped */
	counter refill_short;               /* times the cache could not fill the ring up */
	counter in_fill;                    /* gauge: frames given and not yet received back */
} cache_aligned;

enum port_txq_rung { PORT_TXQ_EXCLUSIVE, PORT_TXQ_SHARED };

struct port_txq {
	struct port *port;
	uint16_t queue_id;
	uint16_t number;        /* unique among all tx queues (frame.queue while TX) */
	uint8_t rung;           /* enum port_txq_rung */
	bool carrier;           /* atomic, written by control: false = do not submit (link down) */
	void *driver;
	pthread_spinlock_t lock; /* PORT_TXQ_SHARED only */
	counter lock_contended;
	struct counter_pair sent;           /* descriptors accepted by the ring */
	counter completed;                  /* frames whose completion came */
	counter bogus_completions;          /* named a frame not in flight here */
	counter kicks, kick_again, kick_errors;  /* system calls; EAGAIN/EBUSY; others */
	counter late;                       /* frames found in flight for over a second; written by control */
	counter in_flight;                  /* gauge: frames submitted and not completed */
} cache_aligned;

/* What the kernel counts for the port's sockets and its steer program; control thread only. */
struct port_kernel_stats {
	uint64_t rx_dropped, rx_invalid_descs, tx_invalid_descs, rx_ring_full, rx_fill_ring_empty, tx_ring_empty;
};

struct port_ops {
	const char *name;  /* "xsk", "memory" */
	/* Take up to @max packets that have arrived. Fills data, frame, length, seg_count, port; all else zero. */
	unsigned (*rx_burst)(struct port_rxq *q, struct packet *out, unsigned max);
	/* Give the ring as many free frames as it takes. */
	void (*refill)(struct port_rxq *q, struct frame_cache *cache);
	/* File descriptor that becomes readable when packets wait; -1 = must be polled. */
	int (*rx_fd)(const struct port_rxq *q);
	/* Accept a prefix of @pkts; returns its length in packets. @now_ms as in frame.submit_ms. */
	unsigned (*tx_burst)(struct port_txq *q, struct packet *const *pkts, unsigned n, uint32_t now_ms);
	/* Make the device look at what was submitted. Bounded number of system calls. */
	void (*tx_kick)(struct port_txq *q);
	/* Take completions and send the frames home. Returns how many. */
	unsigned (*tx_reap)(struct port_txq *q, struct frame_cache *cache, struct frame_cache *const *caches);
	/* Give a packet to the kernel as received by the port (copies; the frame stays the caller's). 0 or -errno.
	 * Context: any worker. */
	int (*deliver)(struct port *p, const struct packet *pkt);
	/* Statistics of one receive queue's socket. Context: control. */
	void (*kernel_stats)(struct port *p, uint16_t queue_index, struct port_kernel_stats *ret);
	/* Frames lying in the receive ring, not yet taken (part of in_fill). Context: control, approximate. */
	unsigned (*rx_waiting)(const struct port_rxq *q);
	/* Close everything. No worker uses it any more. Its frames are brought home or quarantined. Context: control. */
	void (*close)(struct port *p);
};

struct port {
	const struct port_ops *ops;
	uint16_t number;               /* index in the daemon's table, fib_iface.port */
	uint16_t rxq_count, txq_count;
	uint32_t ifindex;              /* 0 for memory ports */
	char name[16];
	struct frame_table *frames;
	struct port_rxq *rxqs;         /* [rxq_count] */
	struct port_txq *txqs;         /* [txq_count] */
	struct port_txq *worker_txq[WORKERS_MAX];  /* the transmit queue that a worker uses for this port */
	void *driver;
};

/* Hold the transmit queue if it is shared. Context: worker. */
void port_txq_lock(struct port_txq *q);
void port_txq_unlock(struct port_txq *q);

#endif
