/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror and the real kernel, in network namespaces of its own: what `ip` does arrives, and the mirror's routes equal
 * what `ip -json route show` prints, route by route. Needs root and iproute2; exits 77 otherwise.
 *
 * ROUTERD_TEST_LARGE set: also 1,000,000 IPv4 and 250,000 IPv6 routes, with times and memory.
 */
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "common/clock.h"
#include "unit/mirror_world.h"

#define SETTLE_MS 15000

static char peer_ns[32];

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *fmt, ...)
{
	char command[1024];
	va_list ap;
	int r;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	r = system(command);
	if (r)
		print_error("%s: exit %d\n", command, r);
	assert_int_equal(r, 0);
}

struct kernel {
	struct world *w;
	sd_event *event;
};

/* ---- routes in one form ---- */

struct lines {
	char **line;
	size_t count, capacity;
};

static void lines_add(struct lines *l, const char *text)
{
	if (l->count == l->capacity) {
		l->capacity = l->capacity ? l->capacity * 2 : 64;
		l->line = realloc(l->line, l->capacity * sizeof(*l->line));
		assert_non_null(l->line);
	}
	l->line[l->count++] = strdup(text);
}

static void lines_free(struct lines *l)
{
	while (l->count)
		free(l->line[--l->count]);
	free(l->line);
	l->line = NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void lines_sort(struct lines *l)
{
	if (l->count)
		qsort(l->line, l->count, sizeof(*l->line), by_text);
}

static void add_hops(char *text, size_t size, struct lines *hops)
{
	lines_sort(hops);
	for (size_t i = 0; i < hops->count; i++)
		world_say(text, size, " [%s]", hops->line[i]);
	lines_free(hops);
}

static const char *const type_names[] = { "unspec", "unicast", "local", "broadcast", "anycast", "multicast", "blackhole",
	"unreachable", "prohibit", "throw", "nat" };

static void address_text(char *text, size_t size, uint8_t family, const uint8_t *addr)
{
	inet_ntop(family == 4 ? AF_INET : AF_INET6, addr, text, (socklen_t)size);
}

static void mirror_line(void *ctx, const struct mirror_route *r)
{
	char text[8192] = "", address[INET6_ADDRSTRLEN], hop[128];
	struct lines hops = { 0 };

	address_text(address, sizeof(address), r->family, r->dst);
	snprintf(text, sizeof(text), "%u %s %s/%u proto %u metric %u nhid %u", r->table, type_names[r->type], address, r->plen,
		r->protocol, r->metric, r->nexthop_id);
	for (unsigned i = 0; i < r->path_count && !r->nexthop_id; i++) {
		const struct mirror_path *p = &r->paths[i];

		address_text(address, sizeof(address), p->gateway_family, p->gateway);
		snprintf(hop, sizeof(hop), "%s dev %s weight %u", p->gateway_family ? address : "-", p->device, p->weight);
		lines_add(&hops, hop);
	}
	add_hops(text, sizeof(text), &hops);
	lines_add(ctx, text);
}

static const char *string_of(json_t *o, const char *key, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : otherwise;
}

static const char *gateway_of(json_t *o)
{
	json_t *via = json_object_get(o, "via");

	return via ? string_of(via, "host", "?") : string_of(o, "gateway", "-");
}

static void json_line(struct lines *out, unsigned table, bool ipv6, json_t *o)
{
	const char *dst = string_of(o, "dst", "?");
	json_t *hop_list = json_object_get(o, "nexthops"), *hop;
	json_int_t nhid = json_integer_value(json_object_get(o, "nhid"));
	struct lines hops = { 0 };
	char text[8192], one[128];
	size_t i;

	if (!strcmp(dst, "default"))
		dst = ipv6 ? "::/0" : "0.0.0.0/0";
	/* -N: types and protocols as numbers. */
	snprintf(text, sizeof(text), "%u %s %s%s proto %s metric %lld nhid %lld", table,
		type_names[atoi(string_of(o, "type", "1"))], dst, strchr(dst, '/') ? "" : ipv6 ? "/128" : "/32",
		string_of(o, "protocol", "3"), (long long)json_integer_value(json_object_get(o, "metric")), (long long)nhid);
	json_array_foreach(hop_list, i, hop) {
		snprintf(one, sizeof(one), "%s dev %s weight %lld", gateway_of(hop), string_of(hop, "dev", "?"),
			(long long)json_integer_value(json_object_get(hop, "weight")));
		lines_add(&hops, one);
	}
	if (!hop_list && json_object_get(o, "dev")) {
		snprintf(one, sizeof(one), "%s dev %s weight 1", gateway_of(o), string_of(o, "dev", "?"));
		lines_add(&hops, one);
	}
	if (nhid)
		lines_free(&hops);
	add_hops(text, sizeof(text), &hops);
	lines_add(out, text);
}

static void kernel_lines(struct lines *out, unsigned table, bool ipv6)
{
	char command[128];
	json_t *root, *o;
	size_t i;
	FILE *f;

	snprintf(command, sizeof(command), "ip -N -json -details %s route show table %u 2>/dev/null", ipv6 ? "-6" : "-4", table);
	f = popen(command, "r");
	assert_non_null(f);
	root = json_loadf(f, 0, NULL);
	pclose(f);
	json_array_foreach(root, i, o)
		json_line(out, table, ipv6, o);
	json_decref(root);
}

static bool same_lines(struct lines *a, struct lines *b, bool print)
{
	size_t i = 0, j = 0;
	unsigned shown = 0;

	lines_sort(a);
	lines_sort(b);
	while (i < a->count || j < b->count) {
		int c = i == a->count ? 1 : j == b->count ? -1 : strcmp(a->line[i], b->line[j]);

		if (!c) {
			i++, j++;
			continue;
		}
		if (!print)
			return false;
		if (shown++ < 10)
			print_error("%s %s\n", c < 0 ? "kernel only:" : "mirror only:", c < 0 ? a->line[i] : b->line[j]);
		c < 0 ? i++ : j++;
	}
	return !shown;
}

static bool equals_kernel(struct kernel *k, bool print)
{
	struct lines theirs = { 0 }, ours = { 0 };
	uint64_t cursor;
	bool same;

	for (unsigned table = RT_TABLE_DEFAULT; table <= RT_TABLE_LOCAL; table++) {
		kernel_lines(&theirs, table, false);
		if (table != RT_TABLE_DEFAULT)
			kernel_lines(&theirs, table, true);
	}
	for (uint8_t family = 4; family <= 6; family += 2)
		for (cursor = 0; mirror_route_foreach(k->w->m, family, &cursor, 10000, mirror_line, &ours);)
			;
	same = same_lines(&theirs, &ours, print);
	lines_free(&theirs);
	lines_free(&ours);
	return same;
}

/* ---- the loop ---- */

static void spin(struct kernel *k, unsigned ms)
{
	uint64_t end = clock_now_ns() + ms * NS_PER_MS;

	do
		assert_true(sd_event_run(k->event, 10000) >= 0);
	while (clock_now_ns() < end);
}

/* Until nothing is pending for a while. */
static void settle(struct kernel *k)
{
	uint64_t end = clock_now_ns() + SETTLE_MS * NS_PER_MS;
	struct mirror_stats s;
	unsigned quiet = 0;

	while (quiet < 5 && clock_now_ns() < end) {
		spin(k, 20);
		mirror_get_stats(k->w->m, &s);
		quiet = s.pending || s.resync_running ? 0 : quiet + 1;
	}
	assert_true(quiet >= 5);
}

/* What the kernel does by itself some time later (IPv6 addresses after link up, linkwatch) is waited for. */
static void assert_equals_kernel(struct kernel *k)
{
	unsigned tries = 0;

	settle(k);
	while (!equals_kernel(k, false) && tries++ < 20) {
		spin(k, 100);
		settle(k);
	}
	assert_true(equals_kernel(k, true));
}

static uint32_t ifindex(struct kernel *k, const char *name)
{
	const struct mirror_link *l = mirror_link_by_name(k->w->m, name);

	assert_non_null(l);
	return l->ifindex;
}

static void start(struct kernel *k, int receive_buffer)
{
	struct error e = { 0 };

	k->w = world_new();
	k->w->m->receive_buffer = receive_buffer;
	assert_int_equal(sd_event_new(&k->event), 0);
	if (mirror_start(k->w->m, k->event, &e) < 0) {
		print_error("%s\n", e.text);
		fail();
	}
	mirror_set_port(k->w->m, ifindex(k, "mirt0"), 0);
	mirror_set_port(k->w->m, ifindex(k, "mirt1"), 1);
}

static void stop(struct kernel *k)
{
	mirror_stop(k->w->m);
	world_free(k->w);
	sd_event_unref(k->event);
}

/* A fresh namespace with two veth ports; their other ends live in a namespace of their own and answer. */
static int setup(void **state)
{
	struct kernel *k = calloc(1, sizeof(*k));

	assert_int_equal(unshare(CLONE_NEWNET), 0);
	snprintf(peer_ns, sizeof(peer_ns), "mirt-%d", getpid());
	run("ip netns add %s && ip link set lo up", peer_ns);
	run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0");
	for (int i = 0; i < 2; i++) {
		run("ip link add mirt%d type veth peer name mirtp%d netns %s", i, i, peer_ns);
		run("ip netns exec %s sysctl -qw net.ipv6.conf.mirtp%d.accept_dad=0", peer_ns, i);
		run("ip -n %s link set mirtp%d up && ip link set mirt%d up", peer_ns, i, i);
		run("ip addr add 192.0.%d.254/24 dev mirt%d && ip addr add 2001:db8:%d::fe/64 dev mirt%d", i + 2, i, i, i);
		run("ip -n %s addr add 192.0.%d.1/24 dev mirtp%d && ip -n %s addr add 2001:db8:%d::1/64 dev mirtp%d nodad", peer_ns,
			i + 2, i, peer_ns, i, i);
	}
	*state = k;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	run("ip netns del %s", peer_ns);
	return 0;
}

/* ---- tests ---- */

static const char *k_to(struct kernel *k, const char *destination)
{
	return to(k->w, destination);
}

/* The kernel acts on a carrier up to a second later (linkwatch). */
static void wait_to(struct kernel *k, const char *destination, const char *answer)
{
	for (unsigned i = 0; i < 200 && strcmp(k_to(k, destination), answer); i++)
		spin(k, 20);
	assert_string_equal(k_to(k, destination), answer);
}

static void test_start_and_follow(void **state)
{
	struct kernel *k = *state;
	char expected[128];

	run("ip route add 10.0.0.0/8 via 192.0.2.1 metric 5 && ip route add blackhole 10.9.0.0/16");
	run("ip -6 route add 2001:db8:100::/40 via 2001:db8:1::1 dev mirt1");
	start(k, 0);
	assert_equals_kernel(k);
	snprintf(expected, sizeof(expected), "%u>192.0.2.1", ifindex(k, "mirt0"));
	assert_string_equal(k_to(k, "10.0.0.1"), expected);
	assert_string_equal(k_to(k, "10.9.0.1"), "blackhole");
	assert_string_equal(k_to(k, "192.0.2.254"), "local");
	assert_string_equal(k_to(k, "192.0.2.255"), "local");
	assert_string_equal(k_to(k, "2001:db8::fe"), "local");
	assert_non_null(strstr(k->w->hooks, "+local 192.0.2.254\n"));
	assert_non_null(strstr(k->w->hooks, "+local 2001:db8:1::fe\n"));

	run("ip route replace 10.0.0.0/8 metric 5 nexthop via 192.0.2.1 weight 2 nexthop via 192.0.3.1");
	run("ip route add unreachable 10.8.0.0/16 && ip route add prohibit 10.7.0.0/16 && ip route add throw 10.6.0.0/16");
	run("ip route append 10.0.0.0/8 via 192.0.3.7 metric 5 && ip route prepend 10.0.0.0/8 via 192.0.3.8 metric 5");
	run("ip route add 10.5.0.0/16 via inet6 2001:db8::1 dev mirt0 && ip route add 10.4.0.0/16 via 203.0.113.1 dev mirt1 onlink");
	run("ip route add 10.3.0.0/16 via 192.0.2.1 mtu 1400 table 253");
	run("ip -6 route add 2001:db8:5::/48 nexthop via 2001:db8::1 nexthop via 2001:db8:1::1");
	run("ip -6 route append 2001:db8:5::/48 via 2001:db8:1::2 && ip -6 route del 2001:db8:5::/48 via 2001:db8::1");
	run("ip -6 route add unreachable 2001:db8:6::/48 && ip route add 10.2.0.0/16 via 192.0.2.1 table 77");
	run("ip route add 10.1.0.0/16 dev mirt0 proto 186");
	assert_equals_kernel(k);
	snprintf(expected, sizeof(expected), "%u>192.0.3.8", ifindex(k, "mirt1"));
	assert_string_equal(k_to(k, "10.0.0.1"), expected);
	snprintf(expected, sizeof(expected), "%u>2001:db8::1", ifindex(k, "mirt0"));
	assert_string_equal(k_to(k, "10.5.0.1"), expected);
	snprintf(expected, sizeof(expected), "%u>2001:db8:1::1*1 %u>2001:db8:1::2*1", ifindex(k, "mirt1"), ifindex(k, "mirt1"));
	assert_string_equal(k_to(k, "2001:db8:5::1"), expected);
	run("ip route del 10.0.0.0/8 via 192.0.3.8 metric 5 && ip route del 10.8.0.0/16 && ip -6 route del 2001:db8:5::/48");
	run("ip addr del 192.0.2.254/24 dev mirt0 && ip -6 addr flush dev mirt1 scope global");
	assert_equals_kernel(k);
	assert_non_null(strstr(k->w->hooks, "-local 192.0.2.254\n"));
	/* All went by notifications: what we did not ask for was not needed, but for the address. */
	assert_int_equal(k->w->m->stats.overruns, 0);
	assert_int_equal(k->w->m->stats.malformed, 0);
	stop(k);
}

static void test_link_down(void **state)
{
	struct kernel *k = *state;
	char both[128], one[128];

	start(k, 0);
	run("ip route add 10.0.0.0/8 nexthop via 192.0.2.1 nexthop via 192.0.3.1 && ip route add 11.0.0.0/8 via 192.0.2.1");
	run("ip -6 route add 2001:db8:5::/48 nexthop via 2001:db8::1 nexthop via 2001:db8:1::1");
	assert_equals_kernel(k);
	snprintf(both, sizeof(both), "%u>192.0.2.1*1 %u>192.0.3.1*1", ifindex(k, "mirt0"), ifindex(k, "mirt1"));
	snprintf(one, sizeof(one), "%u>192.0.3.1", ifindex(k, "mirt1"));
	assert_string_equal(k_to(k, "10.0.0.1"), both);
	run("ip link set mirt0 down");
	spin(k, 15);  /* sooner than any re-read */
	assert_string_equal(k_to(k, "10.0.0.1"), one);
	assert_string_equal(k_to(k, "11.0.0.1"), "-");
	assert_equals_kernel(k);
	run("ip link set mirt0 up");
	spin(k, 15);
	assert_string_equal(k_to(k, "10.0.0.1"), both);
	assert_equals_kernel(k);
	/* Up again, the kernel has lost what it does not show; BIRD or FRR would install it anew. */
	assert_string_equal(k_to(k, "11.0.0.1"), "-");
	/* Carrier: nothing changes unless the sysctl says so. */
	run("ip -n %s link set mirtp0 down", peer_ns);
	spin(k, 1500);
	assert_false(mirror_link_by_name(k->w->m, "mirt0")->carrier);
	assert_string_equal(k_to(k, "10.0.0.1"), both);
	run("sysctl -qw net.ipv4.conf.mirt0.ignore_routes_with_linkdown=1");
	wait_to(k, "10.0.0.1", one);
	run("ip -n %s link set mirtp0 up", peer_ns);
	wait_to(k, "10.0.0.1", both);
	assert_equals_kernel(k);
	/* The last IPv4 address. */
	run("ip addr del 192.0.2.254/24 dev mirt0");
	assert_equals_kernel(k);
	assert_string_equal(k_to(k, "10.0.0.1"), one);
	run("ip addr add 192.0.2.254/24 dev mirt0");
	assert_equals_kernel(k);
	assert_string_equal(k_to(k, "10.0.0.1"), both);
	run("ip link del mirt0");
	spin(k, 15);
	assert_string_equal(k_to(k, "10.0.0.1"), "-");
	assert_equals_kernel(k);
	assert_null(mirror_link_by_name(k->w->m, "mirt0"));
	stop(k);
}

static void test_nexthop_events(void **state)
{
	struct kernel *k = *state;
	char expected[128];
	unsigned a, b;

	start(k, 0);
	a = ifindex(k, "mirt0");
	b = ifindex(k, "mirt1");
	run("ip nexthop add id 1 via 192.0.2.1 dev mirt0 && ip nexthop add id 2 via 192.0.3.1 dev mirt1");
	run("ip nexthop add id 3 via 2001:db8::1 dev mirt0 && ip nexthop add id 4 blackhole");
	run("ip nexthop add id 10 group 1,3/2,5 && ip route add 10.0.0.0/8 nhid 10 && ip route add 11.0.0.0/8 nhid 1");
	run("ip route add 12.0.0.0/8 nhid 3 && ip route add 13.0.0.0/8 nhid 4 && ip -6 route add 2001:db8:7::/48 nhid 3");
	run("ip route add default via 192.0.3.1");
	assert_equals_kernel(k);
	snprintf(expected, sizeof(expected), "%u>192.0.2.1*3 %u>192.0.3.1*5", a, b);
	assert_string_equal(k_to(k, "10.0.0.1"), expected);
	assert_string_equal(k_to(k, "13.0.0.1"), "blackhole");
	snprintf(expected, sizeof(expected), "%u>2001:db8::1", a);
	assert_string_equal(k_to(k, "12.0.0.1"), expected);
	assert_string_equal(k_to(k, "2001:db8:7::1"), expected);
	run("ip nexthop replace id 4 via 192.0.3.9 dev mirt1 && ip nexthop replace id 2 via 192.0.3.2 dev mirt1");
	settle(k);
	snprintf(expected, sizeof(expected), "%u>192.0.2.1*3 %u>192.0.3.2*5", a, b);
	assert_string_equal(k_to(k, "10.0.0.1"), expected);
	snprintf(expected, sizeof(expected), "%u>192.0.3.9", b);
	assert_string_equal(k_to(k, "13.0.0.1"), expected);
	assert_equals_kernel(k);
	/* Deleting an object takes its routes along, silently. */
	run("ip nexthop del id 3");
	spin(k, 15);
	snprintf(expected, sizeof(expected), "%u>192.0.3.1", b);
	assert_string_equal(k_to(k, "12.0.0.1"), expected);
	assert_equals_kernel(k);
	/* So does the fall of its device; not even the deletion of the object is told. */
	run("ip link set mirt0 down");
	spin(k, 15);
	snprintf(expected, sizeof(expected), "%u>192.0.3.2", b);
	assert_string_equal(k_to(k, "10.0.0.1"), expected);
	assert_equals_kernel(k);
	assert_int_equal(k->w->m->nexthops.count, 3);
	run("ip -n %s link set mirtp1 down", peer_ns);
	settle(k);
	spin(k, 1500);  /* linkwatch may take a second to act on it */
	assert_equals_kernel(k);
	assert_int_equal(k->w->m->nexthops.count, 0);
	assert_int_equal(k->w->m->stats.malformed, 0);
	stop(k);
}

static void write_batch(const char *path, const char *verb, unsigned count, unsigned step, bool ipv6)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	for (unsigned i = 0; i < count; i += step) {
		uint32_t a = 0x14000000 + (i << 8);

		if (ipv6)
			fprintf(f, "route %s 2001:%x:%x::/48 via 2001:db8:%u::1\n", verb, 0x1000 + (i >> 16), i & 0xffff, i & 1);
		else
			fprintf(f, "route %s %u.%u.%u.0/24 via 192.0.%u.1\n", verb, a >> 24, a >> 16 & 255, a >> 8 & 255, 2 + (i & 1));
	}
	fclose(f);
}

