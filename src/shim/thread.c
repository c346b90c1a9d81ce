/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread made without libpthread, which old C libraries have apart and programs may not have
 * loaded. It has no thread descriptor: it may call only what needs none, which is what the shim
 * calls anyway (sys.h), and errno, which has its place found for it. Nothing of it is in the
 * C library's lists, so that no call of the program's waits for it.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/sys.h"

#define GUARD_SIZE 4096u
#define STACK_SIZE 65536u
/* Around errno and the thread pointer, zero: what compilers read there (a stack protector). */
#define MARGIN 8192u

static uintptr_t thread_pointer(void)
{
	uintptr_t tp;

#if defined(__x86_64__)
	__asm__("mov %%fs:0, %0" : "=r"(tp));
#elif defined(__aarch64__)
	__asm__("mrs %0, tpidr_el0" : "=r"(tp));
#else
#error "how is the thread pointer read here?"
#endif
	return tp;
}

static int start(void *arg)
{
	void (*fn)(void *ignored) = (void (*)(void *))(uintptr_t)arg;

	syscall(SYS_prctl, PR_SET_NAME, "rubato-agent", 0, 0, 0);
	shim_thread_confine();
	fn(NULL);
	return 0;
}

int shim_raw_start_thread(void (*fn)(void *ignored))
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		    CLONE_SYSVSEM | CLONE_SETTLS;
	uintptr_t tp = thread_pointer(), at = (uintptr_t)&errno;
	size_t away = (at > tp ? at - tp : tp - at) + MARGIN;

	away = (away + 63) / 64 * 64;
	size_t size = GUARD_SIZE + STACK_SIZE + 2 * away;
	char *block = shim_sys_mmap(size);
	if (block == NULL) {
		return -ENOMEM;
	}
	/* An overflow is to be seen; without the guard, it goes on. */
	syscall(SYS_mprotect, block, GUARD_SIZE, 0);
	char *stack = block + GUARD_SIZE + STACK_SIZE;
	/* As far from errno as the caller's is from its own: before it or behind it. */
	void **own_tp = (void **)(void *)(stack + away);
	own_tp[0] = own_tp; /* where x86-64 reads it */
	own_tp[2] = own_tp;
	/* Inherited. A sandbox may carry out clone() itself, by SIGSYS. */
	uint64_t before = shim_sys_block_signals();
	int tid = clone(start, stack, flags, (void *)(uintptr_t)fn, NULL, own_tp, NULL);
	int r = tid < 0 ? -errno : tid;
	shim_sys_restore_signals(before);
	if (r < 0) {
		shim_sys_munmap(block, size);
	}
	return r;
}
