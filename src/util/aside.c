/* SPDX-License-Identifier: Apache-2.0 */
#include "util/aside.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/fork.h"

/* The longest time that a killed process takes to end, unless it hangs. */
#define REAP_US    500
#define REAP_TRIES 40

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Moves the files, which are in ascending order, to the lowest numbers from RBT_ASIDE_KEPT on, and
 * closes all others: above all listeners, and the devices of programs that have ended. Each file
 * moves down, so none is overwritten before it has moved. */
static int close_others(const int *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (dup2(files[i], RBT_ASIDE_KEPT + (int)i) < 0) {
			return -errno;
		}
	}
	close_range(RBT_ASIDE_KEPT + (unsigned)n, ~0u, 0);
	return 0;
}

/* Puts the kept files first and the socket behind them. Returns the socket's number, or -errno. */
static int keep_files(int sock, const int *keep, size_t n)
{
	int all[RBT_ASIDE_MAX_KEPT + 1], last = RBT_ASIDE_KEPT + (int)n, at = RBT_ASIDE_KEPT;

	for (size_t i = 0; i < n; i++) {
		all[i] = keep[i];
	}
	all[n] = sock;
	qsort(all, n + 1, sizeof(*all), compare);
	int r = close_others(all, n + 1);
	for (size_t i = 0; all[i] != sock; i++) {
		at++;
	}
	int moved = r == 0 ? dup(at) : r;
	for (; moved >= 0 && at < last; at++) {
		if (dup2(at + 1, at) < 0) {
			return -errno;
		}
	}
	if (moved < 0 || dup2(moved, last) < 0) {
		return -errno;
	}
	close(moved);
	return last;
}

struct job {
	void (*fn)(int sock, void *data);
	void *data;
	const int *keep;
	size_t n;
};

static void child(const struct job *job, int sock, pid_t parent)
{
	sigset_t none;

	sock = keep_files(sock, job->keep, job->n);
	rbt_fork_is_apart();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sock < 0 || getppid() != parent) {
		_exit(1);
	}
	for (int number = 1; number < NSIG; number++) {
		signal(number, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	job->fn(sock, job->data);
	_exit(0);
}

pid_t rbt_aside_start_with(
	void (*fn)(int sock, void *data), void *data, int *keep, size_t n, int *ret_sock)
{
	struct job job = {.fn = fn, .data = data, .keep = keep, .n = n};
	pid_t parent = getpid();
	int pair[2];

	if (n > RBT_ASIDE_MAX_KEPT) {
		return -EINVAL;
	}
	if (n > 0) {
		qsort(keep, n, sizeof(*keep), compare);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	pid_t pid = rbt_fork();
	if (pid == 0) {
		child(&job, pair[1], parent);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return pid;
	}
	*ret_sock = pair[0];
	return pid;
}

pid_t rbt_aside_start(void (*fn)(int sock, void *data), void *data, int *ret_sock)
{
	return rbt_aside_start_with(fn, data, NULL, 0, ret_sock);
}

bool rbt_aside_end(pid_t pid)
{
	kill(pid, SIGKILL);
	for (int tries = 0; waitpid(pid, NULL, WNOHANG) == 0; tries++) {
		if (tries == REAP_TRIES) {
			return false;
		}
		usleep(REAP_US);
	}
	return true;
}
