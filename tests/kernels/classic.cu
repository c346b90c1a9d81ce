/* SPDX-License-Identifier: Apache-2.0 */
/* The seven kernels that everybody writes first. */
#include "cuda.h"

KERNEL vector_add(const float *a, const float *b, float *out, u32 n)
{
	u32 i = global_x();

	if (i < n) {
		out[i] = a[i] + b[i];
	}
}

KERNEL saxpy(const float *x, float *y, u32 n, float a)
{
	for (u32 i = global_x(); i < n; i += gridDim.x * blockDim.x) {
		y[i] = a * x[i] + y[i];
	}
}

/* One sum a block, by halves in shared memory; blocks of 128. */
KERNEL reduce_shared(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 part[128];
	u32 i = global_x(), t = threadIdx.x;

	part[t] = i < n ? in[i] : 0;
	__syncthreads();
	for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
		if (t < half) {
			part[t] += part[t + half];
		}
		__syncthreads();
	}
	if (t == 0) {
		out[blockIdx.x] = part[0];
	}
}

/* c = a * b for square matrices whose side is a multiple of 16; blocks of 16 x 16. */
KERNEL matmul_tiled(const float *a, const float *b, float *c, u32 side)
{
	__shared__ float tile_a[16][16], tile_b[16][16];
	u32 tx = threadIdx.x, ty = threadIdx.y;
	u32 row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
	float sum = 0;

	for (u32 step = 0; step < side; step += 16) {
		tile_a[ty][tx] = a[row * side + step + tx];
		tile_b[ty][tx] = b[(step + ty) * side + column];
		__syncthreads();
		for (u32 k = 0; k < 16; k++) {
			sum += tile_a[ty][k] * tile_b[k][tx];
		}
		__syncthreads();
	}
	c[row * side + column] = sum;
}

/* 64 bins, first in shared memory, then added to those of all blocks. */
KERNEL histogram(const u8 *in, u32 *bins, u32 n)
{
	__shared__ u32 local[64];

	for (u32 i = threadIdx.x; i < 64; i += blockDim.x) {
		local[i] = 0;
	}
	__syncthreads();
	for (u32 i = global_x(); i < n; i += gridDim.x * blockDim.x) {
		__nvvm_atom_add_gen_i((int *)&local[in[i] & 63], 1);
	}
	__syncthreads();
	for (u32 i = threadIdx.x; i < 64; i += blockDim.x) {
		__nvvm_atom_add_gen_i((int *)&bins[i], (int)local[i]);
	}
}

/* One sum a warp with shuffles, then one a block; blocks of at most 1024. */
KERNEL reduce_shuffle(const u32 *in, u32 *out, u32 n)
{
	__shared__ u32 part[32];
	u32 i = global_x(), t = threadIdx.x;
	u32 sum = i < n ? in[i] : 0;

	for (int delta = 16; delta > 0; delta /= 2) {
		sum += (u32)__nvvm_shfl_sync_down_i32(WARP_ALL, (int)sum, delta, 31);
	}
	if (t % 32 == 0) {
		part[t / 32] = sum;
	}
	__syncthreads();
	if (t < 32) {
		sum = t < blockDim.x / 32 ? part[t] : 0;
		for (int delta = 16; delta > 0; delta /= 2) {
			sum += (u32)__nvvm_shfl_sync_bfly_i32(WARP_ALL, (int)sum, delta, 31);
		}
		if (t == 0) {
			out[blockIdx.x] = sum;
		}
	}
}

/* Turns until `cycles` have gone by; tells how that went, not how long it took. */
KERNEL clock_spin(u32 *out, u64 cycles)
{
	u64 start = (u64)__nvvm_read_ptx_sreg_clock64(), now = start;
	u32 turns = 0;

	while (now - start < cycles) {
		now = (u64)__nvvm_read_ptx_sreg_clock64();
		turns++;
	}
	out[global_x()] = now - start >= cycles && turns > 0;
}
