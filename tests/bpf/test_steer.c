/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * bpf/steer.bpf.c by BPF_PROG_TEST_RUN: for every frame the verdict, the one counter it adds to, and the
 * bytes.
 */
#include "harness.h"
#include "packets.h"

#include <linux/bpf.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "../../bpf/shared.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

#define MAX_LENGTH 1514u
#define STALE_NS (10 * NANOSECONDS)
#define VID 100
#define VID_AD 200
#define VID_PASS6 300
#define QUEUES 4
#define HERE4 "192.0.2.1"
#define HERE6 "2001:db8::1"
#define FROM4 "198.51.100.7"
#define TO4 "203.0.113.9"
#define FROM6 "2001:db8:1::7"
#define TO6 "2001:db8:2::9"
#define RANDOM_FRAMES 20000

static struct {
	struct bpf_object *object;
	int program, stats, xsks, port, config, vlans, local4, local6;
	struct steer_heartbeat *heartbeat;
	int socket;
	uint32_t ifindex;
	uint32_t queue; /* the receive queue the next frame is said to come from */
} t;

static const char *const labels[] = {
#define LABEL(name, label, help) label,
	STEER_REASONS(LABEL)
#undef LABEL
};

/* ---- state of the maps: each test starts from "everything is taken on queue 0" ---- */

static void write_port(uint32_t flags, uint32_t link_flags)
{
	struct steer_port port = { .flags = flags, .link.flags = link_flags, .max_length = MAX_LENGTH };
	uint32_t zero = 0;

	memcpy(port.link.mac, port_mac, 6);
	memset(port.queue_worker, STEER_NO_WORKER, sizeof(port.queue_worker));
	port.queue_worker[0] = 0;
	port.queue_worker[1] = 5;
	port.queue_worker[2] = 63;
	must(!bpf_map_update_elem(t.port, &zero, &port, BPF_ANY));
}

static void write_config(uint64_t stale_ns)
{
	struct steer_config config = { .stale_ns = stale_ns };
	uint32_t zero = 0;

	must(!bpf_map_update_elem(t.config, &zero, &config, BPF_ANY));
}

static void write_vlan(uint16_t protocol, uint16_t id, uint32_t flags)
{
	struct steer_vlan_key key = { .protocol = protocol, .id = id };
	struct steer_link link = { .flags = flags };

	memcpy(link.mac, vlan_mac, 6);
	must(!bpf_map_update_elem(t.vlans, &key, &link, BPF_ANY));
}

static void set_socket(uint32_t queue, int set)
{
	if (set)
		must(!bpf_map_update_elem(t.xsks, &queue, &t.socket, BPF_ANY));
	else
		bpf_map_delete_elem(t.xsks, &queue);
}

static int reset(void **state)
{
	(void)state;
	write_port(STEER_ENABLED, 0);
	write_config(STALE_NS);
	memset(t.heartbeat, 0, STEER_WORKERS * sizeof(*t.heartbeat));
	t.heartbeat[0].nanoseconds = now_ns();
	for (uint32_t q = 0; q < QUEUES; q++)
		set_socket(q, q == 0);
	t.queue = 0;
	return 0;
}

static void add_address(int map, int family, const char *text)
{
	uint8_t key[16];
	uint32_t value = 0;

	must(inet_pton(family, text, key) == 1);
	must(!bpf_map_update_elem(map, key, &value, BPF_ANY));
}

static int load(void **state)
{
	const char *path = object_path("STEER_OBJECT", "build/bpf/steer.bpf.o");

	(void)state;
	t.object = bpf_object__open(path);
	if (!t.object || bpf_object__load(t.object))
		fail_msg("%s: %s", path, strerror(errno));
	t.program = program_fd(t.object, "steer");
	t.stats = map_fd(t.object, "steer_stats");
	t.xsks = map_fd(t.object, "xsks");
	t.port = map_fd(t.object, "port_config");
	t.config = map_fd(t.object, "steer_config");
	t.vlans = map_fd(t.object, "vlans");
	t.local4 = map_fd(t.object, "local4");
	t.local6 = map_fd(t.object, "local6");
	t.heartbeat = mmap(NULL, STEER_WORKERS * sizeof(*t.heartbeat), PROT_READ | PROT_WRITE, MAP_SHARED,
		map_fd(t.object, "heartbeat"), 0);
	must(t.heartbeat != MAP_FAILED);
	/* The map takes a socket that is not bound; test runs only ask for the verdict. */
	t.socket = socket(AF_XDP, SOCK_RAW, 0);
	must(t.socket >= 0);
	shell("ip link add steer0 numrxqueues 4 numtxqueues 4 type veth"
	      " peer name steer1 numrxqueues 4 numtxqueues 4"
	      " && ethtool -L steer0 rx 4 tx 4 >/dev/null");
	t.ifindex = if_nametoindex("steer0");
	add_address(t.local4, AF_INET, HERE4);
	add_address(t.local6, AF_INET6, HERE6);
	write_vlan(0x8100, VID, 0);
	write_vlan(0x88a8, VID_AD, 0);
	write_vlan(0x8100, VID_PASS6, STEER_PASS_IPV6);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	munmap(t.heartbeat, STEER_WORKERS * sizeof(*t.heartbeat));
	close(t.socket);
	bpf_object__close(t.object);
	return 0;
}

