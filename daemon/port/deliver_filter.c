/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/deliver_filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <string.h>

#define BUFFER_SIZE 2048

static struct nlmsghdr *request_new(void *buffer, uint16_t type, uint16_t flags, uint32_t tap_ifindex, uint16_t number)
{
	struct nlmsghdr *n;
	struct tcmsg *t;

	memset(buffer, 0, BUFFER_SIZE);
	n = mnl_nlmsg_put_header(buffer);
	n->nlmsg_type = type;
	n->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	n->nlmsg_seq = 1;
	t = mnl_nlmsg_put_extra_header(n, sizeof(*t));
	t->tcm_ifindex = (int)tap_ifindex;
	t->tcm_handle = 1;
	t->tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
	t->tcm_info = TC_H_MAKE((uint32_t)(number + 1) << 16, htons(ETH_P_ALL));
	mnl_attr_put_strz(n, TCA_KIND, "bpf");
	return n;
}

static void put_mirred(struct nlmsghdr *n, uint32_t ifindex)
{
	struct tc_mirred mirred = { .action = TC_ACT_STOLEN, .eaction = TCA_INGRESS_REDIR, .ifindex = ifindex };
	struct nlattr *actions = mnl_attr_nest_start(n, TCA_BPF_ACT), *first = mnl_attr_nest_start(n, 1), *options;

	mnl_attr_put_strz(n, TCA_ACT_KIND, "mirred");
	options = mnl_attr_nest_start(n, TCA_ACT_OPTIONS);
	mnl_attr_put(n, TCA_MIRRED_PARMS, sizeof(mirred), &mirred);
	mnl_attr_nest_end(n, options);
	mnl_attr_nest_end(n, first);
	mnl_attr_nest_end(n, actions);
}

static int transact(const struct nlmsghdr *n, void *buffer)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int r = 0;

	if (!nl)
		return -errno;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 || mnl_socket_sendto(nl, n, n->nlmsg_len) < 0) {
		r = -errno;
	} else {
		ssize_t length = mnl_socket_recvfrom(nl, buffer, BUFFER_SIZE);

		if (length < 0 || mnl_cb_run(buffer, (size_t)length, 1, mnl_socket_get_portid(nl), NULL, NULL) < 0)
			r = -errno;
	}
	mnl_socket_close(nl);
	return r;
}

int deliver_filter_add(uint32_t tap_ifindex, uint16_t number, int program, uint32_t ifindex)
{
	char buffer[BUFFER_SIZE];
	struct nlmsghdr *n = request_new(buffer, RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, tap_ifindex, number);
	struct nlattr *options = mnl_attr_nest_start(n, TCA_OPTIONS);

	mnl_attr_put_u32(n, TCA_BPF_FD, (uint32_t)program);
	mnl_attr_put_strz(n, TCA_BPF_NAME, "deliver_generic");
	put_mirred(n, ifindex);
	mnl_attr_nest_end(n, options);
	return transact(n, buffer);
}

int deliver_filter_remove(uint32_t tap_ifindex, uint16_t number)
{
	char buffer[BUFFER_SIZE];

	return transact(request_new(buffer, RTM_DELTFILTER, 0, tap_ifindex, number), buffer);
}
