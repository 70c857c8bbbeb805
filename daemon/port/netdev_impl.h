/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Inside netdev: what the "netdev" generic netlink family knows (Linux 6.3; queues 6.8).
 */
#ifndef ROUTERD_PORT_NETDEV_IMPL_H
#define ROUTERD_PORT_NETDEV_IMPL_H

#include "port/netdev.h"

/* Fill in the features, and the numbers of queues if the kernel tells them (not for a device that is down). Leaves @d
 * as it is when the kernel does not know the family. */
void netdev_read_genl(struct netdev *d);

#endif