/* ---- one frame through the program ---- */

static void read_stats(uint64_t stats[][2])
{
	for (uint32_t r = 0; r < STEER_REASON_COUNT; r++)
		read_pair(t.stats, r, stats[r]);
}

static void expect_one_count(uint64_t before[][2], uint64_t after[][2], uint32_t reason, uint32_t bytes)
{
	for (uint32_t r = 0; r < STEER_REASON_COUNT; r++) {
		uint64_t packets = after[r][0] - before[r][0], sum = after[r][1] - before[r][1];

		if (packets != (r == reason) || sum != (r == reason ? bytes : 0))
			fail_msg("expected %s, but %s counted %llu packets, %llu bytes", labels[reason],
				labels[r], (unsigned long long)packets, (unsigned long long)sum);
	}
}

static void expect(const struct frame *f, enum steer_reason reason)
{
	uint64_t before[STEER_REASON_COUNT][2], after[STEER_REASON_COUNT][2];
	struct xdp_md context = { .data_end = f->length, .ingress_ifindex = t.ifindex,
		.rx_queue_index = t.queue };
	uint8_t out[FRAME_ROOM];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f->bytes, .data_size_in = f->length, .data_out = out,
		.data_size_out = sizeof(out), .ctx_in = &context, .ctx_size_in = sizeof(context));

	read_stats(before);
	must(!bpf_prog_test_run_opts(t.program, &opts));
	read_stats(after);
	expect_one_count(before, after, reason, f->length);
	assert_int_equal(opts.retval, reason == STEER_REDIRECTED ? XDP_REDIRECT : XDP_PASS);
	assert_int_equal(opts.data_size_out, f->length);
	assert_memory_equal(out, f->bytes, f->length);
}

static void expect4(const char *from, const char *to, enum steer_reason reason)
{
	struct frame f;

	ipv4_packet(&f, from, to);
	expect(&f, reason);
}

static void expect6(const char *from, const char *to, enum steer_reason reason)
{
	struct frame f;

	ipv6_packet(&f, from, to);
	expect(&f, reason);
}

/* ---- tests ---- */

static void plain_packets_are_redirected(void **state)
{
	(void)state;
	expect4(FROM4, TO4, STEER_REDIRECTED);
	expect6(FROM6, TO6, STEER_REDIRECTED);
}

static void disabled_port_passes_everything(void **state)
{
	struct frame f;

	(void)state;
	write_port(0, 0);
	expect4(FROM4, TO4, STEER_DISABLED);
	ethernet(&f, port_mac, 0x0806);
	expect(&f, STEER_DISABLED);
	write_port(STEER_FRAGMENTS, 0);
	expect4(FROM4, TO4, STEER_DISABLED);
}

static void other_protocols_are_passed(void **state)
{
	static const uint16_t protocols[] = { 0x0806, 0x88cc, 0x8863, 0x8864, 0x8847, 0x9100, 0xffff };
	static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct frame f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		ipv4_packet(&f, FROM4, TO4);
		put16(f.bytes + 12, protocols[i]);
		expect(&f, STEER_NOT_IP);
		set_destination(&f, broadcast);
		expect(&f, STEER_NOT_IP);
	}
}

static void destination_mac(void **state)
{
	static const struct {
		uint8_t mac[6];
		enum steer_reason reason;
	} cases[] = {
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, STEER_L2_MULTICAST },
		{ { 0x01, 0x00, 0x5e, 0, 0, 1 }, STEER_L2_MULTICAST },
		{ { 0x33, 0x33, 0, 0, 0, 1 }, STEER_L2_MULTICAST },
		{ { 0x03, 0x10, 0x20, 0x30, 0x40, 0x50 }, STEER_L2_MULTICAST },
		{ { 0, 0, 0, 0, 0, 0 }, STEER_NOT_OUR_MAC },
		{ { 0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee }, STEER_NOT_OUR_MAC },
	};
	struct frame f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ipv4_packet(&f, FROM4, TO4);
		set_destination(&f, cases[i].mac);
		expect(&f, cases[i].reason);
		ipv6_packet(&f, FROM6, TO6);
		set_destination(&f, cases[i].mac);
		expect(&f, cases[i].reason);
	}
	for (int byte = 0; byte < 6; byte++) { /* each byte of the address is looked at */
		ipv4_packet(&f, FROM4, TO4);
		f.bytes[byte] ^= 0x80;
		expect(&f, STEER_NOT_OUR_MAC);
	}
	ipv4_packet(&f, FROM4, TO4);
	f.bytes[6] |= 1; /* a multicast source address is no reason (semantics V4) */
	expect(&f, STEER_REDIRECTED);
}

