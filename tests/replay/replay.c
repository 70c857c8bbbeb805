/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "replay/replay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

uint64_t replay_provoked[VERDICT_COUNT];

static void fail_abort(const char *file, int line, const char *text)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, text);
	abort();
}

void (*replay_fail)(const char *file, int line, const char *text) = fail_abort;

void replay_fail_text(const char *file, int line, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	replay_fail(file, line, text);
}

/* ---- memory of the FIB ---- */

static void *fib_alloc(void *ctx, size_t bytes)
{
	return calloc(1, bytes);
}

static void fib_release(void *ctx, void *p, size_t bytes)
{
	free(p);
}

/* Freed when no worker is inside a batch: at the next step. */
static void fib_retire(void *ctx, void *p, size_t bytes)
{
	struct replay *r = ctx;
	struct replay_retired *item = malloc(sizeof(*item));

	if (!item)
		abort();
	item->memory = p;
	item->next = r->retired;
	r->retired = item;
}

static uint64_t fib_grace(void *ctx)
{
	return ((struct replay *)ctx)->graces;
}

static void quiesce(struct replay *r)
{
	while (r->retired) {
		struct replay_retired *item = r->retired;

		r->retired = item->next;
		free(item->memory);
		free(item);
	}
	r->graces += 2;
}

/* ---- building ---- */

void replay_mac(uint8_t mac[6], unsigned kind, unsigned port)
{
	const uint8_t m[6] = { 2, 0, 0, 0, (uint8_t)kind, (uint8_t)port };

	memcpy(mac, m, 6);
}

void replay_set_iface(struct replay *r, const struct fib_iface *iface)
{
	int e = fib_iface_set(r->fib, iface);

	replay_check(e == 0, "fib_iface_set: %s", strerror(-e));
}

void replay_iface(const struct replay *r, uint16_t number, struct fib_iface *ret)
{
	const struct fib_iface *i = fib_iface(r->fib, number);

	replay_check(i, "interface %u is missing", number);
	*ret = *i;
}

void replay_add_vlan(struct replay *r, uint16_t number, uint16_t port, uint16_t vlan, uint16_t proto)
{
	struct fib_iface i;

	replay_iface(r, (uint16_t)(port + 1), &i);
	i.number = number;
	i.ifindex = 1000u + number;
	i.vlan = vlan;
	i.vlan_proto = htons(proto);
	snprintf(i.name, sizeof(i.name), "p%u.%u", port, vlan);
	replay_set_iface(r, &i);
}

/* "addr/len" or "addr"; returns the family. */
static uint8_t parse_address(const char *text, uint8_t addr[16], uint8_t *plen)
{
	char buffer[64], *slash;
	uint8_t family = strchr(text, ':') ? 6 : 4;

	snprintf(buffer, sizeof(buffer), "%s", text);
	slash = strchr(buffer, '/');
	if (slash)
		*slash = 0;
	memset(addr, 0, 16);
	replay_check(inet_pton(family == 6 ? AF_INET6 : AF_INET, buffer, addr) == 1, "bad address %s", text);
	if (plen)
		*plen = (uint8_t)(slash ? atoi(slash + 1) : family == 6 ? 128 : 32);
	return family;
}

static struct replay_route *find_route(struct replay *r, const char *prefix)
{
	for (unsigned i = 0; i < r->route_count; i++)
		if (!strcmp(r->routes[i].prefix, prefix))
			return &r->routes[i];
	return NULL;
}

static void install(struct replay *r, const char *prefix, uint32_t group)
{
	struct replay_route *route = find_route(r, prefix);
	uint32_t old = route ? route->group : 0;
	uint8_t addr[16], plen;
	int e;

	if (parse_address(prefix, addr, &plen) == 4)
		e = fib_route4_set(r->fib, load_be32(addr), plen, group);
	else
		e = fib_route6_set(r->fib, addr, plen, group);
	replay_check(e == 0, "route %s: %s", prefix, strerror(-e));
	if (!route) {
		replay_check(r->route_count < REPLAY_ROUTES, "too many routes for the harness");
		route = &r->routes[r->route_count++];
		snprintf(route->prefix, sizeof(route->prefix), "%s", prefix);
	}
	route->group = group;
	if (old)
		fib_group_put(r->fib, old);
}

