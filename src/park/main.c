/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubato-park FD LOCKFILE GOAL TIMEOUT_MS PID…: the process that makes the driver's checkpoint
 * calls. The daemon starts it and reads its reports (proto/park.h) from FD.
 *
 * A caller that dies inside one of these calls leaves it and its target out of step. So this
 * process has a session of its own, ignores all signals that can be ignored, never ends inside a
 * call, and goes on when its daemon dies. What it finds is read from the driver, so another one can
 * go on where this one was killed. Two of them never work on one program: each holds a lock on the
 * byte of LOCKFILE that has the program's pid as its number.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cuda/abi.h"
#include "proto/park.h"
#include "util/log.h"
#include "util/parse.h"

#define SETTLE_US    50000
#define MAX_SETTLES  12000 /* ten minutes, for a call that a killed helper has begun */
#define MAX_STUMBLES 3     /* calls that are out of step */
#define NOT_KNOWN    (-1)

struct driver {
	int (*lock)(int pid, const struct CUcheckpointLockArgs *args);
	int (*checkpoint)(int pid, const void *args);
	int (*restore)(int pid, const void *args);
	int (*unlock)(int pid, const void *args);
	int (*state)(int pid, int *ret);
};

struct job {
	struct driver driver;
	int report_fd;
	enum rbt_park_goal goal;
	unsigned timeout_ms;
	size_t n;
	int pids[RBT_PARK_MAX];
	int states[RBT_PARK_MAX]; /* enum CUprocessState, or NOT_KNOWN */
};

static void report(const struct job *job, const struct rbt_park_report *r)
{
	/* A daemon that has died reads nothing; that changes nothing here. */
	(void)send(job->report_fd, r, sizeof(*r), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int load(struct driver *ret)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (lib == NULL) {
		return -ENOENT;
	}
	const struct {
		void *to;
		const char *name;
	} calls[] = {
		{&ret->lock, "cuCheckpointProcessLock"},
		{&ret->checkpoint, "cuCheckpointProcessCheckpoint"},
		{&ret->restore, "cuCheckpointProcessRestore"},
		{&ret->unlock, "cuCheckpointProcessUnlock"},
		{&ret->state, "cuCheckpointProcessGetState"},
	};
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *fn = dlsym(lib, calls[i].name);
		if (fn == NULL) {
			return -ENOSYS;
		}
		memcpy(calls[i].to, &fn, sizeof(fn));
	}
	return 0;
}

/* Only one helper at a time works on a program. */
static int take_locks(const struct job *job, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	for (size_t i = 0; fd >= 0 && i < job->n; i++) {
		struct flock lock = {.l_type = F_WRLCK, .l_start = job->pids[i], .l_len = 1};
		int r;
		do {
			r = fcntl(fd, F_OFD_SETLKW, &lock);
		} while (r < 0 && errno == EINTR);
		if (r < 0) {
			return -errno;
		}
	}
	return fd < 0 ? -errno : 0;
}

/* One call, without any interpretation. */
static int call_once(const struct job *job, size_t i, enum rbt_park_call call, int *ret_state)
{
	struct CUcheckpointLockArgs lock = {.timeoutMs = job->timeout_ms};
	/* Arguments that the driver knows only as reserved. */
	const uint64_t none[8] = {0};
	int pid = job->pids[i];

	switch (call) {
	case RBT_PARK_CALL_LOCK:
		return job->driver.lock(pid, &lock);
	case RBT_PARK_CALL_CHECKPOINT:
		return job->driver.checkpoint(pid, none);
	case RBT_PARK_CALL_RESTORE:
		return job->driver.restore(pid, none);
	case RBT_PARK_CALL_UNLOCK:
		return job->driver.unlock(pid, none);
	default:
		return job->driver.state(pid, ret_state);
	}
}

static int call(struct job *job, size_t i, enum rbt_park_call call)
{
	struct rbt_park_report r = {.pid = job->pids[i], .call = call, .state = job->states[i]};
	int state = job->states[i];

	report(job, &r);
	r.result = call_once(job, i, call, &state);
	r.has_ended = 1;
	job->states[i] = r.state = state;
	report(job, &r);
	return r.result;
}

/* Reads the state. A call that is out of step fails once. */
static int read_state(struct job *job, size_t i)
{
	int result = CUDA_SUCCESS;

	for (int k = 0; k < MAX_STUMBLES; k++) {
		result = call(job, i, RBT_PARK_CALL_STATE);
		if (result == CUDA_SUCCESS) {
			return result;
		}
	}
	job->states[i] = NOT_KNOWN;
	return result;
}

/*
 * Makes the call that leads from one state to another, and reads the state afterwards: the state
 * decides, not the result. A call that a killed helper has begun is waited for.
 */
