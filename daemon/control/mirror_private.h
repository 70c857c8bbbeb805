/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Inside the mirror. Only mirror*.c and the mirror's tests include this. Thread: control.
 *
 *   netlink message ─► link, addr, nexthop, route, neigh, rule, conf records (one file each)
 *   route ─► path set (interned: what the route leads to) ─► FIB group
 *   a change of a link or nexthop object makes path sets stale; mirror_work() resolves them anew, walks their routes
 *   each prefix whose best route changed is published once
 *
 * Dumps. A record carries the number of the dump that has last seen it (gen). mirror_dump_begin() counts that
 * number up, pieces of the dump and notifications that arrive meanwhile stamp what they touch,
 * mirror_dump_end() removes what has no stamp, unless the dump may have left out what exists. What a notification wrote (noted) or deleted (tombs) is not
 * overwritten by an older piece of the dump.
 */
#ifndef ROUTERD_CONTROL_MIRROR_PRIVATE_H
#define ROUTERD_CONTROL_MIRROR_PRIVATE_H

#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/mirror.h"
#include "control/mirror_table.h"

enum mirror_dump { DUMP_LINK, DUMP_NETCONF4, DUMP_NETCONF6, DUMP_RULE4, DUMP_RULE6, DUMP_ADDR, DUMP_NEXTHOP,
	DUMP_ROUTE4, DUMP_ROUTE6, DUMP_NEIGH, DUMPS };
#define DUMP_NONE DUMPS
#define DUMP_BIT(d) (1u << (d))
#define DUMP_ALL (DUMP_BIT(DUMPS) - 1)
#define DUMP_ROUTING (DUMP_BIT(DUMP_NEXTHOP) | DUMP_BIT(DUMP_ROUTE4) | DUMP_BIT(DUMP_ROUTE6))

#define MIRROR_INLINE_WORK 2048  /* routes looked at within the message that caused it */
#define MIRROR_SETTLE_MAX 20     /* re-reads of what the last one changed */
#define MIRROR_DEFAULT_MAX 256  /* routes of table default followed here; with more the kernel does it */

/* Forwarding sysctls of one device, or of "all". */
struct mirror_conf {
	uint8_t rp_filter, send_redirects;    /* IPv4 */
	bool forwarding4, forwarding6;
	bool ignore_linkdown4, ignore_linkdown6;
	uint8_t reserved[2];
	uint32_t mtu6;                        /* 0 = not known */
};

struct link {
	struct table_node node;
	struct mirror_link pub;
	struct mirror_conf conf;
	uint32_t gen, noted;
	bool known;              /* false: only sysctls or addresses have named it so far */
	bool published;          /* the FIB has pub.iface */
	bool vlan_told;          /* the hook knows this VLAN: */
	uint16_t vlan_port, vlan_id;
	__be16 vlan_proto;
	uint8_t vlan_mac[6];
};

struct addr {
	struct table_node node;
	struct mirror_addr pub;
	uint32_t gen;
};

struct neigh {
	struct table_node node;
	struct mirror_neigh pub;
	uint32_t gen, noted;
	uint32_t asked_s;        /* when mirror_refresh_neighbours() last asked the kernel about it */
};

struct rule {
	struct rule *next;       /* by priority */
	uint64_t id;
	uint32_t gen;
	uint32_t priority, table, mark, mark_mask, target, suppress_length, table_flags;
	uint16_t sport[2], dport[2];
	uint8_t family, action, tos, protocol, src_len, dst_len;
	bool invert, l3mdev, has_mark, unjudged, suppress;
	uint8_t src[16], dst[16];
	char iif[16], oif[16];
};

/* ---- next hops ---- */

enum path_flag { PATH_DEAD = 1 << 0, PATH_LINKDOWN = 1 << 1, PATH_ON_LINK = 1 << 2 };

struct path {
	uint32_t ifindex;
	uint32_t weight;
	uint8_t gateway_family;
	uint8_t flags;           /* enum path_flag: state, not identity */
	uint8_t reserved[2];
	uint8_t gateway[16];
};

/* Together with the paths the identity of a path set; compared as memory, so unused bytes are zero. */
struct set_key {
	uint32_t nexthop_id, mtu;
	uint32_t other;          /* IPv4: hash of all metrics and realms, which tell aliases apart */
	uint8_t prefsrc[4];      /* IPv4: the kernel removes routes with their preferred source */
	uint8_t family, type;    /* 4 or 6; RTN_* */
	uint8_t encap, pref;     /* lwtunnel; IPv6 router preference */
	uint16_t path_count;
	uint8_t has_source, source_len;  /* IPv6 RTA_SRC */
	uint8_t source[16];
};

