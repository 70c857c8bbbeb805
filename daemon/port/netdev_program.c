/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Whose XDP program is on a device? Only for messages.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/netdev.h"

static void program_name(uint32_t id, char *name, size_t size)
{
	struct bpf_prog_info info;
	uint32_t length = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);

	name[0] = '\0';
	if (fd < 0)
		return;
	memset(&info, 0, sizeof(info));
	if (bpf_obj_get_info_by_fd(fd, &info, &length) == 0)
		snprintf(name, size, "%s", info.name);
	close(fd);
}

/* The bpf_link that holds the program on this device; 0 = none (attached by netlink). */
static uint32_t find_link(uint32_t ifindex, uint32_t program)
{
	uint32_t id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		struct bpf_link_info info;
		uint32_t length = sizeof(info);
		int fd = bpf_link_get_fd_by_id(id), r;

		if (fd < 0)
			continue;
		memset(&info, 0, sizeof(info));
		r = bpf_obj_get_info_by_fd(fd, &info, &length);
		close(fd);
		if (r == 0 && info.type == BPF_LINK_TYPE_XDP && info.prog_id == program && info.xdp.ifindex == ifindex)
			return id;
	}
	return 0;
}

static bool file_has_line(const char *path, const char *line)
{
	char text[128];
	bool found = false;
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	while (!found && fgets(text, sizeof(text), f))
		found = strcmp(text, line) == 0;
	fclose(f);
	return found;
}

static bool process_holds(const char *pid, uint32_t link)
{
	char path[64], file[sizeof(path) + 16], line[32];
	bool found = false;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fdinfo", pid);
	snprintf(line, sizeof(line), "link_id:\t%u\n", link);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		snprintf(file, sizeof(file), "%s/%.12s", path, entry->d_name);
		found = isdigit((unsigned char)entry->d_name[0]) && file_has_line(file, line);
	}
	closedir(dir);
	return found;
}

/* The process that has the link open; 0 = none (pinned, or not ours to see). */
static int find_holder(uint32_t link)
{
	struct dirent *entry;
	int pid = 0;
	DIR *dir = opendir("/proc");

	if (!dir)
		return 0;
	while (!pid && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) && process_holds(entry->d_name, link))
			pid = atoi(entry->d_name);
	closedir(dir);
	return pid;
}

void netdev_describe_program(const struct netdev *d, char *text, size_t size)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	char name[BPF_OBJ_NAME_LEN];
	uint32_t id, link;
	int pid;

	if (bpf_xdp_query((int)d->ifindex, 0, &query) < 0) {
		snprintf(text, size, "an XDP program is attached to %s already", d->name);
		return;
	}
	id = query.drv_prog_id ? query.drv_prog_id : query.skb_prog_id ? query.skb_prog_id : query.prog_id;
	program_name(id, name, sizeof(name));
	link = find_link(d->ifindex, id);
	pid = link ? find_holder(link) : 0;
	if (!link)
		snprintf(text, size, "XDP program %u (%s) is attached to %s already; \"ip link set dev %s %s off\" removes it",
			id, name, d->name, d->name, query.skb_prog_id == id ? "xdpgeneric" : "xdp");
	else if (pid)
		snprintf(text, size, "XDP program %u (%s) is attached to %s already by link %u, which process %d holds; "
			"stop that process", id, name, d->name, link, pid);
	else
		snprintf(text, size, "XDP program %u (%s) is attached to %s already by link %u; "
			"\"bpftool link detach id %u\" removes it", id, name, d->name, link, link);
}
