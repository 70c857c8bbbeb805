/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "packet/verdict.h"

const struct verdict_info verdict_info[VERDICT_COUNT] = {
#define X(id, class, label, help) [VERDICT_##id] = { VERDICT_CLASS_##class, label, help },
	VERDICTS(X)
#undef X
};