struct nexthop;

/* What routes lead to; shared by all that say the same. Lives while a route names it. */
struct path_set {
	struct table_node node;
	struct dlist routes;     /* struct route.link */
	struct dlist stale;      /* in mirror.stale while it is to be resolved or its routes walked */
	struct dlist of_nexthop; /* in nexthop.sets */
	struct dlist *cursor;    /* next route to walk; NULL = no walk */
	struct nexthop *nexthop; /* with key.nexthop_id */
	bool resolved;
	bool doomed;             /* the kernel has removed its routes: not in mirror.sets, and soon gone */
	uint32_t route_count;
	uint32_t group;          /* a reference held; 0 = no usable path */
	uint32_t *old;           /* groups that prefixes may name until the walk is over; references held */
	uint32_t old_count;
	struct set_key key;
	struct path paths[];
};

/* A member's place in a group; linked from the member. */
struct membership {
	struct dlist link;       /* in nexthop.groups of the member */
	struct nexthop *member, *group;
	uint32_t weight;
};

struct nexthop {
	struct table_node node;
	uint32_t id, gen, noted;
	bool known;              /* false: routes or groups name it, the kernel has not told of it */
	bool gone;               /* deleted by the kernel with its device; the next dump removes it */
	bool blackhole, fdb, encap, resilient, is_group;
	struct path path;
	unsigned member_count;
	struct membership *members;
	struct dlist sets, groups;
};

/* ---- routes ---- */

struct route {
	struct route *next;      /* in the bucket; the routes of a prefix are neighbours, the best first */
	struct dlist link;       /* in path_set.routes */
	struct path_set *set;
	uint32_t metric;
	uint8_t plen, table, tos, protocol;  /* table: enum mirror_table */
	uint8_t gen;
	uint8_t family;          /* 4 or 6 */
	uint8_t reserved[2];
	uint8_t dst[];           /* 4 or 16 bytes */
};

struct route_table {
	struct route **buckets;
	uint32_t mask, count;
	uint32_t by_table[MIRROR_TABLES];
	uint8_t gen;
	uint32_t walk;           /* bucket where a sweep or re-evaluation goes on; UINT32_MAX = none runs */
	bool sweep, reevaluate;  /* what the walk does */
	struct pool pool;
};

struct prefix {
	uint8_t family, plen;
	uint8_t addr[16];
};

/* Local-table prefixes that are no host addresses. */
struct prefix_list {
	struct prefix *prefixes;
	uint32_t count, capacity;
};

struct local_host {
	struct table_node node;
	uint8_t family, addr[16];
};

/* A route message, parsed. */
struct route_message {
	uint8_t family, table, plen, tos, protocol;
	uint16_t nlflags;
	uint32_t metric;
	uint8_t dst[16];
	struct set_key key;
	struct path paths[FIB_PATHS_MAX];
};

struct mirror_sync;

struct mirror {
	struct fib *fib;
	struct mirror_hooks hooks;
	void *ctx;
	uint64_t seed;
	struct mirror_stats stats;   /* counters only; the rest is put together on request */

	enum mirror_dump dump;       /* that runs, or DUMP_NONE */
	uint32_t gen[DUMPS];
	struct idset tombs;
	bool deleted_meanwhile;      /* entries of that kind went while the dump ran */
	uint32_t dump_changed;       /* DUMP_BITs of route dumps that were news: see mirror_settle() */
	unsigned settle_count;
	uint32_t want;               /* DUMP_BITs that should be read again */
	enum mirror_cause want_cause;

	struct table links;
	struct { uint32_t ifindex; uint16_t port; bool used; } ports[FIB_PORT_MAX];
	struct link *ifaces[FIB_IFACE_MAX];
	uint16_t last_iface;
	struct mirror_conf all;
	uint8_t hash_policy4, hash_policy6;
	const char *sysctl_root;     /* "/proc/sys/net"; NULL = do not read */

	struct table addrs, neighs, nexthops, sets;
	struct dlist stale;
	struct rule *rules[2];       /* IPv4, IPv6 */
	bool rules_known[2];
	uint32_t rule_count, kernel_rule_count;

	struct route_table routes[2];
	struct prefix_list local[2], defaults, failed;
	struct table local_hosts;
	bool defaults_stale;
	uint32_t verdict_group[VERDICT_COUNT];
	bool memory_short;           /* something is not as it should be: all again at the next refresh */
	bool keep_groups;            /* one failed: prefixes may name old groups, so none is given back */
	bool recovering;             /* all prefixes are being evaluated anew */
	bool failed_lost;            /* not even room to remember a failed prefix: groups are kept for good */

