/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread clones a thread and goes on. That thread clones a first process, which clones
 * a second one, which executes the command. All of them use the program's memory until then, so no
 * page tables are copied. Each waits for the next (CLONE_VFORK); only the calling thread does not,
 * because a busy machine or a slow disk can make this take long.
 *
 * - The thread leaves nothing behind when it ends. It is not the C library's, which need not know
 *   of it: it lives for milliseconds, with all signals blocked.
 * - The first process has exit signal 0: no SIGCHLD is sent, and wait(2) does not see the process
 *   without __WCLONE. The thread reaps it.
 * - The second process is nobody's child once the first one has ended.
 *
 * All of them have the thread pointer of the calling thread. So they use no thread-local storage:
 * neither errno nor a stack protector, and no instrumentation of a sanitizer. This file is compiled
 * without them, and makes system calls without the C library. A process that crashed here would
 * take the program with it (the kernel ends all that share the memory before it dumps core), hence
 * the care about signals.
 */
#include "shim/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__x86_64__) || defined(__aarch64__)

/* The Linux headers of old systems lack these. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_FILES (1u << 1) /* CLOSE_RANGE_UNSHARE */

#define N_SIGNALS 64

typedef void entry(struct shim_spawn *p);

#if defined(__x86_64__)

static inline long call4(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return r;
}

/* Clones a process that calls fn(p) on its own stack; fn does not return. */
static long start(
	unsigned long flags, void *stack, _Atomic uint32_t *word, entry *fn, struct shim_spawn *p)
{
	register long r10 __asm__("r10") = (long)word;
	register long r8 __asm__("r8") = 0;
	register entry *r9 __asm__("r9") = fn;
	long r;

	__asm__ volatile(
		"syscall\n\t"
		"test %%rax, %%rax\n\t"
		"jnz 1f\n\t"
		"xor %%ebp, %%ebp\n\t"
		"mov %%rdx, %%rdi\n\t"
		"call *%%r9\n\t"
		"ud2\n"
		"1:"
		: "=a"(r)
		: "a"(SYS_clone), "D"(flags), "S"(stack), "d"(p), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return r;
}

#else

static inline long call4(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

static long start(
	unsigned long flags, void *stack, _Atomic uint32_t *word, entry *fn, struct shim_spawn *p)
{
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = (long)flags;
	register void *x1 __asm__("x1") = stack;
	register struct shim_spawn *x2 __asm__("x2") = p;
	register long x3 __asm__("x3") = 0;
	register _Atomic uint32_t *x4 __asm__("x4") = word;
	register entry *x5 __asm__("x5") = fn;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, #0\n\t"
			 "mov x30, #0\n\t"
			 "mov x0, x2\n\t"
			 "blr x5\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#endif

static inline long call(long nr, long a, long b, long c)
{
	return call4(nr, a, b, c, 0);
}

static _Noreturn void end(void)
{
	for (;;) {
		call(SYS_exit, 1, 0, 0);
	}
}

/*
 * Discards pending signals, and sets all to their defaults: those that the program ignores would
 * stay ignored. Ignoring a signal discards it. Signals of the program's terminal do not reach a
 * session of our own, so that none is pending when they are unblocked.
 */
static void reset_signals(void)
{
	/* As the kernel has it: handler, flags, restorer, mask. */
	unsigned long ignore[4] = {(unsigned long)SIG_IGN};
	unsigned long standard[4] = {(unsigned long)SIG_DFL};
	uint64_t none = 0;

	for (long signo = 1; signo <= N_SIGNALS; signo++) {
		call4(SYS_rt_sigaction, signo, (long)ignore, 0, sizeof(none));
		call4(SYS_rt_sigaction, signo, (long)standard, 0, sizeof(none));
	}
	call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, sizeof(none));
}

/* The program may have pinned its thread to a processor, or given it a real-time priority. */
static void reset_scheduling(void)
{
	uint64_t all[16];
	int normal = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		all[i] = UINT64_MAX;
		/* Otherwise the compiler would call memset(), which is the program's. */
		__asm__ volatile("" ::: "memory");
	}
	call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&normal);
	call(SYS_sched_setaffinity, 0, sizeof(all), (long)all);
}

static void be_command(struct shim_spawn *p)
{
	call(SYS_setsid, 0, 0, 0);
	reset_scheduling();
	/* The table of files is the program's own until here. */
	if (call(SYS_close_range, 0, (long)~0u, UNSHARE_FILES) < 0 ||
		call4(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR, 0) != 0 ||
		call(SYS_dup, 0, 0, 0) != 1 || call(SYS_dup, 0, 0, 0) != 2 ||
		call(SYS_chdir, (long)"/", 0, 0) < 0) {
		end();
	}
	reset_signals();
	call(SYS_execve, (long)p->path, (long)p->argv, (long)p->envp);
	end();
}

static void *stack_end(struct shim_spawn *p, int i)
{
	return p->stacks[i] + SHIM_SPAWN_STACK;
}

static void be_first(struct shim_spawn *p)
{
	start(CLONE_VM | CLONE_VFORK | CLONE_FILES, stack_end(p, 2), NULL, be_command, p);
	end();
}

static void be_thread(struct shim_spawn *p)
{
	long pid = start(CLONE_VM | CLONE_VFORK | CLONE_FILES, stack_end(p, 1), NULL, be_first, p);

	while (pid > 0 && call4(SYS_wait4, pid, 0, __WCLONE, 0) == -EINTR) {
	}
	end();
}

int shim_raw_spawn(struct shim_spawn *p)
{
	if (p->is_under_way != 0) {
		return -EBUSY;
	}
	p->is_under_way = 1;
	/* The kernel sets the word to 0 when the thread ends. */
	long tid = start(CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES | CLONE_FS |
				 CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
		stack_end(p, 0), &p->is_under_way, be_thread, p);
	if (tid < 0) {
		p->is_under_way = 0;
		return (int)tid;
	}
	return 0;
}

#else

int shim_raw_spawn(struct shim_spawn *p)
{
	return -ENOSYS;
}

#endif
