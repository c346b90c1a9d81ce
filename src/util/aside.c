/* SPDX-License-Identifier: Apache-2.0 */
#include "util/aside.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long it takes a killed process to end, at most, unless it hangs. */
#define REAP_US    500
#define REAP_TRIES 40

static void child(void (*fn)(int sock, void *data), void *data, int sock, pid_t parent)
{
	sigset_t none;

	/* Least of all a listener, or the devices of programs that have ended. */
	if (dup2(sock, 3) < 0) {
		_exit(1);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(1);
	}
	close_range(4, ~0u, 0);
	for (int number = 1; number < NSIG; number++) {
		signal(number, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	fn(3, data);
	_exit(0);
}

pid_t rbt_aside_start(void (*fn)(int sock, void *data), void *data, int *ret_sock)
{
	pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	pid_t pid = fork();
	int error = errno;
	if (pid == 0) {
		child(fn, data, pair[1], parent);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -error;
	}
	*ret_sock = pair[0];
	return pid;
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
