/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of CUDA C that these kernels use, on clang's own builtins: no toolkit is needed to
 * compile them. What clang already knows (__syncthreads, __nvvm_*) is not repeated here.
 */
#ifndef RBT_TESTS_KERNELS_CUDA_H
#define RBT_TESTS_KERNELS_CUDA_H

#define __global__   __attribute__((global))
#define __device__   __attribute__((device))
#define __shared__   __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __noinline__ __attribute__((noinline))
#define KERNEL       extern "C" __global__ void

#define WARP_ALL 0xffffffffu

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

struct index3 {
	u32 x, y, z;
};

static __device__ inline index3 index_thread()
{
	return {(u32)__nvvm_read_ptx_sreg_tid_x(), (u32)__nvvm_read_ptx_sreg_tid_y(),
		(u32)__nvvm_read_ptx_sreg_tid_z()};
}

static __device__ inline index3 size_block()
{
	return {(u32)__nvvm_read_ptx_sreg_ntid_x(), (u32)__nvvm_read_ptx_sreg_ntid_y(),
		(u32)__nvvm_read_ptx_sreg_ntid_z()};
}

static __device__ inline index3 index_block()
{
	return {(u32)__nvvm_read_ptx_sreg_ctaid_x(), (u32)__nvvm_read_ptx_sreg_ctaid_y(),
		(u32)__nvvm_read_ptx_sreg_ctaid_z()};
}

static __device__ inline index3 size_grid()
{
	return {(u32)__nvvm_read_ptx_sreg_nctaid_x(), (u32)__nvvm_read_ptx_sreg_nctaid_y(),
		(u32)__nvvm_read_ptx_sreg_nctaid_z()};
}

#define threadIdx (index_thread())
#define blockDim  (size_block())
#define blockIdx  (index_block())
#define gridDim   (size_grid())

/* The index of this thread in the grid, for grids and blocks of one dimension. */
static __device__ inline u32 global_x()
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

/* One PTX instruction by name, for what clang would not choose from C: result, operands. */
#define PTX1(text, rc, r, c1, a)        asm(text " %0, %1;" : "=" rc(r) : c1(a))
#define PTX2(text, rc, r, c1, a, c2, b) asm(text " %0, %1, %2;" : "=" rc(r) : c1(a), c2(b))
#define PTX3(text, rc, r, c1, a, c2, b, c3, c)                                                     \
	asm(text " %0, %1, %2, %3;" : "=" rc(r) : c1(a), c2(b), c3(c))

#endif
