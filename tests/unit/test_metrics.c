/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The metrics endpoint: the text format, and clients that behave badly. Server and clients share one thread;
 * the event loop is turned by hand. (What the daemon's own page says is checked by promtool in the lab.)
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/bits.h"
#include "common/clock.h"
#include "control/metrics.h"

static char dir[64], listen_text[100];
static sd_event *event;
static struct metrics *server;
static unsigned pages;

static void write_page(void *ctx, FILE *out)
{
	(void)ctx;
	pages++;
	metrics_family(out, "routerd_test_total", METRICS_COUNTER, "A test.");
	metrics_sample(out, "routerd_test_total", UINT64_MAX, "port", "a\"b\\c\nd", "queue", "0", NULL);
	metrics_sample(out, "routerd_test_total", 0, NULL);
}

static void turn_for(unsigned ms)
{
	uint64_t end = clock_now_ns() + ms * NS_PER_MS;

	while (clock_now_ns() < end)
		assert_true(sd_event_run(event, 2000) >= 0);
}

static int setup(void **state)
{
	struct error e = { 0 };

	(void)state;
	strcpy(dir, "/tmp/routerd-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(listen_text, sizeof(listen_text), "unix:%s/m.sock", dir);
	assert_int_equal(sd_event_new(&event), 0);
	pages = 0;
	server = NULL;
	assert_int_equal(metrics_new(event, listen_text, write_page, NULL, &server, &e), 0);
	assert_non_null(server);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	metrics_free(server);
	sd_event_unref(event);
	assert_int_equal(rmdir(dir), 0);  /* the socket file is gone */
	return 0;
}

static int dial(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(a.sun_path, listen_text + 5);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Send a request, hang up our half, and take all that comes. */
static char *ask(const char *request, size_t length)
{
	static char text[70000];
	size_t used = 0;
	int fd = dial();

	assert_true(fd >= 0);
	assert_true(send(fd, request, length, MSG_NOSIGNAL) >= 0);
	for (int i = 0; i < 500 && used < sizeof(text) - 1; i++) {
		ssize_t n = recv(fd, text + used, sizeof(text) - 1 - used, 0);

		if (!n || (n < 0 && errno != EAGAIN))
			break;
		used += n > 0 ? (size_t)n : 0;
		sd_event_run(event, 1000);
	}
	text[used] = '\0';
	close(fd);
	turn_for(5);
	return text;
}

static void assert_alive(void)
{
	const char *request = "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n";
	char *answer = ask(request, strlen(request));

	assert_int_equal(strncmp(answer, "HTTP/1.", 7), 0);
	assert_non_null(strstr(answer, " 200 "));
}

static void page(void **state)
{
	const char *request = "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n";
	char *answer = ask(request, strlen(request));

	(void)state;
	assert_non_null(strstr(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
	assert_non_null(strstr(answer,
		"\r\n\r\n# HELP routerd_test_total A test.\n# TYPE routerd_test_total counter\n"
		"routerd_test_total{port=\"a\\\"b\\\\c\\nd\",queue=\"0\"} 18446744073709551615\n"
		"routerd_test_total 0\n"));
}

static void other_requests(void **state)
{
	static const struct {
		const char *request, *want;
	} cases[] = {
		{ "GET / HTTP/1.0\r\n\r\n", " 200 " },
		{ "GET /metricsx HTTP/1.0\r\n\r\n", " 404 " },
		{ "GET /../../etc/passwd HTTP/1.0\r\n\r\n", " 404 " },
		{ "POST /metrics HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", " 405 " },
		{ "DELETE /metrics HTTP/1.0\r\n\r\n", " 405 " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		assert_non_null(strstr(ask(cases[i].request, strlen(cases[i].request)), cases[i].want));
	assert_int_equal(pages, 0);
	assert_alive();
}

static void garbage(void **state)
{
	char junk[65536];

	(void)state;
	srand(1);
	for (int i = 0; i < 20; i++) {
		for (size_t k = 0; k < sizeof(junk); k++)
			junk[k] = (char)rand();
		ask(junk, sizeof(junk));
	}
	memset(junk, 'A', sizeof(junk));
	memcpy(junk, "GET /", 5);
	ask(junk, sizeof(junk));  /* a URL without an end */
	ask("\0\0\0\0", 4);
	assert_alive();
}

static void crowd(void **state)
{
	int fds[300];
	unsigned count = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		int fd = dial();

		if (fd < 0)
			continue;
		fds[count++] = fd;
		if (i & 1)
			assert_true(send(fd, "GET /met", 8, MSG_NOSIGNAL) == 8 || errno == EPIPE);
		turn_for(2);
		if (i % 50 == 49)
			assert_alive();
	}
	assert_true(count > 200);
	assert_alive();
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	turn_for(20);
	assert_alive();
}

static void off_and_taken(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct metrics *m = (struct metrics *)&a;
	socklen_t length = sizeof(a);
	struct error e = { 0 };
	char text[64];

	(void)state;
	assert_int_equal(metrics_new(event, "off", write_page, NULL, &m, &e), 0);
	assert_null(m);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(a.sin_port));
	assert_int_equal(metrics_new(event, text, write_page, NULL, &m, &e), -EADDRINUSE);
	assert_null(m);
	assert_non_null(strstr(e.text, "[metrics] listen"));
	close(fd);
}

int main(void)
{
#define SERVER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		SERVER_TEST(page), SERVER_TEST(other_requests), SERVER_TEST(garbage), SERVER_TEST(crowd),
		SERVER_TEST(off_and_taken),
	};

	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
