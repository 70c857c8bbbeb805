/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror of what the kernel knows about forwarding: links, addresses, rules, nexthop objects, routes
 * (tables local, main and default), neighbours and the forwarding sysctls. It listens to rtnetlink and keeps
 * struct fib equal to it.
 *
 * The pure part takes netlink messages one by one (mirror_handle_message) and needs no kernel; the I/O part
 * (mirror_start) subscribes, dumps and reads on an sd-event loop. Order of messages never matters for the
 * outcome. Thread: control, all of it. The mirror is the only writer of the FIB's interfaces, rules,
 * settings, groups, routes and neighbours. Names and numbers are the kernel's; addresses are 16 bytes as on
 * the wire, IPv4 in the first four. Netlink is spoken with libmnl alone.
 */
#ifndef ROUTERD_CONTROL_MIRROR_H
#define ROUTERD_CONTROL_MIRROR_H

#include <linux/netlink.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "common/error.h"
#include "packet/verdict.h"
#include "route/fib.h"

struct mirror;

#define MIRROR_NO_PORT UINT16_MAX

/* A network device as the kernel describes it. */
struct mirror_link {
	uint32_t ifindex;
	uint32_t flags;          /* IFF_* */
	uint32_t mtu, max_mtu;   /* max_mtu 0 = not told */
	uint32_t master;         /* ifindex of the bridge, bond or VRF it is enslaved to, 0 = none */
	uint32_t parent;         /* IFLA_LINK: lower device of a VLAN, peer of a veth; 0 = none; see netnsid */
	int32_t netnsid;         /* IFLA_LINK_NETNSID: the parent is in that namespace; -1 = in ours */
	uint32_t rx_queues, tx_queues;
	uint32_t xdp_program;    /* id of an attached XDP program, 0 = none */
	uint16_t type;           /* ARPHRD_* */
	uint16_t vlan_id;        /* with vlan_proto != 0 */
	__be16 vlan_proto;       /* 0 = no VLAN device */
	uint16_t iface;          /* fib.h number while it is a port or a VLAN of one, else FIB_IFACE_NONE */
	uint16_t port;           /* port number of it or of the port below it, else MIRROR_NO_PORT */
	uint8_t operstate;       /* IF_OPER_* */
	uint8_t xdp_mode;        /* XDP_ATTACHED_* */
	bool carrier;
	bool vrf;                /* enslaved to a VRF */
	uint8_t mac_length;      /* 6 for Ethernet */
	uint8_t mac[6];
	char name[16];
	char kind[16];           /* "veth", "vlan" ...; "" for hardware */
};

/* What the rest of the daemon wants to know at once. All may be NULL. Called from within mirror functions: a
 * hook may look at the mirror, and the link hook may set and clear ports; nothing else that changes it. */
struct mirror_hooks {
	void (*link)(void *ctx, const struct mirror_link *l, bool removed);
	/* A host route of the local table (an own, broadcast or anycast address: what BPF leaves to the
	 * kernel) came or went. Family 4 or 6. Only differences are told, also by a resync. */
	void (*local_address)(void *ctx, uint8_t family, const uint8_t *addr, bool present);
	/* A VLAN sub-interface of a port came (or changed its MAC) or went. */
	void (*vlan)(void *ctx, uint16_t port, uint16_t vlan_id, __be16 proto, const uint8_t mac[6],
		bool present);
	/* A re-read of kernel tables begins (@done false) or has been applied (@done true). */
	void (*resync)(void *ctx, const char *reason, bool done);
};

/* Empty mirror of an empty @fib, which must outlive it, as must @ctx; @hooks is copied (NULL = none).
 * -ENOMEM. */
int mirror_new(struct mirror **ret, struct fib *fib, const struct mirror_hooks *hooks, void *ctx);
/* NULL is fine. The FIB's prefixes stay, but their groups and neighbours are given back: fib_free() comes next. */
void mirror_free(struct mirror *m);

/* Subscribe, read everything in the order of dependency (blocking; seconds for a full table), then follow
 * changes from @event. The mirror belongs to the network namespace of the calling thread. */
int mirror_start(struct mirror *m, sd_event *event, struct error *e);
void mirror_stop(struct mirror *m);

/* The device @ifindex is port @port: it and its VLAN sub-interfaces are interfaces of the FIB from now on, or
 * as soon as the kernel tells of them. Ends with mirror_clear_port() or when the device leaves. -EINVAL,
 * -ENOSPC, -ENOMEM. */
int mirror_set_port(struct mirror *m, uint32_t ifindex, uint16_t port);
void mirror_clear_port(struct mirror *m, uint32_t ifindex);

/* Apply one netlink message (a notification, or with NLM_F_MULTI a piece of a dump). Never fails for the
 * caller: what is malformed or unknown is counted and skipped. @nlh->nlmsg_len bytes must be readable. */
void mirror_handle_message(struct mirror *m, const struct nlmsghdr *nlh);

/* Large changes (a next hop under 1,000,000 routes) are spread over several calls; mirror_start() arranges
 * them. Examine up to @budget routes; true = more to do. */
bool mirror_work(struct mirror *m, unsigned budget);

/* Call once per second with the clock of fib_neigh_mark(): keeps neighbours in use alive in the kernel (it
 * does not see the traffic), asks for wanted ones, reads sysctls that have no notification. Bounded work. */
void mirror_refresh_neighbours(struct mirror *m, uint32_t now_s);

/* Read everything anew, e.g. on request of the user. */
void mirror_resync(struct mirror *m, const char *reason);

