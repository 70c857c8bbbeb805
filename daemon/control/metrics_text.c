/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The text format of Prometheus, version 0.0.4. See metrics.h.
 */
#include <inttypes.h>
#include <stdarg.h>

#include "api/text.h"
#include "common/clock.h"
#include "control/metrics.h"

void metrics_family(FILE *out, const char *name, enum metrics_type type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
		type == METRICS_COUNTER ? "counter" : "gauge");
}

static void write_label_value(FILE *out, const char *value)
{
	char clean[512];

	snprintf(clean, sizeof(clean), "%s", value);
	text_clean(clean);  /* labels are UTF-8; the length stays */
	for (size_t i = 0; clean[i]; i++)
		switch (value[i] == '\n' ? '\n' : clean[i]) {
		case '\n':
			fputs("\\n", out);
			break;
		case '\\':
			fputs("\\\\", out);
			break;
		case '"':
			fputs("\\\"", out);
			break;
		default:
			fputc(clean[i], out);
		}
}

static void write_labels(FILE *out, const char *name, va_list ap)
{
	const char *label;
	char separator = '{';

	fputs(name, out);
	while ((label = va_arg(ap, const char *))) {
		fprintf(out, "%c%s=\"", separator, label);
		write_label_value(out, va_arg(ap, const char *));
		fputc('"', out);
		separator = ',';
	}
	fputs(separator == ',' ? "} " : " ", out);
}

void metrics_sample(FILE *out, const char *name, uint64_t value, ...)
{
	va_list ap;

	va_start(ap, value);
	write_labels(out, name, ap);
	va_end(ap);
	fprintf(out, "%" PRIu64 "\n", value);
}

void metrics_sample_seconds(FILE *out, const char *name, uint64_t nanoseconds, ...)
{
	va_list ap;

	va_start(ap, nanoseconds);
	write_labels(out, name, ap);
	va_end(ap);
	fprintf(out, "%" PRIu64 ".%09" PRIu64 "\n", (uint64_t)(nanoseconds / NS_PER_S),
		(uint64_t)(nanoseconds % NS_PER_S));
}
