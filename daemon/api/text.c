/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX 8

/* Length of the printable UTF-8 character at @s, 0 = there is none (RFC 3629, 4). */
static unsigned character_length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0xa0, 0x800, 0x10000 };  /* 0x80 to 0x9f are C1 controls */
	unsigned length = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t code = *s & (0xffu >> (length + 1));

	if (length < 2)
		return length && *s >= 0x20 && *s != 0x7f;
	for (unsigned i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)  /* the final NUL among others */
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

void text_clean(char *text)
{
	while (*text) {
		unsigned length = character_length((const unsigned char *)text);

		if (!length)
			*text = '?';
		text += length ? length : 1;
	}
}

json_t *text_json(const char *text)
{
	json_t *value;
	char *copy;

	if (!text)
		return json_null();
	value = json_string(text);
	if (value && !strpbrk(text, "\001\002\003\004\005\006\007\b\t\n\v\f\r\016\017\020\021\022\023\024\025\026\027"
				    "\030\031\032\033\034\035\036\037\177\302"))
		return value;
	json_decref(value);
	copy = strdup(text);
	if (!copy)
		return NULL;
	text_clean(copy);
	value = json_string(copy);
	free(copy);
	return value;
}

struct attempt {
	const char *mode, *cause;
	int mode_length, cause_length;
	bool told;
};

static unsigned split_attempts(const char *text, char separator, struct attempt list[ATTEMPTS_MAX])
{
	unsigned count = 0;

	while (*text && count < ATTEMPTS_MAX) {
		const char *end = strchrnul(text, separator);
		const char *colon = memmem(text, (size_t)(end - text), ": ", 2);
		struct attempt *a = &list[count++];

		*a = (struct attempt){ .mode = text, .cause = colon ? colon + 2 : text };
		a->mode_length = colon ? (int)(colon - text) : 0;
		a->cause_length = (int)(end - a->cause);
		text = end + (*end != '\0');
	}
	return count;
}

static bool same_cause(const struct attempt *a, const struct attempt *b, bool b_is_last)
{
	if (!a->mode_length || !b->mode_length)
		return false;
	return (b_is_last ? a->cause_length >= b->cause_length : a->cause_length == b->cause_length) &&
	       !memcmp(a->cause, b->cause, (size_t)b->cause_length);
}

void text_fold_attempts(const char *attempts, char separator, const char *joint, char *out, size_t size)
{
	struct attempt list[ATTEMPTS_MAX];
	unsigned count = split_attempts(attempts, separator, list);
	FILE *f = size ? fmemopen(out, size, "w") : NULL;
	const char *before = "";

	if (size)
		*out = '\0';
	for (unsigned i = 0; f && i < count; i++) {
		if (list[i].told)
			continue;
		fprintf(f, "%s%.*s", before, list[i].mode_length, list[i].mode);
		for (unsigned j = i + 1; j < count; j++)
			if (same_cause(&list[i], &list[j], j + 1 == count)) {
				fprintf(f, ", %.*s", list[j].mode_length, list[j].mode);
				list[j].told = true;
			}
		fprintf(f, "%s%.*s", list[i].mode_length ? ": " : "", list[i].cause_length, list[i].cause);
		before = joint;
	}
	if (f)
		fclose(f);
	if (size)
		out[size - 1] = '\0';
}
