/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's thread: an ordinary thread of the C library, so that set*id(), fork() and other
 * functions that affect a program's threads include it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/sys.h"

/*
 * The oldest version, which every C library has. Before glibc 2.34 it is in libpthread, which a
 * program without threads does not load; such a program must still be able to load this library.
 * ROCm's runtime needs libpthread, so every program with queues has it.
 */
#if defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
#else
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
#endif
#pragma weak pthread_create

/* glibc's own signals: a thread that blocks the second one makes the program's setuid() wait for
 * ever. */
#define LIBC_SIGNALS (UINT64_C(3) << (32 - 1))

static void *start(void *arg)
{
	void (*fn)(void) = (void (*)(void))(uintptr_t)arg;
	uint64_t libc_signals = LIBC_SIGNALS;

	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &libc_signals, NULL, sizeof(libc_signals));
	syscall(SYS_prctl, PR_SET_NAME, "rubato-agent", 0, 0, 0);
	fn();
	return NULL;
}

int shim_raw_start_thread(void (*fn)(void))
{
	pthread_attr_t attr;
	pthread_t thread;

	if (pthread_create == NULL) {
		return -ENOSYS;
	}
	if (pthread_attr_init(&attr) != 0) {
		return -ENOMEM;
	}
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The thread begins with the signals of its maker blocked. */
	uint64_t before = shim_sys_block_signals();
	int r = pthread_create(&thread, &attr, start, (void *)(uintptr_t)fn);
	shim_sys_restore_signals(before);
	pthread_attr_destroy(&attr);
	return -r;
}
