/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The control socket's server side (api/protocol.h says what is spoken). It lives in the control thread's event loop
 * and never blocks it: a client that sends garbage, too much, too slowly or takes no answer loses its connection and
 * nothing else happens. Thread: control.
 */
#ifndef ROUTERD_CONTROL_CONTROL_SOCKET_H
#define ROUTERD_CONTROL_CONTROL_SOCKET_H

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "api/protocol.h"
#include "common/error.h"

struct control_socket;

/* What a command answers. On failure it fills error and returns -errno; otherwise it sets result. */
struct command_reply {
	json_t *result;
	char next[128];      /* "" = nothing more */
	struct error error;
};

struct command {
	const char *name;
	bool changes;        /* for uid 0 (and the daemon's own user) only */
	int (*run)(void *ctx, json_t *arguments, struct command_reply *reply);  /* @arguments may be NULL */
};

struct control_socket_setup {
	const char *path;
	const char *group;              /* "" = routerd if there is such a group, else the daemon's own */
	const struct command *commands; /* ends with a NULL name; must outlive the socket, as must @ctx */
	void *ctx;
	unsigned timeout_s;             /* PROTOCOL_TIMEOUT_S but in tests */
};

/* Make the socket and serve it. A socket file that nobody answers on is replaced; one that is answered, or a file that is no
 * socket, is an error: -EADDRINUSE, -EEXIST. */
int control_socket_new(sd_event *event, const struct control_socket_setup *setup, struct control_socket **ret,
	struct error *e);

/* Close all connections and remove the socket file. NULL is fine. */
void control_socket_free(struct control_socket *s);

unsigned control_socket_clients(const struct control_socket *s);

/* Bind @path as a listening socket of the given mode; what control_socket_new() does, for the metrics too.
 * Returns the descriptor or -errno. */
int unix_listen(const char *path, const char *group, unsigned mode, struct error *e);

#endif
