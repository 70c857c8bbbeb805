/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/metrics.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "control/config_schema.h"
#include "control/control_socket.h"

struct visitor {
	int fd;             /* libmicrohttpd's; -1 = free slot */
	uint64_t since_ns;
};

struct metrics {
	struct MHD_Daemon *daemon;
	sd_event_source *io, *timer;
	char path[CONFIG_PATH_LENGTH];  /* of a UNIX socket, to be removed */
	struct visitor visitors[METRICS_CONNECTIONS_MAX];
	unsigned runs; /* of MHD_run() until a dismissed visitor is gone and the next can come in */
	void (*write)(void *ctx, FILE *out);
	void *ctx;
};

/* libmicrohttpd notices and closes. */
static void dismiss(struct visitor *v)
{
	shutdown(v->fd, SHUT_RDWR);
	v->fd = -1;
}

/* There is always a slot for the newest: its predecessor longest here has to go. */
static struct visitor *make_room(struct metrics *m)
{
	struct visitor *oldest = &m->visitors[0];

	for (unsigned i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
		if (m->visitors[i].fd < 0)
			return &m->visitors[i];
		if (m->visitors[i].since_ns < oldest->since_ns)
			oldest = &m->visitors[i];
	}
	dismiss(oldest);
	m->runs = 3;
	return oldest;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct metrics *m = cls;
	struct visitor *v;

	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (!info)
		return;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		v = make_room(m);
		*v = (struct visitor){ info->connect_fd, clock_now_ns() };
		*context = v;
		return;
	}
	v = *context;
	if (v && v->fd == info->connect_fd)  /* else the slot is another's by now */
		v->fd = -1;
}

static void dismiss_overdue(struct metrics *m)
{
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < METRICS_CONNECTIONS_MAX; i++)
		if (m->visitors[i].fd >= 0 && now - m->visitors[i].since_ns > METRICS_LIFETIME_S * NS_PER_S)
			dismiss(&m->visitors[i]);
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type, char *body,
	size_t size, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(size, body, mode);
	enum MHD_Result r;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	r = MHD_queue_response(connection, code, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned code, const char *text)
{
	return answer(connection, code, "text/plain; charset=utf-8", (char *)(uintptr_t)text, strlen(text),
		MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result answer_page(struct metrics *m, struct MHD_Connection *connection)
{
	char *page = NULL;
	size_t size;
	FILE *out = open_memstream(&page, &size);

	if (!out)
		return MHD_NO;
	m->write(m->ctx, out);
	if (fclose(out)) {
		free(page);
		return MHD_NO;
	}
	return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", page, size,
		MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size, void **state)
{
	static int seen;

	(void)version;
	(void)upload;
	/* First call: headers only. Any body is read and thrown away by the limits of the connection. */
	if (!*state) {
		*state = &seen;
		return MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (!strcmp(url, "/metrics"))
		return answer_page(cls, connection);
	if (!strcmp(url, "/"))
		return answer_text(connection, MHD_HTTP_OK, "routerd: the metrics are at /metrics\n");
	return answer_text(connection, MHD_HTTP_NOT_FOUND, "not found; the metrics are at /metrics\n");
}

/* Let libmicrohttpd work, then sleep no longer than it wants to. */
static int serve(struct metrics *m)
{
	MHD_UNSIGNED_LONG_LONG ms;

	dismiss_overdue(m);
	MHD_run(m->daemon);
	if (m->runs) {
		m->runs--;
		ms = 0;
	} else if (MHD_get_timeout(m->daemon, &ms) != MHD_YES)
		return sd_event_source_set_enabled(m->timer, SD_EVENT_OFF);
	sd_event_source_set_time_relative(m->timer, (uint64_t)ms * 1000);
	return sd_event_source_set_enabled(m->timer, SD_EVENT_ONESHOT);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)source;
	(void)fd;
	(void)events;
	return serve(userdata);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	return serve(userdata);
}

static int tcp_listen(
	const char *text, const struct sockaddr_storage *address, socklen_t length, struct error *e)
{
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, r;

	if (fd < 0)
		return error_set(e, errno, "cannot make a socket for the metrics: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)address, length) < 0 ||
		listen(fd, METRICS_CONNECTIONS_MAX) < 0) {
		r = error_set(e, errno,
			"cannot serve metrics at %s: %s; choose another [metrics] listen address, or off",
			text, strerror(errno));
		close(fd);
		return r;
	}
	return fd;
}

/* Takes over @fd. */
static int start(struct metrics *m, sd_event *event, int fd, struct error *e)
{
	const union MHD_DaemonInfo *info;
	int r;

	m->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, m, MHD_OPTION_LISTEN_SOCKET,
		fd, MHD_OPTION_CONNECTION_LIMIT, METRICS_CONNECTIONS_MAX + 1, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, m, MHD_OPTION_CONNECTION_TIMEOUT, METRICS_TIMEOUT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(16 << 10), MHD_OPTION_END);
	if (!m->daemon) {
		close(fd);
		return error_set(e, EIO, "cannot start the HTTP server for the metrics");
	}
	info = MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return error_set(e, EIO, "the HTTP server library has no epoll support");
	r = sd_event_add_io(event, &m->io, info->epoll_fd, EPOLLIN, on_io, m);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &m->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, m);
	return r < 0 ? error_set(e, -r, "cannot watch the metrics socket: %s", strerror(-r)) : 0;
}

int metrics_new(sd_event *event, const char *listen_text, void (*write)(void *ctx, FILE *out), void *ctx,
	struct metrics **ret, struct error *e)
{
	struct sockaddr_storage address;
	enum config_listen_kind kind;
	struct metrics *m;
	socklen_t length;
	int fd, r;

	if (config_listen_parse(listen_text, &kind, &address, &length) < 0)
		return error_set(e, EINVAL, "\"%s\" is no address for the metrics", listen_text);
	if (kind == CONFIG_LISTEN_OFF) {
		*ret = NULL;
		return 0;
	}
	if (kind == CONFIG_LISTEN_UNIX)
		fd = unix_listen(((struct sockaddr_un *)&address)->sun_path, "", 0660, e);
	else
		fd = tcp_listen(listen_text, &address, length, e);
	if (fd < 0)
		return fd;
	m = calloc(1, sizeof(*m));
	if (!m) {
		close(fd);
		return error_set(e, ENOMEM, "out of memory");
	}
	for (unsigned i = 0; i < METRICS_CONNECTIONS_MAX; i++)
		m->visitors[i].fd = -1;
	m->write = write;
	m->ctx = ctx;
	if (kind == CONFIG_LISTEN_UNIX)
		strcpy(m->path, listen_text + strlen("unix:"));  /* config_listen_parse() has measured it */
	r = start(m, event, fd, e);
	if (r < 0) {
		metrics_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	sd_event_source_disable_unref(m->io);
	sd_event_source_disable_unref(m->timer);
	if (m->daemon)
		MHD_stop_daemon(m->daemon);
	if (*m->path)
		unlink(m->path);
	free(m);
}