static void vlan_tags(void **state)
{
	struct frame f;

	(void)state;
	ipv4_packet(&f, FROM4, TO4);
	push_vlan(&f, 0x8100, VID);
	expect(&f, STEER_NOT_OUR_MAC); /* the port's address is not the sub-interface's */
	set_destination(&f, vlan_mac);
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + 14, 0xf000 | VID); /* priority and drop-eligible bits do not matter */
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + 14, VID + 1);
	expect(&f, STEER_VLAN_UNKNOWN);
	put16(f.bytes + 14, VID_AD); /* known, but as 802.1ad */
	expect(&f, STEER_VLAN_UNKNOWN);
	put16(f.bytes + 12, 0x88a8);
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + 14, 4095);
	expect(&f, STEER_VLAN_UNKNOWN);
	put16(f.bytes + 14, 0xe000);
	expect(&f, STEER_VLAN_PRIORITY);
	ipv6_packet(&f, FROM6, TO6);
	push_vlan(&f, 0x8100, VID);
	set_destination(&f, vlan_mac);
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + 16, 0x0806);
	expect(&f, STEER_NOT_IP);
}

static void vlan_tag_pairs(void **state)
{
	static const uint16_t outer[] = { 0x8100, 0x88a8 }, ids[] = { 0, VID, VID_AD, VID + 1 };
	struct frame f;

	(void)state;
	for (size_t o = 0; o < ARRAY_SIZE(outer); o++)
		for (size_t i = 0; i < ARRAY_SIZE(outer); i++)
			for (size_t id = 0; id < ARRAY_SIZE(ids); id++) {
				ipv4_packet(&f, FROM4, TO4);
				set_destination(&f, vlan_mac);
				push_vlan(&f, outer[i], VID);
				push_vlan(&f, outer[o], ids[id]);
				expect(&f, STEER_VLAN_PRIORITY);
			}
}

static void tagged_packets_are_judged_like_untagged(void **state)
{
	struct frame f;

	(void)state;
	ipv4_packet(&f, FROM4, HERE4);
	push_vlan(&f, 0x8100, VID);
	set_destination(&f, vlan_mac);
	expect(&f, STEER_LOCAL);
	ipv6_packet(&f, FROM6, TO6);
	push_vlan(&f, 0x8100, VID);
	set_destination(&f, vlan_mac);
	f.bytes[f.l3 + 7] = 1;
	expect(&f, STEER_TTL);
	f.bytes[0] |= 1;
	expect(&f, STEER_L2_MULTICAST);
}

static void family_not_forwarded(void **state)
{
	struct frame f;

	(void)state;
	write_port(STEER_ENABLED, STEER_PASS_IPV4);
	expect4(FROM4, TO4, STEER_FORWARDING_OFF);
	expect6(FROM6, TO6, STEER_REDIRECTED);
	write_port(STEER_ENABLED, STEER_PASS_IPV6);
	expect4(FROM4, TO4, STEER_REDIRECTED);
	expect6(FROM6, TO6, STEER_FORWARDING_OFF);
	ipv6_packet(&f, FROM6, TO6); /* a sub-interface has flags of its own */
	set_destination(&f, vlan_mac);
	push_vlan(&f, 0x8100, VID);
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + 14, VID_PASS6);
	expect(&f, STEER_FORWARDING_OFF);
}

static void time_to_live(void **state)
{
	struct frame f;

	(void)state;
	for (int ttl = 0; ttl < 256; ttl++) {
		ipv4_packet(&f, FROM4, TO4);
		f.bytes[f.l3 + 8] = ttl;
		seal_ipv4(&f);
		expect(&f, ttl <= 1 ? STEER_TTL : STEER_REDIRECTED);
		ipv6_packet(&f, FROM6, TO6);
		f.bytes[f.l3 + 7] = ttl;
		expect(&f, ttl <= 1 ? STEER_TTL : STEER_REDIRECTED);
	}
}

static void first_byte_of_the_ip_header(void **state)
{
	struct frame f;

	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		int version = byte >> 4, ihl = byte & 15;

		ipv4_packet(&f, FROM4, TO4);
		f.bytes[f.l3] = byte;
		expect(&f, version == 4 && ihl != 5 ? STEER_OPTIONS : STEER_REDIRECTED);
		ipv6_packet(&f, FROM6, TO6);
		f.bytes[f.l3] = byte;
		expect(&f, STEER_REDIRECTED);
	}
	ipv4_packet(&f, FROM4, HERE4); /* of another version: nothing else in the header counts */
	f.bytes[f.l3] = 0x55;
	f.bytes[f.l3 + 8] = 0;
	expect(&f, STEER_REDIRECTED);
}

