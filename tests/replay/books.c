/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The end of every replay: conservation of packets, the ledger of frames, and that all queues agree with the counters.
 */
#include <stdlib.h>
#include <string.h>

#include "replay/replay.h"

/* ---- the ledger: each frame is in one place, and the containers hold as many as the records say ---- */

static uint32_t count_returning(const struct replay *r)
{
	uint32_t n = 0;

	for (unsigned w = 0; w < r->worker_count; w++)
		for (uint32_t i = r->caches[w].returned; i != FRAME_NONE; i = r->table.frames[i].next)
			n++;
	return n;
}

static void check_caches(const struct replay *r, uint32_t *seen)
{
	for (unsigned w = 0; w < r->worker_count; w++) {
		const struct frame_cache *c = &r->caches[w];

		replay_check(c->count <= c->capacity, "cache %u holds %u of %u", w, c->count, c->capacity);
		for (uint32_t i = 0; i < c->count; i++) {
			const struct frame *f = &r->table.frames[c->stack[i]];

			replay_check(!seen[c->stack[i]]++, "frame %u is twice in the caches", c->stack[i]);
			replay_check(frame_get_place(f) == FRAME_FREE && f->home == w, "frame %u in cache %u: %s of %u",
				c->stack[i], w, frame_place_label[f->place], f->home);
		}
	}
}

static void check_references(const struct replay *r)
{
	for (uint32_t i = 0; i < r->table.count; i++) {
		const struct frame *f = &r->table.frames[i];
		enum frame_place p = frame_get_place(f);
		bool whole = p == FRAME_FREE || p == FRAME_FILL || p == FRAME_RETURNING || p == FRAME_QUARANTINE;

		replay_check(whole ? !f->refs : f->refs > 0, "frame %u is %s with %u references", i,
			frame_place_label[p], f->refs);
	}
}

static void check_ledger(const struct replay *r)
{
	uint32_t *seen = calloc(r->table.count, sizeof(*seen)), free_frames = 0;
	struct memory_port_frames total = { 0 };
	unsigned place[FRAME_PLACE_COUNT], sum = 0;

	check_caches(r, seen);
	free(seen);
	check_references(r);
	for (unsigned w = 0; w < r->worker_count; w++)
		free_frames += r->caches[w].count;
	for (unsigned n = 0; n < PORT_MAX; n++) {
		struct memory_port_frames f = { 0 };

		if (r->ports[n])
			memory_port_count_frames(r->ports[n], &f);
		total.fill += f.fill;
		total.in_flight += f.in_flight;
	}
	for (unsigned i = 0; i < FRAME_PLACE_COUNT; i++)
		sum += place[i] = replay_place(r, i);
	replay_check(sum == r->table.count, "%u frames of %u have a place", sum, r->table.count);
	replay_check(place[FRAME_FREE] == free_frames, "free: records %u, caches %u", place[FRAME_FREE], free_frames);
	replay_check(place[FRAME_FILL] == total.fill, "fill: records %u, rings %u", place[FRAME_FILL], total.fill);
	replay_check(place[FRAME_TX] == total.in_flight, "tx: records %u, rings %u", place[FRAME_TX], total.in_flight);
	replay_check(place[FRAME_RETURNING] == count_returning(r), "returning: records %u, lists %u",
		place[FRAME_RETURNING], count_returning(r));
	replay_check(place[FRAME_WORKER] + place[FRAME_HELD] == r->held, "worker %u + held %u: the test holds %u",
		place[FRAME_WORKER], place[FRAME_HELD], r->held);
}

/* ---- conservation ---- */

