/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The control socket against clients that behave badly: binary, partial, huge, slow, many, gone. Server and
 * clients share one thread; the event loop is turned by hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "api/suggest.h"
#include "api/text.h"
#include "common/bits.h"
#include "common/clock.h"
#include "control/control_socket.h"

#define BIG (3u << 20)

static char dir[64], path[100];
static sd_event *event;
static struct control_socket *server;

static int run_echo(void *ctx, json_t *arguments, struct command_reply *reply)
{
	++*(int *)ctx;
	reply->result = arguments ? json_incref(arguments) : json_string("nothing");
	return 0;
}

static int run_page(void *ctx, json_t *arguments, struct command_reply *reply)
{
	(void)ctx;
	(void)arguments;
	snprintf(reply->next, sizeof(reply->next), "more");
	reply->result = json_array();
	return 0;
}

static int run_big(void *ctx, json_t *arguments, struct command_reply *reply)
{
	char *text = malloc(BIG + 1);

	(void)ctx;
	(void)arguments;
	memset(text, 'x', BIG);
	text[BIG] = '\0';
	reply->result = json_string(text);
	free(text);
	return 0;
}

static int run_fail(void *ctx, json_t *arguments, struct command_reply *reply)
{
	(void)ctx;
	(void)arguments;
	return error_set(&reply->error, ENOENT, "no such thing");
}

static const struct command commands[] = {
	{ "echo", false, run_echo }, { "page", false, run_page }, { "big", false, run_big },
	{ "fail", false, run_fail }, { "change", true, run_echo }, { NULL, false, NULL },
};

static int calls;

static void turn(int times)
{
	for (int i = 0; i < times; i++)
		assert_true(sd_event_run(event, 1000) >= 0);
}

static void turn_for(unsigned ms)
{
	uint64_t end = clock_now_ns() + ms * NS_PER_MS;

	while (clock_now_ns() < end)
		assert_true(sd_event_run(event, 10000) >= 0);
}

static int start(unsigned timeout_s, struct error *e)
{
	struct control_socket_setup setup = { path, "", commands, &calls, timeout_s };

	return control_socket_new(event, &setup, &server, e);
}

static int setup(void **state)
{
	struct error e = { 0 };

	(void)state;
	strcpy(dir, "/tmp/routerd-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sub/control.sock", dir);
	assert_int_equal(sd_event_new(&event), 0);
	calls = 0;
	server = NULL;
	assert_int_equal(start(1, &e), 0);
	return 0;
}

static int teardown(void **state)
{
	char sub[80];

	(void)state;
	control_socket_free(server);
	sd_event_unref(event);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(sub, sizeof(sub), "%s/sub", dir);
	assert_int_equal(rmdir(sub), 0);
	assert_int_equal(rmdir(dir), 0);
	return 0;
}

static int dial(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void say(int fd, const void *data, size_t length)
{
	assert_int_equal(send(fd, data, length, MSG_NOSIGNAL), length);
}

/* The next bytes up to a newline, or what came until the end. */
static char *hear(int fd, bool *ret_end)
{
	size_t used = 0, size = BIG + 4096;
	char *text = malloc(size);

	*ret_end = false;
	for (int idle = 0; idle < 300; idle++) {
		ssize_t n = recv(fd, text + used, size - used - 1, 0);

		if (n > 0) {
			used += (size_t)n;
			idle = 0;
			if (text[used - 1] == '\n')
				break;
		}
		if (!n || (n < 0 && errno == ECONNRESET)) {
			*ret_end = true;
			break;
		}
		turn(3);
	}
	text[used] = '\0';
	return text;
}

static void expect(int fd, const char *request, const char *want)
{
	bool end;
	char *got;

	say(fd, request, strlen(request));
	got = hear(fd, &end);
	assert_string_equal(got, want);
	assert_false(end);
	free(got);
}

static void expect_end(int fd)
{
	bool end;
	char *got = hear(fd, &end);

	assert_true(end);
	free(got);
	close(fd);
}

/* The server still serves. */
static void assert_alive(void)
{
	int fd = dial();

	expect(fd, "{\"command\":\"echo\"}\n", "{\"ok\":true,\"result\":\"nothing\"}\n");
	close(fd);
	turn(2);
}

static void requests(void **state)
{
	int fd = dial();

	(void)state;
	expect(fd, "{\"command\":\"echo\",\"arguments\":{\"a\":1}}\n",
		"{\"ok\":true,\"result\":{\"a\":1}}\n");
	expect(fd, "{\"command\":\"page\"}\n", "{\"ok\":true,\"result\":[],\"next\":\"more\"}\n");
	expect(fd, "{\"command\":\"fail\"}\n", "{\"ok\":false,\"error\":\"no such thing\"}\n");
	expect(fd, "{\"command\":\"change\"}\n", "{\"ok\":true,\"result\":\"nothing\"}\n");
	expect(fd, "{\"command\":\"eco\"}\n",
		"{\"ok\":false,\"error\":\"unknown command \\\"eco\\\"; did you mean \\\"echo\\\"?\"}\n");
	expect(fd, "{\"command\":\"zzzzzz\"}\n",
		"{\"ok\":false,\"error\":\"unknown command \\\"zzzzzz\\\"\"}\n");
	close(fd);
}

static void bad_requests(void **state)
{
	static const char *const bad[] = {
		"\n",
		"x\n",
		"{}\n",
		"[]\n",
		"null\n",
		"17\n",
		"{\"command\":17}\n",
		"{\"command\":\"\"}\n",
		"{\"command\":\"echo\",\"arguments\":[]}\n",
		"{\"command\":\"echo\"} trailing\n",
		"\xff\xfe\x01\n",
		"{\"command\":\"\xff\"}\n",
		"{\"command\":\"a\",\"command\":\"b\"}\n",
		"{\"command\":\"echo\\u0000x\"}\n",
	};
	int fd = dial();

	(void)state;
	for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
		bool end;
		char *got;

		say(fd, bad[i], strlen(bad[i]));
		got = hear(fd, &end);
		assert_int_equal(strncmp(got, "{\"ok\":false,\"error\":\"", 21), 0);
		assert_int_equal(got[strlen(got) - 1], '\n');
		free(got);
	}
	assert_int_equal(calls, 0);
	close(fd);
}

