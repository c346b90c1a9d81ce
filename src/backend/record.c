/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN_VALID_BITS                                                                           \
	(RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID | RBT_TASK_HAS_GPU | RBT_TASK_HAS_OWN_TIMESLICE |  \
		RBT_TASK_HAS_CREATOR | RBT_TASK_IS_NEW)

void rbt_record_finish(struct rbt_record *rec)
{
	if (rec == NULL) {
		return;
	}
	free(rec->tasks);
	free(rec->channels);
	free(rec->is_off);
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

int rbt_record_note_off(struct rbt_record *rec)
{
	if (rec->is_off == NULL && rec->n_channels > 0) {
		rec->is_off = calloc(rec->n_channels, sizeof(*rec->is_off));
	}
	return rec->is_off == NULL && rec->n_channels > 0 ? -ENOMEM : 0;
}

int rbt_record_mark_off(struct rbt_record *rec)
{
	int r = rbt_record_note_off(rec);

	for (uint32_t i = 0; r == 0 && i < rec->n_channels; i++) {
		rec->is_off[i] = true;
	}
	return r;
}

/* The same object, as far as is known: a handle may be used again. */
static bool is_same_task(const struct rbt_task *a, const struct rbt_task *b)
{
	uint32_t both = a->valid & b->valid;

	return a->handle == b->handle && a->gpu == b->gpu &&
	       ((both & RBT_TASK_HAS_RUNLIST) == 0 || a->runlist == b->runlist) &&
	       ((both & RBT_TASK_HAS_ID) == 0 || a->id == b->id);
}

/* Its task in an older record, mostly at the same place; NULL if there was none. */
static const struct rbt_task *find_task(
	const struct rbt_record *before, const struct rbt_task *task, uint32_t at)
{
	if (at < before->n_tasks && is_same_task(&before->tasks[at], task)) {
		return &before->tasks[at];
	}
	for (uint32_t i = 0; i < before->n_tasks; i++) {
		if (is_same_task(&before->tasks[i], task)) {
			return &before->tasks[i];
		}
	}
	return NULL;
}

/* So is a channel within its task. */
static bool was_off(
	const struct rbt_record *before, const struct rbt_task *t, uint32_t channel, uint32_t at)
{
	const uint32_t *channels = &before->channels[t->first_channel];

	for (uint32_t i = at < t->n_channels && channels[at] == channel ? at : 0; i < t->n_channels;
		i++) {
		if (channels[i] == channel) {
			return before->is_off[t->first_channel + i];
		}
	}
	return false;
}

int rbt_record_inherit_off(struct rbt_record *rec, const struct rbt_record *before)
{
	int r = before->is_off != NULL ? rbt_record_note_off(rec) : 0;

	if (before->is_off == NULL || r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		const struct rbt_task *task = &rec->tasks[i], *t = find_task(before, task, i);
		for (uint32_t j = 0; t != NULL && j < task->n_channels; j++) {
			uint32_t at = task->first_channel + j;
			rec->is_off[at] = was_off(before, t, rec->channels[at], j);
		}
	}
	return 0;
}

/* By its handle alone: one that is another's by now has gone. */
static const struct rbt_task *find_handle(
	const struct rbt_record *rec, uint32_t handle, uint32_t at)
{
	if (at < rec->n_tasks && rec->tasks[at].handle == handle) {
		return &rec->tasks[at];
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		if (rec->tasks[i].handle == handle) {
			return &rec->tasks[i];
		}
	}
	return NULL;
}

static bool has_channel(
	const struct rbt_record *rec, const struct rbt_task *t, uint32_t channel, uint32_t at)
{
	const uint32_t *channels = &rec->channels[t->first_channel];

	for (uint32_t i = at < t->n_channels && channels[at] == channel ? at : 0; i < t->n_channels;
		i++) {
		if (channels[i] == channel) {
			return true;
		}
	}
	return false;
}

/* Of this task's channels, those that it does not have in rec, where it is `named`. */
static void subtract_channels(struct rbt_record *before, struct rbt_task *task,
	const struct rbt_record *rec, const struct rbt_task *named)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < task->n_channels; i++) {
		uint32_t from = task->first_channel + i, to = task->first_channel + n;
		if (has_channel(rec, named, before->channels[from], i)) {
			continue;
		}
		before->channels[to] = before->channels[from];
		if (before->is_off != NULL) {
			before->is_off[to] = before->is_off[from];
		}
		n++;
	}
	task->n_channels = n;
	task->valid &= ~(uint32_t)RBT_TASK_HAS_OWN_TIMESLICE;
}

void rbt_record_subtract(struct rbt_record *before, const struct rbt_record *rec)
{
	bool is_partial = (rec->flags & RBT_RECORD_PARTIAL) != 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < before->n_tasks; i++) {
		struct rbt_task task = before->tasks[i];
		const struct rbt_task *named = find_handle(rec, task.handle, i);
		if (named != NULL && is_partial) {
			subtract_channels(before, &task, rec, named);
		}
		if (named == NULL || (is_partial && task.n_channels > 0)) {
			before->tasks[n++] = task;
		}
	}
	before->n_tasks = n;
}

static int grow_array(void *array, size_t n, size_t size)
{
	void *old, *grown;

	memcpy(&old, array, sizeof(old));
	grown = n > 0 ? realloc(old, n * size) : old;
	if (n > 0 && grown == NULL) {
		return -ENOMEM;
	}
	memcpy(array, &grown, sizeof(grown));
	return 0;
}

int rbt_record_append(struct rbt_record *rec, const struct rbt_record *more)
{
	size_t n = (size_t)rec->n_channels + more->n_channels;

	if ((more->is_off != NULL && rbt_record_note_off(rec) < 0) ||
		grow_array(&rec->tasks, (size_t)rec->n_tasks + more->n_tasks, sizeof(*rec->tasks)) <
			0 ||
		grow_array(&rec->channels, n, sizeof(*rec->channels)) < 0 ||
		((rec->is_off != NULL || more->is_off != NULL) &&
			grow_array(&rec->is_off, n, sizeof(*rec->is_off)) < 0)) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < more->n_tasks; i++) {
		struct rbt_task task = more->tasks[i];
		if (rec->n_tasks == RBT_RECORD_MAX_TASKS ||
			task.n_channels > RBT_RECORD_MAX_CHANNELS - rec->n_channels) {
			continue;
		}
		for (uint32_t j = 0; j < task.n_channels; j++) {
			uint32_t from = task.first_channel + j, to = rec->n_channels + j;
			rec->channels[to] = more->channels[from];
			if (rec->is_off != NULL) {
				rec->is_off[to] = more->is_off != NULL && more->is_off[from];
			}
		}
		task.first_channel = rec->n_channels;
		rec->n_channels += task.n_channels;
		rec->tasks[rec->n_tasks++] = task;
	}
	return 0;
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
