/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror's life, the dispatch of messages, dumps as the records see them, and the numbers.
 */
#include "control/mirror.h"

#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/log.h"
#include "control/mirror_private.h"

const char *const mirror_cause_label[MIRROR_CAUSES] = {
	[MIRROR_CAUSE_START] = "start",
	[MIRROR_CAUSE_OVERRUN] = "overrun",
	[MIRROR_CAUSE_CHANGE] = "change",
	[MIRROR_CAUSE_INTERRUPTED] = "interrupted",
	[MIRROR_CAUSE_REQUEST] = "request",
	[MIRROR_CAUSE_MEMORY] = "memory",
};

int mirror_new(struct mirror **ret, struct fib *fib, const struct mirror_hooks *hooks, void *ctx)
{
	struct mirror *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->fib = fib;
	m->ctx = ctx;
	if (hooks)
		m->hooks = *hooks;
	if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) != sizeof(m->seed))
		m->seed = (uintptr_t)m;
	m->dump = DUMP_NONE;
	dlist_init(&m->stale);
	routes_init(m);
	*ret = m;
	return 0;
}

void mirror_free(struct mirror *m)
{
	if (!m)
		return;
	sync_fini(m);
	routes_fini(m);
	sets_fini(m);
	nexthop_fini(m);
	neigh_fini(m);
	addr_fini(m);
	link_fini(m);
	rule_fini(m);
	publish_fini(m);
	idset_clear(&m->tombs);
	free(m);
}

void mirror_stop(struct mirror *m)
{
	sync_fini(m);
}

void mirror_out_of_memory(struct mirror *m)
{
	m->stats.publish_errors++;
	if (!m->memory_short)
		log_error(
			"out of memory for routes: routes may differ from the kernel's until there is more; "
			"give the daemon more memory");
	m->memory_short = true;
}

void mirror_recover(struct mirror *m)
{
	if (!m->memory_short)
		return;
	m->memory_short = false;
	m->recovering = true;
	iface_update_all(m);
	rules_publish(m);
	local6_publish(m);
	conf_publish(m);
	sets_all_stale(m);
	failed_prefixes_evaluate(m);
	routes_reevaluate(m, 0);
	routes_reevaluate(m, 1);
	mirror_want(m, DUMP_ALL, MIRROR_CAUSE_MEMORY);
}

/* ---- messages ---- */

static int dispatch(struct mirror *m, const struct nlmsghdr *nlh)
{
	switch (nlh->nlmsg_type) {
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		return route_message(m, nlh);
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		return neigh_message(m, nlh);
	case RTM_NEWLINK:
	case RTM_DELLINK:
		return link_message(m, nlh);
	case RTM_NEWADDR:
	case RTM_DELADDR:
		return addr_message(m, nlh);
	case RTM_NEWNEXTHOP:
	case RTM_DELNEXTHOP:
		return nexthop_message(m, nlh);
	case RTM_NEWRULE:
	case RTM_DELRULE:
		return rule_message(m, nlh);
	case RTM_NEWNETCONF:
	case RTM_DELNETCONF:
		return netconf_message(m, nlh);
	}
	return -EAGAIN;
}

void mirror_handle_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	int r = nlh->nlmsg_len < NLMSG_HDRLEN ? -EINVAL : dispatch(m, nlh);

	m->stats.messages++;
	if (r == -EAGAIN)
		m->stats.skipped++;
	else if (r == -ENOMEM)
		mirror_out_of_memory(m);
	else if (r < 0)
		m->stats.malformed++;
	if (!dlist_empty(&m->stale))
		sets_work(m, MIRROR_INLINE_WORK);
	if (m->defaults_stale)
		defaults_work(m);
}

/* When all prefixes have been evaluated without another failure, none names an old group. */
static void recovered(struct mirror *m)
{
	m->recovering = false;
	if (!m->memory_short && !m->failed_lost)
		m->keep_groups = false;
}

bool mirror_work(struct mirror *m, unsigned budget)
{
	bool more;

	budget = sets_work(m, budget);
	budget = routes_work(m, budget);
	if (m->defaults_stale)
		defaults_work(m);
	more = !dlist_empty(&m->stale) || m->routes[0].walk != UINT32_MAX || m->routes[1].walk != UINT32_MAX;
	if (!more && m->recovering)
		recovered(m);
	return more;
}

/* ---- dumps ---- */

void mirror_want(struct mirror *m, uint32_t dumps, enum mirror_cause cause)
{
	/* Repetitions because of an interruption can wait; anything else is news. */
	if (!m->want || cause == MIRROR_CAUSE_OVERRUN || m->want_cause == MIRROR_CAUSE_INTERRUPTED)
		m->want_cause = cause;
	if (cause != MIRROR_CAUSE_INTERRUPTED)
		m->settle_count = 0;
	/* What takes routes away without a word each, most of all. */
	if (m->dump != DUMP_NONE && dumps & DUMP_BIT(m->dump))
		m->deleted_meanwhile = true;
	m->want |= dumps;
	sync_wanted(m);
}

