/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sum that must balance (design promise 2), for one port: what its steer program saw = what was forwarded, given to
 * the kernel, dropped by reason, and what is held. Read while traffic flows, the parts are of slightly different
 * moments; at rest the sum is exact.
 *
 * Thread: control.
 */
#ifndef ROUTERD_CONTROL_ACCOUNT_H
#define ROUTERD_CONTROL_ACCOUNT_H

#include "control/router.h"

/* Packets that the kernel lost between the steer program and the receive ring. X(identifier, label, help) */
#define ACCOUNT_XSK_REASONS(X) \
	X(RX_DROPPED, "xsk_rx_dropped", "no free frame in the fill ring, or the packet does not fit into a frame") \
	X(RING_FULL, "xsk_ring_full", "the receive ring is full: the worker is too slow")

enum account_xsk_reason {
#define X(id, label, help) ACCOUNT_XSK_##id,
	ACCOUNT_XSK_REASONS(X)
#undef X
	ACCOUNT_XSK_COUNT
};

struct account_xsk_info {
	const char *label, *help;
};
extern const struct account_xsk_info account_xsk_info[ACCOUNT_XSK_COUNT];

struct account_steer_info {
	const char *label, *help;
};
extern const struct account_steer_info account_steer_info[STEER_REASON_COUNT];

struct account_sum {
	uint64_t packets, bytes;
};

struct account {
	struct account_sum received;   /* seen by the steer program */
	struct account_sum forwarded;  /* by workers, of what this port received */
	struct account_sum kernel;     /* passed by the steer program or given to the kernel by a worker */
	struct account_sum dropped;    /* bytes: as far as known */
	struct account_sum sent;       /* out of this port, whichever port it came from */
	uint64_t held;                 /* packets in receive rings and in workers */
	bool balanced;                 /* received = forwarded + kernel + dropped + held, in packets */
};

/* Everything of which an account is the sum. */
struct account_detail {
	struct port_steer_info steer;
	struct account_sum verdicts[VERDICT_COUNT];
	uint64_t xsk[ACCOUNT_XSK_COUNT];
	struct account_sum sent;
	uint64_t waiting;
};

/* 0, or -ENOENT when there is no such port. */
int account_detail(const struct router *r, uint16_t number, struct account_detail *ret);
void account_sum_up(const struct account_detail *d, struct account *ret);

/* @total += @a; both must be kept until account_conclude(). */
void account_add(struct account *total, const struct account *a);
/* Set balanced from the other fields. */
void account_conclude(struct account *a);

#endif
