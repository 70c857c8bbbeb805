/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/packet.h"

uint32_t packet_first_length(const struct frame_table *t, const struct packet *p)
{
	uint32_t length = p->length, index = p->frame;

	for (unsigned i = 1; i < p->seg_count; i++) {
		index = t->frames[index].next;
		length -= t->frames[index].seg_length;
	}
	return length;
}

uint32_t packet_trim(struct frame_table *t, struct packet *p, uint32_t length, unsigned *ret_count)
{
	uint32_t kept = packet_first_length(t, p), index = p->frame, rest;
	unsigned segments = 1;

	/* Keep segments as long as bytes are wanted from them; the last one kept is shortened. */
	while (kept < length) {
		struct frame *f = &t->frames[index = t->frames[index].next];

		if (f->seg_length > length - kept)
			f->seg_length = (uint16_t)(length - kept);
		kept += f->seg_length;
		segments++;
	}
	rest = segments < p->seg_count ? t->frames[index].next : FRAME_NONE;
	*ret_count = p->seg_count - segments;
	t->frames[index].next = FRAME_NONE;
	p->seg_count = (uint16_t)segments;
	p->length = length;
	return rest;
}

void packet_copy_out(const struct frame_table *t, const struct packet *p, uint8_t *out)
{
	uint32_t length = packet_linear_length(t, p), index = p->frame;

	memcpy(out, p->data, length);
	for (unsigned i = 1; i < p->seg_count; i++) {
		index = t->frames[index].next;
		out += length;
		length = t->frames[index].seg_length;
		memcpy(out, frame_data(t, index) + t->frames[index].seg_offset, length);
	}
}
