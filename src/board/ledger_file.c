/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's end: it makes ledgers, and takes them back from programs after a restart. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "board/ledger.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int fill(int fd)
{
	struct rbt_ledger *l;

	if (ftruncate(fd, RBT_LEDGER_SIZE) < 0) {
		return -errno;
	}
	l = mmap(NULL, RBT_LEDGER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (l == MAP_FAILED) {
		return -errno;
	}
	rbt_ledger_init(l);
	rbt_ledger_unmap(l);
	return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

int rbt_ledger_create_fd(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(RBT_LEDGER_NAME, flags | MFD_NOEXEC_SEAL);

	/* Kernels before 6.3 do not know the flag. */
	if (fd < 0 && errno == EINVAL) {
		fd = memfd_create(RBT_LEDGER_NAME, flags);
	}
	if (fd < 0) {
		return -errno;
	}
	int r = fill(fd);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

/* A sealed size, so that no access can be beyond the file's end: see board.c. */
static int check_fd(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0) {
		return -EBADF;
	}
	if ((seals & (F_SEAL_SHRINK | F_SEAL_SEAL)) != (F_SEAL_SHRINK | F_SEAL_SEAL)) {
		return -EPERM;
	}
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	return st.st_size == RBT_LEDGER_SIZE ? 0 : -EBADMSG;
}

int rbt_ledger_map(int fd, struct rbt_ledger **ret)
{
	int r = check_fd(fd);

	if (r < 0) {
		return r;
	}
	void *p = mmap(NULL, RBT_LEDGER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		return errno == EACCES ? -EPERM : -errno;
	}
	if (!rbt_ledger_is_sound(p)) {
		munmap(p, RBT_LEDGER_SIZE);
		return -EBADMSG;
	}
	*ret = p;
	return 0;
}

void rbt_ledger_unmap(struct rbt_ledger *l)
{
	if (l != NULL) {
		munmap(l, RBT_LEDGER_SIZE);
	}
}
