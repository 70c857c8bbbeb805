/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Routes in the words of ip-route(8), with the verdict behind where it is not plain forwarding.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"

/* As ip-route(8) writes prefixes: hosts without their length, 0/0 by name. */
static void print_prefix(const char *dst)
{
	const char *slash = strchr(dst, '/');
	bool ipv6 = strchr(dst, ':') != NULL;

	if (!strcmp(dst, "0.0.0.0/0") || !strcmp(dst, "::/0"))
		fputs("default", stdout);
	else if (slash && !strcmp(slash, ipv6 ? "/128" : "/32"))
		printf("%.*s", (int)(slash - dst), dst);
	else
		fputs(dst, stdout);
}

static void print_path(json_t *path)
{
	json_t *flag;
	size_t i;

	if (*get_text(path, "gateway"))
		printf(" via %s%s",
			strchr(get_text(path, "gateway"), ':') && get_bool(path, "other_family") ? "inet6 "
												 : "",
			get_text(path, "gateway"));
	if (*get_text(path, "dev"))
		printf(" dev %s", get_text(path, "dev"));
	json_array_foreach(json_object_get(path, "flags"), i, flag)
		printf(" %s", json_string_value(flag));
}

static void print_route(void *ctx, json_t *r)
{
	json_t *paths = json_object_get(r, "paths"), *path;
	const char *type = get_text(r, "type"), *verdict = get_text(r, "verdict");
	size_t i;

	(void)ctx;
	if (*type && strcmp(type, "unicast"))
		printf("%s ", type);
	print_prefix(get_text(r, "dst"));
	if (json_array_size(paths) == 1)
		print_path(json_array_get(paths, 0));
	if (*get_text(r, "table") && strcmp(get_text(r, "table"), "main"))
		printf(" table %s", get_text(r, "table"));
	if (*get_text(r, "protocol"))
		printf(" proto %s", get_text(r, "protocol"));
	if (get_number(r, "metric"))
		printf(" metric %" PRIu64, get_number(r, "metric"));
	if (get_number(r, "mtu"))
		printf(" mtu %" PRIu64, get_number(r, "mtu"));
	if (*verdict && strcmp(verdict, "forwarded"))
		printf("  [%s]", verdict);
	putchar('\n');
	if (json_array_size(paths) > 1)
		json_array_foreach(paths, i, path) {
			fputs("\tnexthop", stdout);
			print_path(path);
			printf(" weight %" PRIu64 "\n", get_number(path, "weight"));
		}
}

static int route_list(struct ctl *ctl, int argc, char **argv)
{
	json_t *arguments = json_object();

	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];

		if (!strcmp(word, "inet") || !strcmp(word, "inet6"))
			json_object_set_new(arguments, "family", json_integer(word[4] ? 6 : 4));
		else if (strpbrk(word, ".:") || !strcmp(word, "default"))
			json_object_set_new(arguments, "prefix", json_string(word));
		else {
			json_decref(arguments);
			return ctl_usage_error(ctl, "unexpected argument \"%s\"", word);
		}
	}
	return ctl_list(ctl, "route", arguments, print_route, NULL);
}

static void print_route_get(json_t *g)
{
	json_t *paths = json_object_get(g, "paths"), *path;
	size_t i;

	printf("%s", get_text(g, "dst"));
	if (*get_text(g, "from"))
		printf(" from %s", get_text(g, "from"));
	print_path(g);
	if (*get_text(g, "lladdr"))
		printf(" lladdr %s", get_text(g, "lladdr"));
	if (get_number(g, "mtu"))
		printf(" mtu %" PRIu64, get_number(g, "mtu"));
	printf("\n    matched %s  verdict %s (%s)\n",
		*get_text(g, "matched") ? get_text(g, "matched") : "nothing", get_text(g, "verdict"),
		get_text(g, "verdict_help"));
	if (json_array_size(paths) > 1)
		json_array_foreach(paths, i, path) {
			fputs("    nexthop", stdout);
			print_path(path);
			printf(" weight %" PRIu64 "\n", get_number(path, "weight"));
		}
}

static int route_get(struct ctl *ctl, int argc, char **argv)
{
	json_t *arguments, *result = NULL;
	int code;

	if (!argc)
		return ctl_usage_error(ctl, "get needs an address");
	arguments = json_pack("{s:s}", "dst", argv[0]);
	for (int i = 1; i < argc; i += 2) {
		bool from = !strcmp(argv[i], "from"), iif = !strcmp(argv[i], "iif");

		if ((!from && !iif) || i + 1 == argc) {
			json_decref(arguments);
			return ctl_usage_error(ctl,
				from || iif ? "\"%s\" needs a value" : "unexpected argument \"%s\"", argv[i]);
		}
		json_object_set_new(arguments, argv[i], json_string(argv[i + 1]));
	}
	code = ctl_call(ctl, "route_get", arguments, &result);
	if (code)
		return code;
	if (ctl->json)
		ctl_print_json(result);
	else
		print_route_get(result);
	json_decref(result);
	return CTL_OK;
}

int cmd_route(struct ctl *ctl, int argc, char **argv)
{
	if (argc && !strcmp(argv[0], "get"))
		return route_get(ctl, argc - 1, argv + 1);
	if (argc && (!strcmp(argv[0], "show") || !strcmp(argv[0], "list")))
		return route_list(ctl, argc - 1, argv + 1);
	return route_list(ctl, argc, argv);
}