static void invalid_packets_are_user_space_business(void **state)
{
	struct frame f;

	(void)state;
	ipv4_packet(&f, FROM4, TO4);
	f.bytes[f.l3 + 10] ^= 0xff; /* checksum */
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + f.l3 + 2, 19); /* total length */
	expect(&f, STEER_REDIRECTED);
	put16(f.bytes + f.l3 + 2, 65535);
	expect(&f, STEER_REDIRECTED);
	ipv6_packet(&f, FROM6, TO6);
	put16(f.bytes + f.l3 + 4, 65535);
	expect(&f, STEER_REDIRECTED);
}

static void transit_fragments_are_redirected(void **state)
{
	static const uint16_t fields[] = { 0x2000, 0x0001, 0x2001, 0x1fff, 0x4000, 0x8000 };
	struct frame f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		ipv4_packet(&f, FROM4, TO4);
		put16(f.bytes + f.l3 + 6, fields[i]);
		seal_ipv4(&f);
		expect(&f, STEER_REDIRECTED);
	}
	ipv6_packet(&f, FROM6, TO6);
	f.bytes[f.l3 + 6] = 44;
	expect(&f, STEER_REDIRECTED);
}

static void ipv6_next_headers(void **state)
{
	struct frame f;

	(void)state;
	for (int next = 0; next < 256; next++) {
		ipv6_packet(&f, FROM6, TO6); /* payload starts with 0x0f: no neighbour discovery type */
		f.bytes[f.l3 + 6] = next;
		expect(&f, next == 0 ? STEER_HOP_BY_HOP : STEER_REDIRECTED);
	}
}

static void neighbour_discovery(void **state)
{
	struct frame f;

	(void)state;
	for (int type = 0; type < 256; type++) {
		ipv6_packet(&f, FROM6, TO6);
		f.bytes[f.l3 + 6] = 58;
		f.bytes[f.l3 + IPV6_HEADER] = type;
		expect(&f, type >= 133 && type <= 137 ? STEER_ICMPV6_ND : STEER_REDIRECTED);
	}
	f.bytes[f.l3 + IPV6_HEADER] = 135; /* behind the end of the frame the byte is not there */
	f.length = f.l3 + IPV6_HEADER;
	expect(&f, STEER_REDIRECTED);
	f.length++;
	expect(&f, STEER_ICMPV6_ND);
}

static void ipv4_destinations(void **state)
{
	(void)state;
	expect4(FROM4, HERE4, STEER_LOCAL);
	expect4(FROM4, "192.0.2.0", STEER_REDIRECTED);
	expect4(FROM4, "192.0.2.2", STEER_REDIRECTED);
	expect4(FROM4, "223.255.255.255", STEER_REDIRECTED);
	expect4(FROM4, "224.0.0.0", STEER_MULTICAST);
	expect4(FROM4, "239.255.255.255", STEER_MULTICAST);
	expect4(FROM4, "240.0.0.0", STEER_REDIRECTED); /* F5 */
	expect4(FROM4, "255.255.255.254", STEER_REDIRECTED);
	expect4(FROM4, "255.255.255.255", STEER_SPECIAL_ADDRESS);
	expect4(FROM4, "0.0.0.0", STEER_SPECIAL_ADDRESS);
	expect4(FROM4, "0.0.0.1", STEER_REDIRECTED); /* V1 */
	expect4(FROM4, "126.255.255.255", STEER_REDIRECTED);
	expect4(FROM4, "127.0.0.0", STEER_SPECIAL_ADDRESS);
	expect4(FROM4, "127.255.255.255", STEER_SPECIAL_ADDRESS);
	expect4(FROM4, "128.0.0.0", STEER_REDIRECTED);
	expect4(FROM4, "169.254.1.1", STEER_REDIRECTED); /* F5 */
	expect4(FROM4, FROM4, STEER_REDIRECTED); /* F5 */
}

static void ipv4_sources(void **state)
{
	(void)state;
	expect4(HERE4, TO4, STEER_OWN_SOURCE);
	expect4(HERE4, HERE4, STEER_LOCAL);
	expect4("0.0.0.0", TO4, STEER_SPECIAL_ADDRESS);
	expect4("0.0.0.1", TO4, STEER_REDIRECTED); /* V1 */
	expect4("127.0.0.1", TO4, STEER_SPECIAL_ADDRESS);
	expect4("126.255.255.255", TO4, STEER_REDIRECTED);
	expect4("128.0.0.0", TO4, STEER_REDIRECTED);
	expect4("223.255.255.255", TO4, STEER_REDIRECTED);
	expect4("224.0.0.1", TO4, STEER_SPECIAL_ADDRESS);
	expect4("239.255.255.255", TO4, STEER_SPECIAL_ADDRESS);
	expect4("240.0.0.1", TO4, STEER_REDIRECTED); /* F5 */
	expect4("255.255.255.255", TO4, STEER_SPECIAL_ADDRESS);
	expect4("255.255.255.255", "224.0.0.1", STEER_MULTICAST);
	expect4("127.0.0.1", HERE4, STEER_SPECIAL_ADDRESS);
}

