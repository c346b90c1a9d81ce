/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of kernels through the CUDA driver interface: an ordinary program that finds
 * libcuda.so.1 at run time. The same binary runs on hardware and on the software GPU.
 *
 * usage: cuda_suite DIRECTORY [--entry NAME] [--rounds N] [--seed N] [--say]
 *   --rounds  how often all cases are run; every round in an order of its own (1)
 *   --say     a line when ready, and one for each round, for whoever watches
 * Exit status: 0, 1 when a result is wrong, 5 without a device, 3 when the driver failed a call.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

#define MAX_CASES   256
#define EXIT_DEVICE 5
#define EXIT_CALL   3

#define JIT_ERROR_LOG_BUFFER 5
#define JIT_ERROR_LOG_SIZE   6
#define INVALID_PTX          218

#define CALLS(X)                                                                                   \
	X(cuInit, (unsigned flags))                                                                \
	X(cuDeviceGet, (int *ret, int ordinal))                                                    \
	X(cuCtxCreate_v2, (void **ret, unsigned flags, int device))                                \
	X(cuCtxDestroy_v2, (void *context))                                                        \
	X(cuModuleLoadDataEx,                                                                      \
		(void **ret, const void *image, unsigned n_options, int *options, void **values))  \
	X(cuModuleUnload, (void *module))                                                          \
	X(cuModuleGetFunction, (void **ret, void *module, const char *name))                       \
	X(cuMemAlloc_v2, (uint64_t * ret, size_t size))                                            \
	X(cuMemFree_v2, (uint64_t address))                                                        \
	X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t size))                           \
	X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t size))                                 \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuLaunchKernel,                                                                          \
		(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                \
			unsigned block_x, unsigned block_y, unsigned block_z,                      \
			unsigned shared_bytes, void *stream, void **params, void **extra))

static struct {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, where none can stand */
#define MEMBER(name, args) int(*name) args;
	CALLS(MEMBER)
#undef MEMBER
} cuda;

static const struct kcase *all[MAX_CASES];
static size_t n_cases, n_wrong;
static const char *directory;

static void check(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "cuda_suite: %s: error %d\n", what, result);
		/* Not exit(): a driver that has gone may not take its own farewell well. */
		_exit(EXIT_CALL);
	}
}
#define DO(name, ...) check(cuda.name(__VA_ARGS__), #name)

static void find_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library == NULL) {
		fprintf(stderr, "cuda_suite: %s\n", dlerror());
		exit(EXIT_DEVICE);
	}
#define FIND(name, args)                                                                           \
	*(void **)&cuda.name = dlsym(library, #name);                                              \
	if (cuda.name == NULL) {                                                                   \
		fprintf(stderr, "cuda_suite: the driver has no %s\n", #name);                      \
		exit(EXIT_DEVICE);                                                                 \
	}
	CALLS(FIND)
#undef FIND
	if (cuda.cuInit(0) != 0) {
		fprintf(stderr, "cuda_suite: no device\n");
		exit(EXIT_DEVICE);
	}
}

static char *read_module(const char *name)
{
	char path[4096];
	long size;

	snprintf(path, sizeof(path), "%s/%s.ptx", directory, name);
	FILE *f = fopen(path, "r");
	if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
		fprintf(stderr, "cuda_suite: cannot read %s\n", path);
		exit(EXIT_CALL);
	}
	char *text = calloc(1, (size_t)size + 1);
	rewind(f);
	if (text == NULL || fread(text, 1, (size_t)size, f) != (size_t)size) {
		fprintf(stderr, "cuda_suite: cannot read %s\n", path);
		exit(EXIT_CALL);
	}
	fclose(f);
	return text;
}

/* NULL, with what the driver's compiler says, when it does not take the text. */
static void *load(const char *name)
{
	char *text = read_module(name), log[4096] = "";
	int options[] = {JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)sizeof(log)}, *module = NULL;
	int r = cuda.cuModuleLoadDataEx(&module, text, 2, options, values);

	free(text);
	if (r == INVALID_PTX) {
		fprintf(stderr, "cuda_suite: %s.ptx: %s\n", name, log);
		return NULL;
	}
	check(r, "cuModuleLoadDataEx");
	return module;
}

