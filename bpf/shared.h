/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the BPF programs and the daemon agree on: map names, keys, values, limits, reasons. Compiles on both
 * sides.
 *
 * Maps of steer.bpf.c (one object is loaded per port):
 *
 *   name          type, size                 key -> value                               writer   shared
 *   xsks          XSKMAP 256                 u32 receive queue -> socket                daemon   no
 *   port_config   ARRAY 1                    u32 0 -> struct steer_port                 daemon   no
 *   vlans         HASH 4096, no prealloc     struct steer_vlan_key -> struct steer_link daemon   no
 *   steer_stats   PERCPU_ARRAY               u32 enum steer_reason -> struct steer_count program  no
 *   local4        HASH 65536, no prealloc    be32 address -> u32 (0, reserved)          daemon   yes
 *   local6        HASH 65536, no prealloc    16 bytes as on the wire -> u32 (0, res.)   daemon   yes
 *   heartbeat     ARRAY 64, mmapable         u32 worker -> struct steer_heartbeat       workers  yes
 *   steer_config  ARRAY 1                    u32 0 -> struct steer_config               daemon   yes
 *
 * "Shared" maps are created by the first port's object and given to the others with bpf_map__reuse_fd()
 * before they are loaded. bpf_map__set_max_entries() sizes local4 and local6 before the first load.
 *
 * local4 and local6 hold what the kernel's local tables would keep: local, broadcast and anycast addresses of
 * every interface and VRF. One too many costs speed only; one that is missing sends the router's own packets
 * to user space, which must look again. An XSKMAP takes any AF_XDP socket: one of another queue or
 * device, or an unbound one, makes the kernel drop every packet without a counter of ours.
 *
 * Everything is zero after the load, and zero means: every packet goes to the kernel. The daemon turns a port
 * on last (STEER_ENABLED) and off first. A value is copied into its map word by word while the program runs,
 * so a change of more than one field is made with STEER_ENABLED clear.
 *
 * Maps of deliver.bpf.c (one object for the TAP, and one more for each port in generic XDP mode):
 *
 *   deliver_ports ARRAY 256                  u32 TAP queue -> u32 ifindex               daemon   -
 *   deliver_stats PERCPU_ARRAY 257           u32 TAP queue -> struct deliver_count      programs yes
 *   .rodata       deliver_queue (u32)        the queue deliver_generic answers for      daemon   -
 */
#ifndef ROUTERD_BPF_SHARED_H
#define ROUTERD_BPF_SHARED_H

#include <linux/types.h>

#define STEER_QUEUES 256
#define STEER_WORKERS 64
#define STEER_VLANS 4096
#define STEER_ADDRESSES 65536 /* default size of local4 and of local6 */
#define STEER_MAC_LENGTH 6
#define STEER_NO_WORKER 0xff /* in queue_worker[]: nobody serves the queue, its packets go to the kernel */

#define DELIVER_QUEUES 256
#define DELIVER_NO_QUEUE DELIVER_QUEUES /* slot of deliver_stats for packets without a usable queue number */

/*
 * X(NAME, "metric label", "help text"). Every packet the program sees is counted under exactly one reason:
 * the first one that applies, in the order of this table but for REDIRECTED. All but REDIRECTED end in
 * XDP_PASS.
 */
