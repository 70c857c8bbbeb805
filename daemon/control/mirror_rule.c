/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Policy rules. The fast path follows "local, main, default" only. Any other rule that a forwarded packet may
 * meet before its route is found makes the packets that it may concern the kernel's. A selector that cannot
 * be judged here is left out, which widens the match; an inverted rule with one matches everything.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/mirror_private.h"

/* The kernel's header has a macro of the name of fib.h's FIB_RULE_INVERT, and another value. */
#include <linux/fib_rules.h>
#undef FIB_RULE_INVERT
#define KERNEL_RULE_INVERT 0x2

#define TEXT_MAX 320

/* Since Linux 6.15, which tells a mask of all ones with a rule for a single port. What other attributes the
 * build's headers may know beyond FRA_DPORT_RANGE is not looked at, so it must count as unknown. */
#define RULE_SPORT_MASK 28
#define RULE_DPORT_MASK 29
#define RULE_MAX RULE_DPORT_MASK

/* ---- parsing ---- */

static void parse_ports(const struct nlattr *a, uint16_t ports[2])
{
	struct fib_rule_port_range range;

	if (!attr_bytes(a, &range, sizeof(range)))
		return;
	ports[0] = range.start;
	ports[1] = range.end;
}

static void parse_action(const struct fib_rule_hdr *h, const struct nlattr **tb, struct rule *r)
{
	uint32_t v;
	uint8_t l3mdev = 0;

	r->action = h->action;
	r->table = h->table;
	attr_u32(tb[FRA_TABLE], &r->table);
	attr_u32(tb[FRA_GOTO], &r->target);
	attr_u32(tb[FRA_PRIORITY], &r->priority);
	r->l3mdev = attr_u8(tb[FRA_L3MDEV], &l3mdev) && l3mdev;
	/* -1 = not set. */
	if (attr_u32(tb[FRA_SUPPRESS_PREFIXLEN], &v) && v != UINT32_MAX) {
		r->suppress = true;
		r->suppress_length = v;
	}
	if (attr_u32(tb[FRA_SUPPRESS_IFGROUP], &v) && v != UINT32_MAX)
		r->suppress = true;
}

static void parse_selectors(const struct fib_rule_hdr *h, const struct nlattr **tb, struct rule *r)
{
	r->invert = h->flags & KERNEL_RULE_INVERT;
	r->tos = h->tos;
	r->has_mark = tb[FRA_FWMARK] || tb[FRA_FWMASK];
	attr_u32(tb[FRA_FWMARK], &r->mark);
	r->mark_mask = UINT32_MAX;
	attr_u32(tb[FRA_FWMASK], &r->mark_mask);
	if (!r->mark && !r->mark_mask)
		r->has_mark = false;
	attr_u8(tb[FRA_IP_PROTO], &r->protocol);
	parse_ports(tb[FRA_SPORT_RANGE], r->sport);
	parse_ports(tb[FRA_DPORT_RANGE], r->dport);
	attr_name(tb[FRA_IIFNAME], r->iif, sizeof(r->iif));
	attr_name(tb[FRA_OIFNAME], r->oif, sizeof(r->oif));
	r->unjudged |= r->has_mark || tb[FRA_TUN_ID] || tb[FRA_UID_RANGE];
}

static int parse_prefix(const struct nlattr *a, uint8_t length, uint8_t family, uint8_t ret[16])
{
	unsigned bytes = family == 4 ? 4 : 16;

	if (length > bytes * 8 || (length && !attr_bytes(a, ret, bytes)))
		return -EINVAL;
	return 0;
}

/* The whole message but for the flags that tell whether its interfaces exist at present. */
static uint64_t identity(const struct mirror *m, const struct nlmsghdr *nlh, const struct fib_rule_hdr *h)
{
	struct fib_rule_hdr head = *h;
	size_t header = MNL_NLMSG_HDRLEN + sizeof(head);

	head.flags &= KERNEL_RULE_INVERT;
	return table_hash(table_hash(m->seed, &head, sizeof(head)), (const char *)nlh + header,
		nlh->nlmsg_len - header);
}

static bool other_mask(const struct nlattr *a)
{
	uint16_t mask = 0;

	return a && !(attr_u16(a, &mask) && mask == UINT16_MAX);
}