static void ipv6_addresses(void **state)
{
	(void)state;
	expect6(FROM6, HERE6, STEER_LOCAL);
	expect6(FROM6, "2001:db8::", STEER_REDIRECTED);
	expect6(FROM6, "2001:db8::2", STEER_REDIRECTED);
	expect6(HERE6, TO6, STEER_REDIRECTED); /* no martian in IPv6 */
	expect6(FROM6, "ff00::", STEER_MULTICAST);
	expect6(FROM6, "ff02::1", STEER_MULTICAST);
	expect6("fe80::1", "ff02::1", STEER_MULTICAST);
	expect6("ff02::1", TO6, STEER_SPECIAL_ADDRESS);
	expect6(FROM6, "::", STEER_SPECIAL_ADDRESS);
	expect6(FROM6, "::1", STEER_SPECIAL_ADDRESS);
	expect6(FROM6, "::2", STEER_REDIRECTED); /* V5 */
	expect6(FROM6, "0:0:0:1::", STEER_REDIRECTED);
	expect6("::", TO6, STEER_SPECIAL_ADDRESS);
	expect6("::1", TO6, STEER_SPECIAL_ADDRESS);
	expect6("::ffff:192.0.2.9", TO6, STEER_REDIRECTED); /* V5 */
	expect6(FROM6, "fe7f::1", STEER_REDIRECTED);
	expect6(FROM6, "fe80::", STEER_LINK_LOCAL);
	expect6(FROM6, "febf:ffff::1", STEER_LINK_LOCAL);
	expect6(FROM6, "fec0::1", STEER_REDIRECTED); /* V5 */
	expect6("fe80::1", TO6, STEER_LINK_LOCAL);
	expect6("febf::1", TO6, STEER_LINK_LOCAL);
	expect6("fe80::1", HERE6, STEER_LINK_LOCAL);
	expect6("fe80::1", "::1", STEER_SPECIAL_ADDRESS);
}

static void addresses_come_and_go(void **state)
{
	struct in_addr v4;
	struct in6_addr v6;

	(void)state;
	inet_pton(AF_INET, TO4, &v4);
	inet_pton(AF_INET6, TO6, &v6);
	add_address(t.local4, AF_INET, TO4);
	add_address(t.local6, AF_INET6, TO6);
	expect4(FROM4, TO4, STEER_LOCAL);
	expect6(FROM6, TO6, STEER_LOCAL);
	must(!bpf_map_delete_elem(t.local4, &v4));
	must(!bpf_map_delete_elem(t.local6, &v6));
	expect4(FROM4, TO4, STEER_REDIRECTED);
	expect6(FROM6, TO6, STEER_REDIRECTED);
}

/* The kernel refuses test runs below an Ethernet header; no driver gives such frames to a program either. */
static void frames_of_every_length(void **state)
{
	struct frame v4, v6, tagged4, tagged6;

	(void)state;
	ipv4_packet(&v4, FROM4, TO4);
	ipv6_packet(&v6, FROM6, TO6);
	tagged4 = v4;
	tagged6 = v6;
	push_vlan(&tagged4, 0x8100, VID);
	push_vlan(&tagged6, 0x8100, VID);
	set_destination(&tagged4, vlan_mac);
	set_destination(&tagged6, vlan_mac);
	for (uint32_t length = ETH_HEADER; length <= 64; length++) {
		v4.length = v6.length = tagged4.length = tagged6.length = length;
		expect(&v4, length < 14 + 20 ? STEER_SHORT : STEER_REDIRECTED);
		expect(&v6, length < 14 + 40 ? STEER_SHORT : STEER_REDIRECTED);
		expect(&tagged4, length < 18 + 20 ? STEER_SHORT : STEER_REDIRECTED);
		expect(&tagged6, length < 18 + 40 ? STEER_SHORT : STEER_REDIRECTED);
	}
}

static void less_than_an_ethernet_header_cannot_be_run(void **state)
{
	struct frame f;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f.bytes);

	(void)state;
	ipv4_packet(&f, FROM4, TO4);
	for (uint32_t length = 0; length < ETH_HEADER; length++) {
		opts.data_size_in = length;
		assert_true(bpf_prog_test_run_opts(t.program, &opts) < 0);
	}
}

/* What a chunk of the packet memory cannot hold stays with the kernel, to the byte. */
static void too_long(void **state)
{
	struct frame f;

	(void)state;
	ipv4_packet(&f, FROM4, TO4);
	for (f.length = MAX_LENGTH - 2; f.length <= MAX_LENGTH; f.length++)
		expect(&f, STEER_REDIRECTED);
	for (; f.length <= MAX_LENGTH + 2; f.length++)
		expect(&f, STEER_TOO_LONG);
}

