/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"
#include "util/fd.h"
#include "util/proc.h"

#define START_TIMEOUT_MS 10000
#define NOBODY           65534

/* The end of the target's output that we hold stays open: a target that is told to write must not
 * die. */
static int wait_for_line(int fd)
{
	char c = 0;

	while (c != '\n') {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int r = poll(&p, 1, START_TIMEOUT_MS);
		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r == 0) {
			return -ETIMEDOUT;
		}
		if (r < 0 || read(fd, &c, 1) != 1) {
			return -EIO;
		}
	}
	return 0;
}

static const char *preload, *daemon_socket;

void target_preload(const char *library, const char *socket)
{
	preload = library;
	daemon_socket = socket;
}

static void set_environment(void)
{
	if (preload != NULL) {
		setenv("LD_PRELOAD", preload, 1);
		setenv("RUBATO_SOCKET", daemon_socket, 1);
		setenv("RUBATO_TREAT", "", 1);
		/* A sanitized target's runtime comes after it. */
		setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	}
}

pid_t target_start(const char *path, const char *option, const char *value)
{
	int out[2];

	if (pipe2(out, O_CLOEXEC) < 0) {
		return -errno;
	}
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], STDOUT_FILENO);
		set_environment();
		execlp(path, path, option, value, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	int r = pid < 0 ? -errno : wait_for_line(out[0]);
	close(out[0]);
	if (r < 0) {
		target_stop(pid);
		return r;
	}
	return pid;
}

void target_stop(pid_t pid)
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

int discover(const struct rbt_backend *be, pid_t pid, struct rbt_record **ret, size_t *ret_n)
{
	int pidfd = rbt_pidfd_open(pid);

	if (pidfd < 0) {
		return pidfd;
	}
	int r = be->discover(pid, pidfd, ret, ret_n);
	close(pidfd);
	return r;
}

void free_records(struct rbt_record *records, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rbt_record_finish(&records[i]);
	}
	free(records);
}

size_t open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (dir != NULL && readdir(dir) != NULL) {
		n++;
	}
	if (dir != NULL) {
		closedir(dir);
	}
	return n;
}

int as_nobody(int (*fn)(void *data), void *data)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			setresuid(NOBODY, NOBODY, NOBODY) < 0) {
			_exit(255);
		}
		_exit(-fn(data) & 0xff);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status)) {
		return -EIO;
	}
	return -WEXITSTATUS(status);
}

bool has_cap_sys_nice(void)
{
	char text[4096];

	if (rbt_read_file("/proc/self/status", text, sizeof(text)) <= 0) {
		return false;
	}
	const char *line = strstr(text, "\nCapEff:");
	return line != NULL && ((strtoull(line + 8, NULL, 16) >> 23) & 1) != 0;
}
