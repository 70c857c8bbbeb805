/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Neighbours. All of the kernel's are remembered; those of our interfaces have a slot in the FIB for as long
 * as the kernel lists them (groups hold slots of their gateways besides).
 *
 * The kernel does not see the packets that routerd sends, so it would let their neighbours go stale and
 * collect them. Once a second those that workers have used lately are named to it with NTF_USE, which does
 * what sending a packet would.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

#define USED_WITHIN_S 3      /* a neighbour is in use if a worker has sent by it within this time */
#define KEEP_S 5             /* a reachable one is named this often, against garbage collection */
#define RETRY_S 2            /* any other; the kernel spaces its probes by a second */
#define REQUESTS_MAX 256     /* per call */

#define NUD_USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

struct neigh_key {
	uint32_t ifindex;
	uint8_t family, reserved[3];
	uint8_t addr[16];
};

static uint64_t neigh_hash(const struct mirror *m, uint32_t ifindex, uint8_t family, const uint8_t addr[16])
{
	struct neigh_key k = { .ifindex = ifindex, .family = family };

	memcpy(k.addr, addr, 16);
	return table_hash(m->seed, &k, sizeof(k));
}

static struct neigh *neigh_find(const struct mirror *m, uint32_t ifindex, uint8_t family,
	const uint8_t addr[16])
{
	struct table_node *n = table_first(&m->neighs, (uint32_t)neigh_hash(m, ifindex, family, addr));

	for (; n; n = table_next(n)) {
		struct neigh *x = container_of(n, struct neigh, node);

		if (x->pub.ifindex == ifindex && x->pub.family == family && !memcmp(x->pub.addr, addr, 16))
			return x;
	}
	return NULL;
}

/* ---- the FIB's slot ---- */

static void slot_drop(struct mirror *m, struct neigh *n)
{
	if (n->pub.slot == FIB_NEIGH_NONE)
		return;
	fib_neigh_set_mac(m->fib, n->pub.slot, n->pub.mac, false);
	fib_neigh_put(m->fib, n->pub.slot);
	n->pub.slot = FIB_NEIGH_NONE;
}

static void slot_update(struct mirror *m, struct neigh *n, const struct link *l)
{
	bool valid = n->pub.state & NUD_USABLE && n->pub.has_mac;

	if (!l || l->pub.iface == FIB_IFACE_NONE) {
		slot_drop(m, n);
		return;
	}
	if (n->pub.slot == FIB_NEIGH_NONE && valid &&
		fib_neigh_get(m->fib, l->pub.iface, n->pub.family, n->pub.addr, &n->pub.slot) < 0) {
		mirror_out_of_memory(m);
		return;
	}
	if (n->pub.slot != FIB_NEIGH_NONE)
		fib_neigh_set_mac(m->fib, n->pub.slot, n->pub.mac, valid);
}

struct iface_walk {
	struct mirror *m;
	const struct link *l;
	bool ours;
};

static void iface_one(void *ctx, struct table_node *node)
{
	struct neigh *n = container_of(node, struct neigh, node);
	struct iface_walk *w = ctx;

	if (n->pub.ifindex != w->l->pub.ifindex)
		return;
	if (w->ours)
		slot_update(w->m, n, w->l);
	else
		slot_drop(w->m, n);
}

void neigh_iface_changed(struct mirror *m, const struct link *l, bool ours)
{
	struct iface_walk w = { m, l, ours };

	table_foreach(&m->neighs, iface_one, &w);
}

/* ---- messages ---- */

static void neigh_remove(struct mirror *m, struct neigh *n)
{
	slot_drop(m, n);
	table_remove(&m->neighs, &n->node);
	free(n);
}

static struct neigh *neigh_make(struct mirror *m, const struct mirror_neigh *new)
{
	struct neigh *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->pub = *new;
	if (table_insert(&m->neighs, &n->node,
		    (uint32_t)neigh_hash(m, new->ifindex, new->family, new->addr)) < 0) {
		free(n);
		return NULL;
	}
	return n;
}

static int neigh_new(struct mirror *m, const struct mirror_neigh *new, bool dump)
{
	struct neigh *n = neigh_find(m, new->ifindex, new->family, new->addr);
	uint32_t slot;

	if (!n)
		n = neigh_make(m, new);
	else if (dump && n->noted == m->gen[DUMP_NEIGH])
		return 0;
	if (!n)
		return -ENOMEM;
	slot = n->pub.slot;
	n->pub = *new;
	n->pub.slot = slot;
	n->gen = m->gen[DUMP_NEIGH];
	if (!dump)
		n->noted = n->gen;
	slot_update(m, n, link_find(m, new->ifindex));
	return 0;
}

static int neigh_parse(const struct nlmsghdr *nlh, struct mirror_neigh *ret)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[NDA_MAX + 1];

	if (mirror_parse(nlh, sizeof(*nd), tb, NDA_MAX) < 0)
		return -EINVAL;
	if ((nd->ndm_family != AF_INET && nd->ndm_family != AF_INET6) || nd->ndm_flags & NTF_PROXY)
		return -EAGAIN;
	memset(ret, 0, sizeof(*ret));
	ret->ifindex = nd->ndm_ifindex;
	ret->state = nd->ndm_state;
	ret->flags = nd->ndm_flags;
	ret->family = attr_address(tb[NDA_DST], ret->addr);
	if (ret->family != (nd->ndm_family == AF_INET ? 4 : 6))
		return -EINVAL;
	ret->has_mac = tb[NDA_LLADDR] && mnl_attr_get_payload_len(tb[NDA_LLADDR]) == 6;
	if (ret->has_mac)
		attr_bytes(tb[NDA_LLADDR], ret->mac, 6);
	return 0;
}

