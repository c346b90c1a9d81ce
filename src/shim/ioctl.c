/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol that the library exports. */
#include <stdarg.h>
#include <sys/ioctl.h>

#include "shim/shim.h"

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (__builtin_expect(_IOC_TYPE(request) != NV_IOCTL_TYPE, 1)) {
		return shim_raw_ioctl(fd, request, arg);
	}
	return rbt_shim_call(fd, request, arg);
}
