/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What a forwarded packet costs: the worker's loop on memory ports that copy nothing, with a full-sized table.
 * Prints time per packet; run under valgrind --tool=callgrind --toggle-collect=measured_loop (engine.sh does) it gives
 * instructions. The packets are written outside of the measured part.
 *
 *	bench_engine [-6] [-f FLOWS] [-n PACKETS] [-r ROUTES] [-v] [-m]
 *	-6 IPv6   -f flows (256)   -n packets (64000)   -r routes (1000000)   -v out of a VLAN sub-interface
 *	-m multipath: two equal next hops, hash policy 1
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "replay/build.h"
#include "replay/replay.h"

struct bench {
	struct replay *r;
	bool ipv6, vlan, multipath;
	unsigned flows, routes;
	unsigned long packets;
	uint8_t (*templates)[128];
	uint32_t length;
};

void measured_loop(struct replay *r);

/* As worker.c does it, for one receive queue. Not inlined: callgrind collects inside. */
__attribute__((noinline)) void measured_loop(struct replay *r)
{
	replay_step_worker(r, 0);
}

static void die(const char *what, int e)
{
	fprintf(stderr, "bench_engine: %s: %s\n", what, strerror(-e));
	exit(1);
}

static uint32_t make_group(struct bench *b)
{
	struct fib_path_spec paths[2] = { { 0 } };
	uint32_t group;
	int e;

	for (unsigned i = 0; i < 2; i++) {
		paths[i].iface = b->vlan ? 20 : 2;
		paths[i].weight = 1;
		paths[i].gateway_family = 4;
		memcpy(paths[i].gateway, (const uint8_t[]){ 10, 0, 1, (uint8_t)(2 + i) }, 4);
	}
	e = fib_group_get(b->r->fib, VERDICT_FORWARD, 0, paths, b->multipath ? 2 : 1, &group);
	if (e < 0)
		die("group", e);
	return group;
}

/* A table of the size and shape of the Internet's: mostly /24 and /22, /48 and /32, by a fixed seed. */
static void fill_table(struct bench *b, uint32_t group)
{
	uint64_t seed = 7;

	for (unsigned i = 0; i < b->routes; i++) {
		uint64_t x = build_random(&seed);
		uint8_t plen = x % 10 < 6 ? 24 : x % 10 < 9 ? 22 : 16;
		uint8_t p[16] = { 0x20, (uint8_t)(x >> 40 & 15), (uint8_t)(x >> 32), (uint8_t)(x >> 24),
			(uint8_t)(x >> 16), (uint8_t)(x >> 8) };
		int e;

		if (b->ipv6)
			e = fib_route6_set(b->r->fib, p, 48, group);
		else
			e = fib_route4_set(b->r->fib, (uint32_t)(0x0b000000 + (x >> 32) % 0x70000000) & ~0u << (32 - plen),
				plen, group);
		if (e < 0)
			die("route", e);
	}
}

static void make_templates(struct bench *b)
{
	uint64_t seed = 7;
	uint8_t bytes[256];
	char dst[64];

	b->templates = calloc(b->flows, sizeof(*b->templates));
	for (unsigned i = 0; i < b->flows; i++) {
		uint64_t x = build_random(&seed);

		/* The same addresses as in the table: each flow takes a route of its own. */
		if (b->ipv6)
			snprintf(dst, sizeof(dst), "20%02x:%x:%x::9", (unsigned)(x >> 40 & 15),
				(unsigned)(x >> 24 & 0xffff), (unsigned)(x >> 8 & 0xffff));
		else
			snprintf(dst, sizeof(dst), "%u.%u.%u.9",
				(unsigned)((0x0b000000 + (x >> 32) % 0x70000000) >> 24),
				(unsigned)((0x0b000000 + (x >> 32) % 0x70000000) >> 16 & 255),
				(unsigned)((0x0b000000 + (x >> 32) % 0x70000000) >> 8 & 255));
		/* 64 bytes on the wire with the FCS; IPv6 needs 62 at least. */
		b->length = build(&(struct build){ .dst = dst, .sport = (uint16_t)(1000 + i),
			.payload = b->ipv6 ? 2 : 18 }, bytes);
		memcpy(b->templates[i], bytes, b->length);
	}
}

static void set_up(struct bench *b)
{
	uint32_t group;

	b->r = replay_new(&(struct replay_options){ .discard = true, .frames = 1024, .fill_size = 128 });
	if (b->vlan)
		replay_add_vlan(b->r, 20, 1, 100, 0x8100);
	replay_neigh(b->r, b->vlan ? 20 : 2, "10.0.1.2", 1, 1);
	replay_neigh(b->r, b->vlan ? 20 : 2, "10.0.1.3", 1, 1);
	if (b->multipath) {
		struct fib_settings s = *fib_settings(b->r->fib);

		s.hash_policy4 = s.hash_policy6 = 1;
		fib_settings_set(b->r->fib, &s);
	}
	group = make_group(b);
	fill_table(b, group);
	make_templates(b);
}

static void run(struct bench *b)
{
	unsigned long done = 0, loops = 0;
	uint64_t ns = 0;

	for (; done < b->packets; loops++) {
		uint64_t start;

		for (unsigned i = 0; i < BATCH_SIZE; i++)
			if (!replay_inject(b->r, 0, b->templates[done++ % b->flows], b->length))
				die("inject", -ENOBUFS);
		b->r->pipelines[0].now_ns = b->r->now_ns += NS_PER_MS;
		start = clock_now_ns();
		measured_loop(b->r);
		ns += clock_now_ns() - start;
	}
	if (replay_count(b->r, 0, VERDICT_FORWARD) != done)
		die("not everything was forwarded", -EIO);
	printf("packets %lu, batches of %u, %.1f ns/packet\n", done, BATCH_SIZE, (double)ns / (double)done);
}

int main(int argc, char **argv)
{
	struct bench b = { .flows = 256, .packets = 64000, .routes = 1000000 };
	int c;

	while ((c = getopt(argc, argv, "6f:n:r:vm")) != -1) {
		switch (c) {
		case '6': b.ipv6 = true; break;
		case 'f': b.flows = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'n': b.packets = strtoul(optarg, NULL, 10); break;
		case 'r': b.routes = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'v': b.vlan = true; break;
		case 'm': b.multipath = true; break;
		default:
			fprintf(stderr, "usage: bench_engine [-6] [-f FLOWS] [-n PACKETS] [-r ROUTES] [-v] [-m]\n");
			return 2;
		}
	}
	if (!b.flows)
		b.flows = 1;
	set_up(&b);
	run(&b);
	replay_finish(b.r);
	free(b.templates);
	return 0;
}
