/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sysctls that bear on forwarding. Most come as netconf messages; send_redirects, the IPv6 mtu and the
 * hash policies have no notification and are read from /proc/sys/net, which shows the namespace of the
 * reading thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/netconf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/mirror_private.h"

#define REFRESH_S 3

/* ---- netconf ---- */

static bool parse_bool(const struct nlattr *a, bool *ret)
{
	uint32_t v;

	if (!attr_u32(a, &v))
		return false;
	*ret = v != 0;
	return true;
}

static void apply(struct mirror_conf *c, uint8_t family, const struct nlattr **tb)
{
	uint32_t rp;

	if (family == AF_INET6) {
		parse_bool(tb[NETCONFA_FORWARDING], &c->forwarding6);
		parse_bool(tb[NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN], &c->ignore_linkdown6);
		return;
	}
	parse_bool(tb[NETCONFA_FORWARDING], &c->forwarding4);
	parse_bool(tb[NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN], &c->ignore_linkdown4);
	if (attr_u32(tb[NETCONFA_RP_FILTER], &rp))
		c->rp_filter = rp > 2 ? 2 : rp;
}

/* A setting of "all" works on every device. */
static void all_changed(struct mirror *m, const struct mirror_conf *was)
{
	if (!memcmp(was, &m->all, sizeof(*was)))
		return;
	iface_update_all(m);
	conf_publish(m);
	if (was->ignore_linkdown4 != m->all.ignore_linkdown4)
		sets_device_changed(m, 0);
}

static void link_conf_changed(struct mirror *m, struct link *l, const struct mirror_conf *was)
{
	if (l->pub.iface != FIB_IFACE_NONE)
		iface_update(m, l);
	if (was->ignore_linkdown4 != l->conf.ignore_linkdown4 ||
		was->ignore_linkdown6 != l->conf.ignore_linkdown6) {
		nexthop_device_changed(m, l->pub.ifindex);
		sets_device_changed(m, l->pub.ifindex);
	}
}

int netconf_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct netconfmsg *nc = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[NETCONFA_MAX + 1];
	struct mirror_conf was;
	struct link *l;
	uint32_t ifindex;

	if (mirror_parse(nlh, sizeof(*nc), tb, NETCONFA_MAX) < 0)
		return -EINVAL;
	if (nlh->nlmsg_type == RTM_DELNETCONF || (nc->ncm_family != AF_INET && nc->ncm_family != AF_INET6))
		return -EAGAIN;
	if (!attr_u32(tb[NETCONFA_IFINDEX], &ifindex) || !ifindex)
		return -EINVAL;
	if (ifindex == (uint32_t)NETCONFA_IFINDEX_ALL) {
		was = m->all;
		apply(&m->all, nc->ncm_family, tb);
		all_changed(m, &was);
		return 0;
	}
	/* Also "default" (-2). */
	if (ifindex > INT32_MAX)
		return -EAGAIN;
	l = link_get(m, ifindex);
	if (!l)
		return -ENOMEM;
	was = l->conf;
	apply(&l->conf, nc->ncm_family, tb);
	link_conf_changed(m, l, &was);
	return 0;
}

/* ---- /proc/sys/net ---- */

static bool read_number(const struct mirror *m, const char *family, const char *device, const char *name,
	uint32_t *ret)
{
	char path[256], text[16];
	ssize_t n;
	int fd;

	if (device)
		snprintf(path, sizeof(path), "%s/%s/conf/%s/%s", m->sysctl_root, family, device, name);
	else
		snprintf(path, sizeof(path), "%s/%s/%s", m->sysctl_root, family, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*ret = strtoul(text, NULL, 10);
	return true;
}

static void read_conf(const struct mirror *m, const char *device, struct mirror_conf *c)
{
	uint32_t v;

	if (read_number(m, "ipv4", device, "rp_filter", &v))
		c->rp_filter = v > 2 ? 2 : v;
	if (read_number(m, "ipv4", device, "send_redirects", &v))
		c->send_redirects = v != 0;
	if (read_number(m, "ipv4", device, "forwarding", &v))
		c->forwarding4 = v != 0;
	if (read_number(m, "ipv4", device, "ignore_routes_with_linkdown", &v))
		c->ignore_linkdown4 = v != 0;
	if (read_number(m, "ipv6", device, "forwarding", &v))
		c->forwarding6 = v != 0;
	if (read_number(m, "ipv6", device, "ignore_routes_with_linkdown", &v))
		c->ignore_linkdown6 = v != 0;
	if (read_number(m, "ipv6", device, "mtu", &v))
		c->mtu6 = v;
}

void conf_read_link(struct mirror *m, struct link *l)
{
	if (m->sysctl_root)
		read_conf(m, l->pub.name, &l->conf);
}

static void refresh_iface(void *ctx, struct table_node *n)
{
	struct link *l = container_of(n, struct link, node);
	struct mirror *m = ctx;
	struct mirror_conf was = l->conf;

	if (l->pub.iface == FIB_IFACE_NONE)
		return;
	read_conf(m, l->pub.name, &l->conf);
	if (memcmp(&was, &l->conf, sizeof(was)))
		link_conf_changed(m, l, &was);
}

void conf_refresh(struct mirror *m)
{
	struct mirror_conf was = m->all;
	uint32_t v;

	if (!m->sysctl_root || (m->sysctl_s && m->now_s - m->sysctl_s < REFRESH_S))
		return;
	m->sysctl_s = m->now_s;
	read_conf(m, "all", &m->all);
	all_changed(m, &was);
	table_foreach(&m->links, refresh_iface, m);
	m->hash_policy4 = read_number(m, "ipv4", NULL, "fib_multipath_hash_policy", &v) ? v : 0;
	m->hash_policy6 = read_number(m, "ipv6", NULL, "fib_multipath_hash_policy", &v) ? v : 0;
	conf_publish(m);
}

void conf_publish(struct mirror *m)
{
	const struct fib_settings *old = fib_settings(m->fib);
	struct fib_settings new = *old;

	new.hash_policy4 = m->hash_policy4;
	new.hash_policy6 = m->hash_policy6;
	new.ignore_linkdown4 = m->all.ignore_linkdown4;
	new.ignore_linkdown6 = m->all.ignore_linkdown6;
	if (new.hash_policy4 == old->hash_policy4 &&new.hash_policy6 ==
		old->hash_policy6 &&new.ignore_linkdown4 == old->ignore_linkdown4 &&new.ignore_linkdown6 ==
		old->ignore_linkdown6)
		return;
	if (fib_settings_set(m->fib, &new) < 0)
		mirror_out_of_memory(m);
}
