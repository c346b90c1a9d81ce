/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/nvidia/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/nvidia/park.h"
#include "backend/nvidia/rm.h"
#include "backend/nvidia/trial.h"
#include "util/log.h"

static int lock_path(uint32_t gpu, char *buf, size_t size)
{
	int n = snprintf(buf, size, NV_GPU_PATH_FMT, gpu);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int get_timeslice(
	const struct rbt_record *rec, const struct rbt_task *task, uint64_t *ret_us)
{
	struct nv_timeslice_params p = {0};
	int r = rbt_nv_control(
		rec->fd, rec->client, task->handle, NV_CTRL_TSG_GET_TIMESLICE, &p, sizeof(p));

	if (r < 0) {
		return r;
	}
	*ret_us = p.timeslice_us;
	return 0;
}

static int set_timeslice(const struct rbt_record *rec, const struct rbt_task *task, uint64_t us)
{
	struct nv_timeslice_params p = {.timeslice_us = us};

	if (us == 0) {
		return -EINVAL;
	}
	return rbt_nv_control(
		rec->fd, rec->client, task->handle, NV_CTRL_TSG_SET_TIMESLICE, &p, sizeof(p));
}

/* If its client is gone, RM must not be asked again: each query writes a line to the kernel log. */
static int control(const struct rbt_record *rec, uint32_t object, uint32_t cmd, void *params,
	uint32_t size, bool *ret_is_gone)
{
	uint32_t status;
	int r = rbt_nv_control_status(rec->fd, rec->client, object, cmd, params, size, &status);

	if (r < 0) {
		return r;
	}
	*ret_is_gone = status == NV_ERR_INVALID_CLIENT;
	return rbt_nv_status_to_errno(status);
}

/* One walk over a record's channels, and its result. */
struct walk {
	const struct rbt_record *rec;
	bool *is_off; /* of the record's channels; NULL: not known */
	uint32_t subdevice;
	struct nv_disable_channels_params params; /* the batch being filled */
	uint32_t at[NV_DISABLE_CHANNELS_MAX];     /* indices of its channels in the record */
	uint32_t done;                            /* channels that obeyed */
	bool is_gone;                             /* the client is gone, with all of them */
	int error;                                /* 0 if none; see note_error() */
};

static int send_batch(struct walk *w, struct nv_disable_channels_params *p)
{
	return control(
		w->rec, w->subdevice, NV_CTRL_FIFO_DISABLE_CHANNELS, p, sizeof(*p), &w->is_gone);
}

/* Keeps the first error; an error about vanished channels is replaced by any other. */
static void note_error(struct walk *w, int error)
{
	if (w->error == 0 || (w->error == -ENOENT && error != 0)) {
		w->error = error;
	}
}

/* Errors that one channel of a batch can cause for the whole batch. */
static bool may_be_one_channels_fault(int error)
{
	return error == -ENOENT || error == -EINVAL || error == -EBUSY;
}

/* A vanished channel is not off when its handle is reused. */
static void note_done(struct walk *w, uint32_t first, uint32_t count, int error)
{
	w->done += error == 0 ? count : 0;
	for (uint32_t i = first; i < first + count && (error == 0 || error == -ENOENT); i++) {
		if (w->is_off != NULL) {
			w->is_off[w->at[i]] = w->params.disable && error == 0;
		}
	}
}

/* A channel that its program has freed since the record was made must not keep its neighbours from
 * being suspended, and even less from being resumed. So a failed batch is sent again one by one. */
static void flush(struct walk *w)
{
	struct nv_disable_channels_params *p = &w->params;
	uint32_t count = p->count;

	if (count == 0) {
		return;
	}
	int r = w->is_gone ? -ENOENT : send_batch(w, p);
	if (r == 0 || w->is_gone) {
		note_done(w, 0, count, r);
		note_error(w, r);
	} else if (count > 1 && may_be_one_channels_fault(r)) {
		for (uint32_t i = 0; i < count; i++) {
			struct nv_disable_channels_params one = *p;
			one.count = 1;
			one.channel[0] = p->channel[i];
			/* The failed batch may have disabled it, or not. */
			one.disable = false;
			if (p->disable) {
				(void)send_batch(w, &one);
			}
			one.disable = p->disable;
			r = send_batch(w, &one);
			note_done(w, i, 1, r);
			note_error(w, r);
		}
	} else {
		note_done(w, 0, count == 1, r);
		note_error(w, r);
	}
	p->count = 0;
}

/*
 * RM counts: a channel that is disabled twice, in whatever forms, must be enabled twice (H200,
 * 580.159.04: tests/hw/orders). So no channel is disabled twice. Whether a channel is enabled is
 * not queried: one enable too many does no harm, and a scheduler that died may have left it
 * disabled.
 */
static void add_channels(struct walk *w, const struct rbt_task *task)
{
	for (uint32_t i = 0; i < task->n_channels; i++) {
		uint32_t from = task->first_channel + i, at = w->params.count;
		if (w->params.disable && w->is_off != NULL && w->is_off[from]) {
			continue;
		}
		w->params.count++;
		w->at[at] = from;
		w->params.client[at] = w->rec->client;
		w->params.channel[at] = w->rec->channels[from];
		if (w->params.count == NV_DISABLE_CHANNELS_MAX) {
			flush(w);
		}
	}
}

static bool in_scope(const struct rbt_task *task, enum rbt_scope scope)
{
	bool is_compute = task->kind == RBT_TASK_COMPUTE;

	return task->n_channels > 0 &&
	       (scope == RBT_SCOPE_ALL || is_compute == (scope == RBT_SCOPE_COMPUTE));
}

/* A control goes through one subdevice, so tasks are handled subdevice by subdevice, each when its
 * first task comes up. */
static bool subdevice_seen_before(const struct rbt_record *rec, uint32_t at, enum rbt_scope scope)
{
	for (uint32_t i = 0; i < at; i++) {
		if (in_scope(&rec->tasks[i], scope) &&
			rec->tasks[i].subdevice == rec->tasks[at].subdevice) {
			return true;
		}
	}
	return false;
}

/* A task that is being set up is not taken off, because it might never run. It will be taken off
 * after that. */
static bool is_spared(const struct rbt_task *task, bool disable)
{
	return disable && (task->valid & RBT_TASK_IS_NEW) != 0;
}

/* Goes on after an error, so that a resume reaches everything it can. Channels that have gone are
 * no error as long as others obeyed. */
static int switch_channels(
	const struct rbt_record *rec, bool *is_off, enum rbt_scope scope, bool disable, bool only)
{
	struct walk w = {
		.rec = rec,
		.is_off = is_off,
		.params = {.disable = disable, .only_disable_scheduling = only},
	};

	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		if (!in_scope(&rec->tasks[i], scope) || subdevice_seen_before(rec, i, scope)) {
			continue;
		}
		w.subdevice = rec->tasks[i].subdevice;
		if (w.subdevice == 0) {
			note_error(&w, -EOPNOTSUPP);
			continue;
		}
		for (uint32_t j = i; j < rec->n_tasks; j++) {
			if (in_scope(&rec->tasks[j], scope) &&
				rec->tasks[j].subdevice == w.subdevice &&
				!is_spared(&rec->tasks[j], disable)) {
				add_channels(&w, &rec->tasks[j]);
			}
		}
		flush(&w);
	}
	if (w.error == -ENOENT && w.done > 0) {
		rbt_debug("client 0x%x: some channels have gone", rec->client);
		return 0;
	}
	return w.error;
}

