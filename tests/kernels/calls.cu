/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: calls, structures by value, recursion. */
#include "cuda.h"

struct pair {
	u32 low, high;
};

static __device__ __noinline__ u32 mix(u32 a, u32 b)
{
	for (u32 k = 0; k < (b & 3); k++) {
		a = a * 1664525 + 1013904223 + b;
	}
	return a;
}

static __device__ __noinline__ pair order(u32 a, u32 b)
{
	return a < b ? pair{a, b} : pair{b, a};
}

static __device__ __noinline__ u32 span(pair p, u64 weight)
{
	return (u32)((p.high - p.low) * weight);
}

KERNEL call_functions(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	pair p = order(in[i], in[n + i]);
	u32 r = mix(p.low, p.high);

	/* A call that only some lanes make. */
	if (in[i] % 3 == 0) {
		r ^= mix(r, in[n + i] + 1);
	}
	out[i] = r + span(p, in[n + i] % 17);
}

static __device__ __noinline__ u32 fibonacci(u32 n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

KERNEL recurse(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i < n) {
		out[i] = fibonacci(in[i] % 8);
	}
}

static __device__ __noinline__ u32 endless(volatile u32 *sink, u32 n)
{
	*sink = n;
	return n == ~0u ? 0 : endless(sink, n + 1) + *sink;
}

/* Never comes back: the stack ends first. */
KERNEL recurse_endless(u32 *out)
{
	out[global_x()] = endless(out, 0);
}