static void check_ingress(const struct replay *r, unsigned n)
{
	uint64_t received = 0, bytes = 0, waiting = 0, packets = 0, packet_bytes = 0, invalid = 0, to_kernel = 0;
	const struct port *p = r->ports[n];

	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		packets += replay_count(r, n, v);
		packet_bytes += replay_count_bytes(r, n, v);
		if (verdict_class(v) == VERDICT_CLASS_KERNEL)
			to_kernel += replay_count(r, n, v);
	}
	if (!p) {
		replay_check(!packets, "port %u does not exist and has %lu packets", n, packets);
		return;
	}
	for (unsigned q = 0; q < p->rxq_count; q++) {
		received += counter_read(&p->rxqs[q].received.packets);
		bytes += counter_read(&p->rxqs[q].received.bytes);
		invalid += counter_read(&p->rxqs[q].invalid);
		waiting += p->ops->rx_waiting(&p->rxqs[q]);
	}
	replay_check(received == packets, "port %u: received %lu, verdicts %lu", n, received, packets);
	replay_check(bytes == packet_bytes, "port %u: received %lu bytes, verdicts %lu", n, bytes, packet_bytes);
	replay_check(invalid == replay_count(r, n, VERDICT_DROP_INVALID_DESCRIPTOR), "port %u: invalid %lu", n, invalid);
	replay_check(waiting || r->injected[n] == received, "port %u: injected %lu, received %lu", n, r->injected[n],
		received);
	replay_check(r->discard || to_kernel == memory_port_delivered(p)->count, "port %u: to kernel %lu, delivered %u", n,
		to_kernel, memory_port_delivered(p)->count);
}

static void check_egress(const struct replay *r)
{
	uint64_t logged = 0, forwarded = replay_total(r, VERDICT_FORWARD);
	bool stuck = r->discard;

	for (unsigned n = 0; n < PORT_MAX; n++) {
		uint64_t in_flight = 0;
		struct memory_port_frames f;

		if (!r->ports[n])
			continue;
		memory_port_count_frames(r->ports[n], &f);
		for (unsigned q = 0; q < r->ports[n]->txq_count; q++) {
			const struct port_txq *t = &r->ports[n]->txqs[q];
			uint64_t sent = counter_read(&t->sent.packets), done = counter_read(&t->completed);

			in_flight += counter_read(&t->in_flight);
			replay_check(sent == done + counter_read(&t->in_flight),
				"port %u queue %u: sent %lu, completed %lu, in flight %lu", n, q, sent, done,
				counter_read(&t->in_flight));
		}
		replay_check(in_flight == f.in_flight, "port %u: in flight %lu, rings %u", n, in_flight, f.in_flight);
		logged += replay_sent_count(r, n);
		stuck |= memory_port_faults(r->ports[n])->stuck;
	}
	replay_check(stuck ? logged <= forwarded : logged == forwarded, "forwarded %lu, left the ports %lu", forwarded,
		logged);
}

void replay_check_books(struct replay *r)
{
	for (unsigned n = 0; n < PORT_MAX; n++)
		check_ingress(r, n);
	check_egress(r);
	check_ledger(r);
	for (unsigned w = 0; w < r->worker_count; w++)
		replay_check(!counter_read(&r->pipelines[w].stats->held), "packets are held");
}

/* Closing brings every frame home. */
static void close_ports(struct replay *r)
{
	for (unsigned n = 0; n < PORT_MAX; n++) {
		if (!r->ports[n])
			continue;
		r->ports[n]->ops->close(r->ports[n]);
		r->ports[n] = NULL;
	}
	for (unsigned w = 0; w < r->worker_count; w++)
		frame_collect(&r->caches[w]);
	replay_check(replay_place(r, FRAME_FREE) + r->held == r->table.count, "after the ports closed %u of %u are free",
		replay_place(r, FRAME_FREE), r->table.count);
}

static void free_all(struct replay *r)
{
	for (unsigned w = 0; w < r->worker_count; w++) {
		pipeline_fini(&r->pipelines[w]);
		free(r->caches[w].stack);
	}
	fib_free(r->fib);
	while (r->retired) {
		struct replay_retired *item = r->retired;

		r->retired = item->next;
		free(item->memory);
		free(item);
	}
	free(r->table.memory);
	free(r->table.frames);
	free(r);
}

void replay_finish(struct replay *r)
{
	for (unsigned v = 0; v < VERDICT_COUNT; v++)
		replay_provoked[v] += replay_total(r, v);
	replay_check_books(r);
	close_ports(r);
	free_all(r);
}
