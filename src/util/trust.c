/* SPDX-License-Identifier: Apache-2.0 */
#include "util/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The user number of users that a namespace does not map: kernel.overflowuid's default. */
#define OVERFLOW_UID 65534u
#define MAX_PATH     256

/* Outside of user namespaces the only line is "0 0 4294967295", in columns. */
static bool is_in_user_namespace(void)
{
	static const char whole[] = "0 0 4294967295";
	char buf[128];
	size_t at = 0, n = 0;

	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	long size = syscall(SYS_read, fd, buf, sizeof(buf));
	syscall(SYS_close, fd);
	for (long i = 0; i < size; i++) {
		bool is_space = buf[i] == ' ' || buf[i] == '\n';
		if (is_space && (n == 0 || buf[n - 1] == ' ')) {
			continue;
		}
		buf[n++] = is_space ? ' ' : buf[i];
	}
	at = n > 0 && buf[n - 1] == ' ' ? n - 1 : n;
	return size > 0 && (at != sizeof(whole) - 1 || memcmp(buf, whole, at) != 0);
}

static bool is_private(const char *path, uid_t own, bool is_last)
{
	struct stat st;

	if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return false;
	}
	/* The socket itself is writable for every user. */
	return (st.st_uid == 0 || st.st_uid == own || st.st_uid == OVERFLOW_UID) &&
	       (is_last ? S_ISSOCK(st.st_mode) : S_ISDIR(st.st_mode) && (st.st_mode & 022) == 0);
}

static bool is_private_path(const char *path, uid_t own)
{
	char part[MAX_PATH] = "/";
	size_t len = strlen(path);

	if (path[0] != '/' || len >= sizeof(part) || !is_private(part, own, false)) {
		return false;
	}
	for (size_t i = 1; i <= len; i++) {
		if (path[i] == '/' || path[i] == '\0') {
			memcpy(part, path, i);
			part[i] = '\0';
			if (!is_private(part, own, path[i] == '\0')) {
				return false;
			}
		}
	}
	return true;
}

bool rbt_is_trustworthy(const char *path, uid_t uid, uid_t own)
{
	if (uid == 0 || uid == own) {
		return true;
	}
	return uid == OVERFLOW_UID && is_in_user_namespace() && is_private_path(path, own);
}
