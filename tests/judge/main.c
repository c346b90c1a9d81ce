/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the table: `judge [--risky] [NAME…]`; with names, what begins so. */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "judge.h"

#define CASE_MS 20000 /* an emulated machine is slow */

/*
 * Without capabilities root gets the answers that everybody gets: one expectation serves both, and
 * a container that lacks some. The cases debug their own children, which needs none.
 */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capset, &header, none) < 0) {
		perror("judge: capset");
		exit(1);
	}
}

/* Whatever the case left running goes with it. */
static void end_group(pid_t leader, int *ret_status)
{
	kill(-leader, SIGKILL);
	waitpid(leader, ret_status, 0);
}

static bool wait_for_end(pid_t pid)
{
	for (int i = 0; i < CASE_MS / 10; i++) {
		siginfo_t info = {0};
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
			info.si_pid == pid) {
			return true;
		}
		pause_ms(10);
	}
	return false;
}

void judge_run_case(const struct judge_case *c)
{
	int pipe_fds[2], status = 0;
	char line[8192];

	make_pipe(pipe_fds);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		/* A group, not a session: ptrace rules care for neither. */
		setpgid(0, 0);
		dup2(pipe_fds[1], STDOUT_FILENO);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		c->run(c);
		_exit(0);
	}
	setpgid(pid, pid);
	close(pipe_fds[1]);
	bool ended = wait_for_end(pid);
	end_group(pid, &status);
	ssize_t n = read(pipe_fds[0], line, sizeof(line));
	close(pipe_fds[0]);
	printf("%s:%.*s", c->name, n > 0 ? (int)n : 0, line);
	if (!ended) {
		printf(" HANGS");
	} else if (WIFSIGNALED(status)) {
		printf(" KILLED by %d", WTERMSIG(status));
	} else if (WEXITSTATUS(status) != 0) {
		printf(" FAILED");
	}
	putchar('\n');
}

static bool is_wanted(const struct judge_case *c, int n, char **names)
{
	for (int i = 0; i < n; i++) {
		if (strncmp(c->name, names[i], strlen(names[i])) == 0) {
			return true;
		}
	}
	return n == 0;
}

int main(int argc, char **argv)
{
	if (getpid() == 1) {
		return judge_guest();
	}
	if (argc == 4 && strcmp(argv[1], "--target") == 0) {
		return target_main(atoi(argv[2]), atoi(argv[3]));
	}
	bool risky = argc > 1 && strcmp(argv[1], "--risky") == 0;
	argc -= risky;
	argv += risky;
	drop_capabilities();
	for (size_t i = 0; i < judge_n_cases; i++) {
		if (judge_cases[i].risky == risky &&
			is_wanted(&judge_cases[i], argc - 1, argv + 1)) {
			judge_run_case(&judge_cases[i]);
		}
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
