/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "backend/backend.h"
#include "hand/hand.h"

int rbt_gpu_lock(uint32_t backend_id, uint32_t gpu)
{
	const struct rbt_backend *b = rbt_backend_by_id(backend_id);
	char path[64];
	int r;

	if (b == NULL) {
		return -EOPNOTSUPP;
	}
	r = b->lock_path(gpu, path, sizeof(path));
	if (r < 0) {
		return r;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
		close(fd);
		return r;
	}
	return fd;
}
