/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Fuzz target: any bytes as netlink messages, dumps and port changes. The mirror must not crash or read behind a message,
 * must come to an end with its work, and must give every group and neighbour back to the FIB.
 *
 * Input: netlink messages one after the other; a length that cannot be is mended to what is left. A message of type
 * NLMSG_NOOP is an order: its sequence number chooses among the operations of run_order().
 */
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control/mirror_private.h"

#define MAPPED_MIN (1u << 20)
#define WORK_MAX 1000  /* calls; each looks at up to 1000 routes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t periods;

/* Large blocks are mapped: most of their pages are never touched, and the sanitizer would mark all of them. */
static void *mem_alloc(void *ctx, size_t bytes)
{
	void *p;

	if (bytes < MAPPED_MIN)
		return calloc(1, bytes);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void mem_release(void *ctx, void *p, size_t bytes)
{
	if (bytes < MAPPED_MIN)
		free(p);
	else
		munmap(p, bytes);
}

static uint64_t mem_grace(void *ctx)
{
	return periods += 2;
}

static int no_kernel(struct mirror *m, const struct nlmsghdr *nlh)
{
	return nlh->nlmsg_len & 64 ? -EPERM : 0;
}

static void see_route(void *ctx, const struct mirror_route *r)
{
	*(unsigned *)ctx += r->path_count;
}

static void see_rule(void *ctx, uint8_t family, const char *text)
{
	*(size_t *)ctx += strlen(text);
}

static void look(struct mirror *m, const uint8_t *address)
{
	struct mirror_query q = { .family = address[0] & 1 ? 4 : 6, .hash = 0x12345678 };
	struct mirror_answer a;
	uint64_t cursor = 0;
	unsigned paths = 0;
	size_t text = 0;

	memcpy(q.dst, address, 16);
	mirror_route_lookup(m, &q, &a);
	for (unsigned i = 0; i < 1000 && mirror_route_foreach(m, q.family, &cursor, 100, see_route, &paths); i++)
		;
	mirror_kernel_rule_foreach(m, see_rule, &text);
}

static void mark_used(void *ctx, uint32_t slot, struct fib_neigh *n)
{
	fib_neigh_mark(n, *(uint32_t *)ctx);
}

static void run_order(struct mirror *m, const struct nlmsghdr *nlh)
{
	static uint32_t now_s = 1;
	uint8_t address[16] = { 0 };
	uint32_t which = nlh->nlmsg_seq >> 8;

	memcpy(address, &nlh->nlmsg_pid, 4);
	switch (nlh->nlmsg_seq & 7) {
	case 0:
		mirror_set_port(m, which, (uint16_t)nlh->nlmsg_pid);
		break;
	case 1:
		mirror_clear_port(m, which);
		break;
	case 2:
		mirror_dump_begin(m, (enum mirror_dump)(which % DUMPS));
		break;
	case 3:
		if (m->dump != DUMP_NONE)
			mirror_dump_end(m, m->dump, which & 1);
		break;
	case 4:
		mirror_work(m, which);
		break;
	case 5:
		now_s++;
		fib_neigh_foreach(m->fib, mark_used, &now_s);
		mirror_refresh_neighbours(m, now_s);
		break;
	default:
		look(m, address);
	}
}

/* A copy of its own, exactly as long, so that the address sanitizer sees a read behind it. */
static size_t run_message(struct mirror *m, const uint8_t *data, size_t left)
{
	struct nlmsghdr head, *copy;

	memcpy(&head, data, sizeof(head));
	if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > left)
		head.nlmsg_len = (uint32_t)left;
	copy = malloc(head.nlmsg_len);
	if (!copy)
		abort();
	memcpy(copy, data, head.nlmsg_len);
	copy->nlmsg_len = head.nlmsg_len;
	if (head.nlmsg_type == NLMSG_NOOP)
		run_order(m, copy);
	else
		mirror_handle_message(m, copy);
	free(copy);
	return NLMSG_ALIGN(head.nlmsg_len);
}

static void die(const char *what)
{
	fprintf(stderr, "fuzz_netlink: %s\n", what);
	abort();
}

static void finish(struct mirror *m, struct fib *f)
{
	struct fib_sizes s;

	for (unsigned i = 0; mirror_work(m, 1000); i++)
		if (i == WORK_MAX)
			die("work without end");
	mirror_free(m);
	fib_get_sizes(f, &s);
	if (s.groups || s.neighbours)
		die("a group or neighbour was not given back");
	fib_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct route_memory memory = { mem_alloc, mem_release, mem_release, mem_grace, NULL };
	struct fib *f = fib_new(&memory, 1);
	struct mirror *m = NULL;

	if (!f || mirror_new(&m, f, NULL, NULL) < 0)
		abort();
	m->seed = 1;
	m->send = no_kernel;
	for (unsigned i = 1; i <= 4; i++)
		mirror_set_port(m, i, (uint16_t)i);
	while (size >= sizeof(struct nlmsghdr)) {
		size_t n = run_message(m, data, size);

		if (n >= size)
			break;
		data += n;
		size -= n;
	}
	finish(m, f);
	return 0;
}
