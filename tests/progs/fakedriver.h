/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_TESTS_PROGS_FAKEDRIVER_H
#define RBT_TESTS_PROGS_FAKEDRIVER_H

#include <stdint.h>

struct fake_call {
	const char *name;
	int n_args;
	uintptr_t args[11];
	double number; /* of the function that takes one */
};

/* The last call, and how many there were. */
const struct fake_call *fake_last(uint64_t *ret_n_calls);
typedef const struct fake_call *fake_last_fn(uint64_t *ret_n_calls);

/* What functions answer from now on, and how long synchronisations take. */
void fake_set(int result, unsigned wait_us);
typedef void fake_set_fn(int result, unsigned wait_us);

int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status);

/* Functions of the driver and how many arguments they have: DO(name, n). Not all that there are, so
 * that some are missing as in an older driver. */
#define FAKE_FUNCTIONS(DO)                                                                         \
	DO(cuLaunchKernel, 11)                                                                     \
	DO(cuLaunchKernel_ptsz, 11)                                                                \
	DO(cuLaunchKernelEx, 4)                                                                    \
	DO(cuLaunchKernelEx_ptsz, 4)                                                               \
	DO(cuLaunchCooperativeKernel, 10)                                                          \
	DO(cuLaunchCooperativeKernel_ptsz, 10)                                                     \
	DO(cuLaunchCooperativeKernelMultiDevice, 3)                                                \
	DO(cuGraphLaunch, 2)                                                                       \
	DO(cuGraphLaunch_ptsz, 2)                                                                  \
	DO(cuMemcpyAsync, 4)                                                                       \
	DO(cuMemcpyAsync_ptsz, 4)                                                                  \
	DO(cuMemcpyPeerAsync, 6)                                                                   \
	DO(cuMemcpyHtoDAsync, 4)                                                                   \
	DO(cuMemcpyHtoDAsync_v2, 4)                                                                \
	DO(cuMemcpyHtoDAsync_v2_ptsz, 4)                                                           \
	DO(cuMemcpyDtoHAsync_v2, 4)                                                                \
	DO(cuMemcpyDtoHAsync_v2_ptsz, 4)                                                           \
	DO(cuMemcpyDtoDAsync_v2, 4)                                                                \
	DO(cuMemcpy2DAsync_v2, 2)                                                                  \
	DO(cuMemcpy3DAsync_v2, 2)                                                                  \
	DO(cuMemcpyBatchAsync, 9)                                                                  \
	DO(cuMemcpyBatchAsync_v2, 8)                                                               \
	DO(cuMemcpyBatchAsync_v2_ptsz, 8)                                                          \
	DO(cuMemcpyHtoD_v2, 3)                                                                     \
	DO(cuMemcpyDtoH_v2, 3)                                                                     \
	DO(cuMemcpyDtoH_v2_ptds, 3)                                                                \
	DO(cuMemcpyPeer, 5)                                                                        \
	DO(cuMemsetD8Async, 4)                                                                     \
	DO(cuMemsetD8Async_ptsz, 4)                                                                \
	DO(cuMemsetD32Async, 4)                                                                    \
	DO(cuMemsetD2D32Async, 6)                                                                  \
	DO(cuMemsetD8_v2, 3)                                                                       \
	DO(cuStreamSynchronize, 1)                                                                 \
	DO(cuStreamSynchronize_ptsz, 1)                                                            \
	DO(cuEventSynchronize, 1)                                                                  \
	DO(cuCtxSynchronize, 0)                                                                    \
	DO(cuCtxSynchronize_v2, 1)                                                                 \
	DO(cuStreamQuery, 1)                                                                       \
	DO(cuLaunchHostFunc, 3)                                                                    \
	DO(cuMemAllocAsync, 3)                                                                     \
	DO(cuMemAlloc_v2, 2)                                                                       \
	DO(cuStreamCreate, 2)                                                                      \
	DO(cuEventRecord, 2)                                                                       \
	DO(cuEventRecord_ptsz, 2)                                                                  \
	DO(cuDeviceGetCount, 1)

/* What cuGetProcAddress knows: DO(name, since version, symbol). */
#define FAKE_ENTRIES(DO)                                                                           \
	DO(cuLaunchKernel, 4000, cuLaunchKernel)                                                   \
	DO(cuLaunchKernel, 7000, cuLaunchKernel_ptsz)                                              \
	DO(cuGraphLaunch, 10000, cuGraphLaunch)                                                    \
	DO(cuGraphLaunch, 10000, cuGraphLaunch_ptsz)                                               \
	DO(cuMemcpyHtoDAsync, 2000, cuMemcpyHtoDAsync)                                             \
	DO(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2)                                          \
	DO(cuMemcpyHtoDAsync, 7000, cuMemcpyHtoDAsync_v2_ptsz)                                     \
	DO(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync)                                          \
	DO(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2)                                       \
	DO(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2_ptsz)                                  \
	DO(cuMemsetD8Async, 3020, cuMemsetD8Async)                                                 \
	DO(cuMemsetD8Async, 7000, cuMemsetD8Async_ptsz)                                            \
	DO(cuStreamSynchronize, 2000, cuStreamSynchronize)                                         \
	DO(cuStreamSynchronize, 7000, cuStreamSynchronize_ptsz)                                    \
	DO(cuCtxSynchronize, 2000, cuCtxSynchronize)                                               \
	DO(cuCtxSynchronize, 13000, cuCtxSynchronize_v2)                                           \
	DO(cuStreamQuery, 2000, cuStreamQuery)                                                     \
	DO(cuMemAllocAsync, 11020, cuMemAllocAsync)                                                \
	DO(cuEventRecord, 2000, cuEventRecord)                                                     \
	DO(cuEventRecord, 7000, cuEventRecord_ptsz)

#endif
