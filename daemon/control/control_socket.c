/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/control_socket.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/line_buffer.h"
#include "api/suggest.h"
#include "common/clock.h"
#include "common/log.h"

#define ACCEPT_BURST 16
#define COMMANDS_MAX 64

struct client {
	struct control_socket *owner;  /* NULL: the slot is free */
	int fd;
	sd_event_source *source;
	struct ucred peer;
	struct line_buffer in;
	char *out;                     /* the reply that is being sent; NULL = none */
	size_t out_length, out_sent;
	bool closing;                  /* nothing more is read; ends when the reply is out */
	bool discarding; /* a request was too long: what still comes of it is thrown away until the client
			  * ends, so that it gets its answer instead of a reset */
	uint64_t deadline_ns;
	uint64_t last_ns;
};

struct control_socket {
	sd_event *event;
	sd_event_source *listener, *sweep;
	int fd;
	struct control_socket_setup setup;
	char path[108];
	struct client clients[PROTOCOL_CLIENTS_MAX];
	unsigned count;
};

static void client_close(struct client *c)
{
	struct control_socket *s = c->owner;

	if (!s)
		return;
	sd_event_source_disable_unref(c->source);
	close(c->fd);
	line_buffer_fini(&c->in);
	free(c->out);
	memset(c, 0, sizeof(*c));
	s->count--;
}

static void client_touch(struct client *c)
{
	c->last_ns = clock_now_ns();
	c->deadline_ns = c->last_ns + c->owner->setup.timeout_s * NS_PER_S;
}

