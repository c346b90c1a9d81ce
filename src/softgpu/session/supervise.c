/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/session/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/session/filter.h"
#include "softgpu/session/relay.h"
#include "util/fd.h"
#include "util/log.h"

#define BYE_TIMEOUT_MS 1000

/* Messages between the waiting process and the supervisor: signals one way, the command's end the
 * other. */
struct word {
	int value;
};

/* In the command's process: installs the filter, restores everything else, and runs the command.
 * Never returns. */
static void become_command(int sock, const sigset_t *mask, char *const argv[])
{
	struct word word = {0};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	int listener = filter_install();

	if (listener < 0) {
		rbt_error("cannot install the system call filter: %s%s", strerror(-listener),
			listener == -EBUSY ? " (already inside another supervisor's)" : "");
		_exit(1);
	}
	/* From here on our own opens would wait for the supervisor: it must have the listener
	 * first. */
	if (rbt_send(sock, &word, sizeof(word), &listener, 1, 0) < 0 ||
		rbt_recv(sock, &word, sizeof(word), fds, &n_fds, 0) <= 0) {
		_exit(1);
	}
	close(listener);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	int err = errno;
	rbt_error("%s: %s", argv[0], strerror(err));
	_exit(err == ENOENT ? 127 : 126);
}

static int exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes all files of the caller: a pipe that stayed open here would never end. */
static void let_go(int *keep, size_t n)
{
	unsigned from = 3;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3 && null >= 0; fd++) {
		dup2(null, fd);
	}
	qsort(keep, n, sizeof(keep[0]), compare);
	for (size_t i = 0; i < n; i++) {
		if ((unsigned)keep[i] > from) {
			close_range(from, (unsigned)keep[i] - 1, 0);
		}
		from = (unsigned)keep[i] + 1;
	}
	close_range(from, ~0u, 0);
	(void)!chdir("/");
}

/* Orphans of the command are our children, too (see below). Returns whether the command has
 * ended. */
static bool reap(pid_t command, int *ret_code)
{
	int status;
	bool found = false;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == command) {
			*ret_code = exit_code(status);
			found = true;
		}
	}
	return found;
}

static bool has_hung_up(int listener)
{
	struct pollfd p = {.fd = listener};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

/* The last program has ended. A private session ends with it: the server cleans up, or we do in its
 * place. */
static void end_session(const struct session *s)
{
	struct link_header bye = link_header(LINK_BYE, 0);
	struct pollfd p = {.fd = s->sock};

	if (!s->private) {
		return;
	}
	if (!relay_is_connected() || rbt_send(s->sock, &bye, sizeof(bye), NULL, 0, 0) < 0) {
		session_remove(s->dir);
		return;
	}
	/* The receiving thread empties the socket; this sees only its end. */
	poll(&p, 1, BYE_TIMEOUT_MS);
}

static void report(int *sock, int code)
{
	struct word word = {.value = code};

	(void)rbt_send(*sock, &word, sizeof(word), NULL, 0, MSG_DONTWAIT);
	rbt_close(sock);
}

/* Passes SIGTERM on; if the waiting process was killed, asks the command to end as well. */
static void hear(int *sock, pid_t command, bool running)
{
	struct word word = {.value = SIGTERM};
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	if (rbt_recv(*sock, &word, sizeof(word), fds, &n_fds, MSG_DONTWAIT) <= 0) {
		rbt_close(sock);
	}
	if (running) {
		kill(command, word.value);
	}
}

/* Runs until no process is left under the filter. */
static void serve(struct session *s, int listener, int signals, int sock, pid_t command)
{
	bool running = true, reported = false;
	int code = 1;

	while (!has_hung_up(listener)) {
		struct pollfd fds[3] = {
			{.fd = signals, .events = POLLIN}, {.fd = sock, .events = POLLIN},
			{.fd = listener}, /* for POLLHUP alone */
		};
		struct signalfd_siginfo info;
		if (poll(fds, 3, -1) < 0) {
			continue;
		}
		if (fds[0].revents & POLLIN) {
			(void)!read(signals, &info, sizeof(info));
			running = !reap(command, &code) && running;
		}
		if (sock >= 0 && fds[1].revents != 0) {
			hear(&sock, command, running);
		}
		if (!running && !reported && !has_hung_up(listener)) {
			report(&sock, code);
			reported = true;
		}
	}
	int status;
	if (running && waitpid(command, &status, 0) == command) {
		code = exit_code(status);
	}
	end_session(s);
	if (!reported) {
		report(&sock, code);
	}
}

/* Starts the command, which waits for a message before it goes on. Returns its pid, or the negated
 * exit code. */
static pid_t start_command(const sigset_t *mask, char *const argv[], int *ret_listener, int *ret_go)
{
	int pair[2], status, fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;
	struct word word;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		become_command(pair[1], mask, argv);
	}
	close(pair[1]);
	/* The caller may have ignored SIGCHLD; we must see children die. */
	signal(SIGCHLD, SIG_DFL);
	if (pid < 0 || rbt_recv(pair[0], &word, sizeof(word), fds, &n_fds, 0) <= 0 || n_fds != 1) {
		close(pair[0]);
		return pid > 0 && waitpid(pid, &status, 0) == pid ? -exit_code(status) : -1;
	}
	*ret_listener = fds[0];
	*ret_go = pair[0];
	return pid;
}

