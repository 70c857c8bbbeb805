/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror's I/O with a kernel played by this program: dumps that are refused, break off or are lost never
 * take away what is known, and are asked for again. As in the kernel one dump at a time runs on a socket; the
 * next is EBUSY until its end has been read.
 */
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit/mirror_world.h"

#include "control/netlink.h"

#define netlink_open fake_open
#define netlink_close fake_close
#define netlink_request_dump fake_request_dump
#define netlink_send fake_send
#define netlink_receive fake_receive
static int fake_open(struct netlink *n, const unsigned *groups, unsigned count, int receive_buffer, struct error *e);
static void fake_close(struct netlink *n);
static int fake_request_dump(struct netlink *n, uint16_t type, uint8_t family, size_t bytes);
static int fake_send(struct netlink *n, const struct nlmsghdr *nlh);
static ssize_t fake_receive(struct netlink *n);
#include "control/mirror_sync.c"

enum how { REFUSED, BROKEN_OFF, LOST, NOT_SENT };

static struct {
	uint16_t type;           /* the dump that goes wrong */
	enum how how;
	int error;
	unsigned times;
	unsigned requests, opened, busy;
	const char *routes4;     /* messages, separated by ";" */
	const char *once;        /* shown by the next dump of IPv4 routes alone */
	int runs_on;             /* fd with an answer that was not read to its end, or -1 */
	bool lose;
	size_t bytes;
	char answer[8192];
} kernel;

static int fake_open(struct netlink *n, const unsigned *joined, unsigned count, int receive_buffer, struct error *e)
{
	(void)joined, (void)count, (void)receive_buffer, (void)e;
	n->fd = eventfd(1, EFD_NONBLOCK);
	assert_true(n->fd >= 0);
	n->seq = 0;
	n->buffer = calloc(1, NETLINK_BUFFER);
	assert_non_null(n->buffer);
	kernel.opened++;
	return 0;
}

static void fake_close(struct netlink *n)
{
	if (n->fd >= 0)
		close(n->fd);
	if (n->fd >= 0 && n->fd == kernel.runs_on)
		kernel.runs_on = -1;
	n->fd = -1;
	free(n->buffer);
	n->buffer = NULL;
}

static int fake_send(struct netlink *n, const struct nlmsghdr *nlh)
{
	(void)n, (void)nlh;
	return 0;
}

static void answer(uint32_t seq, const void *message_, size_t bytes, uint16_t type)
{
	struct nlmsghdr *nlh = (void *)(kernel.answer + kernel.bytes);

	if (message_)
		memcpy(nlh, message_, bytes);
	else
		*nlh = (struct nlmsghdr){ .nlmsg_len = MNL_NLMSG_HDRLEN, .nlmsg_type = type };
	nlh->nlmsg_seq = seq;
	nlh->nlmsg_flags |= NLM_F_MULTI;
	kernel.bytes += MNL_ALIGN(nlh->nlmsg_len);
	assert_true(kernel.bytes < sizeof(kernel.answer) / 2);
}

static void answer_number(uint32_t seq, uint16_t type, int error)
{
	struct { struct nlmsghdr nlh; struct nlmsgerr e; } m = { .nlh = { .nlmsg_type = type }, .e = { .error = error } };

	m.nlh.nlmsg_len = MNL_NLMSG_HDRLEN + (type == NLMSG_DONE ? sizeof(int) : sizeof(m.e));
	answer(seq, &m, m.nlh.nlmsg_len, type);
}

static void answer_messages(uint32_t seq, const char *texts)
{
	char copy[1024], *save = NULL, *buffer = malloc(MESSAGE_MAX);

	assert_non_null(buffer);
	snprintf(copy, sizeof(copy), "%s", texts ? texts : "");
	for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
		const struct nlmsghdr *nlh = message(buffer, p);

		answer(seq, nlh, nlh->nlmsg_len, 0);
	}
	free(buffer);
}

static int fake_request_dump(struct netlink *n, uint16_t type, uint8_t family, size_t bytes)
{
	bool wrong = type == kernel.type && kernel.times;

	(void)bytes;
	n->seq++;
	kernel.requests++;
	kernel.times -= wrong;
	if (wrong && kernel.how == NOT_SENT)
		return -kernel.error;
	if (kernel.runs_on == n->fd) {
		kernel.busy++;
		answer_number(n->seq, NLMSG_ERROR, -EBUSY);
		return 0;
	}
	kernel.runs_on = n->fd;
	kernel.bytes = 0;
	kernel.lose = wrong && kernel.how == LOST;
	if (wrong && kernel.how == REFUSED) {
		answer_number(n->seq, NLMSG_ERROR, -kernel.error);
		return 0;
	}
	if (wrong) {
		answer_number(n->seq, NLMSG_DONE, -kernel.error);
		return 0;
	}
	if (type == RTM_GETLINK)
		answer_messages(n->seq, "dump link 2 name eth0 up;dump link 3 name eth1 up");
	if (type == RTM_GETROUTE && family == AF_INET) {
		answer_messages(n->seq, kernel.routes4);
		answer_messages(n->seq, kernel.once);
		kernel.once = NULL;
	}
	answer_number(n->seq, NLMSG_DONE, 0);
	return 0;
}

static ssize_t fake_receive(struct netlink *n)
{
	size_t bytes = kernel.bytes;

	if (n->fd < 0)
		return -EBADF;
	if (n->fd != kernel.runs_on || !bytes)
		return 0;
	if (kernel.lose) {
		/* The dump itself goes on: the kernel waits for room. */
		kernel.lose = false;
		return -kernel.error;
	}
	memcpy(n->buffer, kernel.answer, bytes);
	kernel.bytes = 0;
	kernel.runs_on = -1;
	return (ssize_t)bytes;
}

