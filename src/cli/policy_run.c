/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rubato run --policy`. The command takes the place of this process, so another process keeps the
 * policy loaded: it holds the connection to the daemon for as long as the command runs.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cmd_policy.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"

#define LOOK_MS 200

/* Files of the caller may be pipes whose end somebody waits for. Standard error stays, for the
 * report of an ejection. */
static void close_files(int first, int second)
{
	const int low = first < second ? first : second, high = first < second ? second : first;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	if (low > 3) {
		close_range(3, (unsigned)low - 1, 0);
	}
	if (high > low + 1) {
		close_range((unsigned)low + 1, (unsigned)high - 1, 0);
	}
	close_range((unsigned)high + 1, ~0u, 0);
}

/* Loads the policy, tells the exit code, and holds the policy until the command ends. */
static void hold(const struct policy_choice *choice, int pidfd, int code_fd)
{
	struct policy_hold h;
	char why[POLICY_WHY_MAX] = "";

	setsid(); /* Ctrl-C is for the command */
	prctl(PR_SET_NAME, "rubato-policy");
	close_files(pidfd, code_fd);
	int code = policy_hold_begin(&h, &cmd_run, choice, RBT_POLICY_JOIN, true);
	char byte = (char)code;
	if (write(code_fd, &byte, 1) != 1 || h.sock < 0) {
		_exit(0);
	}
	close(code_fd);
	if (chdir("/") < 0) {
		rbt_debug("chdir");
	}
	h.until_fd = pidfd;
	struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
	while (poll(&pfd, 1, LOOK_MS) == 0) {
		if (!policy_hold_look(&h, NULL, false, why)) {
			rbt_warn("run: the policy %s is not in force any more: %s", choice->file,
				why);
			break;
		}
	}
	_exit(0);
}

/* The holding process is no child of the command, and does not show up in its wait(). */
static void start(const struct policy_choice *choice, int pidfd, int code_fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (fork() == 0) {
			hold(choice, pidfd, code_fd);
		}
		_exit(0);
	}
	if (pid > 0) {
		waitpid(pid, NULL, 0);
	}
}

int policy_run(const struct policy_choice *choice)
{
	int pipe_fds[2] = {-1, -1};
	int pidfd = rbt_pidfd_open(getpid());
	char byte = EXIT_FAILED;

	if (pidfd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0) {
		rbt_error("run: %s: the policy cannot be held: %s", choice->file,
			pidfd < 0 ? strerror(-pidfd) : "no pipe");
		rbt_close(&pidfd);
		return EXIT_FAILED;
	}
	start(choice, pidfd, pipe_fds[1]);
	rbt_close(&pipe_fds[1]);
	if (read(pipe_fds[0], &byte, 1) != 1) {
		rbt_error(
			"run: %s: the policy cannot be held: its process has ended", choice->file);
	}
	rbt_close(&pipe_fds[0]);
	rbt_close(&pidfd);
	return byte;
}
