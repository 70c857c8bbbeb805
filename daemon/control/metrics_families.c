/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/metrics_families.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "control/account.h"
#include "control/metrics.h"

/* What is read once per page, so that the families agree with each other. */
struct page {
	FILE *out;
	struct router *r;
	uint16_t numbers[PORT_MAX];
	struct account_detail *details;  /* [count], same order */
	unsigned count;
};

static const char *name_of(const struct page *p, unsigned i)
{
	return p->r->port[p->numbers[i]].name;
}

/* ---- ports ---- */

/* A sample for each queue of each port and direction; @bytes chooses the value. */
static void write_queue_traffic(const struct page *p, const char *family, bool bytes)
{
	struct port_queue_info q;
	char queue[8];

	for (unsigned i = 0; i < p->count; i++) {
		for (unsigned n = 0; !ports_rx_info(p->r->ports, p->numbers[i], n, &q); n++) {
			snprintf(queue, sizeof(queue), "%u", q.queue_id);
			metrics_sample(p->out, family, bytes ? q.bytes : q.packets, "port", name_of(p, i),
				"queue", queue, "direction", "rx", NULL);
		}
		for (unsigned n = 0; !ports_tx_info(p->r->ports, p->numbers[i], n, &q); n++) {
			snprintf(queue, sizeof(queue), "%u", q.queue_id);
			metrics_sample(p->out, family, bytes ? q.bytes : q.packets, "port", name_of(p, i),
				"queue", queue, "direction", "tx", NULL);
		}
	}
}

static void write_ports(const struct page *p)
{
	struct account a;

	metrics_family(p->out, "routerd_port_packets_total", METRICS_COUNTER,
		"Packets that workers received from and sent to the queues of a port.");
	write_queue_traffic(p, "routerd_port_packets_total", false);
	metrics_family(p->out, "routerd_port_bytes_total", METRICS_COUNTER,
		"Bytes of these packets, from the Ethernet header on.");
	write_queue_traffic(p, "routerd_port_bytes_total", true);
	metrics_family(p->out, "routerd_seen_packets_total", METRICS_COUNTER,
		"Packets that arrived at a port, whoever takes them.");
	for (unsigned i = 0; i < p->count; i++) {
		account_sum_up(&p->details[i], &a);
		metrics_sample(p->out, "routerd_seen_packets_total", a.received.packets, "port",
			name_of(p, i), NULL);
	}
	metrics_family(p->out, "routerd_forwarded_packets_total", METRICS_COUNTER,
		"Packets received by a port that were sent out of a port of routerd.");
	for (unsigned i = 0; i < p->count; i++)
		metrics_sample(p->out, "routerd_forwarded_packets_total",
			p->details[i].verdicts[VERDICT_FORWARD].packets, "port", name_of(p, i), NULL);
	metrics_family(p->out, "routerd_held_packets", METRICS_GAUGE,
		"Packets in receive rings, not yet taken by a worker.");
	for (unsigned i = 0; i < p->count; i++)
		metrics_sample(
			p->out, "routerd_held_packets", p->details[i].waiting, "port", name_of(p, i), NULL);
	metrics_family(p->out, "routerd_port_balanced", METRICS_GAUGE,
		"1 if packets seen = forwarded + to the kernel + dropped + held; exact when traffic rests.");
	for (unsigned i = 0; i < p->count; i++) {
		account_sum_up(&p->details[i], &a);
		metrics_sample(p->out, "routerd_port_balanced", a.balanced, "port", name_of(p, i), NULL);
	}
}

