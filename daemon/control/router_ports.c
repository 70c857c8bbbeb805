/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which devices are ports: what the configuration wants against what the kernel has. See router.h.
 */
#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "api/text.h"
#include "common/clock.h"
#include "common/log.h"
#include "control/router.h"

#define RETRY_NS (10 * NS_PER_S)       /* first; then twice as long each time */
#define RETRY_MAX_NS (600 * NS_PER_S)
#define WORK_BUDGET 65536

/* ---- refusals ---- */

enum refusal {
	REFUSAL_WAITING,  /* the device has to appear or to be brought up */
	REFUSAL_FINAL,    /* until the device or the configuration is another one */
	REFUSAL_FAILED,   /* the kernel refused; tried again */
};

static struct router_refusal *find_refusal(const struct router *r, const char *name)
{
	for (unsigned i = 0; i < r->refusal_count; i++)
		if (!strcmp(r->refusals[i].name, name))
			return &r->refusals[i];
	return NULL;
}

const struct router_refusal *router_refusal(const struct router *r, const char *name)
{
	return find_refusal(r, name);
}

static void plan_retry(struct router_refusal *f, const struct mirror_link *l)
{
	f->delay_ns = !f->delay_ns ? RETRY_NS : f->delay_ns < RETRY_MAX_NS / 2 ? 2 * f->delay_ns : RETRY_MAX_NS;
	f->retry_ns = clock_now_ns() + f->delay_ns;
	f->mtu = l ? l->mtu : 0;
	f->master = l ? l->master : 0;
}

static void retry_at_once(struct router_refusal *f)
{
	f->retry_ns = f->delay_ns = 0;
}

/* Remember, and log what is new. */
static void __attribute__((format(printf, 4, 5)))
refuse(struct router *r, const char *name, enum refusal kind, const char *fmt, ...)
{
	struct router_refusal *f = find_refusal(r, name), *list;
	char text[sizeof(f->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!f) {
		list = reallocarray(r->refusals, r->refusal_count + 1, sizeof(*list));
		if (!list)
			return;
		r->refusals = list;
		f = &list[r->refusal_count++];
		memset(f, 0, sizeof(*f));
		snprintf(f->name, sizeof(f->name), "%s", name);
	}
	if (strcmp(f->text, text))
		log_port(LOG_LEVEL_WARNING, name, "not open: %s", text);
	memcpy(f->text, text, sizeof(f->text));
	f->waiting = kind == REFUSAL_WAITING;
	if (kind == REFUSAL_FAILED)
		plan_retry(f, mirror_link_by_name(r->mirror, name));
	else
		retry_at_once(f);
	f->current = true;
}

static void forget_old_refusals(struct router *r)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < r->refusal_count; i++)
		if (r->refusals[i].current)
			r->refusals[kept++] = r->refusals[i];
	r->refusal_count = kept;
}

/* ---- links ---- */

/* Families that the kernel does not forward on this interface, so neither do we. */
static uint32_t pass_flags(const struct router *r, uint16_t iface)
{
	const struct fib_iface *i = iface != FIB_IFACE_NONE ? fib_iface(r->fib, iface) : NULL;
	uint32_t flags = 0;

	if (!i || !(i->flags & FIB_IFACE_FORWARDING4))
		flags |= STEER_PASS_IPV4;
	if (!i || !(i->flags & FIB_IFACE_FORWARDING6))
		flags |= STEER_PASS_IPV6;
	return flags;
}

static struct router_port *port_of_link(struct router *r, const struct mirror_link *l, uint16_t *ret_number)
{
	for (uint16_t n = 0; n < PORT_MAX; n++)
		if (r->port[n].open && !r->port[n].gone && r->port[n].ifindex == l->ifindex) {
			*ret_number = n;
			return &r->port[n];
		}
	return NULL;
}

