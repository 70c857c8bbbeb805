/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The commands of the control socket (api/protocol.h), a file for each subject. To add one: a function here, a line in
 * the table of commands.c, a file in cli/.
 *
 * Thread: control, called by the control socket with the struct router as context. Each answers at once: long lists come
 * in pages ("after" and "next"), work per call is bounded. JSON keys are stable: new ones may come, none is renamed.
 */
#ifndef ROUTERD_CONTROL_COMMANDS_H
#define ROUTERD_CONTROL_COMMANDS_H

#include "control/account.h"
#include "control/control_socket.h"
#include "control/router.h"

extern const struct command router_commands[];

int command_status(void *ctx, json_t *arguments, struct command_reply *reply);
int command_port(void *ctx, json_t *arguments, struct command_reply *reply);
int command_queue(void *ctx, json_t *arguments, struct command_reply *reply);
int command_route(void *ctx, json_t *arguments, struct command_reply *reply);
int command_route_get(void *ctx, json_t *arguments, struct command_reply *reply);
int command_neighbour(void *ctx, json_t *arguments, struct command_reply *reply);
int command_stats(void *ctx, json_t *arguments, struct command_reply *reply);
int command_drops(void *ctx, json_t *arguments, struct command_reply *reply);
int command_frames(void *ctx, json_t *arguments, struct command_reply *reply);
int command_config(void *ctx, json_t *arguments, struct command_reply *reply);

/* ---- helpers (commands.c) ---- */

/* A text argument, NULL when absent. -EINVAL and the reply's error when it is no text. */
int argument_text(json_t *arguments, const char *name, const char **ret, struct command_reply *reply);

/* Call @fn for each open port, or only for the one named @name (NULL = all), in the order of port numbers.
 * -ENOENT and the reply's error when there is no port of that name. */
int for_ports(struct router *r, const char *name, void (*fn)(struct router *r, uint16_t number, json_t *list),
	json_t *list, struct command_reply *reply);

void append_new(json_t *list, json_t *value);  /* takes over @value; NULL (no memory) is left out */
json_t *json_sum(const struct account_sum *s);

/* "02:00:..." */
#define MAC_TEXT_LENGTH 18
void format_mac(const uint8_t mac[6], char out[MAC_TEXT_LENGTH]);

#endif
