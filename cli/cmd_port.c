/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/text.h"
#include "ctl.h"

static void print_attempts(json_t *port)
{
	char joined[4096] = "", folded[4096], *rest = folded, *line;
	size_t used = 0, i;
	json_t *text;

	json_array_foreach(json_object_get(port, "attempts"), i, text)
		if (used < sizeof(joined))
			used += (size_t)snprintf(joined + used, sizeof(joined) - used, "%s%s", used ? "\n" : "",
				json_string_value(text));
	text_fold_attempts(joined, '\n', "\n", folded, sizeof(folded));
	while ((line = strsep(&rest, "\n")))
		if (*line)
			printf("%s: %s\n", get_text(port, "name"), line);
}

static void print_table(json_t *list)
{
	static const char *const headers[] = { "PORT", "STATE", "DRIVER", "MODE", "ASKED", "XDP", "ZERO-COPY",
		">MTU", "MAC", ">RXQ", ">TXQ", ">RX PACKETS", ">TX PACKETS" };
	struct table *t = table_new(headers, sizeof(headers) / sizeof(headers[0]));
	json_t *p;
	size_t i;

	json_array_foreach(list, i, p) {
		table_cell(t, "%s", get_text(p, "name"));
		table_cell(t, "%s", get_text(p, "state"));
		table_cell(t, "%s", get_text(p, "driver"));
		table_cell(t, "%s", get_text(p, "mode"));
		table_cell(t, "%s", get_text(p, "mode_requested"));
		table_cell(t, "%s", get_text(p, "xdp_attach"));
		table_cell(t, "%s", get_bool(p, "zero_copy") ? "yes" : "no");
		table_cell(t, "%" PRIu64, get_number(p, "mtu"));
		table_cell(t, "%s", get_text(p, "mac"));
		table_cell(t, "%" PRIu64, get_number(p, "rx_queues"));
		table_cell(t, "%" PRIu64, get_number(p, "tx_queues"));
		table_cell(t, "%" PRIu64, get_number(p, "rx_packets"));
		table_cell(t, "%" PRIu64, get_number(p, "tx_packets"));
	}
	table_print(t);
	json_array_foreach(list, i, p)
		print_attempts(p);
}

int cmd_port(struct ctl *ctl, int argc, char **argv)
{
	if (argc > 1)
		return ctl_usage_error(ctl, "unexpected argument \"%s\"", argv[1]);
	return ctl_show(ctl, "port", argc ? json_pack("{s:s}", "name", argv[0]) : NULL, print_table);
}
