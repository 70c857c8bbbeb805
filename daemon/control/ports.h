/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The ports: packet memory, workers, steer programs, delivery TAP, and the AF_XDP ports on them, from the user's options
 * to a running data path and back, leaving nothing behind. Thread: control, all of it; calls may block for a moment
 * (a port: up to some seconds while queues of the device settle), workers are never stopped by them.
 *
 * Order of use: ports_new → ports_open for each port (attached, but every packet still goes to the kernel) → the mirror
 * fills local addresses, links and VLANs → ports_enable → ... → ports_close / ports_free.
 * ports_tick() once a second looks for late frames, brings quarantined frames home and re-reads devices.
 */
#ifndef ROUTERD_CONTROL_PORTS_H
#define ROUTERD_CONTROL_PORTS_H

#include <linux/types.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/error.h"
#include "port/ledger.h"
#include "port/port.h"
#include "port/xsk.h"
#include "worker/worker.h"

#define PORTS_TEXT_LENGTH 1024

struct ports_options {
	uint64_t memory_size;           /* bytes of packet memory */
	uint32_t frame_size;            /* 2048 or 4096 */
	unsigned workers;               /* 0 = workers_default_count() */
	cpu_set_t cpus;                 /* empty = all usable */
	bool busy_poll;
	uint32_t heartbeat_timeout_ms;  /* older: the kernel takes over */
	char deliver_device[16];        /* "" = "routerd%d" */
	uint32_t ring_size;             /* descriptors per ring, a power of two; 0 = 2048 */
};

struct port_options {
	char name[16];                  /* for messages; the device is @ifindex */
	uint32_t ifindex;
	enum xsk_mode mode;
	unsigned queues;                /* use at most so many; 0 = all */
};

/* One receive or transmit queue, for routerctl and metrics. */
struct port_queue_info {
	uint16_t queue_id;
	uint8_t worker;                 /* receive: owner; transmit: the (first) user */
	uint8_t users;                  /* transmit: how many workers use it, 0 = nobody */
	enum port_txq_rung rung;        /* transmit */
	bool zero_copy;
	uint64_t packets, bytes;        /* received or sent */
	uint64_t invalid, refill_short, in_fill, waiting;                                  /* receive */
	uint64_t completed, bogus_completions, kicks, kick_again, kick_errors, busy_drops,
		late, stuck, in_flight, lock_contended;                                    /* transmit */
	struct port_kernel_stats kernel; /* receive: of the queue's socket */
};

struct port_info {
	uint16_t number;
	uint32_t ifindex;
	char name[16];
	char driver[32];                /* as ethtool -i says */
	enum xsk_mode mode_requested, mode;
	bool zero_copy;                 /* every queue's socket says so (XDP_OPTIONS) */
	bool native;                    /* attach mode as read back: true = in the driver, false = generic */
	bool enabled;                   /* packets are taken; false: all go to the kernel */
	bool carrier;
	bool gone;                      /* the device has disappeared */
	uint32_t mtu;
	uint16_t rxq_count, txq_count;  /* bound for receiving, usable for sending */
	uint16_t device_rx, device_tx;  /* what the device has */
	enum port_txq_rung rung;        /* the worst of the transmit queues in use */
	char rung_reason[256];
	char attempts[PORTS_TEXT_LENGTH]; /* a line per mode that was refused: why, and the cure; "" = none */
};

struct port_steer_info {
	uint64_t packets[STEER_REASON_COUNT], bytes[STEER_REASON_COUNT];  /* by enum steer_reason */
};

struct ports;

/* Packet memory, delivery device, workers (idle). 0, or -errno and @e. @fib stays the caller's and outlives this. */
int ports_new(const struct ports_options *o, const struct fib *fib, struct ports **ret, struct error *e);
/* Close all ports and everything else, in the reverse order. NULL is fine. */
void ports_free(struct ports *p);

/* Attach the program, bind the queues, hand them to the workers. *@ret_number is the smallest free port number.
 * On failure @e says why and how to cure it, and nothing is left attached. */
int ports_open(struct ports *p, const struct port_options *o, uint16_t *ret_number, struct error *e);
/* All traffic to the kernel, queues emptied, closed, detached. @device_gone: it has disappeared, so do not wait for it. */
void ports_close(struct ports *p, uint16_t number, bool device_gone);
/* Planned stop: everything goes to the kernel first, then what is in the rings is still forwarded, the workers end, all is
 * closed. No port can be opened after it; what remains to be done is ports_free(). */
void ports_close_all(struct ports *p);

/* Take packets from now on, or pass all to the kernel. */
int ports_enable(struct ports *p, uint16_t number, bool on);

/* Number of the port on @ifindex; -ENOENT. */
int ports_find(const struct ports *p, uint32_t ifindex, uint16_t *ret_number);
struct port *ports_get(const struct ports *p, uint16_t number);  /* NULL = none */

/* ---- from the mirror; all may be called at any time, in any order; 0 or -errno ---- */

/* An address that is the router's own (local, broadcast, anycast table entries). @addr: 4 or 16 bytes, wire order.
 * Setting one twice or removing one that is not there is fine. -ENOSPC: table full. */
int ports_local_address(struct ports *p, int family, const void *addr, bool present);
/* The port's own link: MAC and STEER_PASS_* flags (families the kernel does not forward there), carrier, MTU. */
int ports_link(struct ports *p, uint16_t number, const uint8_t mac[6], uint32_t pass_flags, bool carrier, uint32_t mtu);
/* A VLAN sub-interface of a port. @protocol: ETH_P_8021Q or ETH_P_8021AD, host order. */
int ports_vlan(struct ports *p, uint16_t number, uint16_t protocol, uint16_t vid, const uint8_t mac[6],
	uint32_t pass_flags, bool present);

/* Live change of the heartbeat timeout. */
int ports_set_heartbeat_timeout(struct ports *p, uint32_t ms);

/* ---- what happens ---- */

/* Once a second. @now_ns: CLOCK_MONOTONIC. */
void ports_tick(struct ports *p, uint64_t now_ns);

/* Call @fn for each open port. */
void ports_foreach(const struct ports *p, void (*fn)(void *ctx, uint16_t number), void *ctx);
int ports_get_info(const struct ports *p, uint16_t number, struct port_info *ret);  /* -ENOENT */
int ports_rx_info(const struct ports *p, uint16_t number, unsigned index, struct port_queue_info *ret);  /* -ENOENT */
int ports_tx_info(const struct ports *p, uint16_t number, unsigned index, struct port_queue_info *ret);
int ports_steer_info(const struct ports *p, uint16_t number, struct port_steer_info *ret);
/* Packets the delivery program gave to the port's stack, and shot. */
int ports_deliver_info(const struct ports *p, uint16_t number, uint64_t *ret_packets, uint64_t *ret_shot);
const char *ports_deliver_device(const struct ports *p);  /* the TAP's name */

/* The frame ledger: two independent books (ledger.h). They agree when traffic rests. */
void ports_ledger(const struct ports *p, struct ledger *ret);

unsigned ports_workers(const struct ports *p);
struct workers *ports_get_workers(const struct ports *p);

#endif
