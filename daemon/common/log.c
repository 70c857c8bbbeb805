/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

static _Atomic int threshold = LOG_LEVEL_INFO;

static const struct {
	enum log_level level;
	const char *name;
} names[] = {
	{ LOG_LEVEL_ERROR, "error" }, { LOG_LEVEL_WARNING, "warning" }, { LOG_LEVEL_NOTICE, "notice" },
	{ LOG_LEVEL_INFO, "info" },   { LOG_LEVEL_DEBUG, "debug" },
};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&threshold, level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
	return atomic_load_explicit(&threshold, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *ret)
{
	for (size_t i = 0; i < NAME_COUNT; i++)
		if (!strcmp(name, names[i].name)) {
			*ret = names[i].level;
			return 0;
		}
	return -EINVAL;
}

const char *log_level_name(enum log_level level)
{
	for (size_t i = 0; i < NAME_COUNT; i++)
		if (names[i].level == level)
			return names[i].name;
	return "unknown";
}

/* systemd.exec(5), JOURNAL_STREAM: device and inode of our standard error, if the journal reads it. */
static bool stderr_is_journal(void)
{
	static _Atomic int known;  /* 0 = not asked yet, 1 = no, 2 = yes */
	const char *stream;
	unsigned long long dev, ino;
	struct stat st;
	int k = atomic_load_explicit(&known, memory_order_relaxed);

	if (k)
		return k == 2;
	stream = getenv("JOURNAL_STREAM");
	k = 1;
	if (stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) &&
	    st.st_dev == dev && st.st_ino == ino)
		k = 2;
	atomic_store_explicit(&known, k, memory_order_relaxed);
	return k == 2;
}

static void write_journal(enum log_level level, const struct log_fields *f, const char *text)
{
	char message[1100], priority[16], port[64], queue[32], reason[96];
	struct iovec iov[5];
	int n = 0;

#define FIELD(buf, ...) \
	do { \
		snprintf(buf, sizeof(buf), __VA_ARGS__); \
		iov[n++] = (struct iovec){ .iov_base = buf, .iov_len = strlen(buf) }; \
	} while (0)
	FIELD(message, "MESSAGE=%s%s%s", f && f->port ? f->port : "", f && f->port ? ": " : "", text);
	FIELD(priority, "PRIORITY=%d", level);
	if (f && f->port)
		FIELD(port, "PORT=%s", f->port);
	if (f && f->queue >= 0)
		FIELD(queue, "QUEUE=%d", f->queue);
	if (f && f->reason)
		FIELD(reason, "REASON=%s", f->reason);
#undef FIELD
	sd_journal_sendv(iov, n);
}

void log_write(enum log_level level, const struct log_fields *f, const char *fmt, ...)
{
	int saved = errno;
	char text[1024], line[1200];
	va_list ap;
	int n;

	if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (stderr_is_journal()) {
		write_journal(level, f, text);
	} else {
		n = snprintf(line, sizeof(line), "routerd: %s: %s%s%s\n", log_level_name(level),
			f && f->port ? f->port : "", f && f->port ? ": " : "", text);
		if (write(STDERR_FILENO, line, (size_t)n) < 0)
			(void)0;  /* nowhere left to say so */
	}
	errno = saved;
}

bool log_ratelimit_pass(struct log_ratelimit *rl, unsigned long long now_ns, unsigned *ret_suppressed)
{
	*ret_suppressed = 0;
	if (!rl->window_start_ns || now_ns - rl->window_start_ns >= rl->interval_ns) {
		*ret_suppressed = rl->suppressed;
		rl->window_start_ns = now_ns;
		rl->used = rl->suppressed = 0;
	}
	if (rl->used < rl->burst) {
		rl->used++;
		return true;
	}
	rl->suppressed++;
	return false;
}
