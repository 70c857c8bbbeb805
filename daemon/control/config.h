/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The configuration: a plain struct, read whole from one file and its drop-ins (DIR/routerd.d/?*.ini beside
 * DIR/routerd.ini, in the order of their names; what a later file says wins). Nothing here touches the system beyond reading these files, so
 * a configuration can be checked, compared and thrown away at any time.
 *
 * Thread: control. Ownership: config_load() allocates, config_free() frees; a loaded configuration is not changed.
 * What the keys are, their ranges and defaults: config_schema.c, and nowhere else.
 */
#ifndef ROUTERD_CONTROL_CONFIG_H
#define ROUTERD_CONTROL_CONFIG_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/log.h"

#define CONFIG_DEFAULT_PATH "/etc/routerd/routerd.ini"
#define CONFIG_KEYS_MAX 32          /* of the schema, all sections */
#define CONFIG_PORTS_MAX 256        /* [port] sections */
#define CONFIG_ERRORS_MAX 20        /* reported; the rest is counted */
#define CONFIG_FILE_SIZE_MAX (1u << 20)
#define CONFIG_PATH_LENGTH 108      /* as sockaddr_un.sun_path, terminator included */

enum config_mode { CONFIG_MODE_AUTO, CONFIG_MODE_ZERO_COPY, CONFIG_MODE_NATIVE, CONFIG_MODE_GENERIC };

/* Where a value came from. Line 0: it is the default. */
struct config_source {
	uint32_t file;  /* index into config.files */
	uint32_t line;
};

/* A [port NAME] or [port GLOB] section. */
struct config_port {
	char match[16];               /* interface name, or pattern for fnmatch(3) */
	bool is_glob;
	bool enabled;
	enum config_mode mode;
	uint32_t queues;              /* use at most so many; 0 = all */
	struct config_source source;  /* of the section */
	struct config_source sources[CONFIG_KEYS_MAX];
};

struct config {
	/* [router] */
	uint32_t workers;             /* 0 = as many as there are usable CPUs */
	cpu_set_t cpus;               /* empty = all usable ones */
	bool busy_poll;
	enum log_level log_level;
	uint32_t heartbeat_timeout_ms;
	/* [memory] */
	uint64_t memory_size;         /* bytes */
	uint32_t frame_size;          /* bytes, 2048 or 4096 */
	/* [control] */
	char socket[CONFIG_PATH_LENGTH];
	char group[33];               /* "" = routerd if there is such a group, else root */
	/* [metrics] */
	char metrics_listen[CONFIG_PATH_LENGTH + 8];  /* see config_listen_parse() */
	/* [deliver] */
	char deliver_device[16];      /* TAP device name, may hold %d */

	struct config_port *ports;    /* in the order of the files */
	uint32_t port_count;
	struct config_source sources[CONFIG_KEYS_MAX];
	char **files;                 /* read, in order; the main file first */
	uint32_t file_count;
};

/* Each text is a whole message: "FILE:LINE: [section] key: what is wrong and what is allowed". */
struct config_errors {
	unsigned count;               /* texts */
	unsigned total;               /* found, may exceed count */
	char text[CONFIG_ERRORS_MAX][512];
};

/* Read and check @path and its drop-ins. 0 and *@ret, or -EINVAL (or -errno of the file) and at least one error;
 * all errors of all files are collected. */
int config_load(const char *path, struct config **ret, struct config_errors *errors);

/* The same for one file that is already in memory, without drop-ins. @name stands in the messages. */
int config_parse(const char *name, const char *data, size_t size, struct config **ret, struct config_errors *errors);

void config_free(struct config *c);

/* The section for an interface: its exact name, else the first pattern that matches; NULL = not a port of ours.
 * The caller still looks at ->enabled. */
const struct config_port *config_find_port(const struct config *c, const char *ifname);

/* Does the configuration name this interface exactly and enabled, that is, expect it to exist? */
bool config_expects_port(const struct config_port *p);

/* Call @fn for every value in effect, section by section. @source is never NULL; line 0 means the default. */
void config_foreach(const struct config *c,
	void (*fn)(void *ctx, const char *section, const char *key, const char *value, const char *file, unsigned line),
	void *ctx);

const char *config_mode_name(enum config_mode mode);

#endif
