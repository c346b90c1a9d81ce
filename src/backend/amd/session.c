/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/amd/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend/amd/device.h"
#include "backend/amd/session_impl.h"
#include "backend/amd/sysfs.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/time.h"

static void tell(struct rbt_amd_session *s)
{
	uint64_t one = 1;

	(void)!write(s->wake, &one, sizeof(one));
}

/* On the session's thread: carries out jobs until there are none. Returns false at the end. */
static bool do_jobs(struct rbt_amd_session *s)
{
	bool go_on;

	pthread_mutex_lock(&s->lock);
	/* A finished job belongs to its owner again, and may be gone at any moment. */
	struct job *job = s->job != NULL && !s->job->done ? s->job : NULL;
	go_on = !s->ending;
	pthread_mutex_unlock(&s->lock);
	if (job != NULL) {
		int r = s->gone ? -ESRCH : job->fn(s, job->arg);
		pthread_mutex_lock(&s->lock);
		job->result = r;
		job->done = true;
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->lock);
	}
	return go_on;
}

static void serve(struct rbt_amd_session *s)
{
	bool go_on = true;

	while (go_on) {
		struct pollfd fds[] = {
			{.fd = s->wake, .events = POLLIN},
			{.fd = s->events[0], .events = POLLIN},
			{.fd = s->gone ? -1 : s->pidfd, .events = POLLIN},
		};
		struct timespec wait;
		uint64_t told, now_ns = rbt_now_ns();
		uint64_t wait_ns = s->poll_ns > now_ns ? s->poll_ns - now_ns : 0;
		wait.tv_sec = (time_t)(wait_ns / RBT_NS_PER_S);
		wait.tv_nsec = (long)(wait_ns % RBT_NS_PER_S);
		(void)ppoll(fds, 3, s->poll_ns == UINT64_MAX || s->gone ? NULL : &wait, NULL);
		if (fds[0].revents != 0) {
			(void)!read(s->wake, &told, sizeof(told));
		}
		trace_handle(s);
		if (fds[2].revents != 0) {
			s->gone = true;
		}
		s->n_changes += s->gone;
		if (fds[1].revents != 0) {
			dbg_take_events(s);
		}
		go_on = do_jobs(s);
		if (go_on && !s->gone) {
			poller_run(s, rbt_now_ns());
		}
	}
}

static int start(struct rbt_amd_session *s)
{
	int r = trace_seize(s);

	if (r == 0) {
		r = trace_watch(s);
	}
	if (r == 0) {
		r = dbg_enable(s);
	}
	return r;
}

static void *run(void *data)
{
	struct rbt_amd_session *s = data;
	int r = start(s);

	pthread_mutex_lock(&s->lock);
	s->start_result = r;
	s->started = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (r == 0) {
		serve(s);
	}
	poller_end(s);
	dbg_disable(s);
	trace_unwatch(s);
	if (!s->gone) {
		/* No thread of the target may stay stopped; the end of this thread releases the
		 * rest. */
		trace_handle(s);
	}
	return NULL;
}

static void session_free(struct rbt_amd_session *s)
{
	rbt_close(&s->kfd);
	rbt_close(&s->wake);
	rbt_close(&s->pidfd);
	rbt_close(&s->events[0]);
	rbt_close(&s->events[1]);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int found(pid_t pid, int fd, void *data)
{
	return 1;
}

/* Debugging a process makes it a KFD process, so this is checked first. In a container KFD's list
 * has the pids of the host, and only the file tells. */
static int check_target(pid_t pid)
{
	if (rbt_amd_process_exists(KFD_SYSFS_PATH, pid)) {
		return 0;
	}
	int r = rbt_proc_each_fd(pid, KFD_PATH, found, NULL);
	return r == 1 ? 0 : r == -EACCES || r == -EPERM ? -EPERM : r == -ENOENT ? -ESRCH : -ENXIO;
}

static int prepare(struct rbt_amd_session *s)
{
	struct kfd_version version;

	s->kfd = rbt_amd_open();
	if (s->kfd < 0) {
		return s->kfd;
	}
	int r = rbt_amd_version(s->kfd, &version);
	if (r < 0) {
		return r;
	}
	if (!rbt_amd_can_debug(&version)) {
		return -EOPNOTSUPP;
	}
	s->pidfd = rbt_pidfd_open(s->pid);
	if (s->pidfd < 0) {
		return s->pidfd == -EINVAL ? -ESRCH : s->pidfd;
	}
	r = check_target(s->pid);
	if (r < 0) {
		return r;
	}
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0 || pipe2(s->events, O_CLOEXEC | O_NONBLOCK) < 0) {
		return -errno;
	}
	return 0;
}

