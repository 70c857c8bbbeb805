/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Internet checksum (RFC 1071) and its incremental update (RFC 1624). Pure; any thread.
 * All sums are over 16-bit words as they lie in memory: one's complement addition does not care for byte order, and
 * results are stored with memcpy, never swapped.
 */
#ifndef ROUTERD_PACKET_CHECKSUM_H
#define ROUTERD_PACKET_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bits.h"

/* Fold a sum to 16 bits, with the carries added in again. Not complemented. */
static inline uint16_t checksum_fold(uint64_t sum)
{
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 32) + (uint32_t)sum;
	sum = (sum >> 16) + (uint16_t)sum;
	sum = (sum >> 16) + (uint16_t)sum;
	return (uint16_t)((sum >> 16) + sum);
}

/* Add @length bytes to @sum; a last odd byte counts as if a zero byte followed. */
uint64_t checksum_add(uint64_t sum, const void *data, uint32_t length);

/* Checksum of @length bytes, ready to be stored; 0 when they hold a good one. */
static inline uint16_t checksum(const void *data, uint32_t length)
{
	return (uint16_t)~checksum_fold(checksum_add(0, data, length));
}

/* Is the checksum in an IPv4 header of 20 bytes good? 0xffff where 0 is due passes, as in Linux (semantics V2). */
static inline bool checksum_ipv4_good(const uint8_t *ip)
{
	uint64_t sum = (uint64_t)load_raw32(ip + 8) + load_raw32(ip + 12) + load_raw32(ip + 16);
	uint64_t word = load_raw64(ip);
	uint32_t half;

	sum += word;
	sum += sum < word;
	/* Added to itself with its halves swapped, a number holds their sum in the upper half; the carry is in it,
	 * from the lower half, which holds the same sum. */
	half = (uint32_t)((sum + (sum << 32 | sum >> 32)) >> 32);
	return half + (half << 16 | half >> 16) >= 0xffff0000;
}

/* Checksum after the word @from has become @to (RFC 1624, equation 3); equals a full recomputation (F14). */
static inline uint16_t checksum_update(uint16_t check, uint16_t from, uint16_t to)
{
	uint32_t sum = (uint16_t)~check + (uint16_t)~from + (uint32_t)to;

	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)~((sum >> 16) + sum);
}

#endif
