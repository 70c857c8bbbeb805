/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define WORD_MAX 31

static unsigned min_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned suggest_distance(const char *a, const char *b)
{
	unsigned row[WORD_MAX + 1][WORD_MAX + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > WORD_MAX || m > WORD_MAX)
		return UINT_MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			int x, y;

			if (!i || !j) {
				row[i][j] = (unsigned)(i + j);
				continue;
			}
			x = tolower((unsigned char)a[i - 1]);
			y = tolower((unsigned char)b[j - 1]);
			row[i][j] = min_of(
				min_of(row[i - 1][j], row[i][j - 1]) + 1, row[i - 1][j - 1] + (x != y));
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]))
				row[i][j] = min_of(row[i][j], row[i - 2][j - 2] + 1);
		}
	return row[n][m];
}

const char *suggest_nearest(const char *word, const char *const *words, size_t count)
{
	unsigned best = UINT_MAX, limit = (unsigned)(strlen(word) / 3 + 1);
	const char *found = NULL;

	for (size_t i = 0; i < count; i++) {
		unsigned d = words[i] ? suggest_distance(word, words[i]) : UINT_MAX;

		/* A word that was begun right but not finished is meant too. */
		if (words[i] && strlen(word) >= 2 && !strncasecmp(word, words[i], strlen(word)))
			d = 1;
		if (d < best && d <= limit) {
			best = d;
			found = words[i];
		}
	}
	return found;
}
