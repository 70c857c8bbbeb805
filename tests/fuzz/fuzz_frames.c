/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Fuzz target: any bytes as received frames. The router must not crash, must give each frame exactly one verdict, must
 * lose no frame of the packet memory, and what it forwards may differ from what came only where it must.
 *
 * Input: a sequence of records: 1 byte of how (bits 0-1: port, 2: in two frames, 3: link of port 1 down, 4: little
 * headroom), 2 bytes of length (little endian, cut to what is there and to 3000), then the frame. With bit 5 of the
 * first byte the frame is mended before: destination MAC, IPv4 checksum; so that mutations get beyond the first tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/build.h"
#include "replay/replay.h"

#define FRAME_MAX 3000u
#define PORTS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct replay *make_router(void)
{
	struct replay *r = replay_new(&(struct replay_options){ .ports = PORTS, .frames = 256, .fill_size = 32 });
	const struct replay_path two[] = { { 2, "10.0.1.2", 3, false }, { 3, "10.0.2.2", 1, false } };
	const struct replay_path two6[] = { { 2, "2001:db8:1::2", 3, false }, { 20, "fe80::9", 1, false } };
	struct fib_settings s = *fib_settings(r->fib);
	struct fib_iface i;

	replay_add_vlan(r, 10, 0, 100, 0x8100);
	replay_add_vlan(r, 20, 2, 200, 0x88a8);
	replay_neigh(r, 20, "fe80::9", 1, 9);
	replay_route(r, "0.0.0.0/0", 0, two, 2);
	replay_route(r, "::/0", 1400, two6, 2);
	s.hash_policy4 = s.hash_policy6 = 1;
	fib_settings_set(r->fib, &s);
	replay_iface(r, 3, &i);
	i.flags |= FIB_IFACE_RP_STRICT | FIB_IFACE_SEND_REDIRECTS;
	replay_set_iface(r, &i);
	return r;
}

/* Make it a frame for us, with a good IPv4 checksum if it looks like IPv4. */
static void mend(uint8_t *f, uint32_t n, unsigned port)
{
	uint32_t at = 14;

	if (n < 34)
		return;
	replay_mac(f, 0, port);
	if (load_be16(f + 12) == 0x8100 || load_be16(f + 12) == 0x88a8)
		at = 18;
	if ((f[at] >> 4) == 4 && (f[at] & 15) >= 5 && at + (f[at] & 15u) * 4 <= n)
		build_checksum4(f + at);
}

static void die(const char *what, const uint8_t *frame, uint32_t n)
{
	fprintf(stderr, "fuzz_frames: %s\n", what);
	for (uint32_t i = 0; i < n; i++)
		fprintf(stderr, "%02x%s", frame[i], i % 32 == 31 || i + 1 == n ? "\n" : "");
	abort();
}

/* It left by @port: is it what came in, but for MACs, tag, TTL, checksum and padding? */
static void check_sent(const struct replay *r, unsigned port, const struct memory_packet *p, const uint8_t *in, uint32_t n)
{
	static uint8_t wanted[BUILD_MAX];
	uint16_t vlan = 0, proto = 0;
	struct fib_iface iface;
	uint32_t length;

	(void)n;
	if (p->length > 16 && load_be16(p->bytes + 12) == 0x88a8) {
		vlan = 200;
		proto = 0x88a8;
	}
	replay_iface(r, (uint16_t)(port + 1), &iface);
	length = build_forwarded(in, wanted, p->bytes, iface.mac, vlan, proto);
	if (p->length != length || memcmp(p->bytes, wanted, length))
		die("forwarded packet was changed where it must not be", in, n);
	if ((proto != 0) != (port == 2 && vlan))
		die("tag on the wrong port", in, n);
}

static void run_frame(struct replay *r, uint8_t how, const uint8_t *bytes, uint32_t n)
{
	static uint8_t frame[FRAME_MAX + 1];
	unsigned port = how % PORTS;
	uint32_t sent[PORTS], delivered = memory_port_delivered(r->ports[port])->count, left = 0;

	memcpy(frame, bytes, n);
	if (how & 32)
		mend(frame, n, port);
	memory_port_set_carrier(r->ports[1], !(how & 8));
	memory_port_set_headroom(r->ports[port], how & 16 ? how & 3 : 256);
	for (unsigned i = 0; i < PORTS; i++)
		sent[i] = memory_port_sent(r->ports[i], 0)->count;
	if (how & 4 && n > 1)
		replay_inject_segments(r, port, frame, (const uint32_t[]){ n / 2, n - n / 2 }, 2);
	else
		replay_inject(r, port, frame, n);
	replay_run(r);
	for (unsigned i = 0; i < PORTS; i++) {
		const struct memory_log *log = memory_port_sent(r->ports[i], 0);

		left += log->count - sent[i];
		if (log->count != sent[i])
			check_sent(r, i, &log->packets[log->count - 1], frame, n);
	}
	if (memory_port_delivered(r->ports[port])->count != delivered) {
		const struct memory_packet *p = replay_delivered(r, port, delivered);

		left++;
		if (p->length != n || memcmp(p->bytes, frame, n))
			die("the kernel got other bytes than came in", frame, n);
	}
	if (left > 1)
		die("one packet became several", frame, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The router is kept from input to input: it has no state but its counters. Its books are checked each time. */
	static struct replay *r;
	static unsigned inputs;

	if (!r)
		r = make_router();
	while (size >= 3) {
		uint32_t n = data[1] | (uint32_t)data[2] << 8;

		n = n > size - 3 ? (uint32_t)size - 3 : n;
		if (n > FRAME_MAX)
			n = FRAME_MAX;
		run_frame(r, data[0], data + 3, n);
		data += 3 + n;
		size -= 3 + n;
	}
	replay_check_books(r);
	/* The logs grow: start anew now and then. */
	if (++inputs % 1000 == 0) {
		replay_finish(r);
		r = NULL;
	}
	return 0;
}
