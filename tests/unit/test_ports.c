/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Real ports, workers, programs and sockets in network namespaces of this process (they have no names and go with it):
 *
 *   host A [a0] ---- [pa] router [pb] ---- [b0] host B        10.1.0.2            10.2.0.2
 *
 * The FIB is filled by hand; packets are sent and received by AF_PACKET and compared byte by byte; at the end of each test
 * the frame ledger balances and what the steer program saw is accounted for to the packet.
 * Needs root, veth, AF_XDP; exits 77 without.
 *
 * ROUTERD_TEST_NICS="rt0 h0 rt1 h1": instead, take these network cards (router's side of A, A, router's side of B, B),
 * whose drivers do zero-copy, and test that; for the virtual machine of the zero-copy laboratory.
 */
#include "tests/unit/ports_lab.h"

/* ---- tests ---- */

static void assert_info(uint16_t port, enum xsk_mode mode, bool native)
{
	struct port_info i;

	assert_int_equal(ports_get_info(ports, port, &i), 0);
	assert_int_equal(i.mode, mode);
	assert_int_equal(i.native, native);
	assert_false(i.zero_copy);
	assert_true(i.enabled);
	assert_string_equal(i.driver, "veth");
	assert_int_equal(i.rxq_count, 2);
	assert_int_equal(i.device_rx, 2);
	assert_true(i.rung_reason[0]);
}

static void forward_in(enum xsk_mode mode, bool native)
{
	start(2, 16 << 20);
	open_both(mode);
	assert_info(pa, mode, native);
	for (uint32_t i = 0; i < 40; i++)
		assert_ping_pong(i * 37 % 1470, i);
	assert_ping_pong(0, 41);      /* 42 bytes: padded */
	assert_ping_pong(1472, 42);   /* the MTU to the byte */
	assert_verdicts(pa, VERDICT_FORWARD, 42);
	assert_verdicts(pb, VERDICT_FORWARD, 42);
	assert_all_balanced();
}

static void test_forward_native(void **state)
{
	(void)state;
	forward_in(XSK_MODE_NATIVE, true);
}

static void test_forward_generic(void **state)
{
	(void)state;
	forward_in(XSK_MODE_GENERIC, false);
}

/* auto on veth: zero-copy is refused and said so, native is taken. */
static void test_auto(void **state)
{
	struct port_info i;

	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_AUTO);
	assert_ping_pong(100, 1);
	assert_int_equal(ports_get_info(ports, pa, &i), 0);
	assert_int_equal(i.mode, XSK_MODE_NATIVE);
	assert_non_null(strstr(i.attempts, "zero-copy: "));
	assert_non_null(strstr(i.attempts, "EOPNOTSUPP"));
	assert_non_null(strstr(i.attempts, "offers no zero-copy"));
	assert_null(strchr(i.attempts, '\n'));
	assert_all_balanced();
}

static void test_zero_copy_refused(void **state)
{
	struct error e = { 0 };
	uint16_t number = 99;

	(void)state;
	start(1, 16 << 20);
	assert_int_equal(open_port("pa", XSK_MODE_ZERO_COPY, &number, &e), -EOPNOTSUPP);
	assert_int_equal(number, 99);
	assert_non_null(strstr(e.text, "zero-copy"));
	assert_int_equal(program_on("pa"), 0);
	assert_at_rest();
}

/* What one direction of a flood has brought so far. */
struct tally {
	struct udp_frame (*make)(unsigned payload, uint32_t number);
	int socket;
	const uint8_t *to, *from;
	unsigned got;
	bool seen[8192];
	int last[64];       /* by flow: number of its last packet */
};

#define FLOOD_PAYLOAD(i) ((i) * 7 % 1400)

/* Take what has arrived: right to the byte, once, in order within its flow. */
static void take(struct tally *t, unsigned want)
{
	uint8_t got[FRAME_MAX];

	while (t->got < want) {
		unsigned n = receive_frame(t->socket, t->to, got, 1000);
		uint32_t number = load_be16(got + 14 + 4);
		struct udp_frame sent;

		if (!n)
			return;
		assert_true(number < 8192 && !t->seen[number]);
		assert_true((int)number > t->last[number % 64]);
		sent = t->make(FLOOD_PAYLOAD(number), number);
		assert_forwarded(&sent, t->to, t->from, got, n);
		t->seen[number] = true;
		t->last[number % 64] = (int)number;
		t->got++;
	}
}

