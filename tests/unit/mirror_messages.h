/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Netlink messages from words, as the kernel would send them, for the tests of the mirror:
 *
 *   VERB link IFINDEX name N [up] [nocarrier] [mtu N] [mac N] [vlan ID parent N [proto X]] [netnsid N] [vrf] [family N]
 *   VERB addr IFINDEX ADDR/LEN
 *   VERB route PREFIX [type T] [table N] [via A] [dev N] [metric N] [proto N] [tos N] [nhid N] [mtu N] [src A] [from P]
 *        [pref N] [advmss N] [realm N] [dead] [linkdown] [encap] [cloned] [nexthop [via A] [dev N] [weight N] [dead] [encap]]...
 *   VERB nexthop ID [via A] [dev N] [blackhole] [fdb] [encap] [group ID:WEIGHT]... [resilient]
 *   VERB neigh IFINDEX ADDR [mac N] [state N] [proxy]
 *   VERB rule 4|6 pref N [not] [from P] [to P] [iif N] [oif N] [mark N] [lookup N] [action N] [suppress N] [l3mdev]
 *        [tos N] [ipproto N] [dport N] [dmask N] [dscp N] [uid] [unknown] [detached]
 *   VERB netconf 4|6 dev N [rp N] [ignore N] [forwarding N]      dev -1 = all
 *
 * VERB: add, append, replace (the flags of a notification), dump (a piece of a dump), del.
 */
#ifndef ROUTERD_TESTS_UNIT_MIRROR_MESSAGES_H
#define ROUTERD_TESTS_UNIT_MIRROR_MESSAGES_H

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX 16384

struct words {
	char text[2048];
	char *word[256];
	unsigned count, at;
};

static void words_split(struct words *w, const char *text)
{
	char *save = NULL, *p;

	memset(w, 0, sizeof(*w));
	snprintf(w->text, sizeof(w->text), "%s", text);
	for (p = strtok_r(w->text, " ", &save); p; p = strtok_r(NULL, " ", &save))
		w->word[w->count++] = p;
}

static const char *words_next(struct words *w)
{
	return w->at < w->count ? w->word[w->at++] : NULL;
}

/* The value behind a key, anywhere after @from and before the next "nexthop"; NULL = not there. */
static const char *words_value(const struct words *w, unsigned from, const char *key)
{
	for (unsigned i = from; i < w->count && strcmp(w->word[i], "nexthop"); i++)
		if (!strcmp(w->word[i], key))
			return i + 1 < w->count ? w->word[i + 1] : "";
	return NULL;
}

static long words_number(const struct words *w, unsigned from, const char *key, long otherwise)
{
	const char *v = words_value(w, from, key);

	return v ? strtol(v, NULL, 0) : otherwise;
}

static bool words_has(const struct words *w, unsigned from, const char *key)
{
	return words_value(w, from, key) != NULL;
}

/* "ADDR[/LEN]" or "default", "default6". Returns the family. */
static int message_address(const char *text, uint8_t addr[16], uint8_t *ret_length)
{
	char copy[64];
	char *slash;
	int family;

	memset(addr, 0, 16);
	*ret_length = 0;
	if (!strncmp(text, "default", 7))
		return text[7] ? AF_INET6 : AF_INET;
	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	family = strchr(copy, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(family, copy, addr) != 1) {
		fprintf(stderr, "bad address in test: %s\n", text);
		abort();
	}
	*ret_length = (uint8_t)(slash ? atoi(slash + 1) : family == AF_INET ? 32 : 128);
	return family;
}

static size_t family_bytes(int family)
{
	return family == AF_INET ? 4 : 16;
}

static void put_address(struct nlmsghdr *nlh, uint16_t type, const char *text)
{
	uint8_t addr[16], length;
	int family;

	if (!text)
		return;
	family = message_address(text, addr, &length);
	mnl_attr_put(nlh, type, family_bytes(family), addr);
}

static void put_number(struct nlmsghdr *nlh, uint16_t type, const struct words *w, unsigned from, const char *key)
{
	if (words_has(w, from, key))
		mnl_attr_put_u32(nlh, type, (uint32_t)words_number(w, from, key, 0));
}

static void mac_of(unsigned number, uint8_t mac[6])
{
	const uint8_t base[6] = { 2, 0, 0, 0, (uint8_t)(number >> 8), (uint8_t)number };

	memcpy(mac, base, 6);
}