/* Change the kernel from a child, while our loop runs. */
static void batch_beside(struct kernel *k, const char *path, bool ipv6)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(execlp("ip", "ip", ipv6 ? "-6" : "-4", "-batch", path, NULL));
	while (waitpid(pid, &status, WNOHANG) == 0)
		assert_true(sd_event_run(k->event, 1000) >= 0);
	assert_int_equal(status, 0);
}

static void test_many_routes(void **state)
{
	struct kernel *k = *state;
	unsigned count = small ? 20000 : 100000;
	char path[64];
	uint64_t t;

	snprintf(path, sizeof(path), "/tmp/mirt-batch-%d", getpid());
	start(k, 0);
	write_batch(path, "add", count, 1, false);
	t = clock_now_ns();
	batch_beside(k, path, false);
	settle(k);
	print_message("%u routes added in %.2f s\n", count, (double)(clock_now_ns() - t) / 1e9);
	assert_int_equal(k->w->m->routes[0].by_table[MIRROR_MAIN], count + 2);
	assert_true(equals_kernel(k, true));
	write_batch(path, "del", count, 2, false);
	batch_beside(k, path, false);
	assert_equals_kernel(k);
	assert_int_equal(k->w->m->stats.overruns, 0);
	assert_int_equal(k->w->m->stats.resyncs[MIRROR_CAUSE_CHANGE], 0);
	write_batch(path, "add", count, 2, false);
	batch_beside(k, path, false);
	assert_equals_kernel(k);
	/* All of them by the fall of a link: half of the routes go, without a word. */
	run("ip link set mirt0 down");
	assert_equals_kernel(k);
	assert_int_equal(k->w->m->routes[0].by_table[MIRROR_MAIN], count / 2 + 1);
	unlink(path);
	stop(k);
}

