/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Fuzz target: any bytes as a configuration file. Either it is refused with at least one message, or what was
 * read can be printed and read again to the same values.
 */
#include <stdlib.h>
#include <string.h>

#include "control/config.h"
#include "control/config_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_value(
	void *ctx, const char *section, const char *key, const char *value, const char *file, unsigned line)
{
	static char last[64];

	(void)file;
	(void)line;
	if (!ftell(ctx) || strcmp(last, section))
		fprintf(ctx, "[%s]\n", section);
	/* An own section for each key would be a duplicate: keys of one section come in a row. */
	snprintf(last, sizeof(last), "%s", section);
	fprintf(ctx, "%s = %s\n", key, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_errors errors;
	struct config *c = NULL, *d = NULL;
	char *text = NULL;
	size_t length;
	FILE *out;

	if (config_parse("fuzz", (const char *)data, size, &c, &errors) < 0) {
		if (c || !errors.total || !errors.text[0][0])
			abort();
		return 0;
	}
	if (errors.total)
		abort();
	out = open_memstream(&text, &length);
	config_foreach(c, print_value, out);
	fclose(out);
	/* A path may hold what is a remark in a file (" ;"): such a text cannot be read again. */
	if (!strstr(text, ";") && config_parse("again", text, length, &d, &errors) < 0)
		abort();
	for (unsigned i = 0; d && i < config_key_count; i++)
		if (config_keys[i].section != CONFIG_SECTION_PORT &&
			!config_value_equal(&config_keys[i], c, d))
			abort();
	config_free(c);
	config_free(d);
	free(text);
	return 0;
}
