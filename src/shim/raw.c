/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend/nvidia/rm_abi.h"
#include "shim/sys.h"
#include "util/time.h"

int shim_raw_ioctl(int fd, unsigned long request, void *arg)
{
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

uint64_t shim_raw_now_ns(void)
{
	return rbt_now_ns();
}

static int open_read(const char *path)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

	return fd < 0 ? -errno : (int)fd;
}

int shim_raw_open_gpu(uint32_t gpu)
{
	char path[] = "/dev/nvidia\0\0";
	char *p = path + sizeof("/dev/nvidia") - 1;

	if (gpu >= NV_MAX_GPUS) {
		return -ENODEV;
	}
	if (gpu >= 10) {
		*p++ = (char)('0' + gpu / 10);
	}
	*p = (char)('0' + gpu % 10);
	return open_read(path);
}

ssize_t shim_raw_driver_version(char *buf, size_t size)
{
	int fd = open_read(NV_VERSION_PATH);

	/* Some containers hide the first. */
	if (fd < 0) {
		fd = open_read("/sys/module/nvidia/version");
	}
	if (fd < 0) {
		return fd;
	}
	long n = syscall(SYS_read, fd, buf, size - 1);
	int err = errno;
	shim_sys_close(fd);
	if (n < 0) {
		return -err;
	}
	buf[n] = '\0';
	return n;
}
