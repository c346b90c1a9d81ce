/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/session/target.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "util/fd.h"

#define LINK_TAIL          " (deleted)"
#define CAP_SYS_PTRACE_BIT 19

static char link_head[64]; /* prefix of the links of our server's fake nodes */

void target_init(uint64_t server_id)
{
	snprintf(link_head, sizeof(link_head), "/memfd:" MEMFD_NAME_FMT, server_id, "");
}

int target_read(int tid, uint64_t addr, void *buf, size_t size)
{
	struct iovec local = {.iov_base = buf, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = size};

	return process_vm_readv(tid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

int target_write(int tid, uint64_t addr, const void *buf, size_t size)
{
	struct iovec local = {.iov_base = (void *)(uintptr_t)buf, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = size};

	return process_vm_writev(tid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

int target_read_path(int tid, uint64_t addr, char path[LINK_MAX_PATH])
{
	/* The string may end just before an unmapped page, and an iovec is read completely or not
	 * at all. */
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = page - addr % page;
	struct iovec local = {.iov_base = path, .iov_len = LINK_MAX_PATH};
	struct iovec remote[2] = {
		{.iov_base = (void *)(uintptr_t)addr, .iov_len = LINK_MAX_PATH},
		{.iov_base = (void *)(uintptr_t)(addr + first), .iov_len = 0},
	};

	if (first < LINK_MAX_PATH) {
		remote[0].iov_len = first;
		remote[1].iov_len = LINK_MAX_PATH - first;
	}
	ssize_t n = process_vm_readv(tid, &local, 1, remote, 2, 0);
	if (n <= 0) {
		return -EFAULT;
	}
	return memchr(path, '\0', (size_t)n) != NULL ? 0 : -ENAMETOOLONG;
}

static int read_link(const char *path, char *buf, size_t size)
{
	ssize_t n = readlink(path, buf, size);

	if (n < 0 || (size_t)n >= size) {
		return -ENOENT;
	}
	buf[n] = '\0';
	return 0;
}

static void drop_last(char *out, size_t *n)
{
	while (*n > 0 && out[*n - 1] != '/') {
		(*n)--;
	}
	if (*n > 0) {
		(*n)--;
	}
}

/* Textually: links on the way are resolved by the file system, and do not lead to our paths. */
static void normalise(const char *in, char *out)
{
	size_t n = 0;

	while (*in != '\0') {
		size_t len = strcspn(in, "/");
		if (len == 2 && in[0] == '.' && in[1] == '.') {
			drop_last(out, &n);
		} else if (len > 0 && !(len == 1 && in[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, in, len);
			n += len;
		}
		in += len + (in[len] == '/');
	}
	out[n] = '\0';
}

int target_resolve(int tid, int dirfd, char path[LINK_MAX_PATH])
{
	char link[64], whole[2 * LINK_MAX_PATH + 2], clean[2 * LINK_MAX_PATH + 4];
	size_t n = 0;

	if (path[0] != '/') {
		if (dirfd == AT_FDCWD) {
			snprintf(link, sizeof(link), "/proc/%d/cwd", tid);
		} else {
			snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, dirfd);
		}
		if (read_link(link, whole, LINK_MAX_PATH) < 0) {
			return -ENOENT;
		}
		n = strlen(whole);
		whole[n++] = '/';
	}
	strcpy(whole + n, path);
	normalise(whole, clean);
	if (strlen(clean) >= LINK_MAX_PATH) {
		return -ENAMETOOLONG;
	}
	strcpy(path, clean);
	return 0;
}

static bool is_fake(const char *link, char ret[LINK_MAX_PATH])
{
	size_t len = strlen(link), head = strlen(link_head), tail = strlen(LINK_TAIL);

	if (len <= head + tail || len - head - tail >= LINK_MAX_PATH ||
		strncmp(link, link_head, head) != 0 || strcmp(link + len - tail, LINK_TAIL) != 0) {
		return false;
	}
	memcpy(ret, link + head, len - head - tail);
	ret[len - head - tail] = '\0';
	return true;
}

/*
 * The supervisor may be root and the program not: the program must not see more of other processes
 * than without us. The owner of /proc/PID shows who may access it.
 */
static bool may_access(int tid, const char *proc)
{
	char path[64], buf[4096];
	unsigned fsuid = 0;
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (stat(proc, &st) < 0 || rbt_read_file(path, buf, sizeof(buf)) < 0) {
		return false;
	}
	const char *uids = strstr(buf, "\nUid:"), *caps = strstr(buf, "\nCapEff:");
	if (uids == NULL || caps == NULL || sscanf(uids + 5, "%*u %*u %*u %u", &fsuid) != 1) {
		return false;
	}
	return fsuid == st.st_uid || (strtoull(caps + 8, NULL, 16) >> CAP_SYS_PTRACE_BIT & 1);
}

/* /proc/SOMEONE/…/fd/N, or /dev/fd/N */
static bool is_fd_path(const char *path)
{
	const char *last = strrchr(path, '/');

	if (last == NULL || last - path < 3 || strncmp(last - 3, "/fd/", 4) != 0) {
		return false;
	}
	for (const char *p = last + 1; *p != '\0'; p++) {
		if (!isdigit((unsigned char)*p)) {
			return false;
		}
	}
	return last[1] != '\0' &&
	       (strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/fd/", 8) == 0);
}

/* The device server holds its nodes open itself; on a real machine there is no such process. */
static bool is_device_server(const char *proc)
{
	char path[80], comm[32] = "";

	snprintf(path, sizeof(path), "%s/comm", proc);
	return rbt_read_file(path, comm, sizeof(comm)) > 0 && strcmp(comm, SERVER_NAME "\n") == 0;
}

bool target_link(int tid, const char *path, char ret[LINK_MAX_PATH])
{
	char real[LINK_MAX_PATH + 32], proc[64], link[LINK_MAX_PATH];
	const char *rest = path;

	if (!is_fd_path(path)) {
		return false;
	}
	if (strncmp(path, "/dev/fd/", 8) == 0) {
		rest = path + 4;
	} else {
		rest = strchr(path + 6, '/');
	}
	if (isdigit((unsigned char)path[6])) {
		snprintf(proc, sizeof(proc), "%.*s", (int)(rest - path), path);
	} else {
		snprintf(proc, sizeof(proc), "/proc/%d", tid);
	}
	snprintf(real, sizeof(real), "%s%s", proc, rest);
	return read_link(real, link, sizeof(link)) == 0 && is_fake(link, ret) &&
	       may_access(tid, proc) && !is_device_server(proc);
}

bool target_node(int tid, int fd, uint64_t *ret_inode)
{
	char path[64], link[LINK_MAX_PATH], node[LINK_MAX_PATH];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	if (read_link(path, link, sizeof(link)) < 0 || !is_fake(link, node) ||
		stat(path, &st) < 0) {
		return false;
	}
	*ret_inode = st.st_ino;
	return true;
}

bool target_is_ours(const char *path)
{
	static const char *const prefixes[] = {"/dev/nvidia", "/dev/kfd", "/proc/driver/nvidia/",
		"/sys/module/nvidia/", "/sys/class/kfd", "/sys/devices/virtual/kfd"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) {
			return true;
		}
	}
	return false;
}
