/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A netlink socket: non-blocking, bound to the namespace of the calling thread, with a buffer of its own. The
 * caller owns the struct; it is used by one thread.
 */
#ifndef ROUTERD_CONTROL_NETLINK_H
#define ROUTERD_CONTROL_NETLINK_H

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

#define NETLINK_BUFFER                                                                                       \
	(64 * 1024) /* the kernel makes pieces of dumps up to 32 KiB, if the reader takes them */

struct netlink {
	int fd;              /* -1 = closed */
	uint32_t seq;        /* of the last request */
	uint8_t *buffer;     /* NETLINK_BUFFER bytes */
};

/* Open a NETLINK_ROUTE socket and join the multicast @groups (RTNLGRP_*). A group that the kernel does not
 * know is -EINVAL. @receive_buffer: bytes wanted; what CAP_NET_ADMIN and the sysctl rmem_max allow is taken.
 */
int netlink_open(struct netlink *n, const unsigned *groups, unsigned count, int receive_buffer,
	struct error *e);
void netlink_close(struct netlink *n);  /* also of a struct with fd -1 and no buffer */

/* Ask for a dump: @type RTM_GET*, a header of @bytes that begins with the family, and zeros. Sets n->seq.
 * 0 or -errno. */
int netlink_request_dump(struct netlink *n, uint16_t type, uint8_t family, size_t bytes);
int netlink_send(struct netlink *n, const struct nlmsghdr *nlh);

/* Read once into n->buffer. Bytes, 0 = nothing waits, -ENOBUFS = the kernel had to drop messages, or another
 * -errno. A datagram that does not come from the kernel is ignored (0 bytes would be "nothing waits", so the
 * next one is read). */
ssize_t netlink_receive(struct netlink *n);

#endif
