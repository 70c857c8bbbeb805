/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The packet memory: one memfd, cut into frames, shared by all ports. It is registered with the kernel as UMEM once
 * per frame domain: copying and zero-copy are properties of a UMEM, so ports of different mode need different ones
 * (afxdp-drivers 1.3), but over the same memory, so that a frame goes from one to the other without a copy.
 *
 * A domain lives as long as it has a socket: the first one registers the UMEM, later ones join by any bound member.
 * The frames are divided among the workers as their home caches. Thread: control, but for what frame.h says.
 */
#ifndef ROUTERD_PORT_UMEM_H
#define ROUTERD_PORT_UMEM_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "packet/frame.h"
#include "port/port.h"

struct xsk_socket;

enum umem_mode { UMEM_COPY, UMEM_ZERO_COPY, UMEM_MODE_COUNT };

/* Frames of a closed queue whose pool the kernel may not have let go of yet. */
struct quarantine {
	struct quarantine *next;
	uint32_t ifindex;
	uint16_t queue_id;
	uint32_t first;      /* frame index, linked by frame.next */
	uint32_t count;
	uint64_t since_ns;
};

struct packet_memory {
	struct frame_table table;
	size_t size;                              /* bytes */
	int memfd;
	unsigned workers;
	struct frame_cache *caches[WORKERS_MAX];  /* home caches, by worker */
	struct xsk_socket *domains[UMEM_MODE_COUNT]; /* members, linked by their domain_next */
	struct quarantine *quarantines;
};

/* @size bytes are rounded down to whole frames for each worker; -EINVAL when too small. The frames are all FREE. */
int packet_memory_new(uint64_t size, uint32_t frame_size, unsigned workers, struct packet_memory **ret, struct error *e);
/* No socket and no user of the frames is left. Frames in quarantine go with it: the kernel keeps the pages it may still
 * touch. NULL is fine. */
void packet_memory_free(struct packet_memory *m);

/* Frames that are at home at each worker. */
uint32_t packet_memory_home(const struct packet_memory *m);

/* Put all frames that are FILL of receive queue @rx_number and TX of transmit queue @tx_number (FRAME_NO_QUEUE: none)
 * into quarantine for the device's queue, whose socket is closed. @q: from malloc, ifindex and queue_id set; it is the
 * memory's from now on. Returns how many. */
uint32_t packet_memory_quarantine(struct packet_memory *m, struct quarantine *q, uint16_t rx_number, uint16_t tx_number,
	uint64_t now_ns);

/* Send home the frames of queues that the kernel has let go of, or that have waited for a minute. @ifindex: only those of
 * this device, 0 = of all. Waits at most @patience_ns for the kernel. Returns how many frames are still in quarantine. */
uint32_t packet_memory_release(struct packet_memory *m, uint32_t ifindex, uint64_t patience_ns);
uint32_t packet_memory_quarantined(const struct packet_memory *m);

#endif
