/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/survive/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/deaths.h"
#include "util/fd.h"
#include "util/fork.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

/* A child that the dead daemon had just forked may still have the lock, for a moment. If the lock
 * is held for longer than this, the holder is another daemon. */
#define LOCK_WAIT_NS RBT_NS_PER_S
#define LOCK_STEP_US 2000
/* A daemon that has closed the pipe ends within this time, unless it hangs. */
#define DYING_MS 500
/* If deaths cannot be counted, the keeper waits this long before each start. */
#define UNCOUNTED_US  1000000
#define PAUSE_STEP_US 500000
#define MAX_ARGUMENTS 32

/* The keeper has only these two files; everything else that the daemon had open is closed. */
enum { PIPE_FD = 3, DAEMON_FD = 4 };

/* Whether the daemon has ended and no other one has taken its place. */
static bool is_vacant(const char *lock_path)
{
	uint64_t end_ns = rbt_now_ns() + LOCK_WAIT_NS;
	int fd = open(lock_path, O_RDWR | O_CLOEXEC);
	bool is_free = false;

	if (fd < 0) {
		return true; /* the directory was removed: rubatod creates it again */
	}
	while (!(is_free = flock(fd, LOCK_EX | LOCK_NB) == 0) && rbt_now_ns() < end_ns) {
		usleep(LOCK_STEP_US);
	}
	close(fd);
	return is_free;
}

/* Whether another daemon has taken the place. */
static bool is_taken(const char *lock_path)
{
	int fd = open(lock_path, O_RDWR | O_CLOEXEC);
	bool is_held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;

	rbt_close(&fd);
	return is_held;
}

/* Waits, but not for longer than until a command has started a daemon. That daemon has a keeper of
 * its own. Returns false then. */
static bool pause_until(const char *lock_path, uint64_t end_ns)
{
	while (rbt_now_ns() < end_ns) {
		if (is_taken(lock_path)) {
			return false;
		}
		usleep(PAUSE_STEP_US);
	}
	return true;
}

/* Copies the daemon's arguments, except those that were meant for the process that started it. Adds
 * `last`. */
static void copy_arguments(char *const *from, char *last, char *to[MAX_ARGUMENTS + 2])
{
	int n = 0;

	for (; *from != NULL && n < MAX_ARGUMENTS; from++) {
		if (strcmp(*from, "--ready-fd") == 0 && from[1] != NULL) {
			from++;
		} else if (strncmp(*from, "--ready-fd=", 11) != 0) {
			to[n++] = *from;
		}
	}
	to[n++] = last;
	to[n] = NULL;
}

/* In a new process: becomes the daemon, by its old path, because an upgrade may have replaced the
 * file. */
static void become_daemon(const struct keeper_plan *plan, const char *path, int ready_fd)
{
	char *argv[MAX_ARGUMENTS + 2], ready[32];

	setsid();
	signal(SIGINT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	snprintf(ready, sizeof(ready), "--ready-fd=%d", ready_fd);
	fcntl(ready_fd, F_SETFD, 0);
	copy_arguments(plan->argv, ready, argv);
	unsetenv("LD_PRELOAD");
	prctl(PR_SET_NAME, "rubatod");
	execv(path, argv);
	rbt_error("cannot start %s again: %s", path, strerror(errno));
	_exit(127);
}

/*
 * Starts the daemon, and waits until it has a keeper of its own. Returns false if it was killed
 * before that: then nobody else starts another one. A daemon that ended by itself has said why, and
 * another one would do the same.
 */
static bool start_again(const struct keeper_plan *plan, const char *path)
{
	int ready[2], status = 0;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0) {
		return true;
	}
	pid_t pid = fork();
	if (pid == 0) {
		become_daemon(plan, path, ready[1]);
	}
	close(ready[1]);
	bool is_ready = pid < 0 || read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	if (pid < 0) {
		rbt_error("cannot start %s again: %s", path, strerror(errno));
	}
	return is_ready || waitpid(pid, &status, 0) < 0 || !WIFSIGNALED(status) ||
	       WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT;
}

/* Counts a death. Returns false if there have been too many, and a command has started another
 * daemon meanwhile. */
