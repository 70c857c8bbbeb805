/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/line_buffer.h"
#include "api/protocol.h"
#include "ctl.h"

#define ANSWER_TIMEOUT_S 30

static struct line_buffer input;

static int unreachable(const struct ctl *ctl, int error)
{
	if (error == EACCES || error == EPERM)
		fprintf(stderr,
			"routerctl: not allowed to use %s: be root or a member of the socket's group\n",
			ctl->socket);
	else
		fprintf(stderr,
			"routerctl: routerd does not answer on %s (%s); start it with \"systemctl start "
			"routerd\" or "
			"\"routerd -c FILE\", or name its socket with --socket\n",
			ctl->socket, strerror(error));
	return CTL_UNREACHABLE;
}

static int dial(struct ctl *ctl)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval timeout = { .tv_sec = ANSWER_TIMEOUT_S };

	if (ctl->fd >= 0)
		return CTL_OK;
	if (strlen(ctl->socket) >= sizeof(address.sun_path))
		return unreachable(ctl, ENAMETOOLONG);
	strcpy(address.sun_path, ctl->socket);
	ctl->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ctl->fd < 0)
		return unreachable(ctl, errno);
	setsockopt(ctl->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(ctl->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(ctl->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return unreachable(ctl, errno);
	line_buffer_init(&input, PROTOCOL_REPLY_MAX);
	return CTL_OK;
}

void ctl_disconnect(struct ctl *ctl)
{
	if (ctl->fd < 0)
		return;
	close(ctl->fd);
	ctl->fd = -1;
	line_buffer_fini(&input);
}

/* Send @line and wait for the answer line. NULL when the connection broke. */
static json_t *exchange(struct ctl *ctl, const char *line, int *ret_error)
{
	size_t length = strlen(line), sent = 0;
	const char *answer;
	json_t *reply;
	ssize_t n;
	int r;

	while (sent < length) {
		n = send(ctl->fd, line + sent, length - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR) {
			*ret_error = errno;
			return NULL;
		}
		sent += n > 0 ? (size_t)n : 0;
	}
	while (!line_buffer_peek(&input, &answer, &length)) {
		r = line_buffer_read(&input, ctl->fd);
		if (r <= 0) {
			*ret_error = r == -EAGAIN ? ETIMEDOUT : r ? -r : ECONNRESET;
			return NULL;
		}
	}
	reply = json_loadb(answer, length, 0, NULL);
	line_buffer_drop(&input, length);
	*ret_error = EPROTO;
	return reply;
}

/* The daemon drops a connection that is quiet for PROTOCOL_TIMEOUT_S, as between two pages while a pager waits for its
 * reader. */
static bool was_dropped(int error)
{
	return (error == EPIPE || error == ECONNRESET) && !input.used;
}

/* One request, on the connection there is or on a new one. A page needs nothing of the connection that the one before
 * came by. NULL and *@ret_code: it failed, and that was said. */
static json_t *ask(struct ctl *ctl, const char *line, int *ret_code)
{
	bool used_before = ctl->fd >= 0;
	json_t *reply;
	int error;

	*ret_code = dial(ctl);
	if (*ret_code)
		return NULL;
	reply = exchange(ctl, line, &error);
	if (!reply && used_before && was_dropped(error)) {
		ctl_disconnect(ctl);
		*ret_code = dial(ctl);
		if (*ret_code)
			return NULL;
		reply = exchange(ctl, line, &error);
	}
	if (!reply)
		*ret_code = unreachable(ctl, error);
	return reply;
}

/* Takes over @arguments. *@ret_next: text to be released with free(), or NULL. */
static int call(struct ctl *ctl, const char *command, json_t *arguments, json_t **ret_result, char **ret_next)
{
	char *line = protocol_format_request(command, arguments);
	json_t *reply, *next;
	int code;

	json_decref(arguments);
	if (!line)
		return unreachable(ctl, ENOMEM);
	reply = ask(ctl, line, &code);
	free(line);
	if (!reply)
		return code;
	if (!get_bool(reply, "ok")) {
		fprintf(stderr, "routerctl: %s\n", get_text(reply, "error"));
		json_decref(reply);
		return CTL_FAILED;
	}
	*ret_result = json_incref(json_object_get(reply, "result"));
	next = json_object_get(reply, "next");
	*ret_next = json_is_string(next) ? strdup(json_string_value(next)) : NULL;
	json_decref(reply);
	return CTL_OK;
}

int ctl_call(struct ctl *ctl, const char *command, json_t *arguments, json_t **ret_result)
{
	char *next = NULL;
	int code = call(ctl, command, arguments, ret_result, &next);

	free(next);
	return code;
}

static void print_element(json_t *element, bool *first)
{
	fputs(*first ? "[\n" : ",\n", stdout);
	*first = false;
	json_dumpf(element, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
}

int ctl_list(struct ctl *ctl, const char *command, json_t *arguments, void (*row)(void *ctx, json_t *element),
	void *ctx)
{
	json_t *base = arguments ? arguments : json_object(), *page = NULL, *element;
	char *next = NULL;
	bool first = true;
	size_t i;
	int code;

	do {
		json_t *ask = json_copy(base);

		if (next)
			json_object_set_new(ask, "after", json_string(next));
		free(next);
		next = NULL;
		code = call(ctl, command, ask, &page, &next);
		if (code)
			break;
		json_array_foreach(page, i, element) {
			if (ctl->json)
				print_element(element, &first);
			else
				row(ctx, element);
		}
		json_decref(page);
	} while (next && !ferror(stdout));
	free(next);
	json_decref(base);
	/* Whole JSON on standard output also when a later page failed; the exit code tells. */
	if (ctl->json && (!code || !first))
		fputs(first ? "[]\n" : "\n]\n", stdout);
	return code;
}

int ctl_show(struct ctl *ctl, const char *command, json_t *arguments, void (*print)(json_t *result))
{
	json_t *result = NULL;
	int code = ctl_call(ctl, command, arguments, &result);

	if (code)
		return code;
	if (ctl->json)
		ctl_print_json(result);
	else
		print(result);
	json_decref(result);
	return CTL_OK;
}
