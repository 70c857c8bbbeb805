/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Neighbours in the words of ip-neighbour(8).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

static void print_neighbour(void *ctx, json_t *n)
{
	(void)ctx;
	printf("%s dev %s", get_text(n, "dst"), get_text(n, "dev"));
	if (*get_text(n, "lladdr"))
		printf(" lladdr %s", get_text(n, "lladdr"));
	printf(" %s", get_text(n, "state"));
	if (json_is_integer(json_object_get(n, "used_s")))
		printf(" used %" PRIu64 "s", get_number(n, "used_s"));
	putchar('\n');
}

int cmd_neighbour(struct ctl *ctl, int argc, char **argv)
{
	json_t *arguments = NULL;

	if (argc == 2 && !strcmp(argv[0], "dev"))
		arguments = json_pack("{s:s}", "dev", argv[1]);
	else if (argc)
		return ctl_usage_error(ctl, "unexpected argument \"%s\"", argv[0]);
	return ctl_list(ctl, "neighbour", arguments, print_neighbour, NULL);
}
