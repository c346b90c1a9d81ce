/* SPDX-License-Identifier: Apache-2.0 */
#include "util/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(char *buf, size_t size, const char *fmt, const char *a)
{
	int n;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	n = snprintf(buf, size, fmt, a);
#pragma GCC diagnostic pop
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* A user who names a runtime directory means the daemon there, and no other. This is also the case
 * inside a session of the software GPU, whose devices the system daemon does not see. */
static int system_dir(char *buf, size_t size)
{
	const char *env = getenv("RUBATO_SYSTEM_DIR"), *own = getenv("RUBATO_RUNTIME_DIR");

	if (env != NULL) {
		return env[0] == '/' ? put(buf, size, "%s", env) : -ENOENT;
	}
	return own != NULL && own[0] == '/' ? -ENOENT : put(buf, size, "%s", "/run/rubato");
}

int rbt_runtime_dir(uid_t uid, char *buf, size_t size)
{
	const char *env;
	char number[16], run_user[64];
	struct stat st;

	if (uid == RBT_UID_SYSTEM) {
		return system_dir(buf, size);
	}
	if (uid == geteuid() && (env = getenv("RUBATO_RUNTIME_DIR")) != NULL && env[0] == '/') {
		return put(buf, size, "%s", env);
	}
	if (uid == 0) {
		return put(buf, size, "%s", "/run/rubato-root");
	}
	/* A job of Slurm has the variable of the host that it was submitted on, where the directory
	 * may be another's or missing. */
	if (uid == geteuid() && (env = getenv("XDG_RUNTIME_DIR")) != NULL && env[0] == '/' &&
		access(env, F_OK) == 0) {
		return put(buf, size, "%s/rubato", env);
	}
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	snprintf(run_user, sizeof(run_user), "/run/user/%s", number);
	if (stat(run_user, &st) == 0 && st.st_uid == uid) {
		return put(buf, size, "/run/user/%s/rubato", number);
	}
	return put(buf, size, "/tmp/rubato-%s", number);
}

static int create(uid_t uid, mode_t mode, char *buf, size_t size)
{
	struct stat st;
	int r = rbt_runtime_dir(uid, buf, size);

	if (r < 0) {
		return r;
	}
	if (mkdir(buf, mode) < 0 && errno != EEXIST) {
		return -errno;
	}
	/* In /tmp another user could have made it first, as a link or as a directory of their
	 * own. */
	if (lstat(buf, &st) < 0) {
		return -errno;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
		return -EPERM;
	}
	return 0;
}

int rbt_runtime_dir_create(char *buf, size_t size)
{
	return create(geteuid(), 0700, buf, size);
}

int rbt_system_dir_create(char *buf, size_t size)
{
	int r = create(RBT_UID_SYSTEM, 0755, buf, size);

	/* Whatever the umask: every user must be able to reach the socket. */
	return r == 0 && chmod(buf, 0755) < 0 ? -errno : r;
}

int rbt_sibling_path(const char *name, const char *installed_dir, char *buf, size_t size)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n > 0) {
		exe[n] = '\0';
		char *slash = strrchr(exe, '/');
		*slash = '\0';
		int len = snprintf(buf, size, "%s/%s", exe, name);
		if (len > 0 && (size_t)len < size && access(buf, F_OK) == 0) {
			return 0;
		}
	}
	int len = snprintf(buf, size, "%s/%s", installed_dir, name);
	if (len < 0 || (size_t)len >= size) {
		return -ENAMETOOLONG;
	}
	return access(buf, F_OK) == 0 ? 0 : -errno;
}