static void heartbeats(void **state)
{
	(void)state;
	t.heartbeat[0].nanoseconds = 0;
	expect4(FROM4, TO4, STEER_STALE);
	t.heartbeat[0].nanoseconds = 1;
	expect4(FROM4, TO4, STEER_STALE);
	t.heartbeat[0].nanoseconds = now_ns() - STALE_NS - 1;
	usleep(50000); /* more than the lag of the coarse clock */
	expect4(FROM4, TO4, STEER_STALE);
	t.heartbeat[0].nanoseconds = now_ns() - STALE_NS + 5 * NANOSECONDS;
	expect4(FROM4, TO4, STEER_REDIRECTED);
	t.heartbeat[0].nanoseconds = now_ns();
	expect4(FROM4, TO4, STEER_REDIRECTED);
	t.heartbeat[0].nanoseconds = now_ns() + STALE_NS / 2; /* ahead of the coarse clock */
	expect4(FROM4, TO4, STEER_REDIRECTED);
	t.heartbeat[0].nanoseconds = now_ns() + 2 * STALE_NS;
	expect4(FROM4, TO4, STEER_STALE);
	t.heartbeat[0].nanoseconds = UINT64_MAX;
	expect4(FROM4, TO4, STEER_STALE);
}

static void worker_that_stops_goes_stale_by_itself(void **state)
{
	(void)state;
	write_config(100 * 1000 * 1000);
	t.heartbeat[0].nanoseconds = now_ns();
	expect4(FROM4, TO4, STEER_REDIRECTED);
	usleep(250000);
	expect4(FROM4, TO4, STEER_STALE);
	expect6(FROM6, TO6, STEER_STALE);
	t.heartbeat[0].nanoseconds = now_ns();
	expect4(FROM4, TO4, STEER_REDIRECTED);
}

static void limits_of_the_limit(void **state)
{
	(void)state;
	write_config(0);
	expect4(FROM4, TO4, STEER_STALE);
	write_config(UINT64_MAX); /* nor does a limit without end revive a worker that said it is gone */
	expect4(FROM4, TO4, STEER_REDIRECTED);
	t.heartbeat[0].nanoseconds = 0;
	expect4(FROM4, TO4, STEER_STALE);
}

static void each_queue_has_its_worker(void **state)
{
	(void)state;
	for (uint32_t q = 0; q < QUEUES; q++)
		set_socket(q, 1);
	t.queue = 1;
	expect4(FROM4, TO4, STEER_STALE);
	t.heartbeat[5].nanoseconds = now_ns();
	expect4(FROM4, TO4, STEER_REDIRECTED);
	t.queue = 2;
	expect4(FROM4, TO4, STEER_STALE);
	t.heartbeat[STEER_WORKERS - 1].nanoseconds = now_ns();
	expect4(FROM4, TO4, STEER_REDIRECTED);
	t.queue = 3; /* STEER_NO_WORKER */
	expect4(FROM4, TO4, STEER_STALE);
}

static void queue_without_socket_passes(void **state)
{
	(void)state;
	t.heartbeat[5].nanoseconds = now_ns();
	t.queue = 1;
	expect4(FROM4, TO4, STEER_NO_SOCKET);
	set_socket(1, 1);
	expect4(FROM4, TO4, STEER_REDIRECTED);
	set_socket(1, 0);
	expect6(FROM6, TO6, STEER_NO_SOCKET);
}

/* The heartbeat is asked only for packets that would be taken: the counters keep telling the true reason. */
static void stale_comes_last(void **state)
{
	struct frame f;

	(void)state;
	t.heartbeat[0].nanoseconds = 0;
	expect4(FROM4, HERE4, STEER_LOCAL);
	ethernet(&f, port_mac, 0x0806);
	expect(&f, STEER_NOT_IP);
}

/* Zero-filled maps, as after the load: everything goes to the kernel. */
static void fresh_maps_pass_everything(void **state)
{
	struct steer_port empty = { 0 };
	uint32_t zero = 0;

	(void)state;
	must(!bpf_map_update_elem(t.port, &zero, &empty, BPF_ANY));
	expect4(FROM4, TO4, STEER_DISABLED);
}

/* ---- random frames against a second, plain formulation of the rules ---- */

static int known_vlan(uint16_t protocol, uint16_t id, const uint8_t **mac)
{
	*mac = vlan_mac;
	return (protocol == 0x8100 && (id == VID || id == VID_PASS6)) || (protocol == 0x88a8 && id == VID_AD);
}

static enum steer_reason model_ipv4(const uint8_t *ip, uint32_t length)
{
	uint32_t here, from, to;