/* Attributes among those up to RULE_MAX that change what the rule selects in a way not judged here. */
static bool has_newer(const struct nlattr **tb)
{
	for (unsigned i = FRA_DPORT_RANGE + 1; i < RULE_SPORT_MASK; i++)
		if (tb[i])
			return true;
	return other_mask(tb[RULE_SPORT_MASK]) || other_mask(tb[RULE_DPORT_MASK]);
}

static int rule_parse(const struct mirror *m, const struct nlmsghdr *nlh, struct rule *r)
{
	const struct fib_rule_hdr *h = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *tb[RULE_MAX + 1];
	int unknown = mirror_parse(nlh, sizeof(*h), tb, RULE_MAX);

	if (unknown < 0)
		return -EINVAL;
	if (h->family != AF_INET && h->family != AF_INET6)
		return -EAGAIN;
	memset(r, 0, sizeof(*r));
	r->family = h->family == AF_INET ? 4 : 6;
	r->src_len = h->src_len;
	r->dst_len = h->dst_len;
	if (parse_prefix(tb[FRA_SRC], h->src_len, r->family, r->src) < 0 ||
		parse_prefix(tb[FRA_DST], h->dst_len, r->family, r->dst) < 0)
		return -EINVAL;
	parse_action(h, tb, r);
	parse_selectors(h, tb, r);
	if (unknown || has_newer(tb)) {
		/* A newer selector, or one that changes the meaning of another (port masks, DSCP). */
		r->unjudged = true;
		r->tos = 0;
		memset(r->sport, 0, sizeof(r->sport));
		memset(r->dport, 0, sizeof(r->dport));
	}
	r->id = identity(m, nlh, h);
	return 0;
}

/* ---- what the fast path must know ---- */

static bool is_plain(const struct rule *r)
{
	return r->action == FR_ACT_TO_TBL && !r->invert && !r->unjudged && !r->suppress && !r->tos &&
		!r->protocol && !r->src_len && !r->dst_len && !r->iif[0] && !r->oif[0] && !r->sport[0] &&
		!r->sport[1] && !r->dport[0] && !r->dport[1];
}

static bool is_default(const struct rule *r, uint32_t table)
{
	static const uint32_t priority[] = { [RT_TABLE_LOCAL] = 0, [RT_TABLE_MAIN] = 32766,
		[RT_TABLE_DEFAULT] = 32767 };

	return is_plain(r) && r->table == table && r->priority == priority[table];
}

/* IPv4: local, main, and default while that table has routes; IPv6: local, main. Rules behind the last one
 * matter only to packets that no route matched, and those are the kernel's anyway. */
static unsigned default_count(const struct mirror *m, unsigned f)
{
	return f || !m->defaults.count ? 2 : 3;
}

/* Is it the default rule that is due after @stage of them? */
static bool default_stage(const struct mirror *m, const struct rule *r, unsigned stage, unsigned f)
{
	static const uint32_t order[] = { RT_TABLE_LOCAL, RT_TABLE_MAIN, RT_TABLE_DEFAULT };

	return stage < default_count(m, f) && is_default(r, order[stage]);
}

/* Never met by a forwarded packet, or without effect on it. */
static bool is_harmless(const struct rule *r)
{
	if (r->action == FR_ACT_NOP)
		return true;
	/* Only packets of devices in a VRF, which are the kernel's by FIB_IFACE_VRF. */
	if (r->l3mdev && !r->invert)
		return true;
	/* Forwarded packets have no output interface yet when rules are looked at. */
	return r->oif[0] && !r->invert;
}

static uint32_t ifindex_of(const struct mirror *m, const char *name)
{
	const struct mirror_link *l = mirror_link_by_name(m, name);

	return l ? l->ifindex : 0;
}

