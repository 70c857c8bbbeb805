/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/checksum.h"

uint64_t checksum_add(uint64_t sum, const void *data, uint32_t length)
{
	const uint8_t *p = data;
	uint32_t i = 0;

	for (; i + 4 <= length; i += 4)
		sum += load_raw32(p + i);
	if (i + 2 <= length) {
		sum += load_raw16(p + i);
		i += 2;
	}
	if (i < length) {
		const uint8_t last[2] = { p[i], 0 };

		sum += load_raw16(last);
	}
	return sum;
}
