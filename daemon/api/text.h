/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Texts that come from outside. Interface names are any bytes to the kernel, and error texts are cut to their buffers,
 * perhaps within a character; JSON carries UTF-8 only, and a terminal obeys control characters. No state.
 */
#ifndef ROUTERD_API_TEXT_H
#define ROUTERD_API_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* Replace by '?' each byte that is no part of a UTF-8 character, and control characters (C0, DEL, C1) byte by byte. */
void text_clean(char *text);

/* The JSON string of @text made clean; null for NULL. NULL when memory is short. */
json_t *text_json(const char *text);

/* @attempts: "mode: cause" joined by @separator. Writes the same with each distinct cause once, "mode, mode: cause",
 * joined by @joint. The last cause may have been cut: it counts as the same as one that begins like it. */
void text_fold_attempts(const char *attempts, char separator, const char *joint, char *out, size_t size);

#endif
