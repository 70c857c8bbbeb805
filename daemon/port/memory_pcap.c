/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Classic pcap files (24-byte file header, 16-byte packet headers), for the memory port.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "port/memory.h"

#define PCAP_MAGIC 0xa1b2c3d4u
#define PCAP_MAGIC_NS 0xa1b23c4du
#define PCAP_ETHERNET 1u
#define PCAP_LENGTH_MAX 262144u

struct pcap_file_header {
	uint32_t magic;
	uint16_t major, minor;
	uint32_t zone, accuracy, snap_length, link_type;
};

struct pcap_packet_header {
	uint32_t seconds, fraction, captured, length;
};

static int read_header(FILE *f, bool *ret_swap)
{
	struct pcap_file_header h;
	bool swap;

	if (fread(&h, sizeof(h), 1, f) != 1)
		return -EINVAL;
	swap = h.magic == __builtin_bswap32(PCAP_MAGIC) || h.magic == __builtin_bswap32(PCAP_MAGIC_NS);
	if (!swap && h.magic != PCAP_MAGIC && h.magic != PCAP_MAGIC_NS)
		return -EINVAL;
	if ((swap ? __builtin_bswap32(h.link_type) : h.link_type) != PCAP_ETHERNET)
		return -EINVAL;
	*ret_swap = swap;
	return 0;
}

/* 1: a packet was read into @bytes; 0: the file is at its end. */
static int read_packet(FILE *f, bool swap, uint8_t *bytes, uint32_t *ret_length)
{
	struct pcap_packet_header h;
	uint32_t length;

	if (fread(&h, sizeof(h), 1, f) != 1)
		return feof(f) ? 0 : -EIO;
	length = swap ? __builtin_bswap32(h.captured) : h.captured;
	if (length > PCAP_LENGTH_MAX || fread(bytes, 1, length, f) != length)
		return -EINVAL;
	*ret_length = length;
	return 1;
}

int memory_pcap_read(const char *path, int (*fn)(void *ctx, const uint8_t *bytes, uint32_t length), void *ctx)
{
	uint8_t *bytes = malloc(PCAP_LENGTH_MAX);
	FILE *f = bytes ? fopen(path, "rb") : NULL;
	uint32_t length;
	bool swap;
	int r;

	if (!f) {
		r = bytes ? -errno : -ENOMEM;
		free(bytes);
		return r;
	}
	r = read_header(f, &swap);
	while (r == 0) {
		r = read_packet(f, swap, bytes, &length);
		if (r <= 0)
			break;
		r = fn(ctx, bytes, length);
	}
	fclose(f);
	free(bytes);
	return r;
}

static bool write_packet(FILE *f, const struct memory_packet *p)
{
	struct pcap_packet_header h = {
		.seconds = (uint32_t)(p->at_ns / NS_PER_S),
		.fraction = (uint32_t)(p->at_ns % NS_PER_S),
		.captured = p->length,
		.length = p->length,
	};

	return fwrite(&h, sizeof(h), 1, f) == 1 && fwrite(p->bytes, 1, p->length, f) == p->length;
}

int memory_pcap_write(const char *path, const struct memory_log *log)
{
	struct pcap_file_header h = { PCAP_MAGIC_NS, 2, 4, 0, 0, PCAP_LENGTH_MAX, PCAP_ETHERNET };
	FILE *f = fopen(path, "wb");
	bool fine;

	if (!f)
		return -errno;
	fine = fwrite(&h, sizeof(h), 1, f) == 1;
	for (uint32_t i = 0; fine && i < log->count; i++)
		fine = write_packet(f, &log->packets[i]);
	if (fclose(f) != 0)
		fine = false;
	return fine ? 0 : -EIO;
}
