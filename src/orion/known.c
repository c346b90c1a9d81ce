/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/known.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orion/driver.h"

static struct rbt_kernels *kernels;
static _Atomic bool has_profile;

int orion_known_begin(void)
{
	if (kernels != NULL) {
		return 0;
	}
#define FUNCTION(symbol)                                                                           \
	.symbol = (__typeof__(((struct rbt_kernel_driver *)0)->symbol))(uintptr_t)                 \
		orion_driver_symbol(#symbol)
	const struct rbt_kernel_driver driver = {
		FUNCTION(cuFuncGetName),
		FUNCTION(cuKernelGetName),
		FUNCTION(cuFuncGetModule),
		FUNCTION(cuKernelGetLibrary),
		FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor),
		FUNCTION(cuCtxGetDevice),
		FUNCTION(cuDeviceGetAttribute),
	};
#undef FUNCTION
	kernels = rbt_kernels_create(&driver);
	return kernels != NULL ? 0 : -ENOMEM;
}

struct rbt_kernels *orion_known(void)
{
	return kernels;
}

bool orion_known_has_profile(void)
{
	return atomic_load_explicit(&has_profile, memory_order_relaxed);
}

static int read_profile(const char *path, struct rbt_profile **ret, char *ret_why, size_t size)
{
	struct rbt_profile_fault fault = {0};
	struct stat st;
	/* O_NONBLOCK: a FIFO without a writer would block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : !S_ISREG(st.st_mode) ? -EINVAL : 0;
	FILE *f = r == 0 ? fdopen(fd, "r") : NULL;

	if (f == NULL) {
		r = r != 0 ? r : -errno;
		snprintf(ret_why, size, "%s", r == -EINVAL ? "not a file" : strerror(-r));
		if (fd >= 0) {
			close(fd);
		}
		return r;
	}
	r = rbt_profile_read(f, ret, &fault);
	fclose(f);
	if (r < 0 && fault.line > 0) {
		snprintf(ret_why, size, "line %u%s%s: %s", fault.line,
			fault.field[0] != '\0' ? ", " : "", fault.field, fault.text);
	} else if (r < 0) {
		snprintf(ret_why, size, "%s", fault.text[0] != '\0' ? fault.text : strerror(-r));
	}
	return r;
}

int orion_known_load(const char *path, char *ret_why, size_t size)
{
	struct rbt_profile *profile = NULL;
	int r = read_profile(path, &profile, ret_why, size);

	if (r == 0) {
		rbt_kernels_use(kernels, profile);
		has_profile = true;
	}
	return r;
}

/* To a new file, which then takes the place of the old one. */
static int write_profile(const struct rbt_profile *profile, const char *path)
{
	char temporary[PATH_MAX];
	int n = snprintf(temporary, sizeof(temporary), "%s.%d.tmp", path, (int)getpid());
	FILE *f = n > 0 && (size_t)n < sizeof(temporary) ? fopen(temporary, "we") : NULL;

	if (f == NULL) {
		return n > 0 && (size_t)n < sizeof(temporary) ? -errno : -ENAMETOOLONG;
	}
	int r = rbt_profile_write(profile, f);
	if (fclose(f) != 0 && r == 0) {
		r = -errno;
	}
	if (r == 0 && rename(temporary, path) < 0) {
		r = -errno;
	}
	if (r < 0) {
		unlink(temporary);
	}
	return r;
}

int orion_known_save(const char *path)
{
	struct rbt_profile *profile = rbt_profile_create();
	int r = profile != NULL ? rbt_kernels_to_profile(kernels, profile) : -ENOMEM;

	r = r == 0 ? write_profile(profile, path) : r;
	rbt_profile_destroy(profile);
	return r;
}

bool orion_known_is_measured(void)
{
	struct rbt_profile *profile = rbt_profile_create();
	bool is_measured = profile != NULL && rbt_kernels_to_profile(kernels, profile) == 0 &&
			   rbt_profile_count(profile) > 0;

	rbt_profile_destroy(profile);
	return is_measured;
}