static void write_reasons(const struct page *p)
{
	metrics_family(p->out, "routerd_kernel_packets_total", METRICS_COUNTER,
		"Packets left or given to the kernel, by reason; where: steer (XDP program) or worker.");
	for (unsigned i = 0; i < p->count; i++) {
		for (int k = 0; k < STEER_REASON_COUNT; k++)
			if (k != STEER_REDIRECTED)
				metrics_sample(p->out, "routerd_kernel_packets_total",
					p->details[i].steer.packets[k], "port", name_of(p, i), "reason",
					account_steer_info[k].label, "where", "steer", NULL);
		for (int v = 0; v < VERDICT_COUNT; v++)
			if (verdict_class((enum verdict)v) == VERDICT_CLASS_KERNEL)
				metrics_sample(p->out, "routerd_kernel_packets_total",
					p->details[i].verdicts[v].packets, "port", name_of(p, i), "reason",
					verdict_info[v].label, "where", "worker", NULL);
	}
	metrics_family(p->out, "routerd_drop_packets_total", METRICS_COUNTER,
		"Packets dropped, by reason; where: worker or xsk (on the way to the receive ring).");
	for (unsigned i = 0; i < p->count; i++) {
		for (int v = 0; v < VERDICT_COUNT; v++)
			if (verdict_class((enum verdict)v) == VERDICT_CLASS_DROP)
				metrics_sample(p->out, "routerd_drop_packets_total",
					p->details[i].verdicts[v].packets, "port", name_of(p, i), "reason",
					verdict_info[v].label, "where", "worker", NULL);
		for (int k = 0; k < ACCOUNT_XSK_COUNT; k++)
			metrics_sample(p->out, "routerd_drop_packets_total", p->details[i].xsk[k], "port",
				name_of(p, i), "reason", account_xsk_info[k].label, "where", "xsk", NULL);
	}
}

static const char *mode_label(const struct port_info *i)
{
	return i->zero_copy ? "zero-copy" : i->native ? "native" : "generic";
}

static void write_port_states(const struct page *p)
{
	struct port_info i;

	metrics_family(p->out, "routerd_port_info", METRICS_GAUGE, "Always 1; how a port is driven.");
	for (unsigned n = 0; n < p->count; n++)
		if (!ports_get_info(p->r->ports, p->numbers[n], &i))
			metrics_sample(p->out, "routerd_port_info", 1, "port", i.name, "driver", i.driver,
				"mode", mode_label(&i), NULL);
	metrics_family(p->out, "routerd_port_enabled", METRICS_GAUGE,
		"1 if packets are taken, 0 if all are left to the kernel.");
	for (unsigned n = 0; n < p->count; n++)
		if (!ports_get_info(p->r->ports, p->numbers[n], &i))
			metrics_sample(p->out, "routerd_port_enabled", i.enabled, "port", i.name, NULL);
	metrics_family(p->out, "routerd_port_carrier", METRICS_GAUGE, "1 if the port has a link.");
	for (unsigned n = 0; n < p->count; n++)
		if (!ports_get_info(p->r->ports, p->numbers[n], &i))
			metrics_sample(p->out, "routerd_port_carrier", i.carrier, "port", i.name, NULL);
	metrics_family(p->out, "routerd_ports_refused", METRICS_GAUGE,
		"Configured interfaces that are no ports at present.");
	metrics_sample(p->out, "routerd_ports_refused", p->r->refusal_count, NULL);
}

/* ---- queues ---- */

struct queue_metric {
	const char *name, *help;
	enum metrics_type type;
	size_t offset;  /* of a uint64_t in struct port_queue_info */
};

