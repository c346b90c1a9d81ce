/* SPDX-License-Identifier: Apache-2.0 */
/* System calls are made directly, as all of the shim's are (shim/sys.h). */
#include "act/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The byte of a node on which marks are left. The node has no bytes, so that nobody misses it. */
#define MARK_OFFSET 0x52554241

int rbt_gpu_lock(int fd)
{
	if (syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0) {
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	}
	return 0;
}

/* Shared by all who wait, and gone with their last copy of it. */
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
