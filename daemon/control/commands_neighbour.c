/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * neighbour: [{"dst", "family", "dev", "lladdr" (null = none), "state", "port", "used_s" (null = never)}]
 *   arguments: "dev", "after". NOARP entries (multicast and the like) are left out, as ip-neighbour(8) does.
 *   "used_s": seconds since a worker last sent a packet by this neighbour.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/neighbour.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "common/clock.h"
#include "control/commands.h"

struct neighbour_list {
	const struct router *router;
	const char *dev;
	json_t *list;
	uint64_t skip, seen;   /* entries that earlier pages held; looked at so far */
	uint32_t now_s;
	bool more;
};

static const char *state_name(uint16_t state)
{
	static const struct {
		uint16_t bit;
		const char *name;
	} names[] = {
		{ NUD_PERMANENT, "PERMANENT" }, { NUD_NOARP, "NOARP" }, { NUD_REACHABLE, "REACHABLE" },
		{ NUD_STALE, "STALE" }, { NUD_DELAY, "DELAY" }, { NUD_PROBE, "PROBE" },
		{ NUD_FAILED, "FAILED" },
		{ NUD_INCOMPLETE, "INCOMPLETE" },
	};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (state & names[i].bit)
			return names[i].name;
	return "NONE";
}

static json_t *used_seconds(const struct neighbour_list *l, const struct mirror_neigh *n)
{
	uint32_t used;

	if (n->slot == FIB_NEIGH_NONE)
		return json_null();
	used = __atomic_load_n(&fib_neigh(l->router->fib, n->slot)->used, __ATOMIC_RELAXED);
	return used ? json_integer(l->now_s > used ? l->now_s - used : 0) : json_null();
}

static void add_neighbour(void *ctx, const struct mirror_neigh *n)
{
	struct neighbour_list *l = ctx;
	const struct mirror_link *link = mirror_link_by_index(l->router->mirror, n->ifindex);
	char address[INET6_ADDRSTRLEN], mac[MAC_TEXT_LENGTH];

	if (l->seen++ < l->skip || l->more)
		return;
	if (json_array_size(l->list) == PROTOCOL_PAGE_MAX) {
		l->more = true;
		l->skip = l->seen - 1;
		return;
	}
	if (n->state & NUD_NOARP || (l->dev && (!link || strcmp(link->name, l->dev))))
		return;
	inet_ntop(n->family == 4 ? AF_INET : AF_INET6, n->addr, address, sizeof(address));
	if (n->has_mac)
		format_mac(n->mac, mac);
	append_new(l->list, json_pack("{s:s, s:I, s:o, s:s?, s:s, s:b, s:o}", "dst", address,
		"family", (json_int_t)n->family,
		"dev", text_json(link ? link->name : ""), "lladdr", n->has_mac ? mac : NULL,
		"state", state_name(n->state),
		"port", n->slot != FIB_NEIGH_NONE, "used_s", used_seconds(l, n)));
}

int command_neighbour(void *ctx, json_t *arguments, struct command_reply *reply)
{
	struct neighbour_list l = { .router = ctx, .now_s = (uint32_t)(clock_now_ns() / NS_PER_S) };
	const char *after;
	int rc = argument_text(arguments, "dev", &l.dev, reply);

	if (!rc)
		rc = argument_text(arguments, "after", &after, reply);
	if (rc < 0)
		return rc;
	if (l.dev && !mirror_link_by_name(l.router->mirror, l.dev))
		return error_set(&reply->error, ENOENT, "there is no interface \"%.32s\"", l.dev);
	if (after)
		l.skip = strtoull(after, NULL, 10);
	l.list = reply->result = json_array();
	mirror_neigh_foreach(l.router->mirror, add_neighbour, &l);
	if (l.more)
		snprintf(reply->next, sizeof(reply->next), "%" PRIu64, l.skip);
	return 0;
}
