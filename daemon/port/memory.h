/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The memory port: the whole contract of port.h without a device. Packets are injected by the test, what is sent or
 * given to the kernel is kept for it (or only counted), time is passed in, and faults are scripted.
 *
 * Rings have one producer and one consumer each: inject may run in another thread than the worker that receives; one
 * thread at a time holds a transmit queue; deliver is for any thread. Everything else: one thread, workers at rest.
 * Functions return 0 or -errno.
 */
#ifndef ROUTERD_PORT_MEMORY_H
#define ROUTERD_PORT_MEMORY_H

#include "port/port.h"

#define MEMORY_HEADROOM 256  /* XDP_PACKET_HEADROOM; sfc leaves 128 */

struct memory_port_options {
	const char *name;
	uint16_t number;              /* port number */
	uint16_t rxqs, txqs;          /* numbers of queues; 0 = 1 */
	uint16_t first_rxq, first_txq; /* daemon-wide numbers of the first queues */
	uint8_t rung;                 /* enum port_txq_rung */
	bool discard;                 /* count what is sent and delivered, keep no copy */
	uint32_t fill_size, rx_size, tx_size, completion_size;  /* powers of two, 0 = 256 */
	struct frame_table *frames;
	struct frame_cache *const *caches;  /* [WORKERS_MAX]; where frames go when the port is closed */
};

/* Faults to come. Counts say for how many events; the test writes them while no worker runs. */
struct memory_faults {
	uint32_t lose;           /* completions that never come (until memory_port_release) */
	uint32_t late;           /* completions that come late_ns after they should */
	uint32_t twice;          /* completions that come two times */
	uint32_t foreign;        /* completions that are followed by one naming foreign_frame */
	uint32_t foreign_frame;  /* any number, also one outside the packet memory */
	uint64_t late_ns;
	bool reorder;            /* completions of one kick come in reverse */
	bool stuck;              /* the device takes nothing out of the transmit rings: they fill up */
	uint32_t deliver_fail;   /* deliveries that fail */
	int deliver_error;       /* with this (negative errno); 0 = -ENOBUFS */
};

/* A packet that left. */
struct memory_packet {
	uint8_t *bytes;
	uint32_t length;
	uint32_t segments;
	uint64_t at_ns;  /* scripted time */
};

struct memory_log {
	struct memory_packet *packets;  /* in the order they left */
	uint32_t count, capacity;
	uint64_t bytes;
};

/* worker_txq[w] becomes queue w % txqs. -EINVAL: a size is no power of two or a number out of range; -ENOMEM. */
int memory_port_open(const struct memory_port_options *o, struct port **ret);

/* Receive @length bytes on a queue, in one frame. -ENOBUFS: no frame in the fill ring; -ENOSPC: receive ring full;
 * -EMSGSIZE: too long for a frame; -EINVAL: no such queue. Nothing has changed then. */
int memory_port_inject(struct port *p, unsigned queue, const void *bytes, uint32_t length);
/* The same bytes in @n frames, of @lengths bytes each. */
int memory_port_inject_segments(struct port *p, unsigned queue, const void *bytes, const uint32_t *lengths, unsigned n);
/* A descriptor that points outside the packet memory. */
int memory_port_inject_invalid(struct port *p, unsigned queue);
/* Room before injected packets, at least 0. */
void memory_port_set_headroom(struct port *p, uint32_t bytes);

/* Time passes: late completions that are due arrive, and a device that was stuck looks at its rings again. */
void memory_port_step(struct port *p, uint64_t now_ns);
/* Lost completions arrive after all. */
void memory_port_release(struct port *p);
void memory_port_set_carrier(struct port *p, bool carrier);
struct memory_faults *memory_port_faults(struct port *p);

/* What was sent by a transmit queue, and what the port's stack was given. Valid until memory_port_clear(). */
const struct memory_log *memory_port_sent(const struct port *p, unsigned queue);
const struct memory_log *memory_port_delivered(const struct port *p);
void memory_port_clear(struct port *p);

/* Frames that the port holds, counted in its rings: the ledger's cross-check. */
struct memory_port_frames {
	uint32_t fill;       /* fill and receive rings */
	uint32_t in_flight;  /* transmit rings, completions to come, lost ones */
};
void memory_port_count_frames(const struct port *p, struct memory_port_frames *ret);

/* memory_pcap.c: classic pcap files, either byte order, Ethernet. @fn is called for each packet; what it returns other
 * than 0 ends the reading and is returned. -EINVAL: not such a file. */
int memory_pcap_read(const char *path, int (*fn)(void *ctx, const uint8_t *bytes, uint32_t length), void *ctx);
int memory_pcap_write(const char *path, const struct memory_log *log);

#endif
