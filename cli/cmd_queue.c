/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

static void print_table(json_t *list)
{
	static const char *const headers[] = { "PORT", ">QUEUE", "DIR", ">WORKER", "RUNG", ">PACKETS",
		">BYTES", ">IN RING", ">LOST", "REASON" };
	struct table *t = table_new(headers, sizeof(headers) / sizeof(headers[0]));
	json_t *q;
	size_t i;

	json_array_foreach(list, i, q) {
		json_t *worker = json_object_get(q, "worker");

		table_cell(t, "%s", get_text(q, "port"));
		table_cell(t, "%" PRIu64, get_number(q, "queue"));
		table_cell(t, "%s", get_text(q, "direction"));
		if (get_number(q, "users") > 1)
			table_cell(t, "%" PRIu64 " share", get_number(q, "users"));
		else if (json_is_integer(worker))
			table_cell(t, "%" PRIu64, get_number(q, "worker"));
		else
			table_cell(t, "-");
		table_cell(t, "%s", get_text(q, "rung"));
		table_cell(t, "%" PRIu64, get_number(q, "packets"));
		table_cell(t, "%" PRIu64, get_number(q, "bytes"));
		table_cell(t, "%" PRIu64, get_number(q, "in_fill") + get_number(q, "in_flight"));
		table_cell(t, "%" PRIu64, get_number(q, "lost"));
		table_cell(t, "%s", get_text(q, "reason"));
	}
	table_print(t);
}

int cmd_queue(struct ctl *ctl, int argc, char **argv)
{
	if (argc > 1)
		return ctl_usage_error(ctl, "unexpected argument \"%s\"", argv[1]);
	return ctl_show(ctl, "queue", argc ? json_pack("{s:s}", "port", argv[0]) : NULL, print_table);
}
