/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/devicefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "backend/backend.h"

static bool is_control_node(const struct rbt_backend *b, dev_t rdev)
{
	struct stat st;

	if (b->control_major != 0 && rdev == makedev(b->control_major, b->control_minor)) {
		return true;
	}
	return stat(b->control_node, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == rdev;
}

/*
 * Checks that a file is a device. Its name proves nothing: in a mount namespace of its own, a
 * program can give any file any name, even a file whose calls never return. A device is identified
 * by its number. The software GPU's nodes are files in memory and are identified by name. That is
 * safe, because calls on a file in memory have no effect unless it is such a node.
 */
int check_device_fd(const struct rbt_record *rec)
{
	const struct rbt_backend *b = rbt_backend_by_id(rec->backend);
	char path[64], link[256];
	struct statx st;
	int flags = fcntl(rec->fd, F_GETFL);

	if (b == NULL) {
		return -EOPNOTSUPP;
	}
	/* An O_PATH file is not an open device, whatever its path. */
	if (flags < 0 || (flags & O_PATH) != 0) {
		return -EBADF;
	}
	/* AT_STATX_DONT_SYNC avoids asking the file system, which may take long to answer. */
	if (statx(rec->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0) {
		return -errno;
	}
	if (S_ISCHR(st.stx_mode)) {
		return is_control_node(b, makedev(st.stx_rdev_major, st.stx_rdev_minor)) ? 0
											 : -EBADF;
	}
	if (!S_ISREG(st.stx_mode) || fcntl(rec->fd, F_GET_SEALS) < 0) {
		return -EBADF;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", rec->fd);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	if (n < 0) {
		return -errno;
	}
	link[n] = '\0';
	return strcmp(link, b->control_node) == 0 ? 0 : -EBADF;
}
