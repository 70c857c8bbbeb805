/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/router.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "api/text.h"
#include "common/clock.h"
#include "common/log.h"
#include "control/commands.h"
#include "control/metrics_families.h"

#define TICK_US 1000000

static bool read_switch(const char *path)
{
	char c = '0';
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool on = fd >= 0 && read(fd, &c, 1) == 1 && c != '0';

	if (fd >= 0)
		close(fd);
	return on;
}

/* One line per family and change. */
static void note_forwarding(const char *family, const char *sysctl, bool on, bool first)
{
	if (!on)
		log_warning("kernel forwarding of %s is off: nothing of it is forwarded, and there is no hot "
			    "standby if routerd "
			    "stops; turn it on with: sysctl -w %s=1",
			family, sysctl);
	else if (!first)
		log_notice("kernel forwarding of %s is on", family);
}

static void read_forwarding(struct router *r)
{
	bool on4 = read_switch("/proc/sys/net/ipv4/ip_forward");
	bool on6 = read_switch("/proc/sys/net/ipv6/conf/all/forwarding");

	if (!r->forwarding_known || on4 != r->forwarding4)
		note_forwarding("IPv4", "net.ipv4.ip_forward", on4, !r->forwarding_known);
	if (!r->forwarding_known || on6 != r->forwarding6)
		note_forwarding("IPv6", "net.ipv6.conf.all.forwarding", on6, !r->forwarding_known);
	r->forwarding4 = on4;
	r->forwarding6 = on6;
	r->forwarding_known = true;
}

static bool worker_alive(const struct router *r, unsigned worker, uint64_t now)
{
	struct worker_info info;

	workers_get_info(ports_get_workers(r->ports), worker, &info);
	return now < info.heartbeat_ns ||
	       now - info.heartbeat_ns < r->config->heartbeat_timeout_ms * NS_PER_MS;
}

/* Only while this thread and all workers show signs of life. Does nothing without systemd's watchdog. */
static void feed_watchdog(const struct router *r, uint64_t now)
{
	for (unsigned w = 0; w < ports_workers(r->ports); w++)
		if (!worker_alive(r, w, now))
			return;
	sd_notify(0, "WATCHDOG=1");
}