/* The kernel goes on in a dump of IPv6 routes by counting: what was shown and is deleted hides as many routes that
 * follow. None of those may be lost. */
static void test_deletions_during_dump6(void **state)
{
	struct kernel *k = *state;
	unsigned count = 20000, gone = 500;
	uint32_t before;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/mirt-batch-%d", getpid());
	start(k, 0);
	write_batch(path, "add", count, 1, true);
	batch_beside(k, path, true);
	assert_equals_kernel(k);
	before = k->w->m->routes[1].by_table[MIRROR_MAIN];
	write_batch(path, "del", gone, 1, true);
	mirror_resync(k->w->m, "test");
	while (k->w->m->dump != DUMP_ROUTE6)
		assert_true(sd_event_run(k->event, 10000) >= 0);
	/* The dump goes on only as it is read. */
	assert_true(sd_event_run(k->event, 10000) >= 0);
	assert_int_equal(k->w->m->dump, DUMP_ROUTE6);
	/* An addition makes the kernel begin its walk anew, and skip as many as it had shown. */
	run("ip -6 -batch %s && ip -6 route add 2001:db8:ffff::/48 via 2001:db8:0::1", path);
	while (k->w->m->sync) {
		struct mirror_stats s;

		assert_true(sd_event_run(k->event, 10000) >= 0);
		assert_true(k->w->m->routes[1].by_table[MIRROR_MAIN] >= before - gone);
		mirror_get_stats(k->w->m, &s);
		if (!s.pending && !s.resync_running)
			break;
	}
	assert_equals_kernel(k);
	assert_true(k->w->m->stats.resyncs[MIRROR_CAUSE_INTERRUPTED] > 0);
	unlink(path);
	stop(k);
}

