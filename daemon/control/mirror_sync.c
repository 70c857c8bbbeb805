/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The mirror's I/O: two sockets on the event loop. One receives notifications, the other carries dumps (one
 * at a time, in the order of dependency) and requests, so that a dump never crowds notifications out. Work
 * per wake-up is bounded.
 *
 * A re-read that is wanted begins a moment later, and half a second after the last one at the earliest: what
 * happens together is read once. While it runs, and after lost notifications, forwarding goes on by what is
 * known. A dump that fails removes nothing and is asked for again, less often from time to time. A request
 * socket on which one may still run (the next would be refused) or was cut short is replaced by a new one.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "control/mirror_private.h"
#include "control/netlink.h"

#include <linux/fib_rules.h>  /* after fib.h: it has a macro of the name of one of its enumerators */

#define RECEIVE_BUFFER (32 << 20)
#define NOTIFICATIONS_PER_WAKEUP 256   /* datagrams */
#define DUMP_PIECES_PER_WAKEUP 8       /* of up to 32 KiB, some 400 routes each */
#define WORK_PER_WAKEUP 4096           /* routes */
#define SETTLE_NS (20 * NS_PER_MS)
#define INTERVAL_NS (500 * NS_PER_MS)
#define BACKOFF_MAX 6                  /* doublings of that, for what fails or is interrupted all the time */
#define REQUEST_BUFFER (1 << 20)
#define START_TRIES 5
#define START_PAUSE_MS 100
#define INTERRUPTED_MAX 5              /* repetitions of an inconsistent dump before it is taken as it is */
#define SILENCE_MS 10000               /* at start: the kernel answers a dump within this */

static const struct {
	uint16_t type;
	uint8_t family;
	uint8_t header;
} dump_request[DUMPS] = {
	[DUMP_LINK] = { RTM_GETLINK, AF_UNSPEC, sizeof(struct ifinfomsg) },
	[DUMP_NETCONF4] = { RTM_GETNETCONF, AF_INET, sizeof(struct netconfmsg) },
	[DUMP_NETCONF6] = { RTM_GETNETCONF, AF_INET6, sizeof(struct netconfmsg) },
	[DUMP_RULE4] = { RTM_GETRULE, AF_INET, sizeof(struct fib_rule_hdr) },
	[DUMP_RULE6] = { RTM_GETRULE, AF_INET6, sizeof(struct fib_rule_hdr) },
	[DUMP_ADDR] = { RTM_GETADDR, AF_UNSPEC, sizeof(struct ifaddrmsg) },
	[DUMP_NEXTHOP] = { RTM_GETNEXTHOP, AF_UNSPEC, sizeof(struct nhmsg) },
	[DUMP_ROUTE4] = { RTM_GETROUTE, AF_INET, sizeof(struct rtmsg) },
	[DUMP_ROUTE6] = { RTM_GETROUTE, AF_INET6, sizeof(struct rtmsg) },
	[DUMP_NEIGH] = { RTM_GETNEIGH, AF_UNSPEC, sizeof(struct ndmsg) },
};

static const unsigned groups[] = { RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE,
	RTNLGRP_IPV6_ROUTE, RTNLGRP_NEIGH, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_NEXTHOP,
	RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF };

struct mirror_sync {
	struct netlink notify, request;
	sd_event *event;
	sd_event_source *notify_source, *request_source, *work_source, *timer;
	bool running;             /* a re-read */
	bool overrun;             /* notifications were lost and the queue has not been empty since */
	bool interrupted;         /* the piece of the dump that runs says so */
	bool broken;              /* the request socket is to be replaced before the next dump */
	int error;                /* of the last dump of this re-read that failed, positive; 0 = none did */
	enum mirror_dump error_dump;
	unsigned backoff;         /* re-reads in a row that left something to be repeated */
	uint32_t asked;           /* DUMP_BITs of this re-read */
	unsigned repetitions;
	uint32_t todo;            /* DUMP_BITs that are left */
	uint32_t seq;             /* of the dump that runs */
	enum mirror_cause cause;
	uint64_t begun_ns, ended_ns;
};

/* ---- one dump after the other ---- */

static void begin_step(struct mirror *m);

static void resync_end(struct mirror *m)
{
	struct mirror_sync *s = m->sync;

	s->running = false;
	if (s->cause == MIRROR_CAUSE_START)
		m->dump_changed = 0;
	mirror_settle(m, s->asked);
	s->backoff = m->want && m->want_cause == MIRROR_CAUSE_INTERRUPTED ? s->backoff + 1 : 0;
	s->ended_ns = clock_now_ns();
	m->stats.resync_running = false;
	m->stats.last_resync_ns = s->ended_ns - s->begun_ns;
	if (m->hooks.resync)
		m->hooks.resync(m->ctx, mirror_cause_label[s->cause], true);
	if (m->want)
		sync_wanted(m);
}