static int suspend(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope,
	enum rbt_suspend_mode mode)
{
	return switch_channels(rec, is_off, scope, true, mode == RBT_SUSPEND_SCHEDULING_ONLY);
}

static int resume(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope)
{
	return switch_channels(rec, is_off, scope, false, false);
}

static int set_interleave(const struct rbt_record *rec, const struct rbt_task *task, uint32_t level)
{
	struct nv_interleave_params p = {.level = level};

	if (level > 2) {
		return -EINVAL;
	}
	return rbt_nv_control(rec->fd, rec->client, task->handle, NV_CTRL_TSG_SET_INTERLEAVE_LEVEL,
		&p, sizeof(p));
}

static int preempt(const struct rbt_record *rec, const struct rbt_task *task, uint32_t timeout_us)
{
	struct nv_preempt_params p = {
		.wait = 1,
		.manual_timeout = timeout_us != 0,
		.timeout_us = timeout_us,
	};

	return rbt_nv_control(
		rec->fd, rec->client, task->handle, NV_CTRL_TSG_PREEMPT, &p, sizeof(p));
}

/*
 * A task that was never preempted, and that is kept off ("scheduling only"), does not run again
 * when it is resumed: its channels are enabled and have work, and the device overlooks them (H200,
 * 580.159.04: each time, with PyTorch alone on it). Setting its slice again, even to the same
 * value, brings it back. A preemption with waiting, made while the task has work, also prevents
 * further cases. A preemption without waiting, or before the task's first work, does not.
 */
static int kick(const struct rbt_record *rec, enum rbt_scope scope)
{
	int first = 0;
	bool is_gone = false;

	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		const struct rbt_task *t = &rec->tasks[i];
		struct nv_preempt_params p = {.wait = t->kind == RBT_TASK_COMPUTE};
		uint64_t us;

		if (!in_scope(t, scope)) {
			continue;
		}
		int r = control(rec, t->handle, NV_CTRL_TSG_PREEMPT, &p, sizeof(p), &is_gone);
		if (is_gone) {
			return r;
		}
		int s = get_timeslice(rec, t, &us);
		s = s < 0 ? s : set_timeslice(rec, t, us);
		first = first < 0 ? first : r < 0 ? r : s;
	}
	return first;
}

