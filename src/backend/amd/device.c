/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/amd/device.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

int rbt_amd_open(void)
{
	int fd = open(KFD_PATH, O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		return fd;
	}
	return errno == ENOENT || errno == ENXIO || errno == ENOTDIR ? -ENODEV : -errno;
}

int rbt_amd_version(int kfd, struct kfd_version *ret)
{
	struct kfd_version version = {0};

	if (ioctl(kfd, KFD_IOC_GET_VERSION, &version) < 0) {
		return -errno;
	}
	*ret = version;
	return 0;
}

bool rbt_amd_can_debug(const struct kfd_version *version)
{
	return version->major == KFD_MAJOR && version->minor >= KFD_MINOR_DEBUGGER;
}

int rbt_amd_dbg(int kfd, struct kfd_dbg_trap *arg)
{
	int r;

	/* Only calls that are safe to repeat. SUSPEND and RESUME are, because an interrupted call
	 * leaves the ids as they were. */
	do {
		r = ioctl(kfd, KFD_IOC_DBG_TRAP, arg);
	} while (r < 0 && errno == EINTR);
	if (r >= 0) {
		return r;
	}
	return errno == ENOTTY ? -EOPNOTSUPP : -errno;
}
