/* SPDX-License-Identifier: Apache-2.0 */
#include "util/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The file is longer only if the user is in hundreds of groups. */
#define STATUS_SIZE 4096

static long open_read(const char *path)
{
	return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* Reads /proc/thread-self/status, NUL-terminated. Returns 0 or -errno. */
static int read_status(char buf[STATUS_SIZE])
{
	long fd = open_read("/proc/thread-self/status");

	if (fd < 0) {
		return -errno;
	}
	long n = syscall(SYS_read, fd, buf, STATUS_SIZE - 1);
	int r = n < 0 ? -errno : 0;
	syscall(SYS_close, fd);
	buf[n < 0 ? 0 : n] = '\0';
	return r;
}

/* Appends a text up to a separator. Returns the new length, or -ENAMETOOLONG. */
static int append(char *buf, int len, const char *text, size_t n)
{
	if (len < 0 || (size_t)len + n + 1 >= RBT_SANDBOX_MAX) {
		return -ENAMETOOLONG;
	}
	memcpy(buf + len, text, n);
	buf[len + (int)n] = '\0';
	return len + (int)n;
}

/* Appends the value of a line. Returns the new length, or -errno. */
static int append_value(char *buf, int len, const char *status, const char *name)
{
	const char *line = strstr(status, name);

	if (line == NULL) {
		return -ENODATA;
	}
	line = strchr(line, '\t') + 1;
	return append(buf, len, line, strcspn(line, "\n"));
}

/*
 * The number of filters (since Linux 5.9), or else the mode: it tells at least the first one. The
 * second value is 1 once the thread has given up new privileges. Programs do that before they
 * restrict themselves with landlock(7), which leaves no other trace. So it is not noticed if
 * `rubato run` had given them up already, in some containers.
 */
static int append_restrictions(char *buf, int len)
{
	char status[STATUS_SIZE];
	int r = read_status(status);

	if (r < 0) {
		return r;
	}
	r = append_value(buf, len, status, "\nSeccomp_filters:\t");
	len = r != -ENODATA ? r : append_value(buf, len, status, "\nSeccomp:\t");
	len = len < 0 ? len : append(buf, len, ",", 1);
	return len < 0 ? len : append_value(buf, len, status, "\nNoNewPrivs:\t");
}

static int append_link(char *buf, int len, const char *path)
{
	char target[64];
	long n = syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target));

	if (n < 0) {
		return -errno;
	}
	len = append(buf, len, ",", 1);
	return append(buf, len, target, (size_t)n);
}

int rbt_sandbox_describe(char ret[RBT_SANDBOX_MAX])
{
	/* A process that unshares its pid namespace stays outside, but its children do not. */
	static const char *const links[] = {"/proc/thread-self/ns/pid_for_children",
		"/proc/thread-self/ns/user", "/proc/thread-self/ns/mnt"};
	char text[RBT_SANDBOX_MAX] = "";
	int len = append_restrictions(text, 0);

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]) && len >= 0; i++) {
		len = append_link(text, len, links[i]);
	}
	if (len < 0) {
		return len;
	}
	memcpy(ret, text, sizeof(text));
	return 0;
}
