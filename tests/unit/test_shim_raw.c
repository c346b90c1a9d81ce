/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's first thread has ended, and others go on: their memory and files can still be
 * looked at. The test has a /dev of its own, in which the device is a plain file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "shim/sys.h"

#define SKIP 77

static int kfd = -1;

/* The kernel finds no memory by the process id once the first thread has ended. */
static void await_end_of_first(void)
{
	uint64_t from = 1, to = 0;
	struct iovec there = {&from, sizeof(from)}, here = {&to, sizeof(to)};

	while (process_vm_readv(getpid(), &here, 1, &there, 1, 0) > 0) {
		usleep(100);
	}
}

static void *run_on(void *data)
{
	uint64_t words[2] = {3, 4}, copies[2] = {0};
	struct iovec from[2] = {{&words[0], 8}, {&words[1], 8}};

	await_end_of_first();
	CHECK(shim_raw_is_kfd(kfd) && !shim_raw_is_kfd(STDERR_FILENO));
	CHECK_INT(shim_sys_peek(&copies[0], &words[1], sizeof(words[1])), 0);
	CHECK_INT(copies[0], 4);
	CHECK_INT(shim_sys_peek_words(copies, from, 2), 2);
	CHECK(copies[0] == 3 && copies[1] == 4);
	CHECK_INT(shim_sys_peek(copies, (void *)8, 8), -EFAULT);
	exit(check_result());
}

static int be_program(void)
{
	pthread_t thread;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/dev", "tmpfs", 0, NULL) < 0) {
		printf("skipped: no /dev of its own: %s\n", strerror(errno));
		return SKIP;
	}
	kfd = open("/dev/kfd", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(shim_raw_is_kfd(kfd));
	if (pthread_create(&thread, NULL, run_on, NULL) != 0) {
		return 1;
	}
	pthread_exit(NULL);
}

int main(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		exit(be_program());
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
