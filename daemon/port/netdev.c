/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "port/netdev.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bits.h"
#include "port/netdev_impl.h"

static const struct netdev_driver drivers[] = {
	{ .name = "gve", .bind_before_attach = true,
		.hint = "gve needs LRO and header split off, rx = tx queues, at most half of the maximum (ethtool -L)" },
	{ .name = "virtio_net",
		.hint = "virtio-net needs a queue_reset capable device and iommu_platform=on for zero-copy, and guest "
			"offloads that can be switched off for native XDP" },
	/* igb_setup_srrctl() sets the buffer size in KiB. Seen with 2048 byte frames: packets beyond 1024 bytes arrive cut. */
	{ .name = "igb", .buffer_unit = 1024, .hint = "igb needs Linux 6.14 for zero-copy and an MTU that fits one buffer" },
	{ .name = "sfc", .hint = "sfc has no zero-copy; native XDP needs an MTU of at most 3530" },
	{ .name = "veth", .hint = "veth has no zero-copy; native XDP needs a peer, receive queues at least as many as the "
			"peer's transmit queues, and an MTU of at most 3506" },
	{ .name = "ixgbevf", .hint = "ixgbevf cannot redirect to AF_XDP: use mode = generic" },
};
static const struct netdev_driver unknown_driver = { .name = "" };

static const struct netdev_driver *find_driver(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LENGTH(drivers); i++)
		if (strcmp(drivers[i].name, name) == 0)
			return &drivers[i];
	return &unknown_driver;
}

static int ethtool(int fd, const char *name, void *command)
{
	struct ifreq r;

	memset(&r, 0, sizeof(r));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	r.ifr_data = command;
	return ioctl(fd, SIOCETHTOOL, &r) < 0 ? -errno : 0;
}

static void read_ethtool(int fd, struct netdev *d)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	struct ethtool_ringparam ring = { .cmd = ETHTOOL_GRINGPARAM };

	if (ethtool(fd, d->name, &info) == 0)
		snprintf(d->driver, sizeof(d->driver), "%.31s", info.driver);
	if (ethtool(fd, d->name, &channels) == 0) {
		d->rx_queues = (uint16_t)(channels.combined_count + channels.rx_count);
		d->tx_queues = (uint16_t)(channels.combined_count + channels.tx_count);
	}
	if (ethtool(fd, d->name, &ring) == 0)
		d->rx_ring = ring.rx_pending;
	d->known = find_driver(d->driver);
}

/* sysfs may show another network namespace's devices: it is of use only if the index is the same there. */
static bool sysfs_shows(const struct netdev *d)
{
	char path[64];
	unsigned index = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/ifindex", d->name);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%u", &index) != 1)
		index = 0;
	fclose(f);
	return index == d->ifindex;
}

static uint16_t count_sysfs(const struct netdev *d, const char *direction)
{
	char path[80];
	unsigned n = 0;

	do
		snprintf(path, sizeof(path), "/sys/class/net/%s/queues/%s-%u", d->name, direction, n);
	while (access(path, F_OK) == 0 && ++n < UINT16_MAX);
	return (uint16_t)n;
}

/* By growing knowledge: ethtool's channels, sysfs, the netdev family (which says what the stack numbers, in the right
 * namespace). virtio-net's ethtool says more transmit queues than the stack numbers once a program is attached. */
static void read_queues(struct netdev *d)
{
	d->tx_queues_numbered = d->tx_queues;
	if (sysfs_shows(d)) {
		uint16_t rx = count_sysfs(d, "rx"), tx = count_sysfs(d, "tx");

		if (rx)
			d->rx_queues = rx;
		if (tx)
			d->tx_queues = d->tx_queues_numbered = tx;
	}
	netdev_read_genl(d);
	if (!d->rx_queues)
		d->rx_queues = 1;
	if (!d->tx_queues_numbered)
		d->tx_queues = d->tx_queues_numbered = 1;
}

static int read_link(int fd, struct netdev *d)
{
	struct ifreq r;

	memset(&r, 0, sizeof(r));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", d->name);
	if (ioctl(fd, SIOCGIFFLAGS, &r) < 0)
		return -errno;
	d->up = r.ifr_flags & IFF_UP;
	d->carrier = r.ifr_flags & IFF_RUNNING;
	if (ioctl(fd, SIOCGIFMTU, &r) < 0)
		return -errno;
	d->mtu = (uint32_t)r.ifr_mtu;
	if (ioctl(fd, SIOCGIFHWADDR, &r) < 0)
		return -errno;
	memcpy(d->mac, r.ifr_hwaddr.sa_data, sizeof(d->mac));
	return 0;
}

bool netdev_exists(uint32_t ifindex)
{
	char name[IF_NAMESIZE];

	return if_indextoname(ifindex, name) != NULL;
}

int netdev_read(uint32_t ifindex, struct netdev *ret, struct error *e)
{
	struct netdev d = { .ifindex = ifindex, .known = &unknown_driver };
	int fd, r;

	if (!if_indextoname(ifindex, d.name))
		return error_set(e, ENODEV, "there is no interface with index %u in this network namespace", ifindex);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(e, errno, "socket: %s", strerror(errno));
	r = read_link(fd, &d);
	if (r == 0)
		read_ethtool(fd, &d);
	close(fd);
	if (r < 0)
		return error_set(e, -r, "cannot read the interface: %s", strerror(-r));
	read_queues(&d);
	*ret = d;
	return 0;
}