	uint32_t now_s, sysctl_s;
	uint32_t refresh_start;      /* slot where the next refresh begins */
	int (*send)(struct mirror *m, const struct nlmsghdr *nlh);  /* NULL without I/O */
	struct mirror_sync *sync;
	int receive_buffer;          /* bytes for notifications; 0 = the default */
	struct route_message message;  /* scratch */
	struct fib_path_spec specs[FIB_PATHS_MAX];  /* scratch */
};

/* mirror.c */
void mirror_dump_begin(struct mirror *m, enum mirror_dump d);
void mirror_dump_end(struct mirror *m, enum mirror_dump d, bool complete);
/* A re-read of @dumps has been applied, sweeps and all: asks for another one of what it changed. The kernel
 * may have been at work on what it does not tell (it removes IPv4 routes after it has told of the link or the
 * address), so only a re-read that is no news shows the end of it. */
void mirror_settle(struct mirror *m, uint32_t dumps);
/* Ask for a re-read, soon. Without I/O it only shows in m->want. */
void mirror_want(struct mirror *m, uint32_t dumps, enum mirror_cause cause);
void mirror_out_of_memory(struct mirror *m);
void mirror_recover(struct mirror *m);  /* from that; called once per second */
/* Is this message a piece of the dump that runs? */
static inline bool mirror_is_dump(const struct mirror *m, enum mirror_dump d, const struct nlmsghdr *nlh)
{
	return m->dump == d && (nlh->nlmsg_flags & NLM_F_MULTI);
}
/* A deletion or an appearance told by notification while a dump of that kind runs. */
void mirror_tomb_add(struct mirror *m, enum mirror_dump d, uint64_t id);
void mirror_tomb_del(struct mirror *m, enum mirror_dump d, uint64_t id);

/* Parse the attributes behind @offset bytes of header into @tb[max + 1]; unknown ones are left out.
 * Returns how many were unknown, -EINVAL when malformed. */
struct nlattr;
int mirror_parse(const struct nlmsghdr *nlh, size_t offset, const struct nlattr **tb, unsigned max);
int mirror_parse_bytes(const void *payload, size_t bytes, const struct nlattr **tb, unsigned max);
int mirror_parse_nested(const struct nlattr *nest, const struct nlattr **tb, unsigned max);
/* Payload if the attribute is there and at least that long, else 0 / false. */
bool attr_u32(const struct nlattr *a, uint32_t *ret);
bool attr_u16(const struct nlattr *a, uint16_t *ret);
bool attr_u8(const struct nlattr *a, uint8_t *ret);
bool attr_bytes(const struct nlattr *a, void *ret, size_t bytes);
bool attr_name(const struct nlattr *a, char *ret, size_t size);
/* 4 or 6 by the length of the attribute, else 0. */
uint8_t attr_address(const struct nlattr *a, uint8_t ret[16]);

/* Handlers: 0, -EINVAL = malformed, -ENOMEM, -EAGAIN = of no interest. */
int link_message(struct mirror *m, const struct nlmsghdr *nlh);
int addr_message(struct mirror *m, const struct nlmsghdr *nlh);
int route_message(struct mirror *m, const struct nlmsghdr *nlh);
int nexthop_message(struct mirror *m, const struct nlmsghdr *nlh);
int neigh_message(struct mirror *m, const struct nlmsghdr *nlh);
int rule_message(struct mirror *m, const struct nlmsghdr *nlh);
int netconf_message(struct mirror *m, const struct nlmsghdr *nlh);

/* mirror_link.c */
struct link *link_find(const struct mirror *m, uint32_t ifindex);
struct link *link_get(struct mirror *m, uint32_t ifindex);  /* made if missing; NULL = no memory */
void link_sweep(struct mirror *m);
void link_fini(struct mirror *m);
/* mirror_iface.c: which links are interfaces of the FIB */
/* After any change of the link, its sysctls or the ports. */
void iface_update(struct mirror *m, struct link *l);
void iface_drop(struct mirror *m, struct link *l);
void iface_update_all(struct mirror *m);
uint16_t iface_port_of(const struct mirror *m, uint32_t ifindex);
static inline bool link_up(const struct link *l)
{
	return l->pub.flags & 1;  /* IFF_UP */
}
bool link_linkdown(const struct link *l);  /* as the kernel sets RTNH_F_LINKDOWN */
bool link_ignores_linkdown(const struct mirror *m, const struct link *l, uint8_t family);