void replay_route(struct replay *r, const char *prefix, uint32_t mtu, const struct replay_path *paths, unsigned n)
{
	struct fib_path_spec specs[FIB_PATHS_MAX] = { 0 };
	uint32_t group;
	int e;

	for (unsigned i = 0; i < n; i++) {
		specs[i].iface = paths[i].iface;
		specs[i].dead = paths[i].dead;
		specs[i].weight = paths[i].weight ? paths[i].weight : 1;
		if (paths[i].gateway)
			specs[i].gateway_family = parse_address(paths[i].gateway, specs[i].gateway, NULL);
	}
	e = fib_group_get(r->fib, VERDICT_FORWARD, mtu, specs, n, &group);
	replay_check(e == 0, "group for %s: %s", prefix, strerror(-e));
	install(r, prefix, group);
}

void replay_route_verdict(struct replay *r, const char *prefix, enum verdict v)
{
	uint32_t group;
	int e = fib_group_get(r->fib, v, 0, NULL, 0, &group);

	replay_check(e == 0, "group for %s: %s", prefix, strerror(-e));
	install(r, prefix, group);
}

void replay_unroute(struct replay *r, const char *prefix)
{
	struct replay_route *route = find_route(r, prefix);
	uint8_t addr[16], plen;
	int e;

	replay_check(route, "no route %s", prefix);
	if (parse_address(prefix, addr, &plen) == 4)
		e = fib_route4_del(r->fib, load_be32(addr), plen);
	else
		e = fib_route6_del(r->fib, addr, plen);
	replay_check(e == 0, "delete %s: %s", prefix, strerror(-e));
	fib_group_put(r->fib, route->group);
	*route = r->routes[--r->route_count];
}

uint32_t replay_neigh(struct replay *r, uint16_t iface, const char *addr, unsigned kind, unsigned last)
{
	uint8_t bytes[16], mac[6], family = parse_address(addr, bytes, NULL);
	uint32_t slot;
	int e = fib_neigh_get(r->fib, iface, family, bytes, &slot);

	replay_check(e == 0, "neighbour %s: %s", addr, strerror(-e));
	replay_mac(mac, kind, last);
	fib_neigh_set_mac(r->fib, slot, mac, kind != 0xff);
	return slot;
}

static void add_port(struct replay *r, unsigned n, const struct replay_options *o)
{
	unsigned rxqs = o->rxqs ? o->rxqs : r->worker_count, txqs = o->txqs ? o->txqs : r->worker_count;
	struct memory_port_options mo = {
		.number = (uint16_t)n, .rxqs = (uint16_t)rxqs, .txqs = (uint16_t)txqs,
		.first_rxq = (uint16_t)(n * rxqs), .first_txq = (uint16_t)(n * txqs),
		.rung = o->rung, .discard = o->discard, .fill_size = o->fill_size, .rx_size = o->rx_size,
		.tx_size = o->tx_size, .completion_size = o->completion_size,
		.frames = &r->table, .caches = r->cache_list,
	};
	struct fib_iface iface = { .ifindex = 100 + n, .mtu = 1500, .mtu6 = 1500, .number = (uint16_t)(n + 1),
		.port = (uint16_t)n, .flags = FIB_IFACE_UP | FIB_IFACE_FORWARDING4 | FIB_IFACE_FORWARDING6 };
	char name[16];
	int e;

	snprintf(name, sizeof(name), "p%u", n);
	mo.name = name;
	memcpy(iface.name, name, sizeof(iface.name));
	replay_mac(iface.mac, 0, n);
	e = memory_port_open(&mo, &r->ports[n]);
	replay_check(e == 0, "memory port: %s", strerror(-e));
	for (unsigned q = 0; q < rxqs; q++)
		r->ports[n]->rxqs[q].worker = (uint8_t)(q % r->worker_count);
	replay_set_iface(r, &iface);
}

