/* SPDX-License-Identifier: Apache-2.0 */
#include "odd.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534
#define MAX_FD 1024

static void check(int r, const char *what)
{
	if (r != 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void filter(unsigned nr, unsigned action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	check((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
}

static void refuse(unsigned nr)
{
	filter(nr, SECCOMP_RET_ERRNO | EPERM);
}

/* The calling thread and its future ones. 0x800: no block devices can be made. */
static void restrict_with_landlock(void)
{
	uint64_t handled = 0x800;
	long fd = syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);

	check(fd < 0, "landlock");
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	check((int)syscall(SYS_landlock_restrict_self, fd, 0), "landlock");
	close((int)fd);
}

static void limit_files(unsigned n)
{
	struct rlimit limit = {n, n};

	check(setrlimit(RLIMIT_NOFILE, &limit), "rlimit");
}

static void become_nobody(void)
{
	check(setgroups(0, NULL), "setgroups");
	check(setgid(NOBODY), "setgid");
	check(setuid(NOBODY), "setuid");
}

bool odd_obey(const char *line, int keep)
{
	unsigned n;

	if (strcmp(line, "nobody") == 0) {
		become_nobody();
	} else if (sscanf(line, "close-from %u", &n) == 1) {
		for (int fd = (int)n; fd < MAX_FD; fd++) {
			if (fd != keep) {
				close(fd);
			}
		}
	} else if (strcmp(line, "no-threads") == 0) {
		refuse(SYS_clone);
		refuse(SYS_clone3);
	} else if (strcmp(line, "landlock") == 0) {
		restrict_with_landlock();
	} else if (sscanf(line, "refuse %u", &n) == 1) {
		refuse(n);
	} else if (sscanf(line, "files %u", &n) == 1) {
		limit_files(n);
	} else {
		return false;
	}
	puts("done");
	return true;
}
