/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The hash that chooses among equal-cost paths (semantics M2-M5): symmetric (both directions of a flow get the same
 * value), seeded, the same for all fragments of a datagram. Its bits are not the kernel's. Pure.
 *
 * policy 0 (net.ipv4/ipv6.fib_multipath_hash_policy): addresses; IPv6 also flow label and next header. ICMP errors are
 *          hashed on the addresses they quote, so that they go the way of the flow they are about.
 * policy 1: addresses, protocol and ports of the outer header; fragments count as having ports 0 (M4).
 * policy 2 (inner addresses of tunnels) is treated as 0, policy 3 (chosen fields) as 1.
 */
#ifndef ROUTERD_PACKET_FLOW_HASH_H
#define ROUTERD_PACKET_FLOW_HASH_H

#include "packet/packet.h"

/* @p has been parsed; @linear: its bytes in the first frame: ports and quotations behind them are not seen, as if they
 * were not there. Returns 31 bits. */
uint32_t flow_hash(const struct packet *p, uint32_t linear, uint8_t policy, uint32_t seed);

#endif
