/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * bpf/deliver.bpf.c on a real multi-queue TAP, in a network namespace of its own:
 *
 *   this test --write--> TAP deliver0, queue n --tc ingress--> portN (veth, steer attached) --> UDP socket
 *
 * port0 runs the steer program in native XDP mode, port1 and port2 in generic mode. The steer maps are set so
 * that each delivered packet would be redirected to the daemon if the program saw it: the worst case for
 * loops.
 */
#include "harness.h"
#include "packets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../../bpf/shared.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

#define PORTS 3
#define TAP_QUEUES 5
#define TAP_NAME "deliver0"
#define NATIVE_PRIORITY 1000 /* behind the filters of all generic ports */
#define GENERIC_PRIORITY(queue) (1 + (queue))
#define UNKNOWN_QUEUE 3
#define LOOP_QUEUE 4
#define WAIT_MS 2000
#define NOTHING_MS 200

struct port {
	char name[IF_NAMESIZE];
	uint8_t mac[6];
	char address[16], peer[16];
	uint32_t ifindex;
	struct bpf_object *steer;
	int link;
	int udp; /* bound to the port: what it gets came in on the port, as the stack sees it */
	int packet; /* what tcpdump would see on the port */
};

static struct {
	struct bpf_object *object, *generic[PORTS];
	struct port ports[PORTS];
	int tap[TAP_QUEUES];
	uint32_t tap_ifindex;
	int xsk;
	struct bpf_tc_hook hook;
} t;

/* ---- set-up ---- */

static void make_veth(struct port *p, int n)
{
	char command[512];

	snprintf(p->name, sizeof(p->name), "port%d", n);
	snprintf(p->address, sizeof(p->address), "10.0.%d.1", n);
	snprintf(p->peer, sizeof(p->peer), "10.0.%d.7", n);
	memcpy(p->mac, port_mac, 6);
	p->mac[5] += n;
	snprintf(command, sizeof(command),
		"ip link add %s address 02:10:20:30:40:%02x type veth peer name peer%d &&"
		" ip link set %s up && ip link set peer%d up && ip addr add %s/24 dev %s",
		p->name, p->mac[5], n, p->name, n, p->address, p->name);
	shell(command);
	p->ifindex = if_nametoindex(p->name);
}

static void open_sockets(struct port *p)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(5000) };
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = p->ifindex };

	p->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	must(!setsockopt(p->udp, SOL_SOCKET, SO_BINDTODEVICE, p->name, strlen(p->name)));
	must(!bind(p->udp, (struct sockaddr *)&in, sizeof(in)));
	p->packet = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
	must(!bind(p->packet, (struct sockaddr *)&ll, sizeof(ll)));
}

static void attach_steer(struct port *p, uint32_t mode)
{
	struct steer_port port = { .flags = STEER_ENABLED, .max_length = 1514 };
	struct steer_config config = { .stale_ns = 1ull << 62 };
	struct steer_heartbeat beat = { .nanoseconds = now_ns() };
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = mode);
	uint32_t zero = 0;

	p->steer = bpf_object__open(object_path("STEER_OBJECT", "build/bpf/steer.bpf.o"));
	must(p->steer && !bpf_object__load(p->steer));
	memcpy(port.link.mac, p->mac, 6);
	must(!bpf_map_update_elem(map_fd(p->steer, "port_config"), &zero, &port, BPF_ANY));
	must(!bpf_map_update_elem(map_fd(p->steer, "steer_config"), &zero, &config, BPF_ANY));
	must(!bpf_map_update_elem(map_fd(p->steer, "heartbeat"), &zero, &beat, BPF_ANY));
	must(!bpf_map_update_elem(map_fd(p->steer, "xsks"), &zero, &t.xsk, BPF_ANY));
	p->link = bpf_link_create(program_fd(p->steer, "steer"), p->ifindex, BPF_XDP, &opts);
	must(p->link >= 0);
}

static void make_tap(void)
{
	for (int q = 0; q < TAP_QUEUES; q++) {
		struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE };

		strcpy(request.ifr_name, TAP_NAME);
		t.tap[q] = open("/dev/net/tun", O_RDWR);
		must(t.tap[q] >= 0 && !ioctl(t.tap[q], TUNSETIFF, &request));
	}
	shell("ip link set " TAP_NAME " up");
	t.tap_ifindex = if_nametoindex(TAP_NAME);
}

/* ---- the filter of a generic port, by plain rtnetlink (libbpf knows only direct-action filters) ---- */

struct request {
	struct nlmsghdr header;
	struct tcmsg tc;
	uint8_t attributes[512];
};