static void nested_deep(void **state)
{
	char *text = malloc(60001);
	int fd = dial();
	bool end;

	(void)state;
	memset(text, '[', 60000);
	text[60000] = '\n';
	say(fd, text, 60001);
	free(text);
	text = hear(fd, &end);
	assert_int_equal(strncmp(text, "{\"ok\":false", 11), 0);
	free(text);
	close(fd);
}

static void in_pieces_and_together(void **state)
{
	const char *two = "{\"command\":\"echo\"}\n{\"command\":\"echo\"}\n{\"command\":\"echo\"}\n";
	char got[400] = "";
	size_t used = 0;
	int fd = dial();

	(void)state;
	for (const char *c = "{\"command\":\"echo\"}"; *c; c++) {
		say(fd, c, 1);
		turn(1);
	}
	expect(fd, "\n", "{\"ok\":true,\"result\":\"nothing\"}\n");
	calls = 0;
	say(fd, two, strlen(two));
	for (int i = 0; i < 50 && calls < 3; i++)
		turn(1);
	turn(3);
	while (used < sizeof(got) - 1) {
		ssize_t n = recv(fd, got + used, sizeof(got) - 1 - used, 0);

		if (n <= 0)
			break;
		used += (size_t)n;
	}
	assert_int_equal(calls, 3);
	assert_int_equal(used, 3 * strlen("{\"ok\":true,\"result\":\"nothing\"}\n"));
	close(fd);
}

static void half_closed(void **state)
{
	int fd = dial();
	bool end;
	char *got;

	(void)state;
	say(fd, "{\"command\":\"echo\"}\nrest", 23);
	shutdown(fd, SHUT_WR);
	got = hear(fd, &end);
	assert_string_equal(got, "{\"ok\":true,\"result\":\"nothing\"}\n");
	free(got);
	expect_end(fd);
	assert_int_equal(control_socket_clients(server), 0);
}

static void too_long(void **state)
{
	char *junk = malloc(PROTOCOL_REQUEST_MAX + 100);
	int fd = dial();
	size_t sent = 0;
	bool end = false;
	char *got;

	(void)state;
	memset(junk, 'j', PROTOCOL_REQUEST_MAX + 100);
	for (int i = 0; i < 2; i++)  /* the answer comes although the client goes on talking */
		for (sent = 0; sent < PROTOCOL_REQUEST_MAX + 100;) {
			ssize_t n = send(fd, junk + sent, PROTOCOL_REQUEST_MAX + 100 - sent, MSG_NOSIGNAL);

			assert_true(n > 0 || errno == EAGAIN);
			sent += n > 0 ? (size_t)n : 0;
			turn(3);
		}
	got = hear(fd, &end);
	assert_string_equal(got, "{\"ok\":false,\"error\":\"the request is too long\"}\n");
	assert_false(end);
	free(got);
	free(junk);
	shutdown(fd, SHUT_WR);
	expect_end(fd);
	assert_int_equal(control_socket_clients(server), 0);
	/* And one that never ends is dropped. */
	fd = dial();
	for (uint64_t stop = clock_now_ns() + 3 * NS_PER_S; clock_now_ns() < stop;) {
		static char block[60000];

		if (send(fd, block, sizeof(block), MSG_NOSIGNAL) < 0 && errno != EAGAIN)
			break;
		turn(1);
	}
	assert_int_equal(errno, EPIPE);
	close(fd);
	assert_alive();
}

