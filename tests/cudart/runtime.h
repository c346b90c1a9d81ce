/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `<<<>>>` programs need, declared from public documentation: clang compiles them with it, and
 * with no file of a CUDA toolkit.
 */
#ifndef RBT_TESTS_CUDART_RUNTIME_H
#define RBT_TESTS_CUDART_RUNTIME_H

#include "../kernels/cuda.h"

#define __host__ __attribute__((host))

typedef __SIZE_TYPE__ size_t;
struct dim3 {
	unsigned x, y, z;
	__host__ __device__ dim3(unsigned a, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};
typedef int cudaError_t;
typedef struct stream *cudaStream_t;

extern "C" {
cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = 0);
#ifdef OLD_CALLS
cudaError_t cudaSetupArgument(const void *, size_t, size_t);
cudaError_t cudaLaunch(const void *);
cudaError_t cudaThreadSynchronize(void);
#else
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, cudaStream_t = 0);
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaDeviceSynchronize(void);
#endif
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, int);
cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
cudaError_t cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
cudaError_t cudaGetLastError(void);
cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaSetDevice(int);
int printf(const char *, ...);
int fork(void);
int waitpid(int, int *, int);
void _exit(int);
int pthread_create(unsigned long *, const void *, void *(*)(void *), void *);
int pthread_join(unsigned long, void **);
}

#endif