	if (length < IPV4_HEADER)
		return STEER_SHORT;
	if (ip[0] >> 4 != 4)
		return STEER_REDIRECTED;
	if (ip[0] != 0x45)
		return STEER_OPTIONS;
	if (ip[8] < 2)
		return STEER_TTL;
	inet_pton(AF_INET, HERE4, &here);
	memcpy(&from, ip + 12, 4);
	memcpy(&to, ip + 16, 4);
	if (ip[16] >= 224 && ip[16] <= 239)
		return STEER_MULTICAST;
	if (ip[12] == 127 || ip[16] == 127 || (ip[12] >= 224 && ip[12] <= 239))
		return STEER_SPECIAL_ADDRESS;
	if (!from || !to || from == ~0u || to == ~0u)
		return STEER_SPECIAL_ADDRESS;
	return to == here ? STEER_LOCAL : from == here ? STEER_OWN_SOURCE : STEER_REDIRECTED;
}

static int none_or_loopback(const uint8_t *a)
{
	static const uint8_t zeros[15];

	return !memcmp(a, zeros, 15) && a[15] <= 1;
}

static enum steer_reason model_ipv6(const uint8_t *ip, uint32_t length)
{
	const uint8_t *from = ip + 8, *to = ip + 24;
	uint8_t here[16];

	if (length < IPV6_HEADER)
		return STEER_SHORT;
	if (ip[0] >> 4 != 6)
		return STEER_REDIRECTED;
	if (!ip[6])
		return STEER_HOP_BY_HOP;
	if (ip[7] < 2)
		return STEER_TTL;
	if (to[0] == 0xff)
		return STEER_MULTICAST;
	if (from[0] == 0xff || none_or_loopback(from) || none_or_loopback(to))
		return STEER_SPECIAL_ADDRESS;
	if ((get16(from) >= 0xfe80 && get16(from) <= 0xfebf) || (get16(to) >= 0xfe80 && get16(to) <= 0xfebf))
		return STEER_LINK_LOCAL;
	inet_pton(AF_INET6, HERE6, here);
	if (!memcmp(to, here, 16))
		return STEER_LOCAL;
	if (ip[6] == 58 && length > 40 && ip[40] >= 133 && ip[40] <= 137)
		return STEER_ICMPV6_ND;
	return STEER_REDIRECTED;
}

static enum steer_reason model_headers(const struct frame *f)
{
	uint16_t protocol = get16(f->bytes + 12), id = 0;
	const uint8_t *mac = port_mac;
	uint32_t l3 = ETH_HEADER;

	if (protocol == 0x8100 || protocol == 0x88a8) {
		l3 += VLAN_HEADER;
		if (f->length < l3)
			return STEER_SHORT;
		id = get16(f->bytes + 14) & 0xfff;
		if (!id || get16(f->bytes + 16) == 0x8100 || get16(f->bytes + 16) == 0x88a8)
			return STEER_VLAN_PRIORITY;
		if (!known_vlan(protocol, id, &mac))
			return STEER_VLAN_UNKNOWN;
		protocol = get16(f->bytes + 16);
	}
	if (protocol != 0x0800 && protocol != 0x86dd)
		return STEER_NOT_IP;
	if (f->bytes[0] & 1)
		return STEER_L2_MULTICAST;
	if (memcmp(f->bytes, mac, 6))
		return STEER_NOT_OUR_MAC;
	if (id == VID_PASS6 && protocol == 0x86dd)
		return STEER_FORWARDING_OFF;
	if (protocol == 0x0800)
		return model_ipv4(f->bytes + l3, f->length - l3);
	return model_ipv6(f->bytes + l3, f->length - l3);
}

static enum steer_reason model(const struct frame *f)
{
	enum steer_reason reason = model_headers(f);

	return reason == STEER_REDIRECTED && f->length > MAX_LENGTH ? STEER_TOO_LONG : reason;
}

static void random_template(struct frame *f)
{
	static const char *const v4[] = { HERE4, FROM4, TO4, "0.0.0.0", "127.0.0.1", "224.0.0.5",
		"255.255.255.255" };
	static const char *const v6[] = { HERE6, FROM6, TO6, "::", "::1", "fe80::1", "ff02::5" };
	static const uint16_t ids[] = { 0, VID, VID, VID_AD, VID_PASS6, VID_PASS6, 1 };
	uint32_t ttl = 8;

	if (random() % 2) {
		ipv4_packet(f, v4[random() % 7], v4[random() % 7]);
	} else {
		ipv6_packet(f, v6[random() % 7], v6[random() % 7]);
		ttl = 7;
		if (random() % 4 == 0)
			f->bytes[f->l3 + 6] = random() % 2 ? 58 : 0;
		if (random() % 2)
			f->bytes[f->l3 + IPV6_HEADER] = 130 + random() % 10;
	}
	if (random() % 8 == 0)
		f->bytes[f->l3 + ttl] = random() % 3;
	for (int tags = random() % 6; tags > 3; tags--) {
		push_vlan(f, random() % 3 ? 0x8100 : 0x88a8, ids[random() % 7] | (random() % 2 ? 0xe000 : 0));
		set_destination(f, vlan_mac);
	}
}