static struct rtattr *attribute(struct request *r, uint16_t type, const void *value, uint32_t length)
{
	struct rtattr *a = (void *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(length);
	if (length)
		memcpy(RTA_DATA(a), value, length);
	r->header.nlmsg_len = NLMSG_ALIGN(r->header.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static void end_nest(struct request *r, struct rtattr *nest)
{
	nest->rta_len = (char *)r + r->header.nlmsg_len - (char *)nest;
}

static void transact(struct request *r)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[1024];
	} answer;

	must(fd >= 0 && send(fd, r, r->header.nlmsg_len, 0) > 0);
	must(recv(fd, &answer, sizeof(answer), 0) >= (ssize_t)(sizeof(answer) - sizeof(answer.rest)));
	close(fd);
	assert_int_equal(answer.header.nlmsg_type, NLMSG_ERROR);
	assert_int_equal(answer.error.error, 0);
}

static struct request filter_request(uint16_t type, uint16_t flags, uint32_t queue)
{
	struct request r = {
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)), .nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags },
		.tc = { .tcm_ifindex = t.tap_ifindex, .tcm_handle = 1,
			.tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
			.tcm_info = TC_H_MAKE(GENERIC_PRIORITY(queue) << 16, htons(ETH_P_ALL)) },
	};

	attribute(&r, TCA_KIND, "bpf", 4);
	return r;
}

static void put_mirred(struct request *r, uint32_t ifindex)
{
	struct tc_mirred mirred = { .action = TC_ACT_STOLEN, .eaction = TCA_INGRESS_REDIR,
		.ifindex = ifindex };
	struct rtattr *actions, *first, *options;

	actions = attribute(r, TCA_BPF_ACT | NLA_F_NESTED, NULL, 0);
	first = attribute(r, 1 | NLA_F_NESTED, NULL, 0);
	attribute(r, TCA_ACT_KIND, "mirred", 7);
	options = attribute(r, TCA_ACT_OPTIONS | NLA_F_NESTED, NULL, 0);
	attribute(r, TCA_MIRRED_PARMS, &mirred, sizeof(mirred));
	end_nest(r, options);
	end_nest(r, first);
	end_nest(r, actions);
}

static void add_generic_filter(uint32_t queue, int program, uint32_t ifindex)
{
	struct request r = filter_request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, queue);
	struct rtattr *options = attribute(&r, TCA_OPTIONS | NLA_F_NESTED, NULL, 0);

	attribute(&r, TCA_BPF_FD, &program, sizeof(program));
	attribute(&r, TCA_BPF_NAME, "deliver_generic", 16);
	put_mirred(&r, ifindex);
	end_nest(&r, options);
	transact(&r);
}

static void remove_generic_filter(uint32_t queue)
{
	struct request r = filter_request(RTM_DELTFILTER, 0, queue);

	transact(&r);
}

/*
 * One more load of the object: only deliver_generic, with its queue as a constant, counting into the first
 * one's map.
 */
static struct bpf_object *load_generic(uint32_t queue)
{
	struct bpf_object *object;
	struct bpf_map *map;

	object = bpf_object__open(object_path("DELIVER_OBJECT", "build/bpf/deliver.bpf.o"));
	must(object);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "deliver"), false);
	map = bpf_object__find_map_by_name(object, "deliver_stats");
	must(!bpf_map__reuse_fd(map, map_fd(t.object, "deliver_stats")));
	bpf_object__for_each_map(map, object)
		if (bpf_map__is_internal(map) && strstr(bpf_map__name(map), ".rodata"))
			break;
	must(map);
	must(!bpf_map__set_initial_value(map, &queue, sizeof(queue)));
	must(!bpf_object__load(object));
	return object;
}

static void set_port(uint32_t queue, uint32_t ifindex)
{
	must(!bpf_map_update_elem(map_fd(t.object, "deliver_ports"), &queue, &ifindex, BPF_ANY));
}

static void attach_deliver(void)
{
	LIBBPF_OPTS(bpf_tc_opts, opts, .priority = NATIVE_PRIORITY, .handle = 1);

	t.hook = (struct bpf_tc_hook){ .sz = sizeof(t.hook), .ifindex = t.tap_ifindex,
		.attach_point = BPF_TC_INGRESS };
	must(!bpf_tc_hook_create(&t.hook));
	opts.prog_fd = program_fd(t.object, "deliver");
	must(!bpf_tc_attach(&t.hook, &opts));
}

