/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/xsk_socket.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef SO_BUSY_POLL_BUDGET
#define SO_BUSY_POLL_BUDGET 70
#endif

#define TX_BUDGET_MAX 256u          /* descriptors per sendto in copy mode, where it can be set (Linux 6.17) */
#define SKB_TRUESIZE 4352u          /* what a 4096 byte frame costs against the send buffer */
#define BIND_PATIENCE_NS (2 * NS_PER_S)
#define BIND_PAUSE_NS (20 * NS_PER_MS)
#define BUSY_POLL_US 20
#define BUSY_POLL_BUDGET 64

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

static void pause_ns(uint64_t ns)
{
	struct timespec t = { .tv_nsec = (long)ns };

	nanosleep(&t, NULL);
}

int xsk_socket_wake_tx(const struct xsk_socket *s)
{
	return sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 ? -errno : 0;
}

int xsk_socket_wake_rx(const struct xsk_socket *s)
{
	return recvfrom(s->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL) < 0 ? -errno : 0;
}

static int register_umem(int fd, const struct packet_memory *m, struct error *e)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	struct xdp_umem_reg reg;

	memset(&reg, 0, sizeof(reg));  /* also the newer fields that lie in the padding */
	reg.addr = (uint64_t)(uintptr_t)m->table.memory;
	reg.len = m->size;
	reg.chunk_size = 1u << m->table.shift;
	setrlimit(RLIMIT_MEMLOCK, &limit);  /* without the right to: CAP_IPC_LOCK or a large enough limit do as well */
	if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) == 0)
		return 0;
	if (errno == ENOBUFS)
		return error_set(e, ENOBUFS, "the packet memory (%zu MiB) may not be locked: RLIMIT_MEMLOCK is too small; "
			"start with LimitMEMLOCK=infinity or CAP_IPC_LOCK, or make [memory] size smaller", m->size >> 20);
	return error_set(e, errno, "cannot register the packet memory (XDP_UMEM_REG): %s", strerror(errno));
}

static int size_rings(int fd, const struct xsk_socket_config *c)
{
	int r = set_option(fd, SOL_XDP, XDP_UMEM_FILL_RING, (int)c->ring_size);

	if (r == 0)
		r = set_option(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, (int)c->completion_size);
	if (r == 0 && c->receive)
		r = set_option(fd, SOL_XDP, XDP_RX_RING, (int)c->ring_size);
	if (r == 0 && c->transmit)
		r = set_option(fd, SOL_XDP, XDP_TX_RING, (int)c->ring_size);
	return r;
}

/* Before bind: since Linux 6.4 only, the fill and completion rings can be mapped after it. */
static int map_rings(struct xsk_socket *s, const struct xsk_socket_config *c)
{
	struct xdp_mmap_offsets o;
	socklen_t length = sizeof(o);
	int r;

	if (getsockopt(s->fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &length) < 0)
		return -errno;
	if (length != sizeof(o))
		return -EOPNOTSUPP;  /* before Linux 5.4: no flags */
	r = xsk_ring_map(&s->fill, s->fd, &o.fr, XDP_UMEM_PGOFF_FILL_RING, c->ring_size, sizeof(uint64_t));
	if (r == 0)
		r = xsk_ring_map(&s->completion, s->fd, &o.cr, XDP_UMEM_PGOFF_COMPLETION_RING, c->completion_size,
			sizeof(uint64_t));
	if (r == 0 && c->receive)
		r = xsk_ring_map(&s->rx, s->fd, &o.rx, XDP_PGOFF_RX_RING, c->ring_size, sizeof(struct xdp_desc));
	if (r == 0 && c->transmit)
		r = xsk_ring_map(&s->tx, s->fd, &o.tx, XDP_PGOFF_TX_RING, c->ring_size, sizeof(struct xdp_desc));
	return r;
}

/* None of these decides whether the socket works. */
static void tune(const struct xsk_socket *s, const struct xsk_socket_config *c)
{
	uint64_t buffer = (uint64_t)c->completion_size * SKB_TRUESIZE / 2;  /* the kernel doubles it */
	uint32_t budget = c->ring_size < TX_BUDGET_MAX ? c->ring_size : TX_BUDGET_MAX;

	if (c->transmit && c->mode == UMEM_COPY) {
		/* The default lets some 90 full-size packets be in flight (afxdp-drivers 1.8). */
		set_option(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, buffer > INT32_MAX / 2 ? INT32_MAX / 2 : (int)buffer);
		set_option(s->fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, (int)budget);
	}
	if (c->busy_poll) {
		set_option(s->fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1);
		set_option(s->fd, SOL_SOCKET, SO_BUSY_POLL, BUSY_POLL_US);
		set_option(s->fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET);
	}
}

static int bind_once(const struct xsk_socket *s, uint16_t flags, int shared_fd)
{
	struct sockaddr_xdp a = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = flags,
		.sxdp_ifindex = s->ifindex,
		.sxdp_queue_id = s->queue_id,
		.sxdp_shared_umem_fd = shared_fd < 0 ? 0 : (uint32_t)shared_fd,
	};

	return bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
}

/* Join the domain by a member that is still bound: one whose device has gone is not (EBADF). The mode is the domain's,
 * and naming it is an error. */
