/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The world of test_ports.c: three network namespaces of this process, two links, a FIB filled by hand, packets and the
 * sums that must balance.
 */
#ifndef ROUTERD_TESTS_UNIT_PORTS_LAB_H
#define ROUTERD_TESTS_UNIT_PORTS_LAB_H

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urcu-qsbr.h>
#include <cmocka.h>

#include "common/clock.h"
#include "control/ports.h"
#include "route/fib.h"

#define SKIPPED 77
#define FRAME_MAX 1514
#define PAYLOAD "routerd"

enum { ROUTER, HOST_A, HOST_B, NAMESPACES };

static int namespaces[NAMESPACES];
static const uint8_t mac_a[6] = { 2, 0, 0, 0, 0, 0xa }, mac_b[6] = { 2, 0, 0, 0, 0, 0xb };
static const uint8_t mac_pa[6] = { 2, 0, 0, 0, 1, 0xa }, mac_pb[6] = { 2, 0, 0, 0, 1, 0xb };

static unsigned chunk = 2048;
static bool busy_poll;
static struct fib *fib;
static struct ports *ports;
static uint16_t pa, pb;
static int host_a, host_b;  /* AF_PACKET sockets in the hosts' namespaces */

/* ---- the world ---- */

static void enter(int which)
{
	assert_int_equal(setns(namespaces[which], CLONE_NEWNET), 0);
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
	char command[512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(command, sizeof(command) - 16, format, args);
	va_end(args);
	snprintf(command + n, sizeof(command) - (size_t)n, " >/dev/null 2>&1");
	if (system(command) != 0)
		fail_msg("%s", command);
}

static int new_namespace(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0) {
		printf("SKIP: cannot make a network namespace (run as root): %s\n", strerror(errno));
		exit(SKIPPED);
	}
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		exit(1);
	return fd;
}

/* ---- network cards in place of veth ---- */

static char nics[4][16];
static bool nics_ready;

static bool has_nics(void)
{
	const char *text = getenv("ROUTERD_TEST_NICS");

	return text && sscanf(text, "%15s %15s %15s %15s", nics[0], nics[1], nics[2], nics[3]) == 4;
}

static void make_pair(const char *port, const char *mac, const char *host, const char *host_mac, int which, unsigned queues)
{
	enter(ROUTER);
	run("ip link add %s address %s numrxqueues %u numtxqueues %u type veth peer name %s address %s numrxqueues %u "
		"numtxqueues %u netns /proc/%d/fd/%d", port, mac, queues, queues, host, host_mac, queues, queues, getpid(),
		namespaces[which]);
	run("ip link set %s up", port);
	enter(which);
	run("ip link set %s up", host);
	run("ethtool -K %s tx off tso off gso off gro off txvlan off", host);
	enter(ROUTER);
}

static void take_nic(int from, const char *old, int which, const char *name, const char *mac)
{
	assert_int_equal(setns(from, CLONE_NEWNET), 0);
	run("ip link set %s down", old);
	run("ip link set %s name %s netns /proc/%d/fd/%d", old, name, getpid(), namespaces[which]);
	enter(which);
	run("ip link set %s address %s", name, mac);
	run("ip link set %s up", name);
	run("ethtool -K %s tx off tso off gso off gro off rxvlan off txvlan off; true", name);
	enter(ROUTER);
}

static void take_nics(void)
{
	int from = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);

	take_nic(from, nics[0], ROUTER, "pa", "02:00:00:00:01:0a");
	take_nic(from, nics[1], HOST_A, "a0", "02:00:00:00:00:0a");
	take_nic(from, nics[2], ROUTER, "pb", "02:00:00:00:01:0b");
	take_nic(from, nics[3], HOST_B, "b0", "02:00:00:00:00:0b");
	close(from);
	nics_ready = true;
}

static bool is_running(int which, const char *name)
{
	struct ifreq r = { 0 };
	int fd, ok;

	enter(which);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	ok = ioctl(fd, SIOCGIFFLAGS, &r) == 0 && r.ifr_flags & IFF_RUNNING;
	close(fd);
	enter(ROUTER);
	return ok;
}

