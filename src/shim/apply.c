/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acting without a daemon. Programs with short slices side by side all but stop the device, so a
 * slice shorter than the task's own is set only
 *  - with the GPU's lock, which is one program's, and freed by the kernel when that dies;
 *  - while this program has one compute task there, as nobody makes two of them take turns.
 * A longer slice hurts nobody but the program's neighbours' patience, and needs no lock.
 */
#include <errno.h>
#include <stddef.h>

#include "backend/nvidia/driver.h"
#include "shim/shim.h"

/*
 * Alone, nobody is there to lengthen a slice again when company comes: a neighbour at the driver's
 * slice would leave a task at 1 µs nothing at all, and pay for the switches. At this length both go
 * on.
 */
#define ALONE_MIN_US 1000

/* The slice to ask for; 0 for none in particular. */
static uint64_t wish_us(void)
{
	uint64_t us = shim_config.wanted_us;

	return us != 0 && us < ALONE_MIN_US ? ALONE_MIN_US : us;
}

/* The first reason is enough. */
static void say_gpu(struct shim *s, uint32_t gpu, const char *why)
{
	char number[3] = {(char)('0' + gpu / 10), (char)('0' + gpu % 10), '\0'};

	if (!shim_config.no_daemon || s->said) {
		return;
	}
	s->said = true;
	shim_say((const char *const[]){"rubato: GPU ", gpu < 10 ? number + 1 : number,
		" keeps the driver's timeslices: ", why, NULL});
}

static bool may_write(struct shim *s)
{
	struct rbt_nv_driver driver = {.version = "of unknown version"};
	char text[1024];

	if (shim_config.treat.force != 0) {
		return true;
	}
	if (s->driver == SHIM_DRIVER_UNASKED) {
		if (shim_raw_driver_version(text, sizeof(text)) > 0) {
			rbt_nv_driver_parse(text, &driver);
		}
		s->driver = driver.known ? SHIM_DRIVER_KNOWN : SHIM_DRIVER_UNKNOWN;
		if (!driver.known && shim_config.no_daemon && shim_config.wanted_us != 0) {
			shim_say((const char *const[]){
				"rubato: timeslices are left as they are: driver ", driver.version,
				" is not known to Rubato; --force sets them all the same", NULL});
		}
	}
	return s->driver == SHIM_DRIVER_KNOWN;
}

/* Takes the GPU's lock, or makes sure of it: flock() changes nothing for a file that has it. 0 or
 * -errno. */
static int hold_lock(uint32_t gpu)
{
	struct shim_fd *f = &shim_owned.locks[gpu];

	if (shim_fd_valid(f)) {
		return shim_sys_flock(shim_fd_get(f));
	}
	f->fd_plus_1 = 0;
	int fd = shim_raw_open_gpu(gpu);
	if (fd < 0) {
		return fd;
	}
	int r = shim_sys_flock(fd);
	if (r < 0) {
		shim_sys_close(fd);
		return r;
	}
	shim_owned.any = true;
	return shim_fd_own(f, fd);
}

/* Tells the lock's holder, if it is one that looks, that it has company. */
static void leave_mark(uint32_t gpu)
{
	struct shim_fd *f = &shim_owned.marks[gpu];

	if (shim_fd_valid(f)) {
		return;
	}
	f->fd_plus_1 = 0;
	int fd = shim_raw_open_gpu(gpu);
	if (fd >= 0 && shim_sys_mark(fd, RBT_GPU_MARK_OFFSET) < 0) {
		shim_sys_close(fd);
		fd = -1;
	}
	if (fd >= 0) {
		shim_owned.any = true;
		shim_fd_own(f, fd);
	}
}

static void set_slice(struct shim *s, struct shim_obj *task, uint64_t us)
{
	struct nv_timeslice_params p = {.timeslice_us = us};
	uint32_t status, gpu = 0;

	/* Refused or not, it is not tried again before something changes. */
	task->t.applied_us = us;
	if (shim_control(shim_client_of(s, task), task->handle, NV_CTRL_TSG_SET_TIMESLICE, &p,
		    sizeof(p), &status) < 0 &&
		status != NV_OK && shim_gpu_of(s, task, &gpu)) {
		say_gpu(s, gpu % 100, "the driver refused the one asked for; see rubato doctor");
	}
}

