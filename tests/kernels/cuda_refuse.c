/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver refuses, through the CUDA driver interface: prints "error N", the first error that
 * came, and whether the context stayed unusable. The same on hardware, but for what the software
 * GPU does not take.
 *
 * usage: cuda_refuse DIRECTORY illegal|misaligned|trap|assert|fatbin|cubin|export
 * The first four are kernels of DIRECTORY/faults.ptx.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER 4096

static void *library;

typedef void (*any_call)(void);

static any_call find(const char *name)
{
	any_call f;

	*(void **)&f = dlsym(library, name);
	if (f == NULL) {
		fprintf(stderr, "cuda_refuse: the driver has no %s\n", name);
		exit(5);
	}
	return f;
}
/* The types of a call are those of its arguments here. */
#define CALL(name, types) ((int(*) types)find(#name))

static int load_image(const void *image)
{
	void *module;

	return CALL(cuModuleLoadData, (void **, const void *))(&module, image);
}

static char *read_text(const char *directory)
{
	static char text[1 << 20];
	char path[4096];

	snprintf(path, sizeof(path), "%s/faults.ptx", directory);
	FILE *f = fopen(path, "r");
	if (f == NULL || fread(text, 1, sizeof(text) - 1, f) == 0) {
		fprintf(stderr, "cuda_refuse: cannot read %s\n", path);
		exit(2);
	}
	fclose(f);
	return text;
}

/* Pointers to zeroed memory come first, then one number. */
static const struct fault {
	const char *name, *entry;
	unsigned n_buffers;
	uint64_t number;
} faults[] = {
	{"illegal", "fault_store", 1, 1ull << 40},
	{"misaligned", "fault_store", 1, 2},
	{"trap", "fault_trap", 2, 0},
	{"assert", "fault_assert", 2, 0},
};

static int launch(const char *directory, const struct fault *fault)
{
	void *module, *function, *params[3];
	uint64_t buffers[2], number = fault->number;
	int r = CALL(cuModuleLoadData, (void **, const void *))(&module, read_text(directory));

	if (r == 0) {
		r = CALL(cuModuleGetFunction, (void **, void *, const char *))(
			&function, module, fault->entry);
	}
	for (unsigned i = 0; r == 0 && i < fault->n_buffers; i++) {
		params[i] = &buffers[i];
		r = CALL(cuMemAlloc_v2, (uint64_t *, size_t))(&buffers[i], BUFFER);
		if (r == 0) {
			r = CALL(cuMemsetD8_v2, (uint64_t, unsigned char, size_t))(
				buffers[i], 0, BUFFER);
		}
	}
	if (r != 0) {
		return r;
	}
	params[fault->n_buffers] = &number;
	r = CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned,
					 unsigned, unsigned, void *, void **, void **))(
		function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
	return r != 0 ? r : CALL(cuCtxSynchronize, (void))();
}

static int launch_named(const char *directory, const char *name)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (strcmp(faults[i].name, name) == 0) {
			return launch(directory, &faults[i]);
		}
	}
	fprintf(stderr, "cuda_refuse: what is '%s'?\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	static const uint32_t fatbin[16] = {0x466243b1, 1},
			      old_fatbin[16] = {0xba55ed50, 0x00100001};
	static const unsigned char cubin[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
	void *context;
	const void *table;
	int r, device;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (argc != 3 || library == NULL) {
		fprintf(stderr, "usage: cuda_refuse DIRECTORY WHAT, with a libcuda.so.1\n");
		return library == NULL ? 5 : 2;
	}
	if (CALL(cuInit, (unsigned))(0) != 0 || CALL(cuDeviceGet, (int *, int))(&device, 0) != 0 ||
		CALL(cuCtxCreate_v2, (void **, unsigned, int))(&context, 0, device) != 0) {
		fprintf(stderr, "cuda_refuse: no device\n");
		return 5;
	}
	if (strcmp(argv[2], "fatbin") == 0) {
		r = load_image(fatbin);
		r = r == load_image(old_fatbin) ? r : -1;
	} else if (strcmp(argv[2], "cubin") == 0) {
		r = load_image(cubin);
	} else if (strcmp(argv[2], "export") == 0) {
		static const unsigned char id[16] = {
			0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a};
		r = CALL(cuGetExportTable, (const void **, const void *))(&table, id);
	} else {
		r = launch_named(argv[1], argv[2]);
	}
	printf("error %d, then %d\n", r, CALL(cuCtxSynchronize, (void))());
	return 0;
}