/* Adds the memory that the program uses on one GPU, if RM knows the pid there. 0 or -errno. */
static int add_memory(
	const struct rbt_record *rec, uint32_t subdevice, pid_t pid, struct rbt_program_stats *sum)
{
	struct nv_pid_info_params p = {.count = 1};

	p.list[0].pid = (uint32_t)pid;
	p.list[0].index = NV_PID_INFO_VIDEO_MEMORY;
	int r = rbt_nv_control(
		rec->fd, rec->client, subdevice, NV_CTRL_GPU_GET_PID_INFO, &p, sizeof(p));
	if (r < 0) {
		return r;
	}
	/* RM knows pids of the first namespace: a program may be unknown to it from inside a
	 * container. */
	if (p.list[0].result == NV_OK) {
		sum->memory_bytes += p.list[0].mem_private + p.list[0].mem_shared_owned;
		sum->valid |= RBT_STATS_HAS_MEMORY;
	}
	return 0;
}

static void add_gpu(const struct rbt_record *rec, uint32_t subdevice, struct rbt_program_stats *sum)
{
	uint64_t bytes;

	if (rbt_nv_memory_size(rec->fd, rec->client, subdevice, &bytes) == 0 &&
		((sum->valid & RBT_STATS_HAS_GPU) == 0 || bytes < sum->gpu_bytes)) {
		sum->gpu_bytes = bytes;
		sum->valid |= RBT_STATS_HAS_GPU;
	}
}

static bool gpu_seen_before(const struct rbt_record *rec, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++) {
		if (rec->tasks[i].subdevice != 0 && rec->tasks[i].gpu == rec->tasks[at].gpu) {
			return true;
		}
	}
	return false;
}

static int stats(const struct rbt_record *rec, pid_t pid, struct rbt_program_stats *ret)
{
	struct rbt_program_stats sum = {0};
	bool any_subdevice = false;

	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		if (rec->tasks[i].subdevice == 0 || gpu_seen_before(rec, i)) {
			continue;
		}
		any_subdevice = true;
		int r = add_memory(rec, rec->tasks[i].subdevice, pid, &sum);
		if (r < 0) {
			return r;
		}
		add_gpu(rec, rec->tasks[i].subdevice, &sum);
	}
	if (!any_subdevice) {
		return -EOPNOTSUPP;
	}
	*ret = sum;
	return 0;
}

static int uuid(const struct rbt_record *rec, uint32_t gpu, char ret[RBT_GPU_UUID_MAX])
{
	struct nv_gid_params p = {0};

	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		const struct rbt_task *t = &rec->tasks[i];
		if (t->subdevice == 0 || t->gpu != gpu || (t->valid & RBT_TASK_HAS_GPU) == 0) {
			continue;
		}
		int r = rbt_nv_control(rec->fd, rec->client, t->subdevice, NV_CTRL_GPU_GET_GID_INFO,
			&p, sizeof(p));
		if (r < 0) {
			return r;
		}
		size_t n = strnlen(p.data, sizeof(p.data));
		if (n == 0 || n >= RBT_GPU_UUID_MAX) {
			return -EBADMSG;
		}
		memcpy(ret, p.data, n);
		ret[n] = '\0';
		return 0;
	}
	return -EOPNOTSUPP;
}

const struct rbt_backend rbt_backend_nvidia = {
	.name = "nvidia",
	.id = RBT_BACKEND_NVIDIA,
	.control_node = NV_CTL_PATH,
	.control_major = NV_CTL_MAJOR,
	.control_minor = NV_CTL_MINOR,
	.has_slices = true,
	.default_slice_us = NV_DEFAULT_COMPUTE_TIMESLICE_US,
	.has_lock = true,
	.acts_by_task = true,
	.probe = rbt_nv_probe,
	.gpu_memory = rbt_nv_gpu_memory,
	.discover = rbt_nv_discover,
	.check_driver = rbt_nv_check_driver,
	.may_write = rbt_nv_may_write,
	.try_out = rbt_nv_try_out,
	.why_not = rbt_nv_why_not,
	.lock_path = lock_path,
	.may_park = rbt_nv_may_park,
	.usage = rbt_nv_usage,
	.free_memory = rbt_nv_free_memory,
	.get_timeslice = get_timeslice,
	.set_timeslice = set_timeslice,
	.suspend = suspend,
	.resume = resume,
	.set_interleave = set_interleave,
	.preempt = preempt,
	.kick = kick,
	.complete = rbt_nv_complete,
	.stats = stats,
	.uuid = uuid,
};