/* Attaching a program costs some cards their link for seconds. */
static void wait_for_links(void)
{
	unsigned calm = 0;

	for (unsigned i = 0; i < 300 && calm < 20; i++) {
		usleep(50000);
		calm = is_running(ROUTER, "pa") && is_running(ROUTER, "pb") && is_running(HOST_A, "a0") &&
			is_running(HOST_B, "b0") ? calm + 1 : 0;
	}
	assert_true(calm == 20);
}

static void make_links(unsigned queues)
{
	if (has_nics()) {
		if (!nics_ready)
			take_nics();
	} else {
		make_pair("pa", "02:00:00:00:01:0a", "a0", "02:00:00:00:00:0a", HOST_A, queues);
		make_pair("pb", "02:00:00:00:01:0b", "b0", "02:00:00:00:00:0b", HOST_B, queues);
	}
	run("ip addr replace 10.1.0.1/24 dev pa");
	run("ip addr replace 10.2.0.1/24 dev pb");
	run("ip neigh replace 10.1.0.2 lladdr 02:00:00:00:00:0a dev pa");
	run("ip neigh replace 10.2.0.2 lladdr 02:00:00:00:00:0b dev pb");
	run("sysctl -w net.ipv4.ip_forward=1");
	run("ip link set lo up");
}

static void remove_links(void)
{
	chunk = 2048;
	busy_poll = false;
	if (has_nics())
		return;
	enter(ROUTER);
	run("ip link del pa");
	run("ip link del pb");
}

