/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Lines from a stream socket, with a limit. Used by both ends of the control socket. One thread at a time.
 */
#ifndef ROUTERD_API_LINE_BUFFER_H
#define ROUTERD_API_LINE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct line_buffer {
	char *data;
	size_t used, capacity, max;  /* bytes; @max is the longest line, newline included */
	size_t scanned;              /* no newline before this */
};

void line_buffer_init(struct line_buffer *b, size_t max);
void line_buffer_fini(struct line_buffer *b);

/* Read once from @fd. Returns the number of bytes, 0 at the end of the stream, -EAGAIN, -EMSGSIZE when the line is
 * longer than max, -ENOMEM or another -errno. */
int line_buffer_read(struct line_buffer *b, int fd);

/* Is there a whole line? Then *@ret_line is it, *@ret_length its length without the newline; valid until
 * line_buffer_drop() takes it away. */
bool line_buffer_peek(struct line_buffer *b, const char **ret_line, size_t *ret_length);
void line_buffer_drop(struct line_buffer *b, size_t length);

#endif
