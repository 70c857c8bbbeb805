/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The metrics page of the daemon: all families with help, type and samples. Thread: control.
 */
#ifndef ROUTERD_CONTROL_METRICS_FAMILIES_H
#define ROUTERD_CONTROL_METRICS_FAMILIES_H

#include <stdio.h>

/* @ctx: struct router. */
void router_write_metrics(void *ctx, FILE *out);

#endif
