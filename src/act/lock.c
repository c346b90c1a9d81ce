/* SPDX-License-Identifier: Apache-2.0 */
#include "act/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "backend/backend.h"

static int open_node(uint32_t backend_id, uint32_t gpu)
{
	const struct rbt_backend *b = rbt_backend_by_id(backend_id);
	char path[64];

	if (b == NULL) {
		return -EOPNOTSUPP;
	}
	int r = b->lock_path(gpu, path, sizeof(path));
	if (r < 0) {
		return r;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rbt_gpu_lock(uint32_t backend_id, uint32_t gpu)
{
	int fd = open_node(backend_id, gpu);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		close(fd);
		return r;
	}
	return fd;
}

/* A lock on one byte of the node, which has no bytes: shared by all who wait, and gone with their
 * last copy of it. */
static struct flock mark(short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = RBT_GPU_MARK_OFFSET, .l_len = 1};
}

int rbt_gpu_mark(uint32_t backend_id, uint32_t gpu)
{
	struct flock lock = mark(F_RDLCK);
	int fd = open_node(backend_id, gpu);

	if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

bool rbt_gpu_is_marked(int lock_fd)
{
	struct flock lock = mark(F_WRLCK);

	return fcntl(lock_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