static bool count_death(const struct keeper_plan *plan)
{
	uint64_t now_ns = rbt_now_ns();

	if (rbt_deaths_note(plan->dir, now_ns) < 0) {
		usleep(UNCOUNTED_US);
	}
	uint64_t end_ns = rbt_deaths_pause_end(plan->dir, now_ns);
	if (end_ns == 0) {
		rbt_warn("rubatod was killed: it is started again");
		return true;
	}
	rbt_warn("rubatod was killed %d times within %llu s: it is started again in %llu s, "
		 "or by the next command",
		RBT_DEATHS_MAX, RBT_DEATHS_WITHIN_NS / RBT_NS_PER_S,
		(end_ns - now_ns) / RBT_NS_PER_S);
	return pause_until(plan->lock_path, end_ns);
}

static void replace_daemon(const struct keeper_plan *plan, const char *path)
{
	bool is_done = false;

	while (!is_done && is_vacant(plan->lock_path) && count_death(plan)) {
		is_done = start_again(plan, path);
	}
}

/*
 * Waits until the daemon has ended, and returns whether it ended in an orderly way. Its pidfd
 * reports the end only after all its files are closed. A killed daemon may wait for ever for files
 * in unread messages (porter.c), but its lock and its end of the pipe are closed before that.
 */
static bool wait_for_end(void)
{
	struct pollfd fds[2] = {
		{.fd = PIPE_FD, .events = POLLIN}, {.fd = DAEMON_FD, .events = POLLIN}};
	char byte;

	while (fds[1].revents == 0) {
		int n = poll(fds, 2, fds[0].fd < 0 ? DYING_MS : -1);
		if (n < 0 && errno != EINTR) {
			return true;
		}
		if (n == 0) {
			return false;
		}
		if ((fds[0].revents & POLLIN) != 0 && read(PIPE_FD, &byte, 1) == 1) {
			return true;
		}
		if (fds[0].revents != 0) {
			fds[0].fd = -1; /* the pipe has nothing more to report */
		}
	}
	return false;
}

static void child(const struct keeper_plan *plan, int pipe_fd, int daemon_fd)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	setsid();
	prctl(PR_SET_NAME, RBT_KEEPER_NAME);
	path[n > 0 ? n : 0] = '\0';
	char *deleted = strstr(path, " (deleted)");
	if (deleted != NULL) {
		*deleted = '\0';
	}
	/* Two steps, because either number may be the target of the other. */
	int a = fcntl(pipe_fd, F_DUPFD_CLOEXEC, DAEMON_FD + 1);
	int b = fcntl(daemon_fd, F_DUPFD_CLOEXEC, DAEMON_FD + 1);
	if (n <= 0 || a < 0 || b < 0 || dup3(a, PIPE_FD, O_CLOEXEC) < 0 ||
		dup3(b, DAEMON_FD, O_CLOEXEC) < 0) {
		_exit(1);
	}
	close_range(DAEMON_FD + 1, ~0u, 0);
	rbt_fork_is_apart();
	for (int number = 1; number < NSIG; number++) {
		signal(number, SIG_DFL);
	}
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Signals of the terminal and of the service manager are meant for the daemon. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* The user's shell may have limited the length of files, and the log is one. */
	signal(SIGXFSZ, SIG_IGN);
	if (!wait_for_end()) {
		replace_daemon(plan, path);
	}
	_exit(0);
}

pid_t keeper_start(const struct keeper_plan *plan, int *ret_fd)
{
	int pipe_fds[2];
	int daemon_fd = rbt_pidfd_open(getpid());

	if (daemon_fd < 0) {
		return daemon_fd;
	}
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		int r = -errno;
		close(daemon_fd);
		return r;
	}
	pid_t pid = rbt_fork();
	if (pid == 0) {
		child(plan, pipe_fds[0], daemon_fd);
	}
	close(daemon_fd);
	close(pipe_fds[0]);
	if (pid < 0) {
		close(pipe_fds[1]);
		return pid;
	}
	*ret_fd = pipe_fds[1];
	return pid;
}

void keeper_dismiss(int *fd)
{
	if (*fd >= 0) {
		ssize_t ignored = write(*fd, "q", 1);
		(void)ignored;
		rbt_close(fd);
	}
}
