/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nvidia/classify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/nvidia/ops.h"
#include "backend/nvidia/rm.h"

/* Handles that are always queried, whether the scan saw them or not: contexts are made early, so
 * their handles are low. A query costs 3 µs, and one about an absent handle writes no log line. */
#define DENSE_HANDLES 0x1000u
/* This many absent handles in a row end the dense range: 3 ms instead of 12. */
#define DENSE_GAP 0x400u
/* The most queries about handles that only the scan saw. */
#define MAX_SCANNED 4096
/* RM gives out handles in order, so a context's handles lie together. Around each relevant object,
 * this many handles are queried on either side, because the scan may have seen only some. */
#define SURROUNDINGS 64u
/* The limit for all queries together, which take some 50 ms. */
#define MAX_QUESTIONS 16384
#define MAX_OBJECTS   MAX_QUESTIONS

struct object {
	uint32_t handle, hclass, parent;
};

struct objects {
	int fd;
	uint32_t client;
	uint32_t questions;
	uint64_t *asked; /* owned; one bit per handle number */
	size_t n;
	struct object list[MAX_OBJECTS];
};

int rbt_nv_client_is_here(int fd, uint32_t client)
{
	uint32_t status, hclass;
	int r = rbt_nv_handle_info(fd, client, client, NV_HANDLE_INFO_CLASS, &status, &hclass);

	if (r < 0) {
		return r;
	}
	/* The client exists if it answers, even if it does not know itself as an object. */
	return status == NV_OK || status == NV_ERR_OBJECT_NOT_FOUND;
}

static bool is_wanted(uint32_t hclass)
{
	return hclass == NV_CLASS_TSG || hclass == NV_CLASS_SUBDEVICE ||
	       nv_class_is_channel(hclass) || nv_class_is_compute(hclass) ||
	       nv_class_is_copy(hclass);
}

/* Whether the handle has not been queried yet; it counts as queried from then on. */
static bool is_new_question(struct objects *objs, uint32_t handle)
{
	uint32_t n = handle & ~NV_OBJECT_HANDLE_MASK;

	if ((objs->asked[n / 64] >> (n % 64)) & 1 || objs->questions == MAX_QUESTIONS) {
		return false;
	}
	objs->asked[n / 64] |= 1ull << (n % 64);
	objs->questions++;
	return true;
}

/* 1 if the handle is an object's, 0 if not (or queried before), or -errno. Keeps relevant
 * objects. */
static int ask(struct objects *objs, uint32_t handle)
{
	struct object o = {.handle = handle};
	uint32_t status;

	if (!is_new_question(objs, handle)) {
		return 0;
	}
	int r = rbt_nv_handle_info(
		objs->fd, objs->client, handle, NV_HANDLE_INFO_CLASS, &status, &o.hclass);
	if (r < 0) {
		return r;
	}
	if (status != NV_OK) {
		/* If the client vanishes meanwhile, thousands of further queries must not
		 * follow. */
		return status == NV_ERR_INVALID_CLIENT ? -ENXIO : 0;
	}
	if (!is_wanted(o.hclass)) {
		return 1;
	}
	r = rbt_nv_handle_info(
		objs->fd, objs->client, handle, NV_HANDLE_INFO_PARENT, &status, &o.parent);
	if (r < 0) {
		return r;
	}
	if (status == NV_OK) {
		objs->list[objs->n++] = o;
	}
	return 1;
}

static int ask_scanned(struct objects *objs, const struct rbt_nv_scan *scan)
{
	uint32_t *scanned = malloc(MAX_SCANNED * sizeof(*scanned));
	int r = 0;

	if (scanned == NULL) {
		return -ENOMEM;
	}
	size_t n = rbt_nv_scan_objects(scan, NV_OBJECT_HANDLE_BASE, scanned, MAX_SCANNED);
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = ask(objs, scanned[i]);
	}
	free(scanned);
	return r < 0 ? r : 0;
}