/* Signals to this process are for its other threads. */
static int start_thread(struct rbt_amd_session *s)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int rbt_amd_session_open(pid_t pid, struct rbt_amd_session **ret)
{
	struct rbt_amd_session *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		return -ENOMEM;
	}
	s->pid = pid;
	s->poll_ns = UINT64_MAX;
	s->kfd = s->wake = s->pidfd = s->events[0] = s->events[1] = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	int r = prepare(s);
	if (r == 0) {
		r = start_thread(s);
	}
	if (r < 0) {
		session_free(s);
		return r;
	}
	pthread_mutex_lock(&s->lock);
	while (!s->started) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	r = s->start_result;
	pthread_mutex_unlock(&s->lock);
	if (r < 0) {
		pthread_join(s->thread, NULL);
		session_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void rbt_amd_session_close(struct rbt_amd_session *s)
{
	if (s == NULL) {
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	pthread_mutex_unlock(&s->lock);
	tell(s);
	pthread_join(s->thread, NULL);
	session_free(s);
}

pid_t rbt_amd_session_pid(const struct rbt_amd_session *s)
{
	return s->pid;
}

/* Runs fn on the session's thread, and returns its result. */
static int have_done(
	struct rbt_amd_session *s, int (*fn)(struct rbt_amd_session *s, void *arg), void *arg)
{
	struct job job = {.fn = fn, .arg = arg};

	pthread_mutex_lock(&s->lock);
	while (s->job != NULL) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	s->job = &job;
	tell(s);
	while (!job.done) {
		pthread_cond_wait(&s->changed, &s->lock);
	}
	s->job = NULL;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return job.result;
}

struct list_arg {
	struct kfd_queue_entry **ret;
	uint32_t *ret_n;
};

static int do_snapshot(struct rbt_amd_session *s, void *arg)
{
	struct list_arg *a = arg;

	return dbg_snapshot(s, a->ret, a->ret_n);
}

int rbt_amd_session_snapshot(
	struct rbt_amd_session *s, struct kfd_queue_entry **ret, uint32_t *ret_n)
{
	return have_done(s, do_snapshot, &(struct list_arg){.ret = ret, .ret_n = ret_n});
}

struct poll_arg {
	int board_fd;
	uint32_t interval_us;
};

static int do_poll(struct rbt_amd_session *s, void *arg)
{
	struct poll_arg *a = arg;

	if (a->interval_us != 0) {
		return poller_begin(s, a->board_fd, a->interval_us);
	}
	poller_end(s);
	return 0;
}

int rbt_amd_session_poll(struct rbt_amd_session *s, int board_fd, uint32_t interval_us)
{
	return have_done(
		s, do_poll, &(struct poll_arg){.board_fd = board_fd, .interval_us = interval_us});
}

struct ids_arg {
	uint32_t *ids;
	uint32_t n, grace, kinds;
};

static int do_suspend(struct rbt_amd_session *s, void *arg)
{
	struct ids_arg *a = arg;

	return dbg_suspend(s, a->ids, a->n, a->grace);
}

static int do_resume(struct rbt_amd_session *s, void *arg)
{
	struct ids_arg *a = arg;

	return dbg_resume(s, a->ids, a->n);
}

static int do_hold(struct rbt_amd_session *s, void *arg)
{
	struct ids_arg *a = arg;

	return dbg_hold(s, a->kinds, a->grace);
}

static int do_release(struct rbt_amd_session *s, void *arg)
{
	struct ids_arg *a = arg;

	return dbg_release(s, a->kinds);
}

static int do_hold_queue(struct rbt_amd_session *s, void *arg)
{
	return dbg_hold_queue(s, *(const uint32_t *)arg);
}

static int do_release_queue(struct rbt_amd_session *s, void *arg)
{
	return dbg_release_queue(s, *(const uint32_t *)arg);
}

struct held_arg {
	uint32_t kind, id;
};

static int ask_held(struct rbt_amd_session *s, void *arg)
{
	const struct held_arg *a = arg;

	return (s->held & a->kind) != 0 || (a->id < KFD_MAX_QUEUES && s->held_queue[a->id]);
}

uint64_t rbt_amd_session_changes(const struct rbt_amd_session *s)
{
	return s->n_changes;
}

static int ask_use(struct rbt_amd_session *s, void *arg)
{
	return s->held != 0 || s->n_held_queues > 0 || s->poller != NULL;
}

bool rbt_amd_session_is_used(struct rbt_amd_session *s)
{
	return have_done(s, ask_use, NULL) == 1;
}

int rbt_amd_session_suspend(struct rbt_amd_session *s, uint32_t *ids, uint32_t n, uint32_t grace)
{
	return have_done(s, do_suspend, &(struct ids_arg){.ids = ids, .n = n, .grace = grace});
}

int rbt_amd_session_resume(struct rbt_amd_session *s, uint32_t *ids, uint32_t n)
{
	return have_done(s, do_resume, &(struct ids_arg){.ids = ids, .n = n});
}

int rbt_amd_session_hold(struct rbt_amd_session *s, uint32_t kinds, uint32_t grace)
{
	return have_done(s, do_hold, &(struct ids_arg){.kinds = kinds, .grace = grace});
}

int rbt_amd_session_release(struct rbt_amd_session *s, uint32_t kinds)
{
	return have_done(s, do_release, &(struct ids_arg){.kinds = kinds});
}

int rbt_amd_session_hold_queue(struct rbt_amd_session *s, uint32_t id)
{
	return have_done(s, do_hold_queue, &id);
}

int rbt_amd_session_release_queue(struct rbt_amd_session *s, uint32_t id)
{
	return have_done(s, do_release_queue, &id);
}

bool rbt_amd_session_holds(struct rbt_amd_session *s, uint32_t kind, uint32_t id)
{
	return have_done(s, ask_held, &(struct held_arg){.kind = kind, .id = id}) == 1;
}
