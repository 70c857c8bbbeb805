/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"

static void print_table(json_t *s)
{
	static const char *const headers[] = { "PLACE", ">RECORDED", ">COUNTED" };
	struct table *t = table_new(headers, sizeof(headers) / sizeof(headers[0]));
	const char *name;
	json_t *place;

	json_object_foreach(json_object_get(s, "places"), name, place) {
		table_cell(t, "%s", name);
		table_cell(t, "%" PRIu64, get_number(place, "recorded"));
		if (json_is_integer(json_object_get(place, "counted")))
			table_cell(t, "%" PRIu64, get_number(place, "counted"));
		else
			table_cell(t, "-");
	}
	table_print(t);
	if (get_bool(s, "balanced"))
		printf("\n%" PRIu64 " frames: balanced\n", get_number(s, "total"));
	else
		printf("\n%" PRIu64 " frames: %sLEAK%s: the places do not add up\n", get_number(s, "total"),
			style_red(), style_end());
}

int cmd_frames(struct ctl *ctl, int argc, char **argv)
{
	int code = ctl_no_arguments(ctl, argc, argv);

	return code ? code : ctl_show(ctl, "frames", NULL, print_table);
}
