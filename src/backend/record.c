/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN_VALID_BITS                                                                           \
	(RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID | RBT_TASK_HAS_GPU | RBT_TASK_HAS_OWN_TIMESLICE |  \
		RBT_TASK_HAS_CREATOR | RBT_TASK_IS_NEW | RBT_TASK_HAS_SETTINGS)

void rbt_record_finish(struct rbt_record *rec)
{
	if (rec == NULL) {
		return;
	}
	free(rec->tasks);
	free(rec->channels);
	if (rec->fd >= 0) {
		int saved_errno = errno;
		close(rec->fd);
		errno = saved_errno;
	}
	*rec = RBT_RECORD_INIT;
}

uint64_t rbt_task_runlists(const struct rbt_task *task)
{
	bool is_known = (task->valid & RBT_TASK_HAS_RUNLIST) != 0 && task->runlist < 64;

	return is_known ? UINT64_C(1) << task->runlist : 0;
}

uint32_t rbt_task_serial(const struct rbt_task *task)
{
	return (task->valid & RBT_TASK_HAS_SETTINGS) != 0 ? task->serial : 0;
}

const struct rbt_task *rbt_record_find_task(const struct rbt_record *rec, uint32_t handle)
{
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		if (rec->tasks[i].handle == handle) {
			return &rec->tasks[i];
		}
	}
	return NULL;
}

bool rbt_record_has_task(const struct rbt_record *rec, uint32_t handle)
{
	return rbt_record_find_task(rec, handle) != NULL;
}

bool rbt_task_is_same(const struct rbt_task *a, const struct rbt_task *b)
{
	uint32_t both = a->valid & b->valid;

	return a->handle == b->handle && a->gpu == b->gpu &&
	       ((both & RBT_TASK_HAS_RUNLIST) == 0 || a->runlist == b->runlist) &&
	       ((both & RBT_TASK_HAS_ID) == 0 || a->id == b->id);
}

bool rbt_record_is_new(const struct rbt_record *rec)
{
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		if (rec->tasks[i].kind == RBT_TASK_COMPUTE &&
			(rec->tasks[i].valid & RBT_TASK_IS_NEW) != 0) {
			return true;
		}
	}
	return false;
}

void rbt_record_make_old(struct rbt_record *rec)
{
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		rec->tasks[i].valid &= ~(uint32_t)RBT_TASK_IS_NEW;
	}
}

/* Marks the task's channels as taken; false when the range leaves the record or meets another
 * task's. */
static int take_channels(const struct rbt_record *rec, const struct rbt_task *task, uint8_t *taken)
{
	if (task->first_channel > rec->n_channels ||
		task->n_channels > rec->n_channels - task->first_channel) {
		return 0;
	}
	for (uint32_t i = 0; i < task->n_channels; i++) {
		if (taken[task->first_channel + i]) {
			return 0;
		}
		taken[task->first_channel + i] = 1;
	}
	return 1;
}

int rbt_record_check(const struct rbt_record *rec)
{
	uint8_t taken[RBT_RECORD_MAX_CHANNELS] = {0};

	if (rec->n_tasks > RBT_RECORD_MAX_TASKS || rec->n_channels > RBT_RECORD_MAX_CHANNELS ||
		(rec->flags & ~(uint32_t)(RBT_RECORD_PARTIAL | RBT_RECORD_AGENT)) != 0) {
		return -EBADMSG;
	}
	if ((rec->n_tasks > 0 && rec->tasks == NULL) ||
		(rec->n_channels > 0 && rec->channels == NULL)) {
		return -EBADMSG;
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		const struct rbt_task *task = &rec->tasks[i];
		if (task->kind > RBT_TASK_OTHER ||
			(task->valid & ~(uint32_t)KNOWN_VALID_BITS) != 0 ||
			!take_channels(rec, task, taken)) {
			return -EBADMSG;
		}
	}
	return 0;
}