int neigh_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	bool dump = mirror_is_dump(m, DUMP_NEIGH, nlh);
	struct mirror_neigh new;
	struct neigh *n;
	uint64_t id;
	int e = neigh_parse(nlh, &new);

	if (e < 0)
		return e;
	id = neigh_hash(m, new.ifindex, new.family, new.addr);
	if (nlh->nlmsg_type == RTM_NEWNEIGH) {
		if (dump && idset_has(&m->tombs, id))
			return 0;
		if (!dump)
			mirror_tomb_del(m, DUMP_NEIGH, id);
		return neigh_new(m, &new, dump);
	}
	mirror_tomb_add(m, DUMP_NEIGH, id);
	n = neigh_find(m, new.ifindex, new.family, new.addr);
	if (n)
		neigh_remove(m, n);
	return 0;
}

/* ---- keeping them alive ---- */

/* Does the kernel need to hear of it? It acts by itself on what is incomplete, delayed or under probe. */
static bool wants_request(const struct neigh *n, uint32_t now_s)
{
	uint32_t every = KEEP_S;

	if (!n)
		return true;
	if (n->pub.state & (NUD_PERMANENT | NUD_NOARP | NUD_INCOMPLETE | NUD_DELAY | NUD_PROBE))
		return false;
	if (!(n->pub.state & NUD_REACHABLE))
		every = RETRY_S;
	return !n->asked_s || now_s - n->asked_s >= every;
}

static int request(struct mirror *m, const struct fib_neigh *n, uint32_t ifindex, bool create)
{
	union { struct nlmsghdr nlh; char bytes[128]; } buf = { .bytes = { 0 } };
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(&buf);
	struct ndmsg *nd;

	nlh->nlmsg_type = RTM_NEWNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST | (create ? NLM_F_CREATE : 0);
	nd = mnl_nlmsg_put_extra_header(nlh, sizeof(*nd));
	nd->ndm_family = n->family == 4 ? AF_INET : AF_INET6;
	nd->ndm_ifindex = (int)ifindex;
	nd->ndm_flags = NTF_USE;
	mnl_attr_put(nlh, NDA_DST, n->family == 4 ? 4 : 16, n->addr);
	m->stats.neighbour_requests++;
	return m->send ? m->send(m, nlh) : 0;
}

struct refresh {
	struct mirror *m;
	unsigned requests;
	uint32_t first, last;    /* slots: where this call begins, and the last one that got its turn */
	bool full;
};

static void refresh_one(void *ctx, uint32_t slot, struct fib_neigh *f)
{
	struct refresh *r = ctx;
	struct mirror *m = r->m;
	uint32_t used = __atomic_load_n(&f->used, __ATOMIC_RELAXED);
	const struct link *l;
	struct neigh *n;

	if (slot < r->first || r->full || !used || m->now_s - used > USED_WITHIN_S)
		return;
	l = f->iface < FIB_IFACE_MAX ? m->ifaces[f->iface] : NULL;
	if (!l || !link_up(l))
		return;
	n = neigh_find(m, l->pub.ifindex, f->family, f->addr);
	if (!wants_request(n, m->now_s))
		return;
	if (n)
		n->asked_s = m->now_s;
	r->last = slot;
	r->full = request(m, f, l->pub.ifindex, !n) < 0 || ++r->requests == REQUESTS_MAX;
}

void mirror_refresh_neighbours(struct mirror *m, uint32_t now_s)
{
	struct refresh r = { .m = m, .first = m->refresh_start };

	m->now_s = now_s;
	fib_neigh_foreach(m->fib, refresh_one, &r);
	/* What was left over has its turn first the next time. */
	m->refresh_start = r.full ? r.last + 1 : 0;
	conf_refresh(m);
	mirror_recover(m);
	sync_wanted(m);
}

/* ---- all of them ---- */

static void sweep_one(void *ctx, struct table_node *node)
{
	struct neigh *n = container_of(node, struct neigh, node);
	struct mirror *m = ctx;

	if (n->gen != m->gen[DUMP_NEIGH])
		neigh_remove(m, n);
}

void neigh_sweep(struct mirror *m)
{
	table_foreach(&m->neighs, sweep_one, m);
}

static void release(void *ctx, struct table_node *node)
{
	struct neigh *n = container_of(node, struct neigh, node);

	slot_drop(ctx, n);
	free(n);
}

void neigh_fini(struct mirror *m)
{
	table_foreach(&m->neighs, release, m);
	table_fini(&m->neighs);
}

struct visit {
	void (*fn)(void *ctx, const struct mirror_neigh *n);
	void *ctx;
};

static void visit_one(void *ctx, struct table_node *node)
{
	struct visit *v = ctx;

	v->fn(v->ctx, &container_of(node, struct neigh, node)->pub);
}

void mirror_neigh_foreach(const struct mirror *m, void (*fn)(void *ctx, const struct mirror_neigh *n),
	void *ctx)
{
	struct visit v = { fn, ctx };

	table_foreach((struct table *)&m->neighs, visit_one, &v);
}
