/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Error texts for people. Functions return 0 or a negative errno; those whose failure a user meets also fill a
 * struct error with a sentence that names the cause and the cure. Any thread; the caller owns the struct.
 */
#ifndef ROUTERD_COMMON_ERROR_H
#define ROUTERD_COMMON_ERROR_H

#include <errno.h>

struct error {
	int code;        /* positive errno, 0 = none */
	char text[512];  /* one line, no newline */
};

/* Fill @e (may be NULL) and return -@code. The text is cut, never overrun. */
int error_set(struct error *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "context: " before the text that is already there. Returns -e->code. */
int error_prefix(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
