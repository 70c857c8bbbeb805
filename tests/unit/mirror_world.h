/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A mirror with a FIB and without a kernel, what it told its hooks, and the FIB's answers in words. For test_mirror*.c.
 *
 * An answer: "-" no route, a verdict's label, or the paths "IFINDEX>GATEWAY" with "*WEIGHT" if there are several;
 * the gateway of a route on link is "link". "mtu=N" follows if the route has one.
 */
#ifndef ROUTERD_TESTS_UNIT_MIRROR_WORLD_H
#define ROUTERD_TESTS_UNIT_MIRROR_WORLD_H

/* Each test program uses a part of what these headers offer. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "unit/fib_heap.h"

#include "control/mirror_private.h"
#include "unit/mirror_messages.h"

struct world {
	struct heap heap;
	struct fib *fib;
	struct mirror *m;
	char hooks[8192];        /* what the hooks said, a line each */
	char sent[4096];         /* requests to the kernel */
	unsigned sends;
};

static void world_say(char *log, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void world_say(char *log, size_t size, const char *fmt, ...)
{
	size_t n = strlen(log);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(log + n, size - n, fmt, ap);
	va_end(ap);
}

static void hook_local(void *ctx, uint8_t family, const uint8_t *addr, bool present)
{
	struct world *w = ctx;
	char text[INET6_ADDRSTRLEN];

	inet_ntop(family == 4 ? AF_INET : AF_INET6, addr, text, sizeof(text));
	world_say(w->hooks, sizeof(w->hooks), "%clocal %s\n", present ? '+' : '-', text);
}

static void hook_vlan(void *ctx, uint16_t port, uint16_t id, __be16 proto, const uint8_t mac[6], bool present)
{
	struct world *w = ctx;

	world_say(w->hooks, sizeof(w->hooks), "%cvlan %u.%u/%x mac %u\n", present ? '+' : '-', port, id, ntohs(proto), mac[5]);
}

static void hook_link(void *ctx, const struct mirror_link *l, bool removed)
{
	struct world *w = ctx;

	world_say(w->hooks, sizeof(w->hooks), "%clink %s\n", removed ? '-' : '+', l->name);
}

static int world_send(struct mirror *m, const struct nlmsghdr *nlh)
{
	struct world *w = m->ctx;
	const struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *dst = mnl_nlmsg_get_payload_offset(nlh, sizeof(*nd));
	char text[INET6_ADDRSTRLEN];

	inet_ntop(nd->ndm_family, mnl_attr_get_payload(dst), text, sizeof(text));
	world_say(w->sent, sizeof(w->sent), "%s%s dev %d%s\n", nd->ndm_flags & NTF_USE ? "use " : "", text, nd->ndm_ifindex,
		nlh->nlmsg_flags & NLM_F_CREATE ? " create" : "");
	w->sends++;
	return 0;
}

static struct world *world_new(void)
{
	static const struct mirror_hooks hooks = { .link = hook_link, .local_address = hook_local, .vlan = hook_vlan };
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->fib = make_fib(&w->heap);
	assert_int_equal(mirror_new(&w->m, w->fib, &hooks, w), 0);
	w->m->send = world_send;
	return w;
}

static void world_settle(struct world *w)
{
	while (mirror_work(w->m, 1000))
		;
}

/* The mirror's references to groups and neighbours must all come back: then the FIB's own memory is all that is left. */
static void world_free(struct world *w)
{
	mirror_free(w->m);
	assert_int_equal(sizes(w->fib).groups, 0);
	assert_int_equal(sizes(w->fib).neighbours, 0);
	fib_free(w->fib);
	check_empty(&w->heap);
	free(w);
}

static void tell(struct world *w, const char *text)
{
	char *buffer = malloc(MESSAGE_MAX);
	struct mirror_stats before, after;

	assert_non_null(buffer);
	if (getenv("ROUTERD_TEST_TRACE"))
		print_message("%s\n", text);
	mirror_get_stats(w->m, &before);
	mirror_handle_message(w->m, message(buffer, text));
	mirror_get_stats(w->m, &after);
	if (after.malformed != before.malformed)
		print_error("malformed: %s\n", text);
	assert_int_equal(after.malformed, before.malformed);
	free(buffer);
}

/* Several, separated by ";". */
static void tell_all(struct world *w, const char *texts)
{
	char copy[4096], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", texts);
	for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save))
		tell(w, p);
	world_settle(w);
}

/* Two ports (2 eth0, 3 eth1) and a device that is none (9 other). */
static inline void tell_devices(struct world *w)
{
	tell_all(w, "add link 2 name eth0 up;add link 3 name eth1 up;add link 9 name other up");
	assert_int_equal(mirror_set_port(w->m, 2, 0), 0);
	assert_int_equal(mirror_set_port(w->m, 3, 1), 0);
	world_settle(w);
}

/* ---- answers ---- */

static void describe_path(char *text, size_t size, const struct fib *f, const struct fib_group *g, const struct fib_path *p)
{
	const struct fib_iface *i = fib_iface(f, p->iface);
	char gateway[INET6_ADDRSTRLEN] = "link";

	if (!(p->flags & FIB_PATH_ON_LINK)) {
		const struct fib_neigh *n = fib_neigh(f, p->neighbour);

		inet_ntop(n->family == 4 ? AF_INET : AF_INET6, n->addr, gateway, sizeof(gateway));
	}
	world_say(text, size, "%s%u>%s", p == g->paths ? "" : " ", i ? i->ifindex : 0, gateway);
	if (g->path_count > 1)
		world_say(text, size, "*%u", p->weight);
}

static const char *describe_group(const struct fib *f, const struct fib_group *g)
{
	static char text[8][4096];
	static unsigned turn;
	char *t = text[turn++ % 8];

	*t = '\0';
	if (!g)
		return "-";
	if (g->verdict != VERDICT_FORWARD)
		return verdict_info[g->verdict].label;
	for (unsigned i = 0; i < g->path_count; i++)
		describe_path(t, sizeof(text[0]), f, g, &g->paths[i]);
	if (g->mtu)
		world_say(t, sizeof(text[0]), " mtu=%u", g->mtu);
	return t;
}

/* As the route stage looks up. */
static const char *to(const struct world *w, const char *destination)
{
	uint8_t addr[16], length;

	if (message_address(destination, addr, &length) == AF_INET)
		return describe_group(w->fib, fib_lookup4(w->fib, load_be32(addr)));
	if (w->fib->local6 && fib_local6_match(w->fib->local6, addr))
		return "local";
	return describe_group(w->fib, fib_lookup6(w->fib, addr));
}

#define assert_to(w, destination, answer) assert_string_equal(to(w, destination), answer)

#endif
