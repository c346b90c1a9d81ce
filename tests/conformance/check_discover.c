/* SPDX-License-Identifier: Apache-2.0 */
/* Probe and discover: what is found, and that it holds together. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"
#include "util/proc.h"
#include "util/time.h"

void check_probe(struct context *ctx)
{
	const struct rbt_backend *be = ctx->opt.backend;
	size_t before = open_fds();
	char path[64];

	if (!expect("probe", be->probe(&ctx->device), 0)) {
		return;
	}
	if (ctx->device.n_gpus == 0 || ctx->device.n_gpus > RBT_MAX_GPUS) {
		fail("probe-gpus", "%u GPUs", ctx->device.n_gpus);
	} else {
		ok("probe-gpus");
	}
	if (ctx->device.driver_version[0] < '0' || ctx->device.driver_version[0] > '9') {
		fail("probe-version", "\"%s\"", ctx->device.driver_version);
	} else {
		ok("probe-version");
	}
	expect("probe-driver", be->check_driver(), ctx->device.driver_known ? 0 : -EPROTONOSUPPORT);
	/* An unknown driver that can be tried behaves like a known one here. */
	for (uint32_t cap = RBT_CAP_TIMESLICE; cap <= RBT_CAP_SUSPEND; cap <<= 1) {
		expect("probe-may-write", be->may_write(cap, false),
			ctx->device.driver_known || be->try_out != NULL ? 0 : -EPROTONOSUPPORT);
		expect("probe-may-write-forced", be->may_write(cap, true), 0);
	}
	if (!be->has_lock) {
		skip("probe-lock-path", "this backend has no lock");
	}
	for (uint32_t i = 0; be->has_lock && i < ctx->device.n_gpus; i++) {
		int fd = be->lock_path(ctx->device.gpus[i].gpu, path, sizeof(path)) == 0
				 ? open(path, O_RDONLY | O_CLOEXEC)
				 : -1;
		if (fd < 0) {
			fail("probe-lock-path", "GPU %u: cannot open its node",
				ctx->device.gpus[i].gpu);
		} else {
			ok("probe-lock-path");
			close(fd);
		}
	}
	expect("probe-leaks-no-fd", (int)open_fds() - (int)before, 0);
}

static bool gpu_is_known(const struct context *ctx, uint32_t gpu)
{
	for (uint32_t i = 0; i < ctx->device.n_gpus; i++) {
		if (ctx->device.gpus[i].gpu == gpu) {
			return true;
		}
	}
	return false;
}

#define HAS_ALL                                                                                    \
	(RBT_TASK_HAS_RUNLIST | RBT_TASK_HAS_ID | RBT_TASK_HAS_GPU | RBT_TASK_HAS_OWN_TIMESLICE)

static void check_task(const struct context *ctx, const struct rbt_task *task)
{
	/* A device without slices says so in its capabilities. */
	bool slices = (task->valid & RBT_TASK_HAS_OWN_TIMESLICE) != 0;
	uint32_t wanted = ctx->device.caps & RBT_CAP_TIMESLICE
				  ? HAS_ALL
				  : HAS_ALL & ~(uint32_t)RBT_TASK_HAS_OWN_TIMESLICE;

	if ((task->valid & wanted) != wanted) {
		fail("discover-task", "0x%x: identity not known (valid 0x%x)", task->handle,
			task->valid);
	} else if (!gpu_is_known(ctx, task->gpu)) {
		fail("discover-task", "0x%x: GPU %u is not one that probe found", task->handle,
			task->gpu);
	} else if (task->n_channels == 0 || task->subdevice == 0) {
		fail("discover-task", "0x%x: %u channels, subdevice 0x%x", task->handle,
			task->n_channels, task->subdevice);
	} else if (slices && task->own_timeslice_us < 1000) {
		fail("discover-task", "0x%x: own timeslice %" PRIu64 " us", task->handle,
			task->own_timeslice_us);
	} else {
		ok("discover-task");
	}
}

