/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The forwarding information base: what workers look up, without locks, and what the control thread changes in
 * place, piece by piece, with read-copy-update (userspace RCU, quiescent state per worker loop).
 *
 * One writer (control thread; every fib_*_set/del/put function), many readers (workers; fib_lookup*, fib_neigh_*,
 * fib_iface). A reader never keeps a pointer or a slot number beyond its quiescent state. Each change is published
 * with release and read with acquire/consume; a reader sees the old or the new object, whole.
 * No system call, clock, log or global here; memory comes through struct route_memory (memory.h).
 *
 * Numbers: iface, port, group and neighbour numbers are small integers chosen by the control side (iface, port) or
 * by this module (group, neighbour). Addresses: IPv4 in host order for the tables, IPv6 as 16 bytes on the wire.
 */
#ifndef ROUTERD_ROUTE_FIB_H
#define ROUTERD_ROUTE_FIB_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bits.h"
#include "common/counter.h"
#include "packet/verdict.h"
#include "route/lpm4.h"
#include "route/lpm6.h"
#include "route/memory.h"

#define FIB_IFACE_MAX 4096     /* ports and their VLAN sub-interfaces */
#define FIB_IFACE_NONE 0       /* iface number 0 is never used */
#define FIB_PORT_MAX 256
#define FIB_NEIGH_NONE 0       /* neighbour slot 0 is never used */
#define FIB_PATHS_MAX 256      /* the kernel's limit is 256 hops by weight */

/* ---- interfaces ---- */

enum fib_iface_flag {
	FIB_IFACE_UP = 1 << 0,             /* administratively up and with carrier (operstate up/unknown) */
	FIB_IFACE_VRF = 1 << 1,            /* has an L3 master device */
	FIB_IFACE_RP_STRICT = 1 << 2,      /* IPv4 rp_filter 1 (max of all and this one) */
	FIB_IFACE_RP_LOOSE = 1 << 3,       /* IPv4 rp_filter 2 */
	FIB_IFACE_SEND_REDIRECTS = 1 << 4, /* IPv4 */
	FIB_IFACE_FORWARDING4 = 1 << 5,    /* the kernel's own forwarding switch; information only */
	FIB_IFACE_FORWARDING6 = 1 << 6,
};

/* A port or a VLAN sub-interface of one. Replaced as a whole (RCU), so readers may use every field plainly. */
struct fib_iface {
	uint32_t ifindex;    /* kernel's */
	uint32_t mtu;        /* IP bytes */
	uint32_t mtu6;       /* IPv6 mtu sysctl if smaller, >= 1280 */
	uint16_t number;     /* index into the table */
	uint16_t port;       /* port number (port.h) that sends and receives for it */
	uint16_t vlan;       /* VLAN id 1..4094; 0 = untagged */
	__be16 vlan_proto;   /* 0x8100 or 0x88a8, wire order; meaningful with vlan != 0 */
	uint16_t flags;      /* enum fib_iface_flag */
	uint8_t mac[6];
	char name[16];
};

/* ---- next hops ---- */

enum fib_path_flag {
	FIB_PATH_ON_LINK = 1 << 0,  /* no gateway: the neighbour is the packet's own destination */
	FIB_PATH_DEAD = 1 << 1,     /* never selected (kept so that the others keep their share rules) */
};

struct fib_path {
	uint32_t bound;      /* chosen when hash <= bound; 31 bits (semantics M1); a dead path's bound is its predecessor's */
	uint16_t iface;      /* egress interface number */
	uint16_t flags;      /* enum fib_path_flag */
	uint32_t neighbour;  /* slot of the gateway; FIB_NEIGH_NONE with FIB_PATH_ON_LINK */
	uint32_t weight;     /* 1..65536 as configured, for display and for bounds */
};

