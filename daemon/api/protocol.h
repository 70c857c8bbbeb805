/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What the control socket speaks. UNIX stream socket; the client sends one request as one line of JSON and gets one
 * reply as one line of JSON, then may send the next. Lines end with "\n" and hold no other newline.
 *
 *   request  {"command": "route", "arguments": {"family": 4, "after": "..."}}      "arguments" may be left out
 *   reply    {"ok": true, "result": ...}                      what "result" is: see the command's file in control/
 *            {"ok": true, "result": [...], "next": "..."}     there is more: ask again with "after" = this text
 *            {"ok": false, "error": "cause and cure, one line"}
 *
 * Limits: a request has at most PROTOCOL_REQUEST_MAX bytes; a reply stays below PROTOCOL_REPLY_MAX because lists that
 * can be long come in pages. The daemon drops a client that sends no whole request, or takes no reply, for
 * PROTOCOL_TIMEOUT_S; with PROTOCOL_CLIENTS_MAX connections a new one replaces the one that has been quiet longest.
 * Access is by the socket's owner and group; commands that change something ask for uid 0 (SO_PEERCRED).
 * New keys may be added to objects; keys are never renamed. PROTOCOL_VERSION counts incompatible changes.
 */
#ifndef ROUTERD_API_PROTOCOL_H
#define ROUTERD_API_PROTOCOL_H

#include <jansson.h>
#include <stddef.h>

#define PROTOCOL_VERSION 1
#define PROTOCOL_DEFAULT_SOCKET "/run/routerd/control.sock"
#define PROTOCOL_REQUEST_MAX (64u << 10)
#define PROTOCOL_REPLY_MAX (4u << 20)
#define PROTOCOL_CLIENTS_MAX 64
#define PROTOCOL_TIMEOUT_S 5
#define PROTOCOL_PAGE_BYTES (1u << 20)  /* about where a page ends, however few its elements */
#define PROTOCOL_PAGE_MAX 256  /* elements in one reply: a page costs the daemon a few milliseconds */

/* Take a request line apart. *@ret_command and *@ret_arguments (an object, NULL when left out) belong to
 * *@ret_request, which the caller releases with json_decref(). 0, or -EINVAL and a sentence in @why. Any bytes. */
int protocol_parse_request(const char *line, size_t length, json_t **ret_request, const char **ret_command,
	json_t **ret_arguments, char *why, size_t why_size);

/* The line to send, newline included, to be released with free(); NULL when memory is short.
 * @arguments may be NULL and stays the caller's. */
char *protocol_format_request(const char *command, json_t *arguments);

/* Takes over @result. @next: NULL = nothing more. */
char *protocol_format_result(json_t *result, const char *next);
char *protocol_format_error(const char *text);

#endif