static int packet_socket(int which, const char *device)
{
	struct sockaddr_ll a = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int fd, size = 4 << 20;

	enter(which);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	a.sll_ifindex = (int)if_nametoindex(device);
	assert_true(fd >= 0 && a.sll_ifindex > 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	enter(ROUTER);
	return fd;
}

/* ---- the FIB, by hand ---- */

static void *heap_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void heap_release(void *ctx, void *p, size_t bytes)
{
	(void)ctx;
	(void)bytes;
	free(p);
}

static void set_iface(uint16_t number, const char *name, const uint8_t mac[6])
{
	struct fib_iface i = { .ifindex = if_nametoindex(name), .mtu = 1500, .mtu6 = 1500, .number = number,
		.port = (uint16_t)(number - 1), .flags = FIB_IFACE_UP | FIB_IFACE_FORWARDING4 | FIB_IFACE_FORWARDING6 };

	memcpy(i.mac, mac, 6);
	snprintf(i.name, sizeof(i.name), "%s", name);
	assert_int_equal(fib_iface_set(fib, &i), 0);
}

static void set_route(uint32_t prefix, uint16_t iface, uint32_t host, const uint8_t mac[6])
{
	struct fib_path_spec path = { .iface = iface, .weight = 1 };
	uint32_t group, slot;
	uint8_t addr[16] = { 0 };

	store_be32(addr, host);
	assert_int_equal(fib_neigh_get(fib, iface, 4, addr, &slot), 0);
	fib_neigh_set_mac(fib, slot, mac, true);
	assert_int_equal(fib_group_get(fib, VERDICT_FORWARD, 0, &path, 1, &group), 0);
	assert_int_equal(fib_route4_set(fib, prefix, 24, group), 0);
}

static void make_fib(void)
{
	const struct route_memory memory = { .alloc = heap_alloc, .release = heap_release, .retire = heap_release };

	fib = fib_new(&memory, 1);
	assert_non_null(fib);
	set_iface(1, "pa", mac_pa);
	set_iface(2, "pb", mac_pb);
	set_route(0x0a010000, 1, 0x0a010002, mac_a);
	set_route(0x0a020000, 2, 0x0a020002, mac_b);
}

/* ---- packets ---- */

/* RFC 1071, word by word; not the daemon's own. */
static void set_header_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	store_be16(ip + 10, 0);
	for (unsigned i = 0; i < 20; i += 2)
		sum += load_be16(ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	store_be16(ip + 10, (uint16_t)~sum);
}

struct udp_frame {
	uint8_t bytes[FRAME_MAX];
	unsigned length;
};

static struct udp_frame make_udp(const uint8_t *dst_mac, const uint8_t *src_mac, uint32_t src, uint32_t dst, uint8_t ttl,
	unsigned payload, uint32_t number)
{
	struct udp_frame f = { .length = 14 + 28 + payload };
	uint8_t *ip = f.bytes + 14;

	memcpy(f.bytes, dst_mac, 6);
	memcpy(f.bytes + 6, src_mac, 6);
	store_be16(f.bytes + 12, ETH_P_IP);
	ip[0] = 0x45;
	store_be16(ip + 2, (uint16_t)(28 + payload));
	store_be16(ip + 4, (uint16_t)number);
	ip[8] = ttl;
	ip[9] = 17;
	store_be32(ip + 12, src);
	store_be32(ip + 16, dst);
	store_be16(ip + 20, (uint16_t)(1024 + number % 64));
	store_be16(ip + 22, 4242);
	store_be16(ip + 24, (uint16_t)(8 + payload));
	for (unsigned i = 0; i < payload; i++)
		ip[28 + i] = (uint8_t)(PAYLOAD[i % 7] + number);
	set_header_checksum(ip);
	return f;
}

/* By source address and port, so that cards that look at either spread them over their queues. */
static struct udp_frame a_to_b(unsigned payload, uint32_t number)
{
	return make_udp(mac_pa, mac_a, 0x0a010002 + number % 64, 0x0a020002, 64, payload, number);
}

static struct udp_frame b_to_a(unsigned payload, uint32_t number)
{
	return make_udp(mac_pb, mac_b, 0x0a020002 + number % 64, 0x0a010002, 64, payload, number);
}

static void send_frame(int fd, const struct udp_frame *f)
{
	assert_int_equal(send(fd, f->bytes, f->length, 0), f->length);
}

/* The next IPv4 frame to @dst_mac that the socket's device received; its length, or 0 after @ms. Bytes of other kinds
 * (the hosts' neighbour discovery) and of frames that were sent there are passed over. */
static unsigned receive_frame(int fd, const uint8_t *dst_mac, uint8_t *out, int ms)
{
	uint64_t end = clock_now_ns() + (uint64_t)ms * NS_PER_MS;

	for (;;) {
		struct sockaddr_ll from;
		socklen_t length = sizeof(from);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_now_ns();
		ssize_t n;

		if (now >= end || poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1) <= 0)
			return 0;
		n = recvfrom(fd, out, FRAME_MAX, 0, (struct sockaddr *)&from, &length);
		if (n >= 14 && from.sll_pkttype != PACKET_OUTGOING && load_be16(out + 12) == ETH_P_IP && memcmp(out, dst_mac, 6) == 0)
			return (unsigned)n;
	}
}

/* What must arrive: one hop less, new addresses, the checksum right, short frames padded by zeros to 60 bytes. */
static void assert_forwarded(const struct udp_frame *sent, const uint8_t *dst_mac, const uint8_t *src_mac,
	const uint8_t *got, unsigned length)
{
	struct udp_frame want = *sent;
	uint8_t *ip = want.bytes + 14;

	memcpy(want.bytes, dst_mac, 6);
	memcpy(want.bytes + 6, src_mac, 6);
	ip[8]--;
	set_header_checksum(ip);
	/* A bridge between the laboratory's cards may cut the padding off again. */
	if (want.length < 60 && !(has_nics() && length == want.length))
		want.length = 60;
	assert_int_equal(length, want.length);
	assert_memory_equal(got, want.bytes, length);
}

/* ---- counters ---- */