/* False = cannot match at present (its interface does not exist). */
static bool convert(const struct mirror *m, const struct rule *r, struct fib_rule *ret)
{
	bool everything = r->invert && (r->unjudged || r->l3mdev || r->oif[0]);

	*ret = (struct fib_rule){ .priority = r->priority,
		.flags = (r->family == 4 ? FIB_RULE_FAMILY4 : FIB_RULE_FAMILY6) };
	if (everything)
		return true;
	if (r->iif[0]) {
		ret->iif = ifindex_of(m, r->iif);
		/* A device that is not there selects nothing; "not" that is everything. */
		if (!ret->iif)
			return r->invert;
	}
	ret->flags |= r->invert ? FIB_RULE_INVERT : 0;
	ret->sport_min = r->sport[0];
	ret->sport_max = r->sport[1];
	ret->dport_min = r->dport[0];
	ret->dport_max = r->dport[1];
	ret->protocol = r->protocol;
	ret->tos = r->tos;
	ret->src_len = r->src_len;
	ret->dst_len = r->dst_len;
	memcpy(ret->src, r->src, 16);
	memcpy(ret->dst, r->dst, 16);
	return true;
}

/* ---- in words ---- */

struct text {
	char *at;
	size_t left;
};

static void say(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= t->left)
		n = t->left ? (int)t->left - 1 : 0;
	t->at += n;
	t->left -= (size_t)n;
}

static void say_prefix(struct text *t, const char *word, uint8_t family, const uint8_t *addr, uint8_t length)
{
	char text[INET6_ADDRSTRLEN];

	if (length && inet_ntop(family == 4 ? AF_INET : AF_INET6, addr, text, sizeof(text)))
		say(t, " %s %s/%u", word, text, length);
}

static void say_action(struct text *t, const struct rule *r)
{
	static const char *const names[] = { [FR_ACT_GOTO] = "goto", [FR_ACT_NOP] = "nop",
		[FR_ACT_BLACKHOLE] = "blackhole", [FR_ACT_UNREACHABLE] = "unreachable",
		[FR_ACT_PROHIBIT] = "prohibit" };

	if (r->l3mdev)
		say(t, " lookup [l3mdev-table]");
	else if (r->action == FR_ACT_TO_TBL)
		say(t, " lookup %u", r->table);
	else if (r->action < ARRAY_LENGTH(names) && names[r->action])
		say(t, " %s", names[r->action]);
	else
		say(t, " action %u", r->action);
	if (r->action == FR_ACT_GOTO)
		say(t, " %u", r->target);
	if (r->suppress)
		say(t, " suppress_prefixlength %u", r->suppress_length);
}

static void format(const struct rule *r, char *text, size_t size)
{
	struct text t = { text, size };

	say(&t, "%u:%s", r->priority, r->invert ? " not" : "");
	if (r->src_len)
		say_prefix(&t, "from", r->family, r->src, r->src_len);
	else
		say(&t, " from all");
	say_prefix(&t, "to", r->family, r->dst, r->dst_len);
	if (r->tos)
		say(&t, " tos 0x%x", r->tos);
	if (r->has_mark)
		say(&t, " fwmark 0x%x/0x%x", r->mark, r->mark_mask);
	if (r->iif[0])
		say(&t, " iif %s", r->iif);
	if (r->oif[0])
		say(&t, " oif %s", r->oif);
	if (r->protocol)
		say(&t, " ipproto %u", r->protocol);
	if (r->sport[0] || r->sport[1])
		say(&t, " sport %u-%u", r->sport[0], r->sport[1]);
	if (r->dport[0] || r->dport[1])
		say(&t, " dport %u-%u", r->dport[0], r->dport[1]);
	if (r->unjudged && !r->has_mark)
		say(&t, " (and a selector that routerd does not follow)");
	say_action(&t, r);
}

/* ---- what the fast path gets ---- */

struct kernel_rules {
	struct fib_rule *rules;  /* NULL = only tell */
	uint32_t count;
	void (*fn)(void *ctx, uint8_t family, const char *text);
	void *ctx;
};

/* The default rules are there, in their order. Nobody knows before the rules have been read. */
static bool has_defaults(const struct mirror *m, unsigned f)
{
	unsigned stage = 0;

	for (const struct rule *r = m->rules[f]; r; r = r->next)
		if (default_stage(m, r, stage, f))
			stage++;
	return stage == default_count(m, f) || !m->rules_known[f];
}

static void take_rule(struct kernel_rules *k, const struct fib_rule *rule, uint8_t family, const char *text)
{
	if (k->rules)
		k->rules[k->count] = *rule;
	k->count++;
	if (k->fn)
		k->fn(k->ctx, family, text);
}

