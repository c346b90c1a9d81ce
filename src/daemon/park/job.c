/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/park/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/park/park.h"
#include "util/fd.h"
#include "util/fork.h"
#include "util/log.h"
#include "util/runtime.h"
#include "util/time.h"

/* How long a lock may wait for the program's work. */
#define LOCK_MS 10000
/* A job that takes longer than this, and 1 s for each 200 MB, is reported, and nothing else. On an
 * H200, 1.7 GB/s leave the GPU. */
#define GRACE_NS     (30 * RBT_NS_PER_S)
#define BYTES_PER_MS 200000u
#define REPORT_FD    3
#define MAX_ARGS     (RBT_PARK_MAX + 6)

static struct parked *find(struct daemon *d, pid_t pid, const struct park_job *job)
{
	struct parked *k;

	LIST_FOREACH (k, &d->parking.list, entries) {
		if (k->pid == pid && k->job == job) {
			return k;
		}
	}
	return NULL;
}

/* The helper is never killed: it may be inside a call. One that has ended is reaped. */
static void end(struct daemon *d, struct park_job *job)
{
	bool is_lost = !job->has_ended;

	(void)waitpid(job->helper, NULL, is_lost ? WNOHANG : 0);
	park_job_ended(d, job, is_lost);
	job_destroy(d, job);
	/* What comes next does not wait for the next tick. */
	park_tick(d, rbt_now_ns());
}

static void on_report(struct daemon *d, struct source *s, uint32_t events)
{
	struct park_job *job = (struct park_job *)s;
	struct rbt_park_report r;

	for (;;) {
		ssize_t n = recv(s->fd, &r, sizeof(r), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			return;
		}
		if (n != (ssize_t)sizeof(r)) {
			end(d, job);
			return;
		}
		struct parked *k = find(d, r.pid, job);
		if (r.is_last) {
			job->has_ended = true;
			job->result = r.result;
		} else if (k != NULL && r.has_ended) {
			park_reported(d, k, &r);
		}
	}
}

/* In the new process. */
static void become_helper(const char *path, const struct park_job *job, const char *lock, int fd)
{
	char words[MAX_ARGS][24], *argv[MAX_ARGS + 1];
	size_t n = 0;
	sigset_t none;

	snprintf(words[0], sizeof(words[0]), "%s", RBT_PARK_HELPER);
	snprintf(words[1], sizeof(words[1]), "%d", REPORT_FD);
	snprintf(words[3], sizeof(words[3]), "%d", (int)job->goal);
	snprintf(words[4], sizeof(words[4]), "%d", LOCK_MS);
	for (n = 0; n < 5 + job->n; n++) {
		if (n >= 5) {
			snprintf(words[n], sizeof(words[n]), "%d", (int)job->pids[n - 5]);
		}
		argv[n] = words[n];
	}
	argv[2] = (char *)(uintptr_t)lock;
	argv[n] = NULL;
	if (dup2(fd, REPORT_FD) < 0 || fcntl(REPORT_FD, F_SETFD, 0) < 0) {
		_exit(1);
	}
	close_range(REPORT_FD + 1, ~0u, 0);
	rbt_fork_is_apart();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	unsetenv("LD_PRELOAD");
	execv(path, argv);
	_exit(127);
}

static int spawn(struct daemon *d, struct park_job *job)
{
	char path[4096], lock[160];
	int fds[2];
	int r = rbt_sibling_path(RBT_PARK_HELPER, RUBATO_LIBEXECDIR, path, sizeof(path));

	if (r < 0) {
		return r;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		return -errno;
	}
	snprintf(lock, sizeof(lock), "%s/park.lock", d->home.dir);
	job->helper = rbt_fork();
	if (job->helper == 0) {
		become_helper(path, job, lock, fds[1]);
	}
	close(fds[1]);
	job->socket = (struct source){.fd = fds[0], .ready = on_report};
	r = job->helper < 0 ? (int)job->helper : watch(d, &job->socket);
	if (r < 0) {
		rbt_close(&job->socket.fd);
	}
	return r;
}

int job_start(struct daemon *d, enum rbt_park_goal goal, struct parked *const *list, size_t n)
{
	struct park_job *job = calloc(1, sizeof(*job));
	uint64_t bytes = 0;

	if (job == NULL) {
		return -ENOMEM;
	}
	job->goal = goal;
	for (size_t i = 0; i < n && i < RBT_PARK_MAX; i++) {
		job->pids[job->n++] = list[i]->pid;
		bytes += park_bytes(list[i]);
	}
	int r = spawn(d, job);
	if (r < 0) {
		free(job);
		return r;
	}
	job->begun_ns = rbt_now_ns();
	job->deadline_ns = job->begun_ns + GRACE_NS + LOCK_MS * RBT_NS_PER_MS +
			   bytes / BYTES_PER_MS * RBT_NS_PER_MS;
	for (size_t i = 0; i < job->n; i++) {
		list[i]->job = job;
	}
	LIST_INSERT_HEAD(&d->parking.jobs, job, entries);
	return 0;
}

void job_cancel(struct park_job *job)
{
	const char stop = 1;

	if (!job->is_cancelled) {
		job->is_cancelled = true;
		(void)send(job->socket.fd, &stop, sizeof(stop), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

void job_destroy(struct daemon *d, struct park_job *job)
{
	struct parked *k;

	LIST_FOREACH (k, &d->parking.list, entries) {
		k->job = k->job == job ? NULL : k->job;
	}
	LIST_REMOVE(job, entries);
	unwatch(d, &job->socket);
	free(job);
}