static void push_link(struct router *r, struct router_port *p, uint16_t number, const struct mirror_link *l)
{
	/* What a bridge or bond takes from its member is not the member's to route. */
	bool member = l->master && !l->vrf;
	uint32_t flags = member ? STEER_PASS_IPV4 | STEER_PASS_IPV6 : pass_flags(r, l->iface);
	bool carrier = l->carrier && l->flags & IFF_UP;
	int rc;

	if (p->told && p->carrier == carrier && p->pass_flags == flags && p->mtu == l->mtu &&
		!memcmp(p->mac, l->mac, 6))
		return;
	rc = ports_link(r->ports, number, l->mac, flags, carrier, l->mtu);
	if (rc < 0) {
		log_port(LOG_LEVEL_WARNING, p->name, "cannot update the XDP program's settings: %s",
			strerror(-rc));
		return;
	}
	p->told = true;
	p->carrier = carrier;
	p->pass_flags = flags;
	p->mtu = l->mtu;
	memcpy(p->mac, l->mac, 6);
}

static void push_vlan(
	struct router *r, uint16_t port, uint16_t vlan_id, __be16 proto, const uint8_t mac[6], bool present)
{
	uint16_t iface = fib_vlan_iface(r->fib, port, vlan_id, proto);
	uint32_t flags = pass_flags(r, iface);
	int rc = ports_vlan(r->ports, port, ntohs(proto), vlan_id, mac, flags, present);

	if (rc < 0)
		log_port(LOG_LEVEL_WARNING, r->port[port].name, "cannot %s VLAN %u: %s",
			present ? "serve" : "remove", vlan_id, strerror(-rc));
	else if (iface != FIB_IFACE_NONE)
		r->vlan_told[iface] = present ? (uint8_t)(flags + 1) : 0;
}

static void push_one(void *ctx, const struct mirror_link *l)
{
	struct router *r = ctx;
	struct router_port *p;
	uint16_t number;

	if (l->vlan_proto && l->port != MIRROR_NO_PORT && l->iface != FIB_IFACE_NONE) {
		if (r->vlan_told[l->iface] && r->vlan_told[l->iface] != pass_flags(r, l->iface) + 1)
			push_vlan(r, l->port, l->vlan_id, l->vlan_proto, l->mac, true);
		return;
	}
	p = port_of_link(r, l, &number);
	if (p)
		push_link(r, p, number, l);
}

void router_push_links(struct router *r)
{
	mirror_link_foreach(r->mirror, push_one, r);
}

/* Opening a port can itself take a card's carrier down and up, so carrier alone is no reason to try again. */
static void note_refused_link(struct router *r, const struct mirror_link *l, bool removed)
{
	struct router_refusal *f = find_refusal(r, l->name);

	if (f && (removed || !(l->flags & IFF_UP) || l->mtu != f->mtu || l->master != f->master))
		retry_at_once(f);
}

static void on_link(void *ctx, const struct mirror_link *l, bool removed)
{
	struct router *r = ctx;
	struct router_port *p;
	uint16_t number;

	p = port_of_link(r, l, &number);
	note_refused_link(r, l, removed);
	if (p && removed)
		p->gone = true;
	else if (p)
		push_link(r, p, number, l);
	if ((!p || removed || strcmp(p->name, l->name)) && r->scan)
		sd_event_source_set_enabled(r->scan, SD_EVENT_ONESHOT);
}

static void on_local_address(void *ctx, uint8_t family, const uint8_t *addr, bool present)
{
	static struct log_ratelimit limit = { .burst = 5, .interval_ns = 60 * NS_PER_S };
	struct router *r = ctx;
	int rc = ports_local_address(r->ports, family == 4 ? AF_INET : AF_INET6, addr, present);
	unsigned suppressed;

	if (rc < 0 && log_ratelimit_pass(&limit, clock_now_ns(), &suppressed))
		log_warning("cannot tell the XDP programs of an own address: %s; its packets take the longer "
			    "way through routerd",
			strerror(-rc));
}

static void on_vlan(
	void *ctx, uint16_t port, uint16_t vlan_id, __be16 proto, const uint8_t mac[6], bool present)
{
	struct router *r = ctx;

	if (port < PORT_MAX && r->port[port].open)
		push_vlan(r, port, vlan_id, proto, mac, present);
}

static void on_resync(void *ctx, const char *reason, bool done)
{
	const struct router *r = ctx;

	if (!r->ready || !strcmp(reason, mirror_cause_label[MIRROR_CAUSE_CHANGE]))  /* daily business */
		log_debug("the kernel's tables %s (%s)", done ? "have been read" : "are being read", reason);
	else if (done)
		log_info("the kernel's tables have been read again (%s)", reason);
	else
		log_notice("reading the kernel's tables again: %s", reason);
}

