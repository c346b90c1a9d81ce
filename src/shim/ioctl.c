/* SPDX-License-Identifier: Apache-2.0 */
/* The library's ioctl(), which takes the place of libc's. librubato.map lists the other exported
 * symbols: those of hints.h and wrap.h. */
#include <stdarg.h>
#include <sys/ioctl.h>

#include "shim/shim.h"

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	switch (_IOC_TYPE(request)) {
	case NV_IOCTL_TYPE:
		return rbt_shim_call(fd, request, arg);
	case KFD_IOCTL_TYPE:
		return rbt_shim_call_kfd(fd, request, arg);
	default:
		return shim_raw_ioctl(fd, request, arg);
	}
}
