/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * routerctl: what its subcommands share. A subcommand is one file cmd_NAME.c and one line in commands.c.
 * Everything it shows comes from the daemon's reply (api/protocol.h); -j prints that reply as it is.
 */
#ifndef ROUTERCTL_CTL_H
#define ROUTERCTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit codes, documented in --help and the manual. */
enum ctl_exit { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_UNREACHABLE = 3 };

struct ctl {
	const char *socket;
	bool json;         /* -j */
	bool all;          /* -a */
	int fd;            /* -1 = not connected yet */
	const struct ctl_command *command;
};

struct ctl_command {
	const char *name;
	const char *arguments;  /* for the usage line */
	const char *help;       /* one line */
	bool takes_all;         /* knows -a */
	/* @argc and @argv: what stands behind the command's name. Returns an exit code. */
	int (*run)(struct ctl *ctl, int argc, char **argv);
};

extern const struct ctl_command ctl_commands[];  /* ends with a NULL name */

int cmd_status(struct ctl *ctl, int argc, char **argv);
int cmd_port(struct ctl *ctl, int argc, char **argv);
int cmd_queue(struct ctl *ctl, int argc, char **argv);
int cmd_route(struct ctl *ctl, int argc, char **argv);
int cmd_neighbour(struct ctl *ctl, int argc, char **argv);
int cmd_stats(struct ctl *ctl, int argc, char **argv);
int cmd_drops(struct ctl *ctl, int argc, char **argv);
int cmd_frames(struct ctl *ctl, int argc, char **argv);
int cmd_config(struct ctl *ctl, int argc, char **argv);

/* Complain about the arguments; returns CTL_USAGE. */
int ctl_usage_error(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int ctl_no_arguments(const struct ctl *ctl, int argc, char **argv);

/* ---- client.c ---- */

/* Ask the daemon. Takes over @arguments (may be NULL). CTL_OK and *@ret_result, to be released with json_decref();
 * otherwise the exit code, and the reason stands on standard error. */
int ctl_call(struct ctl *ctl, const char *command, json_t *arguments, json_t **ret_result);

/* Call and show the result: as JSON with -j, else by @print. Takes @arguments as ctl_call() does. Returns an exit code. */
int ctl_show(struct ctl *ctl, const char *command, json_t *arguments, void (*print)(json_t *result));

/* Ask for a list, page by page, and call @row for each element; with -j print the array instead. */
int ctl_list(struct ctl *ctl, const char *command, json_t *arguments, void (*row)(void *ctx, json_t *element), void *ctx);

void ctl_disconnect(struct ctl *ctl);

/* ---- output.c ---- */

void ctl_print_json(json_t *value);

/* A member, or "" / 0 / false when it is missing or of another type. */
const char *get_text(json_t *object, const char *key);
uint64_t get_number(json_t *object, const char *key);
bool get_bool(json_t *object, const char *key);

/* Columns that are as wide as they need to be. Headers beginning with '>' are right-aligned. */
struct table;
struct table *table_new(const char *const *headers, unsigned columns);
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_print(struct table *t);  /* and free it */
void table_free(struct table *t);   /* NULL is fine */

/* Bold and the like, "" when standard output is no terminal or NO_COLOR is set. */
const char *style_bold(void);
const char *style_red(void);
const char *style_end(void);

#endif