static void add_networks(struct replay *r, unsigned n)
{
	const struct replay_path on_link = { .iface = (uint16_t)(n + 1) };
	char text[64];

	snprintf(text, sizeof(text), "10.0.%u.0/24", n);
	replay_route(r, text, 0, &on_link, 1);
	snprintf(text, sizeof(text), "10.0.%u.1/32", n);
	replay_route_verdict(r, text, VERDICT_KERNEL_LOCAL);
	snprintf(text, sizeof(text), "2001:db8:%x::/64", n);
	replay_route(r, text, 0, &on_link, 1);
	snprintf(text, sizeof(text), "2001:db8:%x::1/128", n);
	replay_route_verdict(r, text, VERDICT_KERNEL_LOCAL);
	snprintf(text, sizeof(text), "10.0.%u.2", n);
	replay_neigh(r, (uint16_t)(n + 1), text, 1, n);
	snprintf(text, sizeof(text), "2001:db8:%x::2", n);
	replay_neigh(r, (uint16_t)(n + 1), text, 1, n);
}

static void add_worker(struct replay *r, unsigned w, uint32_t frames)
{
	uint32_t *stack = malloc(frames * sizeof(*stack));
	int e;

	replay_check(stack, "no memory");
	r->cache_list[w] = &r->caches[w];
	frame_cache_init(&r->caches[w], &r->table, (uint8_t)w, stack, frames);
	frame_cache_adopt(&r->caches[w], w * frames, frames);
	e = pipeline_init(&r->pipelines[w], (uint8_t)w, r->fib, r->ports, &r->caches[w], r->cache_list);
	replay_check(e == 0, "pipeline: %s", strerror(-e));
}

struct replay *replay_new(const struct replay_options *o)
{
	static const struct replay_options defaults;
	struct replay *r = aligned_alloc(CACHE_LINE, (sizeof(*r) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));
	struct route_memory memory = { fib_alloc, fib_release, fib_retire, fib_grace, r };
	uint32_t frames;

	if (!r)
		abort();
	memset(r, 0, sizeof(*r));
	if (!o)
		o = &defaults;
	frames = o->frames ? o->frames : 1024;
	r->worker_count = o->workers ? o->workers : 1;
	r->port_count = o->ports ? o->ports : 2;
	r->batch = BATCH_SIZE;
	r->now_ns = 1000 * NS_PER_S;
	r->discard = o->discard;
	r->table.shift = o->shift ? o->shift : 12;
	r->table.count = frames * r->worker_count;
	r->table.memory = aligned_alloc(4096, (size_t)r->table.count << r->table.shift);
	r->table.frames = aligned_alloc(CACHE_LINE, (r->table.count * sizeof(struct frame) + 63) & ~(size_t)63);
	r->fib = fib_new(&memory, o->hash_seed ? o->hash_seed : 12345);
	if (!r->table.memory || !r->table.frames || !r->fib)
		abort();
	memset(r->table.memory, 0xa5, (size_t)r->table.count << r->table.shift);
	memset(r->table.frames, 0, r->table.count * sizeof(struct frame));
	for (unsigned w = 0; w < r->worker_count; w++)
		add_worker(r, w, frames);
	for (unsigned n = 0; n < r->port_count; n++) {
		add_port(r, n, o);
		if (!o->bare)
			add_networks(r, n);
	}
	for (unsigned w = 0; w < r->worker_count; w++)
		replay_step_worker(r, w);
	return r;
}

/* ---- running ---- */

static bool count_inject(struct replay *r, unsigned port, int e)
{
	if (e < 0)
		r->refused++;
	else
		r->injected[port]++;
	return e == 0;
}

bool replay_inject_queue(struct replay *r, unsigned port, unsigned queue, const void *bytes, uint32_t length)
{
	return count_inject(r, port, memory_port_inject(r->ports[port], queue, bytes, length));
}

bool replay_inject(struct replay *r, unsigned port, const void *bytes, uint32_t length)
{
	return replay_inject_queue(r, port, 0, bytes, length);
}

