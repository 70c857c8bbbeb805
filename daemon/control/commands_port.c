/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * port: [{"name", "number", "ifindex", "driver", "state", "mode", "mode_requested", "xdp_attach", "zero_copy",
 *   "attempts": [text], "mtu", "mac", "rx_queues", "tx_queues", "device_rx_queues", "device_tx_queues", "carrier",
 *   "rx_packets", "tx_packets", "delivered", "delivered_shot"}]
 * queue: [{"port", "queue", "direction": "rx"|"tx", "worker" (null = nobody), "rung", "reason", "zero_copy", "packets",
 *   "bytes", "lost", and by direction: rx "in_fill", "waiting", "refill_short", "invalid", "xsk_statistics": {...};
 *   tx "users", "in_flight", "completed", ...}]
 */
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "control/commands.h"

static void add_line(json_t *list, const char *text, size_t n)
{
	char *line = strndup(text, n);

	if (line)
		append_new(list, text_json(line));
	free(line);
}

static json_t *lines_of(const char *text)
{
	json_t *list = json_array();

	while (*text) {
		size_t n = strcspn(text, "\n");

		if (n)
			add_line(list, text, n);
		text += n + (text[n] == '\n');
	}
	return list;
}

static const char *state_of(const struct port_info *i)
{
	if (i->gone)
		return "gone";
	if (!i->enabled)
		return "bypassed";
	return i->carrier ? "up" : "no carrier";
}

static void add_port(struct router *r, uint16_t number, json_t *list)
{
	const struct mirror_link *l;
	uint64_t delivered = 0, shot = 0;
	char mac[MAC_TEXT_LENGTH] = "";
	struct account_detail d;
	struct account a;
	struct port_info i;

	if (ports_get_info(r->ports, number, &i) < 0 || account_detail(r, number, &d) < 0)
		return;
	account_sum_up(&d, &a);
	ports_deliver_info(r->ports, number, &delivered, &shot);
	l = mirror_link_by_index(r->mirror, i.ifindex);
	if (l)
		format_mac(l->mac, mac);
	append_new(list, json_pack("{s:o, s:I, s:I, s:o, s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:s, s:I, s:I, s:I, s:I, s:b, s:I, s:I, "
		"s:I, s:I}",
		"name", text_json(i.name), "number", (json_int_t)number, "ifindex", (json_int_t)i.ifindex,
		"driver", text_json(i.driver),
		"state", state_of(&i), "mode", xsk_mode_name(i.mode),
		"mode_requested", xsk_mode_name(i.mode_requested),
		"xdp_attach", i.native ? "native" : "generic", "zero_copy", i.zero_copy,
		"attempts", lines_of(i.attempts),
		"mtu", (json_int_t)(l ? l->mtu : i.mtu), "mac", mac, "rx_queues", (json_int_t)i.rxq_count,
		"tx_queues", (json_int_t)i.txq_count, "device_rx_queues", (json_int_t)i.device_rx,
		"device_tx_queues", (json_int_t)i.device_tx, "carrier", i.carrier,
		"rx_packets", (json_int_t)a.received.packets, "tx_packets", (json_int_t)a.sent.packets,
		"delivered", (json_int_t)delivered, "delivered_shot", (json_int_t)shot));
}

int command_port(void *ctx, json_t *arguments, struct command_reply *reply)
{
	const char *name;
	int rc = argument_text(arguments, "name", &name, reply);

	if (rc < 0)
		return rc;
	reply->result = json_array();
	return for_ports(ctx, name, add_port, reply->result, reply);
}

static json_t *rx_object(const struct port_info *i, const struct port_queue_info *q)
{
	const struct port_kernel_stats *k = &q->kernel;

	return json_pack("{s:o, s:I, s:s, s:I, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:{s:I, s:I, s:I, s:I, s:I, s:I}}",
		"port", text_json(i->name), "queue", (json_int_t)q->queue_id,
		"direction", "rx", "worker", (json_int_t)q->worker,
		"rung", q->zero_copy ? "zero-copy" : "copy", "reason", "", "zero_copy", q->zero_copy,
		"packets", (json_int_t)q->packets, "bytes", (json_int_t)q->bytes,
		"lost", (json_int_t)(k->rx_dropped + k->rx_ring_full + q->invalid),
		"in_fill", (json_int_t)q->in_fill,
		"waiting", (json_int_t)q->waiting, "refill_short", (json_int_t)q->refill_short,
		"invalid", (json_int_t)q->invalid, "xsk_statistics", "rx_dropped", (json_int_t)k->rx_dropped,
		"rx_invalid_descs", (json_int_t)k->rx_invalid_descs,
		"tx_invalid_descs", (json_int_t)k->tx_invalid_descs,
		"rx_ring_full", (json_int_t)k->rx_ring_full,
		"rx_fill_ring_empty", (json_int_t)k->rx_fill_ring_empty,
		"tx_ring_empty", (json_int_t)k->tx_ring_empty);
}

static json_t *tx_object(const struct port_info *i, const struct port_queue_info *q)
{
	json_t *worker = q->users ? json_integer(q->worker) : json_null();

	return json_pack("{s:o, s:I, s:s, s:o, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"port", text_json(i->name), "queue", (json_int_t)q->queue_id, "direction", "tx", "worker", worker,
		"rung", q->rung == PORT_TXQ_SHARED ? "shared" : "exclusive", "reason", text_json(i->rung_reason),
		"zero_copy", q->zero_copy,
		"packets", (json_int_t)q->packets, "bytes", (json_int_t)q->bytes,
		"lost", (json_int_t)q->busy_drops,
		"users", (json_int_t)q->users, "in_flight", (json_int_t)q->in_flight,
		"completed", (json_int_t)q->completed,
		"bogus_completions", (json_int_t)q->bogus_completions, "late", (json_int_t)q->late,
		"stuck", (json_int_t)q->stuck, "kicks", (json_int_t)q->kicks,
		"kick_again", (json_int_t)q->kick_again,
		"kick_errors", (json_int_t)q->kick_errors, "busy_drops", (json_int_t)q->busy_drops,
		"lock_contended", (json_int_t)q->lock_contended);
}

static void add_queues(struct router *r, uint16_t number, json_t *list)
{
	struct port_queue_info q;
	struct port_info i;

	if (ports_get_info(r->ports, number, &i) < 0)
		return;
	for (unsigned n = 0; !ports_rx_info(r->ports, number, n, &q); n++)
		append_new(list, rx_object(&i, &q));
	for (unsigned n = 0; !ports_tx_info(r->ports, number, n, &q); n++)
		append_new(list, tx_object(&i, &q));
}

int command_queue(void *ctx, json_t *arguments, struct command_reply *reply)
{
	const char *name;
	int rc = argument_text(arguments, "port", &name, reply);

	if (rc < 0)
		return rc;
	reply->result = json_array();
	return for_ports(ctx, name, add_queues, reply->result, reply);
}