/* Two tasks with the same identity would be taken for one. */
static bool is_twice(const struct rbt_record *rec, uint32_t at)
{
	const struct rbt_task *a = &rec->tasks[at];

	for (uint32_t i = 0; i < at; i++) {
		const struct rbt_task *b = &rec->tasks[i];
		if (a->handle == b->handle ||
			(a->gpu == b->gpu && a->runlist == b->runlist && a->id == b->id)) {
			return true;
		}
	}
	return false;
}

static void check_record(const struct context *ctx, const struct rbt_record *rec)
{
	bool twice = false;

	expect("discover-record-holds-together", rbt_record_check(rec), 0);
	if (rec->backend != (uint32_t)ctx->opt.backend->id || rec->client == 0 ||
		rec->target_fd < 0 || (fcntl(rec->fd, F_GETFD) & FD_CLOEXEC) == 0) {
		fail("discover-record", "backend %u, client 0x%x, fd %d of the program's %d",
			rec->backend, rec->client, rec->fd, rec->target_fd);
	} else {
		ok("discover-record");
	}
	int same = rbt_same_file(getpid(), rec->fd, ctx->pid, rec->target_fd);
	if (same == -EPERM || same == -ENOSYS) {
		skip("discover-same-file", "files cannot be compared here");
	} else {
		expect("discover-same-file", same == 1 ? 0 : same < 0 ? same : -EBADF, 0);
	}
	for (uint32_t t = 0; t < rec->n_tasks; t++) {
		check_task(ctx, &rec->tasks[t]);
		twice |= is_twice(rec, t);
	}
	expect("discover-identities-are-unique", twice ? -EEXIST : 0, 0);
}

static void check_counts(const struct context *ctx)
{
	uint64_t tasks = 0, channels = 0, compute = 0, copy = 0;

	for (size_t i = 0; i < ctx->n_records; i++) {
		tasks += ctx->records[i].n_tasks;
		channels += ctx->records[i].n_channels;
		for (uint32_t t = 0; t < ctx->records[i].n_tasks; t++) {
			compute += ctx->records[i].tasks[t].kind == RBT_TASK_COMPUTE;
			copy += ctx->records[i].tasks[t].kind == RBT_TASK_COPY;
		}
	}
	if ((ctx->opt.tasks != 0 && tasks != ctx->opt.tasks) ||
		(ctx->opt.channels != 0 && channels != ctx->opt.channels)) {
		fail("discover-counts", "%" PRIu64 " tasks, %" PRIu64 " channels", tasks, channels);
	} else {
		ok("discover-counts");
	}
	if (compute == 0 || copy == 0) {
		fail("discover-kinds", "%" PRIu64 " compute, %" PRIu64 " copy tasks", compute,
			copy);
	} else {
		ok("discover-kinds");
	}
}

void check_discover(struct context *ctx)
{
	struct state before = {0}, after = {0};
	size_t fds = open_fds();

	if (ctx->opt.state != NULL) {
		expect("discover-state", state_read(&ctx->opt, NULL, 0, &before), 0);
	}
	uint64_t start_ns = rbt_now_ns();
	int r = ctx->opt.backend->discover(ctx->pid, ctx->pidfd, &ctx->records, &ctx->n_records);
	uint64_t took_us = (rbt_now_ns() - start_ns) / RBT_NS_PER_US;
	if (!expect("discover", r, 0)) {
		return;
	}
	note("discover took %" PRIu64 " us", took_us);
	for (size_t i = 0; i < ctx->n_records; i++) {
		check_record(ctx, &ctx->records[i]);
	}
	check_counts(ctx);
	expect("discover-one-fd-a-record", (int)(open_fds() - fds - ctx->n_records), 0);
	if (ctx->opt.state != NULL) {
		state_read(&ctx->opt, NULL, 0, &after);
		if (after.log_lines - before.log_lines > 8) {
			fail("discover-is-quiet", "%" PRIu64 " lines in the kernel log",
				after.log_lines - before.log_lines);
		} else {
			ok("discover-is-quiet");
		}
	}
}