/* Thousands of packets both ways, on all queues; each is accounted for, and arrives whole. */
static void flood(unsigned count)
{
	static struct tally a, b;

	a = (struct tally){ .make = b_to_a, .socket = host_a, .to = mac_a, .from = mac_pa };
	b = (struct tally){ .make = a_to_b, .socket = host_b, .to = mac_b, .from = mac_pb };
	memset(a.last, -1, sizeof(a.last));
	memset(b.last, -1, sizeof(b.last));
	for (unsigned i = 0; i < count; i++) {
		struct udp_frame there = a_to_b(FLOOD_PAYLOAD(i), i), back = b_to_a(FLOOD_PAYLOAD(i), i);

		send_frame(host_a, &there);
		send_frame(host_b, &back);
		if (i % 32 == 31 || i == count - 1) {
			take(&a, i + 1);
			take(&b, i + 1);
		}
	}
	assert_int_equal(a.got, count);
	assert_int_equal(b.got, count);
}

static void assert_both_queues_used(uint16_t port)
{
	struct port_queue_info q;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ports_rx_info(ports, port, i, &q), 0);
		assert_true(q.packets > 0);
	}
}

static void test_flood(void **state)
{
	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	flood(4096);
	assert_both_queues_used(pa);
	assert_both_queues_used(pb);
	assert_all_balanced();
}

/* More workers than transmit queues: a lock each. */
static void test_shared_queues(void **state)
{
	struct port_info i;

	(void)state;
	start(5, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	assert_int_equal(ports_get_info(ports, pa, &i), 0);
	assert_int_equal(i.rung, PORT_TXQ_SHARED);
	assert_non_null(strstr(i.rung_reason, "ethtool -L pa"));
	flood(1024);
	assert_all_balanced();
}

/* The smallest memory that two workers take: it must go slowly, not stop. */
static void test_small_memory(void **state)
{
	(void)state;
	start(2, 1 << 20);
	open_both(XSK_MODE_NATIVE);
	flood(2048);
	assert_all_balanced();
}

/* No route: the kernel gets the packet as if the port had received it, once, with rp_filter = 1, and answers. */
static void deliver_in(enum xsk_mode mode)
{
	struct udp_frame f;
	uint8_t got[FRAME_MAX];
	uint64_t delivered, shot;
	unsigned n;
	int tap;

	start(2, 16 << 20);
	open_both(mode);
	tap = packet_socket(ROUTER, "pa");
	f = make_udp(mac_pa, mac_a, 0x0a010002, 0xc0a80909, 64, 500, 7);
	send_frame(host_a, &f);
	n = receive_frame(tap, mac_pa, got, 2000);
	assert_int_equal(n, f.length);
	assert_memory_equal(got, f.bytes, n);
	/* ICMP network unreachable from the port's own address. */
	n = receive_frame(host_a, mac_a, got, 2000);
	assert_true(n >= 14 + 28);
	assert_int_equal(got[14 + 9], 1);
	assert_int_equal(load_be32(got + 14 + 12), 0x0a010001);
	assert_int_equal(got[14 + 20], 3);
	assert_int_equal(got[14 + 21], 0);
	usleep(50000);
	assert_verdicts(pa, VERDICT_KERNEL_NO_ROUTE, 1);
	assert_int_equal(steered(pa, STEER_REDIRECTED), 1);
	assert_int_equal(ports_deliver_info(ports, pa, &delivered, &shot), 0);
	assert_int_equal(delivered, 1);
	assert_int_equal(shot, 0);
	close(tap);
	assert_all_balanced();
}

static void test_deliver_native(void **state)
{
	(void)state;
	deliver_in(XSK_MODE_NATIVE);
}

static void test_deliver_generic(void **state)
{
	(void)state;
	deliver_in(XSK_MODE_GENERIC);
}

/* Switched off, the kernel forwards, and nothing is counted twice; the hot standby is the promise. */
static void test_disabled(void **state)
{
	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	assert_int_equal(ports_enable(ports, pa, false), 0);
	assert_int_equal(ports_enable(ports, pb, false), 0);
	assert_ping_pong(100, 1);
	assert_true(steered(pa, STEER_DISABLED) >= 1);
	assert_int_equal(steered(pa, STEER_REDIRECTED), 0);
	assert_int_equal(ports_enable(ports, pa, true), 0);
	assert_int_equal(ports_enable(ports, pb, true), 0);
	assert_ping_pong(100, 2);
	assert_int_equal(steered(pa, STEER_REDIRECTED), 1);
	assert_all_balanced();
}

/* Ports come and go while others work, and every frame comes home. */
static void test_reopen(void **state)
{
	struct ledger l;

	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	for (unsigned i = 0; i < 5; i++) {
		assert_ping_pong(300, i);
		ports_close(ports, pb, false);
		assert_int_equal(program_on("pb"), 0);
		assert_true(program_on("pa") != 0);
		assert_at_rest();
		must_open("pb", i % 2 ? XSK_MODE_NATIVE : XSK_MODE_GENERIC, &pb);
		assert_int_equal(pb, 1);
	}
	assert_ping_pong(300, 9);
	ports_close(ports, pa, false);
	ports_close(ports, pb, false);
	assert_at_rest();
	ports_ledger(ports, &l);
	assert_int_equal(l.records[FRAME_FREE], l.total);
}

/* The device goes away under the port. */
static void test_device_gone(void **state)
{
	struct port_info i;
	struct ledger l;

	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	assert_ping_pong(300, 1);
	run("ip link del pb");
	ports_tick(ports, clock_now_ns());
	assert_int_equal(ports_get_info(ports, pb, &i), 0);
	assert_true(i.gone);
	ports_close(ports, pb, true);
	assert_at_rest();
	ports_ledger(ports, &l);
	assert_int_equal(l.records[FRAME_QUARANTINE], 0);
	/* It comes back, and the other port's sockets are still a domain to join. */
	make_pair("pb", "02:00:00:00:01:0b", "b0", "02:00:00:00:00:0b", HOST_B, 2);
	run("ip addr add 10.2.0.1/24 dev pb");
	close(host_b);
	must_open("pb", XSK_MODE_NATIVE, &pb);
	host_b = packet_socket(HOST_B, "b0");
	assert_ping_pong(300, 2);
	assert_at_rest();
}

static int trivial_program(void)
{
	struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 2 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_XDP, "somebody_else", "GPL", pass, 2, NULL);
}

