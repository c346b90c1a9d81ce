/* SPDX-License-Identifier: Apache-2.0 */
#include "act/replace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rbt_holding_make_room(struct rbt_holding *h)
{
	uint32_t n = h->rec.n_channels;

	if (h->channel_off == NULL && n > 0) {
		h->channel_off = calloc(n, sizeof(*h->channel_off));
	}
	return h->channel_off == NULL && n > 0 ? -ENOMEM : 0;
}

int rbt_holding_mark_channels(struct rbt_holding *h)
{
	int r = rbt_holding_make_room(h);

	for (uint32_t i = 0; r == 0 && i < h->rec.n_channels; i++) {
		h->channel_off[i] = true;
	}
	return r;
}

/* Finds the task in an older record, where it usually has the same position. Returns NULL if it is
 * not there. */
static const struct rbt_task *find_task(
	const struct rbt_record *before, const struct rbt_task *task, uint32_t at)
{
	if (at < before->n_tasks && rbt_task_is_same(&before->tasks[at], task)) {
		return &before->tasks[at];
	}
	for (uint32_t i = 0; i < before->n_tasks; i++) {
		if (rbt_task_is_same(&before->tasks[i], task)) {
			return &before->tasks[i];
		}
	}
	return NULL;
}

#define NOWHERE UINT32_MAX

/* Finds the position of a channel in its record. The channel is usually at `at` within its task. */
static uint32_t find_channel(
	const struct rbt_record *rec, const struct rbt_task *t, uint32_t channel, uint32_t at)
{
	uint32_t first = t->first_channel, end = first + t->n_channels;

	if (at < t->n_channels && rec->channels[first + at] == channel) {
		return first + at;
	}
	for (uint32_t i = first; i < end; i++) {
		if (rec->channels[i] == channel) {
			return i;
		}
	}
	return NOWHERE;
}

int rbt_holding_inherit_off(struct rbt_holding *next, const struct rbt_holding *before)
{
	int r = before->channel_off != NULL ? rbt_holding_make_room(next) : 0;

	if (before->channel_off == NULL || r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < next->rec.n_tasks; i++) {
		const struct rbt_task *task = &next->rec.tasks[i];
		const struct rbt_task *t = find_task(&before->rec, task, i);
		for (uint32_t j = 0; t != NULL && j < task->n_channels; j++) {
			uint32_t at = task->first_channel + j;
			uint32_t was = find_channel(&before->rec, t, next->rec.channels[at], j);
			next->channel_off[at] = was != NOWHERE && before->channel_off[was];
		}
	}
	return 0;
}

/* Compares only handles: if a handle belongs to another task by now, the old task is gone. */
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

/* Leaves only those channels of the task that the same task (`named`) does not have in `rec`. */
static void subtract_channels(struct rbt_holding *before, struct rbt_task *task,
	const struct rbt_record *rec, const struct rbt_task *named)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < task->n_channels; i++) {
		uint32_t from = task->first_channel + i, to = task->first_channel + n;
		if (find_channel(rec, named, before->rec.channels[from], i) != NOWHERE) {
			continue;
		}
		before->rec.channels[to] = before->rec.channels[from];
		if (before->channel_off != NULL) {
			before->channel_off[to] = before->channel_off[from];
		}
		n++;
	}
	task->n_channels = n;
	task->valid &= ~(uint32_t)RBT_TASK_HAS_OWN_TIMESLICE;
}

void rbt_holding_subtract(struct rbt_holding *before, const struct rbt_record *rec)
{
	bool is_partial = (rec->flags & RBT_RECORD_PARTIAL) != 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < before->rec.n_tasks; i++) {
		struct rbt_task task = before->rec.tasks[i];
		const struct rbt_task *named = find_handle(rec, task.handle, i);
		if (named != NULL && is_partial) {
			subtract_channels(before, &task, rec, named);
		}
		if (named == NULL || (is_partial && task.n_channels > 0)) {
			before->rec.tasks[n++] = task;
		}
	}
	before->rec.n_tasks = n;
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

/* Makes room for the tasks and channels of `more`. Returns 0 or -ENOMEM. */
static int make_room_for(struct rbt_holding *h, const struct rbt_holding *more)
{
	struct rbt_record *rec = &h->rec;
	size_t n_tasks = (size_t)rec->n_tasks + more->rec.n_tasks;
	size_t n = (size_t)rec->n_channels + more->rec.n_channels;

	if ((more->channel_off != NULL && rbt_holding_make_room(h) < 0) ||
		grow_array(&rec->tasks, n_tasks, sizeof(*rec->tasks)) < 0 ||
		grow_array(&rec->channels, n, sizeof(*rec->channels)) < 0) {
		return -ENOMEM;
	}
	return h->channel_off != NULL || more->channel_off != NULL
		       ? grow_array(&h->channel_off, n, sizeof(*h->channel_off))
		       : 0;
}

int rbt_holding_append(struct rbt_holding *h, const struct rbt_holding *more)
{
	struct rbt_record *rec = &h->rec;

	if (make_room_for(h, more) < 0) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < more->rec.n_tasks; i++) {
		struct rbt_task task = more->rec.tasks[i];
		if (rec->n_tasks == RBT_RECORD_MAX_TASKS ||
			task.n_channels > RBT_RECORD_MAX_CHANNELS - rec->n_channels) {
			continue;
		}
		for (uint32_t j = 0; j < task.n_channels; j++) {
			uint32_t from = task.first_channel + j, to = rec->n_channels + j;
			rec->channels[to] = more->rec.channels[from];
			if (h->channel_off != NULL) {
				h->channel_off[to] =
					more->channel_off != NULL && more->channel_off[from];
			}
		}
		task.first_channel = rec->n_channels;
		rec->n_channels += task.n_channels;
		rec->tasks[rec->n_tasks++] = task;
	}
	return 0;
}
