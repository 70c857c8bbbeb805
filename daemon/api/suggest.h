/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * "Did you mean ...": the word of a list that is nearest to a misspelt one. Any thread, no state.
 */
#ifndef ROUTERD_API_SUGGEST_H
#define ROUTERD_API_SUGGEST_H

#include <stddef.h>

/* Single-character edits (insert, delete, replace, swap of neighbours) that turn @a into @b, without regard to
 * case. Words are compared up to 31 bytes; anything longer counts as far away. */
unsigned suggest_distance(const char *a, const char *b);

/* The nearest of @words (@count of them, NULL entries are skipped), or NULL when none is near enough to be meant. */
const char *suggest_nearest(const char *word, const char *const *words, size_t count);

#endif