/* ---- link ---- */

static void build_vlan(struct nlmsghdr *nlh, const struct words *w)
{
	struct nlattr *info = mnl_attr_nest_start(nlh, IFLA_LINKINFO), *data;

	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "vlan");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	mnl_attr_put_u16(nlh, IFLA_VLAN_ID, (uint16_t)words_number(w, 2, "vlan", 0));
	mnl_attr_put_u16(nlh, IFLA_VLAN_PROTOCOL, htons((uint16_t)words_number(w, 2, "proto", 0x8100)));
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
}

static void build_link(struct nlmsghdr *nlh, struct words *w)
{
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	bool up = words_has(w, 2, "up"), carrier = up && !words_has(w, 2, "nocarrier");
	uint8_t mac[6];

	ifi->ifi_index = atoi(w->word[2]);
	ifi->ifi_family = (unsigned char)words_number(w, 2, "family", 0);
	ifi->ifi_type = 1;
	ifi->ifi_flags = (up ? IFF_UP : 0) | (carrier ? IFF_RUNNING | IFF_LOWER_UP : 0);
	mnl_attr_put_strz(nlh, IFLA_IFNAME, words_value(w, 2, "name"));
	mnl_attr_put_u32(nlh, IFLA_MTU, (uint32_t)words_number(w, 2, "mtu", 1500));
	mnl_attr_put_u8(nlh, IFLA_OPERSTATE, carrier ? 6 : 2);
	mnl_attr_put_u8(nlh, IFLA_CARRIER, carrier);
	mac_of((unsigned)words_number(w, 2, "mac", ifi->ifi_index), mac);
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, mac);
	put_number(nlh, IFLA_LINK, w, 2, "parent");
	put_number(nlh, IFLA_LINK_NETNSID, w, 2, "netnsid");
	if (words_has(w, 2, "vlan"))
		build_vlan(nlh, w);
	if (words_has(w, 2, "vrf")) {
		struct nlattr *info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);

		mnl_attr_put_strz(nlh, IFLA_INFO_SLAVE_KIND, "vrf");
		mnl_attr_nest_end(nlh, info);
	}
}

static void build_addr(struct nlmsghdr *nlh, struct words *w)
{
	struct ifaddrmsg *ifa = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifa));
	uint8_t addr[16];
	int family = message_address(w->word[3], addr, &ifa->ifa_prefixlen);

	ifa->ifa_family = (unsigned char)family;
	ifa->ifa_index = (unsigned)atoi(w->word[2]);
	mnl_attr_put(nlh, IFA_ADDRESS, family_bytes(family), addr);
	if (family == AF_INET)
		mnl_attr_put(nlh, IFA_LOCAL, 4, addr);
}

/* ---- route ---- */

