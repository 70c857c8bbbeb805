/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Where the tables of daemon/route get their memory. The tables themselves make no system call; whoever owns
 * them supplies these functions, and the tests supply ones that count and fail.
 *
 * Thread: all functions are called by the one writing (control) thread only.
 * Ownership: a table copies the struct; @ctx must outlive the table. Sizes are bytes, and the size given back
 * is always the size asked for.
 */
#ifndef ROUTERD_ROUTE_MEMORY_H
#define ROUTERD_ROUTE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct route_memory {
	/* Zeroed, aligned for any type; NULL on failure. Large blocks should be mapped lazily: the tables ask
	 * for some of which most pages are never touched. */
	void *(*alloc)(void *ctx, size_t bytes);
	/* Free at once: no reader has ever seen it, or none is left. */
	void (*release)(void *ctx, void *p, size_t bytes);
	/* Free after a grace period: readers may still look at it, so it must not be written to. Cannot
	 * fail. */
	void (*retire)(void *ctx, void *p, size_t bytes);
	/* How many grace periods have ended so far, one never beginning before the last has ended. What was
	 * unlinked while this returned n is out of every reader's sight once it returns n + 2. May be NULL:
	 * then parts that a table pools for itself are not used again before the table is freed. */
	uint64_t (*grace)(void *ctx);
	void *ctx;
};

#endif
