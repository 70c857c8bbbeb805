/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A text in INI form, line by line: sections, keys with values, and what is neither. inih takes the key lines apart;
 * this file feeds it and knows the number of each line, empty sections, and every faulty line, which inih does not tell.
 *
 * Thread: any; no state is kept. Any bytes may be given: a faulty line is reported and left out.
 */
#ifndef ROUTERD_CONTROL_CONFIG_READER_H
#define ROUTERD_CONTROL_CONFIG_READER_H

#include <stddef.h>

#define CONFIG_LINE_MAX 196  /* bytes, white space at both ends not counted; what fits inih's buffer of 200 */

struct config_reader_ops {
	/* @header: what stands between the brackets, without white space at both ends; NULL = a section begins whose
	 * name cannot be read (a fault, told before). Lines count from 1. */
	void (*section)(void *ctx, unsigned line, const char *header);
	void (*key)(void *ctx, unsigned line, const char *name, const char *value);
	void (*fault)(void *ctx, unsigned line, const char *text);
};

/* Returns 0, or -ENOMEM. */
int config_read(const char *data, size_t size, const struct config_reader_ops *ops, void *ctx);

#endif
