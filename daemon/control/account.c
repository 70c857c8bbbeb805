/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/account.h"

#include <string.h>

const struct account_xsk_info account_xsk_info[ACCOUNT_XSK_COUNT] = {
#define X(id, label, help) { label, help },
	ACCOUNT_XSK_REASONS(X)
#undef X
};

const struct account_steer_info account_steer_info[STEER_REASON_COUNT] = {
#define STEER_INFO(id, label, help) { label, help },
	STEER_REASONS(STEER_INFO)
#undef STEER_INFO
};

static void add_verdicts(const struct router *r, uint16_t number, struct account_detail *d)
{
	const struct workers *workers = ports_get_workers(r->ports);

	for (unsigned w = 0; w < workers_count(workers); w++) {
		const struct pipeline_port_stats *s = &workers_pipeline_stats(workers, w)->ports[number];

		for (int v = 0; v < VERDICT_COUNT; v++) {
			d->verdicts[v].packets += counter_read(&s->verdicts[v].packets);
			d->verdicts[v].bytes += counter_read(&s->verdicts[v].bytes);
		}
	}
	for (int v = 0; v < VERDICT_COUNT; v++) {
		d->verdicts[v].packets -= r->port[number].base_packets[v];
		d->verdicts[v].bytes -= r->port[number].base_bytes[v];
	}
}

static void add_queues(const struct router *r, uint16_t number, struct account_detail *d)
{
	struct port_queue_info q;

	for (unsigned i = 0; !ports_rx_info(r->ports, number, i, &q); i++) {
		d->xsk[ACCOUNT_XSK_RX_DROPPED] += q.kernel.rx_dropped;
		d->xsk[ACCOUNT_XSK_RING_FULL] += q.kernel.rx_ring_full;
		d->waiting += q.waiting;
	}
	for (unsigned i = 0; !ports_tx_info(r->ports, number, i, &q); i++) {
		d->sent.packets += q.packets;
		d->sent.bytes += q.bytes;
	}
}

int account_detail(const struct router *r, uint16_t number, struct account_detail *ret)
{
	struct account_detail d;
	int rc;

	if (number >= PORT_MAX || !r->port[number].open)
		return -ENOENT;
	memset(&d, 0, sizeof(d));
	/* Later stages first: what moves on meanwhile is missing here, and not counted twice. */
	add_verdicts(r, number, &d);
	add_queues(r, number, &d);
	rc = ports_steer_info(r->ports, number, &d.steer);
	if (rc < 0)
		return rc;
	*ret = d;
	return 0;
}

static void add(struct account_sum *sum, uint64_t packets, uint64_t bytes)
{
	sum->packets += packets;
	sum->bytes += bytes;
}

void account_sum_up(const struct account_detail *d, struct account *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < STEER_REASON_COUNT; i++) {
		add(&ret->received, d->steer.packets[i], d->steer.bytes[i]);
		if (i != STEER_REDIRECTED)
			add(&ret->kernel, d->steer.packets[i], d->steer.bytes[i]);
	}
	for (int v = 0; v < VERDICT_COUNT; v++) {
		switch (verdict_class((enum verdict)v)) {
		case VERDICT_CLASS_FORWARD:
			add(&ret->forwarded, d->verdicts[v].packets, d->verdicts[v].bytes);
			break;
		case VERDICT_CLASS_KERNEL:
			add(&ret->kernel, d->verdicts[v].packets, d->verdicts[v].bytes);
			break;
		case VERDICT_CLASS_DROP:
			add(&ret->dropped, d->verdicts[v].packets, d->verdicts[v].bytes);
			break;
		}
	}
	for (int i = 0; i < ACCOUNT_XSK_COUNT; i++)
		add(&ret->dropped, d->xsk[i], 0);
	ret->sent = d->sent;
	ret->held = d->waiting;
	account_conclude(ret);
}

void account_add(struct account *total, const struct account *a)
{
	add(&total->received, a->received.packets, a->received.bytes);
	add(&total->forwarded, a->forwarded.packets, a->forwarded.bytes);
	add(&total->kernel, a->kernel.packets, a->kernel.bytes);
	add(&total->dropped, a->dropped.packets, a->dropped.bytes);
	add(&total->sent, a->sent.packets, a->sent.bytes);
	total->held += a->held;
}

void account_conclude(struct account *a)
{
	a->balanced = a->received.packets ==
		      a->forwarded.packets + a->kernel.packets + a->dropped.packets + a->held;
}
