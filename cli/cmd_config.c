/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

struct listing {
	char section[64];
};

static void print_value(void *ctx, json_t *v)
{
	struct listing *l = ctx;
	char text[300];

	if (strcmp(l->section, get_text(v, "section"))) {
		printf("%s%s[%s]%s\n", *l->section ? "\n" : "", style_bold(), get_text(v, "section"),
			style_end());
		snprintf(l->section, sizeof(l->section), "%s", get_text(v, "section"));
	}
	snprintf(text, sizeof(text), "%s = %s", get_text(v, "key"), get_text(v, "value"));
	if (get_number(v, "line"))
		printf("%-40s ; %s:%" PRIu64 "\n", text, get_text(v, "file"), get_number(v, "line"));
	else
		printf("%-40s ; default\n", text);
}

int cmd_config(struct ctl *ctl, int argc, char **argv)
{
	struct listing l = { "" };

	if (argc && !strcmp(argv[0], "show")) {
		argc--;
		argv++;
	}
	if (argc)
		return ctl_usage_error(ctl, "unexpected argument \"%s\"", argv[0]);
	return ctl_list(ctl, "config", NULL, print_value, &l);
}
