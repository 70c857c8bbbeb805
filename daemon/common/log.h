/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The log: one line per message to standard error or, when that is the journal's stream, to the journal with
 * structured fields. Only control/ and main.c log above debug; packet/ and route/ never log; a worker never logs
 * per packet. Any thread may call; lines are written whole.
 */
#ifndef ROUTERD_COMMON_LOG_H
#define ROUTERD_COMMON_LOG_H

#include <stdbool.h>

enum log_level {  /* the numbers are syslog's */
	LOG_LEVEL_ERROR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

/* Optional structured fields; NULL or negative = absent. */
struct log_fields {
	const char *port;    /* PORT= interface name */
	int queue;           /* QUEUE= */
	const char *reason;  /* REASON= a verdict's or an error's short name */
};

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Parse "error", "warning", "notice", "info", "debug". Returns 0 or -EINVAL, @ret untouched then. */
int log_level_parse(const char *name, enum log_level *ret);
const char *log_level_name(enum log_level level);

void log_write(enum log_level level, const struct log_fields *fields, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_notice(...) log_write(LOG_LEVEL_NOTICE, NULL, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, NULL, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, NULL, __VA_ARGS__)
/* About a port: the name becomes a journal field and a prefix of the text. */
#define log_port(level, name, ...) \
	log_write(level, &(struct log_fields){ .port = (name), .queue = -1 }, __VA_ARGS__)

/* A budget for messages that an outsider can provoke: at most @burst per @interval_ns, the rest counted. */
struct log_ratelimit {
	unsigned long long window_start_ns;
	unsigned burst, used, suppressed;
	unsigned long long interval_ns;
};

/* May this message be written now? When a new window opens, *@ret_suppressed tells how many were left out. */
bool log_ratelimit_pass(struct log_ratelimit *rl, unsigned long long now_ns, unsigned *ret_suppressed);

#endif
