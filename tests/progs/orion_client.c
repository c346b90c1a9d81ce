/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload: the program's first thread is client $ORION_CLIENT of the scheduler in
 * $ORION_LIBRARY, which has two. So all CUDA programs of the tests can run as clients.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("ORION_LIBRARY"), *client = getenv("ORION_CLIENT");
	void *lib = path != NULL && client != NULL ? dlopen(path, RTLD_NOW) : NULL;

	if (lib == NULL) {
		return; /* a shell, say, on the way to the program */
	}
	int (*start)(int) = (int (*)(int))(uintptr_t)dlsym(lib, "orion_start_scheduler");
	void (*set)(int) = (void (*)(int))(uintptr_t)dlsym(lib, "orion_set_client_idx");

	if (start == NULL || set == NULL || start(2) != 0) {
		fprintf(stderr, "orion_client: no scheduler\n");
		_Exit(1);
	}
	set(atoi(client));
}
