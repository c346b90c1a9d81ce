/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "judge.h"

void say(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	text[0] = ' ';
	va_start(ap, fmt);
	int n = vsnprintf(text + 1, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text) - 1 ||
		write(STDOUT_FILENO, text, (size_t)n + 1) != n + 1) {
		_exit(1);
	}
}

void say_result(const char *what, long result)
{
	const char *name = result < 0 ? strerrorname_np((int)-result) : NULL;

	if (name != NULL) {
		say("%s=%s", what, name);
	} else {
		say("%s=%ld", what, result);
	}
}

int open_kfd(void)
{
	int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		say_result("open", -errno);
		_exit(1);
	}
	return fd;
}

long call(int fd, unsigned long request, void *arg)
{
	int r = ioctl(fd, request, arg);

	return r < 0 ? -errno : r;
}

long dbg(int fd, pid_t pid, uint32_t op, struct kfd_dbg_trap *arg)
{
	struct kfd_dbg_trap zero = {0};
	struct kfd_dbg_trap *a = arg != NULL ? arg : &zero;

	a->pid = (uint32_t)pid;
	a->op = op;
	return call(fd, KFD_IOC_DBG_TRAP, a);
}

long dbg_enable(int fd, pid_t pid, int event, uint64_t mask, struct kfd_runtime_info *ret)
{
	struct kfd_runtime_info info = {.r_debug = 1, .state = 9, .ttmp_setup = 9};
	struct kfd_dbg_trap a = {.enable.exception_mask = mask,
		.enable.rinfo_ptr = (uintptr_t)&info,
		.enable.rinfo_size = sizeof(info),
		.enable.dbg_fd = (uint32_t)event};
	long r = dbg(fd, pid, KFD_DBG_ENABLE, &a);

	if (ret != NULL) {
		*ret = info;
	}
	return r;
}

long runtime_enable(int fd, uint32_t mode, uint64_t r_debug)
{
	struct kfd_runtime_enable a = {.r_debug = r_debug, .mode_mask = mode};

	return call(fd, KFD_IOC_RUNTIME_ENABLE, &a);
}

long seize(pid_t pid)
{
	return ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ? -errno : 0;
}

long detach(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, &status, __WALL) < 0) {
		return -errno;
	}
	return ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0 ? -errno : 0;
}

void make_pipe(int ret[2])
{
	if (pipe2(ret, O_CLOEXEC) < 0) {
		perror("judge: pipe");
		_exit(1);
	}
}

int bytes_in(int fd)
{
	int n = -1;

	return ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
}

void pause_ms(unsigned ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

struct thread_call {
	long (*fn)(void *data);
	void *data;
	long result;
};

static void *thread_main(void *data)
{
	struct thread_call *t = data;

	t->result = t->fn(t->data);
	return NULL;
}

long on_thread(long (*fn)(void *data), void *data)
{
	struct thread_call t = {.fn = fn, .data = data};
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_main, &t) != 0) {
		_exit(1);
	}
	pthread_join(thread, NULL);
	return t.result;
}
