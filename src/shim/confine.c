/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent is unknown to libc: a program's setuid() reaches all threads but this one. So that no
 * thread of root's is left in a program that has given up being root, it gives up what it does not
 * need before it does anything, and ends when the program has become somebody else.
 *
 * Its few system calls are all it has where there is more to lose than the program would: a filter
 * of its own makes a later filter of the program's for all threads at once (TSYNC) fail, and so is
 * not put where the thread may do no more than any other.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/sys.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "what is this architecture called?"
#endif

#define LOAD(member)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define REFUSE         RETURN(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW(nr)      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), RETURN(SECCOMP_RET_ALLOW)

/* What agent.c, and what it calls of the rest, is made of: sys.c, raw.c, the board. */
static const struct sock_filter filter[] = {
	LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
	REFUSE,
	LOAD(nr),
	ALLOW(SYS_ioctl),
	ALLOW(SYS_ppoll),
	ALLOW(SYS_futex),
	ALLOW(SYS_process_vm_readv),
	ALLOW(SYS_clock_gettime),
	ALLOW(SYS_gettid),
	ALLOW(SYS_getpid),
	ALLOW(SYS_geteuid),
	ALLOW(SYS_getegid),
	ALLOW(SYS_sched_yield),
	ALLOW(SYS_rt_sigprocmask),
	ALLOW(SYS_rt_sigreturn),
	ALLOW(SYS_restart_syscall),
	ALLOW(SYS_recvfrom),
	ALLOW(SYS_sendmsg),
	ALLOW(SYS_socket),
	ALLOW(SYS_connect),
	ALLOW(SYS_getsockopt),
	ALLOW(SYS_socketpair),
	ALLOW(SYS_read),
	ALLOW(SYS_write),
	ALLOW(SYS_close),
	ALLOW(SYS_fcntl),
	ALLOW(SYS_fstat),
	ALLOW(SYS_newfstatat),
	ALLOW(SYS_readlinkat),
	ALLOW(SYS_flock),
	ALLOW(SYS_ftruncate),
	ALLOW(SYS_memfd_create),
	ALLOW(SYS_getrlimit),
	ALLOW(SYS_mmap),
	ALLOW(SYS_munmap),
	ALLOW(SYS_madvise),
	ALLOW(SYS_exit),
	/* Opened to be read alone; of tgkill(), the question whether a thread exists. */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
	LOAD(args[2]),
	ALLOW(O_RDONLY | O_CLOEXEC),
	REFUSE,
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 3),
	LOAD(args[2]),
	ALLOW(0),
	REFUSE,
};

/* Whether there was anything to lose; true where that is not known. */
static bool drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};
	static const struct __user_cap_data_struct none[2];

	bool had_any = syscall(SYS_capget, &head, caps) < 0 || caps[0].permitted != 0 ||
		       caps[1].permitted != 0;
	head = (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
	syscall(SYS_capset, &head, none);
	return had_any;
}

void shim_thread_confine(void)
{
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = (struct sock_filter *)filter,
	};
	bool had_any = drop_capabilities();

	syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (had_any || syscall(SYS_geteuid) == 0) {
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	}
}

bool shim_thread_is_the_programs(void)
{
	struct stat st;

	/* This directory is its first thread's, whatever else hides who that is. */
	return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self", &st, 0) == 0 &&
	       (long)st.st_uid == syscall(SYS_geteuid) && (long)st.st_gid == syscall(SYS_getegid);
}
