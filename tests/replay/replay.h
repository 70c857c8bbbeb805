/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The replay harness: the real stages on memory ports, stepped by hand. A test builds a router, injects packets, steps,
 * looks at what came out, and calls replay_finish(), which asserts conservation and the frame ledger.
 *
 * The standard router: port P (0, 1, ...) has interface number P + 1, ifindex 100 + P, MAC 02:00:00:00:00:PP, the
 * networks 10.0.P.0/24 and 2001:db8:P::/64 on link, and on them a host .2 / ::2 with MAC 02:00:00:00:01:PP, which is a
 * resolved neighbour. The router's own addresses are .1 / ::1.
 */
#ifndef ROUTERD_TESTS_REPLAY_H
#define ROUTERD_TESTS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "port/memory.h"
#include "route/fib.h"
#include "worker/pipeline.h"

#define REPLAY_WORKERS 4
#define REPLAY_ROUTES 256

struct replay_options {
	unsigned ports;    /* 0 = 2 */
	unsigned workers;  /* 0 = 1 */
	unsigned rxqs;     /* per port; 0 = one for each worker; queue q belongs to worker q % workers */
	unsigned txqs;     /* per port; 0 = one for each worker */
	uint8_t rung;
	bool discard;
	bool bare;         /* no routes and neighbours, only ports and interfaces */
	uint32_t frames;   /* per worker; 0 = 1024 */
	uint32_t shift;    /* 0 = 12 */
	uint32_t fill_size, rx_size, tx_size, completion_size;
	uint32_t hash_seed;
};

struct replay_route {
	char prefix[64];
	uint32_t group;
};

/* What the FIB has retired and a reader may still look at. */
struct replay_retired {
	struct replay_retired *next;
	void *memory;
};

struct replay {
	struct frame_table table;
	struct frame_cache caches[REPLAY_WORKERS];
	struct frame_cache *cache_list[WORKERS_MAX];
	struct fib *fib;
	struct port *ports[PORT_MAX];
	struct pipeline pipelines[REPLAY_WORKERS];
	unsigned port_count, worker_count, batch;
	uint64_t now_ns;
	uint64_t injected[PORT_MAX], refused;
	uint64_t graces;
	uint32_t held;   /* frames that the test itself holds; replay_finish expects them WORKER or HELD */
	struct replay_retired *retired;
	struct replay_route routes[REPLAY_ROUTES];
	unsigned route_count;
	bool discard;
};

/* A failed assertion calls this; the default prints and aborts. cmocka tests set it to replay_fail_cmocka(). */
extern void (*replay_fail)(const char *file, int line, const char *text);
void replay_fail_text(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define replay_check(condition, ...) \
	do { \
		if (!(condition)) \
			replay_fail_text(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/* Verdicts that any finished replay of this program has seen. */
extern uint64_t replay_provoked[VERDICT_COUNT];

/* NULL = all defaults. Fails loudly. */
struct replay *replay_new(const struct replay_options *o);

/* Check everything and free it. */
void replay_finish(struct replay *r);
/* The checks alone. */
void replay_check_books(struct replay *r);

/* ---- set-up ---- */
void replay_mac(uint8_t mac[6], unsigned kind, unsigned port);  /* kind 0: the router's, 1: the host's */
void replay_iface(const struct replay *r, uint16_t number, struct fib_iface *ret);  /* a copy, to be changed and set */
void replay_set_iface(struct replay *r, const struct fib_iface *iface);
/* A VLAN sub-interface of @port, with MAC and settings of the port. */
void replay_add_vlan(struct replay *r, uint16_t number, uint16_t port, uint16_t vlan, uint16_t proto);

struct replay_path {
	uint16_t iface;
	const char *gateway;  /* NULL = on link */
	uint32_t weight;      /* 0 = 1 */
	bool dead;
};

/* Set or replace "prefix/length". */
void replay_route(struct replay *r, const char *prefix, uint32_t mtu, const struct replay_path *paths, unsigned n);
void replay_route_verdict(struct replay *r, const char *prefix, enum verdict v);
void replay_unroute(struct replay *r, const char *prefix);
/* A neighbour with the MAC 02:00:00:00:@kind:@last, or one without (@kind 0xff). Takes a reference. */
uint32_t replay_neigh(struct replay *r, uint16_t iface, const char *addr, unsigned kind, unsigned last);

/* ---- running ---- */
/* Inject into queue 0 of a port; false = the port did not take it. */
bool replay_inject(struct replay *r, unsigned port, const void *bytes, uint32_t length);
bool replay_inject_queue(struct replay *r, unsigned port, unsigned queue, const void *bytes, uint32_t length);
bool replay_inject_segments(struct replay *r, unsigned port, const void *bytes, const uint32_t *lengths, unsigned n);
/* One loop of a worker: collect, refill, receive and run each of its queues, reap. Returns packets received. */
unsigned replay_step_worker(struct replay *r, unsigned worker);
/* Time passes by @ns, the ports' devices run, then each worker makes one loop. Returns packets received. */
unsigned replay_step(struct replay *r, uint64_t ns);
/* Step until nothing arrives any more. */
void replay_run(struct replay *r);

/* ---- results ---- */
uint64_t replay_count(const struct replay *r, unsigned port, enum verdict v);
uint64_t replay_count_bytes(const struct replay *r, unsigned port, enum verdict v);
/* All packets with this verdict, on all ports. */
uint64_t replay_total(const struct replay *r, enum verdict v);
uint32_t replay_sent_count(const struct replay *r, unsigned port);  /* over the port's queues */
const struct memory_packet *replay_sent(const struct replay *r, unsigned port, uint32_t i);  /* of queue 0 */
const struct memory_packet *replay_delivered(const struct replay *r, unsigned port, uint32_t i);
unsigned replay_place(const struct replay *r, enum frame_place place);

#endif
