/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * stats: {"ports": [{"name", "received", "forwarded", "kernel", "dropped", "sent": {"packets", "bytes"}, "held",
 *   "balanced"}], "total": {the same}, "workers": [{"worker", "cpu", "busy_ns", "idle_ns", "loops", "wakeups", ...}]}
 * drops: [{"port", "reason", "packets", "bytes", "help", "class": "kernel"|"drop", "where": "steer"|"worker"|"xsk"}];
 *   argument "all": zeros too
 * frames: {"total", "places": {"free": {"recorded", "counted"}, ...}, "difference", "balanced"}
 */
#include <string.h>

#include "api/text.h"
#include "common/clock.h"
#include "control/commands.h"

static json_t *account_object(const char *name, const struct account *a)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b}", "name", text_json(name),
		"received", json_sum(&a->received),
		"forwarded", json_sum(&a->forwarded), "kernel", json_sum(&a->kernel),
		"dropped", json_sum(&a->dropped),
		"sent", json_sum(&a->sent), "held", (json_int_t)a->held, "balanced", a->balanced);
}

static json_t *worker_object(const struct router *r, unsigned worker, uint64_t now)
{
	struct worker_info w;

	workers_get_info(ports_get_workers(r->ports), worker, &w);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "worker",
		(json_int_t)worker,
		"cpu", (json_int_t)w.cpu, "busy_ns", (json_int_t)w.busy_ns, "idle_ns", (json_int_t)w.idle_ns,
		"loops", (json_int_t)w.loops, "sleeps", (json_int_t)w.sleeps,
		"wakeups", (json_int_t)w.wakeups,
		"packets", (json_int_t)w.packets, "batches", (json_int_t)w.batches,
		"rx_queues", (json_int_t)w.rx_queues,
		"tx_queues", (json_int_t)w.tx_queues,
		"heartbeat_age_ms", (json_int_t)(now > w.heartbeat_ns ? (now - w.heartbeat_ns) / NS_PER_MS : 0));
}

int command_stats(void *ctx, json_t *arguments, struct command_reply *reply)
{
	json_t *ports = json_array(), *workers = json_array();
	struct account total = { .held = 0 }, a;
	struct router *r = ctx;
	struct account_detail d;

	(void)arguments;
	for (uint16_t n = 0; n < PORT_MAX; n++) {
		if (account_detail(r, n, &d) < 0)
			continue;
		account_sum_up(&d, &a);
		account_add(&total, &a);
		append_new(ports, account_object(r->port[n].name, &a));
	}
	account_conclude(&total);
	for (unsigned w = 0; w < ports_workers(r->ports); w++)
		append_new(workers, worker_object(r, w, clock_now_ns()));
	reply->result = json_pack("{s:o, s:o, s:o}", "ports", ports, "total", account_object("total", &total),
		"workers", workers);
	return 0;
}

struct drop_list {
	json_t *list;
	const char *port;
	bool all;
};

static void add_reason(const struct drop_list *l, const char *class, const char *where, const char *reason,
	const char *help,
	uint64_t packets, uint64_t bytes)
{
	if (packets || l->all)
		append_new(l->list, json_pack("{s:o, s:s, s:I, s:I, s:s, s:s, s:s}", "port", text_json(l->port),
			"reason", reason,
			"packets", (json_int_t)packets, "bytes", (json_int_t)bytes, "help", help,
			"class", class, "where", where));
}

static void add_port_reasons(const struct drop_list *l, const struct account_detail *d)
{
	for (int i = 0; i < STEER_REASON_COUNT; i++)
		if (i != STEER_REDIRECTED)
			add_reason(l, "kernel", "steer", account_steer_info[i].label,
				account_steer_info[i].help,
				d->steer.packets[i], d->steer.bytes[i]);
	for (int v = 0; v < VERDICT_COUNT; v++)
		if (verdict_class((enum verdict)v) != VERDICT_CLASS_FORWARD)
			add_reason(l, verdict_class((enum verdict)v) == VERDICT_CLASS_KERNEL ? "kernel" : "drop", "worker",
				verdict_info[v].label, verdict_info[v].help, d->verdicts[v].packets,
				d->verdicts[v].bytes);
	for (int i = 0; i < ACCOUNT_XSK_COUNT; i++)
		add_reason(l, "drop", "xsk", account_xsk_info[i].label, account_xsk_info[i].help, d->xsk[i],
			0);
}

int command_drops(void *ctx, json_t *arguments, struct command_reply *reply)
{
	struct drop_list l = { .list = json_array(), .all = json_is_true(json_object_get(arguments, "all")) };
	struct router *r = ctx;
	struct account_detail d;

	for (uint16_t n = 0; n < PORT_MAX; n++)
		if (!account_detail(r, n, &d)) {
			l.port = r->port[n].name;
			add_port_reasons(&l, &d);
		}
	reply->result = l.list;
	return 0;
}

int command_frames(void *ctx, json_t *arguments, struct command_reply *reply)
{
	json_t *places = json_object();
	struct router *r = ctx;
	struct ledger l;

	(void)arguments;
	ports_ledger(r->ports, &l);
	for (int i = 0; i < FRAME_PLACE_COUNT; i++)
		json_object_set_new(places, frame_place_label[i],
			json_pack("{s:I, s:I}", "recorded", (json_int_t)l.records[i],
			"counted", (json_int_t)l.containers[i]));
	reply->result = json_pack("{s:I, s:o, s:I, s:b}", "total", (json_int_t)l.total, "places", places,
		"difference", (json_int_t)l.difference, "balanced", l.balanced);
	return 0;
}
