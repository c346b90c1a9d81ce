/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpulock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "act/lock.h"
#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/handlink.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

void gpulock_init(struct daemon *d)
{
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		d->locks.fds[gpu] = d->locks.marks[gpu] = -1;
	}
}

/* Opens the GPU's node and calls take() on it. An fd, or -errno. */
static int open_node(struct rbt_gpu gpu, int (*take)(int fd))
{
	const struct rbt_backend *b = rbt_backend_by_id(gpu.backend);
	char path[64];

	if (b == NULL || !b->has_lock) {
		return -EOPNOTSUPP;
	}
	int r = b->lock_path(gpu.minor, path, sizeof(path));
	if (r < 0) {
		return r;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	r = take(fd);
	if (r < 0) {
		close(fd);
	}
	return r < 0 ? r : fd;
}

static void take_one(struct daemon *d, uint32_t gpu)
{
	char name[RBT_GPU_NAME_MAX];
	struct rbt_gpu node = rbt_gpu_of_index(&d->gpu_table, gpu);
	int fd = open_node(node, rbt_gpu_lock);

	if (fd >= 0) {
		d->locks.fds[gpu] = fd;
		d->locks.gpus.locked |= UINT32_C(1) << gpu;
		rbt_close(&d->locks.marks[gpu]);
		hand_lock(d, gpu, true);
		return;
	}
	rbt_debug("lock of GPU %s: %s", rbt_gpu_name(node, name), strerror(-fd));
	d->retry_ns = rbt_now_ns() + RETRY_NS;
	if (d->locks.marks[gpu] < 0) {
		d->locks.marks[gpu] = open_node(node, rbt_gpu_mark);
	}
}

void gpulock_take(struct daemon *d, uint32_t wanted)
{
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if ((wanted >> gpu & 1) != 0 && d->locks.fds[gpu] < 0) {
			take_one(d, gpu);
		}
	}
	gpulock_check(d);
}

void gpulock_drop(struct daemon *d, uint32_t wanted)
{
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if ((wanted >> gpu & 1) != 0) {
			continue;
		}
		rbt_close(&d->locks.marks[gpu]);
		if (d->locks.fds[gpu] >= 0) {
			hand_lock(d, gpu, false);
			rbt_close(&d->locks.fds[gpu]);
			d->locks.gpus.locked &= ~(UINT32_C(1) << gpu);
		}
	}
}

void gpulock_check(struct daemon *d)
{
	uint32_t marked = 0;

	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if (d->locks.fds[gpu] >= 0 && rbt_gpu_is_marked(d->locks.fds[gpu])) {
			marked |= UINT32_C(1) << gpu;
		}
	}
	d->dirty = d->dirty || marked != d->locks.gpus.marked;
	d->locks.gpus.marked = marked;
}
