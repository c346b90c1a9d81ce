/* SPDX-License-Identifier: Apache-2.0 */
#include "util/proc.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/utf8.h"

int rbt_pidfd_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int rbt_pidfd_getfd(int pidfd, int target_fd)
{
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, target_fd, 0);

	return fd < 0 ? -errno : fd;
}

pid_t rbt_pidfd_pid(int pidfd)
{
	char path[64], buf[512];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	ssize_t n = rbt_read_file(path, buf, sizeof(buf));
	if (n < 0) {
		return (pid_t)n;
	}
	const char *line = strstr(buf, "\nPid:");
	if (line == NULL) {
		return -EBADF;
	}
	long pid = strtol(line + 5, NULL, 10);
	return pid > 0 ? (pid_t)pid : -ESRCH;
}

bool rbt_pidfd_has_exited(int pidfd)
{
	struct pollfd pfd = {.fd = pidfd, .events = POLLIN};

	return poll(&pfd, 1, 0) > 0;
}

/* A field of /proc/PID/stat, from the fourth on, by its number in proc(5). */
static int read_stat(pid_t pid, int wanted, uint64_t *ret)
{
	char path[64], buf[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	ssize_t n = rbt_read_file(path, buf, sizeof(buf));
	if (n < 0) {
		return n == -ENOENT ? -ESRCH : (int)n;
	}
	/* The command, in brackets, may contain anything: fields are counted from its end. */
	const char *p = strrchr(buf, ')');
	for (int field = 2; p != NULL && field < wanted; field++) {
		p = strchr(p + 1, ' ');
	}
	if (p == NULL) {
		return -EBADMSG;
	}
	*ret = strtoull(p + 1, NULL, 10);
	return 0;
}

int rbt_proc_start_time(pid_t pid, uint64_t *ret)
{
	return read_stat(pid, 22, ret);
}

int rbt_proc_image(pid_t pid, uint64_t *ret)
{
	uint64_t code, stack;
	int r = read_stat(pid, 26, &code);

	r = r == 0 ? read_stat(pid, 28, &stack) : r;
	if (r < 0) {
		return r;
	}
	/* A process without memory is about to end, or has ended. */
	if (code == 0) {
		return -ESRCH;
	}
	*ret = code == 1 ? RBT_IMAGE_HIDDEN : code * 31 + stack;
	return 0;
}

int rbt_proc_parent(pid_t pid, pid_t *ret)
{
	uint64_t parent;
	int r = read_stat(pid, 4, &parent);

	if (r == 0) {
		*ret = (pid_t)parent;
	}
	return r;
}

int rbt_proc_uid(pid_t pid, uid_t *ret)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0) {
		return errno == ENOENT ? -ESRCH : -errno;
	}
	*ret = st.st_uid;
	return 0;
}

int rbt_proc_euid(pid_t pid, uid_t *ret)
{
	char path[64], buf[1024];
	unsigned real, effective;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	ssize_t n = rbt_read_file(path, buf, sizeof(buf));
	if (n < 0) {
		return n == -ENOENT ? -ESRCH : (int)n;
	}
	/* The name comes before this line and may contain anything, but newlines in it are
	 * escaped. */
	const char *line = strstr(buf, "\nUid:");
	if (line == NULL || sscanf(line, "\nUid: %u %u", &real, &effective) != 2) {
		return -EBADMSG;
	}
	*ret = effective;
	return 0;
}

int rbt_proc_name(pid_t pid, char *buf, size_t size)
{
	char path[64], comm[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	ssize_t n = rbt_read_file(path, comm, sizeof(comm));
	if (n < 0) {
		return n == -ENOENT ? -ESRCH : (int)n;
	}
	comm[strcspn(comm, "\n")] = '\0';
	snprintf(buf, size, "[%s]", comm);
	rbt_utf8_make_harmless(buf);
	return 0;
}

int rbt_proc_command(pid_t pid, char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	ssize_t n = rbt_read_file(path, buf, size);
	if (n < 0) {
		return n == -ENOENT ? -ESRCH : (int)n;
	}
	while (n > 0 && buf[n - 1] == '\0') {
		n--;
	}
	if (n == 0) {
		return rbt_proc_name(pid, buf, size);
	}
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\0') {
			buf[i] = ' ';
		}
	}
	buf[n] = '\0';
	rbt_utf8_make_harmless(buf);
	return 0;
}

int rbt_same_file(pid_t p, int a, pid_t q, int b)
{
	long r = syscall(SYS_kcmp, p, q, KCMP_FILE, (unsigned long)a, (unsigned long)b);

	return r < 0 ? -errno : r == 0;
}

static int numeric_name(const char *name, int *ret)
{
	char *end;
	long v = strtol(name, &end, 10);

	if (end == name || *end != '\0' || v < 0 || v > 0x7fffffff) {
		return 0;
	}
	*ret = (int)v;
	return 1;
}

int rbt_proc_each_fd(
	pid_t pid, const char *path, int (*fn)(pid_t pid, int fd, void *data), void *data)
{
	char dir_path[64], link[256];
	struct dirent *e;
	int fd, r = 0;

	snprintf(dir_path, sizeof(dir_path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(dir_path);
	if (dir == NULL) {
		return errno == ENOENT ? -ESRCH : -errno;
	}
	while (r == 0 && (e = readdir(dir)) != NULL) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		if (n <= 0 || !numeric_name(e->d_name, &fd)) {
			continue;
		}
		link[n] = '\0';
		if (strcmp(link, path) == 0) {
			r = fn(pid, fd, data);
		}
	}
	closedir(dir);
	return r;
}

int rbt_proc_each(int (*fn)(pid_t pid, void *data), void *data)
{
	struct dirent *e;
	int pid, r = 0;
	DIR *dir = opendir("/proc");

	if (dir == NULL) {
		return -errno;
	}
	while (r == 0 && (e = readdir(dir)) != NULL) {
		if (numeric_name(e->d_name, &pid)) {
			r = fn(pid, data);
		}
	}
	closedir(dir);
	return r;
}