static void test_overrun(void **state)
{
	struct kernel *k = *state;
	unsigned count = 20000;
	struct mirror_stats s;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/mirt-batch-%d", getpid());
	run("ip route add 10.0.0.0/8 via 192.0.2.1");
	start(k, 4096);
	write_batch(path, "add", count, 1, false);
	/* Not reading meanwhile. */
	run("ip -batch %s", path);
	for (unsigned i = 0; i < 200; i++) {
		/* No gap: what was known stays until it is known to be gone. */
		assert_string_not_equal(k_to(k, "10.0.0.1"), "-");
		spin(k, 5);
	}
	assert_equals_kernel(k);
	mirror_get_stats(k->w->m, &s);
	assert_true(s.overruns > 0);
	assert_true(s.resyncs[MIRROR_CAUSE_OVERRUN] > 0);
	print_message("%llu overruns, %llu re-reads, the last took %.1f ms\n", (unsigned long long)s.overruns,
		(unsigned long long)s.resyncs[MIRROR_CAUSE_OVERRUN], (double)s.last_resync_ns / 1e6);
	/* Changes go on while reading. */
	write_batch(path, "del", count, 2, false);
	batch_beside(k, path, false);
	assert_equals_kernel(k);
	unlink(path);
	stop(k);
}

static unsigned neigh_kernel_state(struct kernel *k, const char *name, const char *address)
{
	uint8_t addr[16], length;
	struct table_node *n = NULL;

	message_address(address, addr, &length);
	for (uint32_t i = 0; k->w->m->neighs.buckets && i <= k->w->m->neighs.mask; i++)
		for (n = k->w->m->neighs.buckets[i]; n; n = n->next) {
			struct neigh *x = container_of(n, struct neigh, node);

			if (x->pub.ifindex == ifindex(k, name) && !memcmp(x->pub.addr, addr, 16))
				return x->pub.state;
		}
	return 0;
}