/* Another's program stays, and the message says whose it is. */
static void test_foreign_program(void **state)
{
	int fd = trivial_program();
	struct error e = { 0 };
	uint16_t number;
	uint32_t id;

	(void)state;
	start(1, 16 << 20);
	assert_true(fd >= 0);
	assert_int_equal(bpf_xdp_attach((int)if_nametoindex("pa"), fd, XDP_FLAGS_DRV_MODE, NULL), 0);
	id = program_on("pa");
	assert_true(open_port("pa", XSK_MODE_AUTO, &number, &e) < 0);
	print_message("%s\n", e.text);
	assert_non_null(strstr(e.text, "somebody_else"));
	assert_non_null(strstr(e.text, "ip link set dev pa xdp off"));
	assert_int_equal(program_on("pa"), id);
	assert_int_equal(bpf_xdp_detach((int)if_nametoindex("pa"), XDP_FLAGS_DRV_MODE, NULL), 0);
	close(fd);
	assert_at_rest();
}

/* The same for a program held by a link: the process is named, and it is this one. */
static void test_foreign_link(void **state)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = XDP_FLAGS_DRV_MODE);
	int fd = trivial_program(), link;
	struct error e = { 0 };
	uint16_t number;
	char text[32];

	(void)state;
	start(1, 16 << 20);
	link = bpf_link_create(fd, (int)if_nametoindex("pa"), BPF_XDP, &o);
	assert_true(link >= 0);
	assert_int_equal(open_port("pa", XSK_MODE_NATIVE, &number, &e), -EBUSY);
	print_message("%s\n", e.text);
	snprintf(text, sizeof(text), "process %d", getpid());
	assert_non_null(strstr(e.text, text));
	close(link);
	close(fd);
}

/* Frames too small for the MTU: refused with the cure, and when the MTU grows later, left to the kernel. */
static void test_mtu(void **state)
{
	struct error e = { 0 };
	struct port_info i;
	uint16_t number;

	(void)state;
	start(1, 16 << 20);
	run("ip link set pa mtu 3000");
	assert_int_equal(open_port("pa", XSK_MODE_AUTO, &number, &e), -EMSGSIZE);
	assert_non_null(strstr(e.text, "frame_size = 4096"));
	run("ip link set pa mtu 1500");
	open_both(XSK_MODE_NATIVE);
	assert_int_equal(ports_link(ports, pa, mac_pa, 0, true, 3000), 0);
	assert_int_equal(ports_get_info(ports, pa, &i), 0);
	assert_false(i.enabled);
	assert_int_equal(ports_link(ports, pa, mac_pa, 0, true, 1500), 0);
	assert_int_equal(ports_get_info(ports, pa, &i), 0);
	assert_true(i.enabled);
	assert_ping_pong(100, 1);
}

