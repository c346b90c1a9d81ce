/* SPDX-License-Identifier: Apache-2.0 */
/* The host's driver, found as every program finds it: through Rubato's stand-in, if there is one.
 *  */
#include <dlfcn.h>
#include <string.h>

#include "remote/worker/worker.h"

const struct worker_driver *worker_driver_load(void)
{
	static struct worker_driver driver;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (lib == NULL) {
		return NULL;
	}
#define DRIVER_LOAD(symbol, per_thread, number, params, waits)                                     \
	*(void **)&driver.symbol = dlsym(lib, #symbol);                                            \
	*(void **)&driver.symbol##_per_thread = dlsym(lib, #per_thread);
	RBT_REMOTE_CALLS(DRIVER_LOAD)
#undef DRIVER_LOAD
	return &driver;
}