#define STEER_REASONS(X)                                                                                     \
	X(REDIRECTED, "redirected", "handed to the daemon")                                                  \
	X(DISABLED, "disabled", "the port is told to pass everything to the kernel")                         \
	X(SHORT, "short", "the frame ends before its IPv4 or IPv6 header does")                              \
	X(VLAN_PRIORITY, "vlan_priority", "priority tag (VLAN id 0) or more than one VLAN tag")              \
	X(VLAN_UNKNOWN, "vlan_unknown", "VLAN tag without a sub-interface that the daemon serves")           \
	X(NOT_IP, "not_ip", "neither IPv4 nor IPv6: ARP, LLDP, PPPoE and the like")                          \
	X(L2_MULTICAST, "l2_multicast", "broadcast or multicast frame")                                      \
	X(NOT_OUR_MAC, "not_our_mac", "frame sent to another MAC address than that of the interface")        \
	X(FORWARDING_OFF, "forwarding_off", "this address family is not forwarded on the interface")         \
	X(OPTIONS, "options", "IPv4 header length is not 20 bytes")                                          \
	X(HOP_BY_HOP, "hop_by_hop", "IPv6 hop-by-hop options")                                               \
	X(TTL, "ttl", "TTL or hop limit is 0 or 1 (also packets for the router itself)")                     \
	X(MULTICAST, "multicast", "sent to a multicast IP address")                                          \
	X(SPECIAL_ADDRESS, "special_address", "loopback, unspecified or broadcast, or multicast source")     \
	X(LINK_LOCAL, "link_local", "IPv6 link-local source or destination")                                 \
	X(LOCAL, "local", "sent to an address of the router or a broadcast address of its networks")         \
	X(OWN_SOURCE, "own_source", "IPv4 source is an address of the router")                               \
	X(ICMPV6_ND, "icmpv6_nd", "IPv6 neighbour discovery (ICMPv6 types 133 to 137)")                      \
	X(TOO_LONG, "too_long", "larger than a frame of the packet memory (GRO left on, or beyond the MTU)")        \
	X(STALE, "stale", "the worker of the queue has shown no sign of life for too long")                  \
	X(NO_SOCKET, "no_socket", "the receive queue has no AF_XDP socket")

enum steer_reason {
#define STEER_REASON_ENUM(name, label, help) STEER_##name,
	STEER_REASONS(STEER_REASON_ENUM)
#undef STEER_REASON_ENUM
		STEER_REASON_COUNT
};

/* Bits of steer_port.flags. */
#define STEER_ENABLED (1u << 0) /* clear: pass everything to the kernel (start, planned restart, stop) */
#define STEER_FRAGMENTS (1u << 1) /* reserved: fragments for our own addresses go to the daemon too */

/* Bits of steer_link.flags: the kernel does not forward (net.*.conf.X.forwarding is 0), so we do not. */
#define STEER_PASS_IPV4 (1u << 0)
#define STEER_PASS_IPV6 (1u << 1)

/* One layer-3 interface: the port itself (untagged frames) or a VLAN sub-interface of it. */
struct steer_link {
	__u8 mac[STEER_MAC_LENGTH]; /* as on the wire */
	__u8 reserved[2]; /* 0 */
	__u32 flags; /* STEER_PASS_* */
};

struct steer_port {
	struct steer_link link;
	__u32 flags; /* STEER_ENABLED, STEER_FRAGMENTS */
	__u32 max_length; /* longest frame, in bytes from the Ethernet header on, that a chunk of the packet memory holds */
	__u8 queue_worker[STEER_QUEUES]; /* receive queue -> slot in heartbeat, or STEER_NO_WORKER */
};

/* Host byte order, both. The id is 1 to 4094: frames with id 0 never get as far as the look-up. */
struct steer_vlan_key {
	__u16 protocol; /* 0x8100 or 0x88a8 */
	__u16 id;
};

/*
 * The worker stores CLOCK_MONOTONIC nanoseconds (clock_gettime, not in a time namespace of its own) with one
 * plain 64-bit store; 0 says "gone" and stops redirection at once. A cache line each: workers do not disturb
 * each other.
 */
struct steer_heartbeat {
	__u64 nanoseconds;
	__u64 reserved[7];
};

struct steer_config {
	/*
	 * A heartbeat older (or further in the future) than this is stale. At least 20 ms: the program reads
	 * the coarse clock, which lags by up to one tick (10 ms at 100 Hz). 0: every packet of every port is
	 * passed.
	 */
	__u64 stale_ns;
};

/* Bytes are those of the frame as the program sees it: from the destination MAC on, without the FCS. */
struct steer_count {
	__u64 packets;
	__u64 bytes;
};

struct deliver_count {
	__u64 packets; /* given to the port's stack, which may still refuse them (down: rx_dropped) */
	__u64 shot; /* no port for this queue */
};

#endif
