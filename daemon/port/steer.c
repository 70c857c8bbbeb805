/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/steer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bits.h"
#include "common/log.h"
#include "bpf/steer.skel.h"

enum shared_map { LOCAL4, LOCAL6, HEARTBEAT, STEER_CONFIG, SHARED_MAP_COUNT };

/* Like the definitions in bpf/steer.bpf.c; bpf_map__reuse_fd() refuses others. */
static const struct {
	const char *name;
	enum bpf_map_type type;
	uint32_t key_size, value_size, max_entries, flags;
} shared_maps[SHARED_MAP_COUNT] = {
	[LOCAL4] = { "local4", BPF_MAP_TYPE_HASH, 4, 4, STEER_ADDRESSES, BPF_F_NO_PREALLOC },
	[LOCAL6] = { "local6", BPF_MAP_TYPE_HASH, 16, 4, STEER_ADDRESSES, BPF_F_NO_PREALLOC },
	[HEARTBEAT] = { "heartbeat", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct steer_heartbeat), STEER_WORKERS, BPF_F_MMAPABLE },
	[STEER_CONFIG] = { "steer_config", BPF_MAP_TYPE_ARRAY, 4, sizeof(struct steer_config), 1, 0 },
};

struct steer_shared {
	int fds[SHARED_MAP_COUNT];
	struct steer_heartbeat *heartbeat;  /* [STEER_WORKERS], mapped */
	size_t heartbeat_size;
};

struct steer {
	struct steer_shared *shared;
	struct steer_bpf *skeleton;
	struct steer_port config;           /* as the program has it, but for a moment while it is written */
	int link_fd;                        /* -1 = not attached */
	bool native;
};

static int print_to_log(enum libbpf_print_level level, const char *format, va_list args)
{
	char text[512];
	int n;

	if (level == LIBBPF_DEBUG)
		return 0;
	n = vsnprintf(text, sizeof(text), format, args);
	while (n > 0 && (size_t)n < sizeof(text) && text[n - 1] == '\n')
		text[--n] = '\0';
	log_debug("%s", text);
	return 0;
}

/* ---- shared ---- */

static int make_shared_maps(struct steer_shared *s)
{
	for (unsigned i = 0; i < SHARED_MAP_COUNT; i++) {
		LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = shared_maps[i].flags);

		s->fds[i] = bpf_map_create(shared_maps[i].type, shared_maps[i].name, shared_maps[i].key_size,
			shared_maps[i].value_size, shared_maps[i].max_entries, &o);
		if (s->fds[i] < 0)
			return -errno;
	}
	s->heartbeat_size = sizeof(struct steer_heartbeat) * STEER_WORKERS;
	s->heartbeat = mmap(NULL, s->heartbeat_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fds[HEARTBEAT], 0);
	if (s->heartbeat == MAP_FAILED) {
		s->heartbeat = NULL;
		return -errno;
	}
	return 0;
}

int steer_shared_new(struct steer_shared **ret, struct error *e)
{
	struct steer_shared *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, ENOMEM, "out of memory");
	for (unsigned i = 0; i < SHARED_MAP_COUNT; i++)
		s->fds[i] = -1;
	libbpf_set_print(print_to_log);
	r = make_shared_maps(s);
	if (r < 0) {
		steer_shared_free(s);
		return error_set(e, -r, "cannot make BPF maps: %s%s", strerror(-r),
			r == -EPERM ? "; needs CAP_BPF and CAP_NET_ADMIN (run as root)" : "");
	}
	*ret = s;
	return 0;
}

void steer_shared_free(struct steer_shared *s)
{
	if (!s)
		return;
	if (s->heartbeat)
		munmap(s->heartbeat, s->heartbeat_size);
	for (unsigned i = 0; i < SHARED_MAP_COUNT; i++)
		if (s->fds[i] >= 0)
			close(s->fds[i]);
	free(s);
}

uint64_t *steer_heartbeat(struct steer_shared *s, unsigned worker)
{
	return (uint64_t *)&s->heartbeat[worker].nanoseconds;
}

int steer_set_stale(struct steer_shared *s, uint64_t stale_ns)
{
	struct steer_config config = { .stale_ns = stale_ns };
	uint32_t zero = 0;

	return bpf_map_update_elem(s->fds[STEER_CONFIG], &zero, &config, BPF_ANY) < 0 ? -errno : 0;
}