static void mark(struct kernel *k, const char *name, const char *address, uint32_t now_s)
{
	uint8_t addr[16], length;
	int family = message_address(address, addr, &length);
	uint32_t slot = fib_neigh_find(k->w->fib, mirror_link_by_name(k->w->m, name)->iface, family == AF_INET ? 4 : 6, addr);

	assert_int_not_equal(slot, FIB_NEIGH_NONE);
	fib_neigh_mark(fib_neigh(k->w->fib, slot), now_s);
}

static bool valid(struct kernel *k, const char *name, const char *address)
{
	uint8_t addr[16], length;
	int family = message_address(address, addr, &length);
	uint32_t slot = fib_neigh_find(k->w->fib, mirror_link_by_name(k->w->m, name)->iface, family == AF_INET ? 4 : 6, addr);

	return slot && fib_neigh(k->w->fib, slot)->mac_state & FIB_NEIGH_VALID;
}

/* A gateway that no one has talked to, and a stale one: both are asked for, and answer. */
static void test_neighbours(void **state)
{
	struct kernel *k = *state;
	uint32_t now = 1000;

	run("ip route add 10.0.0.0/8 via 192.0.2.1 && ip -6 route add 2001:db8:5::/48 via 2001:db8:1::1");
	run("sysctl -qw net.ipv4.neigh.mirt0.delay_first_probe_time=1 net.ipv6.neigh.mirt1.delay_first_probe_time=1");
	start(k, 0);
	settle(k);
	assert_false(valid(k, "mirt0", "192.0.2.1"));
	mark(k, "mirt0", "192.0.2.1", now);
	mark(k, "mirt1", "2001:db8:1::1", now);
	mirror_refresh_neighbours(k->w->m, now);
	for (unsigned i = 0; i < 100 && !(valid(k, "mirt0", "192.0.2.1") && valid(k, "mirt1", "2001:db8:1::1")); i++)
		spin(k, 20);
	assert_true(valid(k, "mirt0", "192.0.2.1"));
	assert_true(valid(k, "mirt1", "2001:db8:1::1"));
	run("ip neigh change 192.0.2.1 dev mirt0 nud stale");
	spin(k, 50);
	assert_int_equal(neigh_kernel_state(k, "mirt0", "192.0.2.1"), NUD_STALE);
	assert_true(valid(k, "mirt0", "192.0.2.1"));
	mark(k, "mirt0", "192.0.2.1", ++now);
	mirror_refresh_neighbours(k->w->m, now);
	for (unsigned i = 0; i < 200 && neigh_kernel_state(k, "mirt0", "192.0.2.1") != NUD_REACHABLE; i++) {
		spin(k, 20);
		assert_true(valid(k, "mirt0", "192.0.2.1"));
	}
	assert_int_equal(neigh_kernel_state(k, "mirt0", "192.0.2.1"), NUD_REACHABLE);
	run("ip neigh del 192.0.2.1 dev mirt0");
	spin(k, 50);
	assert_false(valid(k, "mirt0", "192.0.2.1"));
	run("ip neigh add 192.0.2.9 dev mirt0 lladdr 02:00:00:00:00:09 && ip neigh add proxy 192.0.2.10 dev mirt0");
	spin(k, 50);
	assert_true(valid(k, "mirt0", "192.0.2.9"));
	assert_false(valid(k, "mirt0", "192.0.2.10"));
	assert_int_equal(k->w->m->stats.request_errors, 0);
	stop(k);
}

