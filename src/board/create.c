/* SPDX-License-Identifier: Apache-2.0 */
/* The program's end. Like everything in the shim it makes direct system calls (see shim/sys.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "board/board.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

void rbt_board_init(struct rbt_board *b)
{
	b->magic = RBT_BOARD_MAGIC;
	b->version = RBT_BOARD_VERSION;
	b->size = RBT_BOARD_SIZE;
	b->n_slots = RBT_BOARD_SLOTS;
	b->features = RBT_BOARD_HAS_LENGTHS | RBT_BOARD_HAS_GATE | RBT_BOARD_HAS_PARK;
}

static long create(void)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	/* Some systems refuse memory that could be executed. Kernels before 6.3 do not know the
	 * flag. */
	long fd = syscall(SYS_memfd_create, "rubato-board", flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? syscall(SYS_memfd_create, "rubato-board", flags) : fd;
}

/* A file beyond the program's RLIMIT_FSIZE would end the program with SIGXFSZ. */
static bool is_allowed(void)
{
	struct rlimit limit;

	return syscall(SYS_getrlimit, RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur >= RBT_BOARD_SIZE;
}

int rbt_board_create_fd(void)
{
	if (!is_allowed()) {
		return -EFBIG;
	}
	long fd = create();
	if (fd < 0) {
		return -errno;
	}
	if (syscall(SYS_ftruncate, fd, (long)RBT_BOARD_SIZE) < 0 ||
		syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
			0) {
		int err = errno;
		syscall(SYS_close, fd);
		return -err;
	}
	return (int)fd;
}