#define QUEUE_FIELD(field) offsetof(struct port_queue_info, field)
static const struct queue_metric rx_metrics[] = {
	{ "routerd_xsk_rx_dropped_total", "XDP_STATISTICS rx_dropped of the queue's socket.", METRICS_COUNTER,
		QUEUE_FIELD(kernel.rx_dropped) },
	{ "routerd_xsk_rx_ring_full_total", "XDP_STATISTICS rx_ring_full.", METRICS_COUNTER,
		QUEUE_FIELD(kernel.rx_ring_full) },
	{ "routerd_xsk_rx_fill_ring_empty_total", "XDP_STATISTICS rx_fill_ring_empty_descs.", METRICS_COUNTER,
		QUEUE_FIELD(kernel.rx_fill_ring_empty) },
	{ "routerd_xsk_rx_invalid_descs_total", "XDP_STATISTICS rx_invalid_descs.", METRICS_COUNTER,
		QUEUE_FIELD(kernel.rx_invalid_descs) },
	{ "routerd_xsk_tx_invalid_descs_total", "XDP_STATISTICS tx_invalid_descs.", METRICS_COUNTER,
		QUEUE_FIELD(kernel.tx_invalid_descs) },
	{ "routerd_rx_refill_short_total", "Times that no free frame was left for the fill ring.",
		METRICS_COUNTER, QUEUE_FIELD(refill_short) },
};
static const struct queue_metric tx_metrics[] = {
	{ "routerd_tx_completed_total", "Frames whose transmission was completed.", METRICS_COUNTER,
		QUEUE_FIELD(completed) },
	{ "routerd_tx_bogus_completions_total", "Completions of frames that were not in flight.",
		METRICS_COUNTER, QUEUE_FIELD(bogus_completions) },
	{ "routerd_tx_in_flight", "Frames submitted and not completed.", METRICS_GAUGE,
		QUEUE_FIELD(in_flight) },
	{ "routerd_tx_late_total", "Frames that were in flight for more than a second.", METRICS_COUNTER,
		QUEUE_FIELD(late) },
	{ "routerd_tx_device_drops_total",
		"Packets that the device refused as they were handed to it (EBUSY).", METRICS_COUNTER,
		QUEUE_FIELD(busy_drops) },
	{ "routerd_tx_stuck", "Frames that have been in flight for more than five seconds.", METRICS_GAUGE,
		QUEUE_FIELD(stuck) },
	{ "routerd_tx_kicks_total", "System calls that made the kernel look at the transmit ring.",
		METRICS_COUNTER, QUEUE_FIELD(kicks) },
	{ "routerd_tx_kick_errors_total", "Of these, failed (without EAGAIN and EBUSY).", METRICS_COUNTER,
		QUEUE_FIELD(kick_errors) },
	{ "routerd_tx_lock_contended_total", "Times that a shared transmit queue was found locked.",
		METRICS_COUNTER, QUEUE_FIELD(lock_contended) },
};

static void write_queue_metric(const struct page *p, const struct queue_metric *m,
	int (*info)(const struct ports *, uint16_t, unsigned, struct port_queue_info *))
{
	struct port_queue_info q;
	char queue[8];

	metrics_family(p->out, m->name, m->type, m->help);
	for (unsigned i = 0; i < p->count; i++)
		for (unsigned n = 0; !info(p->r->ports, p->numbers[i], n, &q); n++) {
			snprintf(queue, sizeof(queue), "%u", q.queue_id);
			metrics_sample(p->out, m->name, *(uint64_t *)((char *)&q + m->offset), "port",
				name_of(p, i), "queue", queue, NULL);
		}
}

static void write_queues(const struct page *p)
{
	struct port_queue_info q;
	char queue[8];

	for (size_t i = 0; i < ARRAY_LENGTH(rx_metrics); i++)
		write_queue_metric(p, &rx_metrics[i], ports_rx_info);
	for (size_t i = 0; i < ARRAY_LENGTH(tx_metrics); i++)
		write_queue_metric(p, &tx_metrics[i], ports_tx_info);
	metrics_family(
		p->out, "routerd_queue_info", METRICS_GAUGE, "Always 1; the rung of a transmit queue.");
	for (unsigned i = 0; i < p->count; i++)
		for (unsigned n = 0; !ports_tx_info(p->r->ports, p->numbers[i], n, &q); n++) {
			snprintf(queue, sizeof(queue), "%u", q.queue_id);
			metrics_sample(p->out, "routerd_queue_info", 1, "port", name_of(p, i), "queue", queue,
				"direction", "tx", "rung", q.rung == PORT_TXQ_SHARED ? "shared" : "exclusive",
				NULL);
		}
}

/* ---- frames, workers, mirror ---- */

