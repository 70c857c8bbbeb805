/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * status: {"version", "protocol", "uptime_s", "ready", "workers", "ports", "mode_summary", "deliver_device", "kernel_forwarding":
 * {"ipv4", "ipv6"}, "mirror": {...}, "rules_to_kernel": [text], "warnings": [text]}
 * config: [{"section", "key", "value", "file", "line"}], line 0 = the default
 */
#include <string.h>

#include "api/text.h"
#include "common/clock.h"
#include "control/commands.h"

static void add_rule(void *ctx, uint8_t family, const char *text)
{
	char line[1024];

	snprintf(line, sizeof(line), "%s %s", family == 6 ? "inet6" : "inet", text);
	append_new(ctx, text_json(line));
}

static void add_text(void *ctx, const char *text)
{
	append_new(ctx, text_json(text));
}

static json_t *mirror_object(const struct router *r)
{
	uint64_t resyncs = 0;
	struct mirror_stats s;

	mirror_get_stats(r->mirror, &s);
	for (int i = 0; i < MIRROR_CAUSES; i++)
		if (i != MIRROR_CAUSE_START)
			resyncs += s.resyncs[i];
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
		"routes4", (json_int_t)s.routes4[MIRROR_MAIN] + s.routes4[MIRROR_DEFAULT],
		"routes6", (json_int_t)s.routes6[MIRROR_MAIN] + s.routes6[MIRROR_DEFAULT],
		"local4", (json_int_t)s.routes4[MIRROR_LOCAL], "local6", (json_int_t)s.routes6[MIRROR_LOCAL],
		"nexthops", (json_int_t)s.nexthops, "neighbours", (json_int_t)s.neighbours,
		"rules", (json_int_t)s.rules,
		"links", (json_int_t)s.links, "addresses", (json_int_t)s.addresses,
		"resyncs", (json_int_t)resyncs,
		"overruns", (json_int_t)s.overruns, "malformed", (json_int_t)s.malformed,
		"bytes", (json_int_t)s.bytes,
		"synced", !s.resync_running && !s.pending);
}

/* "lan0 native copy, wan0 native zero-copy" */
static json_t *mode_summary(const struct router *r)
{
	char text[1024] = "";
	size_t used = 0;
	struct port_info i;

	for (uint16_t n = 0; n < PORT_MAX && used < sizeof(text); n++)
		if (r->port[n].open && !ports_get_info(r->ports, n, &i))
			used += (size_t)snprintf(text + used, sizeof(text) - used,
				"%s%s %s %s", used ? ", " : "", i.name,
				i.native ? "native" : "generic", i.zero_copy ? "zero-copy" : "copy");
	return text_json(text);
}

int command_status(void *ctx, json_t *arguments, struct command_reply *reply)
{
	json_t *rules = json_array(), *warnings = json_array();
	struct router *r = ctx;

	(void)arguments;
	mirror_kernel_rule_foreach(r->mirror, add_rule, rules);
	router_warnings(r, add_text, warnings);
	reply->result = json_pack("{s:s, s:i, s:I, s:b, s:I, s:I, s:o, s:o, s:{s:b, s:b}, s:o, s:o, s:o}",
		"version", ROUTERD_VERSION, "protocol", PROTOCOL_VERSION,
		"uptime_s", (json_int_t)((clock_now_ns() - r->start_ns) / NS_PER_S),
		"ready", r->ready, "workers", (json_int_t)ports_workers(r->ports),
		"ports", (json_int_t)r->port_count,
		"mode_summary", mode_summary(r), "deliver_device", text_json(ports_deliver_device(r->ports)),
		"kernel_forwarding", "ipv4", r->forwarding4, "ipv6", r->forwarding6,
		"mirror", mirror_object(r), "rules_to_kernel", rules, "warnings", warnings);
	return 0;
}

static void add_value(void *ctx, const char *section, const char *key, const char *value, const char *file,
	unsigned line)
{
	append_new(ctx, json_pack("{s:o, s:s, s:o, s:o, s:I}", "section", text_json(section), "key", key,
		"value", text_json(value), "file", text_json(line ? file : ""), "line", (json_int_t)line));
}

int command_config(void *ctx, json_t *arguments, struct command_reply *reply)
{
	struct router *r = ctx;

	(void)arguments;
	reply->result = json_array();
	config_foreach(r->config, add_value, reply->result);
	return 0;
}
