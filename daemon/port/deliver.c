/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/deliver.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bpf/shared.h"
#include "port/deliver_filter.h"
#include "port/port.h"
#include "bpf/deliver.skel.h"

#define SEGMENTS_MAX 32

_Static_assert(DELIVER_QUEUES >= PORT_MAX, "a queue per port number");

struct deliver {
	char device[IFNAMSIZ];
	uint32_t ifindex;
	struct deliver_bpf *skeleton;
	/* TAP queues, by port number. Queues are numbered by the kernel in the order they are opened, and closing one
	 * renumbers another: so they are opened in order and stay open. */
	int fds[PORT_MAX];
	unsigned queue_count;
	struct deliver_bpf *generic[PORT_MAX];  /* a port's own filter; NULL = native */
};

static int open_queue(struct deliver *d, const char *name, struct error *e)
{
	struct ifreq r;
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK), code;

	if (fd < 0)
		return error_set(e, errno, "cannot open /dev/net/tun: %s; \"modprobe tun\" or the right to use it helps",
			strerror(errno));
	memset(&r, 0, sizeof(r));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	r.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
	if (ioctl(fd, TUNSETIFF, &r) < 0) {
		code = errno;
		close(fd);
		return error_set(e, code, "cannot make the delivery device %s: %s%s", name, strerror(code),
			code == EBUSY || code == EINVAL ? "; another device has that name: set [deliver] device" : "");
	}
	snprintf(d->device, sizeof(d->device), "%.15s", r.ifr_name);
	d->fds[d->queue_count++] = fd;
	return 0;
}

/* The device only carries packets into the stack: it must not speak itself. */
static void silence(const struct deliver *d)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", d->device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;  /* no IPv6 in this kernel */
	if (write(fd, "1", 1) != 1)
		errno = 0;
	close(fd);
}

static int bring_up(struct deliver *d, struct error *e)
{
	struct ifreq r;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), code = 0;

	if (fd < 0)
		return error_set(e, errno, "socket: %s", strerror(errno));
	memset(&r, 0, sizeof(r));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", d->device);
	if (ioctl(fd, SIOCGIFINDEX, &r) == 0) {
		d->ifindex = (uint32_t)r.ifr_ifindex;
		silence(d);
		r.ifr_flags = IFF_UP | IFF_NOARP;
		if (ioctl(fd, SIOCSIFFLAGS, &r) < 0)
			code = errno;
	} else {
		code = errno;
	}
	close(fd);
	return code ? error_set(e, code, "cannot set up the delivery device %s: %s", d->device, strerror(code)) : 0;
}

int deliver_revive(struct deliver *d)
{
	struct ifreq r;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), code = 0;

	if (fd < 0)
		return -errno;
	memset(&r, 0, sizeof(r));
	r.ifr_ifindex = (int)d->ifindex;  /* it may have been renamed */
	if (ioctl(fd, SIOCGIFNAME, &r) < 0 || ioctl(fd, SIOCGIFFLAGS, &r) < 0) {
		code = errno;
	} else if (!(r.ifr_flags & IFF_UP)) {
		r.ifr_flags |= IFF_UP;
		code = ioctl(fd, SIOCSIFFLAGS, &r) < 0 ? errno : 0;
	}
	close(fd);
	return -code;
}

static int attach_program(struct deliver *d, struct error *e)
{
	struct bpf_tc_hook hook = {
		.sz = sizeof(hook),
		.ifindex = (int)d->ifindex,
		.attach_point = BPF_TC_INGRESS,
	};
	LIBBPF_OPTS(bpf_tc_opts, o, .priority = DELIVER_NATIVE_PRIORITY, .handle = 1);
	int r;

	d->skeleton = deliver_bpf__open();
	if (!d->skeleton)
		return error_set(e, errno, "cannot open the deliver program: %s", strerror(errno));
	bpf_program__set_autoload(d->skeleton->progs.deliver_generic, false);
	r = deliver_bpf__load(d->skeleton);
	if (r < 0)
		return error_set(e, -r, "cannot load the deliver program: %s", strerror(-r));
	r = bpf_tc_hook_create(&hook);
	if (r < 0 && r != -EEXIST)
		return error_set(e, -r, "cannot make a clsact qdisc on %s: %s; needs CONFIG_NET_SCH_INGRESS (modprobe sch_ingress)",
			d->device, strerror(-r));
	o.prog_fd = bpf_program__fd(d->skeleton->progs.deliver);
	r = bpf_tc_attach(&hook, &o);
	return r < 0 ? error_set(e, -r, "cannot attach the deliver program to %s: %s; needs CONFIG_NET_CLS_BPF (modprobe cls_bpf)",
		d->device, strerror(-r)) : 0;
}

