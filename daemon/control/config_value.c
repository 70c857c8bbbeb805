/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Values of the configuration: from text, to text, and what is allowed. See config_schema.h.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/bits.h"
#include "control/config_schema.h"

static const struct {
	char letter;
	unsigned shift;
} size_units[] = { { 'G', 30 }, { 'M', 20 }, { 'K', 10 } };

static bool __attribute__((format(printf, 3, 4))) refuse(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return false;
}

/* Digits at the start of @text. Returns how many bytes, 0 if none or too large. */
static size_t parse_digits(const char *text, uint64_t *ret)
{
	uint64_t v = 0;
	size_t n;

	for (n = 0; isdigit((unsigned char)text[n]); n++)
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (unsigned)(text[n] - '0'), &v))
			return 0;
	if (n)
		*ret = v;
	return n;
}

static bool parse_size(const char *text, uint64_t *ret)
{
	uint64_t v;
	size_t n = parse_digits(text, &v);

	if (!n)
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(size_units) && text[n]; i++) {
		const char *rest = text + n + 1;

		if (toupper((unsigned char)text[n]) != size_units[i].letter)
			continue;
		if (*rest && strcasecmp(rest, "iB") && strcasecmp(rest, "B"))
			return false;
		if (v > UINT64_MAX >> size_units[i].shift)
			return false;
		*ret = v << size_units[i].shift;
		return true;
	}
	if (text[n])
		return false;
	*ret = v;
	return true;
}

static bool parse_ms(const char *text, uint64_t *ret)
{
	uint64_t v;
	size_t n = parse_digits(text, &v);

	if (!n)
		return false;
	while (text[n] == ' ')
		n++;
	if (!strcmp(text + n, "s") && v < UINT32_MAX)
		v *= 1000;
	else if (text[n] && strcmp(text + n, "ms"))
		return false;
	*ret = v;
	return true;
}

static bool parse_bool(const char *text, bool *ret)
{
	static const char *const words[] = { "no", "yes", "off", "on", "false", "true" };

	for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
		if (!strcasecmp(text, words[i])) {
			*ret = i & 1;
			return true;
		}
	return false;
}

static bool parse_cpus(const char *text, cpu_set_t *ret)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (;;) {
		uint64_t first, last;
		size_t n = parse_digits(text, &first);

		if (!n)
			return false;
		text += n;
		last = first;
		if (*text == '-') {
			n = parse_digits(text + 1, &last);
			if (!n)
				return false;
			text += n + 1;
		}
		if (first > last || last >= CPU_SETSIZE)
			return false;
		for (; first <= last; first++)
			CPU_SET((int)first, &set);
		while (*text == ' ')
			text++;
		if (!*text)
			break;
		if (*text != ',')
			return false;
		do
			text++;
		while (*text == ' ');
	}
	*ret = set;
	return true;
}

static void format_cpus(const cpu_set_t *set, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	for (int i = 0, end; i < CPU_SETSIZE && used < size; i = end + 1) {
		end = i;
		if (!CPU_ISSET(i, set))
			continue;
		while (end + 1 < CPU_SETSIZE && CPU_ISSET(end + 1, set))
			end++;
		used += (size_t)snprintf(
			out + used, size - used, end == i ? "%s%d" : "%s%d-%d", used ? "," : "", i, end);
	}
}

/* What the kernel takes as a device name (dev_valid_name), one %d allowed. */
static bool is_device_name(const char *text)
{
	const char *percent = strchr(text, '%');

	if (!*text || strlen(text) > 15 || !strcmp(text, ".") || !strcmp(text, ".."))
		return false;
	for (const char *c = text; *c; c++)
		if (!isgraph((unsigned char)*c) || *c == '/' || *c == ':')
			return false;
	return !percent || (percent[1] == 'd' && !strchr(percent + 1, '%'));
}

static bool is_group_name(const char *text)
{
	size_t n = strlen(text);

	if (!n || n > 32 || text[0] == '-')
		return false;
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int listen_unix(const char *path, struct sockaddr_storage *address, socklen_t *length)
{
	struct sockaddr_un *un = (struct sockaddr_un *)address;

	if (path[0] != '/' || strlen(path) >= sizeof(un->sun_path))
		return -EINVAL;
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, path);
	*length = sizeof(*un);
	return 0;
}

