/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The steer program (bpf/steer.bpf.c) from the daemon's side: a loaded object per port, maps that all ports share, the
 * link that attaches it. The link is not pinned: when the process ends, however it ends, the program is gone and the
 * kernel has every packet again. A foreign program is never touched.
 *
 * Thread: control; the heartbeat words are stored to by the workers. All setters may be called in any order and return
 * 0 or -errno. Addresses in wire order, VLAN ids and protocols in host order.
 */
#ifndef ROUTERD_PORT_STEER_H
#define ROUTERD_PORT_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/shared.h"
#include "common/error.h"
#include "port/netdev.h"

/* ---- shared by all ports ---- */

struct steer_shared;

int steer_shared_new(struct steer_shared **ret, struct error *e);
void steer_shared_free(struct steer_shared *s);  /* NULL is fine; no struct steer is left */

/* Where worker @worker stores CLOCK_MONOTONIC nanoseconds; 0 = gone. */
uint64_t *steer_heartbeat(struct steer_shared *s, unsigned worker);
int steer_set_stale(struct steer_shared *s, uint64_t stale_ns);

/* @family AF_INET or AF_INET6. Twice set or twice removed is fine. -ENOSPC: the table is full. */
int steer_local_address(struct steer_shared *s, int family, const void *addr, bool present);

/* ---- per port ---- */

struct steer;

/* Load the object; it is not attached and passes everything. Frames of more than @max_length bytes are never taken. */
int steer_new(struct steer_shared *shared, uint32_t max_length, struct steer **ret, struct error *e);
/* Detach if attached, and unload. NULL is fine. */
void steer_free(struct steer *s);

/* Attach in the driver (@native) or generically, and read back that it is so. -EBUSY/-EEXIST: another program is there,
 * @e tells whose it is. */
int steer_attach(struct steer *s, const struct netdev *device, bool native, struct error *e);
void steer_detach(struct steer *s);
bool steer_is_attached(const struct steer *s);
bool steer_is_native(const struct steer *s);  /* as read back */
uint32_t steer_program_id(const struct steer *s);

/* Take packets (after everything else is set), or pass all to the kernel. */
int steer_enable(struct steer *s, bool on);
bool steer_is_enabled(const struct steer *s);

/* The socket of a receive queue; -1 = none. */
int steer_set_socket(struct steer *s, uint16_t queue_id, int fd);
/* Whose heartbeat vouches for the queue; STEER_NO_WORKER = nobody. */
int steer_set_queue_worker(struct steer *s, uint16_t queue_id, uint8_t worker);
/* The port's own MAC and STEER_PASS_* flags. */
int steer_set_link(struct steer *s, const uint8_t mac[6], uint32_t pass_flags);
int steer_vlan(struct steer *s, uint16_t protocol, uint16_t vid, const uint8_t mac[6], uint32_t pass_flags, bool present);

/* Summed over the CPUs, by enum steer_reason. */
int steer_read_stats(const struct steer *s, uint64_t packets[STEER_REASON_COUNT], uint64_t bytes[STEER_REASON_COUNT]);

#endif