static void retry_refused(struct router *r, uint64_t now)
{
	for (unsigned i = 0; i < r->refusal_count; i++)
		if (r->refusals[i].retry_ns && r->refusals[i].retry_ns <= now) {
			sd_event_source_set_enabled(r->scan, SD_EVENT_ONESHOT);
			return;
		}
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct router *r = userdata;
	uint64_t now = clock_now_ns();

	(void)usec;
	ports_tick(r->ports, now);
	mirror_refresh_neighbours(r->mirror, (uint32_t)(now / NS_PER_S));
	read_forwarding(r);
	router_push_links(r);
	retry_refused(r, now);
	feed_watchdog(r, now);
	sd_event_source_set_time_relative(source, TICK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* "lan0, wan0" */
static void open_port_names(const struct router *r, char *text, size_t size)
{
	size_t used = 0;

	for (unsigned n = 0; n < PORT_MAX && used < size; n++)
		if (r->port[n].open)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", r->port[n].name);
	text_clean(text);
}

/* Devices that ports are to be made of: refused ones by name, patterns when nothing matches them. */
static void awaited_names(const struct router *r, char *text, size_t size)
{
	size_t used = 0;

	for (unsigned i = 0; i < r->refusal_count && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", r->refusals[i].name);
	for (uint32_t i = 0; !r->refusal_count && i < r->config->port_count && used < size; i++)
		if (r->config->ports[i].enabled)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
				r->config->ports[i].match);
	text_clean(text);
}

/* Tell systemd, and the log once, what is forwarded on, or what is waited for. The service counts as started while it
 * waits for devices: systemd would end it otherwise, and they may come hours later. */
static void announce(struct router *r)
{
	char names[400] = "";

	if (!r->port_count) {
		awaited_names(r, names, sizeof(names));
		sd_notifyf(0, "READY=1\nSTATUS=Not forwarding, waiting for %s", names);
		return;
	}
	open_port_names(r, names, sizeof(names));
	if (!r->ready)
		log_info("ready: forwarding on %s", names);
	r->ready = true;
	sd_notifyf(0, "READY=1\nSTATUS=Forwarding on %s", names);
}

static int on_scan(sd_event_source *source, void *userdata)
{
	(void)source;
	router_scan(userdata);
	announce(userdata);
	return 0;
}

/* First of all: a second instance and a taken address are found before anything is touched. */
static int start_sockets(struct router *r, struct error *e)
{
	struct control_socket_setup setup = {
		.path = r->config->socket,
		.group = r->config->group,
		.commands = router_commands,
		.ctx = r,
		.timeout_s = PROTOCOL_TIMEOUT_S,
	};
	int rc = control_socket_new(r->event, &setup, &r->control, e);

	if (rc < 0)
		return rc;
	return metrics_new(r->event, r->config->metrics_listen, router_write_metrics, r, &r->metrics, e);
}

static int start_tables(struct router *r, struct error *e)
{
	struct route_memory memory;
	uint32_t seed;

	r->reclaim = reclaim_new();
	if (!r->reclaim)
		return error_set(e, errno, "cannot start the memory reclaim: %s", strerror(errno));
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return error_set(e, errno, "no random numbers: %s", strerror(errno));
	memory = reclaim_memory(r->reclaim);
	r->fib = fib_new(&memory, seed);
	if (!r->fib)
		return error_set(e, ENOMEM, "no memory for the forwarding tables");
	return 0;
}

static int start_ports(struct router *r, struct error *e)
{
	struct ports_options o = {
		.memory_size = r->config->memory_size,
		.frame_size = r->config->frame_size,
		.workers = r->config->workers,
		.cpus = r->config->cpus,
		.busy_poll = r->config->busy_poll,
		.heartbeat_timeout_ms = r->config->heartbeat_timeout_ms,
	};

	memcpy(o.deliver_device, r->config->deliver_device, sizeof(o.deliver_device));
	return ports_new(&o, r->fib, &r->ports, e);
}

static int start_mirror(struct router *r, struct error *e)
{
	int rc = mirror_new(&r->mirror, r->fib, &router_hooks, r);

	if (rc < 0)
		return error_set(e, -rc, "no memory for the mirror of the kernel's routes");
	return mirror_start(r->mirror, r->event, e);
}

static int start_timers(struct router *r, struct error *e)
{
	int rc = sd_event_add_time_relative(r->event, &r->tick, CLOCK_MONOTONIC, TICK_US, 0, on_tick, r);

	if (rc >= 0)
		rc = sd_event_add_defer(r->event, &r->scan, on_scan, r);
	if (rc >= 0)
		rc = sd_event_source_set_enabled(r->scan, SD_EVENT_OFF);
	return rc < 0 ? error_set(e, -rc, "cannot start the timers: %s", strerror(-rc)) : 0;
}

/* 0: only for want of devices, which may still come. */
static int why_no_port(const struct router *r, struct error *e)
{
	for (unsigned i = 0; i < r->refusal_count; i++)
		if (!r->refusals[i].waiting)
			return error_set(e, ENODEV, "no port can be opened: %s: %s", r->refusals[i].name,
				r->refusals[i].text);
	for (uint32_t i = 0; i < r->config->port_count; i++)
		if (r->config->ports[i].enabled)
			return 0;
	return error_set(e, ENODEV, "no port can be opened: no [port] section is enabled");
}

static int start_forwarding(struct router *r, struct error *e)
{
	char names[400] = "";
	int rc;

	read_forwarding(r);
	router_scan(r);
	rc = r->port_count ? 0 : why_no_port(r, e);
	if (rc < 0)
		return rc;
	if (!r->port_count) {
		awaited_names(r, names, sizeof(names));
		log_warning("not forwarding: no port yet, waiting for %s", names);
	}
	announce(r);
	return 0;
}

int router_start(
	struct router *r, sd_event *event, const char *config_path, struct config *config, struct error *e)
{
	int rc;

	memset(r, 0, sizeof(*r));
	r->event = event;
	r->config_path = config_path;
	r->config = config;
	r->start_ns = clock_now_ns();
	log_set_level(config->log_level);
	rc = start_sockets(r, e);
	if (rc >= 0)
		rc = start_tables(r, e);
	if (rc >= 0)
		rc = start_ports(r, e);
	if (rc >= 0)
		rc = start_mirror(r, e);
	if (rc >= 0)
		rc = start_timers(r, e);
	if (rc >= 0)
		rc = start_forwarding(r, e);
	if (rc < 0)
		router_stop(r);
	return rc;
}

void router_stop(struct router *r)
{
	r->ready = false;
	r->scan = sd_event_source_disable_unref(r->scan);  /* the mirror's hooks look at it */
	r->tick = sd_event_source_disable_unref(r->tick);
	memset(r->port, 0, sizeof(r->port));
	if (r->ports)
		ports_close_all(r->ports);
	if (r->mirror)
		mirror_stop(r->mirror);
	mirror_free(r->mirror);
	ports_free(r->ports);
	fib_free(r->fib);
	reclaim_free(r->reclaim);
	metrics_free(r->metrics);
	control_socket_free(r->control);
	config_free(r->config);
	free(r->refusals);
	memset(r, 0, sizeof(*r));
}

/* ---- what deserves attention ---- */

struct warner {
	void (*fn)(void *ctx, const char *text);
	void *ctx;
};

static void __attribute__((format(printf, 2, 3))) warn(const struct warner *w, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	w->fn(w->ctx, text);
}

static void warn_of_workers(struct router *r, const struct warner *w)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < ports_workers(r->ports); i++)
		if (!worker_alive(r, i, now))
			warn(w,
				"worker %u shows no sign of life: the kernel forwards the traffic of its "
				"queues",
				i);
}

static void warn_of_mirror(struct router *r, const struct warner *w)
{
	struct mirror_stats s;

	mirror_get_stats(r->mirror, &s);
	if (s.publish_errors)
		warn(w,
			"%llu routes or next hops did not fit into memory: their traffic is forwarded by the "
			"kernel",
			(unsigned long long)s.publish_errors);
}

void router_warnings(struct router *r, void (*fn)(void *ctx, const char *text), void *ctx)
{
	struct warner w = { fn, ctx };

	if (r->forwarding_known && !r->forwarding4)
		warn(&w, "kernel forwarding of IPv4 is off: none is forwarded, no hot standby; sysctl -w "
			 "net.ipv4.ip_forward=1");
	if (r->forwarding_known && !r->forwarding6)
		warn(&w, "kernel forwarding of IPv6 is off: none is forwarded, no hot standby; "
			"sysctl -w net.ipv6.conf.all.forwarding=1");
	for (unsigned i = 0; i < r->refusal_count; i++)
		warn(&w, "port %s is not open: %s", r->refusals[i].name, r->refusals[i].text);
	if (r->ports)
		warn_of_workers(r, &w);
	if (r->mirror)
		warn_of_mirror(r, &w);
}