int deliver_new(const char *pattern, struct deliver **ret, struct error *e)
{
	struct deliver *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return error_set(e, ENOMEM, "out of memory");
	r = open_queue(d, pattern && *pattern ? pattern : "routerd%d", e);
	if (r == 0)
		r = bring_up(d, e);
	if (r == 0)
		r = attach_program(d, e);
	if (r < 0) {
		deliver_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

void deliver_free(struct deliver *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->queue_count; i++)
		close(d->fds[i]);
	for (unsigned i = 0; i < PORT_MAX; i++)
		if (d->generic[i])
			deliver_bpf__destroy(d->generic[i]);
	if (d->skeleton)
		deliver_bpf__destroy(d->skeleton);
	free(d);
}

const char *deliver_device(const struct deliver *d)
{
	return d->device;
}

static int set_port(struct deliver *d, uint16_t number, uint32_t ifindex)
{
	uint32_t key = number;

	return bpf_map_update_elem(bpf_map__fd(d->skeleton->maps.deliver_ports), &key, &ifindex, BPF_ANY) < 0 ? -errno : 0;
}

/* One more load of the object, for this queue only, counting into the first one's map. */
static int load_generic(struct deliver *d, uint16_t number)
{
	struct deliver_bpf *g = deliver_bpf__open();
	int r;

	if (!g)
		return -errno;
	bpf_program__set_autoload(g->progs.deliver, false);
	*(uint32_t *)(uintptr_t)&g->rodata->deliver_queue = number;  /* const for the program, not for its loader */
	r = bpf_map__reuse_fd(g->maps.deliver_stats, bpf_map__fd(d->skeleton->maps.deliver_stats));
	if (r == 0)
		r = deliver_bpf__load(g);
	if (r < 0) {
		deliver_bpf__destroy(g);
		return r;
	}
	d->generic[number] = g;
	return 0;
}

static int open_generic(struct deliver *d, uint16_t number, uint32_t ifindex)
{
	int r = load_generic(d, number);

	if (r < 0)
		return r;
	r = deliver_filter_add(d->ifindex, number, bpf_program__fd(d->generic[number]->progs.deliver_generic), ifindex);
	if (r < 0) {
		deliver_bpf__destroy(d->generic[number]);
		d->generic[number] = NULL;
	}
	return r;
}

int deliver_open_port(struct deliver *d, uint16_t number, uint32_t ifindex, bool generic, struct error *e)
{
	int r = 0;

	if (number >= PORT_MAX)
		return error_set(e, EINVAL, "port number %u is out of range", number);
	while (r == 0 && d->queue_count <= number)
		r = open_queue(d, d->device, e);
	if (r < 0)
		return r;
	r = generic ? open_generic(d, number, ifindex) : set_port(d, number, ifindex);
	return r < 0 ? error_set(e, -r, "cannot open the way into the kernel on %s: %s%s", d->device, strerror(-r),
		generic ? "; needs CONFIG_NET_ACT_MIRRED (modprobe act_mirred)" : "") : 0;
}

void deliver_close_port(struct deliver *d, uint16_t number)
{
	if (!d->generic[number]) {
		set_port(d, number, 0);
		return;
	}
	deliver_filter_remove(d->ifindex, number);
	deliver_bpf__destroy(d->generic[number]);
	d->generic[number] = NULL;
}

int deliver_packet(const struct deliver *d, uint16_t number, const struct frame_table *frames, const struct packet *p)
{
	struct virtio_net_hdr header = { 0 };
	struct iovec parts[SEGMENTS_MAX + 1] = {
		{ .iov_base = &header, .iov_len = sizeof(header) },
		{ .iov_base = p->data, .iov_len = packet_linear_length(frames, p) },
	};
	uint32_t index = p->frame;
	unsigned n = 2;

	if (p->seg_count > SEGMENTS_MAX)
		return -EMSGSIZE;
	for (unsigned i = 1; i < p->seg_count; i++) {
		const struct frame *f = &frames->frames[index = frames->frames[index].next];

		parts[n].iov_base = frame_data(frames, index) + f->seg_offset;
		parts[n++].iov_len = f->seg_length;
	}
	return writev(d->fds[number], parts, (int)n) < 0 ? -errno : 0;
}

int deliver_read_stats(const struct deliver *d, uint16_t number, uint64_t *ret_packets, uint64_t *ret_shot)
{
	int cpus = libbpf_num_possible_cpus();
	struct deliver_count *counts = cpus > 0 ? calloc((size_t)cpus, sizeof(*counts)) : NULL;
	uint64_t packets = 0, shot = 0;
	uint32_t key = number;
	int r = 0;

	if (!counts)
		return -ENOMEM;
	if (bpf_map_lookup_elem(bpf_map__fd(d->skeleton->maps.deliver_stats), &key, counts) < 0)
		r = -errno;
	for (int cpu = 0; cpu < cpus && r == 0; cpu++) {
		packets += counts[cpu].packets;
		shot += counts[cpu].shot;
	}
	free(counts);
	if (r < 0)
		return r;
	*ret_packets = packets;
	*ret_shot = shot;
	return 0;
}