static void resync_begin(struct mirror *m)
{
	struct mirror_sync *s = m->sync;

	s->running = true;
	s->repetitions = 0;
	s->error = 0;
	s->todo = s->asked = m->want;
	s->cause = m->want_cause;
	s->begun_ns = clock_now_ns();
	m->want = 0;
	m->stats.resync_running = true;
	m->stats.resyncs[s->cause]++;
	if (m->hooks.resync)
		m->hooks.resync(m->ctx, mirror_cause_label[s->cause], false);
	begin_step(m);
}

static void warn_failed(int error, enum mirror_dump d)
{
	static struct log_ratelimit limit = { .burst = 5, .interval_ns = 60 * NS_PER_S };
	unsigned suppressed;

	if (log_ratelimit_pass(&limit, clock_now_ns(), &suppressed))
		log_warning("the kernel does not show its tables (request %u): %s; trying again",
			dump_request[d].type, strerror(error));
}

/* The dump that runs is not to be had (@error positive) and will be asked for again. When it is for the socket,
 * so is the rest: nothing more is asked for until the next re-read. (The caller may be within the socket's
 * buffer, so it is not closed here.) */
static void fail_step(struct mirror *m, int error, bool broken)
{
	struct mirror_sync *s = m->sync;
	enum mirror_dump d = m->dump;
	uint32_t again = broken ? s->todo : DUMP_BIT(d);

	warn_failed(error, d);
	m->stats.request_errors++;
	s->error = error;
	s->error_dump = d;
	s->broken |= broken;
	s->todo &= ~again;
	mirror_dump_end(m, d, false);
	mirror_want(m, again, MIRROR_CAUSE_INTERRUPTED);
	begin_step(m);
}

static int on_request(sd_event_source *source, int fd, uint32_t events, void *userdata);

static int watch_request(struct mirror *m)
{
	struct mirror_sync *s = m->sync;

	return sd_event_add_io(s->event, &s->request_source, s->request.fd, EPOLLIN, on_request, m);
}

/* A new request socket, on which no dump runs. */
static int reopen_request(struct mirror *m)
{
	struct mirror_sync *s = m->sync;
	uint32_t seq = s->request.seq;
	struct error e = { 0 };
	int r;

	s->request_source = sd_event_source_disable_unref(s->request_source);
	netlink_close(&s->request);
	r = netlink_open(&s->request, NULL, 0, REQUEST_BUFFER, &e);
	s->request.seq = seq;
	if (r >= 0 && s->event)
		r = watch_request(m);
	if (r >= 0)
		s->broken = false;
	return r < 0 ? r : 0;
}

static int ask(struct mirror *m, enum mirror_dump d)
{
	struct mirror_sync *s = m->sync;
	int r = s->broken ? reopen_request(m) : 0;

	if (!r)
		r = netlink_request_dump(&s->request, dump_request[d].type, dump_request[d].family,
			dump_request[d].header);
	s->seq = s->request.seq;
	return r;
}

static void begin_step(struct mirror *m)
{
	struct mirror_sync *s = m->sync;
	enum mirror_dump d;
	int r;

	if (!s->todo) {
		/* The end waits for the sweep (see after_work()). */
		sync_wanted(m);
		return;
	}
	d = (enum mirror_dump)__builtin_ctz(s->todo);
	s->interrupted = false;
	mirror_dump_begin(m, d);
	r = ask(m, d);
	if (r < 0)
		fail_step(m, -r, true);
}

static void end_step(struct mirror *m)
{
	struct mirror_sync *s = m->sync;
	enum mirror_dump d = m->dump;

	if (s->interrupted && s->repetitions < INTERRUPTED_MAX) {
		s->repetitions++;
		m->stats.resyncs[MIRROR_CAUSE_INTERRUPTED]++;
		mirror_dump_end(m, d, false);
		begin_step(m);
		return;
	}
	/* The tables do not stand still: what the dump does not show may be there all the same. */
	if (s->interrupted)
		mirror_want(m, DUMP_BIT(d), MIRROR_CAUSE_INTERRUPTED);
	mirror_dump_end(m, d, !s->interrupted);
	s->todo &= ~DUMP_BIT(d);
	begin_step(m);
}

/* The kernel says how the dump went; @error negative or 0. */
static void dump_result(struct mirror *m, int error)
{
	/* A family that the kernel was built without has no tables: that is the whole answer. */
	if (error >= 0 || error == -EOPNOTSUPP || error == -EAFNOSUPPORT || error == -ENOENT)
		end_step(m);
	else
		fail_step(m, -error, error == -EBUSY);
}