/* ---- tests ---- */

#define ROUTE10 "dump route 10.0.0.0/8 via 192.0.2.1 dev 2"
#define ROUTE11 "dump route 11.0.0.0/8 via 192.0.2.1 dev 2"

static sd_event *event;

static int setup(void **state)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.runs_on = -1;
	kernel.routes4 = ROUTE10 ";" ROUTE11;
	*state = world_new();
	((struct world *)*state)->m->sysctl_root = "/nowhere";
	return sd_event_new(&event);
}

static int teardown(void **state)
{
	mirror_stop(((struct world *)*state)->m);
	world_free(*state);
	event = sd_event_unref(event);
	return 0;
}

static int start(struct world *w, struct error *e)
{
	int r = mirror_start(w->m, event, e);

	if (r >= 0) {
		assert_int_equal(mirror_set_port(w->m, 2, 0), 0);
		assert_int_equal(mirror_set_port(w->m, 3, 1), 0);
		world_settle(w);
	}
	return r;
}

static bool pending(struct world *w)
{
	struct mirror_stats s;

	mirror_get_stats(w->m, &s);
	return s.pending || s.resync_running;
}

/* Turn the loop until nothing is pending; what must not be lost is looked at all the time. */
static void spin(struct world *w)
{
	uint64_t end = clock_now_ns() + 10 * NS_PER_S;

	while (pending(w)) {
		assert_true(sd_event_run(event, 10000) >= 0);
		assert_to(w, "10.0.0.1", "2>192.0.2.1");
		assert_true(clock_now_ns() < end);
	}
}

static const struct { enum how how; int error; unsigned reopens; } failures[] = {
	{ REFUSED, EBUSY, 1 }, { REFUSED, ENOMEM, 0 }, { REFUSED, EINVAL, 0 }, { BROKEN_OFF, ENOMEM, 0 },
	{ LOST, ENOBUFS, 1 }, { NOT_SENT, ENOBUFS, 1 },
};

static void test_failed_dump_is_repeated(void **state)
{
	struct world *w = *state;
	struct error e = { 0 };

	assert_int_equal(start(w, &e), 0);
	assert_int_equal(kernel.opened, 2);
	for (unsigned i = 0; i < ARRAY_LENGTH(failures); i++) {
		kernel.routes4 = ROUTE10 ";" ROUTE11;
		mirror_resync(w->m, "test");
		spin(w);
		assert_to(w, "11.0.0.1", "2>192.0.2.1");
		kernel.opened = kernel.busy = 0;
		kernel.type = RTM_GETROUTE;
		kernel.how = failures[i].how;
		kernel.error = failures[i].error;
		kernel.times = 1;
		/* The kernel has one route less, and the first answer does not tell. */
		kernel.routes4 = ROUTE10;
		mirror_resync(w->m, "test");
		while (kernel.times || w->m->dump != DUMP_NONE || w->m->sync->running)
			assert_true(sd_event_run(event, 10000) >= 0);
		assert_to(w, "10.0.0.1", "2>192.0.2.1");
		assert_to(w, "11.0.0.1", "2>192.0.2.1");
		assert_true(w->m->want & DUMP_BIT(DUMP_ROUTE4));
		spin(w);
		assert_to(w, "11.0.0.1", "-");
		assert_int_equal(kernel.opened, failures[i].reopens);
		assert_int_equal(kernel.busy, 0);
	}
}

static void test_start_waits_for_the_tables(void **state)
{
	struct world *w = *state;
	struct error e = { 0 };

	kernel.type = RTM_GETROUTE;
	kernel.how = BROKEN_OFF;
	kernel.error = ENOMEM;
	kernel.times = 2;
	assert_int_equal(start(w, &e), 0);
	assert_to(w, "10.0.0.1", "2>192.0.2.1");
	assert_int_equal(w->m->want, 0);
}

static void test_start_fails(void **state)
{
	struct world *w = *state;
	struct error e = { 0 };

	kernel.type = RTM_GETROUTE;
	kernel.how = LOST;
	kernel.error = ENOBUFS;
	kernel.times = 1000;
	assert_int_equal(start(w, &e), -ENOBUFS);
	print_message("%s\n", e.text);
	assert_non_null(strstr(e.text, "does not show its tables"));
}

/* What the kernel was built without has no tables. */
static void test_absent_family(void **state)
{
	struct world *w = *state;
	struct error e = { 0 };

	kernel.type = RTM_GETNEXTHOP;
	kernel.how = REFUSED;
	kernel.error = EOPNOTSUPP;
	kernel.times = 1000;
	assert_int_equal(start(w, &e), 0);
	assert_int_equal(w->m->want, 0);
	assert_int_equal(kernel.requests, DUMPS);
}

/* A route that the kernel had doomed but not yet removed when it was asked. */
static void test_silent_removal_is_seen_in_the_end(void **state)
{
	struct world *w = *state;
	struct error e = { 0 };

	assert_int_equal(start(w, &e), 0);
	kernel.once = "dump route 12.0.0.0/8 via 192.0.2.1 dev 2";
	kernel.requests = 0;
	mirror_want(w->m, DUMP_BIT(DUMP_ROUTE4), MIRROR_CAUSE_CHANGE);
	while (kernel.once || w->m->sync->running)
		assert_true(sd_event_run(event, 10000) >= 0);
	assert_to(w, "12.0.0.1", "2>192.0.2.1");
	spin(w);
	assert_to(w, "12.0.0.1", "-");
	/* One that showed it, one that swept it, one that was no news. */
	assert_int_equal(kernel.requests, 3);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { T(test_failed_dump_is_repeated), T(test_start_waits_for_the_tables),
		T(test_start_fails), T(test_absent_family), T(test_silent_removal_is_seen_in_the_end) };

	test_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