static void write_frames(const struct page *p)
{
	struct ledger l;

	ports_ledger(p->r->ports, &l);
	metrics_family(p->out, "routerd_frames", METRICS_GAUGE,
		"Frames of the packet memory, by the place they are in.");
	for (int i = 0; i < FRAME_PLACE_COUNT; i++)
		metrics_sample(p->out, "routerd_frames", l.records[i], "place", frame_place_label[i], NULL);
	metrics_family(p->out, "routerd_ledger_balanced", METRICS_GAUGE,
		"1 if the holders of frames and the frames' records agree; exact when traffic rests.");
	metrics_sample(p->out, "routerd_ledger_balanced", l.balanced, NULL);
}

static void write_worker_family(const struct page *p, const char *name, enum metrics_type type,
	const char *help, bool seconds, size_t offset)
{
	struct worker_info w;
	char worker[12];
	uint64_t value;

	metrics_family(p->out, name, type, help);
	for (unsigned i = 0; i < ports_workers(p->r->ports); i++) {
		workers_get_info(ports_get_workers(p->r->ports), i, &w);
		value = *(uint64_t *)((char *)&w + offset);
		snprintf(worker, sizeof(worker), "%u", i);
		if (seconds)
			metrics_sample_seconds(p->out, name, value, "worker", worker, NULL);
		else
			metrics_sample(p->out, name, value, "worker", worker, NULL);
	}
}

static void write_heartbeats(const struct page *p)
{
	uint64_t now = clock_now_ns();
	struct worker_info w;
	char worker[12];

	metrics_family(p->out, "routerd_worker_heartbeat_age_seconds", METRICS_GAUGE,
		"Time since a worker's last sign of life.");
	for (unsigned i = 0; i < ports_workers(p->r->ports); i++) {
		workers_get_info(ports_get_workers(p->r->ports), i, &w);
		snprintf(worker, sizeof(worker), "%u", i);
		metrics_sample_seconds(p->out, "routerd_worker_heartbeat_age_seconds",
			now > w.heartbeat_ns ? now - w.heartbeat_ns : 0, "worker", worker, NULL);
	}
}

static void write_lookups(const struct page *p)
{
	const struct workers *workers = ports_get_workers(p->r->ports);
	uint64_t v4 = 0, v6 = 0;

	for (unsigned i = 0; i < workers_count(workers); i++) {
		v4 += counter_read(&workers_pipeline_stats(workers, i)->lookups4);
		v6 += counter_read(&workers_pipeline_stats(workers, i)->lookups6);
	}
	metrics_family(p->out, "routerd_lookups_total", METRICS_COUNTER, "Longest-prefix look-ups.");
	metrics_sample(p->out, "routerd_lookups_total", v4, "family", "ipv4", NULL);
	metrics_sample(p->out, "routerd_lookups_total", v6, "family", "ipv6", NULL);
}

static void write_workers(const struct page *p)
{
	write_worker_family(p, "routerd_worker_busy_seconds_total", METRICS_COUNTER,
		"Time a worker had something to do.", true, offsetof(struct worker_info, busy_ns));
	write_worker_family(p, "routerd_worker_idle_seconds_total", METRICS_COUNTER,
		"Time a worker slept or polled in vain.", true, offsetof(struct worker_info, idle_ns));
	write_worker_family(p, "routerd_worker_batches_total", METRICS_COUNTER,
		"Batches of packets that a worker ran.", false, offsetof(struct worker_info, batches));
	write_worker_family(p, "routerd_worker_packets_total", METRICS_COUNTER,
		"Packets that a worker received.", false, offsetof(struct worker_info, packets));
	write_worker_family(p, "routerd_worker_wakeups_total", METRICS_COUNTER,
		"Times that packets woke a worker.", false, offsetof(struct worker_info, wakeups));
	write_heartbeats(p);
	write_lookups(p);
}

