/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/xsk_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int xsk_ring_map(struct xsk_ring *r, int fd, const struct xdp_ring_offset *offset, uint64_t page_offset, uint32_t size,
	size_t entry_size)
{
	size_t length = offset->desc + size * entry_size;
	uint8_t *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)page_offset);

	if (map == MAP_FAILED)
		return -errno;
	memset(r, 0, sizeof(*r));
	r->map = map;
	r->map_length = length;
	r->producer = (uint32_t *)(map + offset->producer);
	r->consumer = (uint32_t *)(map + offset->consumer);
	r->flags = (uint32_t *)(map + offset->flags);
	r->entries = map + offset->desc;
	r->size = size;
	r->mask = size - 1;
	return 0;
}

void xsk_ring_unmap(struct xsk_ring *r)
{
	if (r->map)
		munmap(r->map, r->map_length);
	memset(r, 0, sizeof(*r));
}