static int bind_shared(const struct xsk_socket *s)
{
	int r = -EBADF;

	for (const struct xsk_socket *m = s->memory->domains[s->mode]; m && r == -EBADF; m = m->domain_next)
		r = bind_once(s, XDP_SHARED_UMEM, m->fd);
	return r;
}

static int bind_patiently(const struct xsk_socket *s, bool first)
{
	uint16_t flags = (s->mode == UMEM_ZERO_COPY ? XDP_ZEROCOPY : XDP_COPY) | XDP_USE_NEED_WAKEUP;
	uint64_t end = clock_now_ns() + BIND_PATIENCE_NS;
	int r;

	for (;;) {
		r = first ? bind_once(s, flags, -1) : bind_shared(s);
		if (r != -EBUSY || clock_now_ns() >= end)
			return r;
		pause_ns(BIND_PAUSE_NS);
	}
}

static int verify(struct xsk_socket *s, struct error *e)
{
	struct xdp_options o = { 0 };
	socklen_t length = sizeof(o);

	if (getsockopt(s->fd, SOL_XDP, XDP_OPTIONS, &o, &length) < 0)
		return error_set(e, errno, "queue %u: XDP_OPTIONS: %s", s->queue_id, strerror(errno));
	s->zero_copy = o.flags & XDP_OPTIONS_ZEROCOPY;
	if (s->zero_copy != (s->mode == UMEM_ZERO_COPY))
		return error_set(e, EOPNOTSUPP, "queue %u: bound, but the kernel says zero-copy is %s", s->queue_id,
			s->zero_copy ? "on" : "off");
	return 0;
}

/* A domain whose members have all lost their devices is as good as empty: its UMEM can be joined no more. */
static bool domain_is_dead(const struct packet_memory *m, enum umem_mode mode)
{
	for (const struct xsk_socket *s = m->domains[mode]; s; s = s->domain_next)
		if (xsk_socket_wake_rx(s) != -ENXIO)
			return false;
	return true;
}

static int set_up(struct xsk_socket *s, const struct xsk_socket_config *c, struct error *e)
{
	bool first = domain_is_dead(s->memory, s->mode);
	int r = first ? register_umem(s->fd, s->memory, e) : 0;

	if (r < 0)
		return r;
	r = size_rings(s->fd, c);
	if (r == 0)
		r = map_rings(s, c);
	if (r < 0)
		return error_set(e, -r, "queue %u: cannot make rings of %u descriptors: %s", s->queue_id, c->ring_size,
			strerror(-r));
	tune(s, c);
	r = bind_patiently(s, first);
	if (r < 0)
		return error_set(e, -r, "queue %u: bind: %s", s->queue_id, strerror(-r));
	return verify(s, e);
}

int xsk_socket_open(struct xsk_socket *s, struct packet_memory *m, const struct xsk_socket_config *c, struct error *e)
{
	int r;

	*s = (struct xsk_socket){
		.ifindex = c->ifindex,
		.queue_id = c->queue_id,
		.mode = c->mode,
		.memory = m,
	};
	s->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return error_set(e, errno, errno == EAFNOSUPPORT ? "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): %s" :
			"cannot make an AF_XDP socket (needs CAP_NET_RAW): %s", strerror(errno));
	r = set_up(s, c, e);
	if (r < 0) {
		xsk_socket_close(s);
		return r;
	}
	s->domain_next = m->domains[s->mode];
	m->domains[s->mode] = s;
	return 0;
}

void xsk_socket_close(struct xsk_socket *s)
{
	if (s->fd < 0)
		return;
	for (struct xsk_socket **at = &s->memory->domains[s->mode]; *at; at = &(*at)->domain_next) {
		if (*at == s) {
			*at = s->domain_next;
			break;
		}
	}
	xsk_ring_unmap(&s->rx);
	xsk_ring_unmap(&s->tx);
	xsk_ring_unmap(&s->fill);
	xsk_ring_unmap(&s->completion);
	close(s->fd);
	s->fd = -1;
}

/* A socket with a memory of one page. The pool it makes in copy mode never reaches the driver. */
static int probe_bind(int fd, void *page, uint32_t ifindex, uint16_t queue_id)
{
	struct xdp_umem_reg reg;
	struct xsk_socket s = { .fd = fd, .ifindex = ifindex, .queue_id = queue_id };
	struct xsk_socket_config c = { .receive = true, .ring_size = 2, .completion_size = 2 };
	int r;

	memset(&reg, 0, sizeof(reg));
	reg.addr = (uint64_t)(uintptr_t)page;
	reg.len = 4096;
	reg.chunk_size = 4096;
	if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) < 0)
		return -errno;
	r = size_rings(fd, &c);
	return r < 0 ? r : bind_once(&s, XDP_COPY, -1);
}

int xsk_queue_probe(uint32_t ifindex, uint16_t queue_id)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	int r = -ENOMEM;

	if (page != MAP_FAILED && fd >= 0)
		r = probe_bind(fd, page, ifindex, queue_id);
	if (fd >= 0)
		close(fd);
	if (page != MAP_FAILED)
		munmap(page, 4096);
	switch (r) {
	case 0:
		return 0;
	case -ENODEV:
	case -EINVAL:    /* the queue is no more */
		return -ENODEV;
	default:
		return -EBUSY;
	}
}
