/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few calls of the CUDA driver interface that the benchmark programs make, found in
 * libcuda.so.1 at run time and declared from its public documentation: no header, no link
 * dependency. Handles are void *, device addresses uint64_t, results 0 or a CUresult.
 *
 * These are programs, not a library: what fails is said in one line and ends the program.
 */
#ifndef RBT_BENCH_CUDA_MIN_H
#define RBT_BENCH_CUDA_MIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_EXIT_NO_DEVICE 5

#define CUDA_STREAM_NON_BLOCKING  1
#define CUDA_EVENT_DISABLE_TIMING 2
#define CUDA_CAPTURE_THREAD_LOCAL 1
#define CUDA_ATTRIBUTE_SM_COUNT   16
#define CUDA_SPIN_BLOCK_THREADS   256
#define CUDA_SPIN_FULL_SM_BLOCKS  8 /* 2048 threads: as many as an SM of sm_80 or sm_90 holds */

#define CUDA_CALLS(X)                                                                              \
	X(cuInit, (unsigned flags))                                                                \
	X(cuDriverGetVersion, (int *ret))                                                          \
	X(cuGetErrorName, (int result, const char **ret))                                          \
	X(cuDeviceGet, (int *ret, int ordinal))                                                    \
	X(cuDeviceGetName, (char *buf, int size, int device))                                      \
	X(cuDeviceGetAttribute, (int *ret, int attribute, int device))                             \
	X(cuDevicePrimaryCtxRetain, (void **ret, int device))                                      \
	X(cuCtxCreate_v2, (void **ret, unsigned flags, int device))                                \
	X(cuCtxSetCurrent, (void *context))                                                        \
	X(cuModuleLoadData, (void **ret, const void *image))                                       \
	X(cuModuleGetFunction, (void **ret, void *module, const char *name))                       \
	X(cuMemAlloc_v2, (uint64_t * ret, size_t size))                                            \
	X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t size))                           \
	X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t size))                                 \
	X(cuMemAllocHost_v2, (void **ret, size_t size))                                            \
	X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t size, void *stream))        \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t size, void *stream))              \
	X(cuStreamCreate, (void **ret, unsigned flags))                                            \
	X(cuStreamSynchronize, (void *stream))                                                     \
	X(cuStreamBeginCapture_v2, (void *stream, int mode))                                       \
	X(cuStreamEndCapture, (void *stream, void **ret_graph))                                    \
	X(cuGraphInstantiateWithFlags, (void **ret, void *graph, unsigned long long flags))        \
	X(cuGraphLaunch, (void *exec, void *stream))                                               \
	X(cuEventCreate, (void **ret, unsigned flags))                                             \
	X(cuEventRecord, (void *event, void *stream))                                              \
	X(cuEventSynchronize, (void *event))                                                       \
	X(cuLaunchKernel,                                                                          \
		(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                \
			unsigned block_x, unsigned block_y, unsigned block_z,                      \
			unsigned shared_bytes, void *stream, void **params, void **extra))

struct cuda {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration, where none can stand */
#define CUDA_MEMBER(name, args) int(*name) args;
	CUDA_CALLS(CUDA_MEMBER)
#undef CUDA_MEMBER
	void *context, *stream;
	void *nothing, *spin; /* kernels */
	int driver_version, sm_count;
	char name[96];
};

/*
 * A grid of threads, each with a 32-bit state in device memory that the spin kernel advances by a
 * given number of steps of a linear congruential generator. The states after all launches are known
 * in closed form: a block lost, run twice or resumed with a wrong register shows.
 */
struct cuda_spin {
	struct cuda *cuda; /* borrowed */
	unsigned n_blocks;
	uint32_t steps; /* of one launch */
	uint64_t states;
	uint64_t total_steps; /* launched so far */
};

/* Ends the program when rc is not 0; use through CUDA_DO. */
void cuda_check(const struct cuda *cuda, int rc, const char *call);
#define CUDA_DO(cuda, call, ...) cuda_check(cuda, (cuda)->call(__VA_ARGS__), #call)

/* Where something stands between programs and the driver's library: the same with the calls of that
 * library itself, to compare. False where nothing does. */
bool cuda_drivers_own(const struct cuda *cuda, struct cuda *ret);

/* Loads libcuda, takes the first device's primary context and makes the stream and kernels. */
void cuda_open(struct cuda *cuda);
/* Another context of the same device, current afterwards. */
void cuda_open_context(const struct cuda *first, struct cuda *ret);

/* `n_blocks` of CUDA_SPIN_BLOCK_THREADS threads. */
void cuda_spin_init(struct cuda_spin *spin, struct cuda *cuda, unsigned n_blocks);
void cuda_spin_launch(struct cuda_spin *spin);

/* Chooses `steps` so that n_kernels launches and a synchronisation take about target_us. Takes some
 * 0.4 s. */
void cuda_spin_calibrate(struct cuda_spin *spin, unsigned n_kernels, double target_us);

/* Waits for the stream; returns how many threads have another state than all launches should have
 * left. */
size_t cuda_spin_count_wrong(struct cuda_spin *spin);

/* "--name N" from the command line, within [1, max]; `otherwise` when absent. Wrong usage ends the
 * program. */
uint64_t bench_option(int argc, char **argv, const char *name, uint64_t max, uint64_t otherwise);
/* Every argument must be one of `names` (NULL-terminated) with a value. */
void bench_options_check(int argc, char **argv, const char *const *names);

/* Prints what a driver script waits for before it talks to the program. */
void bench_ready(const struct cuda *cuda, const char *program, double unit_us);

#endif