/* ---- looking at it ---- */

enum mirror_table { MIRROR_LOCAL, MIRROR_MAIN, MIRROR_DEFAULT, MIRROR_TABLES };
enum mirror_cause { MIRROR_CAUSE_START, MIRROR_CAUSE_OVERRUN, MIRROR_CAUSE_CHANGE, MIRROR_CAUSE_INTERRUPTED,
	MIRROR_CAUSE_REQUEST, MIRROR_CAUSE_MEMORY, MIRROR_CAUSES };

struct mirror_stats {
	uint32_t links, addresses, nexthops, neighbours, rules;
	uint32_t routes4[MIRROR_TABLES], routes6[MIRROR_TABLES];
	uint32_t path_sets;            /* different next-hop sets that the routes share */
	uint32_t kernel_rules;         /* rules that send traffic to the kernel */
	uint64_t messages, skipped;    /* handled; of no interest (other table, family, type) */
	uint64_t malformed;            /* could not be parsed */
	uint64_t resyncs[MIRROR_CAUSES];
	uint64_t overruns;             /* ENOBUFS: the kernel had to drop notifications */
	uint64_t request_errors;       /* the kernel refused a request of ours */
	uint64_t publish_errors;       /* the FIB had no memory for a route or group */
	uint64_t neighbour_requests;
	uint64_t last_resync_ns;       /* how long the last one took */
	bool resync_running;
	bool pending;                  /* mirror_work() has something to do, or a re-read is due */
	size_t bytes;                  /* memory for routes and path sets */
};

void mirror_get_stats(const struct mirror *m, struct mirror_stats *ret);
extern const char *const mirror_cause_label[MIRROR_CAUSES];

/* NULL = unknown. The pointer is valid until the next call that changes the mirror. */
const struct mirror_link *mirror_link_by_index(const struct mirror *m, uint32_t ifindex);
const struct mirror_link *mirror_link_by_name(const struct mirror *m, const char *name);
void mirror_link_foreach(const struct mirror *m, void (*fn)(void *ctx, const struct mirror_link *l),
	void *ctx);

struct mirror_addr {
	uint32_t ifindex;
	uint32_t flags;          /* IFA_F_* */
	uint8_t family, plen, scope;
	uint8_t addr[16];
};
void mirror_addr_foreach(const struct mirror *m, void (*fn)(void *ctx, const struct mirror_addr *a),
	void *ctx);

struct mirror_neigh {
	uint32_t ifindex;
	uint32_t slot;           /* fib.h, FIB_NEIGH_NONE = not one of our interfaces */
	uint16_t state;          /* NUD_* */
	uint8_t flags;           /* NTF_* */
	uint8_t family;
	uint8_t addr[16];
	uint8_t mac[6];
	bool has_mac;
};
void mirror_neigh_foreach(const struct mirror *m, void (*fn)(void *ctx, const struct mirror_neigh *n),
	void *ctx);

/* The rules that send traffic to the kernel, in the words of `ip rule`. */
void mirror_kernel_rule_foreach(const struct mirror *m,
	void (*fn)(void *ctx, uint8_t family, const char *text), void *ctx);

struct mirror_path {
	uint32_t ifindex;
	uint32_t weight;
	uint32_t flags;          /* RTNH_F_DEAD, RTNH_F_LINKDOWN, RTNH_F_ONLINK */
	uint8_t gateway_family;  /* 4, 6, 0 = on link */
	uint8_t gateway[16];
	const char *device;      /* "" = unknown */
};

struct mirror_route {
	uint8_t family, plen;
	uint8_t table;           /* RT_TABLE_LOCAL, _MAIN, _DEFAULT */
	uint8_t type, protocol;  /* RTN_*, RTPROT_* */
	uint8_t tos;
	bool best;               /* the one that the FIB uses for its prefix */
	uint8_t verdict;         /* enum verdict of packets that follow it; meaningful with best */
	uint8_t dst[16];
	uint32_t metric, mtu, nexthop_id;
	unsigned path_count;
	const struct mirror_path *paths;  /* valid during the call */
};

/* Call @fn for routes of a family. Start with *@cursor = 0; about @budget routes per call; true = call again
 * for more (*@cursor is to be kept). A route that exists all the time is shown at least once. */
bool mirror_route_foreach(struct mirror *m, uint8_t family, uint64_t *cursor, unsigned budget,
	void (*fn)(void *ctx, const struct mirror_route *r), void *ctx);

struct mirror_query {
	uint8_t family;          /* 4 or 6 */
	uint8_t dst[16], src[16];
	uint32_t iif;            /* ifindex, 0 = none */
	uint8_t tos, protocol;
	uint16_t sport, dport;
	uint32_t hash;           /* 31 bits; chooses among paths */
};

struct mirror_answer {
	enum verdict verdict;    /* as routing decides it; TTL, MTU and the neighbour come later */
	bool matched;            /* route is meaningful */
	bool by_rule;            /* an ip rule sends it to the kernel */
	uint32_t group;          /* fib.h */
	uint32_t ifindex;        /* egress, with verdict FORWARD; device its name */
	char device[16];
	uint8_t gateway_family;
	uint8_t gateway[16];
	uint32_t mtu;            /* of route and device */
	bool neighbour_valid;
	uint8_t neighbour_mac[6];
	struct mirror_route route;  /* without paths */
};

/* What would happen to such a packet (`routerctl route get`). */
void mirror_route_lookup(struct mirror *m, const struct mirror_query *q, struct mirror_answer *ret);

#endif
