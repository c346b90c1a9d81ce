/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_min.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/parse.h"
#include "util/time.h"

#define LCG_A 1664525u
#define LCG_C 1013904223u

static const char ptx[] = ".version 7.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry nothing()\n"
			  "{\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry spin(.param .u64 states, .param .u32 steps)\n"
			  "{\n"
			  "	.reg .pred %p;\n"
			  "	.reg .b32 %r<8>;\n"
			  "	.reg .b64 %d<3>;\n"
			  "	ld.param.u64 %d1, [states];\n"
			  "	ld.param.u32 %r1, [steps];\n"
			  "	mov.u32 %r2, %ctaid.x;\n"
			  "	mov.u32 %r3, %ntid.x;\n"
			  "	mov.u32 %r4, %tid.x;\n"
			  "	mad.lo.u32 %r5, %r2, %r3, %r4;\n"
			  "	mul.wide.u32 %d2, %r5, 4;\n"
			  "	add.u64 %d1, %d1, %d2;\n"
			  "	ld.global.u32 %r6, [%d1];\n"
			  "	mov.u32 %r7, 0;\n"
			  "LOOP:\n"
			  "	setp.ge.u32 %p, %r7, %r1;\n"
			  "	@%p bra DONE;\n"
			  "	mad.lo.u32 %r6, %r6, 1664525, 1013904223;\n"
			  "	add.u32 %r7, %r7, 1;\n"
			  "	bra LOOP;\n"
			  "DONE:\n"
			  "	st.global.u32 [%d1], %r6;\n"
			  "	ret;\n"
			  "}\n";

static void __attribute__((noreturn, format(printf, 2, 3))) die(int code, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(code);
}

void cuda_check(const struct cuda *cuda, int rc, const char *call)
{
	const char *name = NULL;

	if (rc == 0) {
		return;
	}
	if (cuda->cuGetErrorName(rc, &name) != 0 || name == NULL) {
		name = "unknown error";
	}
	die(1, "%s failed: %s (%d)", call, name, rc);
}

static void *find_symbol(void *lib, const char *name)
{
	void *symbol = dlsym(lib, name);

	if (symbol == NULL) {
		die(CUDA_EXIT_NO_DEVICE, "libcuda.so.1 has no %s: too old a driver", name);
	}
	return symbol;
}

static void load_calls(struct cuda *cuda)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (lib == NULL) {
		die(CUDA_EXIT_NO_DEVICE, "no CUDA driver here: %s", dlerror());
	}
	/* POSIX lets a data pointer from dlsym() become a function pointer; C does not say so. */
#define CUDA_FIND(name, args) *(void **)&cuda->name = find_symbol(lib, #name);
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
}

static int take_if_driver(struct dl_phdr_info *info, size_t size, void *ret)
{
	const char *slash = strrchr(info->dlpi_name, '/');

	if (slash == NULL || strncmp(slash, "/libcuda.so", strlen("/libcuda.so")) != 0) {
		return 0;
	}
	void *lib = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	if (lib != NULL && dlsym(lib, "rubato_standin") == NULL) {
		*(void **)ret = lib;
		return 1;
	}
	return 0;
}

bool cuda_drivers_own(const struct cuda *cuda, struct cuda *ret)
{
	void *lib = NULL;

	dl_iterate_phdr(take_if_driver, &lib);
	*ret = *cuda;
	if (lib == NULL) {
		return false;
	}
#define CUDA_FIND(name, args) *(void **)&ret->name = find_symbol(lib, #name);
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
	return ret->cuLaunchKernel != cuda->cuLaunchKernel;
}

/* In the current context. */
static void fill_context(struct cuda *cuda)
{
	void *module;

	CUDA_DO(cuda, cuModuleLoadData, &module, ptx);
	CUDA_DO(cuda, cuModuleGetFunction, &cuda->nothing, module, "nothing");
	CUDA_DO(cuda, cuModuleGetFunction, &cuda->spin, module, "spin");
	CUDA_DO(cuda, cuStreamCreate, &cuda->stream, CUDA_STREAM_NON_BLOCKING);
}

void cuda_open(struct cuda *cuda)
{
	int device;

	memset(cuda, 0, sizeof(*cuda));
	load_calls(cuda);
	CUDA_DO(cuda, cuInit, 0);
	CUDA_DO(cuda, cuDriverGetVersion, &cuda->driver_version);
	CUDA_DO(cuda, cuDeviceGet, &device, 0);
	CUDA_DO(cuda, cuDeviceGetName, cuda->name, (int)sizeof(cuda->name), device);
	CUDA_DO(cuda, cuDeviceGetAttribute, &cuda->sm_count, CUDA_ATTRIBUTE_SM_COUNT, device);
	CUDA_DO(cuda, cuDevicePrimaryCtxRetain, &cuda->context, device);
	CUDA_DO(cuda, cuCtxSetCurrent, cuda->context);
	fill_context(cuda);
}

void cuda_open_context(const struct cuda *first, struct cuda *ret)
{
	*ret = *first;
	CUDA_DO(ret, cuCtxCreate_v2, &ret->context, 0, 0);
	fill_context(ret);
}