static int set_up(void **state)
{
	const char *path = object_path("DELIVER_OBJECT", "build/bpf/deliver.bpf.o");

	(void)state;
	shell("for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6;"
	      " echo 1 >/proc/sys/net/ipv4/conf/$i/rp_filter; done; ip link set lo up");
	t.object = bpf_object__open(path);
	if (!t.object || bpf_object__load(t.object))
		fail_msg("%s: %s", path, strerror(errno));
	t.xsk = socket(AF_XDP, SOCK_RAW, 0);
	must(t.xsk >= 0);
	make_tap();
	attach_deliver();
	for (int n = 0; n < PORTS; n++) {
		make_veth(&t.ports[n], n);
		open_sockets(&t.ports[n]);
		attach_steer(&t.ports[n], n ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	}
	set_port(0, t.ports[0].ifindex);
	for (int n = 1; n < PORTS; n++) {
		t.generic[n] = load_generic(n);
		add_generic_filter(n, program_fd(t.generic[n], "deliver_generic"), t.ports[n].ifindex);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	bpf_tc_hook_destroy(&t.hook);
	for (int n = 0; n < PORTS; n++) {
		close(t.ports[n].link);
		close(t.ports[n].udp);
		close(t.ports[n].packet);
		bpf_object__close(t.ports[n].steer);
		bpf_object__close(t.generic[n]);
	}
	for (int q = 0; q < TAP_QUEUES; q++)
		close(t.tap[q]);
	close(t.xsk);
	bpf_object__close(t.object);
	return 0;
}

/* ---- one packet through the TAP ---- */

static void write_frame(uint32_t queue, const struct virtio_net_hdr *header, const struct frame *f)
{
	uint8_t bytes[sizeof(*header) + FRAME_ROOM];
	ssize_t length = sizeof(*header) + f->length;

	memcpy(bytes, header, sizeof(*header));
	memcpy(bytes + sizeof(*header), f->bytes, f->length);
	must(write(t.tap[queue], bytes, length) == length);
}

static void packet_for(struct port *p, struct frame *f)
{
	ipv4_packet(f, p->peer, p->address);
	set_destination(f, p->mac);
}

static void drain(struct port *p)
{
	uint8_t bytes[FRAME_ROOM];

	while (recv(p->udp, bytes, sizeof(bytes), 0) >= 0)
		;
	while (recv(p->packet, bytes, sizeof(bytes), 0) >= 0)
		;
}

static int readable(int fd, int milliseconds)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, milliseconds) == 1;
}

static uint64_t seen_by_steer(struct port *p, uint32_t reason)
{
	uint64_t sum[2], all = 0;

	for (uint32_t r = 0; r < STEER_REASON_COUNT; r++) {
		read_pair(map_fd(p->steer, "steer_stats"), r, sum);
		if (reason == STEER_REASON_COUNT || reason == r)
			all += sum[0];
	}
	return all;
}

static void read_deliver(uint32_t queue, struct deliver_count *c)
{
	uint64_t sum[2];

	read_pair(map_fd(t.object, "deliver_stats"), queue, sum);
	c->packets = sum[0];
	c->shot = sum[1];
}

static void expect_on_wiretap(struct port *p, const struct frame *f, int type)
{
	struct sockaddr_ll from = { 0 };
	socklen_t length = sizeof(from);
	uint8_t bytes[FRAME_ROOM];

	assert_true(readable(p->packet, WAIT_MS));
	assert_int_equal(recvfrom(p->packet, bytes, sizeof(bytes), 0, (void *)&from, &length), f->length);
	assert_memory_equal(bytes, f->bytes, f->length);
	assert_int_equal(from.sll_ifindex, p->ifindex);
	assert_int_equal(from.sll_pkttype, type);
	assert_false(readable(p->packet, 0)); /* once */
}

static void expect_in_stack(struct port *p)
{
	uint8_t bytes[FRAME_ROOM];

	assert_true(readable(p->udp, WAIT_MS));
	assert_int_equal(recv(p->udp, bytes, sizeof(bytes), 0), PAYLOAD);
	assert_false(readable(p->udp, 0));
}

static void expect_delivery(uint32_t queue, struct port *p, const struct virtio_net_hdr *header,
	const struct frame *f)
{
	struct deliver_count before, after;
	uint64_t steered = seen_by_steer(p, STEER_REASON_COUNT);

	drain(p);
	read_deliver(queue, &before);
	write_frame(queue, header, f);
	expect_on_wiretap(p, f, PACKET_HOST);
	expect_in_stack(p);
	read_deliver(queue, &after);
	assert_int_equal(after.packets - before.packets, 1);
	assert_int_equal(after.shot, before.shot);
	assert_int_equal(seen_by_steer(p, STEER_REASON_COUNT), steered); /* XDP has not run again: no loop */
}

