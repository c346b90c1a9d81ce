/* SPDX-License-Identifier: Apache-2.0 */
#include "filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CALLS   200
#define SIGSYS_EXIT (128 + SIGSYS)

/* Its own two calls are among those that filter_install() allows. */
static void on_refused(int signo, siginfo_t *info, void *context)
{
	char line[64];

	(void)signo;
	(void)context;
	int n = snprintf(line, sizeof(line), "killed by its filter: call %d\n", info->si_syscall);
	syscall(SYS_write, STDERR_FILENO, line, (size_t)n);
	syscall(SYS_exit_group, SIGSYS_EXIT);
}

int filter_install(const char *list)
{
	struct sock_filter code[2 * MAX_CALLS + 8];
	struct sock_fprog program = {.filter = code};
	struct sigaction sa = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO};
	size_t n = 0;
	char *end;

	code[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (const char *at = list; *at != '\0' && n < 2 * MAX_CALLS;
		at = *end == ',' ? end + 1 : end) {
		unsigned long nr = strtoul(at, &end, 10);
		if (end == at) {
			return -EINVAL;
		}
		code[n++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	program.len = (unsigned short)n;
	if (sigaction(SIGSYS, &sa, NULL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		return -errno;
	}
	return 0;
}
