/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/line_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FIRST_CAPACITY 4096

void line_buffer_init(struct line_buffer *b, size_t max)
{
	*b = (struct line_buffer){ .max = max };
}

void line_buffer_fini(struct line_buffer *b)
{
	free(b->data);
	b->data = NULL;
}

static int make_room(struct line_buffer *b)
{
	size_t capacity = b->capacity ? b->capacity * 2 : FIRST_CAPACITY;
	char *data;

	if (b->used < b->capacity)
		return 0;
	if (b->capacity >= b->max)
		return -EMSGSIZE;
	if (capacity > b->max)
		capacity = b->max;
	data = realloc(b->data, capacity);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->capacity = capacity;
	return 0;
}

int line_buffer_read(struct line_buffer *b, int fd)
{
	ssize_t n;
	int r = make_room(b);

	if (r < 0)
		return r;
	n = recv(fd, b->data + b->used, b->capacity - b->used, 0);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	b->used += (size_t)n;
	return (int)n;
}

bool line_buffer_peek(struct line_buffer *b, const char **ret_line, size_t *ret_length)
{
	char *newline =
		b->used > b->scanned ? memchr(b->data + b->scanned, '\n', b->used - b->scanned) : NULL;

	if (!newline) {
		b->scanned = b->used;
		return false;
	}
	*ret_line = b->data;
	*ret_length = (size_t)(newline - b->data);
	return true;
}

void line_buffer_drop(struct line_buffer *b, size_t length)
{
	b->used -= length + 1;
	b->scanned = 0;
	memmove(b->data, b->data + length + 1, b->used);
}