/* No link, no submission: the packets are dropped and counted as what they are. */
static void test_carrier(void **state)
{
	struct udp_frame f = a_to_b(100, 1);

	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	assert_int_equal(ports_link(ports, pb, mac_pb, 0, false, 1500), 0);
	send_frame(host_a, &f);
	for (unsigned i = 0; i < 100 && !verdicts(pa, VERDICT_DROP_LINK_DOWN); i++)
		usleep(10000);
	assert_verdicts(pa, VERDICT_DROP_LINK_DOWN, 1);
	assert_int_equal(ports_link(ports, pb, mac_pb, 0, true, 1500), 0);
	assert_ping_pong(100, 2);
	assert_all_balanced();
}

/* Nothing to do costs next to nothing. */
static void test_idle(void **state)
{
	struct rusage before, after;
	double used;

	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	assert_ping_pong(100, 1);
	usleep(200000);
	getrusage(RUSAGE_SELF, &before);
	usleep(2000000);
	getrusage(RUSAGE_SELF, &after);
	used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
		1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec);
	print_message("two idle workers: %.2f ms of CPU time in 2 s, %.3f %%\n", used * 1e3, used / 2 * 100);
	assert_true(used < (has_nics() ? 0.1 : 0.02));  /* the laboratory emulates its processor */
	/* And they are still awake enough. */
	assert_ping_pong(100, 2);
	assert_int_equal(steered(pa, STEER_STALE), 0);
}

static void test_busy_poll(void **state)
{
	struct worker_info w;

	(void)state;
	busy_poll = true;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	flood(512);
	workers_get_info(ports_get_workers(ports), 0, &w);
	assert_int_equal(w.sleeps, 0);
	assert_true(w.idle_ns > 0 && w.busy_ns > 0);
	assert_all_balanced();
}

/* A stopped worker's heartbeat goes stale and the kernel takes over; nothing is lost. */
static void test_stale(void **state)
{
	(void)state;
	start(2, 16 << 20);
	open_both(XSK_MODE_NATIVE);
	assert_ping_pong(100, 1);
	workers_stop(ports_get_workers(ports), 100);
	assert_ping_pong(100, 2);
	assert_int_equal(steered(pa, STEER_REDIRECTED), 1);
	assert_int_equal(steered(pa, STEER_STALE), 1);
}