static void request_error(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *err = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_len < MNL_NLMSG_HDRLEN + sizeof(err->error) || !err->error)
		return;
	if (nlh->nlmsg_seq != m->sync->seq || m->dump == DUMP_NONE) {
		m->stats.request_errors++;  /* a neighbour or its device has just gone, mostly */
		return;
	}
	dump_result(m, err->error);
}

/* NLMSG_DONE carries the error with which the dump broke off. */
static void dump_done(struct mirror *m, const struct nlmsghdr *nlh)
{
	int error = 0;

	if (nlh->nlmsg_len >= MNL_NLMSG_HDRLEN + sizeof(error))
		memcpy(&error, mnl_nlmsg_get_payload(nlh), sizeof(error));
	dump_result(m, error);
}

static void dump_piece(struct mirror *m, const struct nlmsghdr *nlh)
{
	struct mirror_sync *s = m->sync;

	if (nlh->nlmsg_type == NLMSG_ERROR) {
		request_error(m, nlh);
		return;
	}
	if (nlh->nlmsg_seq != s->seq || m->dump == DUMP_NONE)
		return;
	s->interrupted |= !!(nlh->nlmsg_flags & NLM_F_DUMP_INTR);
	if (nlh->nlmsg_type == NLMSG_DONE)
		dump_done(m, nlh);
	else if (nlh->nlmsg_type >= NLMSG_MIN_TYPE)
		mirror_handle_message(m, nlh);
}

static void read_request(struct mirror *m)
{
	struct netlink *n = &m->sync->request;

	for (unsigned i = 0; i < DUMP_PIECES_PER_WAKEUP; i++) {
		ssize_t bytes = netlink_receive(n);
		const struct nlmsghdr *nlh = (void *)n->buffer;
		int left = (int)bytes;

		if (!bytes)
			return;
		if (bytes < 0) {
			if (m->dump != DUMP_NONE)
				fail_step(m, (int)-bytes, true);
			return;
		}
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			dump_piece(m, nlh);
	}
}

static void read_notifications(struct mirror *m)
{
	struct netlink *n = &m->sync->notify;

	for (unsigned i = 0; i < NOTIFICATIONS_PER_WAKEUP; i++) {
		ssize_t bytes = netlink_receive(n);
		const struct nlmsghdr *nlh = (void *)n->buffer;
		int left = (int)bytes;

		if (!bytes && m->sync->overrun) {
			m->sync->overrun = false;
			mirror_want(m, DUMP_ALL, MIRROR_CAUSE_OVERRUN);
		}
		if (!bytes)
			return;
		/* From an overrun on the kernel drops every notification, without a word, until the queue is empty (af_netlink.c:
		 * NETLINK_S_CONGESTED): only then is a re-read worth anything. */
		if (bytes < 0) {
			m->stats.overruns++;
			m->sync->overrun = true;
			continue;
		}
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			mirror_handle_message(m, nlh);
	}
}

/* ---- the event loop ---- */

static int on_notify(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	read_notifications(userdata);
	sync_wanted(userdata);
	return 0;
}

static int on_request(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	read_request(userdata);
	sync_wanted(userdata);
	return 0;
}

/* Returns whether there is more to do. */
static bool do_work(struct mirror *m)
{
	bool more = mirror_work(m, WORK_PER_WAKEUP);

	if (!more && m->sync->running && m->dump == DUMP_NONE && !m->sync->todo)
		resync_end(m);
	return more;
}

static int on_work(sd_event_source *source, void *userdata)
{
	if (!do_work(userdata))
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct mirror *m = userdata;

	if (!m->sync->running && m->want)
		resync_begin(m);
	return 0;
}

static bool has_work(const struct mirror *m)
{
	return !dlist_empty(&m->stale) || m->routes[0].walk != UINT32_MAX ||
		m->routes[1].walk != UINT32_MAX ||
		(m->sync->running && m->dump == DUMP_NONE && !m->sync->todo);
}