/* The list grows while it is walked: new objects have surroundings too. */
static int ask_surroundings(struct objects *objs)
{
	for (size_t i = 0; i < objs->n; i++) {
		uint32_t at = objs->list[i].handle & ~NV_OBJECT_HANDLE_MASK;
		uint32_t from = at < SURROUNDINGS ? 0 : at - SURROUNDINGS;
		uint32_t to = at + SURROUNDINGS;
		for (uint32_t n = from; n <= to && n <= ~NV_OBJECT_HANDLE_MASK; n++) {
			int r = ask(objs, NV_OBJECT_HANDLE_BASE + n);
			if (r < 0) {
				return r;
			}
		}
	}
	return 0;
}

static int collect(struct objects *objs, const struct rbt_nv_scan *scan)
{
	uint32_t absent = 0;

	for (uint32_t n = 0; n < DENSE_HANDLES && absent < DENSE_GAP; n++) {
		int r = ask(objs, NV_OBJECT_HANDLE_BASE + n);
		if (r < 0) {
			return r;
		}
		absent = r == 1 ? 0 : absent + 1;
	}
	int r = ask_scanned(objs, scan);
	return r < 0 ? r : ask_surroundings(objs);
}

static uint32_t subdevice_of(const struct objects *objs, uint32_t device)
{
	for (size_t i = 0; i < objs->n; i++) {
		if (objs->list[i].hclass == NV_CLASS_SUBDEVICE && objs->list[i].parent == device) {
			return objs->list[i].handle;
		}
	}
	return 0;
}

/* Engine objects are below their channels. Compute groups of libcuda also have copy engines, so one
 * compute engine decides. */
static enum rbt_task_kind kind_of(const struct objects *objs, const uint32_t *channels, size_t n)
{
	enum rbt_task_kind kind = RBT_TASK_OTHER;

	for (size_t i = 0; i < objs->n; i++) {
		const struct object *o = &objs->list[i];
		bool compute = nv_class_is_compute(o->hclass);
		if (!compute && !nv_class_is_copy(o->hclass)) {
			continue;
		}
		for (size_t c = 0; c < n; c++) {
			if (channels[c] == o->parent) {
				if (compute) {
					return RBT_TASK_COMPUTE;
				}
				kind = RBT_TASK_COPY;
			}
		}
	}
	return kind;
}

static void read_identity(
	const struct objects *objs, struct rbt_task *task, uint32_t channel, uint32_t channel_class)
{
	struct nv_tsg_info_params info = {0};
	struct nv_token_params token = {0};

	if (rbt_nv_control(objs->fd, objs->client, task->handle, NV_CTRL_TSG_GET_INFO, &info,
		    sizeof(info)) == 0) {
		task->id = info.tsg_id;
		task->valid |= RBT_TASK_HAS_ID;
	}
	if (channel != 0 && channel_class >= NV_CLASS_CHANNEL_AMPERE &&
		rbt_nv_control(objs->fd, objs->client, channel,
			NV_CTRL_CHANNEL_GET_WORK_SUBMIT_TOKEN, &token, sizeof(token)) == 0) {
		task->runlist = NV_TOKEN_RUNLIST(token.token);
		task->valid |= RBT_TASK_HAS_RUNLIST;
	}
}

static void read_gpu(
	const struct objects *objs, struct rbt_task *task, const struct nv_card_info *cards)
{
	struct nv_gpu_id_params id = {0};

	if (task->subdevice == 0 || rbt_nv_control(objs->fd, objs->client, task->subdevice,
					    NV_CTRL_GPU_GET_ID, &id, sizeof(id)) < 0) {
		return;
	}
	for (size_t i = 0; i < NV_MAX_GPUS; i++) {
		if (cards[i].valid && cards[i].gpu_id == id.gpu_id) {
			task->gpu = cards[i].minor_number;
			task->valid |= RBT_TASK_HAS_GPU;
			return;
		}
	}
}