static int listen_tcp(const char *text, struct sockaddr_storage *address, socklen_t *length)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	uint64_t port;
	size_t n, host_length;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return -EINVAL;
	n = parse_digits(colon + 1, &port);
	if (!n || colon[1 + n] || !port || port > 65535)
		return -EINVAL;
	host_length = (size_t)(colon - text);
	memcpy(host, text, host_length);
	host[host_length] = '\0';
	if (host[0] == '[' && host_length > 2 && host[host_length - 1] == ']') {
		host[host_length - 1] = '\0';
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*length = sizeof(*in6);
		return inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1 ? 0 : -EINVAL;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*length = sizeof(*in);
	return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? 0 : -EINVAL;
}

int config_listen_parse(const char *text, enum config_listen_kind *ret_kind,
	struct sockaddr_storage *ret_address, socklen_t *ret_length)
{
	enum config_listen_kind kind = CONFIG_LISTEN_TCP;
	struct sockaddr_storage address;
	socklen_t length = 0;
	int r = 0;

	memset(&address, 0, sizeof(address));
	if (!strcmp(text, "off")) {
		kind = CONFIG_LISTEN_OFF;
	} else if (!strncmp(text, "unix:", 5)) {
		kind = CONFIG_LISTEN_UNIX;
		r = listen_unix(text + 5, &address, &length);
	} else {
		r = listen_tcp(text, &address, &length);
	}
	if (r < 0)
		return r;
	*ret_kind = kind;
	*ret_address = address;
	*ret_length = length;
	return 0;
}

static bool is_listen(const char *text)
{
	struct sockaddr_storage address;
	enum config_listen_kind kind;
	socklen_t length;

	return !config_listen_parse(text, &kind, &address, &length);
}

static bool set_number(const struct config_key *key, bool parsed, uint64_t v, void *field)
{
	bool listed = !key->choices;

	for (const char *const *c = key->choices; c && *c; c++)
		listed |= v == strtoull(*c, NULL, 10);
	if (!parsed || v < key->min || v > key->max || !listed)
		return false;
	if (key->size == sizeof(uint64_t))
		*(uint64_t *)field = v;
	else
		*(uint32_t *)field = (uint32_t)v;
	return true;
}

static bool set_choice(const struct config_key *key, const char *text, void *field)
{
	for (int i = 0; key->choices[i]; i++)
		if (!strcmp(text, key->choices[i])) {
			*(int *)field = i;
			return true;
		}
	return false;
}

static bool set_text(const struct config_key *key, bool valid, const char *text, void *field)
{
	if (!valid || strlen(text) >= key->size)
		return false;
	memset(field, 0, key->size);
	strcpy(field, text);
	return true;
}

static bool set_value(const struct config_key *key, const char *text, void *field)
{
	uint64_t v = 0;
	bool parsed;

	switch (key->type) {
	case CONFIG_UINT:
		parsed = *text && parse_digits(text, &v) == strlen(text);
		return set_number(key, parsed, v, field);
	case CONFIG_SIZE:
		parsed = parse_size(text, &v);
		return set_number(key, parsed, v, field);
	case CONFIG_MS:
		parsed = parse_ms(text, &v);
		return set_number(key, parsed, v, field);
	case CONFIG_BOOL:
		return parse_bool(text, field);
	case CONFIG_CHOICE:
		return set_choice(key, text, field);
	case CONFIG_LEVEL:
		return !log_level_parse(text, field);
	case CONFIG_CPUS:
		return parse_cpus(text, field);
	case CONFIG_PATH:
		return set_text(key, text[0] == '/', text, field);
	case CONFIG_GROUP:
		return set_text(key, is_group_name(text), text, field);
	case CONFIG_LISTEN:
		return set_text(key, is_listen(text), text, field);
	case CONFIG_DEVICE:
		return set_text(key, is_device_name(text), text, field);
	}
	return false;
}

int config_value_parse(const struct config_key *key, const char *text, void *base, char *why, size_t why_size)
{
	void *field = (char *)base + key->offset;
	char allowed[256];

	if (key->zero && !strcmp(text, key->zero)) {
		memset(field, 0, key->size);
		return 0;
	}
	if (set_value(key, text, field))
		return 0;
	config_value_allowed(key, allowed, sizeof(allowed));
	if (!*text)
		refuse(why, why_size, "has no value; allowed: %s", allowed);
	else
		refuse(why, why_size, "\"%.100s\" is not allowed; allowed: %s%s", text, allowed,
			strstr(text, " #") ? " (a comment behind a value begins with \" ;\")" : "");
	return -EINVAL;
}