/* What a route leads to. Shared by all routes with the same content; immutable once published. */
struct fib_group {
	uint32_t number;
	uint32_t references;  /* writer's */
	uint32_t mtu;         /* route's mtu metric, 0 = the device's (semantics F15) */
	uint16_t path_count;  /* alive and dead; 0 unless verdict is VERDICT_FORWARD */
	uint8_t verdict;      /* VERDICT_FORWARD, VERDICT_KERNEL_* or VERDICT_DROP_BLACKHOLE */
	uint8_t reserved;
	struct fib_path paths[];
};

/* ---- neighbours ---- */

#define FIB_NEIGH_VALID (1ull << 48)
#define FIB_NEIGH_MAC_MASK ((1ull << 48) - 1)

/* A neighbour as workers see it. Slots are stable: a gateway's slot exists as long as a group names it, resolved or
 * not. mac_state is read and written as one 64-bit word. */
struct fib_neigh {
	uint64_t mac_state;  /* atomic: low 48 bits the MAC as on the wire (first byte lowest), FIB_NEIGH_VALID if usable */
	uint32_t used;       /* atomic: coarse time in seconds when a worker last sent by it (see fib_neigh_mark) */
	uint16_t iface;
	uint8_t family;      /* 4 or 6 */
	uint8_t reserved;
	uint8_t addr[16];    /* IPv4: first four bytes, wire order */
	uint32_t references; /* writer's: paths of groups that name it + 1 while the kernel lists it */
	uint32_t reserved2;
};

/* ---- the few policy rules that cannot be followed here ---- */

enum fib_rule_flag {
	FIB_RULE_INVERT = 1 << 0,  /* "not" */
	FIB_RULE_FAMILY4 = 1 << 1,
	FIB_RULE_FAMILY6 = 1 << 2,
};

/* Traffic that an ip rule may treat otherwise than "local, then main". Selectors that cannot be judged here (mark,
 * uid, tunnel id ...) are left out by the control side, which makes the match wider, never narrower
 * (an inverted rule with such a selector is widened to match everything). */
struct fib_rule {
	uint32_t priority;
	uint32_t iif;              /* kernel ifindex of the ingress interface, 0 = any */
	uint16_t sport_min, sport_max, dport_min, dport_max;  /* 0..0 = any */
	uint8_t flags;             /* enum fib_rule_flag */
	uint8_t protocol;          /* 0 = any */
	uint8_t tos;               /* 0 = any; compared as the kernel does */
	uint8_t src_len, dst_len;  /* prefix lengths */
	uint8_t src[16], dst[16];
};

struct fib_rules {
	uint32_t count;
	struct fib_rule rules[];
};

/* Namespace-wide settings, replaced as a whole. */
struct fib_settings {
	uint32_t hash_seed;        /* random per start (semantics M5) */
	uint8_t hash_policy4;      /* fib_multipath_hash_policy: 0 L3, 1 L4; others are treated as in HACKING.md */
	uint8_t hash_policy6;
	bool ignore_linkdown4, ignore_linkdown6;  /* information */
};

/* IPv6 local-table prefixes that are not host addresses (RPDB: the local table is looked at first). */
struct fib_local6 {
	uint32_t count;
	struct { uint8_t addr[16]; uint8_t plen; } prefixes[];
};

struct fib {
	struct lpm4 *lpm4;                 /* value = group number */
	struct lpm6 *lpm6;
	struct fib_group **groups;         /* [number], RCU-replaced array */
	struct fib_neigh **neigh_chunks;   /* [slot >> FIB_NEIGH_CHUNK_SHIFT][slot & mask], RCU-replaced array */
	struct fib_neigh_index *neigh_index; /* hash (iface, family, addr) → slot, RCU-replaced */
	struct fib_iface *ifaces[FIB_IFACE_MAX];        /* [number], NULL = unused; entries RCU-replaced */
	uint16_t port_iface[FIB_PORT_MAX];              /* untagged interface of a port, or FIB_IFACE_NONE */
	struct fib_vlan_index *vlan_index[FIB_PORT_MAX]; /* VLAN id → iface number of that port; NULL = none */
	struct fib_rules *rules;           /* NULL = only the default rules */
	struct fib_local6 *local6;         /* NULL = none */
	struct fib_settings *settings;     /* never NULL */
	struct fib_writer *writer;         /* the control side's own bookkeeping */
	struct route_memory memory;
};

