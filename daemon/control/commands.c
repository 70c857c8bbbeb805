/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/commands.h"

#include <string.h>

const struct command router_commands[] = {
	{ "status", false, command_status },
	{ "port", false, command_port },
	{ "queue", false, command_queue },
	{ "route", false, command_route },
	{ "route_get", false, command_route_get },
	{ "neighbour", false, command_neighbour },
	{ "stats", false, command_stats },
	{ "drops", false, command_drops },
	{ "frames", false, command_frames },
	{ "config", false, command_config },
	{ NULL, false, NULL },
};

int argument_text(json_t *arguments, const char *name, const char **ret, struct command_reply *reply)
{
	json_t *value = json_object_get(arguments, name);

	if (value && !json_is_string(value))
		return error_set(&reply->error, EINVAL, "argument \"%s\" is not a text", name);
	*ret = json_string_value(value);
	return 0;
}

int for_ports(struct router *r, const char *name, void (*fn)(struct router *r, uint16_t number, json_t *list),
	json_t *list, struct command_reply *reply)
{
	const struct router_refusal *refusal;
	unsigned seen = 0;

	for (uint16_t n = 0; n < PORT_MAX; n++)
		if (r->port[n].open && (!name || !strcmp(name, r->port[n].name))) {
			fn(r, n, list);
			seen++;
		}
	if (seen || !name)
		return 0;
	refusal = router_refusal(r, name);
	if (refusal)
		return error_set(&reply->error, ENOENT, "port %s is not open: %s", name, refusal->text);
	return error_set(&reply->error, ENOENT, "there is no port \"%.32s\"", name);
}

void append_new(json_t *list, json_t *value)
{
	json_array_append_new(list, value);  /* refuses NULL */
}

json_t *json_sum(const struct account_sum *s)
{
	return json_pack("{s:I, s:I}", "packets", (json_int_t)s->packets, "bytes", (json_int_t)s->bytes);
}

void format_mac(const uint8_t mac[6], char out[MAC_TEXT_LENGTH])
{
	snprintf(out, MAC_TEXT_LENGTH, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
		mac[4], mac[5]);
}