/* ---- tests ---- */

static const struct virtio_net_hdr plain = { 0 };

static void each_queue_reaches_its_port(void **state)
{
	struct frame f;

	(void)state;
	for (int round = 0; round < 3; round++)
		for (int n = 0; n < PORTS; n++) {
			packet_for(&t.ports[n], &f);
			expect_delivery(n, &t.ports[n], &plain, &f);
		}
}

static void unfinished_checksum_is_accepted(void **state)
{
	struct virtio_net_hdr partial = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.csum_start = ETH_HEADER + IPV4_HEADER, .csum_offset = 6 };
	struct frame f;

	(void)state;
	for (int n = 0; n < PORTS; n++) {
		packet_for(&t.ports[n], &f);
		put16(f.bytes + ETH_HEADER + IPV4_HEADER + 6, 0xbeef);
		expect_delivery(n, &t.ports[n], &partial, &f);
	}
}

/*
 * rp_filter is 1 here: a source that lives behind another port is refused, because the port is the true one.
 */
static void reverse_path_filter_sees_the_port(void **state)
{
	struct frame f;

	(void)state;
	for (int n = 0; n < PORTS; n++) {
		struct port *p = &t.ports[n];

		ipv4_packet(&f, t.ports[(n + 1) % PORTS].peer, p->address);
		set_destination(&f, p->mac);
		drain(p);
		write_frame(n, &plain, &f);
		expect_on_wiretap(p, &f, PACKET_HOST);
		assert_false(readable(p->udp, NOTHING_MS));
	}
}

static void group_frames_keep_their_type(void **state)
{
	static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	static const uint8_t group[6] = { 0x01, 0x00, 0x5e, 0, 0, 1 };
	struct frame f;

	(void)state;
	for (int n = 0; n < PORTS; n++) {
		packet_for(&t.ports[n], &f);
		drain(&t.ports[n]);
		set_destination(&f, broadcast);
		write_frame(n, &plain, &f);
		expect_on_wiretap(&t.ports[n], &f, PACKET_BROADCAST);
		set_destination(&f, group);
		write_frame(n, &plain, &f);
		expect_on_wiretap(&t.ports[n], &f, PACKET_MULTICAST);
	}
}

/* The tag of a delivered frame reaches the port beside the packet, where the VLAN code looks for it. */
static void vlan_tag_arrives_with_the_packet(void **state)
{
	struct frame f;
	int one = 1;

	(void)state;
	for (int n = 0; n < PORTS; n++) {
		struct port *p = &t.ports[n];
		char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
		uint8_t bytes[FRAME_ROOM];
		struct iovec io = { bytes, sizeof(bytes) };
		struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
			.msg_controllen = sizeof(control) };
		struct tpacket_auxdata aux;

		must(!setsockopt(p->packet, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)));
		packet_for(p, &f);
		push_vlan(&f, 0x8100, 0x6064);
		drain(p);
		write_frame(n, &plain, &f);
		assert_true(readable(p->packet, WAIT_MS));
		assert_int_equal(recvmsg(p->packet, &m, 0), f.length - VLAN_HEADER);
		must(CMSG_FIRSTHDR(&m));
		memcpy(&aux, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(aux));
		assert_true(aux.tp_status & TP_STATUS_VLAN_VALID);
		assert_int_equal(aux.tp_vlan_tci, 0x6064);
		assert_int_equal(aux.tp_vlan_tpid, 0x8100);
	}
}

static void expect_shot(uint32_t queue, const struct frame *f)
{
	struct deliver_count before, after;

	for (int n = 0; n < PORTS; n++)
		drain(&t.ports[n]);
	read_deliver(queue, &before);
	write_frame(queue, &plain, f);
	for (int n = 0; n < PORTS; n++)
		assert_false(readable(t.ports[n].packet, NOTHING_MS / PORTS));
	read_deliver(queue, &after);
	assert_int_equal(after.packets, before.packets);
	assert_int_equal(after.shot - before.shot, 1);
}

static void queue_without_port_is_shot(void **state)
{
	struct frame f;

	(void)state;
	packet_for(&t.ports[0], &f);
	expect_shot(UNKNOWN_QUEUE, &f);
}

static void generic_port_without_filter_is_shot(void **state)
{
	struct port *p = &t.ports[1];
	struct frame f;

	(void)state;
	packet_for(p, &f);
	remove_generic_filter(1);
	expect_shot(1, &f);
	add_generic_filter(1, program_fd(t.generic[1], "deliver_generic"), p->ifindex);
	expect_delivery(1, p, &plain, &f);
}

