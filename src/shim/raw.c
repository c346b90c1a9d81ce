/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/kfd_abi.h"
#include "backend/nvidia/rm_abi.h"
#include "shim/sys.h"
#include "util/time.h"

/* 195:255 on every machine where the driver itself makes the node. */
#define CONTROL_RDEV (195u << 8 | 255u)

int shim_raw_ioctl(int fd, unsigned long request, void *arg)
{
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

uint64_t shim_raw_now_ns(void)
{
	return rbt_now_ns();
}

#if defined(__x86_64__)

bool shim_raw_has_counter(void)
{
	int mode = 0;

	return syscall(SYS_prctl, PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode == PR_TSC_ENABLE;
}

#elif defined(__aarch64__)

bool shim_raw_has_counter(void)
{
	int mode = 0;

	/* EINVAL: Linux before 6.12, which never traps the counter, or emulates it. */
	return syscall(SYS_prctl, PR_GET_TSC, &mode, 0, 0, 0) == 0 ? mode == PR_TSC_ENABLE
								   : errno == EINVAL;
}

#else

bool shim_raw_has_counter(void)
{
	return false;
}

#endif

/* Whether "/proc/thread-self/fd/N" leads to the node. /proc/self has no files once the program's
 * first thread has ended. */
static bool is_called(int fd, const char *name, size_t name_len)
{
	char path[40] = "/proc/thread-self/fd/", digits[12], link[32];
	char *p = path + sizeof("/proc/thread-self/fd/") - 1;
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + fd % 10);
		fd /= 10;
	} while (fd > 0);
	while (n > 0) {
		*p++ = digits[--n];
	}
	long len = syscall(SYS_readlinkat, AT_FDCWD, path, link, sizeof(link));
	return len >= 0 && (size_t)len == name_len && memcmp(link, name, name_len) == 0;
}

bool shim_raw_is_control(int fd)
{
	struct stat st;

	if (fd < 0 || syscall(SYS_fstat, fd, &st) < 0) {
		return false;
	}
	/* The software GPU's nodes are plain files, and some sandboxes renumber device nodes: these
	 * are recognised by name. */
	return (S_ISCHR(st.st_mode) && st.st_rdev == CONTROL_RDEV) ||
	       is_called(fd, NV_CTL_PATH, sizeof(NV_CTL_PATH) - 1);
}

/* KFD has no fixed device number. */
bool shim_raw_is_kfd(int fd)
{
	return fd >= 0 && is_called(fd, KFD_PATH, sizeof(KFD_PATH) - 1);
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

/* The driver requires no more than read access, and accepts all calls on any open file. */
int shim_raw_open_kfd(void)
{
	int fd = open_read(KFD_PATH);

	if (fd >= 0 && !shim_raw_is_kfd(fd)) {
		shim_sys_close(fd);
		return -ENODEV;
	}
	return fd;
}

ssize_t shim_raw_driver_version(char *buf, size_t size)
{
	int fd = open_read(NV_VERSION_PATH);

	/* Some containers hide the first path. */
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
