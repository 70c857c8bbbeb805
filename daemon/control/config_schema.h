/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The one table of configuration keys: names, types, units, ranges, defaults, help. From it come the parser, the
 * messages, etc/routerd.ini, `routerctl config` and the manual page. To add a key, add one line to config_keys[] and
 * a field to struct config (config.h).
 *
 * Thread: any; nothing here has state.
 */
#ifndef ROUTERD_CONTROL_CONFIG_SCHEMA_H
#define ROUTERD_CONTROL_CONFIG_SCHEMA_H

#include <sys/socket.h>

#include "control/config.h"

enum config_section {
	CONFIG_SECTION_ROUTER,
	CONFIG_SECTION_MEMORY,
	CONFIG_SECTION_CONTROL,
	CONFIG_SECTION_METRICS,
	CONFIG_SECTION_DELIVER,
	CONFIG_SECTION_PORT,
	CONFIG_SECTION_COUNT
};

struct config_section_info {
	const char *name;
	const char *help;
};

extern const struct config_section_info config_sections[CONFIG_SECTION_COUNT];

enum config_type {
	CONFIG_UINT,      /* uint32_t, decimal */
	CONFIG_SIZE,      /* uint64_t bytes; K, M, G are powers of 1024 */
	CONFIG_MS,        /* uint32_t milliseconds; "800", "800ms", "1s" */
	CONFIG_BOOL,      /* bool; yes or no */
	CONFIG_CHOICE,    /* enum of 4 bytes; value = position in choices */
	CONFIG_LEVEL,     /* enum log_level */
	CONFIG_CPUS,      /* cpu_set_t; "0-3,5", empty set = auto */
	CONFIG_PATH,      /* char[], absolute */
	CONFIG_GROUP,     /* char[], "" = auto */
	CONFIG_LISTEN,    /* char[], see config_listen_parse() */
	CONFIG_DEVICE,    /* char[16] */
};

struct config_key {
	enum config_section section;
	const char *name;
	enum config_type type;
	uint64_t min, max;             /* CONFIG_UINT, CONFIG_SIZE, CONFIG_MS */
	const char *zero;              /* the word for 0, "" or the empty set; NULL = none */
	const char *const *choices;    /* CONFIG_CHOICE, CONFIG_UINT restricted to some values; ends with NULL */
	const char *default_text;
	const char *help;              /* sentences for the example file and the manual; may hold newlines */
	bool live;                     /* a reload changes it; otherwise it needs a restart */
	size_t offset, size;           /* in struct config, or in struct config_port for [port] */
};

extern const struct config_key config_keys[];
extern const unsigned config_key_count;

/* Parse @text into the field of @base (struct config or struct config_port). 0, or -EINVAL and the reason with the
 * allowed range in @why; the field is untouched then. */
int config_value_parse(const struct config_key *key, const char *text, void *base, char *why, size_t why_size);

/* The text that config_value_parse() would turn into the present value. */
void config_value_format(const struct config_key *key, const void *base, char *out, size_t size);

/* "1 to 32, or auto" */
void config_value_allowed(const struct config_key *key, char *out, size_t size);

/* Have both structs the same value? */
bool config_value_equal(const struct config_key *key, const void *base_a, const void *base_b);

/* The key of a section by name, NULL if there is none. */
const struct config_key *config_key_find(enum config_section section, const char *name);

/* Write the commented example file (etc/routerd.ini is exactly this). */
void config_write_example(FILE *out);

enum config_listen_kind { CONFIG_LISTEN_OFF, CONFIG_LISTEN_TCP, CONFIG_LISTEN_UNIX };

/* "off", "ADDRESS:PORT", "[IPv6 ADDRESS]:PORT" or "unix:/PATH". The outs are set on success (address: not for off).
 * 0 or -EINVAL. */
int config_listen_parse(const char *text, enum config_listen_kind *ret_kind, struct sockaddr_storage *ret_address,
	socklen_t *ret_length);

#endif