/* kill -9: nothing stays attached, the TAP is gone, the kernel forwards. */
static void test_killed(void **state)
{
	char device[16] = "routerd0";
	int ready[2], status;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		start(2, 16 << 20);
		must_open("pa", XSK_MODE_NATIVE, &pa);
		must_open("pb", XSK_MODE_GENERIC, &pb);
		_exit(write(ready[1], "r", 1) == 1 && pause() == 0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_true(program_on("pa") && program_on("pb") && if_nametoindex(device));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (unsigned i = 0; i < 100 && (program_on("pa") || program_on("pb") || if_nametoindex(device)); i++)
		usleep(10000);
	assert_nothing_left(device);
	host_a = packet_socket(HOST_A, "a0");
	host_b = packet_socket(HOST_B, "b0");
	assert_ping_pong(100, 1);
	close(host_a);
	close(host_b);
}

/* ---- with network cards ---- */

static void assert_zero_copy(uint16_t port)
{
	struct port_queue_info q;
	struct port_info i;

	assert_int_equal(ports_get_info(ports, port, &i), 0);
	print_message("%s: %s, %u of %u receive queues, %u of %u transmit queues; %s; refused: %s\n", i.name, i.driver,
		i.rxq_count, i.device_rx, i.txq_count, i.device_tx, i.rung_reason, i.attempts);
	assert_int_equal(i.mode, XSK_MODE_ZERO_COPY);
	assert_true(i.zero_copy && i.native);
	assert_int_equal(i.rxq_count, i.device_rx);
	for (unsigned n = 0; ports_rx_info(ports, port, n, &q) == 0; n++)
		assert_true(q.zero_copy);
	for (unsigned n = 0; ports_tx_info(ports, port, n, &q) == 0; n++)
		assert_true(q.zero_copy);
}

/* Both ports zero-copy from the one memory; packets both ways, to the byte, each accounted for. */
static void test_nic_zero_copy(void **state)
{
	(void)state;
	chunk = 4096;
	start(2, 32 << 20);
	open_both(XSK_MODE_AUTO);
	assert_zero_copy(pa);
	assert_zero_copy(pb);
	for (uint32_t i = 0; i < 20; i++)
		assert_ping_pong(i * 77 % 1472, i);
	flood(8192);
	dump();
	assert_all_balanced();
}

/* One port copies, the other does not: the frame crosses without a copy of ours (one memory, two UMEMs). */
static void test_nic_two_domains(void **state)
{
	struct port_info i;

	(void)state;
	chunk = 4096;
	start(2, 32 << 20);
	must_open("pa", XSK_MODE_ZERO_COPY, &pa);
	must_open("pb", XSK_MODE_NATIVE, &pb);
	host_a = packet_socket(HOST_A, "a0");
	host_b = packet_socket(HOST_B, "b0");
	wait_for_links();
	assert_zero_copy(pa);
	assert_int_equal(ports_get_info(ports, pb, &i), 0);
	assert_false(i.zero_copy);
	flood(2048);
	assert_all_balanced();
}

static void test_nic_deliver(void **state)
{
	(void)state;
	chunk = 4096;
	deliver_in(XSK_MODE_ZERO_COPY);
}

/* igb receives in units of 1024 bytes: with small frames it must not be taken in zero-copy (seen: packets cut short). */
static void test_nic_small_frames(void **state)
{
	struct port_info i;

	(void)state;
	start(2, 32 << 20);
	open_both(XSK_MODE_AUTO);
	assert_int_equal(ports_get_info(ports, pa, &i), 0);
	print_message("%s: %s; refused: %s\n", i.name, xsk_mode_name(i.mode), i.attempts);
	if (strcmp(i.driver, "igb") == 0) {
		assert_int_equal(i.mode, XSK_MODE_NATIVE);
		assert_non_null(strstr(i.attempts, "frame_size = 4096"));
	}
	assert_ping_pong(1472, 1);
	flood(1024);
	assert_all_balanced();
}

static void test_nic_reopen(void **state)
{
	struct ledger l;

	(void)state;
	chunk = 4096;
	start(2, 32 << 20);
	open_both(XSK_MODE_ZERO_COPY);
	for (unsigned i = 0; i < 3; i++) {
		assert_ping_pong(300, i);
		ports_close(ports, pb, false);
		assert_int_equal(program_on("pb"), 0);
		assert_at_rest();
		must_open("pb", XSK_MODE_ZERO_COPY, &pb);
		wait_for_links();
	}
	flood(512);
	ports_close(ports, pa, false);
	ports_close(ports, pb, false);
	assert_at_rest();
	ports_ledger(ports, &l);
	assert_int_equal(l.records[FRAME_FREE], l.total);
}

static void check_rights(void)
{
	int fd = trivial_program();

	if (fd < 0) {
		printf("SKIP: no right to load BPF programs (run as root): %s\n", strerror(errno));
		exit(SKIPPED);
	}
	close(fd);
	fd = socket(AF_XDP, SOCK_RAW, 0);
	if (fd < 0) {
		printf("SKIP: no AF_XDP: %s\n", strerror(errno));
		exit(SKIPPED);
	}
	close(fd);
}

#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LAB_TEST(test_forward_native),
		LAB_TEST(test_forward_generic),
		LAB_TEST(test_auto),
		LAB_TEST(test_zero_copy_refused),
		LAB_TEST(test_flood),
		LAB_TEST(test_shared_queues),
		LAB_TEST(test_small_memory),
		LAB_TEST(test_deliver_native),
		LAB_TEST(test_deliver_generic),
		LAB_TEST(test_disabled),
		LAB_TEST(test_reopen),
		LAB_TEST(test_device_gone),
		LAB_TEST(test_foreign_program),
		LAB_TEST(test_foreign_link),
		LAB_TEST(test_mtu),
		LAB_TEST(test_carrier),
		LAB_TEST(test_idle),
		LAB_TEST(test_busy_poll),
		LAB_TEST(test_stale),
		LAB_TEST(test_killed),
	};

	const struct CMUnitTest nic_tests[] = {
		LAB_TEST(test_nic_zero_copy),
		LAB_TEST(test_nic_two_domains),
		LAB_TEST(test_nic_deliver),
		LAB_TEST(test_nic_small_frames),
		LAB_TEST(test_nic_reopen),
		LAB_TEST(test_idle),
	};

	check_rights();
	for (unsigned i = HOST_A; i < NAMESPACES; i++)
		namespaces[i] = new_namespace();
	namespaces[ROUTER] = new_namespace();
	return has_nics() ? cmocka_run_group_tests(nic_tests, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
