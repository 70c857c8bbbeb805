/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "replay/build.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

/* RFC 1071, byte by byte. */
static uint16_t sum16(const uint8_t *p, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i + 1 < n; i += 2)
		sum += get16(p + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

void build_checksum4(uint8_t *ip)
{
	put16(ip + 10, 0);
	put16(ip + 10, sum16(ip, (ip[0] & 15u) * 4));
}

static void address(const char *text, int family, uint8_t *out)
{
	if (inet_pton(family, text, out) != 1) {
		fprintf(stderr, "bad address %s\n", text);
		abort();
	}
}

/* L4 header and payload: @n bytes, of which the first are ports unless this is a later fragment. */
static void fill_payload(const struct build *b, uint8_t *p, uint32_t n, bool later)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + b->seed * 31 + 1);
	if (later || n < 8)
		return;
	put16(p, b->sport ? b->sport : 1000);
	put16(p + 2, b->dport ? b->dport : 2000);
	put16(p + 4, n);
	put16(p + 6, 0);
}

static uint32_t build4(const struct build *b, uint8_t *ip)
{
	uint32_t header = (b->ihl ? b->ihl : 5u) * 4, total = b->l3_length ? b->l3_length : header + 8 + b->payload;

	memset(ip, 1, header);
	ip[0] = (uint8_t)(0x40 | header / 4);
	ip[1] = b->tos;
	put16(ip + 2, total);
	put16(ip + 4, b->id);
	put16(ip + 6, b->fragment);
	ip[8] = b->ttl || b->zero_ttl ? b->ttl : 64;
	ip[9] = b->protocol ? b->protocol : 17;
	address(b->src ? b->src : "10.0.0.2", AF_INET, ip + 12);
	address(b->dst ? b->dst : "10.0.1.2", AF_INET, ip + 16);
	build_checksum4(ip);
	fill_payload(b, ip + header, total > header ? total - header : 0, b->fragment & 0x1fff);
	return total;
}

static uint32_t build6(const struct build *b, uint8_t *ip)
{
	uint32_t header = 40, extra = b->extension_length + (b->has_fragment ? 8u : 0), total;
	uint8_t protocol = b->protocol ? b->protocol : 17, *next = ip + 6;

	total = b->l3_length ? b->l3_length : header + extra + 8 + b->payload;
	ip[0] = (uint8_t)(0x60 | b->tos >> 4);
	ip[1] = (uint8_t)((b->tos & 15) << 4 | (b->label >> 16 & 15));
	put16(ip + 2, b->label);
	put16(ip + 4, total - 40);
	*next = protocol;
	ip[7] = b->ttl || b->zero_ttl ? b->ttl : 64;
	address(b->src ? b->src : "2001:db8::2", AF_INET6, ip + 8);
	address(b->dst, AF_INET6, ip + 24);
	if (b->extension_length) {
		memcpy(ip + header, b->extension, b->extension_length);
		*next = b->extension_type;
		next = ip + header;
		header += b->extension_length;
		*next = protocol;
	}
	if (b->has_fragment) {
		*next = 44;
		ip[header] = protocol;
		ip[header + 1] = 0;
		put16(ip + header + 2, b->fragment);
		put16(ip + header + 4, 0);
		put16(ip + header + 6, b->id);
		header += 8;
	}
	fill_payload(b, ip + header, total > header ? total - header : 0, b->has_fragment && b->fragment & 0xfff8);
	return total;
}

uint32_t build(const struct build *b, uint8_t *out)
{
	const uint8_t ours[6] = { 2, 0, 0, 0, 0, (uint8_t)b->port }, host[6] = { 2, 0, 0, 0, 1, (uint8_t)b->port };
	bool six = b->dst && strchr(b->dst, ':');
	uint32_t at = 12, length;

	memcpy(out, b->dst_mac ? b->dst_mac : ours, 6);
	memcpy(out + 6, host, 6);
	if (b->vlan_proto) {
		put16(out + 12, b->vlan_proto);
		put16(out + 14, (uint32_t)b->pcp << 13 | b->vlan);
		at = 16;
	}
	put16(out + at, b->ethertype ? b->ethertype : six ? 0x86dd : 0x0800);
	at += 2;
	length = six ? build6(b, out + at) : build4(b, out + at);
	memset(out + at + length, 0xee, b->padding);
	return at + length + b->padding;
}

uint32_t build_forwarded(const uint8_t *in, uint8_t *out, const uint8_t *dst_mac, const uint8_t *src_mac, uint16_t vlan,
	uint16_t vlan_proto)
{
	uint32_t from = 12, at = 12, length;
	uint8_t *ip;

	if (get16(in + 12) == 0x8100 || get16(in + 12) == 0x88a8)
		from = 16;
	memcpy(out, dst_mac, 6);
	memcpy(out + 6, src_mac, 6);
	if (vlan_proto) {
		put16(out + 12, vlan_proto);
		put16(out + 14, vlan);
		at = 16;
	}
	memcpy(out + at, in + from, 2);
	ip = out + at + 2;
	if (get16(in + from) == 0x0800) {
		length = get16(in + from + 4);
		memcpy(ip, in + from + 2, length);
		ip[8]--;
		build_checksum4(ip);
	} else {
		length = 40 + get16(in + from + 6);
		memcpy(ip, in + from + 2, length);
		ip[7]--;
	}
	return at + 2 + length;
}

uint64_t build_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

uint64_t build_seed(const char *name)
{
	const char *text = getenv("ROUTERD_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	fprintf(stderr, "# %s: seed %llu (ROUTERD_TEST_SEED reproduces it)\n", name, (unsigned long long)seed);
	return seed ? seed : 1;
}
