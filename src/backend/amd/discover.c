/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/amd/discover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/device.h"
#include "util/fd.h"
#include "util/proc.h"

#define REFUSED_WAIT_MS 50

static void fill_gpu(const struct rbt_amd_gpu *from, struct rbt_gpu_info *to)
{
	to->gpu = from->number;
	to->valid = RBT_GPU_HAS_PCI;
	memcpy(to->pci, from->pci, sizeof(to->pci));
	if (from->name[0] != '\0') {
		memcpy(to->name, from->name, sizeof(to->name));
		to->valid |= RBT_GPU_HAS_NAME;
	}
	if (from->memory_bytes > 0) {
		to->memory_bytes = from->memory_bytes;
		to->valid |= RBT_GPU_HAS_MEMORY;
	}
}

static void fill_caps(const struct kfd_version *version, const struct rbt_amd_topology *t,
	struct rbt_device_info *info)
{
	bool firmware = true;

	for (uint32_t i = 0; i < t->n; i++) {
		firmware &= (t->gpus[i].capability & KFD_CAP_DEBUG_FIRMWARE) != 0;
	}
	info->caps = RBT_CAP_READ | RBT_CAP_STATS;
	if (!info->driver_known) {
		snprintf(info->why_not, sizeof(info->why_not),
			"KFD %u.%u has no debugger interface (1.%u, Linux 6.5): queues can only be seen",
			version->major, version->minor, KFD_MINOR_DEBUGGER);
	} else if (!firmware) {
		snprintf(info->why_not, sizeof(info->why_not),
			"a GPU's firmware does not support debugging: queues can only be seen");
	} else {
		info->caps |= RBT_CAP_SUSPEND | RBT_CAP_PREEMPT;
		snprintf(info->why_not, sizeof(info->why_not),
			"AMD queues have no timeslice: classes suspend programs, and --timeslice-us is "
			"the length of a turn");
	}
}

int rbt_amd_probe(struct rbt_device_info *ret)
{
	struct rbt_device_info info = {0};
	struct rbt_amd_topology t;
	struct kfd_version version;
	int fd = rbt_amd_open();

	if (fd < 0) {
		return fd;
	}
	int r = rbt_amd_version(fd, &version);
	rbt_close(&fd);
	r = r < 0 ? r : rbt_amd_topology_read(KFD_SYSFS_PATH, &t);
	if (r < 0) {
		return r;
	}
	snprintf(info.driver_version, sizeof(info.driver_version), "%u.%u", version.major,
		version.minor);
	info.driver_known = rbt_amd_can_debug(&version);
	for (uint32_t i = 0; i < t.n && info.n_gpus < RBT_MAX_GPUS; i++) {
		fill_gpu(&t.gpus[i], &info.gpus[info.n_gpus++]);
	}
	fill_caps(&version, &t, &info);
	*ret = info;
	return 0;
}

static int take_fd(pid_t pid, int fd, void *data)
{
	*(int *)data = fd;
	return 1;
}

static void fill_task(pid_t pid, const struct rbt_amd_queue *q, const struct rbt_amd_topology *t,
	uint32_t at, struct rbt_task *ret)
{
	const struct rbt_amd_gpu *gpu = rbt_amd_topology_find(t, q->gpu_id);

	*ret = (struct rbt_task){
		.handle = q->id,
		.subdevice = q->gpu_id,
		.gpu = gpu != NULL ? gpu->number : 0,
		.kind = q->type == KFD_QUEUE_COMPUTE || q->type == KFD_QUEUE_COMPUTE_AQL
				? RBT_TASK_COMPUTE
				: RBT_TASK_COPY,
		/* The pid stands for the runlist, which is not visible: queue ids are unique within
		 * a process. */
		.runlist = (uint32_t)pid,
		.id = q->id,
		.first_channel = at,
		.n_channels = 1,
		.valid = RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID |
			 (gpu != NULL ? RBT_TASK_HAS_GPU : 0),
	};
}

static int fill_record(pid_t pid, const struct rbt_amd_queue *queues, size_t n,
	const struct rbt_amd_topology *t, struct rbt_record *rec)
{
	rec->backend = RBT_BACKEND_AMD;
	rec->client = (uint32_t)pid;
	/* An action reaches all of a program's queues of a kind, so a shortened list loses
	 * nothing. */
	n = n < RBT_RECORD_MAX_TASKS ? n : RBT_RECORD_MAX_TASKS;
	rec->tasks = calloc(n, sizeof(*rec->tasks));
	rec->channels = calloc(n, sizeof(*rec->channels));
	if (rec->tasks == NULL || rec->channels == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		fill_task(pid, &queues[i], t, (uint32_t)i, &rec->tasks[i]);
		rec->channels[i] = queues[i].id;
	}
	rec->n_tasks = rec->n_channels = (uint32_t)n;
	return 0;
}