/* Allocate an empty FIB (settings: policy 0, the given seed). NULL when memory is short. Context: control. */
struct fib *fib_new(const struct route_memory *memory, uint32_t hash_seed);
void fib_free(struct fib *f);  /* no reader is left; NULL is fine */

/* -- writer side: control thread; all return 0 or -errno and leave the FIB as it was on error -- */
/* Add or replace iface->number; keeps the port and VLAN indexes. If two claim the same frames, the one set last gets
 * them until it goes. -EINVAL: a number, port, VLAN id or VLAN protocol out of range. */
int fib_iface_set(struct fib *f, const struct fib_iface *iface);
void fib_iface_del(struct fib *f, uint16_t number);
int fib_settings_set(struct fib *f, const struct fib_settings *s);
/* Replace the whole list; @count 0 = none. -EINVAL: no family, or a prefix length or @plen out of range. */
int fib_rules_set(struct fib *f, const struct fib_rule *rules, uint32_t count);
int fib_local6_set(struct fib *f, const uint8_t (*addr)[16], const uint8_t *plen, uint32_t count);

/* Find or make the neighbour's slot and take a reference. Family 4 or 6. @ret_slot. -ENOMEM. */
int fib_neigh_get(struct fib *f, uint16_t iface, uint8_t family, const uint8_t *addr, uint32_t *ret_slot);
/* The last put frees the slot; it is used again after a grace period. */
void fib_neigh_put(struct fib *f, uint32_t slot);
/* Set (valid) or clear the link-layer address of a slot. */
void fib_neigh_set_mac(struct fib *f, uint32_t slot, const uint8_t mac[6], bool valid);
/* Slot of a neighbour that exists, else FIB_NEIGH_NONE. Also for readers: on-link destinations. */
uint32_t fib_neigh_find(const struct fib *f, uint16_t iface, uint8_t family, const uint8_t *addr);
/* Call @fn for each slot in use. It may put slots; of those that it gets anew some are seen and some are not. */
void fib_neigh_foreach(struct fib *f, void (*fn)(void *ctx, uint32_t slot, struct fib_neigh *n), void *ctx);

/* A path as the writer describes it. Dead paths are left out of the hash range. */
struct fib_path_spec {
	uint16_t iface;
	bool dead;
	uint8_t gateway_family;  /* 4, 6, or 0 = on link */
	uint32_t weight;         /* >= 1 */
	uint8_t gateway[16];
};

/* Find a group with this content or make it; takes a reference to the group (and the group to its neighbours).
 * FORWARD needs paths, any other verdict (KERNEL_*, DROP_BLACKHOLE) has none. When every path is dead the verdict of
 * the group is KERNEL_UNREACHABLE, and it has no paths. The order of paths is part of the content. An interface
 * need not exist yet. *@ret is the group number (> 0). -EINVAL: the above, more than FIB_PATHS_MAX paths, weight not
 * in 1..65536, family not 0, 4, 6; -ENOMEM. */
int fib_group_get(struct fib *f, enum verdict verdict, uint32_t mtu, const struct fib_path_spec *paths,
	unsigned count, uint32_t *ret);
/* Give a reference back, after the prefix has been pointed elsewhere. The last put retires the group; readers may
 * use it and its number until their quiescent state, and the number is given out again only after a grace period. */
void fib_group_put(struct fib *f, uint32_t group);

/* Point a prefix at a group (insert or replace). The caller holds a reference for as long as the prefix names it.
 * -EINVAL: no such group, or a bad prefix (lpm4.h, lpm6.h); -ENOENT from del; -ENOMEM (also from fib_route6_del). */