/* The supervisor process. */
static void supervisor(struct session *s, int sock, const sigset_t *mask, char *const argv[])
{
	struct word go = {0};
	sigset_t set;
	int listener = -1, go_sock = -1;

	/*
	 * Daemons that the command leaves behind become our children, not init's: under Yama only
	 * an ancestor may read a program's memory.
	 */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	pid_t command = start_command(mask, argv, &listener, &go_sock);
	if (command < 0) {
		report(&sock, -command);
		return;
	}
	/* Leaves the command's session: neither its terminal nor a kill of its group may end us
	 * early. */
	(void)setsid();
	prctl(PR_SET_NAME, "softgpu-relay");
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	int signals = signalfd(-1, &set, SFD_CLOEXEC);
	int keep[] = {sock, listener, go_sock, signals, s->sock};
	let_go(keep, sizeof(keep) / sizeof(keep[0]));
	if (signals < 0 || relay_start(listener, s) < 0) {
		kill(command, SIGKILL);
		report(&sock, 1);
		return;
	}
	(void)rbt_send(go_sock, &go, sizeof(go), NULL, 0, 0);
	close(go_sock);
	serve(s, listener, signals, sock, command);
}

/* Terminal signals reach the command directly; SIGTERM is sent to us alone, and passed on. */
static int wait_for_command(int sock, int signals)
{
	for (;;) {
		struct pollfd fds[2] = {
			{.fd = signals, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
		struct signalfd_siginfo info;
		struct word word;
		int received[RBT_MAX_FDS_PER_MSG];
		size_t n_fds = 0;

		if (poll(fds, 2, -1) < 0) {
			continue;
		}
		if ((fds[0].revents & POLLIN) &&
			read(signals, &info, sizeof(info)) == sizeof(info)) {
			word.value = (int)info.ssi_signo;
			(void)rbt_send(sock, &word, sizeof(word), NULL, 0, MSG_DONTWAIT);
		}
		if (fds[1].revents != 0) {
			if (rbt_recv(sock, &word, sizeof(word), received, &n_fds, 0) !=
				sizeof(word)) {
				rbt_error("the supervisor ended before the command");
				return 1;
			}
			return word.value;
		}
	}
}

int supervise(struct session *s, char *const argv[])
{
	int pair[2];
	sigset_t set, old;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		rbt_error("cannot start the supervisor: %s", strerror(errno));
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &old);
	pid_t pid = fork();
	if (pid == 0) {
		close(pair[0]);
		supervisor(s, pair[1], &old, argv);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0) {
		rbt_error("cannot start the supervisor: %s", strerror(errno));
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	return wait_for_command(pair[0], signalfd(-1, &set, SFD_CLOEXEC));
}