static void read_timeslice(const struct objects *objs, struct rbt_task *task)
{
	struct nv_timeslice_params slice = {0};

	if (rbt_nv_control(objs->fd, objs->client, task->handle, NV_CTRL_TSG_GET_TIMESLICE, &slice,
		    sizeof(slice)) < 0) {
		return;
	}
	task->own_timeslice_us = slice.timeslice_us;
	/* Setting the slice is the last thing that libcuda does to a compute task. */
	if (task->kind == RBT_TASK_COMPUTE && slice.timeslice_us == NV_DEFAULT_TIMESLICE_US) {
		task->valid |= RBT_TASK_IS_NEW;
	}
	task->valid |= RBT_TASK_HAS_OWN_TIMESLICE;
	rbt_nv_check_own_timeslice(task);
}

/* Tasks beyond the record's room are left out, and the record is marked as partial. */
static void add_task(const struct objects *objs, const struct object *tsg,
	const struct nv_card_info *cards, struct rbt_record *rec)
{
	uint32_t first_class = 0;

	if (rec->n_tasks == RBT_RECORD_MAX_TASKS) {
		rec->flags |= RBT_RECORD_PARTIAL;
		return;
	}
	struct rbt_task *task = &rec->tasks[rec->n_tasks];
	*task = (struct rbt_task){.handle = tsg->handle, .first_channel = rec->n_channels};
	for (size_t i = 0; i < objs->n; i++) {
		const struct object *o = &objs->list[i];
		if (o->parent != tsg->handle || !nv_class_is_channel(o->hclass)) {
			continue;
		}
		if (rec->n_channels == RBT_RECORD_MAX_CHANNELS) {
			rec->flags |= RBT_RECORD_PARTIAL;
			break;
		}
		first_class = first_class == 0 ? o->hclass : first_class;
		rec->channels[rec->n_channels++] = o->handle;
		task->n_channels++;
	}
	const uint32_t *channels = &rec->channels[task->first_channel];
	task->subdevice = subdevice_of(objs, tsg->parent);
	task->kind = kind_of(objs, channels, task->n_channels);
	read_identity(objs, task, task->n_channels > 0 ? channels[0] : 0, first_class);
	read_gpu(objs, task, cards);
	read_timeslice(objs, task);
	rec->n_tasks++;
}

static int compare_objects(const void *pa, const void *pb)
{
	const struct object *a = pa, *b = pb;

	return a->handle < b->handle ? -1 : a->handle > b->handle;
}

static int build(struct objects *objs, const struct nv_card_info *cards, struct rbt_record *rec)
{
	rec->tasks = calloc(RBT_RECORD_MAX_TASKS, sizeof(*rec->tasks));
	rec->channels = calloc(RBT_RECORD_MAX_CHANNELS, sizeof(*rec->channels));
	if (rec->tasks == NULL || rec->channels == NULL) {
		return -ENOMEM;
	}
	qsort(objs->list, objs->n, sizeof(objs->list[0]), compare_objects);
	for (size_t i = 0; i < objs->n; i++) {
		if (objs->list[i].hclass == NV_CLASS_TSG) {
			add_task(objs, &objs->list[i], cards, rec);
		}
	}
	return rec->n_tasks > 0 ? 0 : -ENXIO;
}

int rbt_nv_classify(int fd, uint32_t client, const struct rbt_nv_scan *scan,
	const struct nv_card_info *cards, struct rbt_record *ret)
{
	struct rbt_record rec = RBT_RECORD_INIT;
	struct objects *objs = malloc(sizeof(*objs));

	if (objs == NULL) {
		return -ENOMEM;
	}
	objs->fd = fd;
	objs->client = client;
	objs->questions = 0;
	objs->n = 0;
	objs->asked = calloc((~NV_OBJECT_HANDLE_MASK + 1) / 64, sizeof(*objs->asked));
	rec.backend = RBT_BACKEND_NVIDIA;
	rec.client = client;
	int r = objs->asked == NULL ? -ENOMEM : collect(objs, scan);
	if (r == 0) {
		r = build(objs, cards, &rec);
	}
	free(objs->asked);
	free(objs);
	if (r < 0) {
		rbt_record_finish(&rec);
		return r;
	}
	*ret = rec;
	return 0;
}
