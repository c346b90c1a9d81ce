/* SPDX-License-Identifier: Apache-2.0 */
/* What kills a context: stray and misaligned addresses, traps, failed assertions. And printf. */
#include "cuda.h"

extern "C" __device__ int vprintf(const char *format, void *arguments);
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char *what, const char *file, u32 line,
	const char *function, u64 char_size);

KERNEL fault_store(u32 *out, u64 offset)
{
	out[global_x()] = 1;
	*(u32 *)((char *)out + offset + (threadIdx.x == 5 ? 0 : (u64)-offset)) = 7;
}

KERNEL fault_load(const u32 *in, u32 *out, u64 offset)
{
	out[global_x()] = *(const u32 *)((const char *)in + offset);
}

KERNEL fault_shared(u32 *out, u32 at)
{
	__shared__ u32 part[32];

	part[threadIdx.x + at] = 3;
	__syncthreads();
	out[threadIdx.x] = part[31 - threadIdx.x];
}

KERNEL fault_trap(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (in[i] == n) {
		asm volatile("trap;");
	}
	out[i] = in[i];
}

KERNEL fault_assert(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (in[i] == n) {
		__assertfail("in[i] != n", "faults.cu", 46, "fault_assert", 1);
	}
	out[i] = in[i];
}

KERNEL print_lines(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();
	struct {
		u32 index, value;
		double half;
		const char *word;
	} arguments = {i, in[i], in[i] * 0.5, in[i] & 1 ? "odd" : "even"};

	out[i] = (u32)vprintf("%u: %x %.1f %s\n", &arguments);
}
