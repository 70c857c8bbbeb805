/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Nexthop objects and groups. Routes and groups name them by id, also before the kernel has told of them
 * here: then a stub holds the place. A deleted object takes its routes along in the kernel, without a word
 * about them.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/nexthop.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

static uint32_t nexthop_hash(const struct mirror *m, uint32_t id)
{
	return (uint32_t)table_hash(m->seed, &id, sizeof(id));
}

static struct nexthop *nexthop_find(const struct mirror *m, uint32_t id)
{
	struct table_node *n = table_first(&m->nexthops, nexthop_hash(m, id));

	while (n && container_of(n, struct nexthop, node)->id != id)
		n = table_next(n);
	return n ? container_of(n, struct nexthop, node) : NULL;
}

struct nexthop *nexthop_get(struct mirror *m, uint32_t id)
{
	struct nexthop *nh = nexthop_find(m, id);

	if (nh)
		return nh;
	nh = calloc(1, sizeof(*nh));
	if (!nh)
		return NULL;
	nh->id = id;
	dlist_init(&nh->sets);
	dlist_init(&nh->groups);
	if (table_insert(&m->nexthops, &nh->node, nexthop_hash(m, id)) < 0) {
		free(nh);
		return NULL;
	}
	return nh;
}

void nexthop_unused(struct mirror *m, struct nexthop *nh)
{
	if (nh->known || !dlist_empty(&nh->sets) || !dlist_empty(&nh->groups))
		return;
	table_remove(&m->nexthops, &nh->node);
	free(nh);
}

/* Routes by the object, and by the groups that it is in, are to be looked at again. */
static void changed(struct mirror *m, struct nexthop *nh)
{
	sets_of_nexthop_stale(m, nh);
	for (struct dlist *l = nh->groups.next; l != &nh->groups; l = l->next)
		sets_of_nexthop_stale(m, dlist_entry(l, struct membership, link)->group);
}

static void drop_members(struct mirror *m, struct nexthop *nh)
{
	struct membership *members = nh->members;
	unsigned count = nh->member_count;

	nh->members = NULL;
	nh->member_count = 0;
	for (unsigned i = 0; i < count; i++) {
		dlist_del(&members[i].link);
		nexthop_unused(m, members[i].member);
	}
	free(members);
}

/* ---- parsing ---- */

/* An element of NHA_GROUP: struct nexthop_grp, whose first reserved byte (zero before Linux 6.12) is the
 * upper half of the weight. Declared here because headers differ in that byte's name. */
struct group_element {
	uint32_t id;
	uint8_t weight, weight_high;
	uint16_t reserved;
};

static uint32_t member_weight(const struct group_element *g)
{
	return ((uint32_t)g->weight_high << 8 | g->weight) + 1;
}

static int parse_members(struct mirror *m, struct nexthop *nh, const struct nlattr *group)
{
	const struct group_element *g = mnl_attr_get_payload(group);
	unsigned count = mnl_attr_get_payload_len(group) / sizeof(*g), done = 0;
	struct membership *members = calloc(count ? count : 1, sizeof(*members));

	if (!members)
		return -ENOMEM;
	for (; done < count; done++) {
		struct membership *x = &members[done];

		x->group = nh;
		x->member = g[done].id == nh->id ? NULL : nexthop_get(m, g[done].id);
		x->weight = member_weight(&g[done]);
		if (!x->member)
			break;
		dlist_add_tail(&x->member->groups, &x->link);
	}
	drop_members(m, nh);
	nh->members = members;
	nh->member_count = done;
	if (done == count)
		return 0;
	drop_members(m, nh);
	return g[done].id == nh->id ? -EINVAL : -ENOMEM;
}

static void parse_path(struct nexthop *nh, const struct nhmsg *msg, const struct nlattr **tb)
{
	struct path *p = &nh->path;

	*p = (struct path){ .weight = 1 };
	attr_u32(tb[NHA_OIF], &p->ifindex);
	path_parse_gateway(p, tb[NHA_GATEWAY], NULL);
	p->flags = (msg->nh_flags & RTNH_F_DEAD ? PATH_DEAD : 0) |
		(msg->nh_flags & RTNH_F_LINKDOWN ? PATH_LINKDOWN : 0) |
		(msg->nh_flags & RTNH_F_ONLINK ? PATH_ON_LINK : 0);
}

static int parse(struct mirror *m, struct nexthop *nh, const struct nhmsg *msg, const struct nlattr **tb)
{
	uint16_t group_type = NEXTHOP_GRP_TYPE_MPATH;
	int r;

	attr_u16(tb[NHA_GROUP_TYPE], &group_type);
	if (tb[NHA_GROUP]) {
		r = parse_members(m, nh, tb[NHA_GROUP]);
		if (r < 0)
			return r;
	} else {
		drop_members(m, nh);
	}
	nh->is_group = tb[NHA_GROUP];
	nh->resilient = group_type != NEXTHOP_GRP_TYPE_MPATH;
	nh->blackhole = tb[NHA_BLACKHOLE];
	nh->fdb = tb[NHA_FDB];
	nh->encap = tb[NHA_ENCAP];
	parse_path(nh, msg, tb);
	nh->known = true;
	nh->gone = false;
	return 0;
}

/* ---- messages ---- */

static bool has_members_left(const struct nexthop *group)
{
	for (unsigned i = 0; i < group->member_count; i++)
		if (!group->members[i].member->gone)
			return true;
	return false;
}