const struct mirror_hooks router_hooks = { on_link, on_local_address, on_vlan, on_resync };

/* ---- opening and closing ---- */

static enum xsk_mode to_xsk_mode(enum config_mode mode)
{
	switch (mode) {
	case CONFIG_MODE_AUTO:
		return XSK_MODE_AUTO;
	case CONFIG_MODE_ZERO_COPY:
		return XSK_MODE_ZERO_COPY;
	case CONFIG_MODE_NATIVE:
		return XSK_MODE_NATIVE;
	case CONFIG_MODE_GENERIC:
		return XSK_MODE_GENERIC;
	}
	return XSK_MODE_AUTO;
}

/* Workers count by port number for as long as they live; a port that takes a used number starts at zero. */
static void remember_base(struct router *r, uint16_t number)
{
	const struct workers *workers = ports_get_workers(r->ports);
	struct router_port *p = &r->port[number];

	for (unsigned w = 0; w < workers_count(workers); w++) {
		const struct pipeline_port_stats *s = &workers_pipeline_stats(workers, w)->ports[number];

		for (int v = 0; v < VERDICT_COUNT; v++) {
			p->base_packets[v] += counter_read(&s->verdicts[v].packets);
			p->base_bytes[v] += counter_read(&s->verdicts[v].bytes);
		}
	}
}

static void log_opened(const struct router *r, uint16_t number)
{
	struct port_info i;

	if (ports_get_info(r->ports, number, &i) < 0)
		return;
	log_port(LOG_LEVEL_INFO, i.name, "port %u: %s, %s XDP, %s, %u receive and %u transmit queues", number,
		i.driver, i.native ? "native" : "generic", i.zero_copy ? "zero-copy" : "copy", i.rxq_count,
		i.txq_count);
}

static void open_port(struct router *r, const struct config_port *c, uint32_t ifindex, const char *name)
{
	struct port_options o = { .ifindex = ifindex, .mode = to_xsk_mode(c->mode), .queues = c->queues };
	const struct mirror_link *l;
	struct error e = { 0 };
	char causes[sizeof(e.text)];
	struct router_port *p;
	uint16_t number;
	int rc;

	snprintf(o.name, sizeof(o.name), "%s", name);
	if (ports_open(r->ports, &o, &number, &e) < 0) {
		text_fold_attempts(e.text, '|', " | ", causes, sizeof(causes));
		refuse(r, name, REFUSAL_FAILED, "%s", causes);
		return;
	}
	p = &r->port[number];
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->ifindex = ifindex;
	p->open = true;
	remember_base(r, number);
	rc = mirror_set_port(r->mirror, ifindex, number);
	if (rc < 0) {
		refuse(r, name, REFUSAL_FAILED, "no room among the interfaces: %s", strerror(-rc));
		p->open = false;
		ports_close(r->ports, number, false);
		return;
	}
	r->port_count++;
	l = mirror_link_by_index(r->mirror, ifindex);
	if (l)
		push_link(r, p, number, l);
	log_opened(r, number);
}

static void close_port(struct router *r, uint16_t number, bool gone)
{
	struct router_port *p = &r->port[number];

	log_port(LOG_LEVEL_NOTICE, p->name, "%s: closing the port",
		gone ? "the interface is gone" : "no longer a port");
	if (!gone)
		ports_enable(r->ports, number, false);
	mirror_clear_port(r->mirror, p->ifindex);
	ports_close(r->ports, number, gone);
	p->open = false;
	r->port_count--;
}

static void close_unwanted(struct router *r)
{
	for (uint16_t n = 0; n < PORT_MAX; n++) {
		const struct mirror_link *l;
		const struct config_port *c;

		if (!r->port[n].open)
			continue;
		l = mirror_link_by_index(r->mirror, r->port[n].ifindex);
		c = l ? config_find_port(r->config, l->name) : NULL;
		if (!l || r->port[n].gone || strcmp(l->name, r->port[n].name) || !c || !c->enabled)
			close_port(r, n, !l || r->port[n].gone);
	}
}

static bool is_kind(const struct mirror_link *l, const char *const *kinds)
{
	for (; *kinds; kinds++)
		if (!strcmp(l->kind, *kinds))
			return true;
	return false;
}

