/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The way into the kernel for packets that a worker took and that turn out to be the kernel's: a multi-queue TAP with a
 * queue per port number, and the deliver program on its ingress, which gives each packet its true ingress port, so that
 * tcpdump, rp_filter, nftables and ICMP errors see the real device. Ports in generic XDP mode get a filter of their own
 * (bpf/deliver.bpf.c says why). The TAP is not persistent: it vanishes with the process.
 *
 * Thread: control, but for deliver_packet(), which any worker may call.
 */
#ifndef ROUTERD_PORT_DELIVER_H
#define ROUTERD_PORT_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "packet/packet.h"

struct deliver;

/* Make the TAP. @pattern: its name, may hold %d; "" = "routerd%d". */
int deliver_new(const char *pattern, struct deliver **ret, struct error *e);
void deliver_free(struct deliver *d);  /* NULL is fine */

/* Set the device up again if somebody has set it down. 0; -ENODEV: it has been deleted. */
int deliver_revive(struct deliver *d);
const char *deliver_device(const struct deliver *d);  /* its name */

/* Open the way for port @number, whose device is @ifindex. @generic: its XDP program is attached in generic mode. */
int deliver_open_port(struct deliver *d, uint16_t number, uint32_t ifindex, bool generic, struct error *e);
/* No worker uses it any more. */
void deliver_close_port(struct deliver *d, uint16_t number);

/* Hand a packet over, over all its segments; it is copied. 0, -EAGAIN: no room, try never (count it), or -errno.
 * Context: any worker, several at once. */
int deliver_packet(const struct deliver *d, uint16_t number, const struct frame_table *frames, const struct packet *p);

/* Packets that the program gave to the port's stack, and that it shot because there was no port. */
int deliver_read_stats(const struct deliver *d, uint16_t number, uint64_t *ret_packets, uint64_t *ret_shot);

#endif
