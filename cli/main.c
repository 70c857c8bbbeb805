/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * routerctl: asks a running routerd over its control socket.
 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/protocol.h"
#include "api/suggest.h"
#include "ctl.h"

#define COMMANDS_MAX 32

static const struct option options[] = {
	{ "socket", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, 'j' },
	{ "all", no_argument, NULL, 'a' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void print_help(void)
{
	printf("Usage: routerctl [--socket PATH] [-j] COMMAND [ARGUMENTS]\n\nCommands:\n");
	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		printf("  %-10s %s\n             %s %s\n", c->name, c->help, c->name, c->arguments);
	printf("\nOptions:\n"
	       "  -s, --socket PATH  control socket (default: $ROUTERD_SOCKET, else %s)\n"
	       "  -j, --json         JSON instead of tables\n"
	       "  -h, --help         this text\n"
	       "  -V, --version      version\n\n"
	       "Exit codes: 0 done, 1 the request failed, 2 wrong usage, 3 the daemon does not answer.\n",
		PROTOCOL_DEFAULT_SOCKET);
}

int ctl_usage_error(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "routerctl: %s: ", ctl->command->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nUsage: routerctl %s %s\n", ctl->command->name, ctl->command->arguments);
	return CTL_USAGE;
}

int ctl_no_arguments(const struct ctl *ctl, int argc, char **argv)
{
	return argc ? ctl_usage_error(ctl, "unexpected argument \"%s\"", argv[0]) : CTL_OK;
}

/* The exact name, or an abbreviation that fits only one, as with ip(8). */
static const struct ctl_command *find_command(const char *name)
{
	const struct ctl_command *found = NULL;
	unsigned matches = 0;

	for (const struct ctl_command *c = ctl_commands; c->name; c++) {
		if (!strcmp(c->name, name))
			return c;
		if (*name && !strncmp(c->name, name, strlen(name))) {
			found = c;
			matches++;
		}
	}
	if (!strcmp(name, "neighbor"))
		return find_command("neighbour");
	return matches == 1 ? found : NULL;
}

static int unknown_command(const char *name)
{
	const char *names[COMMANDS_MAX], *near;
	size_t n = 0;

	for (const struct ctl_command *c = ctl_commands; c->name; c++)
		names[n++] = c->name;
	near = suggest_nearest(name, names, n);
	fprintf(stderr, "routerctl: unknown command \"%s\"", name);
	if (near)
		fprintf(stderr, "; did you mean \"%s\"?\n", near);
	else
		fprintf(stderr, "; see routerctl --help\n");
	return CTL_USAGE;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	int code;

	if (!argc) {
		fprintf(stderr, "routerctl: no command; see routerctl --help\n");
		return CTL_USAGE;
	}
	ctl->command = find_command(argv[0]);
	if (!ctl->command)
		return unknown_command(argv[0]);
	if (ctl->all && !ctl->command->takes_all)
		return ctl_usage_error(ctl, "-a is not known here");
	code = ctl->command->run(ctl, argc - 1, argv + 1);
	ctl_disconnect(ctl);
	if (fflush(stdout) || ferror(stdout))
		return CTL_FAILED;
	return code;
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .socket = getenv("ROUTERD_SOCKET"), .fd = -1 };
	int c;

	if (!ctl.socket || !*ctl.socket)
		ctl.socket = PROTOCOL_DEFAULT_SOCKET;
	while ((c = getopt_long(argc, argv, "s:jahV", options, NULL)) != -1)
		switch (c) {
		case 's':
			ctl.socket = optarg;
			break;
		case 'j':
			ctl.json = true;
			break;
		case 'a':
			ctl.all = true;
			break;
		case 'h':
			print_help();
			return CTL_OK;
		case 'V':
			printf("routerctl %s\n", ROUTERD_VERSION);
			return CTL_OK;
		default:
			fprintf(stderr, "See routerctl --help.\n");
			return CTL_USAGE;
		}
	return run(&ctl, argc - optind, argv + optind);
}