/* Devices whose XDP program sees nothing, or not what it should: their members or lower devices are the
 * ports. */
static const char *why_unsuitable(const struct mirror_link *l)
{
	static const char *const compound[] = { "bond", "team", "bridge", "vrf", NULL };

	if (l->type != ARPHRD_ETHER || l->flags & IFF_LOOPBACK)
		return "it is not an Ethernet interface; remove its [port] section";
	if (!strcmp(l->kind, "vlan"))
		return "it is a VLAN interface; make the interface below it a port, its VLANs are served "
		       "with it";
	if (is_kind(l, compound))
		return "it consists of other interfaces; AF_XDP works on those, not on it";
	return NULL;
}

/* A pattern is meant for network cards (and veth), not for whatever else has a matching name. */
static bool pattern_means(const struct router *r, const struct mirror_link *l)
{
	static const char *const kinds[] = { "", "veth", NULL };

	return l->type == ARPHRD_ETHER && !(l->flags & IFF_LOOPBACK) && is_kind(l, kinds) && !l->master &&
	       strcmp(l->name, ports_deliver_device(r->ports));
}

struct candidate {
	const struct config_port *config;
	uint32_t ifindex;
	char name[16];
};

struct candidates {
	struct router *router;
	struct candidate list[PORT_MAX];
	unsigned count;
};

static void consider(void *ctx, const struct mirror_link *l)
{
	struct candidates *c = ctx;
	struct router *r = c->router;
	const struct config_port *want = config_find_port(r->config, l->name);
	struct router_refusal *f;
	const char *why;
	uint16_t number;

	if (!want || !want->enabled || port_of_link(r, l, &number) || (want->is_glob && !pattern_means(r, l)))
		return;
	f = find_refusal(r, l->name);
	why = why_unsuitable(l);
	if (why)
		refuse(r, l->name, REFUSAL_FINAL, "%s", why);
	else if (!(l->flags & IFF_UP))
		refuse(r, l->name, REFUSAL_WAITING,
			"the interface is down; bring it up with: ip link set %s up", l->name);
	else if (f && f->retry_ns > clock_now_ns())
		f->current = true;
	else if (c->count < PORT_MAX) {
		c->list[c->count].config = want;
		c->list[c->count].ifindex = l->ifindex;
		memcpy(c->list[c->count++].name, l->name, sizeof(l->name));
	}
}

/* In the order in which the kernel made the devices, so that port numbers do not depend on chance. */
static int by_ifindex(const void *a, const void *b)
{
	uint32_t x = ((const struct candidate *)a)->ifindex, y = ((const struct candidate *)b)->ifindex;

	return x < y ? -1 : x > y;
}

static void refuse_missing(struct router *r)
{
	for (uint32_t i = 0; i < r->config->port_count; i++) {
		const struct config_port *p = &r->config->ports[i];

		if (config_expects_port(p) && !mirror_link_by_name(r->mirror, p->match))
			refuse(r, p->match, REFUSAL_WAITING,
				"there is no such interface (%s:%u); it becomes a port when it appears",
				r->config->files[p->source.file], p->source.line);
	}
}

void router_scan(struct router *r)
{
	struct candidates *c = calloc(1, sizeof(*c));
	uint16_t number;

	if (!c)
		return;
	c->router = r;
	for (unsigned i = 0; i < r->refusal_count; i++)
		r->refusals[i].current = false;
	close_unwanted(r);
	mirror_link_foreach(r->mirror, consider, c);
	qsort(c->list, c->count, sizeof(c->list[0]), by_ifindex);
	for (unsigned i = 0; i < c->count; i++)
		open_port(r, c->list[i].config, c->list[i].ifindex, c->list[i].name);
	refuse_missing(r);
	forget_old_refusals(r);
	/* At start, forwarding is said to be ready when all routes are in place. Later the event loop does
	 * it. */
	while (!r->ready && mirror_work(r->mirror, WORK_BUDGET))
		;
	router_push_links(r);
	for (unsigned i = 0; i < c->count; i++)
		if (!ports_find(r->ports, c->list[i].ifindex, &number) &&
			ports_enable(r->ports, number, true) < 0)
			log_port(LOG_LEVEL_WARNING, c->list[i].name, "cannot start taking packets");
	free(c);
}