void cuda_spin_init(struct cuda_spin *spin, struct cuda *cuda, unsigned n_blocks)
{
	size_t n = (size_t)n_blocks * CUDA_SPIN_BLOCK_THREADS;
	uint32_t *initial = malloc(n * sizeof(*initial));

	if (initial == NULL) {
		die(1, "out of memory");
	}
	for (size_t i = 0; i < n; i++) {
		initial[i] = (uint32_t)i;
	}
	*spin = (struct cuda_spin){.cuda = cuda, .n_blocks = n_blocks};
	CUDA_DO(cuda, cuMemAlloc_v2, &spin->states, n * sizeof(*initial));
	CUDA_DO(cuda, cuMemcpyHtoD_v2, spin->states, initial, n * sizeof(*initial));
	free(initial);
}

void cuda_spin_launch(struct cuda_spin *spin)
{
	void *params[] = {&spin->states, &spin->steps};

	CUDA_DO(spin->cuda, cuLaunchKernel, spin->cuda->spin, spin->n_blocks, 1, 1,
		CUDA_SPIN_BLOCK_THREADS, 1, 1, 0, spin->cuda->stream, params, NULL);
	spin->total_steps += spin->steps;
}

static double time_batch_us(struct cuda_spin *spin, unsigned n_kernels)
{
	uint64_t start_ns = rbt_now_ns();

	for (unsigned i = 0; i < n_kernels; i++) {
		cuda_spin_launch(spin);
	}
	CUDA_DO(spin->cuda, cuStreamSynchronize, spin->cuda->stream);
	return (double)(rbt_now_ns() - start_ns) / (double)RBT_NS_PER_US;
}

void cuda_spin_calibrate(struct cuda_spin *spin, unsigned n_kernels, double target_us)
{
	uint64_t warm_ns = rbt_now_ns() + 300 * RBT_NS_PER_MS;

	/* An idle chip runs at a fraction of its clock: calibrate only once it has come up. */
	spin->steps = 4096;
	while (rbt_now_ns() < warm_ns) {
		time_batch_us(spin, n_kernels);
	}
	/* Time is affine in steps, so scaling by the error converges in a few rounds; the best of
	 * three keeps one late interrupt from counting. */
	for (int round = 0; round < 5; round++) {
		double best_us = time_batch_us(spin, n_kernels);

		for (int i = 0; i < 2; i++) {
			double us = time_batch_us(spin, n_kernels);

			best_us = us < best_us ? us : best_us;
		}
		double steps = spin->steps * target_us / best_us;

		spin->steps = steps < 1 ? 1 : steps > 1e9 ? 1000000000 : (uint32_t)steps;
	}
}

/* x after `steps` steps is *mul * x + *add, by repeated squaring. */
static void lcg_jump(uint64_t steps, uint32_t *mul, uint32_t *add)
{
	uint32_t a = LCG_A, c = LCG_C;

	*mul = 1;
	*add = 0;
	for (; steps != 0; steps >>= 1) {
		if (steps & 1) {
			*mul *= a;
			*add = *add * a + c;
		}
		c = c * a + c;
		a *= a;
	}
}

size_t cuda_spin_count_wrong(struct cuda_spin *spin)
{
	size_t n = (size_t)spin->n_blocks * CUDA_SPIN_BLOCK_THREADS, n_wrong = 0;
	uint32_t *states = malloc(n * sizeof(*states));
	uint32_t mul, add;

	if (states == NULL) {
		die(1, "out of memory");
	}
	CUDA_DO(spin->cuda, cuStreamSynchronize, spin->cuda->stream);
	CUDA_DO(spin->cuda, cuMemcpyDtoH_v2, states, spin->states, n * sizeof(*states));
	lcg_jump(spin->total_steps, &mul, &add);
	for (size_t i = 0; i < n; i++) {
		n_wrong += states[i] != mul * (uint32_t)i + add;
	}
	free(states);
	return n_wrong;
}

uint64_t bench_option(int argc, char **argv, const char *name, uint64_t max, uint64_t otherwise)
{
	uint64_t value = otherwise;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], name) == 0 && rbt_parse_u64(argv[i + 1], 1, max, &value) != 0) {
			die(2, "%s: a whole number from 1 to %llu is wanted", name,
				(unsigned long long)max);
		}
	}
	return value;
}

void bench_options_check(int argc, char **argv, const char *const *names)
{
	for (int i = 1; i < argc; i += 2) {
		const char *const *name = names;

		while (*name != NULL && strcmp(argv[i], *name) != 0) {
			name++;
		}
		if (*name == NULL) {
			die(2, "%s: unknown option", argv[i]);
		}
		if (i + 1 == argc) {
			die(2, "%s: a value is wanted", argv[i]);
		}
	}
}

void bench_ready(const struct cuda *cuda, const char *program, double unit_us)
{
	printf("{\"ready\": \"%s\", \"pid\": %d, \"gpu\": \"%s\", \"cuda\": %d, \"unit_us\": %.1f}\n",
		program, (int)getpid(), cuda->name, cuda->driver_version, unit_us);
	fflush(stdout);
}