static void test_rules_and_sysctls(void **state)
{
	struct kernel *k = *state;
	const struct fib_iface *i;

	run("sysctl -qw net.ipv4.fib_multipath_hash_policy=1 net.ipv4.conf.mirt0.rp_filter=2");
	start(k, 0);
	assert_null(k->w->fib->rules);
	assert_int_equal(fib_settings(k->w->fib)->hash_policy4, 1);
	i = fib_iface(k->w->fib, mirror_link_by_name(k->w->m, "mirt0")->iface);
	assert_true(i->flags & FIB_IFACE_RP_LOOSE && i->flags & FIB_IFACE_UP && i->flags & FIB_IFACE_FORWARDING4 &&
		i->flags & FIB_IFACE_FORWARDING6);
	run("ip rule add from 10.0.0.0/8 iif mirt1 lookup 100 && ip -6 rule add fwmark 5 lookup 100");
	spin(k, 50);
	assert_int_equal(k->w->fib->rules->count, 2);
	assert_int_equal(k->w->fib->rules->rules[0].iif, ifindex(k, "mirt1"));
	run("ip rule del from 10.0.0.0/8 iif mirt1 lookup 100 && ip -6 rule del fwmark 5 lookup 100");
	run("sysctl -qw net.ipv4.conf.mirt0.rp_filter=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.mirt0.send_redirects=0");
	run("sysctl -qw net.ipv4.fib_multipath_hash_policy=0");
	spin(k, 50);
	assert_null(k->w->fib->rules);
	i = fib_iface(k->w->fib, mirror_link_by_name(k->w->m, "mirt0")->iface);
	assert_true(i->flags & FIB_IFACE_RP_STRICT && i->flags & FIB_IFACE_SEND_REDIRECTS);
	mirror_refresh_neighbours(k->w->m, 10);
	assert_int_equal(fib_settings(k->w->fib)->hash_policy4, 0);
	i = fib_iface(k->w->fib, mirror_link_by_name(k->w->m, "mirt0")->iface);
	assert_false(i->flags & FIB_IFACE_SEND_REDIRECTS);
	run("ip rule del pref 32766");
	spin(k, 50);
	assert_int_equal(k->w->fib->rules->count, 1);
	run("ip rule add pref 32766 lookup main");
	spin(k, 50);
	assert_null(k->w->fib->rules);
	/* Ports come and go: renamed, moved to another namespace and back. */
	run("ip link set mirt1 down && ip link set mirt1 name mirt9 && ip link set mirt9 up");
	settle(k);
	assert_string_equal(fib_iface(k->w->fib, mirror_link_by_name(k->w->m, "mirt9")->iface)->name, "mirt9");
	run("ip link set mirt9 netns %s", peer_ns);
	settle(k);
	assert_null(mirror_link_by_name(k->w->m, "mirt9"));
	assert_int_equal(sizes(k->w->fib).ifaces, 1);
	assert_equals_kernel(k);
	stop(k);
}

