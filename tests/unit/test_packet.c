/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * packet/: frames, checksums, rewriting, parsing, the flow hash. What can be enumerated is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packet/checksum.h"
#include "packet/flow_hash.h"
#include "packet/parse.h"
#include "packet/rewrite.h"

/* ---- checksum ---- */

/* RFC 1071 word by word, in network order, independent of checksum.c. */
static uint16_t naive_sum(const uint8_t *p, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void test_checksum_full(void **state)
{
	uint8_t bytes[512];
	uint32_t seed = 1;

	for (unsigned round = 0; round < 2000; round++) {
		uint32_t n = round % 300;

		for (uint32_t i = 0; i < n; i++)
			bytes[i] = round % 3 ? (uint8_t)((seed = seed * 1103515245 + 12345) >> 16) : 0xff;
		assert_int_equal(load_be16(&(uint16_t){ checksum(bytes, n) }), naive_sum(bytes, n));
	}
	/* Sums beyond 32 bits. */
	assert_int_equal(checksum_fold(0xffffffffffffffffull), 0xffff);
	assert_int_equal(checksum_fold(0), 0);
	assert_int_equal(checksum_fold(0x10000), 1);
	assert_int_equal(checksum_fold(0x1fffe), 0xffff);
}

static void make_header(uint8_t *ip, uint16_t id, uint8_t ttl)
{
	static const uint8_t base[20] = { 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1 };
	uint16_t sum;

	memcpy(ip, base, 20);
	store_be16(ip + 4, id);
	ip[8] = ttl;
	sum = naive_sum(ip, 20);
	store_be16(ip + 10, sum);
}

/* F14: for every value of the checksum and every TTL class, the short way gives what a full one gives. */
static void test_ttl_checksum(void **state)
{
	static const uint8_t ttls[] = { 2, 3, 64, 128, 255 };
	uint8_t ip[20], wanted[20];

	for (unsigned t = 0; t < ARRAY_LENGTH(ttls); t++) {
		for (uint32_t id = 0; id < 65536; id++) {
			make_header(ip, (uint16_t)id, ttls[t]);
			make_header(wanted, (uint16_t)id, (uint8_t)(ttls[t] - 1));
			assert_true(checksum_ipv4_good(ip));
			if (!ip[10] && !ip[11]) {
				/* V2: 0xffff in its place means the same. */
				ip[10] = ip[11] = 0xff;
				assert_true(checksum_ipv4_good(ip));
			}
			rewrite_ttl4(ip);
			assert_memory_equal(ip, wanted, 20);
			assert_true(checksum_ipv4_good(ip));
		}
	}
}

/* RFC 1624: any word changed to any other. */
static void test_checksum_update(void **state)
{
	uint8_t ip[20];
	uint32_t seed = 5;

	for (unsigned round = 0; round < 200000; round++) {
		uint16_t from, to, check;

		seed = seed * 1103515245 + 12345;
		make_header(ip, (uint16_t)(seed >> 16), 64);
		from = load_raw16(ip + 4);
		seed = seed * 1103515245 + 12345;
		to = round % 7 ? (uint16_t)(seed >> 16) : (uint16_t)(round % 2 ? 0 : 0xffff);
		check = checksum_update(load_raw16(ip + 10), from, to);
		memcpy(ip + 4, &to, 2);
		store_be16(ip + 10, 0);
		assert_int_equal(load_be16(&check), naive_sum(ip, 20));
	}
}

/* A good header stops being one with any single bit changed. */
static void test_checksum_bits(void **state)
{
	uint8_t ip[20];

	for (uint32_t id = 0; id < 65536; id += 257) {
		make_header(ip, (uint16_t)id, 64);
		for (unsigned bit = 0; bit < 160; bit++) {
			ip[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_false(checksum_ipv4_good(ip));
			ip[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

/* ---- frames ---- */

#define FRAMES 64

struct world {
	struct frame_table table;
	struct frame frames[FRAMES];
	struct frame_cache caches[2];
	struct frame_cache *list[2];
	uint32_t stacks[2][FRAMES];
};

static struct world *new_world(void)
{
	struct world *w = aligned_alloc(CACHE_LINE, (sizeof(*w) + 63) & ~63ul);

	memset(w, 0, sizeof(*w));
	w->table = (struct frame_table){ aligned_alloc(4096, FRAMES << 11), w->frames, FRAMES, 11 };
	for (unsigned i = 0; i < 2; i++) {
		w->list[i] = &w->caches[i];
		frame_cache_init(&w->caches[i], &w->table, (uint8_t)i, w->stacks[i], FRAMES / 2);
		frame_cache_adopt(&w->caches[i], i * FRAMES / 2, FRAMES / 2);
	}
	return w;
}

static void free_world(struct world *w)
{
	free(w->table.memory);
	free(w);
}

static void test_frame_alloc(void **state)
{
	struct world *w = new_world();
	uint32_t out[FRAMES], f = frame_alloc(&w->caches[0]);

	assert_int_equal(f, 0);
	assert_int_equal(frame_get_place(&w->frames[f]), FRAME_WORKER);
	assert_int_equal(w->frames[f].refs, 1);
	/* No more than there are. */
	assert_int_equal(frame_alloc_fill(&w->caches[0], 7, out, FRAMES), FRAMES / 2 - 1);
	assert_int_equal(frame_get_place(&w->frames[out[0]]), FRAME_FILL);
	assert_int_equal(w->frames[out[0]].queue, 7);
	assert_int_equal(w->frames[out[0]].refs, 0);
	assert_int_equal(frame_alloc(&w->caches[0]), FRAME_NONE);
	frame_put(&w->caches[0], (struct frame_cache *const *)w->list, f);
	assert_int_equal(frame_get_place(&w->frames[f]), FRAME_FREE);
	/* The warm one first. */
	assert_int_equal(frame_alloc(&w->caches[0]), f);
	free_world(w);
}

static void test_frame_references(void **state)
{
	struct world *w = new_world();
	struct frame_cache *const *list = (struct frame_cache *const *)w->list;
	uint32_t f = frame_alloc(&w->caches[1]);

	frame_get(&w->table, f);
	frame_get(&w->table, f);
	frame_put(&w->caches[1], list, f);
	frame_put(&w->caches[0], list, f);
	assert_int_equal(w->frames[f].refs, 1);
	assert_int_equal(frame_get_place(&w->frames[f]), FRAME_WORKER);
	/* The last one is dropped away from home. */
	frame_put(&w->caches[0], list, f);
	assert_int_equal(frame_get_place(&w->frames[f]), FRAME_RETURNING);
	assert_int_equal(w->caches[0].count, FRAMES / 2);
	assert_int_equal(w->caches[1].count, FRAMES / 2 - 1);
	assert_int_equal(frame_collect(&w->caches[1]), 1);
	assert_int_equal(frame_collect(&w->caches[1]), 0);
	assert_int_equal(frame_get_place(&w->frames[f]), FRAME_FREE);
	assert_int_equal(w->caches[1].count, FRAMES / 2);
	free_world(w);
}

#ifndef ROUTERD_SANITIZED
/* C7: a put too many must not give the frame a second place. (Sanitized builds trap.) */
static void test_frame_put_twice(void **state)
{
	struct world *w = new_world();
	struct frame_cache *const *list = (struct frame_cache *const *)w->list;
	uint32_t f = frame_alloc(&w->caches[0]);

	frame_put(&w->caches[0], list, f);
	frame_put(&w->caches[0], list, f);
	frame_put(&w->caches[1], list, f);
	assert_int_equal(w->caches[0].count, FRAMES / 2);
	assert_int_equal(w->caches[1].count, FRAMES / 2);
	free_world(w);
}
#endif

static void test_frame_addr(void **state)
{
	struct world *w = new_world();

	assert_int_equal(frame_of_addr(&w->table, 0), 0);
	assert_int_equal(frame_of_addr(&w->table, 2047), 0);
	assert_int_equal(frame_of_addr(&w->table, 2048), 1);
	assert_int_equal(frame_of_addr(&w->table, FRAMES * 2048 - 1), FRAMES - 1);
	assert_int_equal(frame_of_addr(&w->table, FRAMES * 2048), FRAME_NONE);
	assert_int_equal(frame_of_addr(&w->table, UINT64_MAX), FRAME_NONE);
	free_world(w);
}

/* C8: two holders, two threads, the last two references dropped at once, many times; worker 1 sends home by the return
 * list while worker 0 collects. Run under the thread sanitizer too. */
#define ROUNDS 20000

struct handover {
	struct world *w;
	uint32_t slot;  /* atomic: frame index + 1 for worker 1, 0 = none */
};

static void *drop_other_half(void *arg)
{
	struct handover *h = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t f;

		while (!(f = __atomic_exchange_n(&h->slot, 0, __ATOMIC_ACQUIRE)))
			sched_yield();
		frame_put(&h->w->caches[1], (struct frame_cache *const *)h->w->list, f - 1);
	}
	return NULL;
}

static void test_frame_threads(void **state)
{
	struct handover h = { new_world(), 0 };
	pthread_t thread;
	unsigned waited = 0;

	assert_int_equal(pthread_create(&thread, NULL, drop_other_half, &h), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t f;

		while ((f = frame_alloc(&h.w->caches[0])) == FRAME_NONE) {
			frame_collect(&h.w->caches[0]);
			waited++;
		}
		frame_get(&h.w->table, f);
		while (__atomic_load_n(&h.slot, __ATOMIC_RELAXED))
			sched_yield();
		__atomic_store_n(&h.slot, f + 1, __ATOMIC_RELEASE);
		frame_put(&h.w->caches[0], (struct frame_cache *const *)h.w->list, f);
	}
	pthread_join(thread, NULL);
	frame_collect(&h.w->caches[0]);
	assert_int_equal(h.w->caches[0].count, FRAMES / 2);
	for (unsigned i = 0; i < FRAMES; i++)
		assert_int_equal(h.w->frames[i].refs, 0);
	(void)waited;
	free_world(h.w);
}

/* ---- trimming ---- */

static void test_trim(void **state)
{
	struct world *w = new_world();

	/* 10 + 20 + 30 bytes, cut to every length. */
	for (uint32_t length = 1; length <= 60; length++) {
		struct packet p = { .data = frame_data(&w->table, 1), .frame = 1, .length = 60, .seg_count = 3 };
		unsigned dropped = 99;
		uint32_t rest;
		uint8_t out[64];

		w->frames[1].next = 2;
		w->frames[2].next = 3;
		w->frames[3].next = FRAME_NONE;
		w->frames[2].seg_length = 20;
		w->frames[3].seg_length = 30;
		w->frames[2].seg_offset = w->frames[3].seg_offset = 128;
		for (unsigned i = 0; i < 60; i++)
			*(i < 10 ? p.data + i : i < 30 ? frame_data(&w->table, 2) + 118 + i :
				frame_data(&w->table, 3) + 98 + i) = (uint8_t)i;
		assert_int_equal(packet_first_length(&w->table, &p), 10);
		rest = packet_trim(&w->table, &p, length, &dropped);
		assert_int_equal(p.length, length);
		assert_int_equal(p.seg_count, length <= 10 ? 1 : length <= 30 ? 2 : 3);
		assert_int_equal(dropped, 3 - p.seg_count);
		assert_int_equal(rest, p.seg_count == 1 ? 2 : p.seg_count == 2 ? 3 : FRAME_NONE);
		assert_int_equal(packet_linear_length(&w->table, &p), length < 10 ? length : 10);
		packet_copy_out(&w->table, &p, out);
		for (unsigned i = 0; i < length; i++)
			assert_int_equal(out[i], i);
	}
	free_world(w);
}

/* ---- parsing: the inline way and the long way say the same ---- */

/* Random damage to good packets; the two must agree on verdict and fields. */
static void test_parse_ways(void **state)
{
	static const uint8_t base6[54] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64 };
	uint32_t seed = 77, plain = 0;
	uint8_t bytes[128];

	for (unsigned round = 0; round < 300000; round++) {
		struct packet a = { .data = bytes, .seg_count = 1, .l3_offset = 14 }, b;
		bool six = round & 1, taken;
		uint32_t length = 74;
		enum verdict v;

		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, base6, sizeof(base6));
		if (!six)
			make_header(bytes + 14, (uint16_t)round, 64);
		for (unsigned k = 0; k < (round >> 1) % 3; k++) {
			seed = seed * 1103515245 + 12345;
			bytes[14 + (seed >> 8) % 40] ^= (uint8_t)(1 << (seed >> 20) % 8);
		}
		seed = seed * 1103515245 + 12345;
		if (round % 5 == 0)
			length = 34 + (seed >> 16) % 41;
		if (!six && round % 4 == 2) {
			store_be16(bytes + 24, 0);
			store_be16(bytes + 24, naive_sum(bytes + 14, 20));
		}
		a.length = length;
		b = a;
		taken = six ? parse_plain_ipv6(&a, bytes, length) : parse_plain_ipv4(&a, bytes, length);
		v = six ? parse_ipv6(&b, length) : parse_ipv4(&b, length);
		if (!taken)
			continue;
		plain++;
		assert_int_equal(v, VERDICT_FORWARD);
		assert_memory_equal(&a, &b, sizeof(a));
	}
	assert_true(plain > 100000);
}

/* The walk along extension headers is bounded and stays within the packet: it lies in memory of exactly its size, for
 * the address sanitizer. */
static void test_parse_extensions(void **state)
{
	for (unsigned count = 0; count <= 12; count++) {
		for (uint32_t cut = 0; cut <= 16; cut++) {
			uint32_t whole = 54 + count * 8 + 8, length = whole - cut;
			bool known = count <= 8 && length >= 54 + count * 8;
			uint8_t bytes[256] = { [14] = 0x60 }, *exact;
			struct packet p = { .length = length, .seg_count = 1, .l3_offset = 14 };

			if (length < 54)
				continue;
			store_be16(bytes + 18, (uint16_t)(length - 54));
			bytes[20] = count ? 60 : 17;
			bytes[21] = 64;
			for (unsigned i = 0; i < count; i++)
				bytes[54 + 8 * i] = i + 1 < count ? 60 : 17;
			p.data = exact = malloc(length);
			memcpy(exact, bytes, length);
			assert_int_equal(parse_ipv6(&p, length), VERDICT_FORWARD);
			assert_int_equal(!!(p.flags & PACKET_L4_VALID), known);
			if (known) {
				assert_int_equal(p.l4_offset, 54 + count * 8);
				assert_int_equal(p.l4_protocol, 17);
			}
			free(exact);
		}
	}
}

/* A header that claims to end beyond the packet. */
static void test_parse_extension_too_long(void **state)
{
	uint8_t bytes[70] = { [14] = 0x60, [19] = 16, [20] = 43, [21] = 64, [54] = 17, [55] = 1 };
	struct packet p = { .data = bytes, .length = 70, .seg_count = 1, .l3_offset = 14 };

	assert_int_equal(parse_ipv6(&p, 70), VERDICT_FORWARD);
	assert_true(p.flags & PACKET_L4_VALID);
	bytes[55] = 2;
	assert_int_equal(parse_ipv6(&p, 70), VERDICT_FORWARD);
	assert_false(p.flags & PACKET_L4_VALID);
	bytes[55] = 255;
	assert_int_equal(parse_ipv6(&p, 70), VERDICT_FORWARD);
	assert_false(p.flags & PACKET_L4_VALID);
}

/* ---- flow hash ---- */

struct flow {
	uint8_t bytes[256];
	struct packet p;
	uint32_t length;
};

static void make_flow4(struct flow *f, uint32_t src, uint32_t dst, uint8_t protocol, uint16_t sport, uint16_t dport)
{
	memset(f, 0, sizeof(*f));
	make_header(f->bytes + 14, 1, 64);
	store_be32(f->bytes + 26, src);
	store_be32(f->bytes + 30, dst);
	f->bytes[23] = protocol;
	store_be16(f->bytes + 34, sport);
	store_be16(f->bytes + 36, dport);
	f->length = 60;
	f->p = (struct packet){ .data = f->bytes, .length = 60, .seg_count = 1, .flags = PACKET_IPV4 | PACKET_L4_VALID,
		.l3_length = 46, .l3_offset = 14, .l4_offset = 34, .l4_protocol = protocol };
}

static uint32_t hash4(uint32_t src, uint32_t dst, uint8_t protocol, uint16_t sport, uint16_t dport, uint8_t policy,
	uint32_t seed)
{
	struct flow f;

	make_flow4(&f, src, dst, protocol, sport, dport);
	return flow_hash(&f.p, f.length, policy, seed);
}

/* M5: both directions the same, another seed another value, 31 bits. */
static void test_hash_symmetric(void **state)
{
	unsigned same = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t a = 0x0a000001 + i * 7, b = 0x0a630001 + i % 13;
		uint16_t s = (uint16_t)(i * 3), d = (uint16_t)(80 + i % 5);

		for (uint8_t policy = 0; policy < 4; policy++) {
			assert_int_equal(hash4(a, b, 17, s, d, policy, 1), hash4(b, a, 17, d, s, policy, 1));
			assert_true(hash4(a, b, 17, s, d, policy, 1) <= 0x7fffffff);
			same += hash4(a, b, 17, s, d, policy, 1) == hash4(a, b, 17, s, d, policy, 2);
		}
		assert_int_equal(hash4(a, a, 17, s, d, 1, 1), hash4(a, a, 17, d, s, 1, 1));
	}
	assert_true(same < 5);
}

/* M2, M3: what counts and what does not. */
static void test_hash_fields(void **state)
{
	uint32_t base0 = hash4(1, 2, 17, 3, 4, 0, 9), base1 = hash4(1, 2, 17, 3, 4, 1, 9);

	assert_int_equal(hash4(1, 2, 6, 5, 6, 0, 9), base0);
	assert_int_not_equal(hash4(1, 3, 17, 3, 4, 0, 9), base0);
	assert_int_not_equal(hash4(1, 2, 6, 3, 4, 1, 9), base1);
	assert_int_not_equal(hash4(1, 2, 17, 5, 4, 1, 9), base1);
	assert_int_not_equal(hash4(1, 2, 17, 3, 5, 1, 9), base1);
	/* A protocol without ports. */
	assert_int_equal(hash4(1, 2, 47, 3, 4, 1, 9), hash4(1, 2, 47, 5, 6, 1, 9));
	assert_int_equal(hash4(1, 2, 17, 3, 4, 2, 9), base0);
	assert_int_equal(hash4(1, 2, 17, 3, 4, 3, 9), base1);
}

/* M4: all fragments alike, first one too. */
static void test_hash_fragments(void **state)
{
	struct flow first, later;

	make_flow4(&first, 1, 2, 17, 333, 444);
	make_flow4(&later, 1, 2, 17, 0xdead, 0xbeef);
	first.p.flags |= PACKET_FRAGMENT;
	later.p.flags = PACKET_IPV4 | PACKET_FRAGMENT;
	assert_int_equal(flow_hash(&first.p, 60, 1, 5), flow_hash(&later.p, 60, 1, 5));
	assert_int_equal(flow_hash(&first.p, 60, 0, 5), flow_hash(&later.p, 60, 0, 5));
}

/* Ports behind the end of the packet or of the first frame are not read. */
static void test_hash_short(void **state)
{
	struct flow f;

	make_flow4(&f, 1, 2, 17, 333, 444);
	f.p.l3_length = 23;
	assert_int_equal(flow_hash(&f.p, 60, 1, 5), hash4(1, 2, 17, 0, 0, 1, 5));
	f.p.l3_length = 46;
	assert_int_equal(flow_hash(&f.p, 37, 1, 5), hash4(1, 2, 17, 0, 0, 1, 5));
	assert_int_equal(flow_hash(&f.p, 38, 1, 5), hash4(1, 2, 17, 333, 444, 1, 5));
}

/* M2: ICMP errors follow the flow that they quote; other ICMP and fragments do not. */
static void test_hash_icmp(void **state)
{
	static const uint8_t errors[] = { 3, 4, 5, 11, 12 };
	uint32_t flow = hash4(0x0a000001, 0x0a090001, 17, 1, 2, 0, 5);

	for (unsigned type = 0; type < 20; type++) {
		struct flow f;
		bool is_error = memchr(errors, (int)type, sizeof(errors));

		make_flow4(&f, 0xc0000201, 0x0a000001, 1, 0, 0);
		f.bytes[34] = (uint8_t)type;
		make_header(f.bytes + 42, 1, 1);
		store_be32(f.bytes + 42 + 12, 0x0a000001);
		store_be32(f.bytes + 42 + 16, 0x0a090001);
		f.p.l3_length = 56;
		f.p.length = 70;
		assert_int_equal(flow_hash(&f.p, 70, 0, 5) == flow, is_error);
		assert_int_not_equal(flow_hash(&f.p, 61, 0, 5), flow);  /* the quotation is cut */
		f.p.flags = PACKET_IPV4 | PACKET_FRAGMENT;
		assert_int_not_equal(flow_hash(&f.p, 70, 0, 5), flow);
	}
}

static void make_flow6(struct flow *f, uint8_t next, uint32_t label, uint8_t last)
{
	memset(f, 0, sizeof(*f));
	store_be32(f->bytes + 14, 0x60000000 | label);
	f->bytes[20] = next;
	f->bytes[22] = 0x20;
	f->bytes[37] = 1;
	f->bytes[38] = 0x20;
	f->bytes[53] = last;
	f->p = (struct packet){ .data = f->bytes, .length = 150, .seg_count = 1, .flags = PACKET_IPV6 | PACKET_L4_VALID,
		.l3_length = 136, .l3_offset = 14, .l4_offset = 54, .l4_protocol = next };
}

static void test_hash_ipv6(void **state)
{
	struct flow f, g, error;

	make_flow6(&f, 17, 0x12345, 2);
	make_flow6(&g, 17, 0x12346, 2);
	assert_int_not_equal(flow_hash(&f.p, 150, 0, 5), flow_hash(&g.p, 150, 0, 5));
	assert_int_equal(flow_hash(&f.p, 150, 1, 5), flow_hash(&g.p, 150, 1, 5));
	g.bytes[14] |= 0xf;  /* the traffic class is no part of it */
	g.bytes[15] |= 0xf0;
	g.bytes[17] = 0x45;
	assert_int_equal(flow_hash(&f.p, 150, 0, 5), flow_hash(&g.p, 150, 0, 5));
	/* Packet too big for flow f. */
	make_flow6(&error, 58, 0, 9);
	error.bytes[54] = 2;
	memcpy(error.bytes + 62, f.bytes + 14, 40);
	assert_int_equal(flow_hash(&error.p, 150, 0, 5), flow_hash(&f.p, 150, 0, 5));
	error.bytes[54] = 128;
	assert_int_not_equal(flow_hash(&error.p, 150, 0, 5), flow_hash(&f.p, 150, 0, 5));
	/* Policy 1: all fragments, whatever their header says about the protocol. */
	f.p.flags |= PACKET_FRAGMENT;
	g.p.flags = PACKET_IPV6 | PACKET_FRAGMENT;
	g.p.l4_protocol = 44;
	assert_int_equal(flow_hash(&f.p, 150, 1, 5), flow_hash(&g.p, 150, 1, 5));
}

/* Even over 16 parts, for flows that differ in little. */
static void test_hash_even(void **state)
{
	unsigned parts[2][16] = { { 0 } };

	for (uint32_t i = 0; i < 32000; i++) {
		parts[0][hash4(0x0a000000 + i, 0x0b000001, 17, 1, 2, 0, 42) >> 27]++;
		parts[1][hash4(0x0a000001, 0x0b000001, 17, (uint16_t)i, 53, 1, 42) >> 27]++;
	}
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < 16; i++)
			assert_in_range(parts[k][i], 1800, 2200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_checksum_full),
		cmocka_unit_test(test_ttl_checksum),
		cmocka_unit_test(test_checksum_update),
		cmocka_unit_test(test_checksum_bits),
		cmocka_unit_test(test_frame_alloc),
		cmocka_unit_test(test_frame_references),
#ifndef ROUTERD_SANITIZED
		cmocka_unit_test(test_frame_put_twice),
#endif
		cmocka_unit_test(test_frame_addr),
		cmocka_unit_test(test_frame_threads),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_parse_ways),
		cmocka_unit_test(test_parse_extensions),
		cmocka_unit_test(test_parse_extension_too_long),
		cmocka_unit_test(test_hash_symmetric),
		cmocka_unit_test(test_hash_fields),
		cmocka_unit_test(test_hash_fragments),
		cmocka_unit_test(test_hash_short),
		cmocka_unit_test(test_hash_icmp),
		cmocka_unit_test(test_hash_ipv6),
		cmocka_unit_test(test_hash_even),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
