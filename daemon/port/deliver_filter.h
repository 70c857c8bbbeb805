/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Inside deliver: the traffic control filters on the TAP. libbpf attaches direct-action programs only, so the filter
 * with a mirred action is put together here. Thread: control.
 */
#ifndef ROUTERD_PORT_DELIVER_FILTER_H
#define ROUTERD_PORT_DELIVER_FILTER_H

#include <stdint.h>

#define DELIVER_NATIVE_PRIORITY 60000  /* the last one: takes what no port's own filter took */

/* Redirect what @program matches to the ingress of @ifindex. @number orders the filters and names this one. */
int deliver_filter_add(uint32_t tap_ifindex, uint16_t number, int program, uint32_t ifindex);
int deliver_filter_remove(uint32_t tap_ifindex, uint16_t number);

#endif