static uint8_t route_type(const char *name)
{
	static const char *const names[] = { "unspec", "unicast", "local", "broadcast", "anycast", "multicast", "blackhole",
		"unreachable", "prohibit", "throw", "nat" };

	for (uint8_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return i;
	return RTN_UNICAST;
}

static void put_gateway(struct nlmsghdr *nlh, int family, const char *via)
{
	struct { uint16_t family; uint8_t addr[16]; } v;
	uint8_t length;

	if (!via)
		return;
	v.family = (uint16_t)message_address(via, v.addr, &length);
	if (v.family == family)
		mnl_attr_put(nlh, RTA_GATEWAY, family_bytes(family), v.addr);
	else
		mnl_attr_put(nlh, RTA_VIA, 2 + family_bytes(v.family), &v);
}

static unsigned state_flags(const struct words *w, unsigned from)
{
	return (words_has(w, from, "dead") ? RTNH_F_DEAD : 0) | (words_has(w, from, "linkdown") ? RTNH_F_LINKDOWN : 0);
}

static void put_encap(struct nlmsghdr *nlh)
{
	struct nlattr *e = mnl_attr_nest_start(nlh, RTA_ENCAP);

	mnl_attr_put_u32(nlh, 1, 100);
	mnl_attr_nest_end(nlh, e);
	mnl_attr_put_u16(nlh, RTA_ENCAP_TYPE, 1);
}

static void build_hops(struct nlmsghdr *nlh, const struct words *w, int family)
{
	struct nlattr *nest = NULL;

	for (unsigned i = 3; i < w->count; i++) {
		struct rtnexthop *h;

		if (strcmp(w->word[i], "nexthop"))
			continue;
		if (!nest)
			nest = mnl_attr_nest_start(nlh, RTA_MULTIPATH);
		h = mnl_nlmsg_get_payload_tail(nlh);
		memset(h, 0, sizeof(*h));
		nlh->nlmsg_len += sizeof(*h);
		h->rtnh_ifindex = (int)words_number(w, i + 1, "dev", 0);
		h->rtnh_hops = (unsigned char)(words_number(w, i + 1, "weight", 1) - 1);
		h->rtnh_flags = (unsigned char)state_flags(w, i + 1);
		put_gateway(nlh, family, words_value(w, i + 1, "via"));
		if (words_has(w, i + 1, "encap"))
			put_encap(nlh);
		h->rtnh_len = (unsigned short)((char *)mnl_nlmsg_get_payload_tail(nlh) - (char *)h);
	}
	if (nest)
		mnl_attr_nest_end(nlh, nest);
}

static void build_route(struct nlmsghdr *nlh, struct words *w)
{
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	uint8_t addr[16], src[16];
	int family = message_address(w->word[2], addr, &rtm->rtm_dst_len);
	long table = words_number(w, 3, "table", RT_TABLE_MAIN);

	rtm->rtm_family = (unsigned char)family;
	rtm->rtm_type = route_type(words_value(w, 3, "type"));
	rtm->rtm_table = (unsigned char)(table < 256 ? table : RT_TABLE_COMPAT);
	rtm->rtm_protocol = (unsigned char)words_number(w, 3, "proto", RTPROT_STATIC);
	rtm->rtm_tos = (unsigned char)words_number(w, 3, "tos", 0);
	rtm->rtm_flags = state_flags(w, 3) | (words_has(w, 3, "cloned") ? RTM_F_CLONED : 0);
	mnl_attr_put_u32(nlh, RTA_TABLE, (uint32_t)table);
	if (rtm->rtm_dst_len)
		mnl_attr_put(nlh, RTA_DST, family_bytes(family), addr);
	if (words_has(w, 3, "from")) {
		message_address(words_value(w, 3, "from"), src, &rtm->rtm_src_len);
		mnl_attr_put(nlh, RTA_SRC, family_bytes(family), src);
	}
	put_number(nlh, RTA_PRIORITY, w, 3, "metric");
	put_number(nlh, RTA_OIF, w, 3, "dev");
	put_number(nlh, RTA_NH_ID, w, 3, "nhid");
	put_number(nlh, RTA_FLOW, w, 3, "realm");
	put_gateway(nlh, family, words_value(w, 3, "via"));
	put_address(nlh, RTA_PREFSRC, words_value(w, 3, "src"));
	if (words_has(w, 3, "pref"))
		mnl_attr_put_u8(nlh, RTA_PREF, (uint8_t)words_number(w, 3, "pref", 0));
	if (words_has(w, 3, "mtu") || words_has(w, 3, "advmss")) {
		struct nlattr *nest = mnl_attr_nest_start(nlh, RTA_METRICS);

		put_number(nlh, RTAX_MTU, w, 3, "mtu");
		put_number(nlh, RTAX_ADVMSS, w, 3, "advmss");
		mnl_attr_nest_end(nlh, nest);
	}
	if (words_has(w, 3, "encap"))
		put_encap(nlh);
	build_hops(nlh, w, family);
}

/* ---- nexthop, neigh, rule, netconf ---- */

static void build_group(struct nlmsghdr *nlh, const struct words *w)
{
	struct { uint32_t id; uint8_t weight, weight_high; uint16_t reserved; } g[64] = { { 0 } };
	unsigned count = 0, id, weight;

	for (unsigned i = 3; i + 1 < w->count; i++) {
		if (strcmp(w->word[i], "group") || sscanf(w->word[i + 1], "%u:%u", &id, &weight) != 2)
			continue;
		g[count].id = id;
		g[count].weight = (uint8_t)(weight - 1);
		g[count].weight_high = (uint8_t)((weight - 1) >> 8);
		count++;
	}
	if (!count)
		return;
	mnl_attr_put(nlh, NHA_GROUP, count * sizeof(g[0]), g);
	mnl_attr_put_u16(nlh, NHA_GROUP_TYPE, words_has(w, 3, "resilient") ? NEXTHOP_GRP_TYPE_RES : NEXTHOP_GRP_TYPE_MPATH);
}

static void build_nexthop(struct nlmsghdr *nlh, struct words *w)
{
	struct nhmsg *msg = mnl_nlmsg_put_extra_header(nlh, sizeof(*msg));
	const char *via = words_value(w, 3, "via");

	msg->nh_family = via && strchr(via, ':') ? AF_INET6 : AF_INET;
	mnl_attr_put_u32(nlh, NHA_ID, (uint32_t)atoi(w->word[2]));
	build_group(nlh, w);
	put_number(nlh, NHA_OIF, w, 3, "dev");
	put_address(nlh, NHA_GATEWAY, via);
	if (words_has(w, 3, "blackhole"))
		mnl_attr_put(nlh, NHA_BLACKHOLE, 0, NULL);
	if (words_has(w, 3, "fdb"))
		mnl_attr_put(nlh, NHA_FDB, 0, NULL);
	if (words_has(w, 3, "encap")) {
		struct nlattr *e = mnl_attr_nest_start(nlh, NHA_ENCAP);

		mnl_attr_put_u32(nlh, 1, 100);
		mnl_attr_nest_end(nlh, e);
	}
}

static void build_neigh(struct nlmsghdr *nlh, struct words *w)
{
	struct ndmsg *nd = mnl_nlmsg_put_extra_header(nlh, sizeof(*nd));
	uint8_t addr[16], length, mac[6];
	int family = message_address(w->word[3], addr, &length);

	nd->ndm_family = (unsigned char)family;
	nd->ndm_ifindex = atoi(w->word[2]);
	nd->ndm_state = (unsigned short)words_number(w, 3, "state", NUD_REACHABLE);
	nd->ndm_flags = words_has(w, 3, "proxy") ? NTF_PROXY : 0;
	mnl_attr_put(nlh, NDA_DST, family_bytes(family), addr);
	if (words_has(w, 3, "mac")) {
		mac_of((unsigned)words_number(w, 3, "mac", 0), mac);
		mnl_attr_put(nlh, NDA_LLADDR, 6, mac);
	}
}

/* struct fib_rule_hdr and FRA_*: the kernel's header clashes with fib.h in one name. */
struct rule_header {
	uint8_t family, dst_len, src_len, tos, table, res1, res2, action;
	uint32_t flags;
};

enum { RULE_DST = 1, RULE_SRC, RULE_IIF, RULE_PRIORITY = 6, RULE_MARK = 10, RULE_SUPPRESS = 14, RULE_TABLE, RULE_MASK,
	RULE_OIF, RULE_L3MDEV = 19, RULE_UID, RULE_IP_PROTO = 22, RULE_DPORT = 24, RULE_DSCP, RULE_PORT_MASK = 29,
	RULE_UNKNOWN = 40 };

static void build_rule_selectors(struct nlmsghdr *nlh, struct words *w, struct rule_header *h)
{
	uint8_t addr[16];
	uint16_t ports[2];

	if (words_has(w, 3, "from")) {
		int family = message_address(words_value(w, 3, "from"), addr, &h->src_len);

		mnl_attr_put(nlh, RULE_SRC, family_bytes(family), addr);
	}
	if (words_has(w, 3, "to")) {
		int family = message_address(words_value(w, 3, "to"), addr, &h->dst_len);

		mnl_attr_put(nlh, RULE_DST, family_bytes(family), addr);
	}
	if (words_has(w, 3, "iif"))
		mnl_attr_put_strz(nlh, RULE_IIF, words_value(w, 3, "iif"));
	if (words_has(w, 3, "oif"))
		mnl_attr_put_strz(nlh, RULE_OIF, words_value(w, 3, "oif"));
	put_number(nlh, RULE_MARK, w, 3, "mark");
	if (words_has(w, 3, "mark"))
		mnl_attr_put_u32(nlh, RULE_MASK, 0xffffffff);
	if (words_has(w, 3, "ipproto"))
		mnl_attr_put_u8(nlh, RULE_IP_PROTO, (uint8_t)words_number(w, 3, "ipproto", 0));
	if (words_has(w, 3, "dport")) {
		ports[0] = ports[1] = (uint16_t)words_number(w, 3, "dport", 0);
		mnl_attr_put(nlh, RULE_DPORT, sizeof(ports), ports);
	}
	if (words_has(w, 3, "dmask"))
		mnl_attr_put_u16(nlh, RULE_PORT_MASK, (uint16_t)words_number(w, 3, "dmask", 0));
	if (words_has(w, 3, "dscp"))
		mnl_attr_put_u8(nlh, RULE_DSCP, (uint8_t)words_number(w, 3, "dscp", 0));
	if (words_has(w, 3, "uid"))
		mnl_attr_put(nlh, RULE_UID, 8, "\0\0\0\0\7\0\0\0");
	if (words_has(w, 3, "unknown"))
		mnl_attr_put_u8(nlh, RULE_UNKNOWN, 1);
}

static void build_rule(struct nlmsghdr *nlh, struct words *w)
{
	struct rule_header *h = mnl_nlmsg_put_extra_header(nlh, sizeof(*h));
	long table = words_number(w, 3, "lookup", 0), pref = words_number(w, 3, "pref", 0);

	h->family = atoi(w->word[2]) == 4 ? AF_INET : AF_INET6;
	h->action = (uint8_t)words_number(w, 3, "action", 1);
	h->table = (uint8_t)(table < 256 ? table : 0);
	h->tos = (uint8_t)words_number(w, 3, "tos", 0);
	h->flags = (words_has(w, 3, "not") ? 2 : 0) | (words_has(w, 3, "detached") ? 8 : 0);
	mnl_attr_put_u32(nlh, RULE_TABLE, (uint32_t)table);
	mnl_attr_put_u32(nlh, RULE_SUPPRESS, (uint32_t)words_number(w, 3, "suppress", -1));
	if (pref)
		mnl_attr_put_u32(nlh, RULE_PRIORITY, (uint32_t)pref);
	if (words_has(w, 3, "l3mdev"))
		mnl_attr_put_u8(nlh, RULE_L3MDEV, 1);
	build_rule_selectors(nlh, w, h);
}

static void build_netconf(struct nlmsghdr *nlh, struct words *w)
{
	struct netconfmsg *nc = mnl_nlmsg_put_extra_header(nlh, sizeof(*nc));

	nc->ncm_family = atoi(w->word[2]) == 4 ? AF_INET : AF_INET6;
	put_number(nlh, NETCONFA_IFINDEX, w, 3, "dev");
	put_number(nlh, NETCONFA_RP_FILTER, w, 3, "rp");
	put_number(nlh, NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN, w, 3, "ignore");
	put_number(nlh, NETCONFA_FORWARDING, w, 3, "forwarding");
}

/* ---- all of them ---- */

static const struct {
	const char *name;
	uint16_t add, del;
	void (*build)(struct nlmsghdr *nlh, struct words *w);
} message_kinds[] = {
	{ "link", RTM_NEWLINK, RTM_DELLINK, build_link },
	{ "addr", RTM_NEWADDR, RTM_DELADDR, build_addr },
	{ "route", RTM_NEWROUTE, RTM_DELROUTE, build_route },
	{ "nexthop", RTM_NEWNEXTHOP, RTM_DELNEXTHOP, build_nexthop },
	{ "neigh", RTM_NEWNEIGH, RTM_DELNEIGH, build_neigh },
	{ "rule", RTM_NEWRULE, RTM_DELRULE, build_rule },
	{ "netconf", RTM_NEWNETCONF, RTM_DELNETCONF, build_netconf },
};

static uint16_t verb_flags(const char *verb)
{
	if (!strcmp(verb, "append"))
		return NLM_F_CREATE | NLM_F_APPEND;
	if (!strcmp(verb, "replace"))
		return NLM_F_REPLACE;
	if (!strcmp(verb, "dump"))
		return NLM_F_MULTI;
	return !strcmp(verb, "add") ? NLM_F_CREATE : 0;
}

/* Build the message into @buffer of MESSAGE_MAX bytes. */
static struct nlmsghdr *message(char *buffer, const char *text)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buffer);
	const char *verb, *kind;
	struct words w;

	words_split(&w, text);
	verb = words_next(&w);
	kind = words_next(&w);
	for (unsigned i = 0; i < sizeof(message_kinds) / sizeof(message_kinds[0]); i++) {
		if (strcmp(kind, message_kinds[i].name))
			continue;
		nlh->nlmsg_type = strcmp(verb, "del") ? message_kinds[i].add : message_kinds[i].del;
		nlh->nlmsg_flags = verb_flags(verb);
		message_kinds[i].build(nlh, &w);
		return nlh;
	}
	fprintf(stderr, "bad message in test: %s\n", text);
	abort();
}

#endif
