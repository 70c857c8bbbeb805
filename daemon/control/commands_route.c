/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * route: [{"dst": "10.2.0.0/24", "family", "table", "type", "metric", "protocol", "mtu", "nexthop_id", "best", "verdict",
 *   "paths": [{"gateway" (null = on link), "dev", "weight", "flags": [text], "other_family"}]}]
 *   arguments: "family" 4|6, "table" main|default|local|all (main and default when absent), "prefix" (that very one),
 *   "after". In no special order. While routes change, one may be shown twice; one that stays is not left out.
 * route_get: {"dst", "from", "matched", "table", "verdict", "verdict_help", "gateway", "dev", "port", "lladdr", "mtu",
 *   "paths"}; arguments "dst", "from", "iif"
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "control/commands.h"

#define SLICE 8              /* routes between two looks at the size of the page */
#define ROUTE_BYTES 300      /* of a route and of a path as JSON, about */
#define PATH_BYTES 120
#define PREFIX_BUDGET 20000  /* routes looked at per page when one prefix is searched for */

static const char *type_name(uint8_t type)
{
	static const char *const names[] = { "unspec", "unicast", "local", "broadcast", "anycast",
		"multicast", "blackhole",
		"unreachable", "prohibit", "throw", "nat", "xresolve" };

	return type < ARRAY_LENGTH(names) ? names[type] : "unknown";
}

static const char *table_name(uint8_t table)
{
	return table == RT_TABLE_LOCAL ? "local" : table == RT_TABLE_DEFAULT ? "default" : "main";
}

/* As iproute2's rt_protos; others by number. */
static json_t *protocol_text(uint8_t protocol)
{
	static const struct {
		uint8_t number;
		const char *name;
	} names[] = {
		{ RTPROT_REDIRECT, "redirect" }, { RTPROT_KERNEL, "kernel" }, { RTPROT_BOOT, "boot" },
		{ RTPROT_STATIC, "static" }, { RTPROT_RA, "ra" }, { RTPROT_ZEBRA, "zebra" },
		{ RTPROT_BIRD, "bird" },
		{ RTPROT_DHCP, "dhcp" }, { RTPROT_KEEPALIVED, "keepalived" }, { RTPROT_BABEL, "babel" },
		{ RTPROT_BGP, "bgp" }, { RTPROT_ISIS, "isis" }, { RTPROT_OSPF, "ospf" },
		{ RTPROT_RIP, "rip" },
		{ RTPROT_EIGRP, "eigrp" },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (names[i].number == protocol)
			return json_string(names[i].name);
	return json_sprintf("%u", protocol);
}

static json_t *address_text(uint8_t family, const uint8_t *addr)
{
	char text[INET6_ADDRSTRLEN];

	return json_string(inet_ntop(family == 4 ? AF_INET : AF_INET6, addr, text, sizeof(text)));
}

static json_t *prefix_text(uint8_t family, const uint8_t *addr, uint8_t plen)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(family == 4 ? AF_INET : AF_INET6, addr, text, sizeof(text));
	return json_sprintf("%s/%u", text, plen);
}

/* 0 or -EINVAL. @ret_addr: 16 bytes, zeroed behind an IPv4 address. */
static int parse_address(const char *text, uint8_t *ret_family, uint8_t ret_addr[16])
{
	memset(ret_addr, 0, 16);
	if (inet_pton(AF_INET, text, ret_addr) == 1) {
		*ret_family = 4;
		return 0;
	}
	if (inet_pton(AF_INET6, text, ret_addr) == 1) {
		*ret_family = 6;
		return 0;
	}
	return -EINVAL;
}

/* ---- route ---- */

struct route_filter {
	json_t *list;
	size_t bytes;            /* of @list as text, about */
	int family;              /* 0 = both */
	const char *table;       /* NULL = main and default */
	bool by_prefix;
	bool any_family_default; /* "default": both families' */
	uint8_t prefix_family, plen, prefix[16];
};

static int parse_prefix(const char *text, struct route_filter *f)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	unsigned long plen;
	char *end;

	f->by_prefix = true;
	if (!strcmp(text, "default")) {
		f->any_family_default = true;
		return 0;
	}
	if (n >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, n);
	address[n] = '\0';
	if (parse_address(address, &f->prefix_family, f->prefix) < 0)
		return -EINVAL;
	f->plen = f->prefix_family == 4 ? 32 : 128;
	if (!slash)
		return 0;
	plen = strtoul(slash + 1, &end, 10);
	if (end == slash + 1 || *end || plen > f->plen)
		return -EINVAL;
	f->plen = (uint8_t)plen;
	return 0;
}