/* Deleting what is not there is fine. */
static int set_key(int fd, const void *key, const void *value, bool present)
{
	if (present)
		return bpf_map_update_elem(fd, key, value, BPF_ANY) < 0 ? (errno == E2BIG ? -ENOSPC : -errno) : 0;
	return bpf_map_delete_elem(fd, key) < 0 && errno != ENOENT ? -errno : 0;
}

int steer_local_address(struct steer_shared *s, int family, const void *addr, bool present)
{
	uint32_t value = 0;

	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	return set_key(s->fds[family == AF_INET ? LOCAL4 : LOCAL6], addr, &value, present);
}

/* ---- per port ---- */

static int write_config(struct steer *s)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(bpf_map__fd(s->skeleton->maps.port_config), &zero, &s->config, BPF_ANY) < 0 ? -errno : 0;
}

static int reuse_shared(struct steer *s)
{
	struct bpf_map *maps[SHARED_MAP_COUNT] = {
		[LOCAL4] = s->skeleton->maps.local4,
		[LOCAL6] = s->skeleton->maps.local6,
		[HEARTBEAT] = s->skeleton->maps.heartbeat,
		[STEER_CONFIG] = s->skeleton->maps.steer_config,
	};

	for (unsigned i = 0; i < SHARED_MAP_COUNT; i++) {
		int r = bpf_map__reuse_fd(maps[i], s->shared->fds[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int load(struct steer *s)
{
	int r;

	s->skeleton = steer_bpf__open();
	if (!s->skeleton)
		return -errno;
	r = reuse_shared(s);
	if (r == 0)
		r = steer_bpf__load(s->skeleton);
	return r == 0 ? write_config(s) : r;
}

int steer_new(struct steer_shared *shared, uint32_t max_length, struct steer **ret, struct error *e)
{
	struct steer *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, ENOMEM, "out of memory");
	s->shared = shared;
	s->link_fd = -1;
	s->config.max_length = max_length;
	memset(s->config.queue_worker, STEER_NO_WORKER, sizeof(s->config.queue_worker));
	r = load(s);
	if (r < 0) {
		steer_free(s);
		return error_set(e, -r, "cannot load the steer program: %s%s", strerror(-r),
			r == -EPERM ? "; needs CAP_BPF and CAP_NET_ADMIN (run as root)" :
			"; [router] log_level = debug shows the verifier's words");
	}
	*ret = s;
	return 0;
}

void steer_free(struct steer *s)
{
	if (!s)
		return;
	steer_detach(s);
	steer_bpf__destroy(s->skeleton);
	free(s);
}

static int explain_attach(int r, const struct netdev *d, bool native, struct error *e)
{
	char text[400];

	switch (r) {
	case -EBUSY:
	case -EEXIST:
		netdev_describe_program(d, text, sizeof(text));
		return error_set(e, -r, "%s", text);
	case -EOPNOTSUPP:
		return error_set(e, -r, "driver %s has no native XDP", d->driver);
	default:
		return error_set(e, -r, "attaching the %s XDP program: %s%s%s", native ? "native" : "generic", strerror(-r),
			native && d->known->hint ? "; " : "", native && d->known->hint ? d->known->hint : "");
	}
}

/* Read back: the program must be there, ours, in the mode that was asked for. */
static int verify_attach(struct steer *s, const struct netdev *d, bool native, struct error *e)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	int r = bpf_xdp_query((int)d->ifindex, 0, &query);
	uint32_t id = native ? query.drv_prog_id : query.skb_prog_id;

	if (r < 0)
		return error_set(e, -r, "cannot read back the XDP program: %s", strerror(-r));
	if (query.attach_mode != (native ? XDP_ATTACHED_DRV : XDP_ATTACHED_SKB) || (id ? id : query.prog_id) != steer_program_id(s))
		return error_set(e, EIO, "the XDP program was attached, but read back it is not ours in %s mode",
			native ? "native" : "generic");
	s->native = query.attach_mode == XDP_ATTACHED_DRV;
	return 0;
}

int steer_attach(struct steer *s, const struct netdev *device, bool native, struct error *e)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
	int r;

	s->link_fd = bpf_link_create(bpf_program__fd(s->skeleton->progs.steer), (int)device->ifindex, BPF_XDP, &o);
	if (s->link_fd < 0) {
		r = s->link_fd;
		s->link_fd = -1;
		return explain_attach(r, device, native, e);
	}
	r = verify_attach(s, device, native, e);
	if (r < 0)
		steer_detach(s);
	return r;
}

void steer_detach(struct steer *s)
{
	if (s->link_fd < 0)
		return;
	/* Detach at once, whatever else may hold the link; a device that has gone has no program. */
	bpf_link_detach(s->link_fd);
	close(s->link_fd);
	s->link_fd = -1;
}

bool steer_is_attached(const struct steer *s)
{
	return s->link_fd >= 0;
}

bool steer_is_native(const struct steer *s)
{
	return s->native;
}

uint32_t steer_program_id(const struct steer *s)
{
	struct bpf_prog_info info;
	uint32_t length = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (bpf_obj_get_info_by_fd(bpf_program__fd(s->skeleton->progs.steer), &info, &length) < 0)
		return 0;
	return info.id;
}

/* ---- settings ---- */

int steer_enable(struct steer *s, bool on)
{
	uint32_t old = s->config.flags;
	int r;

	s->config.flags = on ? old | STEER_ENABLED : old & ~STEER_ENABLED;
	if (s->config.flags == old)
		return 0;
	r = write_config(s);
	if (r < 0)
		s->config.flags = old;
	return r;
}

bool steer_is_enabled(const struct steer *s)
{
	return s->config.flags & STEER_ENABLED;
}

/* The value is copied word by word while the program runs: change it with the program passing everything. */
static int change_config(struct steer *s, const struct steer_port *wanted)
{
	bool enabled = steer_is_enabled(s);
	int r = steer_enable(s, false);

	if (r < 0)
		return r;
	s->config = *wanted;
	s->config.flags &= ~STEER_ENABLED;
	r = write_config(s);
	return r == 0 && enabled ? steer_enable(s, true) : r;
}

int steer_set_socket(struct steer *s, uint16_t queue_id, int fd)
{
	int map = bpf_map__fd(s->skeleton->maps.xsks);
	uint32_t key = queue_id;

	return set_key(map, &key, &fd, fd >= 0);
}

int steer_set_queue_worker(struct steer *s, uint16_t queue_id, uint8_t worker)
{
	struct steer_port wanted = s->config;

	if (queue_id >= STEER_QUEUES)
		return -EINVAL;
	if (wanted.queue_worker[queue_id] == worker)
		return 0;
	wanted.queue_worker[queue_id] = worker;
	return change_config(s, &wanted);
}

int steer_set_link(struct steer *s, const uint8_t mac[6], uint32_t pass_flags)
{
	struct steer_port wanted = s->config;

	if (memcmp(wanted.link.mac, mac, STEER_MAC_LENGTH) == 0 && wanted.link.flags == pass_flags)
		return 0;
	memcpy(wanted.link.mac, mac, STEER_MAC_LENGTH);
	wanted.link.flags = pass_flags;
	return change_config(s, &wanted);
}

int steer_vlan(struct steer *s, uint16_t protocol, uint16_t vid, const uint8_t mac[6], uint32_t pass_flags, bool present)
{
	struct steer_vlan_key key = { .protocol = protocol, .id = vid };
	struct steer_link link = { .flags = pass_flags };

	if (mac)
		memcpy(link.mac, mac, STEER_MAC_LENGTH);
	return set_key(bpf_map__fd(s->skeleton->maps.vlans), &key, &link, present);
}

int steer_read_stats(const struct steer *s, uint64_t packets[STEER_REASON_COUNT], uint64_t bytes[STEER_REASON_COUNT])
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_map__fd(s->skeleton->maps.steer_stats);
	struct steer_count *counts = cpus > 0 ? calloc((size_t)cpus, sizeof(*counts)) : NULL;

	if (!counts)
		return -ENOMEM;
	for (uint32_t reason = 0; reason < STEER_REASON_COUNT; reason++) {
		packets[reason] = bytes[reason] = 0;
		if (bpf_map_lookup_elem(fd, &reason, counts) < 0)
			continue;
		for (int cpu = 0; cpu < cpus; cpu++) {
			packets[reason] += counts[cpu].packets;
			bytes[reason] += counts[cpu].bytes;
		}
	}
	free(counts);
	return 0;
}
