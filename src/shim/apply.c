/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes slices without a daemon. The collapse rule (sched/rule.h) holds here, too: a short slice
 * is set only with the GPU lock (act/lock.h), and only if this program has one compute task on the
 * GPU, because no daemon gives several tasks turns. A longer slice only makes neighbours wait
 * longer, and needs no lock.
 */
#include <errno.h>
#include <stddef.h>

#include "act/lock.h"
#include "backend/nvidia/driver.h"
#include "sched/rule.h"
#include "shim/shim.h"

/*
 * Without a daemon, nobody lengthens a slice again when a neighbour comes. Beside a neighbour at
 * the default slice, a task at 1 µs would get no GPU time at all, and the neighbour would pay for
 * the switches. At this length both make progress.
 */
#define ALONE_MIN_US 1000

/* The slice to set; 0 if none was asked for. */
static uint64_t wish_us(void)
{
	uint64_t us = shim_config.wanted_us;

	return us != 0 && us < ALONE_MIN_US ? ALONE_MIN_US : us;
}

/* Prints only the first reason. */
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
			shim_say((const char *const[]){"rubato: timeslices stay unchanged: driver ",
				driver.version,
				" is unknown to Rubato; --force changes them anyway", NULL});
		}
	}
	return s->driver == SHIM_DRIVER_KNOWN;
}

/* Takes the GPU lock or sets a mark, depending on `take`, and keeps its file in `f`. If `f` is open
 * already, checks that the lock or mark is still there. Returns 0 or -errno. */
static int obtain(struct shim_fd *f, uint32_t gpu, int (*take)(int fd))
{
	if (shim_fd_valid(f)) {
		return take(shim_fd_get(f));
	}
	f->fd_plus_1 = 0;
	int fd = shim_raw_open_gpu(gpu);
	if (fd < 0) {
		return fd;
	}
	int r = take(fd);
	if (r < 0) {
		shim_sys_close(fd);
		return r;
	}
	shim_owned.any = true;
	return shim_fd_own(f, fd);
}

/* Returns 0 or -errno. If another program has the lock, sets a mark, which tells that program that
 * it has company. */
static int take_lock(uint32_t gpu)
{
	int r = obtain(&shim_owned.locks[gpu], gpu, rbt_gpu_lock);

	if (r == 0) {
		shim_fd_close(&shim_owned.marks[gpu]);
	} else if (r == -EBUSY) {
		(void)obtain(&shim_owned.marks[gpu], gpu, rbt_gpu_mark);
	}
	return r;
}

static void set_slice(struct shim *s, struct shim_obj *task, uint64_t us)
{
	struct nv_timeslice_params p = {.timeslice_us = us};
	uint32_t status, gpu = 0;

	/* Even if it is refused, it is not tried again before something changes. */
	task->t.applied_us = us;
	if (shim_control(shim_client_of(s, task), task->handle, NV_CTRL_TSG_SET_TIMESLICE, &p,
		    sizeof(p), &status) < 0 &&
		status != NV_OK && shim_gpu_of(s, task, &gpu)) {
		say_gpu(s, gpu % 100, "the driver refused another one; see rubato doctor");
	}
}

static bool is_short(const struct shim_obj *task)
{
	return task->t.kind == RBT_TASK_COMPUTE && task->t.scheduled &&
	       rbt_rule_is_short(wish_us(), task->t.own_us);
}

/* Counts the program's compute tasks that are, or may be, on this GPU. */
static uint32_t count_compute(struct shim *s, uint32_t gpu)
{
	uint32_t n = 0;

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
	/* Marks of others do not matter: beside a task at ALONE_MIN_US, their tasks make
	 * progress. */
	struct rbt_sched_gpus gpus = {0};
	uint32_t gpu;
	int r = 0;

	if (!shim_gpu_of(s, task, &gpu) || gpu >= NV_MAX_GPUS || s->lossy) {
		return false;
	}
	uint32_t n = count_compute(s, gpu);
	/* The lock is taken only if it is of use. */
	if (n == 1) {
		r = take_lock(gpu);
		gpus.locked = r == 0 ? UINT32_C(1) << gpu : 0;
	}
	enum rbt_denial denial = rbt_rule_judge(&gpus, gpu, n, n);
	if (denial == RBT_DENIED_TASKS) {
		say_gpu(s, gpu,
			"this program has several compute contexts there, and short slices would "
			"slow all of them down; use one context per process");
	} else if (denial != RBT_DENIED_NOTHING) {
		say_gpu(s, gpu,
			r == -EBUSY ? "another program holds its lock; without --no-daemon the "
				      "daemon decides"
				    : "its device node cannot be locked; see rubato doctor");
	}
	return denial == RBT_DENIED_NOTHING;
}

static void restore(struct shim *s, struct shim_obj *task)
{
	if (task->t.applied_us != task->t.own_us) {
		set_slice(s, task, task->t.own_us);
	}
}

/* Closes locks that no short slice needs, and marks for GPUs where no short slice is wanted. */
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
	/* Own slices are restored before any slice is shortened, so that never two tasks have short
	 * ones. */
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
		/* 0: no slice was set, so none is restored. */
		if (t->t.applied_us != 0) {
			restore(s, t);
		}
	}
	release_locks(0, 0);
}