static void collect(const struct mirror *m, unsigned f, struct kernel_rules *k)
{
	struct fib_rule rule = { .flags = f ? FIB_RULE_FAMILY6 : FIB_RULE_FAMILY4 };
	unsigned stage = 0;
	char text[TEXT_MAX];

	if (!has_defaults(m, f)) {
		take_rule(k, &rule, f ? 6 : 4,
			"the default rules (local, main, default) are missing or in another order");
		return;
	}
	for (const struct rule *r = m->rules[f]; r && stage < default_count(m, f); r = r->next) {
		if (default_stage(m, r, stage, f)) {
			stage++;
			continue;
		}
		if (is_harmless(r) || !convert(m, r, &rule))
			continue;
		format(r, text, sizeof(text));
		take_rule(k, &rule, r->family, text);
	}
}

void rules_publish(struct mirror *m)
{
	struct fib_rules *old = m->fib->rules;
	struct kernel_rules k = { .rules = calloc(m->rule_count + 2, sizeof(*k.rules)) };

	if (!k.rules) {
		mirror_out_of_memory(m);
		return;
	}
	for (unsigned f = 0; f < 2; f++)
		collect(m, f, &k);
	m->kernel_rule_count = k.count;
	if ((old ? old->count : 0) != k.count ||
		(old && memcmp(old->rules, k.rules, k.count * sizeof(*k.rules))))
		if (fib_rules_set(m->fib, k.rules, k.count) < 0)
			mirror_out_of_memory(m);
	free(k.rules);
}

void mirror_kernel_rule_foreach(const struct mirror *m,
	void (*fn)(void *ctx, uint8_t family, const char *text), void *ctx)
{
	struct kernel_rules k = { .fn = fn, .ctx = ctx };

	for (unsigned f = 0; f < 2; f++)
		collect(m, f, &k);
}

/* ---- messages ---- */

static struct rule **rule_find(struct mirror *m, unsigned f, uint64_t id)
{
	struct rule **p = &m->rules[f];

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	return p;
}

static int rule_insert(struct mirror *m, unsigned f, const struct rule *new)
{
	struct rule **p = &m->rules[f], *r = malloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = *new;
	while (*p && (*p)->priority <= new->priority)
		p = &(*p)->next;
	r->next = *p;
	*p = r;
	m->rule_count++;
	return 0;
}

static void rule_remove(struct mirror *m, struct rule **p)
{
	struct rule *r = *p;

	*p = r->next;
	free(r);
	m->rule_count--;
}

int rule_message(struct mirror *m, const struct nlmsghdr *nlh)
{
	struct rule new, **old;
	enum mirror_dump d;
	unsigned f;
	int e = rule_parse(m, nlh, &new);

	if (e < 0)
		return e;
	f = new.family == 6;
	d = DUMP_RULE4 + f;
	new.gen = m->gen[d];
	old = rule_find(m, f, new.id);
	if (nlh->nlmsg_type == RTM_DELRULE) {
		mirror_tomb_add(m, d, new.id);
		/* There may be another one just like it, which has no record of its own here. */
		mirror_want(m, DUMP_BIT(d), MIRROR_CAUSE_CHANGE);
		if (!*old)
			return 0;
		rule_remove(m, old);
	} else {
		if (mirror_is_dump(m, d, nlh) && idset_has(&m->tombs, new.id))
			return 0;
		mirror_tomb_del(m, d, new.id);
		if (*old)
			(*old)->gen = m->gen[d];
		else
			e = rule_insert(m, f, &new);
	}
	rules_publish(m);
	return e;
}

void rule_sweep(struct mirror *m, unsigned f)
{
	struct rule **p = &m->rules[f];

	while (*p) {
		if ((*p)->gen != m->gen[DUMP_RULE4 + f])
			rule_remove(m, p);
		else
			p = &(*p)->next;
	}
	m->rules_known[f] = true;
	rules_publish(m);
}

void rule_fini(struct mirror *m)
{
	for (unsigned f = 0; f < 2; f++)
		while (m->rules[f])
			rule_remove(m, &m->rules[f]);
}
