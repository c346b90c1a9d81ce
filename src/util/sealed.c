/* SPDX-License-Identifier: Apache-2.0 */
#include "util/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static int create(const char *name)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	/* Kernels before 6.3 do not know the flag. */
	return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int rbt_sealed_create(const char *name, const void *data, size_t size)
{
	int fd = create(name);

	if (fd < 0) {
		return -errno;
	}
	int r = write_all(fd, data, size);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0) {
		r = -errno;
	}
	if (r < 0) {
		rbt_close(&fd);
	}
	return r < 0 ? r : fd;
}

int rbt_sealed_read(int fd, size_t max, void **ret_data, size_t *ret_size)
{
	/* Only files in memory have seals. */
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0) {
		return -EINVAL;
	}
	if (st.st_size < 0 || (size_t)st.st_size > max) {
		return -EFBIG;
	}
	size_t size = (size_t)st.st_size;
	char *data = malloc(size + 1);
	if (data == NULL) {
		return -ENOMEM;
	}
	for (size_t at = 0; at < size;) {
		ssize_t n = pread(fd, data + at, size - at, (off_t)at);
		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			int r = n < 0 ? -errno : -EIO;
			free(data);
			return r;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	data[size] = '\0';
	*ret_data = data;
	*ret_size = size;
	return 0;
}
