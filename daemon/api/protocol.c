/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "api/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"

static int refuse(char *why, size_t size, const char *text, const char *detail)
{
	snprintf(why, size, "%s%s%.100s", text, detail ? ": " : "", detail ? detail : "");
	return -EINVAL;
}

int protocol_parse_request(const char *line, size_t length, json_t **ret_request, const char **ret_command,
	json_t **ret_arguments, char *why, size_t why_size)
{
	json_error_t error;
	json_t *request, *command, *arguments;

	if (length > PROTOCOL_REQUEST_MAX)
		return refuse(why, why_size, "the request is too long", NULL);
	request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
	if (!request)
		return refuse(why, why_size, "the request is not a line of JSON", error.text);
	command = json_object_get(request, "command");
	arguments = json_object_get(request, "arguments");
	if (!json_is_object(request))
		refuse(why, why_size, "the request is not a JSON object", NULL);
	else if (!json_is_string(command) || !json_string_length(command))
		refuse(why, why_size, "the request has no \"command\" text", NULL);
	else if (arguments && !json_is_object(arguments))
		refuse(why, why_size, "\"arguments\" is not a JSON object", NULL);
	else {
		*ret_request = request;
		*ret_command = json_string_value(command);
		*ret_arguments = arguments;
		return 0;
	}
	json_decref(request);
	return -EINVAL;
}

/* Takes over @object. */
static char *to_line(json_t *object)
{
	size_t size;
	char *line;

	if (!object)
		return NULL;
	size = json_dumpb(object, NULL, 0, JSON_COMPACT);
	line = size ? malloc(size + 2) : NULL;
	if (line) {
		json_dumpb(object, line, size, JSON_COMPACT);
		line[size] = '\n';
		line[size + 1] = '\0';
	}
	json_decref(object);
	return line;
}

char *protocol_format_request(const char *command, json_t *arguments)
{
	return to_line(arguments ? json_pack("{s:s, s:O}", "command", command, "arguments", arguments) :
		json_pack("{s:s}", "command", command));
}

char *protocol_format_result(json_t *result, const char *next)
{
	if (next)
		return to_line(json_pack("{s:b, s:o, s:s}", "ok", 1, "result", result, "next", next));
	return to_line(json_pack("{s:b, s:o}", "ok", 1, "result", result));
}

char *protocol_format_error(const char *text)
{
	/* The text may hold parts of the request or a name, and these any bytes. */
	return to_line(json_pack("{s:b, s:o}", "ok", 0, "error", text_json(text)));
}
