/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Frames built in C for the tests of the BPF programs. Each builder gives a plain forwardable packet; a test
 * then spoils what it is about.
 */
#ifndef ROUTERD_TESTS_BPF_PACKETS_H
#define ROUTERD_TESTS_BPF_PACKETS_H

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#define FRAME_ROOM 2048
#define ETH_HEADER 14
#define VLAN_HEADER 4
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define PAYLOAD 32

struct frame {
	uint8_t bytes[FRAME_ROOM];
	uint32_t length;
	uint32_t l3; /* where the IP header starts */
};

static const uint8_t port_mac[6] = { 0x02, 0x10, 0x20, 0x30, 0x40, 0x50 };
static const uint8_t vlan_mac[6] = { 0x02, 0x10, 0x20, 0x30, 0x40, 0x51 };
static const uint8_t sender_mac[6] = { 0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee };

static inline void put16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v & 0xff;
}

static inline uint16_t get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static inline uint16_t inet_checksum(const uint8_t *p, uint32_t length, uint32_t sum)
{
	for (; length > 1; p += 2, length -= 2)
		sum += get16(p);
	if (length)
		sum += p[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static inline void append(struct frame *f, const void *bytes, uint32_t length)
{
	memcpy(f->bytes + f->length, bytes, length);
	f->length += length;
}

static inline void append16(struct frame *f, uint16_t v)
{
	put16(f->bytes + f->length, v);
	f->length += 2;
}

static inline void ethernet(struct frame *f, const uint8_t *to, uint16_t protocol)
{
	memset(f, 0, sizeof(*f));
	append(f, to, 6);
	append(f, sender_mac, 6);
	append16(f, protocol);
	f->l3 = f->length;
}

static inline void udp(struct frame *f, uint32_t pseudo)
{
	uint8_t *p = f->bytes + f->length;

	put16(p, 4000);
	put16(p + 2, 5000);
	put16(p + 4, 8 + PAYLOAD);
	memset(p + 8, 'x', PAYLOAD);
	put16(p + 6, inet_checksum(p, 8 + PAYLOAD, pseudo + 17 + 8 + PAYLOAD));
	f->length += 8 + PAYLOAD;
}

static inline void seal_ipv4(struct frame *f)
{
	uint8_t *ip = f->bytes + f->l3;

	put16(ip + 10, 0);
	put16(ip + 10, inet_checksum(ip, IPV4_HEADER, 0));
}

static inline void ipv4_body(struct frame *f, const char *from, const char *to)
{
	uint8_t *ip = f->bytes + f->length;

	f->l3 = f->length;
	ip[0] = 0x45;
	put16(ip + 2, IPV4_HEADER + 8 + PAYLOAD);
	put16(ip + 4, 7);
	ip[8] = 64;
	ip[9] = 17;
	inet_pton(AF_INET, from, ip + 12);
	inet_pton(AF_INET, to, ip + 16);
	seal_ipv4(f);
	f->length += IPV4_HEADER;
	udp(f, (uint16_t)~inet_checksum(ip + 12, 8, 0));
}

static inline void ipv6_body(struct frame *f, const char *from, const char *to)
{
	uint8_t *ip = f->bytes + f->length;

	f->l3 = f->length;
	ip[0] = 0x60;
	put16(ip + 4, 8 + PAYLOAD);
	ip[6] = 17;
	ip[7] = 64;
	inet_pton(AF_INET6, from, ip + 8);
	inet_pton(AF_INET6, to, ip + 24);
	f->length += IPV6_HEADER;
	udp(f, (uint16_t)~inet_checksum(ip + 8, 32, 0));
}

static inline void ipv4_packet(struct frame *f, const char *from, const char *to)
{
	ethernet(f, port_mac, 0x0800);
	ipv4_body(f, from, to);
}

static inline void ipv6_packet(struct frame *f, const char *from, const char *to)
{
	ethernet(f, port_mac, 0x86dd);
	ipv6_body(f, from, to);
}

/* Puts a tag in front of what follows the MAC addresses. */
static inline void push_vlan(struct frame *f, uint16_t protocol, uint16_t tci)
{
	memmove(f->bytes + 12 + VLAN_HEADER, f->bytes + 12, f->length - 12);
	put16(f->bytes + 12, protocol);
	put16(f->bytes + 14, tci);
	f->length += VLAN_HEADER;
	f->l3 += VLAN_HEADER;
}

static inline void set_destination(struct frame *f, const uint8_t *mac)
{
	memcpy(f->bytes, mac, 6);
}

#endif
