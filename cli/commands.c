/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ctl.h"

#include <stddef.h>

const struct ctl_command ctl_commands[] = {
	{ "status", "", "the daemon, its mirror of the kernel, and what deserves attention", false,
		cmd_status },
	{ "port", "[NAME]", "ports: driver, mode asked for and got, and why", false, cmd_port },
	{ "queue", "[PORT]", "receive and transmit queues: worker, rung, rings", false, cmd_queue },
	{ "route", "[PREFIX|inet|inet6] | get ADDR [from ADDR] [iif PORT]", "routes as routerd sees them",
		false, cmd_route },
	{ "neighbour", "[dev NAME]", "neighbours of the ports", false, cmd_neighbour },
	{ "stats", "", "packets of each port and whether the sum balances; workers", false, cmd_stats },
	{ "drops", "[-a]", "what went to the kernel or was dropped, by reason (-a: zeros too)", true,
		cmd_drops },
	{ "frames", "", "the ledger: where the frames of the packet memory are", false, cmd_frames },
	{ "config", "", "the configuration in effect and where each value comes from", false, cmd_config },
	{ NULL, NULL, NULL, false, NULL },
};
