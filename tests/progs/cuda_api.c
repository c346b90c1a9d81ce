/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_api.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#define EXIT_SKIP 77

static struct {
	const char *file;
	int line;
} volatile at;

void cuda_api_at(const char *file, int line)
{
	at.file = file;
	at.line = line;
}

static void on_crash(int number)
{
	dprintf(STDERR_FILENO, "%s:%d: crashed at or after this line: signal %d\n",
		at.file != NULL ? at.file : "before the first check", at.line, number);
	raise(number); /* ends the program when this returns */
}

static void catch_crashes(void)
{
	const struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
	const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;

		/* A sanitizer's handler tells more. */
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
			sigaction(signals[i], &action, NULL);
		}
	}
}

void cuda_api_announce(const char *test)
{
	if (getenv("CUDA_TEST_VERBOSE") != NULL) {
		fprintf(stderr, "%s\n", test);
	}
}

#ifdef CUDA_LINKED

#define CUDA_DECLARE(name, base, args) extern int name args;
CUDA_API(CUDA_DECLARE)

/* clang-format off */
struct cuda_api cu = {
#define CUDA_ADDRESS(name, base, args) .name = name,
	CUDA_API(CUDA_ADDRESS)
};
/* clang-format on */

void cuda_api_open(void)
{
	catch_crashes();
}

#else

struct cuda_api cu;

static void *find(void *lib, const char *name, const char *base)
{
	static int (*get)(const char *, void **, int, uint64_t, int *);
	void *fn = NULL;

	if (getenv("CUDA_API_PROC") == NULL || base[0] == '\0') {
		fn = dlsym(lib, name);
	} else {
		int version = 12080, status = -1;

		if (get == NULL) {
			*(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
		}
		if (get == NULL || get(base, &fn, version, 0, &status) != 0 || status != 0) {
			fprintf(stderr, "cuGetProcAddress(%s): status %d\n", base, status);
			exit(1);
		}
	}
	if (fn == NULL) {
		fprintf(stderr, "libcuda.so.1 has no %s\n", name);
		exit(1);
	}
	return fn;
}

void cuda_api_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	catch_crashes();
	if (lib == NULL) {
		printf("skipped: %s\n", dlerror());
		exit(EXIT_SKIP);
	}
#define CUDA_FIND(name, base, args) *(void **)&cu.name = find(lib, #name, base);
	CUDA_API(CUDA_FIND)
}

#endif

void cuda_api_must(int result, const char *call)
{
	const char *name = NULL;

	if (result != 0) {
		cu.cuGetErrorName(result, &name);
		fprintf(stderr, "%s: %s (%d)\n", call, name != NULL ? name : "?", result);
		exit(1);
	}
}

int cuda_api_start(void **ret_context)
{
	char name[128];
	int device;

	cuda_api_open();
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDeviceGetName(name, sizeof(name), device));
	MUST(cu.cuCtxCreate_v2(ret_context, 0, device));
	return strstr(name, "software") != NULL;
}

void *cuda_api_module(const char *folder, const char *name)
{
	char path[1024];
	void *module;

	snprintf(path, sizeof(path), "%s/%s.ptx", folder, name);
	MUST(cu.cuModuleLoad(&module, path));
	return module;
}

void *cuda_api_function(void *module, const char *name)
{
	void *function;

	MUST(cu.cuModuleGetFunction(&function, module, name));
	return function;
}

uint64_t cuda_api_zeros(unsigned n)
{
	uint64_t data;

	MUST(cu.cuMemAlloc_v2(&data, (size_t)n * 4));
	MUST(cu.cuMemsetD32_v2(data, 0, n));
	MUST(cu.cuCtxSynchronize());
	return data;
}