void mirror_resync(struct mirror *m, const char *reason)
{
	log_notice("reading the kernel's tables anew: %s", reason);
	mirror_want(m, DUMP_ALL, MIRROR_CAUSE_REQUEST);
}

void mirror_dump_begin(struct mirror *m, enum mirror_dump d)
{
	m->dump = d;
	m->deleted_meanwhile = false;
	idset_clear(&m->tombs);
	if (d != DUMP_ROUTE4 && d != DUMP_ROUTE6) {
		m->gen[d]++;
		return;
	}
	/* The last sweep goes by the number that is about to change. The I/O part waits for its end, so this
	 * is short. */
	while (m->routes[d - DUMP_ROUTE4].sweep && m->routes[d - DUMP_ROUTE4].walk != UINT32_MAX)
		routes_work(m, 4096);
	m->gen[d]++;
	m->routes[d - DUMP_ROUTE4].gen = (uint8_t)m->gen[d];
}

static void sweep(struct mirror *m, enum mirror_dump d)
{
	switch (d) {
	case DUMP_LINK:
		link_sweep(m);
		break;
	case DUMP_RULE4:
	case DUMP_RULE6:
		rule_sweep(m, d - DUMP_RULE4);
		break;
	case DUMP_ADDR:
		addr_sweep(m);
		break;
	case DUMP_NEXTHOP:
		nexthop_sweep(m);
		break;
	case DUMP_ROUTE4:
	case DUMP_ROUTE6:
		routes_sweep(m, d - DUMP_ROUTE4);
		break;
	case DUMP_NEIGH:
		neigh_sweep(m);
		break;
	default:
		break;
	}
}

void mirror_dump_end(struct mirror *m, enum mirror_dump d, bool complete)
{
	m->dump = DUMP_NONE;
	idset_clear(&m->tombs);
	/* The kernel goes on in these dumps by counting: a deletion in the part already shown hides as many
	 * entries of the rest, and NLM_F_DUMP_INTR does not tell (fib6_dump_table, neigh_dump_table). */
	if (complete && m->deleted_meanwhile && (d == DUMP_ROUTE6 || d == DUMP_NEIGH))
		mirror_want(m, DUMP_BIT(d), MIRROR_CAUSE_INTERRUPTED);
	else if (complete)
		sweep(m, d);
}

void mirror_settle(struct mirror *m, uint32_t dumps)
{
	uint32_t again = m->dump_changed & dumps;
	unsigned count = m->settle_count + 1;

	m->dump_changed &= ~dumps;
	if (!again || count > MIRROR_SETTLE_MAX)
		return;
	mirror_want(m, again | (dumps & DUMP_BIT(DUMP_NEXTHOP)), MIRROR_CAUSE_CHANGE);
	m->settle_count = count;
}

void mirror_tomb_add(struct mirror *m, enum mirror_dump d, uint64_t id)
{
	if (m->dump != d)
		return;
	m->deleted_meanwhile = true;
	if (idset_add(&m->tombs, id) < 0)
		mirror_want(m, DUMP_BIT(d), MIRROR_CAUSE_INTERRUPTED);
}

void mirror_tomb_del(struct mirror *m, enum mirror_dump d, uint64_t id)
{
	if (m->dump == d)
		idset_del(&m->tombs, id);
}

/* ---- numbers ---- */

void mirror_get_stats(const struct mirror *m, struct mirror_stats *ret)
{
	*ret = m->stats;
	ret->links = m->links.count;
	ret->addresses = m->addrs.count;
	ret->nexthops = m->nexthops.count;
	ret->neighbours = m->neighs.count;
	ret->rules = m->rule_count;
	ret->kernel_rules = m->kernel_rule_count;
	ret->path_sets = m->sets.count;
	for (unsigned t = 0; t < MIRROR_TABLES; t++) {
		ret->routes4[t] = m->routes[0].by_table[t];
		ret->routes6[t] = m->routes[1].by_table[t];
	}
	for (unsigned f = 0; f < 2; f++)
		ret->bytes += m->routes[f].pool.bytes +
			(m->routes[f].buckets ? (m->routes[f].mask + 1ull) * sizeof(struct route *) : 0);
	ret->bytes += m->sets.count * (sizeof(struct path_set) + sizeof(struct path));
	ret->pending = m->want || !dlist_empty(&m->stale) || m->routes[0].walk != UINT32_MAX ||
		m->routes[1].walk != UINT32_MAX;
}
