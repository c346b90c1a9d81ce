/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another preloaded library with an ioctl() of its own, as programs bring them along: it passes
 * every call on, and leaves the number of them in the file $IOCTL_COUNT.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int fd, unsigned long request, ...);
	static unsigned count;
	const char *path = getenv("IOCTL_COUNT");
	va_list ap;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (next == NULL) {
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	}
	int out = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	if (out >= 0) {
		dprintf(out, "%u\n", ++count);
		close(out);
	}
	return next(fd, request, arg);
}
