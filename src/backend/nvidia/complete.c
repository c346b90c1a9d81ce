/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the tasks that a program has named against RM, which knows what exists. Each query costs
 * some 3 µs; a context has four tasks.
 */
#include <errno.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "backend/nvidia/ops.h"
#include "backend/nvidia/rm.h"

struct inquiry {
	const struct rbt_record *rec;
	struct nv_card_info cards[NV_MAX_GPUS];
	uint32_t n_cards, only_minor;
	/* The last subdevice queried: most records have one. */
	uint32_t subdevice, subdevice_parent, gpu;
	bool has_gpu;
};

static int read_cards(struct inquiry *in)
{
	int r = rbt_nv_card_info(in->rec->fd, in->cards);

	for (size_t i = 0; r == 0 && i < NV_MAX_GPUS; i++) {
		if (in->cards[i].valid) {
			in->n_cards++;
			in->only_minor = in->cards[i].minor_number;
		}
	}
	return r;
}

/* 0: none. */
static uint32_t parent_of(const struct inquiry *in, uint32_t object)
{
	uint32_t status, parent = 0;
	int r = rbt_nv_handle_info(
		in->rec->fd, in->rec->client, object, NV_HANDLE_INFO_PARENT, &status, &parent);

	return r == 0 && status == NV_OK ? parent : 0;
}

static void ask_subdevice(struct inquiry *in, uint32_t subdevice)
{
	struct nv_gpu_id_params id = {0};

	if (in->subdevice == subdevice) {
		return;
	}
	in->subdevice = subdevice;
	in->has_gpu = false;
	in->subdevice_parent = parent_of(in, subdevice);
	if (rbt_nv_control(in->rec->fd, in->rec->client, subdevice, NV_CTRL_GPU_GET_ID, &id,
		    sizeof(id)) < 0) {
		return;
	}
	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		if (in->cards[i].valid && in->cards[i].gpu_id == id.gpu_id) {
			in->gpu = in->cards[i].minor_number;
			in->has_gpu = true;
		}
	}
}

/* Finds the GPU through a subdevice of the task's device. Without one, the task can only be on a
 * machine's only GPU. */
static bool find_gpu(struct inquiry *in, struct rbt_task *task)
{
	if (task->subdevice != 0) {
		ask_subdevice(in, task->subdevice);
		if (in->has_gpu && in->subdevice_parent == parent_of(in, task->handle)) {
			task->gpu = in->gpu;
			task->valid |= RBT_TASK_HAS_GPU;
			return true;
		}
	}
	task->subdevice = 0;
	task->gpu = in->only_minor;
	return in->n_cards == 1;
}

static bool is_named_before(const struct rbt_record *rec, uint32_t n, uint32_t handle)
{
	for (uint32_t i = 0; i < n; i++) {
		if (rec->tasks[i].handle == handle) {
			return true;
		}
	}
	return false;
}

/* RM and libcuda never choose a slice shorter or longer than this. Such a slice was set or left
 * behind by a scheduler, or the program lies about it. It is not the program's own, and is not
 * restored. (1000 us is what the shim sets while its daemon is gone.) */
#define SHORTEST_OWN_TIMESLICE_US 1001
#define LONGEST_OWN_TIMESLICE_US  4096

void rbt_nv_check_own_timeslice(struct rbt_task *task)
{
	bool is_compute = task->kind == RBT_TASK_COMPUTE;
	/* Tasks of other kinds have RM's slice: libcuda sets only that of compute tasks. */
	uint64_t shortest_us = is_compute ? SHORTEST_OWN_TIMESLICE_US : NV_DEFAULT_TIMESLICE_US;

	if ((task->valid & RBT_TASK_HAS_OWN_TIMESLICE) != 0 &&
		(task->own_timeslice_us < shortest_us ||
			task->own_timeslice_us > LONGEST_OWN_TIMESLICE_US)) {
		task->own_timeslice_us =
			is_compute ? NV_DEFAULT_COMPUTE_TIMESLICE_US : NV_DEFAULT_TIMESLICE_US;
	}
}

/* 1 for a task, 0 if there is none, or -errno if RM does not answer. */
static int ask_task(struct inquiry *in, struct rbt_task *task)
{
	struct nv_tsg_info_params info = {0};
	int r = rbt_nv_control(in->rec->fd, in->rec->client, task->handle, NV_CTRL_TSG_GET_INFO,
		&info, sizeof(info));

	if (r == 0) {
		task->id = info.tsg_id;
		task->valid |= RBT_TASK_HAS_ID;
		return 1;
	}
	/* -EINVAL and -EOPNOTSUPP: the object is not a task. */
	return r == -ENOENT || r == -EINVAL || r == -EOPNOTSUPP ? 0 : r;
}

int rbt_nv_complete(struct rbt_record *rec, pid_t pid)
{
	struct inquiry in = {.rec = rec};
	uint32_t kept = 0;
	uint32_t status = NV_OK, hclass;

	if (rec->n_tasks == 0) {
		return 0;
	}
	/* Queried first, and once: each query to an absent client writes a line to the kernel
	 * log. */
	int r = rbt_nv_handle_info(
		rec->fd, rec->client, rec->client, NV_HANDLE_INFO_CLASS, &status, &hclass);
	r = r == 0 ? read_cards(&in) : r;
	if (r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < rec->n_tasks && status != NV_ERR_INVALID_CLIENT; i++) {
		struct rbt_task task = rec->tasks[i];
		r = is_named_before(rec, kept, task.handle) ? 0 : ask_task(&in, &task);
		if (r == 0) {
			continue;
		}
		if (r > 0 && find_gpu(&in, &task)) {
			rbt_nv_check_own_timeslice(&task);
			rec->tasks[kept++] = task;
		} else {
			rec->flags |= RBT_RECORD_PARTIAL;
		}
	}
	rec->n_tasks = kept;
	/* A client that does not exist has no missing tasks, whatever its program has said. */
	rec->flags &= status == NV_ERR_INVALID_CLIENT ? ~(uint32_t)RBT_RECORD_PARTIAL : ~0u;
	return 0;
}