static void write_routes(const struct page *p, const struct mirror_stats *s)
{
	static const char *const tables[MIRROR_TABLES] = { "local", "main", "default" };

	metrics_family(p->out, "routerd_routes", METRICS_GAUGE, "Routes of the kernel that are mirrored.");
	for (int t = 0; t < MIRROR_TABLES; t++) {
		metrics_sample(
			p->out, "routerd_routes", s->routes4[t], "family", "ipv4", "table", tables[t], NULL);
		metrics_sample(
			p->out, "routerd_routes", s->routes6[t], "family", "ipv6", "table", tables[t], NULL);
	}
	metrics_family(
		p->out, "routerd_neighbours", METRICS_GAUGE, "Neighbours of the kernel that are mirrored.");
	metrics_sample(p->out, "routerd_neighbours", s->neighbours, NULL);
	metrics_family(p->out, "routerd_nexthops", METRICS_GAUGE,
		"Nexthop objects of the kernel that are mirrored.");
	metrics_sample(p->out, "routerd_nexthops", s->nexthops, NULL);
	metrics_family(p->out, "routerd_kernel_rules", METRICS_GAUGE,
		"Policy rules whose traffic is left to the kernel.");
	metrics_sample(p->out, "routerd_kernel_rules", s->kernel_rules, NULL);
}

static void write_mirror(const struct page *p)
{
	struct mirror_stats s;

	mirror_get_stats(p->r->mirror, &s);
	write_routes(p, &s);
	metrics_family(
		p->out, "routerd_netlink_messages_total", METRICS_COUNTER, "Netlink messages handled.");
	metrics_sample(p->out, "routerd_netlink_messages_total", s.messages, NULL);
	metrics_family(p->out, "routerd_netlink_malformed_total", METRICS_COUNTER,
		"Netlink messages that could not be parsed.");
	metrics_sample(p->out, "routerd_netlink_malformed_total", s.malformed, NULL);
	metrics_family(p->out, "routerd_netlink_overruns_total", METRICS_COUNTER,
		"Times the kernel dropped notifications (ENOBUFS).");
	metrics_sample(p->out, "routerd_netlink_overruns_total", s.overruns, NULL);
	metrics_family(p->out, "routerd_netlink_resyncs_total", METRICS_COUNTER,
		"Times the kernel's tables were read anew, by cause.");
	for (int i = 0; i < MIRROR_CAUSES; i++)
		metrics_sample(p->out, "routerd_netlink_resyncs_total", s.resyncs[i], "cause",
			mirror_cause_label[i], NULL);
	metrics_family(
		p->out, "routerd_mirror_synced", METRICS_GAUGE, "1 if the mirror has nothing left to apply.");
	metrics_sample(p->out, "routerd_mirror_synced", !s.resync_running && !s.pending, NULL);
}

static void write_daemon(const struct page *p)
{
	metrics_family(p->out, "routerd_build_info", METRICS_GAUGE, "Always 1; the version.");
	metrics_sample(p->out, "routerd_build_info", 1, "version", ROUTERD_VERSION, NULL);
	metrics_family(p->out, "routerd_uptime_seconds", METRICS_GAUGE, "Time since the start.");
	metrics_sample_seconds(p->out, "routerd_uptime_seconds", clock_now_ns() - p->r->start_ns, NULL);
	metrics_family(p->out, "routerd_ready", METRICS_GAUGE, "1 if forwarding is possible.");
	metrics_sample(p->out, "routerd_ready", p->r->ready, NULL);
	metrics_family(p->out, "routerd_kernel_forwarding", METRICS_GAUGE,
		"1 if the kernel forwards the family: without it there is no hot standby.");
	metrics_sample(p->out, "routerd_kernel_forwarding", p->r->forwarding4, "family", "ipv4", NULL);
	metrics_sample(p->out, "routerd_kernel_forwarding", p->r->forwarding6, "family", "ipv6", NULL);
}

void router_write_metrics(void *ctx, FILE *out)
{
	struct page p = { .out = out, .r = ctx };

	p.details = calloc(p.r->port_count + 1, sizeof(*p.details));
	if (!p.details)
		return;
	for (uint16_t n = 0; n < PORT_MAX && p.count < p.r->port_count; n++)
		if (!account_detail(p.r, n, &p.details[p.count]))
			p.numbers[p.count++] = n;
	write_daemon(&p);
	write_ports(&p);
	write_reasons(&p);
	write_port_states(&p);
	write_queues(&p);
	write_frames(&p);
	write_workers(&p);
	write_mirror(&p);
	free(p.details);
}
