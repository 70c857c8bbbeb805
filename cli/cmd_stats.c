/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

static uint64_t packets(json_t *port, const char *key)
{
	return get_number(json_object_get(port, key), "packets");
}

static void add_port(struct table *t, const char *name, json_t *p)
{
	table_cell(t, "%s", name);
	table_cell(t, "%" PRIu64, packets(p, "received"));
	table_cell(t, "%" PRIu64, packets(p, "forwarded"));
	table_cell(t, "%" PRIu64, packets(p, "kernel"));
	table_cell(t, "%" PRIu64, packets(p, "dropped"));
	table_cell(t, "%" PRIu64, get_number(p, "held"));
	table_cell(t, "%s", get_bool(p, "balanced") ? "yes" : "NO");
	table_cell(t, "%" PRIu64, packets(p, "sent"));
}

static void print_ports(json_t *s)
{
	static const char *const headers[] = { "PORT", ">RECEIVED", ">= FORWARDED", ">+ KERNEL", ">+ DROPPED",
		">+ HELD", "BALANCED", ">SENT" };
	struct table *t = table_new(headers, sizeof(headers) / sizeof(headers[0]));
	json_t *p;
	size_t i;

	json_array_foreach(json_object_get(s, "ports"), i, p)
		add_port(t, get_text(p, "name"), p);
	add_port(t, "total", json_object_get(s, "total"));
	table_print(t);
}

static void print_workers(json_t *s)
{
	static const char *const headers[] = { ">WORKER", ">CPU", ">BUSY", ">LOOPS", ">WAKEUPS", ">HEARTBEAT" };
	struct table *t = table_new(headers, sizeof(headers) / sizeof(headers[0]));
	json_t *w;
	size_t i;

	json_array_foreach(json_object_get(s, "workers"), i, w) {
		uint64_t busy = get_number(w, "busy_ns"), idle = get_number(w, "idle_ns");

		table_cell(t, "%" PRIu64, get_number(w, "worker"));
		table_cell(t, "%" PRId64, (int64_t)get_number(w, "cpu"));
		table_cell(t, "%.1f %%", busy + idle ? 100.0 * (double)busy / (double)(busy + idle) : 0.0);
		table_cell(t, "%" PRIu64, get_number(w, "loops"));
		table_cell(t, "%" PRIu64, get_number(w, "wakeups"));
		table_cell(t, "%" PRIu64 " ms ago", get_number(w, "heartbeat_age_ms"));
	}
	putchar('\n');
	table_print(t);
}

int cmd_stats(struct ctl *ctl, int argc, char **argv)
{
	json_t *s = NULL;
	int code = ctl_no_arguments(ctl, argc, argv);

	if (!code)
		code = ctl_call(ctl, "stats", NULL, &s);
	if (code)
		return code;
	if (ctl->json) {
		ctl_print_json(s);
	} else {
		print_ports(s);
		print_workers(s);
	}
	json_decref(s);
	return CTL_OK;
}
