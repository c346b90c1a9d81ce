/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/session/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the software GPU needs this machine's audit architecture"
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define LOAD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define NOTIFY        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
#define NOTIFY_IF(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), NOTIFY

static long install(unsigned long flags)
{
	static struct sock_filter code[] = {
		/* Programs of another instruction set have other call numbers, and are not
		 * answered. */
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
		ALLOW,
		LOAD(nr),
#ifdef SYS_open
		NOTIFY_IF(SYS_open),
#endif
		NOTIFY_IF(SYS_openat),
		NOTIFY_IF(SYS_openat2),
#ifdef SYS_readlink
		NOTIFY_IF(SYS_readlink),
#endif
		NOTIFY_IF(SYS_readlinkat),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
		ALLOW,
		/* Both supported machines are little-endian: the low half of the argument is
		 * first. */
		LOAD(args[1]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff00),
		NOTIFY_IF('F' << 8),
		NOTIFY_IF('K' << 8),
		ALLOW,
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

int filter_install(void)
{
	/*
	 * Without WAIT_KILLABLE_RECV (5.19) a signal may interrupt a call that is being served;
	 * then it is made, and served, twice.
	 */
	unsigned long flags =
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	long fd = install(flags);

	/* Only without privilege: no_new_privs would make every setuid program below
	 * ineffective. */
	if (fd < 0 && errno == EACCES && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
		fd = install(flags);
	}
	if (fd < 0 && errno == EINVAL) {
		fd = install(SECCOMP_FILTER_FLAG_NEW_LISTENER);
	}
	return fd < 0 ? -errno : (int)fd;
}