/* mirror_addr.c */
void addr_sweep(struct mirror *m);
void addr_fini(struct mirror *m);

/* mirror_sysctl.c */
void conf_refresh(struct mirror *m);           /* read what has no notification */
void conf_read_link(struct mirror *m, struct link *l);
void conf_publish(struct mirror *m);

/* mirror_nexthop.c */
struct nexthop *nexthop_get(struct mirror *m, uint32_t id);
void nexthop_unused(struct mirror *m, struct nexthop *nh);  /* a user went: free a stub that nobody names */
/* Both return how many objects it concerns. */
unsigned nexthop_device_lost(struct mirror *m, uint32_t ifindex);
unsigned nexthop_device_changed(struct mirror *m, uint32_t ifindex);
void nexthop_sweep(struct mirror *m);
void nexthop_fini(struct mirror *m);

/* mirror_paths.c */
struct path_set *set_get(struct mirror *m, const struct set_key *key, const struct path *paths);
struct path_set *set_find(const struct mirror *m, const struct set_key *key, const struct path *paths);
uint64_t set_identity(const struct mirror *m, const struct set_key *key, const struct path *paths);
void set_update_flags(struct mirror *m, struct path_set *s, const struct path *paths);
void set_add_route(struct path_set *s, struct route *r);
void set_remove_route(struct path_set *s, struct route *r);
void set_unused(struct mirror *m, struct path_set *s);  /* free it if no route is left */
uint32_t set_group(struct mirror *m, struct path_set *s);
void set_stale(struct mirror *m, struct path_set *s);
void sets_all_stale(struct mirror *m);
void sets_of_nexthop_stale(struct mirror *m, struct nexthop *nh);
void sets_of_nexthop_doom(struct mirror *m, struct nexthop *nh);
unsigned sets_device_changed(struct mirror *m, uint32_t ifindex);
/* @family 0 = both. */
unsigned sets_device_dead(struct mirror *m, uint32_t ifindex, uint8_t family, bool dead);
unsigned sets_device_removed(struct mirror *m, uint32_t ifindex);
unsigned sets_source_dead(struct mirror *m, const uint8_t prefsrc[4]);
unsigned sets_work(struct mirror *m, unsigned budget);  /* returns what is left of the budget */
void sets_fini(struct mirror *m);
uint32_t verdict_group(struct mirror *m, enum verdict v);

/* mirror_route_parse.c */
int route_parse(struct mirror *m, const struct nlmsghdr *nlh, struct route_message *ret);
int path_parse_gateway(struct path *p, const struct nlattr *gateway, const struct nlattr *via);

/* mirror_route.c */
size_t route_address_bytes(uint8_t family);
struct route **route_run(const struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen);
static inline bool route_same_prefix(const struct route *a, const uint8_t *dst, uint8_t plen)
{
	return a->plen == plen && !memcmp(a->dst, dst, a->family == 4 ? 4 : 16);
}
unsigned routes_work(struct mirror *m, unsigned budget);
void routes_sweep(struct mirror *m, unsigned f);       /* f: 0 = IPv4, 1 = IPv6; done by routes_work() */
void routes_reevaluate(struct mirror *m, unsigned f);
void routes_init(struct mirror *m);
void routes_fini(struct mirror *m);
/* Take the route out of its bucket and table counts and free it; the prefix is evaluated first. */
void route_remove(struct mirror *m, struct route *r);

/* mirror_publish.c */
void prefix_evaluate(struct mirror *m, uint8_t family, const uint8_t *dst, uint8_t plen);
struct route *prefix_best(struct mirror *m, struct route *run, uint32_t *ret_group);
void local6_publish(struct mirror *m);
void failed_prefixes_evaluate(struct mirror *m);
void publish_fini(struct mirror *m);
int defaults_note(struct mirror *m, const struct route *r, bool present);
void defaults_work(struct mirror *m);

/* mirror_neigh.c */
void neigh_iface_changed(struct mirror *m, const struct link *l, bool ours);
void neigh_sweep(struct mirror *m);
void neigh_fini(struct mirror *m);

/* mirror_rule.c */
void rules_publish(struct mirror *m);
void rule_sweep(struct mirror *m, unsigned f);
void rule_fini(struct mirror *m);

/* mirror_sync.c */
void sync_wanted(struct mirror *m);
void sync_fini(struct mirror *m);

#endif
