/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Last stages: rewrite what is forwarded, sort it by egress port, send; give the rest to the kernel or drop it; count.
 */
#include "common/clock.h"
#include "packet/rewrite.h"
#include "worker/stage.h"

/* Verdicts of the same kind in a row, not yet added to the counters. */
struct tally {
	struct pipeline_stats *stats;
	uint16_t port;
	uint8_t verdict;
	uint32_t packets;
	uint64_t bytes;
};

static void tally_flush(struct tally *t)
{
	if (t->packets)
		counter_pair_add(&t->stats->ports[t->port].verdicts[t->verdict], t->packets, t->bytes);
	t->packets = 0;
	t->bytes = 0;
}

static inline void tally_add(struct tally *t, const struct packet *p, enum verdict v)
{
	if (p->port != t->port || v != t->verdict) {
		tally_flush(t);
		t->port = p->port;
		t->verdict = (uint8_t)v;
	}
	t->packets++;
	t->bytes += p->wire_length;
}

/* As tally_add() for each of them. */
static void tally_forwarded(struct tally *t, struct packet *const *packets, unsigned n)
{
	for (unsigned i = 0; i < n;) {
		uint16_t port = packets[i]->port;
		uint64_t bytes = 0;
		unsigned first = i;

		for (; i < n && packets[i]->port == port; i++)
			bytes += packets[i]->wire_length;
		counter_pair_add(&t->stats->ports[port].verdicts[VERDICT_FORWARD], i - first, bytes);
	}
}

static void put_frames(struct pipeline *pl, uint32_t index, unsigned count)
{
	while (count--) {
		uint32_t next = pl->cache->table->frames[index].next;

		frame_put(pl->cache, pl->caches, index);
		index = next;
	}
}

static void put_packet(struct pipeline *pl, const struct packet *p)
{
	if (p->frame != FRAME_NONE)
		put_frames(pl, p->frame, p->seg_count);
}

/* Padding is not forwarded (F1, F2); segments of nothing but padding are given back. */
static void trim(struct pipeline *pl, struct packet *p, uint32_t length)
{
	unsigned count;
	uint32_t rest;

	if (p->seg_count == 1) {
		p->length = length;
		return;
	}
	rest = packet_trim(pl->cache->table, p, length, &count);
	put_frames(pl, rest, count);
}

static void retag(struct packet *p)
{
	const struct fib_iface *out = p->egress->iface;

	rewrite_vlan(p, out->vlan, out->vlan_proto);
}

void stage_rewrite(struct batch *b)
{
	for (struct packet *p = b->packets, *end = p + b->count; p < end; p++) {
		const struct egress *e = p->egress;
		uint32_t offset = p->l3_offset, length = offset + p->l3_length;
		uint8_t *data = p->data;

		if (p->verdict != VERDICT_FORWARD)
			continue;
		if (p->flags & PACKET_IPV4)
			rewrite_ttl4(data + offset);
		else
			rewrite_hop_limit(data + offset);
		if (p->length != length)
			trim(b->pl, p, length);
		if (offset != ETHERNET_LENGTH || e->vlan) {
			retag(p);
			data = p->data;
		}
		rewrite_macs(data, p->dst_mac, e->mac_head, e->mac_tail);
	}
}

/* Given to the kernel, or thrown away. */
static void finish(struct pipeline *pl, struct packet *p, struct tally *t)
{
	enum verdict v = p->verdict;

	if (verdict_class(v) == VERDICT_CLASS_KERNEL) {
		struct port *port = __atomic_load_n(&pl->ports[p->port], __ATOMIC_CONSUME);

		if (!port || port->ops->deliver(port, p) < 0)
			v = VERDICT_DROP_DELIVER;
	}
	p->verdict = (uint8_t)v;
	tally_add(t, p, v);
	put_packet(pl, p);
}

static inline void enqueue(struct pipeline *pl, struct packet *p)
{
	struct pipeline_out *out = p->egress->out;
	unsigned n = out->count;

	out->packets[n] = p;
	out->count = (uint16_t)(n + 1);
	if (!n)
		pl->out_used[pl->out_count++] = out->port;
}

/* Offer the packets and make the device look. When the ring is full, take what has completed, kick the device, which
 * may have waited for that, and offer the rest one more time. Returns how many were taken. */
static unsigned submit(struct pipeline *pl, struct port_txq *q, struct packet *const *packets, unsigned n)
{
	const struct port_ops *ops = q->port->ops;
	uint32_t now_ms = (uint32_t)(pl->now_ns / NS_PER_MS);
	unsigned sent, more = 0;
	bool full;

	port_txq_lock(q);
	sent = ops->tx_burst(q, packets, n, now_ms);
	full = sent < n;
	if (full) {
		ops->tx_reap(q, pl->cache, pl->caches);
		ops->tx_kick(q);
		more = ops->tx_burst(q, packets + sent, n - sent, now_ms);
	}
	if (!full || more)
		ops->tx_kick(q);
	port_txq_unlock(q);
	return sent + more;
}

static void flush(struct pipeline *pl, struct pipeline_out *out, uint16_t number, struct tally *t)
{
	struct port *port = __atomic_load_n(&pl->ports[number], __ATOMIC_CONSUME);
	struct port_txq *q = port ? port->worker_txq[pl->worker] : NULL;
	unsigned n = out->count, sent = q ? submit(pl, q, out->packets, n) : 0;

	tally_forwarded(t, out->packets, sent);
	for (unsigned i = sent; i < n; i++) {
		out->packets[i]->verdict = q ? VERDICT_DROP_TX_FULL : VERDICT_DROP_LINK_DOWN;
		finish(pl, out->packets[i], t);
	}
	out->count = 0;
}

void stage_transmit(struct batch *b)
{
	struct pipeline *pl = b->pl;
	struct tally t = { .stats = pl->stats };

	for (struct packet *p = b->packets, *end = p + b->count; p < end; p++) {
		if (p->verdict == VERDICT_FORWARD)
			enqueue(pl, p);
		else
			finish(pl, p, &t);
	}
	for (unsigned i = 0; i < pl->out_count; i++)
		flush(pl, &pl->outs[pl->out_used[i]], pl->out_used[i], &t);
	pl->out_count = 0;
	tally_flush(&t);
}