/* The object is not there any more, so neither are routes by it, nor by groups of which it was the last
 * member. */
static void lose(struct mirror *m, struct nexthop *nh)
{
	nh->gone = true;
	sets_of_nexthop_doom(m, nh);
	for (struct dlist *l = nh->groups.next; l != &nh->groups; l = l->next) {
		struct nexthop *group = dlist_entry(l, struct membership, link)->group;

		if (has_members_left(group)) {
			sets_of_nexthop_stale(m, group);
			continue;
		}
		group->gone = true;
		sets_of_nexthop_doom(m, group);
	}
}

static void forget(struct mirror *m, struct nexthop *nh)
{
	lose(m, nh);
	nh->known = nh->gone = false;
	drop_members(m, nh);
	nexthop_unused(m, nh);
}

static int nexthop_new(struct mirror *m, uint32_t id, const struct nlmsghdr *nlh, const struct nlattr **tb)
{
	struct nexthop *nh = nexthop_get(m, id);
	int r;

	if (!nh)
		return -ENOMEM;
	nh->gen = m->gen[DUMP_NEXTHOP];
	if (mirror_is_dump(m, DUMP_NEXTHOP, nlh)) {
		if (nh->known && nh->noted == m->gen[DUMP_NEXTHOP])
			return 0;
	} else {
		nh->noted = m->gen[DUMP_NEXTHOP];
		mirror_tomb_del(m, DUMP_NEXTHOP, id);
	}
	r = parse(m, nh, mnl_nlmsg_get_payload(nlh), tb);
	changed(m, nh);
	nexthop_unused(m, nh);
	return r;
}

static int nexthop_del(struct mirror *m, uint32_t id)
{
	struct nexthop *nh = nexthop_find(m, id);
	bool used;

	mirror_tomb_add(m, DUMP_NEXTHOP, id);
	if (!nh || !nh->known)
		return 0;
	used = !dlist_empty(&nh->sets) || !dlist_empty(&nh->groups);
	forget(m, nh);
	if (used)
		mirror_want(m, DUMP_ROUTING, MIRROR_CAUSE_CHANGE);
	return 0;
}

int nexthop_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct nlattr *tb[NHA_MAX + 1];
	uint32_t id;

	if (mirror_parse(nlh, sizeof(struct nhmsg), tb, NHA_MAX) < 0 || !attr_u32(tb[NHA_ID], &id) || !id)
		return -EINVAL;
	if (nlh->nlmsg_type == RTM_DELNEXTHOP)
		return nexthop_del(m, id);
	if (mirror_is_dump(m, DUMP_NEXTHOP, nlh) && idset_has(&m->tombs, id))
		return 0;
	return nexthop_new(m, id, nlh, tb);
}

/* ---- devices ---- */

struct device_walk {
	struct mirror *m;
	uint32_t ifindex;
	unsigned count;
	bool lost;
};

static void visit_device(void *ctx, struct table_node *n)
{
	struct nexthop *nh = container_of(n, struct nexthop, node);
	struct device_walk *w = ctx;

	if (nh->path.ifindex != w->ifindex || nh->is_group || !nh->known || nh->blackhole)
		return;
	if (w->lost && nh->gone)
		return;
	w->count++;
	if (w->lost)
		lose(w->m, nh);
	else
		changed(w->m, nh);
}

unsigned nexthop_device_changed(struct mirror *m, uint32_t ifindex)
{
	struct device_walk w = { .m = m, .ifindex = ifindex };

	table_foreach(&m->nexthops, visit_device, &w);
	return w.count;
}

/* nexthop_flush_dev(): objects by a device that is down or has no carrier are removed. The re-read that
 * follows removes them here; until then they are marked. */
unsigned nexthop_device_lost(struct mirror *m, uint32_t ifindex)
{
	struct device_walk w = { .m = m, .ifindex = ifindex, .lost = true };

	table_foreach(&m->nexthops, visit_device, &w);
	return w.count;
}

/* ---- all of them ---- */

struct old_ids {
	struct mirror *m;
	uint32_t *ids;
	uint32_t count;
};

static void collect_old(void *ctx, struct table_node *n)
{
	struct nexthop *nh = container_of(n, struct nexthop, node);
	struct old_ids *o = ctx;

	if (nh->known && nh->gen != o->m->gen[DUMP_NEXTHOP])
		o->ids[o->count++] = nh->id;
}

/* Removing one may free others (stubs), so ids are collected first. */
void nexthop_sweep(struct mirror *m)
{
	struct old_ids o = { .m = m, .ids = malloc((m->nexthops.count + 1) * sizeof(*o.ids)) };

	if (!o.ids) {
		mirror_out_of_memory(m);
		return;
	}
	table_foreach(&m->nexthops, collect_old, &o);
	for (uint32_t i = 0; i < o.count; i++) {
		struct nexthop *nh = nexthop_find(m, o.ids[i]);

		if (nh)
			forget(m, nh);
	}
	free(o.ids);
}

static void free_members(void *ctx, struct table_node *n)
{
	struct nexthop *nh = container_of(n, struct nexthop, node);

	free(nh->members);
}

static void release(void *ctx, struct table_node *n)
{
	free(container_of(n, struct nexthop, node));
}

void nexthop_fini(struct mirror *m)
{
	table_foreach(&m->nexthops, free_members, m);
	table_foreach(&m->nexthops, release, m);
	table_fini(&m->nexthops);
}
