/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Does an ip rule concern a packet, and does a non-host local IPv6 prefix cover an address? For any thread.
 *
 * A rule that is matched too widely only gives the kernel packets that it would have taken the same way; one that is
 * matched too narrowly is a wrong route. So where kernels differ (the TOS selector) a plain rule matches if any of
 * them would, and an inverted one unless all of them would.
 */
#include "route/fib.h"

#include <string.h>

#define TOS_DSCP 0xfc      /* kernels with FRA_DSCP, and IPv6: the whole DSCP, never the ECN bits */
#define TOS_RFC1349 0x1c   /* the "tos" selector of IPv4 rules: without the three precedence bits */

static bool prefix_covers(const uint8_t *prefix, uint8_t plen, const uint8_t *addr)
{
	unsigned bytes = plen / 8, bits = plen % 8;

	if (memcmp(prefix, addr, bytes))
		return false;
	return !bits || !((prefix[bytes] ^ addr[bytes]) & (0xff00 >> bits & 0xff));
}

static bool port_within(uint16_t min, uint16_t max, uint16_t port)
{
	return (!min && !max) || (port >= min && port <= max);
}

static bool tos_matches(const struct fib_rule *r, uint8_t family, uint8_t tos)
{
	bool whole = (tos & TOS_DSCP) == r->tos;
	bool part = family == 4 ? (tos & TOS_RFC1349) == r->tos : whole;

	if (!r->tos)
		return true;
	return r->flags & FIB_RULE_INVERT ? whole && part : whole || part;
}

bool fib_rules_match(const struct fib_rules *rules, uint8_t family, uint32_t iif, const uint8_t *src,
	const uint8_t *dst, uint8_t tos, uint8_t protocol, uint16_t sport, uint16_t dport)
{
	uint8_t family_flag = family == 4 ? FIB_RULE_FAMILY4 : FIB_RULE_FAMILY6;

	for (uint32_t i = 0; i < rules->count; i++) {
		const struct fib_rule *r = &rules->rules[i];
		bool selected;

		if (!(r->flags & family_flag))
			continue;
		selected = (!r->iif || r->iif == iif) && (!r->protocol || r->protocol == protocol) &&
			prefix_covers(r->src, r->src_len, src) && prefix_covers(r->dst, r->dst_len, dst) &&
			tos_matches(r, family, tos) && port_within(r->sport_min, r->sport_max, sport) &&
			port_within(r->dport_min, r->dport_max, dport);
		if (selected != !!(r->flags & FIB_RULE_INVERT))
			return true;
	}
	return false;
}

bool fib_local6_match(const struct fib_local6 *l, const uint8_t dst[16])
{
	for (uint32_t i = 0; i < l->count; i++)
		if (prefix_covers(l->prefixes[i].addr, l->prefixes[i].plen, dst))
			return true;
	return false;
}
