/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/config_schema.h"

#include <string.h>

#include "common/bits.h"

const struct config_section_info config_sections[CONFIG_SECTION_COUNT] = {
	[CONFIG_SECTION_ROUTER] = { "router", "The daemon as a whole." },
	[CONFIG_SECTION_MEMORY] = { "memory", "The packet memory, which all ports share." },
	[CONFIG_SECTION_CONTROL] = { "control", "The socket that routerctl speaks to." },
	[CONFIG_SECTION_METRICS] = { "metrics", "Prometheus metrics at http://ADDRESS/metrics." },
	[CONFIG_SECTION_DELIVER] = { "deliver", "The device through which packets are given to the kernel." },
	[CONFIG_SECTION_PORT] = { "port",
		"One section for each port, by interface name ([port eth0]) or by a pattern with * ? [...] ([port lan*]).\n"
		"An exact name goes before a pattern, and the first pattern that matches counts. At least one section is\n"
		"needed; it may be empty. What is no port is left to the kernel alone." },
};

static const char *const mode_choices[] = { "auto", "zero-copy", "native", "generic", NULL };
static const char *const frame_size_choices[] = { "2048", "4096", NULL };

#define ROUTER(field) .offset = offsetof(struct config, field), .size = sizeof(((struct config *)NULL)->field)
#define PORT(field) .offset = offsetof(struct config_port, field), .size = sizeof(((struct config_port *)NULL)->field)

const struct config_key config_keys[] = {
	{ CONFIG_SECTION_ROUTER, "workers", CONFIG_UINT, .min = 1, .max = 32, .zero = "auto", .default_text = "auto",
		.help = "Number of worker threads, each on a CPU of its own. auto: one for each usable CPU, or one for each\n"
			"CPU named by cpus.", ROUTER(workers) },
	{ CONFIG_SECTION_ROUTER, "cpus", CONFIG_CPUS, .zero = "auto", .default_text = "auto",
		.help = "The CPUs that workers run on, such as 0-3,5; the first worker gets the first one. auto: all that the\n"
			"daemon may use.",
		ROUTER(cpus) },
	{ CONFIG_SECTION_ROUTER, "busy_poll", CONFIG_BOOL, .default_text = "no",
		.help = "yes: workers never sleep. Lowest latency, but each worker uses a whole CPU even without traffic.",
		ROUTER(busy_poll) },
	{ CONFIG_SECTION_ROUTER, "log_level", CONFIG_LEVEL, .default_text = "info", .live = true,
		.help = "The least important messages that are still logged.", ROUTER(log_level) },
	{ CONFIG_SECTION_ROUTER, "heartbeat_timeout", CONFIG_MS, .min = 250, .max = 950, .default_text = "800ms", .live = true,
		.help = "A worker that shows no sign of life for so long loses its traffic to the kernel until it goes on.\n"
			"Always below one second, for that is the promise.", ROUTER(heartbeat_timeout_ms) },

	{ CONFIG_SECTION_MEMORY, "size", CONFIG_SIZE, .min = 1 << 20, .max = 64ull << 30, .default_text = "64M",
		.help = "Memory for packets, in bytes (K, M and G: powers of 1024). One half is shared by the receive queues, at\n"
			"most 2048 frames each; the other half by what is on its way out. With many queues, give more.",
		ROUTER(memory_size) },
	{ CONFIG_SECTION_MEMORY, "frame_size", CONFIG_UINT, .min = 2048, .max = 4096, .choices = frame_size_choices,
		.default_text = "4096",
		.help = "Bytes in one frame of the memory. A packet with its headers must fit: 2048 is enough for an MTU of\n"
			"1500 and saves memory.", ROUTER(frame_size) },

	{ CONFIG_SECTION_CONTROL, "socket", CONFIG_PATH, .default_text = "/run/routerd/control.sock",
		.help = "Path of the control socket (UNIX stream). Its directory is made if it is missing.", ROUTER(socket) },
	{ CONFIG_SECTION_CONTROL, "group", CONFIG_GROUP, .zero = "auto", .default_text = "auto",
		.help = "Group whose members may use the socket, beside root. auto: routerd if there is such a group, else root.",
		ROUTER(group) },

	{ CONFIG_SECTION_METRICS, "listen", CONFIG_LISTEN, .default_text = "127.0.0.1:9480", .live = true,
		.help = "Where metrics are served: ADDRESS:PORT, [IPV6-ADDRESS]:PORT, unix:/PATH, or off.",
		ROUTER(metrics_listen) },

	{ CONFIG_SECTION_DELIVER, "device", CONFIG_DEVICE, .default_text = "routerd%d",
		.help = "Name of the TAP device, made at start and gone at stop. %d becomes the first free number.",
		ROUTER(deliver_device) },

	{ CONFIG_SECTION_PORT, "enabled", CONFIG_BOOL, .default_text = "yes", .live = true,
		.help = "no: leave this interface to the kernel, although a pattern matches it.", PORT(enabled) },
	{ CONFIG_SECTION_PORT, "mode", CONFIG_CHOICE, .choices = mode_choices, .default_text = "auto", .live = true,
		.help = "How packets come from the driver. auto: zero-copy if the driver can, else native (the driver's XDP\n"
			"with one copy), else generic (the kernel's, any driver, slow). A mode asked for by name is used or\n"
			"the port is refused.", PORT(mode) },
	{ CONFIG_SECTION_PORT, "queues", CONFIG_UINT, .min = 1, .max = 64, .zero = "all", .default_text = "all", .live = true,
		.help = "Use at most so many receive queues; packets of the others stay with the kernel.", PORT(queues) },
};

const unsigned config_key_count = ARRAY_LENGTH(config_keys);
_Static_assert(ARRAY_LENGTH(config_keys) <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX is too small");

const char *config_mode_name(enum config_mode mode)
{
	return mode_choices[mode];
}

const struct config_key *config_key_find(enum config_section section, const char *name)
{
	for (unsigned i = 0; i < config_key_count; i++)
		if (config_keys[i].section == section && !strcmp(config_keys[i].name, name))
			return &config_keys[i];
	return NULL;
}

/* Each line of @text behind "# ". */
static void write_comment(FILE *out, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		fprintf(out, "# %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

static void write_example_key(FILE *out, const struct config_key *key)
{
	char allowed[256];

	config_value_allowed(key, allowed, sizeof(allowed));
	fputc('\n', out);
	write_comment(out, key->help);
	fprintf(out, "# Allowed: %s.\n", allowed);
	fprintf(out, "#%s = %s\n", key->name, key->default_text);
}

void config_write_example(FILE *out)
{
	fputs("# routerd.ini: every section and key with its default. See routerd.ini(5).\n"
	      "# Check a changed file with: routerd --check -c FILE\n"
	      "# Files routerd.d/*.ini beside this one are read after it, in the order of their names; the last word counts.\n"
	      "# A comment stands on a line of its own, or behind \" ;\" at the end of a line.\n", out);
	for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
		fputc('\n', out);
		write_comment(out, config_sections[s].help);
		fprintf(out, s == CONFIG_SECTION_PORT ? "#[%s eth0]\n" : "[%s]\n", config_sections[s].name);
		for (unsigned i = 0; i < config_key_count; i++)
			if ((int)config_keys[i].section == s)
				write_example_key(out, &config_keys[i]);
	}
}
