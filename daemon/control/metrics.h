/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Metrics for Prometheus: GET /metrics, text format 0.0.4. libmicrohttpd runs on the control thread's own event loop
 * (external epoll descriptor), not in a thread of its own: so the families may look at everything that the control
 * thread owns (ports, mirror, ledger) without a lock, and one page costs well under a millisecond, since its size goes with
 * ports, queues and reasons, never with routes. Slow or hostile clients: memory and time for each are limited, and with
 * METRICS_CONNECTIONS_MAX of them the oldest makes room for the next.
 * Thread: control.
 */
#ifndef ROUTERD_CONTROL_METRICS_H
#define ROUTERD_CONTROL_METRICS_H

#include <stdint.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "common/error.h"

#define METRICS_CONNECTIONS_MAX 32
#define METRICS_TIMEOUT_S 3      /* without any progress; libmicrohttpd may need it to notice a half-closed client */
#define METRICS_LIFETIME_S 30    /* of a connection, whatever it does */

struct metrics;

/* Serve at @listen (config_listen_parse(); "off" gives *@ret = NULL). @write fills a page. */
int metrics_new(sd_event *event, const char *listen, void (*write)(void *ctx, FILE *out), void *ctx,
	struct metrics **ret, struct error *e);
void metrics_free(struct metrics *m);  /* NULL is fine */

/* ---- writing a page (metrics_text.c) ---- */

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE };

/* HELP and TYPE lines; the family's samples follow. */
void metrics_family(FILE *out, const char *name, enum metrics_type type, const char *help);

/* One sample. Label pairs follow the value: name, text, ..., NULL. */
void metrics_sample(FILE *out, const char *name, uint64_t value, ...) __attribute__((sentinel));
void metrics_sample_seconds(FILE *out, const char *name, uint64_t nanoseconds, ...) __attribute__((sentinel));

#endif
