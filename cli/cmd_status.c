/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

static void print_texts(const char *title, json_t *list, const char *style)
{
	json_t *text;
	size_t i;

	if (!json_array_size(list))
		return;
	printf("%s:\n", title);
	json_array_foreach(list, i, text)
		printf("    %s%s%s\n", style, json_string_value(text), style_end());
}

static void print_uptime(uint64_t s)
{
	if (s >= 86400)
		printf("%" PRIu64 "d ", s / 86400);
	printf("%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600 % 24, s / 60 % 60, s % 60);
}

static void print_mirror(json_t *m)
{
	printf("mirror             %s: %" PRIu64 " IPv4 and %" PRIu64 " IPv6 routes, %" PRIu64
	       " next hops, %" PRIu64 " neighbours, %" PRIu64 " rules, %" PRIu64 " links, %" PRIu64
	       " addresses, %" PRIu64 " resyncs\n",
		get_bool(m, "synced") ? "in step with the kernel" : "not in step yet",
		get_number(m, "routes4"), get_number(m, "routes6"), get_number(m, "nexthops"),
		get_number(m, "neighbours"), get_number(m, "rules"), get_number(m, "links"),
		get_number(m, "addresses"), get_number(m, "resyncs"));
}

int cmd_status(struct ctl *ctl, int argc, char **argv)
{
	json_t *s = NULL, *kernel;
	int code = ctl_no_arguments(ctl, argc, argv);

	if (!code)
		code = ctl_call(ctl, "status", NULL, &s);
	if (code)
		return code;
	if (ctl->json) {
		ctl_print_json(s);
		json_decref(s);
		return CTL_OK;
	}
	kernel = json_object_get(s, "kernel_forwarding");
	printf("%srouterd %s%s        %s, up ", style_bold(), get_text(s, "version"), style_end(),
		get_bool(s, "ready") ? "forwarding" : "not forwarding yet");
	print_uptime(get_number(s, "uptime_s"));
	printf("\nports              %" PRIu64 "  %s\n", get_number(s, "ports"), get_text(s, "mode_summary"));
	printf("workers            %" PRIu64 "\n", get_number(s, "workers"));
	printf("kernel forwarding  IPv4 %s, IPv6 %s\n", get_bool(kernel, "ipv4") ? "on" : "off",
		get_bool(kernel, "ipv6") ? "on" : "off");
	print_mirror(json_object_get(s, "mirror"));
	print_texts("ip rules whose traffic goes to the kernel", json_object_get(s, "rules_to_kernel"), "");
	print_texts("warnings", json_object_get(s, "warnings"), style_red());
	json_decref(s);
	return CTL_OK;
}
