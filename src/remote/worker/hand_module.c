/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, libraries and linkers: images of any size, and options of the compiler. */
#include <stdlib.h>
#include <string.h>

#include "remote/worker/served.h"

#define MAX_OPTIONS 64u
#define MAX_LOG     (64u << 10)

/* Options of the compiler. Log buffers are the worker's own; their text is an output. */
struct options {
	unsigned n;
	const int *names;
	void **values; /* also an output */
	char *logs[2]; /* information, errors */
};

static void take_logs(struct served *s, struct options *o)
{
	for (unsigned i = 0; i < o->n; i++) {
		bool is_log = o->names[i] == CU_JIT_INFO_LOG_BUFFER ||
			      o->names[i] == CU_JIT_ERROR_LOG_BUFFER;

		if (is_log) {
			o->values[i] = o->logs[o->names[i] == CU_JIT_ERROR_LOG_BUFFER];
		} else if (o->names[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			   o->names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
			/* As much as there is; the guest cuts it to its own size. */
			o->values[i] = (void *)(uintptr_t)MAX_LOG;
		}
	}
}

static void take_options(struct served *s, struct options *o)
{
	size_t n_names = 0, n_values = 0;

	o->n = (unsigned)served_get(s);
	o->names = served_block(s, &n_names);
	const void *values = served_block(s, &n_values);

	o->values = served_room(s, sizeof(void *) * MAX_OPTIONS);
	o->logs[0] = served_room(s, MAX_LOG);
	o->logs[1] = served_room(s, MAX_LOG);
	if (o->n > MAX_OPTIONS || o->values == NULL || o->logs[1] == NULL ||
		(o->names != NULL && n_names != o->n * sizeof(int)) ||
		(values != NULL && n_values != o->n * sizeof(void *))) {
		s->malformed = true;
		s->refusal = CUDA_ERROR_INVALID_VALUE;
		return;
	}
	if (values != NULL) {
		memcpy(o->values, values, n_values);
	}
	if (o->names != NULL && values != NULL) {
		take_logs(s, o);
	} else if (values == NULL) {
		o->values = NULL;
	}
}

CUresult serve_cuModuleLoadData(struct served *s)
{
	size_t size;
	CUmodule *ret = served_handles_out(s, RBT_HANDLE_MODULE, 1);
	const void *image = served_data(s, &size);

	if (!served_is_good(s, s->driver->cuModuleLoadData != NULL)) {
		return s->refusal;
	}
	return s->driver->cuModuleLoadData(ret, image);
}

CUresult serve_cuModuleLoadFatBinary(struct served *s)
{
	size_t size;
	CUmodule *ret = served_handles_out(s, RBT_HANDLE_MODULE, 1);
	const void *image = served_data(s, &size);

	if (!served_is_good(s, s->driver->cuModuleLoadFatBinary != NULL)) {
		return s->refusal;
	}
	return s->driver->cuModuleLoadFatBinary(ret, image);
}

CUresult serve_cuModuleLoadDataEx(struct served *s)
{
	struct options o = {0};
	size_t size;
	CUmodule *ret = served_handles_out(s, RBT_HANDLE_MODULE, 1);
	const void *image = served_data(s, &size);

	take_options(s, &o);
	if (!served_is_good(s, s->driver->cuModuleLoadDataEx != NULL)) {
		return s->refusal;
	}
	return s->driver->cuModuleLoadDataEx(ret, image, o.n, o.names, o.values);
}

CUresult serve_cuLibraryLoadData(struct served *s)
{
	struct options jit = {0};
	size_t size, n_names = 0, n_values = 0;
	CUlibrary *ret = served_handles_out(s, RBT_HANDLE_LIBRARY, 1);
	const void *image = served_data(s, &size);

	take_options(s, &jit);
	unsigned n = (unsigned)served_get(s);
	const int *names = served_block(s, &n_names);
	const void *values = served_block(s, &n_values);

	if (n > MAX_OPTIONS || (names != NULL && n_names != n * sizeof(int)) ||
		(values != NULL && n_values != n * sizeof(void *))) {
		s->malformed = true;
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!served_is_good(s, s->driver->cuLibraryLoadData != NULL)) {
		return s->refusal;
	}
	return s->driver->cuLibraryLoadData(
		ret, image, jit.names, jit.values, jit.n, names, (void **)(uintptr_t)values, n);
}

/* The compiler may write to logs of a linker until it is destroyed: a linker gets no logs. */
CUresult serve_cuLinkCreate_v2(struct served *s)
{
	CUlinkState *ret = served_handles_out(s, RBT_HANDLE_LINK, 1);

	if (!served_is_good(s, s->driver->cuLinkCreate_v2 != NULL)) {
		return s->refusal;
	}
	return s->driver->cuLinkCreate_v2(0, NULL, NULL, ret);
}

CUresult serve_cuLinkAddData_v2(struct served *s)
{
	size_t size = 0;
	CUlinkState state = served_find(s, RBT_HANDLE_LINK, served_get(s));
	int type = (int)served_get(s);
	void *data = served_data(s, &size);
	const char *name = served_text(s);

	if (!served_is_good(s, s->driver->cuLinkAddData_v2 != NULL)) {
		return s->refusal;
	}
	return s->driver->cuLinkAddData_v2(state, type, data, size, name, 0, NULL, NULL);
}

CUresult serve_cuLinkComplete(struct served *s)
{
	CUlinkState state = served_find(s, RBT_HANDLE_LINK, served_get(s));
	void *image = NULL;
	size_t size = 0;

	if (!served_is_good(s, s->driver->cuLinkComplete != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuLinkComplete(state, &image, &size);

	if (r == CUDA_SUCCESS && image != NULL) {
		if (size > RBT_WIRE_MAX_CALL / 2) {
			return CUDA_ERROR_OUT_OF_MEMORY; /* larger than an answer can be */
		}
		memcpy(served_room(s, size), image, size);
	}
	return r;
}

CUresult serve_cuLinkDestroy(struct served *s)
{
	uint64_t handle = served_get(s);
	CUlinkState state = served_find(s, RBT_HANDLE_LINK, handle);

	if (!served_is_good(s, s->driver->cuLinkDestroy != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuLinkDestroy(state);

	if (r == CUDA_SUCCESS) {
		served_forget(s, handle);
	}
	return r;
}