static void arm_timer(struct mirror *m)
{
	struct mirror_sync *s = m->sync;
	uint64_t at = clock_now_ns() + SETTLE_NS, interval = INTERVAL_NS, due = 0;
	int armed = SD_EVENT_OFF;

	if (m->want_cause == MIRROR_CAUSE_INTERRUPTED && s->backoff > 1)
		interval <<= s->backoff - 1 < BACKOFF_MAX ? s->backoff - 1 : BACKOFF_MAX;
	if (at < s->ended_ns + interval)
		at = s->ended_ns + interval;
	sd_event_source_get_enabled(s->timer, &armed);
	sd_event_source_get_time(s->timer, &due);
	/* What is wanted meanwhile may be more urgent. */
	if (armed != SD_EVENT_OFF && due <= at / 1000)
		return;
	sd_event_source_set_time(s->timer, at / 1000);
	sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

/* Something may have become pending: see that the loop comes back to it. */
void sync_wanted(struct mirror *m)
{
	if (!m->sync || !m->sync->work_source)
		return;
	if (has_work(m))
		sd_event_source_set_enabled(m->sync->work_source, SD_EVENT_ON);
	if (m->want && !m->sync->running)
		arm_timer(m);
}

/* ---- start and end ---- */

static int sync_send(struct mirror *m, const struct nlmsghdr *nlh)
{
	int r = netlink_send(&m->sync->request, nlh);

	if (r < 0)
		m->stats.request_errors++;
	return r;
}

static int sync_open(struct mirror *m, struct error *e)
{
	struct mirror_sync *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, ENOMEM, "out of memory");
	s->notify.fd = s->request.fd = -1;
	m->sync = s;
	r = netlink_open(&s->notify, groups, ARRAY_LENGTH(groups),
		m->receive_buffer ? m->receive_buffer : RECEIVE_BUFFER, e);
	if (r >= 0)
		r = netlink_open(&s->request, NULL, 0, REQUEST_BUFFER, e);
	return r;
}

/* Run the re-read that is wanted to its end. */
static int read_wanted(struct mirror *m, struct error *e)
{
	struct mirror_sync *s = m->sync;
	int r;

	resync_begin(m);
	while (s->running) {
		bool more = do_work(m);
		struct pollfd fds[2] = { { .fd = s->notify.fd, .events = POLLIN },
			{ .fd = s->request.fd, .events = POLLIN } };

		r = s->running ? poll(fds, 2, more ? 0 : SILENCE_MS) : 1;
		if (r < 0 && errno != EINTR)
			return error_set(e, errno, "cannot wait for the kernel's tables: %s",
				strerror(errno));
		if (!r && !more)
			return error_set(e, ETIMEDOUT,
				"the kernel does not answer a request for its tables (type %u) within %u s",
				dump_request[m->dump % DUMPS].type, SILENCE_MS / 1000);
		read_notifications(m);
		read_request(m);
	}
	return 0;
}

/* Read everything before the first packet is forwarded. What failed or was left out is read again before that;
 * what never stands still, afterwards. */
static int read_all(struct mirror *m, struct error *e)
{
	struct mirror_sync *s = m->sync;
	int r;

	m->want = DUMP_ALL;
	m->want_cause = MIRROR_CAUSE_START;
	r = read_wanted(m, e);
	for (unsigned i = 1; r >= 0 && m->want && i < START_TRIES; i++) {
		poll(NULL, 0, START_PAUSE_MS);
		r = read_wanted(m, e);
	}
	if (r >= 0 && s->error)
		return error_set(e, s->error, "the kernel does not show its tables (request %u): %s; "
			"look for a shortage of memory or a security policy that forbids it",
			dump_request[s->error_dump].type, strerror(s->error));
	return r;
}

static int attach(struct mirror *m, sd_event *event, struct error *e)
{
	struct mirror_sync *s = m->sync;
	int r;

	s->event = sd_event_ref(event);
	r = sd_event_add_io(event, &s->notify_source, s->notify.fd, EPOLLIN, on_notify, m);
	if (r >= 0)
		r = watch_request(m);
	if (r >= 0)
		r = sd_event_add_defer(event, &s->work_source, on_work, m);
	if (r >= 0)
		r = sd_event_add_time(event, &s->timer, CLOCK_MONOTONIC, 0, 0, on_timer, m);
	if (r < 0)
		return error_set(e, -r, "cannot add the netlink sockets to the event loop: %s", strerror(-r));
	sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	/* All at the normal priority: a long burst of notifications must not starve the rest of the control
	 * thread. */
	sync_wanted(m);
	return 0;
}

int mirror_start(struct mirror *m, sd_event *event, struct error *e)
{
	int r;

	if (m->sync)
		return error_set(e, EALREADY, "the mirror runs already");
	if (!m->sysctl_root)
		m->sysctl_root = "/proc/sys/net";
	m->send = sync_send;
	r = sync_open(m, e);
	if (r >= 0) {
		conf_refresh(m);
		r = read_all(m, e);
	}
	if (r >= 0)
		r = attach(m, event, e);
	if (r < 0)
		sync_fini(m);
	return r;
}

void sync_fini(struct mirror *m)
{
	struct mirror_sync *s = m->sync;

	if (!s)
		return;
	if (m->dump != DUMP_NONE)
		mirror_dump_end(m, m->dump, false);
	m->sync = NULL;
	m->send = NULL;
	sd_event_source_disable_unref(s->notify_source);
	sd_event_source_disable_unref(s->request_source);
	sd_event_source_disable_unref(s->work_source);
	sd_event_source_disable_unref(s->timer);
	sd_event_unref(s->event);
	netlink_close(&s->notify);
	netlink_close(&s->request);
	free(s);
}
