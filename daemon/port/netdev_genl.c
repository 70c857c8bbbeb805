/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <string.h>

#include "port/netdev_impl.h"

/* linux/netdev.h, which Debian 12 lacks */
#define NETDEV_CMD_DEV_GET 1
#define NETDEV_CMD_QUEUE_GET 10
#define NETDEV_A_DEV_IFINDEX 1
#define NETDEV_A_DEV_XDP_FEATURES 3
#define NETDEV_A_QUEUE_ID 1
#define NETDEV_A_QUEUE_IFINDEX 2
#define NETDEV_A_QUEUE_TYPE 3
#define NETDEV_QUEUE_TYPE_RX 0

struct reader {
	struct netdev *device;
	uint16_t family;
	unsigned rx, tx;
};

/* Send the request in @buffer and give every answer to @answer. 0 or -errno. */
static int ask(struct mnl_socket *nl, void *buffer, size_t size, mnl_cb_t answer, void *data)
{
	const struct nlmsghdr *request = buffer;
	uint32_t sequence = request->nlmsg_seq;
	int r;

	if (mnl_socket_sendto(nl, request, request->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t n = mnl_socket_recvfrom(nl, buffer, size);

		if (n < 0)
			return -errno;
		r = mnl_cb_run(buffer, (size_t)n, sequence, mnl_socket_get_portid(nl), answer, data);
	} while (r > MNL_CB_STOP);
	return r < 0 ? -errno : 0;
}

static struct nlmsghdr *request_new(void *buffer, uint16_t family, uint8_t command, uint16_t flags)
{
	static uint32_t sequence;
	struct nlmsghdr *n = mnl_nlmsg_put_header(buffer);
	struct genlmsghdr *g;

	n->nlmsg_type = family;
	n->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	n->nlmsg_seq = ++sequence;
	g = mnl_nlmsg_put_extra_header(n, sizeof(*g));
	g->cmd = command;
	g->version = 1;
	return n;
}

static int on_family(const struct nlmsghdr *n, void *data)
{
	struct reader *reader = data;
	struct nlattr *a;

	mnl_attr_for_each(a, n, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(a) == CTRL_ATTR_FAMILY_ID && mnl_attr_validate(a, MNL_TYPE_U16) == 0)
			reader->family = mnl_attr_get_u16(a);
	return MNL_CB_OK;
}

static int on_device(const struct nlmsghdr *n, void *data)
{
	struct reader *reader = data;
	struct nlattr *a;

	mnl_attr_for_each(a, n, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(a) == NETDEV_A_DEV_XDP_FEATURES && mnl_attr_validate(a, MNL_TYPE_U64) == 0) {
			reader->device->xdp_features = mnl_attr_get_u64(a);
			reader->device->features_known = true;
		}
	return MNL_CB_OK;
}

static int on_queue(const struct nlmsghdr *n, void *data)
{
	struct reader *reader = data;
	struct nlattr *a;

	mnl_attr_for_each(a, n, sizeof(struct genlmsghdr))
		if (mnl_attr_get_type(a) == NETDEV_A_QUEUE_TYPE && mnl_attr_validate(a, MNL_TYPE_U32) == 0) {
			if (mnl_attr_get_u32(a) == NETDEV_QUEUE_TYPE_RX)
				reader->rx++;
			else
				reader->tx++;
		}
	return MNL_CB_OK;
}

static void read_all(struct mnl_socket *nl, struct reader *reader)
{
	char buffer[16384];
	struct nlmsghdr *n = request_new(buffer, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);

	mnl_attr_put_strz(n, CTRL_ATTR_FAMILY_NAME, "netdev");
	if (ask(nl, buffer, sizeof(buffer), on_family, reader) < 0 || !reader->family)
		return;
	n = request_new(buffer, reader->family, NETDEV_CMD_DEV_GET, 0);
	mnl_attr_put_u32(n, NETDEV_A_DEV_IFINDEX, reader->device->ifindex);
	ask(nl, buffer, sizeof(buffer), on_device, reader);
	n = request_new(buffer, reader->family, NETDEV_CMD_QUEUE_GET, NLM_F_DUMP);
	mnl_attr_put_u32(n, NETDEV_A_QUEUE_IFINDEX, reader->device->ifindex);
	if (ask(nl, buffer, sizeof(buffer), on_queue, reader) < 0 || !reader->rx || !reader->tx)
		return;
	reader->device->rx_queues = (uint16_t)reader->rx;
	reader->device->tx_queues = (uint16_t)reader->tx;
	reader->device->tx_queues_numbered = (uint16_t)reader->tx;
}

void netdev_read_genl(struct netdev *d)
{
	struct reader reader = { .device = d };
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);

	if (!nl)
		return;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) == 0)
		read_all(nl, &reader);
	mnl_socket_close(nl);
}