int fib_route4_set(struct fib *f, uint32_t prefix, uint8_t plen, uint32_t group);
int fib_route4_del(struct fib *f, uint32_t prefix, uint8_t plen);
int fib_route6_set(struct fib *f, const uint8_t prefix[16], uint8_t plen, uint32_t group);
int fib_route6_del(struct fib *f, const uint8_t prefix[16], uint8_t plen);

struct fib_sizes {
	uint32_t routes4, routes6, groups, neighbours, ifaces, rules;
	size_t bytes4, bytes6, bytes_groups, bytes_neighbours;
};
void fib_get_sizes(const struct fib *f, struct fib_sizes *ret);

/* -- reader side -- */
#define FIB_NEIGH_CHUNK_SHIFT 10
#define FIB_NEIGH_CHUNK_SIZE (1u << FIB_NEIGH_CHUNK_SHIFT)

static inline const struct fib_group *fib_group(const struct fib *f, uint32_t number)
{
	struct fib_group **groups = __atomic_load_n(&f->groups, __ATOMIC_CONSUME);

	return __atomic_load_n(&groups[number], __ATOMIC_CONSUME);
}

/* The group of the longest matching prefix; NULL = no route. @dst in host order. */
static inline const struct fib_group *fib_lookup4(const struct fib *f, uint32_t dst)
{
	uint32_t g = lpm4_lookup(f->lpm4, dst);

	return g ? fib_group(f, g) : NULL;
}

static inline const struct fib_group *fib_lookup6(const struct fib *f, const uint8_t dst[16])
{
	uint32_t g = lpm6_lookup(f->lpm6, dst);

	return g ? fib_group(f, g) : NULL;
}

static inline struct fib_neigh *fib_neigh(const struct fib *f, uint32_t slot)
{
	struct fib_neigh **chunks = __atomic_load_n(&f->neigh_chunks, __ATOMIC_CONSUME);

	return &chunks[slot >> FIB_NEIGH_CHUNK_SHIFT][slot & (FIB_NEIGH_CHUNK_SIZE - 1)];
}

static inline const struct fib_iface *fib_iface(const struct fib *f, uint16_t number)
{
	return __atomic_load_n(&f->ifaces[number], __ATOMIC_CONSUME);
}

static inline const struct fib_settings *fib_settings(const struct fib *f)
{
	return __atomic_load_n(&f->settings, __ATOMIC_CONSUME);
}

/* Remember that packets leave by this neighbour; at most one store per second and neighbour dirties the line. */
static inline void fib_neigh_mark(struct fib_neigh *n, uint32_t now_s)
{
	if (__atomic_load_n(&n->used, __ATOMIC_RELAXED) != now_s)
		__atomic_store_n(&n->used, now_s, __ATOMIC_RELAXED);
}

/* Ingress interface of a tagged frame, FIB_IFACE_NONE when the sub-interface is not known. @tci host order. */
uint16_t fib_vlan_iface(const struct fib *f, uint16_t port, uint16_t vlan_id, __be16 proto);

/* Does a rule concern this packet? Ports in host order, 0 when there are none. Called only when f->rules != NULL. */
bool fib_rules_match(const struct fib_rules *rules, uint8_t family, uint32_t iif, const uint8_t *src,
	const uint8_t *dst, uint8_t tos, uint8_t protocol, uint16_t sport, uint16_t dport);

/* Is @dst within one of the non-host IPv6 local prefixes? Called only when f->local6 != NULL. */
bool fib_local6_match(const struct fib_local6 *l, const uint8_t dst[16]);

/* Choose the path for a hash (31 bits). The group has at least one path that is alive. */
static inline const struct fib_path *fib_select_path(const struct fib_group *g, uint32_t hash)
{
	const struct fib_path *p = g->paths;

	while (hash > p->bound || (p->flags & FIB_PATH_DEAD))
		p++;
	return p;
}

#endif
