/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot work fails with the error that callers tell apart, and leaves nothing open. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance.h"
#include "util/proc.h"

#define NO_SUCH_HANDLE 0x5cfffff1u

static void check_dead_objects(struct context *ctx)
{
	const struct rbt_backend *be = ctx->opt.backend;
	struct rbt_record rec = ctx->records[0];
	struct rbt_task task = rec.tasks[0];
	struct rbt_program_stats stats;
	uint32_t channel = NO_SUCH_HANDLE;
	uint64_t us = 123;

	task.handle = NO_SUCH_HANDLE;
	expect("error-dead-task-get", be->get_timeslice(&rec, &task, &us), -ENOENT);
	expect("error-dead-task-untouched", us == 123 ? 0 : -EINVAL, 0);
	expect("error-dead-task-set", be->set_timeslice(&rec, &task, 2000), -ENOENT);
	if (be->preempt != NULL) {
		expect("error-dead-task-preempt", be->preempt(&rec, &task, 1000), -ENOENT);
	}
	task.handle = rec.tasks[0].handle;
	task.subdevice = NO_SUCH_HANDLE;
	rec.tasks = &task;
	rec.n_tasks = 1;
	expect("error-dead-subdevice", be->resume(&rec, NULL, RBT_SCOPE_ALL), -ENOENT);
	if (be->stats != NULL) {
		expect("error-dead-subdevice-stats", be->stats(&rec, ctx->pid, &stats), -ENOENT);
	}
	task.subdevice = ctx->records[0].tasks[0].subdevice;
	task.first_channel = 0;
	task.n_channels = 1;
	rec.channels = &channel;
	rec.n_channels = 1;
	int r = be->resume(&rec, NULL, RBT_SCOPE_ALL);
	if (r >= 0) {
		fail("error-dead-channel", "succeeded");
	} else {
		ok("error-dead-channel");
	}
}

static int discover_target(void *data)
{
	const struct context *ctx = data;
	struct rbt_record *records;
	size_t n;

	return discover(ctx->opt.backend, ctx->pid, &records, &n);
}

static void check_wrong_pids(struct context *ctx, pid_t bystander)
{
	const struct rbt_backend *be = ctx->opt.backend;
	struct rbt_record *records = NULL;
	size_t n = 77;
	pid_t gone = fork();

	if (gone == 0) {
		_exit(0);
	}
	int pidfd = rbt_pidfd_open(gone);
	waitpid(gone, NULL, 0);
	expect("error-gone-pid", be->discover(gone, pidfd, &records, &n), -ESRCH);
	close(pidfd);
	expect("error-wrong-pidfd", be->discover(bystander, ctx->pidfd, &records, &n), -ESRCH);
	expect("error-pid-without-device", discover(be, bystander, &records, &n), -ENXIO);
	expect("error-untouched", records == NULL && n == 77 ? 0 : -EINVAL, 0);
}

void check_errors(struct context *ctx)
{
	/* A process that does not have the device: it must not
	 * inherit the records' files either. */
	pid_t bystander = fork();

	if (bystander == 0) {
		execlp("sleep", "sleep", "600", (char *)NULL);
		_exit(127);
	}
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	size_t before = open_fds();
	check_dead_objects(ctx);
	check_wrong_pids(ctx, bystander);
	target_stop(bystander);
	if (geteuid() == 0) {
		int r = as_nobody(discover_target, ctx);
		expect("error-no-permission", r == -EACCES ? -EPERM : r, -EPERM);
	} else {
		skip("error-no-permission", "wants root");
	}
	expect("errors-leak-no-fd", (int)open_fds() - (int)before, 0);
}

struct killer {
	pid_t pid;
	long delay_ns;
};

static void *kill_later(void *data)
{
	const struct killer *k = data;

	nanosleep(&(struct timespec){.tv_nsec = k->delay_ns}, NULL);
	kill(k->pid, SIGKILL);
	return NULL;
}

/* The program dies somewhere between the first look at it and the last. */
void check_exit_while_discovering(struct context *ctx)
{
	enum { ROUNDS = 12 };
	size_t before = open_fds();

	if (ctx->opt.target == NULL) {
		skip("exit-while-discovering", "wants a program of the suite's own");
		return;
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct killer k = {.delay_ns = (i % 6) * 10000000L / (i < 6 ? 1 : 20)};
		struct rbt_record *records = NULL;
		pthread_t thread;
		size_t n = 0;
		k.pid = target_start(ctx->opt.target, NULL, NULL);
		if (k.pid < 0 || pthread_create(&thread, NULL, kill_later, &k) != 0) {
			fail("exit-while-discovering", "cannot start the program");
			return;
		}
		int r = discover(ctx->opt.backend, k.pid, &records, &n);
		pthread_join(thread, NULL);
		target_stop(k.pid);
		if (r == 0) {
			free_records(records, n);
		} else if (r != -ESRCH && r != -ENXIO) {
			expect("exit-while-discovering", r, -ESRCH);
			return;
		}
	}
	/* Fewer: a backend let go of what it had kept for a while. */
	size_t after = open_fds();
	expect("exit-while-discovering-leaks-no-fd", after > before ? (int)(before - after) : 0, 0);
}
