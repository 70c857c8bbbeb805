/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A listening UNIX socket in the file system: left-overs replaced, living owners respected, never open to
 * others for a moment. See control_socket.h.
 */
#include <grp.h>
#include <libgen.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/control_socket.h"

static int make_directory(const char *path, struct error *e)
{
	char copy[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	const char *dir;

	strcpy(copy, path);
	dir = dirname(copy);
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return error_set(
			e, errno, "cannot make the directory %s of the socket: %s", dir, strerror(errno));
	return 0;
}

/* Does somebody listen? 1 yes, 0 no, -errno. */
static int is_answered(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return -errno;
	r = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 1;
	close(fd);
	return r == -ECONNREFUSED ? 0 : r == -EAGAIN ? 1 : r;
}

static int remove_left_over(const struct sockaddr_un *address, struct error *e)
{
	const char *path = address->sun_path;
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0
				       : error_set(e, errno, "cannot look at %s: %s", path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return error_set(
			e, EEXIST, "%s exists and is not a socket: remove it or choose another path", path);
	r = is_answered(address);
	if (r == 1)
		return error_set(e, EADDRINUSE,
			"another routerd is running: it answers on %s; stop it, or give this one "
			"another socket path in its configuration",
			path);
	if (r < 0)
		return error_set(e, -r, "cannot tell whether %s is in use: %s", path, strerror(-r));
	if (unlink(path) < 0 && errno != ENOENT)
		return error_set(
			e, errno, "cannot remove the left-over socket %s: %s", path, strerror(errno));
	return 0;
}

static int find_group(const char *name, gid_t *ret, struct error *e)
{
	const struct group *g = getgrnam(*name ? name : "routerd");

	if (!g && *name)
		return error_set(e, ENOENT,
			"there is no group \"%s\" for the control socket: create it (groupadd -r %s) or "
			"change [control] group",
			name, name);
	*ret = g ? g->gr_gid : getegid();
	return 0;
}

int unix_listen(const char *path, const char *group, unsigned mode, struct error *e)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t old_mask;
	gid_t gid = 0;
	int fd, r;

	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(e, ENAMETOOLONG, "the socket path %s is too long", path);
	strcpy(address.sun_path, path);
	r = find_group(group, &gid, e);
	if (!r)
		r = make_directory(path, e);
	if (!r)
		r = remove_left_over(&address, e);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(e, errno, "cannot make a socket: %s", strerror(errno));
	old_mask = umask(0177);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(old_mask);
	if (r < 0) {
		close(fd);
		return error_set(e, -r, "cannot bind the socket %s: %s", path, strerror(-r));
	}
	if (chown(address.sun_path, (uid_t)-1, gid) < 0 || chmod(address.sun_path, mode) < 0 ||
		listen(fd, 128) < 0) {
		r = error_set(e, errno, "cannot set up the socket %s: %s", address.sun_path, strerror(errno));
		unlink(address.sun_path);
		close(fd);
		return r;
	}
	return fd;
}