/* Borrows the program's /dev/kfd. An inherited file will do: it only identifies the program. */
static int borrow_file(pid_t pid, int pidfd, struct rbt_record *rec)
{
	int target_fd = -1;
	int r = rbt_proc_each_fd(pid, KFD_PATH, take_fd, &target_fd);

	if (r != 1) {
		return r == 0 ? -ENXIO : r == -EACCES ? -EPERM : r == -ENOENT ? -ESRCH : r;
	}
	int fd = rbt_pidfd_getfd(pidfd, target_fd);
	if (fd < 0) {
		return fd == -EBADF ? -ENXIO : fd;
	}
	rec->fd = fd;
	rec->target_fd = target_fd;
	return 0;
}

static int discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n)
{
	struct rbt_record *rec = malloc(sizeof(*rec));
	struct rbt_amd_queue *queues = NULL;
	struct rbt_amd_topology t;
	size_t n = 0;

	if (rec == NULL) {
		return -ENOMEM;
	}
	*rec = RBT_RECORD_INIT;
	int r = rbt_pidfd_pid(pidfd) == pid ? 0 : -ESRCH;
	/* Most processes do not use KFD: one check tells. */
	r = r < 0 ? r : rbt_amd_process_exists(KFD_SYSFS_PATH, pid) ? 0 : -ENXIO;
	r = r < 0 ? r : borrow_file(pid, pidfd, rec);
	r = r < 0 ? r : rbt_amd_topology_read(KFD_SYSFS_PATH, &t);
	r = r < 0 ? r : rbt_amd_queues_read(KFD_SYSFS_PATH, pid, &queues, &n);
	if (r == 0) {
		r = n == 0 ? -ENXIO : fill_record(pid, queues, n, &t, rec);
	}
	free(queues);
	/* Data that was read after the process's end may belong to another one. */
	if (rbt_pidfd_pid(pidfd) != pid) {
		r = -ESRCH;
	}
	if (r < 0) {
		rbt_record_finish(rec);
		free(rec);
		return r;
	}
	*ret = rec;
	*ret_n = 1;
	return 0;
}

int rbt_amd_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r = discover(pid, pidfd, ret, ret_n);

	/* A process that is exiting, or in the middle of exec, is refused to its owner. A moment
	 * later it is either gone or accessible again. */
	if (r == -EPERM || r == -EACCES) {
		r = poll(&p, 1, REFUSED_WAIT_MS) == 1 ? -ESRCH : discover(pid, pidfd, ret, ret_n);
	}
	return r;
}

int rbt_amd_complete(struct rbt_record *rec, pid_t pid)
{
	struct rbt_amd_topology t;
	int r = rbt_amd_topology_read(KFD_SYSFS_PATH, &t);

	if (r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		struct rbt_task *task = &rec->tasks[i];
		const struct rbt_amd_gpu *gpu = rbt_amd_topology_find(&t, task->subdevice);

		task->gpu = gpu != NULL ? gpu->number : 0;
		task->runlist = (uint32_t)pid;
		task->valid &= ~(uint32_t)(RBT_TASK_HAS_GPU | RBT_TASK_HAS_OWN_TIMESLICE);
		task->valid |= RBT_TASK_HAS_RUNLIST | (gpu != NULL ? RBT_TASK_HAS_GPU : 0);
	}
	return 0;
}

bool rbt_amd_task_is_in(const struct rbt_record *rec, const struct rbt_task *task,
	const struct rbt_amd_queue *queues, size_t n)
{
	uint32_t id = task->n_channels == 1 && task->first_channel < rec->n_channels
			      ? rec->channels[task->first_channel]
			      : task->handle;

	for (size_t i = 0; i < n; i++) {
		if (queues[i].id == task->handle && queues[i].id == id &&
			queues[i].gpu_id == task->subdevice) {
			return true;
		}
	}
	return false;
}

int rbt_amd_find_task(const struct rbt_record *rec, const struct rbt_task *task)
{
	struct rbt_amd_queue *queues = NULL;
	size_t n = 0;
	int r = rbt_amd_queues_read(KFD_SYSFS_PATH, (pid_t)rec->client, &queues, &n);

	if (r < 0) {
		return r == -ENXIO ? -ENOENT : r;
	}
	bool found = rbt_amd_task_is_in(rec, task, queues, n);
	free(queues);
	return found ? 0 : -ENOENT;
}