static uint64_t verdicts(uint16_t port, enum verdict v)
{
	uint64_t n = 0;

	for (unsigned w = 0; w < ports_workers(ports); w++)
		n += counter_read(&workers_pipeline_stats(ports_get_workers(ports), w)->ports[port].verdicts[v].packets);
	return n;
}

static uint64_t steered(uint16_t port, enum steer_reason reason)
{
	struct port_steer_info i;

	assert_int_equal(ports_steer_info(ports, port, &i), 0);
	return i.packets[reason];
}

static void dump(void)
{
	static const char *const labels[] = {
#define LABEL(name, label, help) label,
		STEER_REASONS(LABEL)
#undef LABEL
	};
	struct port_queue_info q;
	struct port_steer_info s;

	for (uint16_t port = 0; port < 2; port++) {
		if (ports_steer_info(ports, port, &s) < 0)
			continue;
		for (unsigned i = 0; i < STEER_REASON_COUNT; i++)
			if (s.packets[i])
				print_message("port %u steer %s %llu\n", port, labels[i], (unsigned long long)s.packets[i]);
		for (unsigned v = 0; v < VERDICT_COUNT; v++)
			if (verdicts(port, v))
				print_message("port %u verdict %s %llu\n", port, verdict_info[v].label,
					(unsigned long long)verdicts(port, v));
		for (unsigned i = 0; ports_rx_info(ports, port, i, &q) == 0; i++)
			print_message("port %u rx %u: packets %llu waiting %llu fill %llu dropped %llu full %llu empty %llu\n", port, i,
				(unsigned long long)q.packets, (unsigned long long)q.waiting, (unsigned long long)q.in_fill,
				(unsigned long long)q.kernel.rx_dropped, (unsigned long long)q.kernel.rx_ring_full,
				(unsigned long long)q.kernel.rx_fill_ring_empty);
		for (unsigned i = 0; ports_tx_info(ports, port, i, &q) == 0; i++)
			print_message("port %u tx %u: packets %llu completed %llu in flight %llu kicks %llu again %llu errors %llu busy %llu\n",
				port, i, (unsigned long long)q.packets, (unsigned long long)q.completed,
				(unsigned long long)q.in_flight, (unsigned long long)q.kicks, (unsigned long long)q.kick_again,
				(unsigned long long)q.kick_errors, (unsigned long long)q.busy_drops);
	}
}

/* What must arrive, at all: else say where it may have gone. */
static unsigned must_receive(int fd, const uint8_t *dst_mac, uint8_t *out)
{
	unsigned n = receive_frame(fd, dst_mac, out, 2000);

	if (!n) {
		dump();
		fail_msg("nothing arrived within 2 s");
	}
	return n;
}

static void assert_ping_pong(unsigned payload, uint32_t number)
{
	struct udp_frame there = a_to_b(payload, number), back = b_to_a(payload, number);
	uint8_t got[FRAME_MAX];
	unsigned n;

	send_frame(host_a, &there);
	n = must_receive(host_b, mac_b, got);
	assert_forwarded(&there, mac_b, mac_pb, got, n);
	send_frame(host_b, &back);
	n = must_receive(host_a, mac_a, got);
	assert_forwarded(&back, mac_a, mac_pa, got, n);
}

/* What the program handed over = what workers received + what the kernel lost on the way. */
static void assert_port_balanced(uint16_t port)
{
	uint64_t redirected = steered(port, STEER_REDIRECTED), received = 0, lost = 0, decided = 0;
	struct port_queue_info q;

	for (unsigned i = 0; ports_rx_info(ports, port, i, &q) == 0; i++) {
		received += q.packets + q.waiting;
		lost += q.kernel.rx_dropped + q.kernel.rx_ring_full;
		assert_int_equal(q.invalid, 0);
	}
	for (unsigned v = 0; v < VERDICT_COUNT; v++)
		decided += verdicts(port, v);
	assert_int_equal(redirected, received + lost);
	assert_int_equal(received, decided);
	for (unsigned i = 0; ports_tx_info(ports, port, i, &q) == 0; i++) {
		assert_int_equal(q.bogus_completions, 0);
		assert_int_equal(q.packets, q.completed + q.in_flight);
	}
}

