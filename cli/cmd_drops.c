/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

static void add_row(void *ctx, json_t *d)
{
	table_cell(ctx, "%s", get_text(d, "port"));
	table_cell(ctx, "%s", get_text(d, "class"));
	table_cell(ctx, "%s", get_text(d, "where"));
	table_cell(ctx, "%s", get_text(d, "reason"));
	table_cell(ctx, "%" PRIu64, get_number(d, "packets"));
	table_cell(ctx, "%" PRIu64, get_number(d, "bytes"));
	table_cell(ctx, "%s", get_text(d, "help"));
}

int cmd_drops(struct ctl *ctl, int argc, char **argv)
{
	static const char *const headers[] = {
		"PORT", "CLASS", "WHERE", "REASON", ">PACKETS", ">BYTES", "MEANING"};
	struct table *t = NULL;
	json_t *arguments;
	int code = ctl_no_arguments(ctl, argc, argv);

	if (code)
		return code;
	if (!ctl->json)
		t = table_new(headers, sizeof(headers) / sizeof(headers[0]));
	arguments = json_pack("{s:b}", "all", ctl->all);
	code = ctl_list(ctl, "drops", arguments, add_row, t);
	if (code)
		table_free(t);
	else if (t)
		table_print(t);
	return code;
}