bool replay_inject_segments(struct replay *r, unsigned port, const void *bytes, const uint32_t *lengths, unsigned n)
{
	return count_inject(r, port, memory_port_inject_segments(r->ports[port], 0, bytes, lengths, n));
}

static unsigned run_queue(struct replay *r, unsigned worker, struct port_rxq *q)
{
	struct packet packets[BATCH_SIZE];
	const struct port_ops *ops = q->port->ops;
	unsigned n;

	ops->refill(q, &r->caches[worker]);
	n = ops->rx_burst(q, packets, r->batch);
	pipeline_run(&r->pipelines[worker], packets, n);
	return n;
}

unsigned replay_step_worker(struct replay *r, unsigned worker)
{
	struct frame_cache *cache = &r->caches[worker];
	unsigned total = 0;

	frame_collect(cache);
	for (unsigned n = 0; n < r->port_count; n++) {
		struct port *p = r->ports[n];

		for (unsigned q = 0; p && q < p->rxq_count; q++)
			if (p->rxqs[q].worker == worker)
				total += run_queue(r, worker, &p->rxqs[q]);
	}
	for (unsigned n = 0; n < r->port_count; n++) {
		struct port_txq *q = r->ports[n] ? r->ports[n]->worker_txq[worker] : NULL;

		if (!q)
			continue;
		port_txq_lock(q);
		q->port->ops->tx_reap(q, cache, r->cache_list);
		port_txq_unlock(q);
	}
	return total;
}

unsigned replay_step(struct replay *r, uint64_t ns)
{
	unsigned total = 0;

	quiesce(r);
	r->now_ns += ns;
	for (unsigned n = 0; n < r->port_count; n++)
		if (r->ports[n])
			memory_port_step(r->ports[n], r->now_ns);
	for (unsigned w = 0; w < r->worker_count; w++) {
		r->pipelines[w].now_ns = r->now_ns;
		total += replay_step_worker(r, w);
	}
	return total;
}

void replay_run(struct replay *r)
{
	while (replay_step(r, NS_PER_MS))
		;
}

/* ---- results ---- */

static uint64_t sum_verdict(const struct replay *r, unsigned port, enum verdict v, bool bytes)
{
	uint64_t sum = 0;

	for (unsigned w = 0; w < r->worker_count; w++) {
		const struct counter_pair *c = &r->pipelines[w].stats->ports[port].verdicts[v];

		sum += counter_read(bytes ? &c->bytes : &c->packets);
	}
	return sum;
}

uint64_t replay_count(const struct replay *r, unsigned port, enum verdict v)
{
	return sum_verdict(r, port, v, false);
}

uint64_t replay_count_bytes(const struct replay *r, unsigned port, enum verdict v)
{
	return sum_verdict(r, port, v, true);
}

uint64_t replay_total(const struct replay *r, enum verdict v)
{
	uint64_t sum = 0;

	for (unsigned n = 0; n < PORT_MAX; n++)
		sum += replay_count(r, n, v);
	return sum;
}

uint32_t replay_sent_count(const struct replay *r, unsigned port)
{
	uint32_t sum = 0;

	for (unsigned q = 0; q < r->ports[port]->txq_count; q++)
		sum += memory_port_sent(r->ports[port], q)->count;
	return sum;
}

const struct memory_packet *replay_sent(const struct replay *r, unsigned port, uint32_t i)
{
	const struct memory_log *log = memory_port_sent(r->ports[port], 0);

	replay_check(i < log->count, "port %u sent only %u packets", port, log->count);
	return &log->packets[i];
}

const struct memory_packet *replay_delivered(const struct replay *r, unsigned port, uint32_t i)
{
	const struct memory_log *log = memory_port_delivered(r->ports[port]);

	replay_check(i < log->count, "port %u delivered only %u packets", port, log->count);
	return &log->packets[i];
}

unsigned replay_place(const struct replay *r, enum frame_place place)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->table.count; i++)
		n += frame_get_place(&r->table.frames[i]) == place;
	return n;
}
