/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Time. Everything timed takes "now" as an argument; only loops ask the clock, so that tests can script it.
 */
#ifndef ROUTERD_COMMON_CLOCK_H
#define ROUTERD_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

/* CLOCK_MONOTONIC in nanoseconds: the clock that bpf_ktime_get_ns() reads too. Any thread. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

#endif