static bool filter_passes(const struct route_filter *f, const struct mirror_route *r)
{
	if (!f->table ? r->table == RT_TABLE_LOCAL :
				strcmp(f->table, "all") && strcmp(f->table, table_name(r->table)))
		return false;
	if (!f->by_prefix)
		return true;
	if (f->any_family_default)
		return !r->plen;
	return r->family == f->prefix_family && r->plen == f->plen &&
	       !memcmp(r->dst, f->prefix, r->family == 4 ? 4 : 16);
}

static json_t *path_object(const struct mirror_path *p, uint8_t family)
{
	json_t *flags = json_array();

	if (p->flags & RTNH_F_ONLINK)
		append_new(flags, json_string("onlink"));
	if (p->flags & RTNH_F_DEAD)
		append_new(flags, json_string("dead"));
	if (p->flags & RTNH_F_LINKDOWN)
		append_new(flags, json_string("linkdown"));
	return json_pack("{s:o, s:o, s:I, s:o, s:b}", "gateway",
		p->gateway_family ? address_text(p->gateway_family, p->gateway) : json_null(),
		"dev", text_json(p->device),
		"weight", (json_int_t)p->weight, "flags", flags,
		"other_family", p->gateway_family && p->gateway_family != family);
}

static void add_route(void *ctx, const struct mirror_route *r)
{
	struct route_filter *f = ctx;
	json_t *paths;

	if (!filter_passes(f, r))
		return;
	f->bytes += ROUTE_BYTES + r->path_count * PATH_BYTES;
	paths = json_array();
	for (unsigned i = 0; i < r->path_count; i++)
		append_new(paths, path_object(&r->paths[i], r->family));
	append_new(f->list, json_pack("{s:o, s:I, s:s, s:s, s:I, s:o, s:I, s:I, s:b, s:s, s:o}",
		"dst", prefix_text(r->family, r->dst, r->plen), "family", (json_int_t)r->family,
		"table", table_name(r->table),
		"type", type_name(r->type), "metric", (json_int_t)r->metric,
		"protocol", protocol_text(r->protocol),
		"mtu", (json_int_t)r->mtu, "nexthop_id", (json_int_t)r->nexthop_id, "best", r->best,
		"verdict", r->best && r->verdict < VERDICT_COUNT ? verdict_info[r->verdict].label : "",
		"paths", paths));
}

static int read_filter(json_t *arguments, struct route_filter *f, const char **ret_after,
	struct command_reply *reply)
{
	json_t *family = json_object_get(arguments, "family");
	const char *prefix;
	int rc = argument_text(arguments, "prefix", &prefix, reply);

	if (!rc)
		rc = argument_text(arguments, "table", &f->table, reply);
	if (!rc)
		rc = argument_text(arguments, "after", ret_after, reply);
	if (rc < 0)
		return rc;
	f->family = (int)json_integer_value(family);
	if (family && f->family != 4 && f->family != 6)
		return error_set(&reply->error, EINVAL, "the family is 4 or 6");
	if (f->table && strcmp(f->table, "main") && strcmp(f->table, "local") &&
		strcmp(f->table, "default") &&
	    strcmp(f->table, "all"))
		return error_set(&reply->error, EINVAL,
			"unknown table \"%.40s\": main, default, local or all", f->table);
	if (prefix && parse_prefix(prefix, f) < 0)
		return error_set(&reply->error, EINVAL,
			"\"%.60s\" is no prefix: write ADDRESS/LENGTH or default", prefix);
	if (f->by_prefix && !f->any_family_default)
		f->family = f->prefix_family;
	return 0;
}

/* One page; true = there is more. */
static bool fill_page(struct mirror *m, uint8_t family, uint64_t *cursor, struct route_filter *f)
{
	unsigned budget = f->by_prefix ? PREFIX_BUDGET : PROTOCOL_PAGE_MAX;
	bool more = true;

	for (unsigned looked = 0; more && looked < budget && f->bytes < PROTOCOL_PAGE_BYTES; looked += SLICE)
		more = mirror_route_foreach(m, family, cursor, SLICE, add_route, f);
	return more;
}

int command_route(void *ctx, json_t *arguments, struct command_reply *reply)
{
	struct route_filter f = { .list = NULL };
	struct router *r = ctx;
	const char *after;
	uint64_t cursor = 0;
	unsigned family;
	int rc = read_filter(arguments, &f, &after, reply);

	if (rc < 0)
		return rc;
	family = f.family ? (unsigned)f.family : 4;
	if (after && (sscanf(after, "%u:%" SCNu64, &family, &cursor) != 2 || (family != 4 && family != 6)))
		return error_set(&reply->error, EINVAL,
			"\"after\" is not what an earlier reply gave as \"next\"");
	f.list = reply->result = json_array();
	if (fill_page(r->mirror, (uint8_t)family, &cursor, &f))
		snprintf(reply->next, sizeof(reply->next), "%u:%" PRIu64, family, cursor);
	else if (family == 4 && !f.family)
		snprintf(reply->next, sizeof(reply->next), "6:0");
	return 0;
}