static long resident_kib(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
	fclose(f);
	return pages * 4;
}

static void test_large(void **state)
{
	struct kernel *k = *state;
	struct mirror_stats s;
	struct fib_sizes z;
	char path[64];
	uint64_t t;
	long before;

	snprintf(path, sizeof(path), "/tmp/mirt-batch-%d", getpid());
	write_batch(path, "add", 1000000, 1, false);
	run("ip -batch %s", path);
	write_batch(path, "add", 250000, 1, true);
	run("ip -6 -batch %s", path);
	unlink(path);
	before = resident_kib();
	t = clock_now_ns();
	start(k, 0);
	mirror_get_stats(k->w->m, &s);
	z = sizes(k->w->fib);
	print_message("start with %u + %u routes: %.2f s, mirror %.1f MiB (%.0f bytes per route), LPM %.1f + %.1f MiB, "
		"resident %+ld MiB\n", s.routes4[MIRROR_MAIN], s.routes6[MIRROR_MAIN], (double)(clock_now_ns() - t) / 1e9,
		(double)s.bytes / 1048576, (double)s.bytes / 1250000, (double)z.bytes4 / 1048576, (double)z.bytes6 / 1048576,
		(resident_kib() - before) / 1024);
	assert_true(s.routes4[MIRROR_MAIN] >= 1000000 && s.routes6[MIRROR_MAIN] >= 250000);
	t = clock_now_ns();
	settle(k);
	print_message("ports became ours: %.2f s to settle\n", (double)(clock_now_ns() - t) / 1e9);
	mirror_resync(k->w->m, "test");
	settle(k);
	mirror_get_stats(k->w->m, &s);
	print_message("re-read: %.2f s\n", (double)s.last_resync_ns / 1e9);
	t = clock_now_ns();
	run("ip link set mirt0 down");
	print_message("ip link down took %.2f s\n", (double)(clock_now_ns() - t) / 1e9);
	t = clock_now_ns();
	settle(k);
	print_message("half of the routes gone: %.2f s to settle\n", (double)(clock_now_ns() - t) / 1e9);
	assert_int_equal(k->w->m->routes[0].by_table[MIRROR_MAIN], 500001);
	stop(k);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { T(test_start_and_follow), T(test_link_down), T(test_nexthop_events),
		T(test_many_routes), T(test_deletions_during_dump6), T(test_overrun), T(test_neighbours),
		T(test_rules_and_sysctls) };
	const struct CMUnitTest large[] = { T(test_large) };  /* half a minute and a GiB: only when asked for */
	int failed;

	test_start();
	if (geteuid() || system("ip -V >/dev/null 2>&1")) {
		printf("needs root and iproute2\n");
		return 77;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (getenv("ROUTERD_TEST_LARGE"))
		failed += cmocka_run_group_tests(large, NULL, NULL);
	return failed;
}
