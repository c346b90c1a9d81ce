/* SPDX-License-Identifier: Apache-2.0 */
/* Files and processes: who may use which fd, and how long a process is one of KFD's. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge.h"

static long version_of(int fd)
{
	struct kfd_version v = {0};

	return call(fd, KFD_IOC_GET_VERSION, &v);
}

static void open_as(const char *what, int flags)
{
	int fd = open(KFD_PATH, flags);

	say_result(what, fd < 0 ? -errno : version_of(fd));
}

JUDGE_CASE(case_open_modes)
{
	open_as("read", O_RDONLY);
	open_as("write", O_WRONLY);
	open_as("both", O_RDWR);
	open_as("nonblock", O_RDWR | O_NONBLOCK);
	open_as("truncate", O_RDWR | O_TRUNC);
	open_as("append", O_WRONLY | O_APPEND);
	open_as("create", O_RDWR | O_CREAT);
	open_as("below", O_RDONLY | O_DIRECTORY);
	int fd = open(KFD_PATH "/x", O_RDONLY);
	say_result("file-below", fd < 0 ? -errno : 0);
	fd = open(KFD_PATH "x", O_RDONLY);
	say_result("other-name", fd < 0 ? -errno : 0);
}

/* Two opens are one process: what one does the other sees. */
JUDGE_CASE(case_two_opens)
{
	int a = open_kfd(), b = open_kfd();

	say_result("a", version_of(a));
	say_result("b", version_of(b));
	say_result("enable-a", runtime_enable(a, KFD_RUNTIME_ENABLE_MODE, 0));
	say_result("enable-b", runtime_enable(b, KFD_RUNTIME_ENABLE_MODE, 0));
	close(a);
	say_result("enable-b-later", runtime_enable(b, KFD_RUNTIME_ENABLE_MODE, 0));
	say_result("disable-b", runtime_enable(b, 0, 0));
	say_result("closed", version_of(a));
}

JUDGE_CASE(case_dup)
{
	int a = open_kfd(), b = dup(a);

	close(a);
	say_result("copy", version_of(b));
	say_result("enable", runtime_enable(b, KFD_RUNTIME_ENABLE_MODE, 0));
}

static long child_result(long (*fn)(int fd), int fd)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		_exit((int)-fn(fd));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -(long)WEXITSTATUS(status) : 1;
}

static long unknown_number(int fd)
{
	return call(fd, _IO('K', 0x7f), NULL);
}

static long null_version(int fd)
{
	return call(fd, KFD_IOC_GET_VERSION, NULL);
}

static long own_open(int fd)
{
	int mine = open(KFD_PATH, O_RDWR);
	long r = mine < 0 ? -errno : version_of(mine);

	/* And the inherited one still serves its owner alone. */
	return r < 0 ? r : version_of(fd);
}

JUDGE_CASE(case_fork)
{
	int fd = open_kfd();

	say_result("inherited", child_result(version_of, fd));
	say_result("unknown-first", child_result(unknown_number, fd));
	say_result("null-later", child_result(null_version, fd));
	say_result("with-own", child_result(own_open, fd));
	say_result("parent", version_of(fd));
}

JUDGE_CASE(case_pass)
{
	struct target t = target_start();
	int fd = open_kfd();
	long r = 0;

	target_give(&t, fd);
	(void)target_answers(&t, 5000, &r);
	say_result("passed", r);
	say_result("use", target_ask(&t, TARGET_VERSION, 0, 0));
	say_result("runtime", target_ask(&t, TARGET_RUNTIME, 1, 0));
	say_result("owner", version_of(fd));
	close(fd);
	say_result("use-later", target_ask(&t, TARGET_VERSION, 0, 0));
	say_result("own", target_ask(&t, TARGET_OPEN, 0, 0));
	say_result("own-use", target_ask(&t, TARGET_VERSION, 0, 0));
}

static long thread_open(void *data)
{
	int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

	*(int *)data = fd;
	return fd < 0 ? -errno : version_of(fd);
}

static long thread_version(void *data)
{
	return version_of(*(int *)data);
}

JUDGE_CASE(case_thread_open)
{
	int fd = -1, mine = open_kfd();

	say_result("by-thread", on_thread(thread_open, &fd));
	say_result("by-first", version_of(fd));
	say_result("others", on_thread(thread_version, &mine));
}

/* Closing everything does not end the process's part in KFD: its address space does. */
JUDGE_CASE(case_reopen)
{
	int fd = open_kfd();

	say_result("enable", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
	close(fd);
	pause_ms(300);
	fd = open_kfd();
	say_result("enable-again", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
	say_result("disable", runtime_enable(fd, 0, 0));
	say_result("enable-anew", runtime_enable(fd, KFD_RUNTIME_ENABLE_MODE, 0));
}

JUDGE_CASE(case_exec)
{
	struct target t = target_start();

	say_result("open", target_ask(&t, TARGET_OPEN, 0, 0));
	say_result("enable", target_ask(&t, TARGET_RUNTIME, 1, 0));
	target_ask(&t, TARGET_EXEC, 0, 0);
	say_result("open-anew", target_ask(&t, TARGET_OPEN, 0, 0));
	say_result("enable-anew", target_ask(&t, TARGET_RUNTIME, 1, 0));
}
