/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Addresses. Which packets are local follows from the local table's routes, not from here; addresses are kept
 * to be shown, and because removing one takes IPv4 routes away in the kernel without a word: those with that
 * preferred source, and with the last address of a device all next hops by it (fib_inetaddr_event).
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

struct addr_key {
	uint32_t ifindex;
	uint8_t family, plen, reserved[2];
	uint8_t addr[16];
};

static uint64_t addr_hash(const struct mirror *m, const struct mirror_addr *a)
{
	struct addr_key k = { .ifindex = a->ifindex, .family = a->family, .plen = a->plen };

	memcpy(k.addr, a->addr, 16);
	return table_hash(m->seed, &k, sizeof(k));
}

static struct addr *addr_find(const struct mirror *m, const struct mirror_addr *a)
{
	struct table_node *n = table_first(&m->addrs, (uint32_t)addr_hash(m, a));

	for (; n; n = table_next(n)) {
		struct addr *x = container_of(n, struct addr, node);

		if (x->pub.ifindex == a->ifindex && x->pub.family == a->family && x->pub.plen == a->plen &&
			!memcmp(x->pub.addr, a->addr, 16))
			return x;
	}
	return NULL;
}

struct count {
	const struct mirror_addr *gone;
	unsigned same_address, same_device;
};

static void count_one(void *ctx, struct table_node *n)
{
	const struct mirror_addr *a = &container_of(n, struct addr, node)->pub;
	struct count *c = ctx;

	if (a->family != c->gone->family)
		return;
	c->same_address += !memcmp(a->addr, c->gone->addr, 16);
	c->same_device += a->ifindex == c->gone->ifindex;
}

/* IPv4 only; IPv6 tells of every route that it removes. */
static void follow_removal(struct mirror *m, const struct mirror_addr *gone)
{
	struct count c = { .gone = gone };
	unsigned users = 0;

	if (gone->family != 4)
		return;
	table_foreach(&m->addrs, count_one, &c);
	if (!c.same_address)
		users += sets_source_dead(m, gone->addr);
	if (!c.same_device)
		users += sets_device_dead(m, gone->ifindex, 4, true);
	if (users)
		mirror_want(m, DUMP_BIT(DUMP_ROUTE4), MIRROR_CAUSE_CHANGE);
}

static void addr_remove(struct mirror *m, struct addr *a)
{
	struct mirror_addr gone = a->pub;

	table_remove(&m->addrs, &a->node);
	free(a);
	follow_removal(m, &gone);
}

static int addr_new(struct mirror *m, const struct mirror_addr *new)
{
	struct count c = { .gone = new };
	struct addr *a = addr_find(m, new);

	if (!a) {
		/* fib_sync_up() brings dead paths back with the first address. */
		table_foreach(&m->addrs, count_one, &c);
		if (new->family == 4 && !c.same_device)
			sets_device_dead(m, new->ifindex, 4, false);
		a = calloc(1, sizeof(*a));
		if (!a || table_insert(&m->addrs, &a->node, (uint32_t)addr_hash(m, new)) < 0) {
			free(a);
			return -ENOMEM;
		}
	}
	a->pub = *new;
	a->gen = m->gen[DUMP_ADDR];
	return 0;
}

static int addr_parse(const struct nlmsghdr *nlh, struct mirror_addr *ret)
{
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[IFA_MAX + 1];

	if (mirror_parse(nlh, sizeof(*ifa), tb, IFA_MAX) < 0)
		return -EINVAL;
	if (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6)
		return -EAGAIN;
	*ret = (struct mirror_addr){ .ifindex = ifa->ifa_index,
		.flags = ifa->ifa_flags,
		.plen = ifa->ifa_prefixlen,
		.scope = ifa->ifa_scope };
	attr_u32(tb[IFA_FLAGS], &ret->flags);
	/* With a peer the own address is IFA_LOCAL. */
	ret->family = attr_address(tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS], ret->addr);
	if (ret->family != (ifa->ifa_family == AF_INET ? 4 : 6))
		return -EINVAL;
	return 0;
}

int addr_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	struct mirror_addr a;
	struct addr *old;
	uint64_t id;
	int r = addr_parse(nlh, &a);

	if (r < 0)
		return r;
	id = addr_hash(m, &a);
	if (nlh->nlmsg_type == RTM_NEWADDR) {
		if (mirror_is_dump(m, DUMP_ADDR, nlh) && idset_has(&m->tombs, id))
			return 0;
		if (!(nlh->nlmsg_flags & NLM_F_MULTI))
			mirror_tomb_del(m, DUMP_ADDR, id);
		return addr_new(m, &a);
	}
	mirror_tomb_add(m, DUMP_ADDR, id);
	old = addr_find(m, &a);
	if (old)
		addr_remove(m, old);
	return 0;
}

static void sweep_one(void *ctx, struct table_node *n)
{
	struct addr *a = container_of(n, struct addr, node);
	struct mirror *m = ctx;

	if (a->gen != m->gen[DUMP_ADDR])
		addr_remove(m, a);
}

void addr_sweep(struct mirror *m)
{
	table_foreach(&m->addrs, sweep_one, m);
}

static void release(void *ctx, struct table_node *n)
{
	free(container_of(n, struct addr, node));
}

void addr_fini(struct mirror *m)
{
	table_foreach(&m->addrs, release, m);
	table_fini(&m->addrs);
}

struct visit {
	void (*fn)(void *ctx, const struct mirror_addr *a);
	void *ctx;
};

static void visit_one(void *ctx, struct table_node *n)
{
	struct visit *v = ctx;

	v->fn(v->ctx, &container_of(n, struct addr, node)->pub);
}

void mirror_addr_foreach(const struct mirror *m, void (*fn)(void *ctx, const struct mirror_addr *a),
	void *ctx)
{
	struct visit v = { fn, ctx };

	table_foreach((struct table *)&m->addrs, visit_one, &v);
}
