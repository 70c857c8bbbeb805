/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

#define COLUMNS_MAX 16

struct table {
	const char *const *headers;
	unsigned columns;
	char **cells;
	size_t count;
};

void ctl_print_json(json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

const char *get_text(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

uint64_t get_number(json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

bool get_bool(json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static bool styled(void)
{
	static int known = -1;

	if (known < 0) {
		const char *no = getenv("NO_COLOR");

		known = isatty(STDOUT_FILENO) && !(no && *no);
	}
	return known;
}

const char *style_bold(void)
{
	return styled() ? "\033[1m" : "";
}

const char *style_red(void)
{
	return styled() ? "\033[31m" : "";
}

const char *style_end(void)
{
	return styled() ? "\033[0m" : "";
}

struct table *table_new(const char *const *headers, unsigned columns)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->headers = headers;
	t->columns = columns;
	return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	va_list ap;

	if (!(t->count & 63)) {
		t->cells = reallocarray(t->cells, t->count + 64, sizeof(*t->cells));
		if (!t->cells)
			abort();
	}
	va_start(ap, fmt);
	if (vasprintf(&t->cells[t->count++], fmt, ap) < 0)
		abort();
	va_end(ap);
}

static void print_cell(const char *text, unsigned width, bool right, bool last)
{
	if (right)
		printf("%*s%s", (int)width, text, last ? "" : "  ");
	else if (last)
		fputs(text, stdout);
	else
		printf("%-*s  ", (int)width, text);
}

void table_print(struct table *t)
{
	unsigned width[COLUMNS_MAX];
	bool right[COLUMNS_MAX];

	for (unsigned c = 0; c < t->columns; c++) {
		right[c] = t->headers[c][0] == '>';
		width[c] = (unsigned)strlen(t->headers[c]) - right[c];
		for (size_t i = c; i < t->count; i += t->columns)
			if (strlen(t->cells[i]) > width[c])
				width[c] = (unsigned)strlen(t->cells[i]);
	}
	fputs(style_bold(), stdout);
	for (unsigned c = 0; c < t->columns; c++)
		print_cell(t->headers[c] + right[c], width[c], right[c], c + 1 == t->columns);
	printf("%s\n", style_end());
	for (size_t i = 0; i < t->count; i++) {
		unsigned c = (unsigned)(i % t->columns);

		print_cell(t->cells[i], width[c], right[c], c + 1 == t->columns);
		if (c + 1 == t->columns)
			putchar('\n');
	}
	table_free(t);
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}
