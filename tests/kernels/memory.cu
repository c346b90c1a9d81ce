/* SPDX-License-Identifier: Apache-2.0 */
/* The other kinds of memory: local, constant, initialised global, dynamic shared; vector accesses. */
#include "cuda.h"

/* An array a thread, indexed by data: it cannot live in registers. */
KERNEL local_sort(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), order[8];

	if (i >= n) {
		return;
	}
	for (u32 k = 0; k < 8; k++) {
		order[k] = in[8 * i + k];
	}
	for (u32 k = 1; k < 8; k++) {
		u32 value = order[k], at = k;

		for (; at > 0 && order[at - 1] > value; at--) {
			order[at] = order[at - 1];
		}
		order[at] = value;
	}
	for (u32 k = 0; k < 8; k++) {
		out[8 * i + k] = order[in[8 * i + k] % 8];
	}
}

__constant__ u32 primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
__device__ u32 table[4] = {0x11111111, 0x22222222, 0x33333333, 0x44444444};
__device__ u32 tally[4];

KERNEL const_lookup(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i < n) {
		out[i] = primes[in[i] % 16] * primes[3] + table[in[i] % 4];
	}
}

/* A global variable of the module that keeps what a launch leaves: every thread adds to one of four. */
KERNEL global_tally(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i < n) {
		__nvvm_atom_add_gen_i((int *)&tally[i % 4], (int)in[i]);
	}
	__syncthreads();
	if (i < 4) {
		out[i] = tally[i];
	}
}

extern __shared__ u32 dynamic[];

/* A block's elements, backwards; shared memory of the size that the launch asks for. */
KERNEL dynamic_reverse(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), t = threadIdx.x;

	dynamic[t] = i < n ? in[i] : 0;
	__syncthreads();
	if (i < n) {
		out[i] = dynamic[blockDim.x - 1 - t];
	}
}

typedef u32 u32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));
typedef u8 u8x4 __attribute__((vector_size(4)));
typedef u64 u64x2 __attribute__((vector_size(16)));

KERNEL vector_moves(const u32x4 *in, u32x4 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32x4 a = in[i];
	f32x2 b = ((const f32x2 *)in)[2 * i];
	u8x4 c = ((const u8x4 *)in)[4 * i + 1];
	u64x2 d = ((const u64x2 *)in)[i];

	out[4 * i] = u32x4{a[3], a[2], a[1], a[0]};
	((f32x2 *)out)[8 * i + 2] = f32x2{b[1], b[0]};
	((f32x2 *)out)[8 * i + 3] = f32x2{b[0], b[0]};
	((u8x4 *)out)[16 * i + 8] = u8x4{c[3], c[1], c[2], c[0]};
	((u64x2 *)out)[4 * i + 3] = u64x2{d[1] + 1, d[0]};
}

/* Every width, signed and not. */
KERNEL narrow_moves(const s8 *in, s64 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	out[0 * n + i] = in[i];
	out[1 * n + i] = ((const u8 *)in)[i];
	out[2 * n + i] = ((const s16 *)in)[i / 2];
	out[3 * n + i] = ((const u16 *)in)[i / 2];
	out[4 * n + i] = ((const s32 *)in)[i / 4];
	((s8 *)(out + 5 * n))[i] = (s8)(in[i] + 1);
	((s16 *)(out + 6 * n))[i] = (s16)(in[i] * 3);
}
