/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SONAME "libcuda.so.1"

struct orion_driver orion_driver;

static _Atomic(rubato_standin_queue_fn *) standin_queue;
static _Atomic(rubato_standin_driver_fn *) standin_driver;

static void take(void *handle)
{
	standin_queue =
		(rubato_standin_queue_fn *)(uintptr_t)dlsym(handle, "rubato_standin_queue_v1");
	standin_driver =
		(rubato_standin_driver_fn *)(uintptr_t)dlsym(handle, "rubato_standin_driver_v1");
}

/* In the build tree the stand-in's folder is beside this library, installed it is below rubato/. */
static void *open_beside(void)
{
	static const char *const folders[] = {"standin", "rubato/standin"};
	char path[PATH_MAX];
	Dl_info info;
	void *handle = NULL;

	if (dladdr(&orion_driver, &info) == 0 || info.dli_fname == NULL) {
		return NULL;
	}
	const char *slash = strrchr(info.dli_fname, '/');
	int len = slash != NULL ? (int)(slash - info.dli_fname) + 1 : 0;
	for (size_t i = 0; handle == NULL && i < sizeof(folders) / sizeof(folders[0]); i++) {
		int n = snprintf(
			path, sizeof(path), "%.*s%s/" SONAME, len, info.dli_fname, folders[i]);
		if (n > 0 && (size_t)n < sizeof(path)) {
			/* Global, and by its SONAME: what opens the driver's library later gets
			 * this one. */
			handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		}
	}
	return handle;
}

static int find_standin(char *ret_why, size_t size)
{
	if (standin_queue != NULL && standin_driver != NULL) {
		return 0;
	}
	/* `rubato run` has put it into the search path, or a test is its own. */
	take(RTLD_DEFAULT);
	if (standin_queue != NULL && standin_driver != NULL) {
		return 0;
	}
	void *loaded = dlopen(SONAME, RTLD_NOW | RTLD_NOLOAD);
	if (loaded == NULL) {
		loaded = open_beside();
		if (loaded == NULL) {
			snprintf(ret_why, size, "the stand-in for " SONAME " is not beside %s",
				"libgpu_scheduler.so: install Rubato as a whole");
			return -ENOENT;
		}
	}
	take(loaded);
	if (standin_queue == NULL || standin_driver == NULL) {
		snprintf(ret_why, size,
			"the driver's library was loaded first: load libgpu_scheduler.so and start "
			"the scheduler before that (before `import torch`), or start the program "
			"with `rubato run`");
		return -EBUSY;
	}
	return 0;
}

void orion_driver_open(void)
{
	char why[512];

	find_standin(why, sizeof(why));
}

int orion_driver_find(char *ret_why, size_t size)
{
	static bool is_filled;
	int r = find_standin(ret_why, size);

	if (r < 0) {
		return r;
	}
	/* Threads may be reading it. */
	if (is_filled) {
		return 0;
	}
#define FILL(member, symbol, parameters)                                                           \
	orion_driver.member = (CUresult(*) parameters)(uintptr_t)standin_driver(#symbol);          \
	if (orion_driver.member == NULL) {                                                         \
		snprintf(ret_why, size,                                                            \
			"there is no NVIDIA driver, or it is too old: it has no " #symbol);        \
		return -ENODEV;                                                                    \
	}
	ORION_DRIVER(FILL)
#undef FILL
	is_filled = true;
	return 0;
}

bool orion_driver_is_primary(CUdevice device)
{
	CUcontext current = NULL, primary = NULL;

	if (orion_driver.ctx_get_current(&current) != CUDA_SUCCESS ||
		orion_driver.primary_retain(&primary, device) != CUDA_SUCCESS) {
		return false;
	}
	orion_driver.primary_release(device);
	return primary == current;
}

int orion_driver_intercept(rubato_wrap_fn *wrap)
{
	return standin_queue(wrap);
}

void *orion_driver_symbol(const char *symbol)
{
	return standin_driver(symbol);
}