/* Why deliver_generic exists. If this says "no loop" one day, the plain way will do for all ports. */
static void plain_redirect_to_a_generic_port_loops(void **state)
{
	struct port *p = &t.ports[1];
	uint64_t before = seen_by_steer(p, STEER_REDIRECTED);
	struct frame f;

	(void)state;
	set_port(LOOP_QUEUE, p->ifindex);
	packet_for(p, &f);
	drain(p);
	write_frame(LOOP_QUEUE, &plain, &f);
	if (readable(p->udp, NOTHING_MS))
		print_message("no loop: this kernel does not run generic XDP after bpf_redirect\n");
	else
		assert_int_equal(seen_by_steer(p, STEER_REDIRECTED) - before, 1);
	set_port(LOOP_QUEUE, 0);
}

/*
 * What the steer program would have done is no fiction: the same packet from the wire does go to the daemon.
 */
static void packets_from_the_wire_are_steered(void **state)
{
	struct frame f;

	(void)state;
	for (int n = 0; n < PORTS; n++) {
		struct port *p = &t.ports[n];
		struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6 };
		uint64_t before = seen_by_steer(p, STEER_REDIRECTED);
		char peer[IF_NAMESIZE];
		int fd = socket(AF_PACKET, SOCK_RAW, 0);

		snprintf(peer, sizeof(peer), "peer%d", n);
		to.sll_ifindex = if_nametoindex(peer);
		packet_for(p, &f);
		must(sendto(fd, f.bytes, f.length, 0, (void *)&to, sizeof(to)) == (ssize_t)f.length);
		close(fd);
		for (int i = 0; i < 100 && seen_by_steer(p, STEER_REDIRECTED) == before; i++)
			usleep(10000);
		assert_int_equal(seen_by_steer(p, STEER_REDIRECTED) - before, 1);
	}
}

/* Test runs record no queue, and the kernel lets nobody set one (ctx_in: EINVAL on 6.18). */
static void packet_without_queue(void **state)
{
	struct deliver_count before, after;
	struct frame f;
	uint8_t out[FRAME_ROOM];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f.bytes, .data_out = out,
		.data_size_out = sizeof(out));

	(void)state;
	packet_for(&t.ports[0], &f);
	opts.data_size_in = f.length;
	read_deliver(DELIVER_NO_QUEUE, &before);
	must(!bpf_prog_test_run_opts(program_fd(t.object, "deliver"), &opts));
	read_deliver(DELIVER_NO_QUEUE, &after);
	assert_int_equal(opts.retval, TC_ACT_SHOT);
	assert_int_equal(after.shot - before.shot, 1);
	assert_int_equal(after.packets, before.packets);
	assert_int_equal(opts.data_size_out, f.length);
	assert_memory_equal(out, f.bytes, f.length);
	/* The same object with the default constant: never a match. */
	opts.data_size_out = sizeof(out);
	must(!bpf_prog_test_run_opts(program_fd(t.object, "deliver_generic"), &opts));
	assert_int_equal(opts.retval, 0);
}

static void queue_cannot_be_set_in_a_test_run(void **state)
{
	struct __sk_buff context = { .queue_mapping = 1 };
	struct frame f;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f.bytes, .ctx_in = &context,
		.ctx_size_in = sizeof(context));

	(void)state;
	packet_for(&t.ports[0], &f);
	opts.data_size_in = f.length;
	if (!bpf_prog_test_run_opts(program_fd(t.object, "deliver"), &opts)) {
		print_message("this kernel takes queue_mapping in test runs\n");
		assert_int_equal(opts.retval, TC_ACT_REDIRECT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_from_the_wire_are_steered),
		cmocka_unit_test(each_queue_reaches_its_port),
		cmocka_unit_test(unfinished_checksum_is_accepted),
		cmocka_unit_test(reverse_path_filter_sees_the_port),
		cmocka_unit_test(group_frames_keep_their_type),
		cmocka_unit_test(vlan_tag_arrives_with_the_packet),
		cmocka_unit_test(queue_without_port_is_shot),
		cmocka_unit_test(generic_port_without_filter_is_shot),
		cmocka_unit_test(plain_redirect_to_a_generic_port_loops),
		cmocka_unit_test(packet_without_queue),
		cmocka_unit_test(queue_cannot_be_set_in_a_test_run),
	};

	skip_without_rights("test_deliver");
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
