/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What both BPF tests need: cmocka, loading objects, per-CPU counters, a network namespace of their own.
 * The namespace has no name and goes with the process; nothing outside it is touched.
 */
#ifndef ROUTERD_TESTS_BPF_HARNESS_H
#define ROUTERD_TESTS_BPF_HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* unshare() */
#endif

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define SKIPPED 77
#define NANOSECONDS 1000000000ull
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define must(condition)                                                                                      \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			fail_msg("%s: %s", #condition, strerror(errno));                                     \
	} while (0)

static inline const char *object_path(const char *variable, const char *otherwise)
{
	const char *path = getenv(variable);

	return path ? path : otherwise;
}

/* A file that is missing or does not load is a failure; only missing rights are a reason to skip. */
static inline void skip_without_rights(const char *path)
{
	struct bpf_insn exit_at_once[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 2 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	const char *why = NULL;
	int fd;

	fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "probe", "GPL", exit_at_once, ARRAY_SIZE(exit_at_once), NULL);
	if (fd < 0)
		why = "no right to load BPF programs (run as root)";
	else
		close(fd);
	if (!why && unshare(CLONE_NEWNET))
		why = "no right to create a network namespace (run as root)";
	if (why) {
		printf("SKIP %s: %s: %s\n", path, why, strerror(errno));
		exit(SKIPPED);
	}
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NANOSECONDS + t.tv_nsec;
}

static inline int map_fd(struct bpf_object *object, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);

	if (!map)
		fail_msg("no map %s", name);
	return bpf_map__fd(map);
}

static inline int program_fd(struct bpf_object *object, const char *name)
{
	struct bpf_program *program = bpf_object__find_program_by_name(object, name);

	if (!program)
		fail_msg("no program %s", name);
	return bpf_program__fd(program);
}

/* Sum over all CPUs of a map value that is a pair of 64-bit counters. */
static inline void read_pair(int fd, uint32_t key, uint64_t sum[2])
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t values[cpus][2];

	must(!bpf_map_lookup_elem(fd, &key, values));
	sum[0] = sum[1] = 0;
	for (int i = 0; i < cpus; i++) {
		sum[0] += values[i][0];
		sum[1] += values[i][1];
	}
}

static inline void shell(const char *command)
{
	if (system(command))
		fail_msg("failed: %s", command);
}

#endif
