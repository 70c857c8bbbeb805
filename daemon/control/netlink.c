/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/netlink.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef RTEXT_FILTER_SKIP_STATS
#define RTEXT_FILTER_SKIP_STATS (1 << 3)
#endif

static int join(struct netlink *n, const unsigned *groups, unsigned count, struct error *e)
{
	struct sockaddr_nl local = { .nl_family = AF_NETLINK };

	if (bind(n->fd, (struct sockaddr *)&local, sizeof(local)) < 0)
		return error_set(e, errno, "cannot bind a netlink socket: %s", strerror(errno));
	for (unsigned i = 0; i < count; i++)
		if (setsockopt(n->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(groups[i])) < 0)
			return error_set(e, errno,
				"cannot follow rtnetlink group %u: %s; routerd needs Linux 5.3 or later",
				groups[i], strerror(errno));
	return 0;
}

int netlink_open(struct netlink *n, const unsigned *groups, unsigned count, int receive_buffer,
	struct error *e)
{
	int on = 1, r;

	n->seq = 0;
	n->buffer = malloc(NETLINK_BUFFER);
	n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (!n->buffer || n->fd < 0) {
		r = error_set(e, n->fd < 0 ? errno : ENOMEM, "cannot open a netlink socket: %s",
			strerror(errno));
		netlink_close(n);
		return r;
	}
	if (setsockopt(n->fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(receive_buffer)) < 0)
		setsockopt(n->fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
	/* Both since Linux 4.20; without them dumps hold more and errors less. */
	setsockopt(n->fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	setsockopt(n->fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	r = join(n, groups, count, e);
	if (r < 0)
		netlink_close(n);
	return r;
}

void netlink_close(struct netlink *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	free(n->buffer);
	n->buffer = NULL;
}

int netlink_send(struct netlink *n, const struct nlmsghdr *nlh)
{
	return send(n->fd, nlh, nlh->nlmsg_len, MSG_DONTWAIT) < 0 ? -errno : 0;
}

int netlink_request_dump(struct netlink *n, uint16_t type, uint8_t family, size_t bytes)
{
	union { struct nlmsghdr nlh; char bytes[256]; } buf = { .bytes = { 0 } };
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(&buf);
	uint8_t *header;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = ++n->seq;
	header = mnl_nlmsg_put_extra_header(nlh, bytes);
	header[0] = family;
	if (type == RTM_GETLINK)
		mnl_attr_put_u32(nlh, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	return netlink_send(n, nlh);
}

ssize_t netlink_receive(struct netlink *n)
{
	for (;;) {
		struct sockaddr_nl from = { 0 };
		struct iovec iov = { n->buffer, NETLINK_BUFFER };
		struct msghdr msg = { .msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &iov,
			.msg_iovlen = 1 };
		ssize_t r = recvmsg(n->fd, &msg, MSG_DONTWAIT);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (from.nl_pid)
			continue;
		/* Cut off: as good as lost. */
		return msg.msg_flags & MSG_TRUNC ? -ENOBUFS : r;
	}
}
