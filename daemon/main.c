/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * routerd: arguments, the event loop, and start and end of the router. See HACKING.md for the map of the
 * house.
 *
 * Exit codes: 0 stopped as asked, 1 could not start or go on (with --check: the
 * configuration is wrong), 2 wrong arguments, 78 (EX_CONFIG, see systemd/routerd.service) the configuration is wrong.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include "common/log.h"
#include "control/config.h"
#include "control/config_schema.h"
#include "control/router.h"

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "check", no_argument, NULL, 'C' },
	{ "example", no_argument, NULL, 'E' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

enum action { ACTION_RUN, ACTION_CHECK, ACTION_DONE };

static void print_help(void)
{
	printf("Usage: routerd [-c FILE] [--check]\n\n"
	       "Forwards IPv4 and IPv6 by AF_XDP with the kernel's own routes and neighbours.\n\n"
	       "  -c, --config FILE  configuration (default %s)\n"
	       "      --check        only check the configuration and say what is wrong\n"
	       "      --example      print a configuration file with every key and its default\n"
	       "  -h, --help         this text\n"
	       "  -V, --version      version\n\n"
	       "SIGTERM and SIGINT stop it and leave nothing behind. See also routerctl.\n\n"
	       "Exit codes: 0 stopped as asked, 1 could not start or go on, 2 wrong arguments,\n"
	       "78 the configuration is wrong; with --check: 0 it is valid, 1 it is wrong.\n",
		CONFIG_DEFAULT_PATH);
}

static int usage_error(void)
{
	fprintf(stderr, "See routerd --help.\n");
	return 2;
}

/* *@ret_code: exit code with ACTION_DONE. */
static enum action parse_arguments(int argc, char **argv, const char **ret_path, int *ret_code)
{
	enum action action = ACTION_RUN;
	int c;

	*ret_path = CONFIG_DEFAULT_PATH;
	*ret_code = 0;
	while ((c = getopt_long(argc, argv, "c:hV", options, NULL)) != -1)
		switch (c) {
		case 'c':
			*ret_path = optarg;
			break;
		case 'C':
			action = ACTION_CHECK;
			break;
		case 'E':
			config_write_example(stdout);
			return ACTION_DONE;
		case 'h':
			print_help();
			return ACTION_DONE;
		case 'V':
			printf("routerd %s\n", ROUTERD_VERSION);
			return ACTION_DONE;
		default:
			*ret_code = usage_error();
			return ACTION_DONE;
		}
	if (optind < argc) {
		fprintf(stderr, "routerd: unexpected argument \"%s\"\n", argv[optind]);
		*ret_code = usage_error();
		return ACTION_DONE;
	}
	return action;
}

/* Read the configuration; its errors go to the log, or plainly to standard error with --check. */
static struct config *load_config(const char *path, bool check)
{
	static struct config_errors errors;
	struct config *config = NULL;

	if (!config_load(path, &config, &errors))
		return config;
	for (unsigned i = 0; i < errors.count; i++) {
		if (check)
			fprintf(stderr, "%s\n", errors.text[i]);
		else
			log_error("%s", errors.text[i]);
	}
	if (errors.total > errors.count)
		fprintf(stderr, "and %u more errors\n", errors.total - errors.count);
	return NULL;
}

static int check(const char *path)
{
	struct config *config = load_config(path, true);

	if (!config)
		return 1;
	config_free(config);
	printf("configuration is valid\n");
	return 0;
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	(void)userdata;
	log_info("stopping: %s", si->ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
	sd_notify(0, "STOPPING=1");
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	(void)source;
	(void)si;
	(void)userdata;
	log_warning("SIGHUP: this version does not reload its configuration; restart it instead");
	return 0;
}

/* Signals are blocked before any thread is made, so that all threads inherit that and this loop alone gets
 * them. */
static int watch_signals(sd_event *event)
{
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	rc = sd_event_add_signal(event, NULL, SIGTERM, on_stop, NULL);
	if (rc >= 0)
		rc = sd_event_add_signal(event, NULL, SIGINT, on_stop, NULL);
	if (rc >= 0)
		rc = sd_event_add_signal(event, NULL, SIGHUP, on_hangup, NULL);
	return rc;
}

static int run_router(sd_event *event, const char *path, struct config *config)
{
	struct router *router = calloc(1, sizeof(*router));
	struct error e = { 0 };
	int rc;

	if (!router) {
		config_free(config);
		log_error("out of memory");
		return 1;
	}
	log_info("routerd %s starts with %s", ROUTERD_VERSION, path);
	rc = router_start(router, event, path, config, &e);
	if (rc < 0) {
		log_error("%s", e.text);
		free(router);
		return 1;
	}
	rc = sd_event_loop(event);
	if (rc < 0)
		log_error("the event loop failed: %s", strerror(-rc));
	router_stop(router);
	free(router);
	log_info("stopped");
	return rc < 0 ? 1 : 0;
}

static int run(const char *path)
{
	struct config *config = load_config(path, false);
	sd_event *event = NULL;
	int rc;

	if (!config)
		return EX_CONFIG;
	rc = sd_event_new(&event);
	if (rc >= 0)
		rc = watch_signals(event);
	if (rc < 0) {
		log_error("cannot start the event loop: %s", strerror(-rc));
		config_free(config);
		sd_event_unref(event);
		return 1;
	}
	rc = run_router(event, path, config);
	sd_event_unref(event);
	return rc;
}

int main(int argc, char **argv)
{
	const char *path;
	int code;

	switch (parse_arguments(argc, argv, &path, &code)) {
	case ACTION_DONE:
		break;
	case ACTION_CHECK:
		code = check(path);
		break;
	case ACTION_RUN:
		code = run(path);
		break;
	}
	return code;
}