static const struct command *find_command(const struct control_socket *s, const char *name)
{
	for (const struct command *c = s->setup.commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static char *unknown_command(const struct control_socket *s, const char *name)
{
	const char *names[COMMANDS_MAX], *near;
	char text[256];
	size_t n = 0;

	for (const struct command *c = s->setup.commands; c->name && n < COMMANDS_MAX; c++)
		names[n++] = c->name;
	near = suggest_nearest(name, names, n);
	snprintf(text, sizeof(text), "unknown command \"%.60s\"%s%s%s", name, near ? "; did you mean \"" : "",
		near ? near : "", near ? "\"?" : "");
	return protocol_format_error(text);
}

static bool may_change(const struct client *c)
{
	return c->peer.uid == 0 || c->peer.uid == geteuid();
}

static char *run_command(struct client *c, const char *name, json_t *arguments)
{
	const struct command *command = find_command(c->owner, name);
	struct command_reply reply = { .result = NULL };
	char *line;

	if (!command)
		return unknown_command(c->owner, name);
	if (command->changes && !may_change(c))
		return protocol_format_error(
			"only root may do this: the socket's group may look, not change");
	if (command->run(c->owner->setup.ctx, arguments, &reply) < 0) {
		json_decref(reply.result);
		return protocol_format_error(reply.error.code ? reply.error.text : "the command failed");
	}
	line = protocol_format_result(
		reply.result ? reply.result : json_null(), reply.next[0] ? reply.next : NULL);
	return line ? line : protocol_format_error("out of memory");
}

static void client_answer(struct client *c, char *line)
{
	c->out = line;
	c->out_length = line ? strlen(line) : 0;
	c->out_sent = 0;
	if (!line)
		c->closing = true;  /* out of memory: let the client see the end */
}

static void client_run(struct client *c, const char *line, size_t length)
{
	json_t *request = NULL, *arguments;
	const char *command;
	char why[256];

	if (protocol_parse_request(line, length, &request, &command, &arguments, why, sizeof(why)) < 0) {
		client_answer(c, protocol_format_error(why));
		return;
	}
	client_answer(c, run_command(c, command, arguments));
	json_decref(request);
}

/* Send what waits. 0 = all out, -EAGAIN = more later, other -errno = the client is gone. */
static int client_send(struct client *c)
{
	while (c->out) {
		ssize_t n = send(c->fd, c->out + c->out_sent, c->out_length - c->out_sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
		client_touch(c);
		c->out_sent += (size_t)n;
		if (c->out_sent == c->out_length) {
			free(c->out);
			c->out = NULL;
		}
	}
	return 0;
}

static int client_discard(struct client *c)
{
	char scrap[4096];
	ssize_t n = recv(c->fd, scrap, sizeof(scrap), MSG_DONTWAIT);

	if (!n)
		c->closing = true;
	return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

static int client_receive(struct client *c)
{
	int r;

	if (c->discarding)
		return client_discard(c);
	r = line_buffer_read(&c->in, c->fd);
	if (r == -EMSGSIZE) {
		client_answer(c, protocol_format_error("the request is too long"));
		line_buffer_fini(&c->in);
		line_buffer_init(&c->in, 0);
		c->discarding = true;
		return 0;
	}
	if (!r)
		c->closing = true;
	return r == -EAGAIN || r >= 0 ? 0 : r;
}

/* One request is run per call, so that clients take turns; while more wait, the (writable) socket calls
 * again. */
static int client_event(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct client *c = userdata;
	const char *line;
	size_t length;
	bool more;
	int r = 0;

	(void)source;
	(void)fd;
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !c->out && !c->closing)
		r = client_receive(c);
	if (!r && !c->out && line_buffer_peek(&c->in, &line, &length)) {
		client_run(c, line, length);
		line_buffer_drop(&c->in, length);
	}
	if (!r)
		r = client_send(c);
	more = !c->out && line_buffer_peek(&c->in, &line, &length);
	if ((r < 0 && r != -EAGAIN) || (c->closing && !c->out && !more)) {
		client_close(c);
		return 0;
	}
	sd_event_source_set_io_events(c->source, c->out || more ? EPOLLOUT : EPOLLIN);
	return 0;
}

static struct client *find_slot(struct control_socket *s)
{
	struct client *quiet = NULL;

	for (unsigned i = 0; i < PROTOCOL_CLIENTS_MAX; i++) {
		struct client *c = &s->clients[i];

		if (!c->owner)
			return c;
		if (!quiet || c->last_ns < quiet->last_ns)
			quiet = c;
	}
	client_close(quiet);
	return quiet;
}

static void client_new(struct control_socket *s, int fd)
{
	struct client *c = find_slot(s);
	socklen_t length = sizeof(c->peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &length) < 0 ||
	    sd_event_add_io(s->event, &c->source, fd, EPOLLIN, client_event, c) < 0) {
		memset(c, 0, sizeof(*c));
		close(fd);
		return;
	}
	c->owner = s;
	c->fd = fd;
	line_buffer_init(&c->in, PROTOCOL_REQUEST_MAX + 1);
	client_touch(c);
	s->count++;
}

static int accept_event(sd_event_source *source, int listener, uint32_t events, void *userdata)
{
	struct control_socket *s = userdata;

	(void)source;
	(void)events;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			break;
		client_new(s, fd);
	}
	return 0;
}

static int sweep_event(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct control_socket *s = userdata;
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < PROTOCOL_CLIENTS_MAX; i++)
		if (s->clients[i].owner && s->clients[i].deadline_ns <= now)
			client_close(&s->clients[i]);
	sd_event_source_set_time_relative(source, 500000);
	(void)usec;
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int control_socket_new(sd_event *event, const struct control_socket_setup *setup, struct control_socket **ret,
	struct error *e)
{
	struct control_socket *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, ENOMEM, "out of memory");
	s->setup = *setup;
	s->event = event;
	s->fd = unix_listen(setup->path, setup->group, 0660, e);
	if (s->fd < 0) {
		r = s->fd;
		free(s);
		return r;
	}
	snprintf(s->path, sizeof(s->path), "%s", setup->path);
	r = sd_event_add_io(event, &s->listener, s->fd, EPOLLIN, accept_event, s);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &s->sweep, CLOCK_MONOTONIC, 500000, 0, sweep_event, s);
	if (r < 0) {
		control_socket_free(s);
		return error_set(e, -r, "cannot watch the control socket: %s", strerror(-r));
	}
	*ret = s;
	return 0;
}

void control_socket_free(struct control_socket *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < PROTOCOL_CLIENTS_MAX; i++)
		client_close(&s->clients[i]);
	sd_event_source_disable_unref(s->listener);
	sd_event_source_disable_unref(s->sweep);
	unlink(s->path);
	close(s->fd);
	free(s);
}

unsigned control_socket_clients(const struct control_socket *s)
{
	return s->count;
}