/* ---- route get ---- */

static int read_query(const struct router *r, json_t *arguments, struct mirror_query *q,
	const char **ret_from, struct command_reply *reply)
{
	const char *dst, *iif;
	const struct mirror_link *l;
	uint8_t family;
	int rc = argument_text(arguments, "dst", &dst, reply);

	if (!rc)
		rc = argument_text(arguments, "from", ret_from, reply);
	if (!rc)
		rc = argument_text(arguments, "iif", &iif, reply);
	if (rc < 0)
		return rc;
	if (!dst || parse_address(dst, &q->family, q->dst) < 0)
		return error_set(&reply->error, EINVAL,
			"\"%.60s\" is no IPv4 or IPv6 address", dst ? dst : "");
	if (*ret_from && (parse_address(*ret_from, &family, q->src) < 0 || family != q->family))
		return error_set(&reply->error, EINVAL,
			"from \"%.60s\" is no address of the same family", *ret_from);
	if (!iif)
		return 0;
	l = mirror_link_by_name(r->mirror, iif);
	if (!l)
		return error_set(&reply->error, ENOENT, "there is no interface \"%.32s\"", iif);
	q->iif = l->ifindex;
	return 0;
}

static json_t *group_path(const struct router *r, const struct fib_path *p, uint8_t family)
{
	const struct fib_iface *i = fib_iface(r->fib, p->iface);
	const struct fib_neigh *n = p->flags & FIB_PATH_ON_LINK ? NULL : fib_neigh(r->fib, p->neighbour);
	json_t *flags = json_array();

	if (p->flags & FIB_PATH_DEAD)
		append_new(flags, json_string("dead"));
	return json_pack("{s:o, s:o, s:I, s:o, s:b}", "gateway",
		n ? address_text(n->family, n->addr) : json_null(),
		"dev", text_json(i ? i->name : ""), "weight", (json_int_t)p->weight, "flags", flags,
		"other_family", n && n->family != family);
}

static json_t *group_paths(const struct router *r, const struct mirror_answer *a, uint8_t family)
{
	const struct fib_group *g = a->group ? fib_group(r->fib, a->group) : NULL;
	json_t *list = json_array();

	for (unsigned i = 0; g && i < g->path_count; i++)
		append_new(list, group_path(r, &g->paths[i], family));
	return list;
}

static const char *port_name(const struct router *r, uint32_t ifindex)
{
	const struct mirror_link *l = mirror_link_by_index(r->mirror, ifindex);

	return l && l->port < PORT_MAX && r->port[l->port].open ? r->port[l->port].name : NULL;
}

static json_t *answer_object(const struct router *r, const struct mirror_query *q, const char *from,
	const struct mirror_answer *a)
{
	bool forward = a->verdict == VERDICT_FORWARD;
	enum verdict verdict = forward && !a->neighbour_valid ? VERDICT_KERNEL_NEIGHBOUR : a->verdict;
	char mac[MAC_TEXT_LENGTH] = "";

	if (forward && a->neighbour_valid)
		format_mac(a->neighbour_mac, mac);
	return json_pack("{s:o, s:s?, s:o, s:s?, s:s, s:s, s:b, s:o, s:o, s:o, s:s?, s:I, s:b, s:o}",
		"dst", address_text(q->family, q->dst), "from", from,
		"matched",
		a->matched ? prefix_text(a->route.family, a->route.dst, a->route.plen) : json_null(),
		"table", a->matched ? table_name(a->route.table) : NULL,
		"verdict", verdict_info[verdict].label,
		"verdict_help", verdict_info[verdict].help, "by_rule", a->by_rule,
		"gateway",
		forward && a->gateway_family ? address_text(a->gateway_family, a->gateway) : json_null(),
		"dev", text_json(forward ? a->device : NULL),
		"port", text_json(forward ? port_name(r, a->ifindex) : NULL),
		"lladdr", *mac ? mac : NULL, "mtu", (json_int_t)(forward ? a->mtu : 0),
		"other_family", forward && a->gateway_family && a->gateway_family != q->family,
		"paths", group_paths(r, a, q->family));
}

int command_route_get(void *ctx, json_t *arguments, struct command_reply *reply)
{
	struct mirror_query q = { .iif = 0 };
	struct mirror_answer a;
	struct router *r = ctx;
	const char *from;
	int rc = read_query(r, arguments, &q, &from, reply);

	if (rc < 0)
		return rc;
	memset(&a, 0, sizeof(a));
	mirror_route_lookup(r->mirror, &q, &a);
	reply->result = answer_object(r, &q, from, &a);
	return 0;
}