static void format_size(uint64_t v, char *out, size_t size)
{
	for (size_t i = 0; i < ARRAY_LENGTH(size_units); i++)
		if (v && !(v & ((1ull << size_units[i].shift) - 1))) {
			snprintf(out, size, "%" PRIu64 "%c", v >> size_units[i].shift, size_units[i].letter);
			return;
		}
	snprintf(out, size, "%" PRIu64, v);
}

static bool is_zero(const struct config_key *key, const void *field)
{
	for (size_t i = 0; i < key->size; i++)
		if (((const char *)field)[i])
			return false;
	return true;
}

void config_value_format(const struct config_key *key, const void *base, char *out, size_t size)
{
	const void *field = (const char *)base + key->offset;

	if (key->zero && is_zero(key, field)) {
		snprintf(out, size, "%s", key->zero);
		return;
	}
	switch (key->type) {
	case CONFIG_UINT:
		snprintf(out, size, "%" PRIu32, *(const uint32_t *)field);
		return;
	case CONFIG_SIZE:
		format_size(*(const uint64_t *)field, out, size);
		return;
	case CONFIG_MS:
		snprintf(out, size, "%" PRIu32 "ms", *(const uint32_t *)field);
		return;
	case CONFIG_BOOL:
		snprintf(out, size, "%s", *(const bool *)field ? "yes" : "no");
		return;
	case CONFIG_CHOICE:
		snprintf(out, size, "%s", key->choices[*(const int *)field]);
		return;
	case CONFIG_LEVEL:
		snprintf(out, size, "%s", log_level_name(*(const enum log_level *)field));
		return;
	case CONFIG_CPUS:
		format_cpus(field, out, size);
		return;
	case CONFIG_PATH:
	case CONFIG_GROUP:
	case CONFIG_LISTEN:
	case CONFIG_DEVICE:
		snprintf(out, size, "%s", (const char *)field);
		return;
	}
}

/* "a, b or c" */
static void join_choices(const char *const *choices, char *out, size_t size)
{
	size_t used = 0;

	for (int i = 0; choices[i] && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s",
			!i		 ? ""
			: choices[i + 1] ? ", "
					 : " or ",
			choices[i]);
}

static void allowed_range(const struct config_key *key, char *out, size_t size)
{
	char low[32], high[32];

	if (key->type == CONFIG_SIZE) {
		format_size(key->min, low, sizeof(low));
		format_size(key->max, high, sizeof(high));
		snprintf(out, size, "%s to %s bytes", low, high);
	} else {
		snprintf(out, size, "%" PRIu64 " to %" PRIu64 "%s", key->min, key->max,
			key->type == CONFIG_MS ? " milliseconds" : "");
	}
}

void config_value_allowed(const struct config_key *key, char *out, size_t size)
{
	static const char *const levels[] = { "error", "warning", "notice", "info", "debug", NULL };
	size_t used;

	switch (key->type) {
	case CONFIG_UINT:
	case CONFIG_SIZE:
	case CONFIG_MS:
		if (key->choices)
			join_choices(key->choices, out, size);
		else
			allowed_range(key, out, size);
		break;
	case CONFIG_BOOL:
		snprintf(out, size, "yes or no");
		break;
	case CONFIG_CHOICE:
		join_choices(key->choices, out, size);
		break;
	case CONFIG_LEVEL:
		join_choices(levels, out, size);
		break;
	case CONFIG_CPUS:
		snprintf(out, size, "CPU numbers 0 to %d and ranges, such as 0-3,5", CPU_SETSIZE - 1);
		break;
	case CONFIG_PATH:
		snprintf(out, size, "an absolute path of at most %zu bytes", key->size - 1);
		break;
	case CONFIG_GROUP:
		snprintf(out, size, "a group name");
		break;
	case CONFIG_LISTEN:
		snprintf(out, size, "ADDRESS:PORT, [IPV6-ADDRESS]:PORT, unix:/PATH or off");
		break;
	case CONFIG_DEVICE:
		snprintf(out, size, "a device name of at most 15 characters, with or without one %%d");
		break;
	}
	used = strlen(out);
	if (key->zero && used < size)
		snprintf(out + used, size - used, ", or %s", key->zero);
}

bool config_value_equal(const struct config_key *key, const void *base_a, const void *base_b)
{
	return !memcmp((const char *)base_a + key->offset, (const char *)base_b + key->offset, key->size);
}