/*
 * Most frames are a template with up to three bytes changed; one in eight is noise; one in four is cut short, some are stretched to about the longest.
 */
static void random_frame(struct frame *f)
{
	random_template(f);
	if (random() % 8 == 0) {
		for (uint32_t i = random() % 2 ? 0 : 12; i < f->length; i++)
			f->bytes[i] = random();
	} else {
		for (int n = random() % 4; n; n--)
			f->bytes[random() % (f->l3 + 44 < f->length ? f->l3 + 44 : f->length)] = random();
	}
	if (random() % 4 == 0)
		f->length = ETH_HEADER + random() % (f->length - ETH_HEADER);
	else if (random() % 8 == 0)
		f->length = MAX_LENGTH - 2 + random() % 5;
}

/* Reasons that depend on the maps alone, so that no frame of the random test ends there. */
static int set_by_state(uint32_t reason)
{
	return reason == STEER_DISABLED || reason == STEER_STALE || reason == STEER_NO_SOCKET;
}

static void random_frames_follow_the_model(void **state)
{
	const char *text = getenv("STEER_SEED");
	unsigned int seed = text ? strtoul(text, NULL, 0) : (unsigned int)time(NULL);
	uint64_t before[STEER_REASON_COUNT][2], after[STEER_REASON_COUNT][2], packets = 0;

	(void)state;
	print_message("STEER_SEED=%u\n", seed);
	srandom(seed);
	read_stats(before);
	for (int i = 0; i < RANDOM_FRAMES; i++) {
		struct frame f;

		t.heartbeat[0].nanoseconds = now_ns();
		random_frame(&f);
		expect(&f, model(&f));
	}
	read_stats(after);
	for (uint32_t r = 0; r < STEER_REASON_COUNT; r++) {
		packets += after[r][0] - before[r][0];
		if (!set_by_state(r) && after[r][0] == before[r][0])
			fail_msg("no random frame ended as %s: the generator has lost it", labels[r]);
	}
	assert_int_equal(packets, RANDOM_FRAMES); /* each packet is in one counter */
}

/* Ports share these maps: the types must allow it, and the address maps must be sizable. */
static void maps_can_be_shared_and_sized(void **state)
{
	static const char *const shared[] = { "local4", "local6", "heartbeat", "steer_config" };
	struct bpf_object *first = bpf_object__open(object_path("STEER_OBJECT", "build/bpf/steer.bpf.o"));
	struct bpf_object *second = bpf_object__open(object_path("STEER_OBJECT", "build/bpf/steer.bpf.o"));
	struct bpf_map *map;

	(void)state;
	must(first && second);
	map = bpf_object__find_map_by_name(first, "local4");
	assert_int_equal(bpf_map__max_entries(map), STEER_ADDRESSES);
	must(!bpf_map__set_max_entries(map, 1000));
	must(!bpf_object__load(first));
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		map = bpf_object__find_map_by_name(second, shared[i]);
		must(!bpf_map__reuse_fd(map, map_fd(first, shared[i])));
	}
	must(!bpf_object__load(second));
	assert_int_equal(bpf_map__max_entries(bpf_object__find_map_by_name(second, "local4")), 1000);
	bpf_object__close(second);
	bpf_object__close(first);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plain_packets_are_redirected),
		TEST(disabled_port_passes_everything),
		TEST(other_protocols_are_passed),
		TEST(destination_mac),
		TEST(vlan_tags),
		TEST(vlan_tag_pairs),
		TEST(tagged_packets_are_judged_like_untagged),
		TEST(family_not_forwarded),
		TEST(time_to_live),
		TEST(first_byte_of_the_ip_header),
		TEST(invalid_packets_are_user_space_business),
		TEST(transit_fragments_are_redirected),
		TEST(ipv6_next_headers),
		TEST(neighbour_discovery),
		TEST(ipv4_destinations),
		TEST(ipv4_sources),
		TEST(ipv6_addresses),
		TEST(addresses_come_and_go),
		TEST(frames_of_every_length),
		TEST(less_than_an_ethernet_header_cannot_be_run),
		TEST(too_long),
		TEST(heartbeats),
		TEST(worker_that_stops_goes_stale_by_itself),
		TEST(limits_of_the_limit),
		TEST(each_queue_has_its_worker),
		TEST(queue_without_socket_passes),
		TEST(stale_comes_last),
		TEST(fresh_maps_pass_everything),
		TEST(random_frames_follow_the_model),
		TEST(maps_can_be_shared_and_sized),
	};

	skip_without_rights("test_steer");
	return cmocka_run_group_tests(tests, load, unload);
}
