/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Verdicts: every packet that a worker takes ends in exactly one of these. This table is the only place where they
 * are named: it yields the counter, the metric's "reason" label, the words of routerctl and the manual's list.
 * To add one, add one line (and a replay test that provokes it).
 *
 * Classes: FORWARD = handed to a transmit queue; KERNEL = given to the kernel with its true ingress port;
 * DROP = thrown away here. A packet in reassembly or in another waiting place has no verdict yet: it is "held".
 */
#ifndef ROUTERD_PACKET_VERDICT_H
#define ROUTERD_PACKET_VERDICT_H

enum verdict_class { VERDICT_CLASS_FORWARD, VERDICT_CLASS_KERNEL, VERDICT_CLASS_DROP };

/* X(identifier, class, label, help) */
#define VERDICTS(X) \
	X(FORWARD, FORWARD, "forwarded", "sent out of a port of ours") \
	X(KERNEL_LOCAL, KERNEL, "local", "addressed to the router itself (or an anycast, broadcast or multicast route)") \
	X(KERNEL_NO_ROUTE, KERNEL, "no_route", "no route: the kernel answers with unreachable") \
	X(KERNEL_UNREACHABLE, KERNEL, "unreachable", "unreachable route: the kernel answers") \
	X(KERNEL_PROHIBIT, KERNEL, "prohibit", "prohibit route: the kernel answers") \
	X(KERNEL_OTHER_DEVICE, KERNEL, "other_device", "the route leaves by a device that is not a port of ours") \
	X(KERNEL_ENCAP, KERNEL, "encap", "the route asks for an encapsulation (lwtunnel) or another table") \
	X(KERNEL_RULE, KERNEL, "rule", "an ip rule beyond the default ones may concern the packet") \
	X(KERNEL_NEIGHBOUR, KERNEL, "neighbour", "the next hop's link-layer address is not known: the kernel resolves it") \
	X(KERNEL_TOO_BIG, KERNEL, "too_big", "larger than the egress MTU: the kernel fragments it or sends the ICMP error") \
	X(KERNEL_TTL, KERNEL, "ttl", "TTL or hop limit used up: the kernel sends time exceeded") \
	X(KERNEL_OPTIONS, KERNEL, "options", "IPv4 options or an IPv6 hop-by-hop header") \
	X(KERNEL_REDIRECT, KERNEL, "redirect", "would leave by the interface it came from: the kernel may send a redirect") \
	X(KERNEL_RP_FILTER, KERNEL, "rp_filter", "fails the reverse path filter: the kernel counts and drops it") \
	X(KERNEL_SCOPE, KERNEL, "scope", "link-local, loopback or unspecified address: the kernel decides") \
	X(KERNEL_NOT_IP, KERNEL, "not_ip", "neither IPv4 nor IPv6") \
	X(KERNEL_NOT_OUR_MAC, KERNEL, "not_our_mac", "frame for another station, or multicast/broadcast frame") \
	X(KERNEL_VLAN, KERNEL, "vlan", "VLAN tag without a known sub-interface, priority tag or several tags") \
	X(KERNEL_ND, KERNEL, "neighbour_discovery", "ICMPv6 neighbour discovery in transit: the kernel may be a proxy") \
	X(KERNEL_HEADROOM, KERNEL, "headroom", "no room before the packet for the VLAN tag it needs") \
	X(KERNEL_VRF, KERNEL, "vrf", "the ingress interface is enslaved to a VRF") \
	X(DROP_SHORT, DROP, "short", "frame too short for its IP header") \
	X(DROP_VERSION, DROP, "bad_version", "IP version does not match the EtherType, or IHL below 5") \
	X(DROP_LENGTH, DROP, "bad_length", "IP length smaller than its header or larger than the frame") \
	X(DROP_CHECKSUM, DROP, "bad_checksum", "IPv4 header checksum wrong") \
	X(DROP_MARTIAN_SOURCE, DROP, "martian_source", "source address that no packet may carry (RFC 1812 5.3.7)") \
	X(DROP_MARTIAN_DESTINATION, DROP, "martian_destination", "destination address that is never forwarded") \
	X(DROP_BLACKHOLE, DROP, "blackhole", "blackhole route") \
	X(DROP_LINK_DOWN, DROP, "link_down", "the egress port has no link or is down") \
	X(DROP_TX_FULL, DROP, "tx_full", "the egress port's transmit queue is full") \
	X(DROP_DELIVER, DROP, "deliver_failed", "the kernel did not take the packet (TAP full or down)") \
	X(DROP_INVALID_DESCRIPTOR, DROP, "invalid_descriptor", "the driver handed over a descriptor outside the packet memory")

enum verdict {
#define X(id, class, label, help) VERDICT_##id,
	VERDICTS(X)
#undef X
	VERDICT_COUNT
};

struct verdict_info {
	enum verdict_class class;
	const char *label;  /* stable: metric label and JSON key */
	const char *help;
};

extern const struct verdict_info verdict_info[VERDICT_COUNT];

static inline enum verdict_class verdict_class(enum verdict v)
{
	return verdict_info[v].class;
}

#endif
