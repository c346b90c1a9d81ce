/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/survive/handlock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/proc.h"

/* The contents of the file. */
struct hand_name {
	int32_t pid;
	uint32_t is_restored;
	uint64_t start_time;
};

/* Returns all zeros if no hand has written the file. */
static struct hand_name read_name(int fd)
{
	struct hand_name name;

	if (fd < 0 || pread(fd, &name, sizeof(name), 0) != sizeof(name)) {
		memset(&name, 0, sizeof(name));
	}
	return name;
}

static void write_name(int fd, const struct hand_name *name)
{
	ssize_t ignored = pwrite(fd, name, sizeof(*name), 0);

	(void)ignored; /* if this fails, the next daemon restores once more */
}

/* Opens only a plain file. If somebody put another one there, opening it could block for ever. */
static int open_file(const char *path, int flags)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -EINVAL;
	}
	return fd < 0 ? -errno : fd;
}

int handlock_take(const char *path)
{
	struct hand_name name = {.pid = getpid()};
	int fd = open_file(path, O_CREAT);

	if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 &&
		rbt_proc_start_time(name.pid, &name.start_time) == 0) {
		write_name(fd, &name);
	}
	return fd;
}

void handlock_note_restored(int fd)
{
	struct hand_name name = read_name(fd);

	/* Another hand may live beside us that has not restored its programs. */
	if (name.pid == getpid()) {
		name.is_restored = 1;
		write_name(fd, &name);
	}
}

int handlock_open(const char *path)
{
	return open_file(path, 0);
}

bool handlock_is_free(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

void handlock_wake(int fd)
{
	struct hand_name name = read_name(fd);
	uint64_t start_time;

	if (name.pid > 0 && rbt_proc_start_time(name.pid, &start_time) == 0 &&
		start_time == name.start_time) {
		kill(name.pid, SIGCONT);
	}
}

bool handlock_finish(int *fd, const char *path)
{
	struct hand_name name = read_name(*fd);

	if (*fd >= 0) {
		unlink(path);
	}
	rbt_close(fd);
	return name.is_restored != 0;
}
