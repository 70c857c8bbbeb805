/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The running daemon: all its parts in one struct, put together by router_start() in the order of dependency and taken
 * apart by router_stop() in exactly the reverse order. Also decides which devices are ports (router_ports.c).
 *
 * Thread: control, all of it. Ownership: the router owns everything it points to.
 */
#ifndef ROUTERD_CONTROL_ROUTER_H
#define ROUTERD_CONTROL_ROUTER_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "common/error.h"
#include "control/config.h"
#include "control/control_socket.h"
#include "control/metrics.h"
#include "control/mirror.h"
#include "control/ports.h"
#include "control/reclaim.h"

/* What the router remembers of an open port, by port number. */
struct router_port {
	bool open;
	bool gone;                   /* its device has left, even if one like it is there again */
	uint32_t ifindex;
	char name[16];
	/* What the workers had counted under this port number before the port was opened. */
	uint64_t base_packets[VERDICT_COUNT], base_bytes[VERDICT_COUNT];
	/* What ports_link() was told last. */
	bool told;
	bool carrier;
	uint8_t mac[6];
	uint32_t pass_flags, mtu;
};

/* A device that the configuration wants and that is no port (yet). */
struct router_refusal {
	char name[16];
	char text[512];              /* why, and the cure */
	bool waiting;                /* only for the device to appear or to be brought up */
	uint64_t retry_ns;           /* not before; CLOCK_MONOTONIC. 0: when the device changes */
	uint64_t delay_ns;           /* between the last try and the next, doubled each time. 0: none yet */
	uint32_t mtu, master;        /* of the device at the last try */
	bool current;                /* the scan that is running has met it */
};

struct router {
	const char *config_path;
	struct config *config;
	sd_event *event;
	struct control_socket *control;
	struct metrics *metrics;
	struct reclaim *reclaim;
	struct fib *fib;
	struct ports *ports;
	struct mirror *mirror;
	sd_event_source *tick;
	sd_event_source *scan;       /* one-shot: look at the devices again */
	struct router_port port[PORT_MAX];
	unsigned port_count;
	uint8_t vlan_told[FIB_IFACE_MAX];  /* by interface number: pass_flags + 1 that ports_vlan() was told last */
	struct router_refusal *refusals;
	unsigned refusal_count;
	uint64_t start_ns;
	bool ready;                  /* forwarding is possible */
	bool forwarding4, forwarding6; /* the kernel's own switches */
	bool forwarding_known;
};

/* From configuration to forwarding. @config is taken over, also on failure. On failure nothing is left behind. */
int router_start(struct router *r, sd_event *event, const char *config_path, struct config *config, struct error *e);

/* The reverse of router_start(), from whatever state it reached. */
void router_stop(struct router *r);

/* Call @fn for everything that deserves the administrator's attention now, one sentence each. */
void router_warnings(struct router *r, void (*fn)(void *ctx, const char *text), void *ctx);

/* ---- router_ports.c ---- */

extern const struct mirror_hooks router_hooks;

/* Open ports whose devices are there, close those whose devices are gone or no longer wanted. */
void router_scan(struct router *r);

/* Tell the steer programs what the mirror knows of the ports' links, where it changed. */
void router_push_links(struct router *r);

/* The refusal of a device by name, NULL = none. */
const struct router_refusal *router_refusal(const struct router *r, const char *name);

#endif