static void compare(const struct kcase *kase, const struct kcase_data *data, const uint64_t *at)
{
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		void *got = malloc(kase->buffers[k].size);
		if (got == NULL) {
			abort();
		}
		DO(cuMemcpyDtoH_v2, got, at[k], kase->buffers[k].size);
		int64_t wrong = kcase_compare(kase, data, k, got);
		if (wrong >= 0) {
			uint32_t is, should;
			memcpy(&is, (char *)got + (wrong & ~3ll), 4);
			memcpy(&should, (char *)data->expected[k] + (wrong & ~3ll), 4);
			fprintf(stderr, "cuda_suite: %s: buffer %u, byte %lld: %08x, not %08x\n",
				kase->entry, k, (long long)wrong, is, should);
			n_wrong++;
		}
		free(got);
	}
}

static void run(const struct kcase *kase)
{
	struct kcase_data data;
	uint64_t at[KCASE_BUFFERS] = {0};
	void *function, *params[KCASE_BUFFERS + KCASE_ARGS];
	unsigned n = 0;

	void *module = load(kase->module);
	if (module == NULL) {
		n_wrong++;
		return;
	}
	if (!kcase_prepare(kase, &data)) {
		abort();
	}
	DO(cuModuleGetFunction, &function, module, kase->entry);
	for (; n < kcase_buffer_count(kase); n++) {
		DO(cuMemAlloc_v2, &at[n], kase->buffers[n].size);
		DO(cuMemcpyHtoD_v2, at[n], data.bytes[n], kase->buffers[n].size);
		params[n] = &at[n];
	}
	for (unsigned i = 0; i < KCASE_ARGS && kase->args[i].size > 0; i++) {
		params[n++] = (void *)&kase->args[i].bits; /* little-endian: 4 bytes of 8 */
	}
	DO(cuLaunchKernel, function, kase->grid[0], kase->grid[1], kase->grid[2], kase->block[0],
		kase->block[1], kase->block[2], kase->dynamic_shared, NULL, params, NULL);
	DO(cuCtxSynchronize);
	compare(kase, &data, at);
	for (unsigned k = 0; k < kcase_buffer_count(kase); k++) {
		DO(cuMemFree_v2, at[k]);
	}
	kcase_free(&data);
	DO(cuModuleUnload, module); /* the next case finds variables as they were at first */
}

static void run_all(uint64_t *seed)
{
	for (size_t i = n_cases; i > 1; i--) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		size_t j = (size_t)(*seed >> 33) % i;
		const struct kcase *swap = all[i - 1];
		all[i - 1] = all[j];
		all[j] = swap;
	}
	for (size_t i = 0; i < n_cases; i++) {
		run(all[i]);
	}
}

static void choose(const char *entry)
{
	const struct kcase *kase;

	for (size_t n = 0; (kase = kcase_at(n)) != NULL && n_cases < MAX_CASES; n++) {
		if (entry == NULL || strcmp(entry, kase->entry) == 0) {
			all[n_cases++] = kase;
		}
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"entry", required_argument, NULL, 'e'},
		{"rounds", required_argument, NULL, 'r'}, {"seed", required_argument, NULL, 's'},
		{"say", no_argument, NULL, 'y'}, {0}};
	const char *entry = NULL;
	unsigned long rounds = 1;
	uint64_t seed = 1;
	bool say = false;
	void *context;
	int c, device;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		entry = c == 'e' ? optarg : entry;
		rounds = c == 'r' ? strtoul(optarg, NULL, 10) : rounds;
		seed = c == 's' ? strtoull(optarg, NULL, 10) : seed;
		say = say || c == 'y';
		if (c == '?') {
			return 2;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr,
			"usage: cuda_suite DIRECTORY [--entry NAME] [--rounds N] [--seed N] [--say]\n");
		return 2;
	}
	directory = argv[optind];
	choose(entry);
	find_driver();
	DO(cuDeviceGet, &device, 0);
	DO(cuCtxCreate_v2, &context, 0, device);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (say) {
		printf("ready pid=%d\n", (int)getpid());
	}
	for (unsigned long r = 0; r < rounds; r++) {
		run_all(&seed);
		if (say) {
			printf("round %lu, %zu wrong\n", r + 1, n_wrong);
		}
	}
	DO(cuCtxDestroy_v2, context);
	printf("%zu cases, %lu rounds, %zu wrong\n", n_cases, rounds, n_wrong);
	return n_wrong == 0 && n_cases > 0 ? 0 : 1;
}