static bool is_short(const struct shim_obj *task)
{
	return task->t.kind == RBT_TASK_COMPUTE && task->t.scheduled && wish_us() != 0 &&
	       wish_us() < task->t.own_us;
}

/* How many of the program's compute tasks are, or may be, on this GPU. */
static unsigned count_compute(struct shim *s, uint32_t gpu)
{
	unsigned n = 0;

	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		uint32_t its;
		if (t->t.kind == RBT_TASK_COMPUTE && (!shim_gpu_of(s, t, &its) || its == gpu)) {
			n++;
		}
	}
	return n;
}

static bool may_shorten(struct shim *s, const struct shim_obj *task)
{
	uint32_t gpu;

	if (!shim_gpu_of(s, task, &gpu) || gpu >= NV_MAX_GPUS || s->lossy) {
		return false;
	}
	if (count_compute(s, gpu) > 1) {
		say_gpu(s, gpu,
			"this program has several compute contexts there, and short slices would "
			"slow all of them down; use one context a process");
		return false;
	}
	int r = hold_lock(gpu);
	if (r == 0) {
		shim_fd_close(&shim_owned.marks[gpu]);
	} else if (r == -EWOULDBLOCK) {
		leave_mark(gpu);
	}
	if (r < 0) {
		say_gpu(s, gpu,
			r == -EWOULDBLOCK
				? "another program holds its lock; without --no-daemon the "
				  "daemon decides"
				: "its device node cannot be locked; see rubato doctor");
	}
	return r == 0;
}

static void restore(struct shim *s, struct shim_obj *task)
{
	if (task->t.applied_us != task->t.own_us) {
		set_slice(s, task, task->t.own_us);
	}
}

/* Locks that no short slice needs, and marks of wishes that are no more. */
static void release_locks(uint32_t needed, uint32_t wished)
{
	for (uint32_t gpu = 0; gpu < NV_MAX_GPUS; gpu++) {
		if (!(needed & 1u << gpu)) {
			shim_fd_close(&shim_owned.locks[gpu]);
		}
		if (!(wished & 1u << gpu)) {
			shim_fd_close(&shim_owned.marks[gpu]);
		}
	}
}

void shim_apply_alone(struct shim *s)
{
	uint32_t needed = 0, wished = 0;

	if (shim_first(s, SHIM_TASK) == NULL) {
		release_locks(0, 0);
		return;
	}
	if (!may_write(s)) {
		return;
	}
	/* First what goes back, then what becomes short: never two at once. */
	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		uint32_t gpu = NV_MAX_GPUS;
		bool shorten = is_short(t) && may_shorten(s, t) && shim_gpu_of(s, t, &gpu);
		if (is_short(t) && shim_gpu_of(s, t, &gpu) && gpu < NV_MAX_GPUS) {
			wished |= 1u << gpu;
		}
		if (shorten) {
			needed |= 1u << gpu;
		} else if (t->t.kind == RBT_TASK_COMPUTE &&
			   (!t->t.scheduled || wish_us() <= t->t.own_us)) {
			restore(s, t);
		}
	}
	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		uint32_t gpu;
		bool longer =
			t->t.kind == RBT_TASK_COMPUTE && t->t.scheduled && wish_us() > t->t.own_us;
		bool shorter = is_short(t) && shim_gpu_of(s, t, &gpu) && gpu < NV_MAX_GPUS &&
			       (needed & 1u << gpu);
		if ((longer || shorter) && t->t.applied_us != wish_us()) {
			set_slice(s, t, wish_us());
		}
	}
	release_locks(needed, wished);
}

void shim_apply_withdraw(struct shim *s)
{
	for (struct shim_obj *t = shim_first(s, SHIM_TASK); t != NULL; t = shim_next(s, t)) {
		/* 0: not ours to restore. */
		if (t->t.applied_us != 0) {
			restore(s, t);
		}
	}
	release_locks(0, 0);
}
