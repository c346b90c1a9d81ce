/* SPDX-License-Identifier: Apache-2.0 */
/* System calls are made directly, as everywhere in the shim (shim/sys.h), which uses this file. */
#include "act/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The byte of the node that carries the marks. A device node has no contents, so no other program
 * uses this byte. */
#define MARK_OFFSET 0x52554241

int rbt_gpu_lock(int fd)
{
	if (syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0) {
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	}
	return 0;
}

/* A lock that all waiting schedulers share. It ends when the last copy of its file is closed. */
static struct flock mark(short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = MARK_OFFSET, .l_len = 1};
}

int rbt_gpu_mark(int fd)
{
	struct flock lock = mark(F_RDLCK);

	return syscall(SYS_fcntl, fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

bool rbt_gpu_is_marked(int fd)
{
	struct flock lock = mark(F_WRLCK);

	return syscall(SYS_fcntl, fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