static void big_reply_in_pieces(void **state)
{
	int fd = dial();
	bool end;
	char *got;

	(void)state;
	say(fd, "{\"command\":\"big\"}\n", 18);
	turn(5);
	assert_alive();  /* while the reply waits for its reader */
	got = hear(fd, &end);
	assert_int_equal(strlen(got), BIG + strlen("{\"ok\":true,\"result\":\"\"}\n"));
	free(got);
	close(fd);
}

static void quiet_clients_are_dropped(void **state)
{
	int silent = dial(), partial = dial(), deaf = dial();

	(void)state;
	say(partial, "{\"comm", 6);
	say(deaf, "{\"command\":\"big\"}\n", 18);
	turn(5);
	assert_int_equal(control_socket_clients(server), 3);
	turn_for(2000);  /* the time-out of these tests is 1 s, looked at twice a second */
	assert_int_equal(control_socket_clients(server), 0);
	expect_end(silent);
	expect_end(partial);
	close(deaf);
	assert_alive();
}

static void thousand_clients(void **state)
{
	int fds[1000];
	unsigned count = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct sockaddr_un a = { .sun_family = AF_UNIX };

		fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (fds[count] < 0)
			break;
		strcpy(a.sun_path, path);
		if (connect(fds[count], (struct sockaddr *)&a, sizeof(a)) < 0)
			close(fds[count]);
		else
			count++;
		if (i % 8 == 0)
			turn(2);
		if (i % 100 == 0)
			assert_alive();
	}
	assert_true(control_socket_clients(server) <= PROTOCOL_CLIENTS_MAX);
	assert_true(count > 900);
	assert_alive();
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
	turn_for(100);
	assert_int_equal(control_socket_clients(server), 0);
}

static void gone_before_the_answer(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		int fd = dial();

		say(fd, "{\"command\":\"big\"}\n", 18);
		if (i & 1)
			turn(3);
		close(fd);
		turn(3);
	}
	turn_for(50);
	assert_int_equal(control_socket_clients(server), 0);
	assert_alive();
}

static void file_and_second_instance(void **state)
{
	struct control_socket *first = server;
	struct error e = { 0 };
	struct stat st;
	FILE *f;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_int_equal(start(1, &e), -EADDRINUSE);
	assert_non_null(strstr(e.text, "another routerd is running"));
	assert_non_null(strstr(e.text, path));
	assert_ptr_equal(server, first);
	/* A left-over of a crash is replaced. */
	control_socket_free(server);
	server = NULL;
	{
		struct sockaddr_un a = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		strcpy(a.sun_path, path);
		assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
		close(fd);
	}
	assert_int_equal(start(1, &e), 0);
	assert_alive();
	/* A file that is no socket is left alone. */
	control_socket_free(server);
	server = NULL;
	f = fopen(path, "w");
	fclose(f);
	assert_int_equal(start(1, &e), -EEXIST);
	assert_non_null(strstr(e.text, "is not a socket"));
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	assert_int_equal(start(1, &e), 0);
}

static void group_must_exist(void **state)
{
	struct control_socket_setup bad = { path, "no-such-group-here", commands, &calls, 1 };
	struct control_socket *s = NULL;
	struct error e = { 0 };

	(void)state;
	assert_int_equal(control_socket_new(event, &bad, &s, &e), -ENOENT);
	assert_non_null(strstr(e.text, "groupadd -r no-such-group-here"));
	assert_null(s);
}

/* A child that is another user may look and not change. */
static void changing_needs_root(void **state)
{
	int report[2];
	char got[8] = "";
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe2(report, O_NONBLOCK), 0);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	pid = fork();
	if (!pid) {
		struct sockaddr_un a = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		char text[300] = "";
		const char *requests = "{\"command\":\"echo\"}\n{\"command\":\"change\"}\n";
		size_t used = 0;

		strcpy(a.sun_path, path);
		if (setgid(65534) || setuid(65534) || connect(fd, (struct sockaddr *)&a, sizeof(a)) ||
		    send(fd, requests, strlen(requests), 0) < 0)
			_exit(1);
		shutdown(fd, SHUT_WR);
		for (ssize_t n; (n = recv(fd, text + used, sizeof(text) - 1 - used, 0)) > 0;
			used += (size_t)n)
			;
		if (write(report[1],
			    strstr(text, "{\"ok\":true") && strstr(text, "only root may do this") ? "yes"
												  : "no",
			    3) < 0)
			_exit(1);
		_exit(0);
	}
	for (int i = 0; i < 2000 && read(report[0], got, sizeof(got)) <= 0; i++)
		turn(1);
	assert_string_equal(got, "yes");
	assert_int_equal(calls, 1);
	close(report[0]);
	close(report[1]);
}

