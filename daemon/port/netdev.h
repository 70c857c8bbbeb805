/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Facts about a network device that the port drivers need, and what they know about kernel drivers. Asks the kernel by
 * ioctl, sysfs and the "netdev" generic netlink family; keeps nothing. Thread: control.
 */
#ifndef ROUTERD_PORT_NETDEV_H
#define ROUTERD_PORT_NETDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Of NETDEV_A_DEV_XDP_FEATURES (linux/netdev.h, Linux 6.3). */
#define NETDEV_FEATURE_BASIC (1u << 0)
#define NETDEV_FEATURE_REDIRECT (1u << 1)
#define NETDEV_FEATURE_NDO_XMIT (1u << 2)
#define NETDEV_FEATURE_XSK_ZEROCOPY (1u << 3)

/* What is special about a kernel driver (afxdp-drivers sections 3 to 5). */
struct netdev_driver {
	const char *name;
	bool bind_before_attach;  /* gve: every bind with a program attached resets all queues */
	uint32_t buffer_unit;     /* igb: in zero-copy, a frame's room counts in such units of bytes only; 0 = to the byte */
	const char *hint;         /* said when native mode or zero-copy is refused */
};

struct netdev {
	uint32_t ifindex;
	char name[16];
	char driver[32];
	const struct netdev_driver *known;  /* never NULL */
	uint8_t mac[6];
	uint32_t mtu;
	bool up, carrier;
	uint16_t rx_queues, tx_queues;      /* in use now; attaching a program may change them */
	uint16_t tx_queues_numbered;        /* transmit queues the kernel's stack numbers: no AF_XDP sending beyond these */
	uint32_t rx_ring;                   /* descriptors of a receive ring, 0 = unknown */
	uint64_t xdp_features;              /* NETDEV_FEATURE_*; valid with features_known */
	bool features_known;
};

/* 0, or -ENODEV / -errno with @e. */
int netdev_read(uint32_t ifindex, struct netdev *ret, struct error *e);

/* What XDP program is on the device? Writes a sentence that names the program, its link and, if found, the process
 * that holds it, and how to get rid of it. */
void netdev_describe_program(const struct netdev *d, char *text, size_t size);

/* Is there a device with that index in this network namespace? */
bool netdev_exists(uint32_t ifindex);

#endif
