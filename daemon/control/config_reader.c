/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/config_reader.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct reader {
	const char *next, *end;
	unsigned line;
	bool unanswered;  /* the line was given to inih, and its handler has not been called for it yet */
	char text[CONFIG_LINE_MAX + 1];
	const struct config_reader_ops *ops;
	void *ctx;
};

static void __attribute__((format(printf, 2, 3))) fault(struct reader *r, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->ops->fault(r->ctx, r->line, text);
}

/* Length of the well-formed UTF-8 sequence at @p (RFC 3629), 0 if there is none. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static bool check_text(struct reader *r, const char *line, size_t length)
{
	for (size_t i = 0, n; i < length; i += n) {
		unsigned char c = (unsigned char)line[i];

		n = utf8_length((const unsigned char *)line + i, length - i);
		if (!n) {
			fault(r, "byte %zu (0x%02x) is not UTF-8 text", i + 1, c);
			return false;
		}
		if ((c < 0x20 && c != '\t') || c == 0x7f) {
			fault(r, "byte %zu (0x%02x) is a control character", i + 1, c);
			return false;
		}
	}
	return true;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **line, size_t *length)
{
	while (*length && is_space((*line)[*length - 1]))
		--*length;
	while (*length && is_space(**line)) {
		++*line;
		--*length;
	}
}

static void read_section(struct reader *r, const char *line, size_t length)
{
	const char *end = memchr(line, ']', length), *rest;
	const char *name = line + 1;
	char header[CONFIG_LINE_MAX + 1];
	size_t name_length, rest_length;

	/* The name may hold a pattern such as eth[01]: the bracket that closes the section is the last one.
	 */
	for (const char *e = end; e; e = memchr(e + 1, ']', (size_t)(line + length - e - 1)))
		if (!memchr(end, ';', (size_t)(e - end)))
			end = e;
	if (!end) {
		fault(r, "\"%.60s\": the section name is not closed by \"]\"", r->text);
		r->ops->section(r->ctx, r->line, NULL);
		return;
	}
	rest = end + 1;
	rest_length = (size_t)(line + length - rest);
	trim(&rest, &rest_length);
	if (rest_length && *rest != ';' && *rest != '#') {
		fault(r, "\"%.60s\": text behind the \"]\"", r->text);
		r->ops->section(r->ctx, r->line, NULL);
		return;
	}
	name_length = (size_t)(end - name);
	trim(&name, &name_length);
	memcpy(header, name, name_length);
	header[name_length] = '\0';
	r->ops->section(r->ctx, r->line, header);
}

/* Take the next line that means something to inih into r->text. False at the end. */
static bool next_key_line(struct reader *r)
{
	while (r->next < r->end) {
		const char *line = r->next, *newline = memchr(line, '\n', (size_t)(r->end - line));
		size_t length = (size_t)((newline ? newline : r->end) - line);

		r->next = newline ? newline + 1 : r->end;
		r->line++;
		if (length && line[length - 1] == '\r')
			length--;
		if (!check_text(r, line, length))
			continue;
		trim(&line, &length);
		if (!length || *line == '#' || *line == ';')
			continue;
		if (length > CONFIG_LINE_MAX) {
			fault(r, "the line is too long: %zu bytes, allowed: %d", length, CONFIG_LINE_MAX);
			continue;
		}
		memcpy(r->text, line, length);
		r->text[length] = '\0';
		if (*line != '[')
			return true;
		read_section(r, line, length);
	}
	return false;
}

static void settle(struct reader *r)
{
	if (r->unanswered)
		fault(r, "\"%.60s\" is neither [section] nor key = value", r->text);
	r->unanswered = false;
}

static char *give_line(char *out, int size, void *stream)
{
	struct reader *r = stream;

	settle(r);
	if (!next_key_line(r))
		return NULL;
	snprintf(out, (size_t)size, "%s\n", r->text);
	r->unanswered = true;
	return out;
}

static int take_key(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;

	(void)section;
	r->unanswered = false;
	r->ops->key(r->ctx, r->line, name, value ? value : "");
	return 1;
}

int config_read(const char *data, size_t size, const struct config_reader_ops *ops, void *ctx)
{
	struct reader r = { .next = data, .end = data + size, .ops = ops, .ctx = ctx };

	if (size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3))
		r.next += 3;
	if (ini_parse_stream(give_line, &r, take_key, &r) == -2)
		return -ENOMEM;
	settle(&r);
	return 0;
}