static void suggestions(void **state)
{
	static const char *const words[] = { "status", "route", "neighbour", "stats" };

	(void)state;
	assert_int_equal(suggest_distance("stats", "status"), 1);
	assert_int_equal(suggest_distance("ruote", "route"), 1);
	assert_string_equal(suggest_nearest("statsu", words, 4), "status");
	assert_string_equal(suggest_nearest("neighbor", words, 4), "neighbour");
	assert_string_equal(suggest_nearest("neigh", words, 4), "neighbour");
	assert_null(suggest_nearest("xyz", words, 4));
	assert_null(suggest_nearest("", words, 4));
	assert_null(suggest_nearest("a-word-that-is-much-longer-than-thirty-one-bytes", words, 4));
}

static void assert_clean(const char *text, const char *want)
{
	json_t *value = text_json(text);

	assert_non_null(value);
	assert_string_equal(json_string_value(value), want);
	json_decref(value);
}

static void texts_from_outside_become_json(void **state)
{
	json_t *none = text_json(NULL);

	(void)state;
	assert_true(json_is_null(none));
	json_decref(none);
	assert_clean("", "");
	assert_clean("lan0", "lan0");
	assert_clean("w\303\244n\342\202\254\360\237\230\200\302\240", "w\303\244n\342\202\254\360\237\230\200\302\240");
	assert_clean("\033[31mx\177\n", "?[31mx??");
	assert_clean("a\302\205b", "a??b");                  /* C1 */
	assert_clean("a\377b\200", "a?b?");                  /* no lead byte */
	assert_clean("\300\257 \340\200\257", "?? ???");    /* overlong */
	assert_clean("\355\240\200 \364\220\200\200", "??? ????");  /* surrogate; beyond U+10FFFF */
	assert_clean("cut \342\202", "cut ??");
	assert_clean("cut \303", "cut ?");
}

static void error_of_any_bytes_is_json(void **state)
{
	char *line = protocol_format_error("no interface \"w\377\033\342\202");
	json_t *reply;

	(void)state;
	assert_non_null(line);
	reply = json_loads(line, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(reply, "error")), "no interface \"w?\?\?\?");
	json_decref(reply);
	free(line);
}

static void assert_folded(const char *attempts, const char *want)
{
	char out[200];

	text_fold_attempts(attempts, '|', " | ", out, sizeof(out));
	assert_string_equal(out, want);
}

static void causes_are_told_once(void **state)
{
	char small[8];

	(void)state;
	assert_folded("", "");
	assert_folded("no memory", "no memory");
	assert_folded("native: x (EBUSY)", "native: x (EBUSY)");
	assert_folded("zero-copy: x|native: x|generic: x", "zero-copy, native, generic: x");
	assert_folded("zero-copy: a|native: x|generic: x", "zero-copy: a | native, generic: x");
	assert_folded("zero-copy: x|native: a: b|generic: x", "zero-copy, generic: x | native: a: b");
	assert_folded("zero-copy: in use; stop it|native: in use; stop it|generic: in use; st",
		"zero-copy, native, generic: in use; stop it");
	text_fold_attempts("zero-copy: x|native: x", '|', " | ", small, sizeof(small));
	assert_true(strlen(small) < sizeof(small));
}

int main(void)
{
#define SOCKET_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		SOCKET_TEST(requests),
		SOCKET_TEST(bad_requests),
		SOCKET_TEST(nested_deep),
		SOCKET_TEST(in_pieces_and_together),
		SOCKET_TEST(half_closed),
		SOCKET_TEST(too_long),
		SOCKET_TEST(big_reply_in_pieces),
		SOCKET_TEST(quiet_clients_are_dropped),
		SOCKET_TEST(thousand_clients),
		SOCKET_TEST(gone_before_the_answer),
		SOCKET_TEST(file_and_second_instance),
		SOCKET_TEST(group_must_exist),
		SOCKET_TEST(changing_needs_root),
		cmocka_unit_test(suggestions),
		cmocka_unit_test(texts_from_outside_become_json),
		cmocka_unit_test(error_of_any_bytes_is_json),
		cmocka_unit_test(causes_are_told_once),
	};

	return cmocka_run_group_tests_name("control_socket", tests, NULL, NULL);
}