static int step(struct job *job, size_t i, enum rbt_park_call what, int to)
{
	int from = job->states[i], result = CUDA_SUCCESS, stumbles = 0;

	for (int k = 0; k < MAX_SETTLES && job->states[i] == from; k++) {
		result = call(job, i, what);
		int r = read_state(job, i);
		if (r != CUDA_SUCCESS) {
			return r;
		}
		if (job->states[i] != from || result == CUDA_SUCCESS) {
			break;
		}
		if (result == CUDA_ERROR_ILLEGAL_STATE && ++stumbles < MAX_STUMBLES) {
			continue;
		}
		if (result != CUDA_ERROR_NOT_READY || what == RBT_PARK_CALL_LOCK) {
			return result;
		}
		usleep(SETTLE_US);
	}
	return job->states[i] == to                        ? CUDA_SUCCESS
	       : result != CUDA_SUCCESS                    ? result
	       : job->states[i] == CU_PROCESS_STATE_FAILED ? CUDA_ERROR_OUT_OF_MEMORY
							   : CUDA_ERROR_ILLEGAL_STATE;
}

/* Everything comes back that is locked or checkpointed: all are restored before any goes on. */
static int bring_back(struct job *job)
{
	int first = CUDA_SUCCESS;

	for (size_t i = 0; i < job->n; i++) {
		if (job->states[i] == CU_PROCESS_STATE_CHECKPOINTED) {
			int r = step(job, i, RBT_PARK_CALL_RESTORE, CU_PROCESS_STATE_LOCKED);
			first = first == CUDA_SUCCESS ? r : first;
		}
	}
	for (size_t i = 0; i < job->n; i++) {
		if (job->states[i] == CU_PROCESS_STATE_LOCKED) {
			int r = step(job, i, RBT_PARK_CALL_UNLOCK, CU_PROCESS_STATE_RUNNING);
			first = first == CUDA_SUCCESS ? r : first;
		}
	}
	return first;
}

/* The daemon wants the programs to stay where they are. It is asked between two calls, never inside
 * one; a daemon that has died does not want that. */
static bool is_cancelled(const struct job *job)
{
	char stop;

	return recv(job->report_fd, &stop, sizeof(stop), MSG_DONTWAIT) == (ssize_t)sizeof(stop);
}

/* All are locked before any is checkpointed. */
static int take_off(struct job *job)
{
	int r = is_cancelled(job) ? -ECANCELED : CUDA_SUCCESS;

	for (size_t i = 0; i < job->n && r == CUDA_SUCCESS; i++) {
		if (job->states[i] == CU_PROCESS_STATE_RUNNING) {
			r = step(job, i, RBT_PARK_CALL_LOCK, CU_PROCESS_STATE_LOCKED);
		}
	}
	if (r == CUDA_SUCCESS && is_cancelled(job)) {
		r = -ECANCELED;
	}
	for (size_t i = 0; i < job->n && r == CUDA_SUCCESS; i++) {
		if (job->states[i] == CU_PROCESS_STATE_LOCKED) {
			r = step(job, i, RBT_PARK_CALL_CHECKPOINT, CU_PROCESS_STATE_CHECKPOINTED);
		}
	}
	/* Half a group off the GPU would wait for the other half for ever. */
	if (r != CUDA_SUCCESS) {
		(void)bring_back(job);
	}
	return r;
}

static int run(struct job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		int r = read_state(job, i);
		if (r != CUDA_SUCCESS) {
			return r;
		}
	}
	switch (job->goal) {
	case RBT_PARK_GOAL_OFF:
		return take_off(job);
	case RBT_PARK_GOAL_ON:
		return bring_back(job);
	default:
		return CUDA_SUCCESS;
	}
}

static void be_left_alone(void)
{
	setsid();
	prctl(PR_SET_NAME, RBT_PARK_HELPER);
	for (int number = 1; number < NSIG; number++) {
		signal(number, SIG_IGN);
	}
}

static int take_arguments(int argc, char **argv, struct job *ret)
{
	uint64_t fd, goal, timeout, pid;

	if (argc < 6 || argc - 5 > RBT_PARK_MAX || rbt_parse_u64(argv[1], 0, 1 << 20, &fd) < 0 ||
		rbt_parse_u64(argv[3], 0, RBT_PARK_GOAL_ON, &goal) < 0 ||
		rbt_parse_u64(argv[4], 1, 3600000, &timeout) < 0) {
		return -EINVAL;
	}
	ret->report_fd = (int)fd;
	ret->goal = (enum rbt_park_goal)goal;
	ret->timeout_ms = (unsigned)timeout;
	for (int i = 5; i < argc; i++) {
		if (rbt_parse_u64(argv[i], 1, INT32_MAX, &pid) < 0) {
			return -EINVAL;
		}
		ret->states[ret->n] = NOT_KNOWN;
		ret->pids[ret->n++] = (int)pid;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct job job;
	struct rbt_park_report last = {.is_last = 1, .state = NOT_KNOWN};

	rbt_log_name(RBT_PARK_HELPER);
	if (take_arguments(argc, argv, &job) < 0) {
		rbt_error("rubatod starts this program; see rubato-park(1) for the command");
		return 2;
	}
	be_left_alone();
	int r = load(&job.driver);
	r = r < 0 ? r : take_locks(&job, argv[2]);
	if (r == 0) {
		last.pid = job.pids[0];
		r = run(&job);
	}
	last.result = r;
	report(&job, &last);
	return r == 0 ? 0 : 1;
}