static void assert_at_rest(void)
{
	struct ledger l = { 0 };

	for (unsigned i = 0; i < 200; i++) {
		ports_ledger(ports, &l);
		if (l.balanced && !l.records[FRAME_TX] && !l.records[FRAME_WORKER] && !l.records[FRAME_RETURNING])
			break;
		usleep(5000);
	}
	assert_int_equal(l.difference, 0);
	assert_true(l.balanced);
	assert_int_equal(l.records[FRAME_TX], 0);
	assert_int_equal(l.records[FRAME_WORKER], 0);
	assert_int_equal(l.records[FRAME_QUARANTINE], 0);
}

static void assert_all_balanced(void)
{
	assert_at_rest();
	assert_port_balanced(pa);
	assert_port_balanced(pb);
}

/* A packet can be on the wire a moment before its worker has counted it. */
static inline void assert_verdicts(uint16_t port, enum verdict v, uint64_t expected)
{
	for (int i = 0; i < 1000 && verdicts(port, v) != expected; i++)
		usleep(1000);
	assert_int_equal(verdicts(port, v), expected);
}

/* ---- ports ---- */

static int open_port(const char *name, enum xsk_mode mode, uint16_t *ret, struct error *e)
{
	struct port_options o = { .ifindex = if_nametoindex(name), .mode = mode };

	snprintf(o.name, sizeof(o.name), "%s", name);
	return ports_open(ports, &o, ret, e);
}

static void must_open(const char *name, enum xsk_mode mode, uint16_t *ret)
{
	static const uint8_t addresses[2][4] = { { 10, 1, 0, 1 }, { 10, 2, 0, 1 } };
	struct error e = { 0 };

	if (open_port(name, mode, ret, &e) < 0)
		fail_msg("%s: %s", name, e.text);
	assert_int_equal(ports_local_address(ports, AF_INET, addresses[name[1] == 'b'], true), 0);
	assert_int_equal(ports_enable(ports, *ret, true), 0);
}

static void start(unsigned workers, uint64_t memory)
{
	struct ports_options o = { .memory_size = memory, .frame_size = chunk, .workers = workers,
		.busy_poll = busy_poll, .heartbeat_timeout_ms = 800 };
	struct error e = { 0 };

	make_fib();
	if (ports_new(&o, fib, &ports, &e) < 0)
		fail_msg("%s", e.text);
	snprintf(o.deliver_device, sizeof(o.deliver_device), "%s", ports_deliver_device(ports));
	run("sysctl -w net.ipv4.conf.all.rp_filter=1");
}

static void open_both(enum xsk_mode mode)
{
	must_open("pa", mode, &pa);
	must_open("pb", mode, &pb);
	assert_int_equal(pa, 0);
	assert_int_equal(pb, 1);
	host_a = packet_socket(HOST_A, "a0");
	host_b = packet_socket(HOST_B, "b0");
	if (has_nics())
		wait_for_links();
}

static uint32_t program_on(const char *name)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, o);

	assert_int_equal(bpf_xdp_query((int)if_nametoindex(name), 0, &o), 0);
	return o.prog_id ? o.prog_id : o.drv_prog_id ? o.drv_prog_id : o.skb_prog_id;
}

static void assert_nothing_left(const char *device)
{
	assert_int_equal(program_on("pa"), 0);
	assert_int_equal(program_on("pb"), 0);
	assert_int_equal(if_nametoindex(device), 0);
}

static void stop(void)
{
	char device[16];

	if (!ports)
		return;
	snprintf(device, sizeof(device), "%s", ports_deliver_device(ports));
	ports_free(ports);
	ports = NULL;
	assert_nothing_left(device);
	fib_free(fib);
	close(host_a);
	close(host_b);
}

static int set_up(void **state)
{
	(void)state;
	enter(ROUTER);
	make_links(2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	stop();
	remove_links();
	return 0;
}

#endif
