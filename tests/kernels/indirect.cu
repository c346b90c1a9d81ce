/* SPDX-License-Identifier: Apache-2.0 */
/* Calls through pointers: tables of functions, lanes that call different ones, virtual functions. */
#include "cuda.h"

typedef u32 (*binary_fn)(u32 a, u32 b);

static __device__ __noinline__ u32 plus(u32 a, u32 b)
{
	return a + b;
}

static __device__ __noinline__ u32 times(u32 a, u32 b)
{
	return a * b;
}

/* Lanes that call this part inside it, too. */
static __device__ __noinline__ u32 gcd(u32 a, u32 b)
{
	while (b != 0) {
		u32 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static __device__ __noinline__ u32 mixed(u32 a, u32 b)
{
	return a & 1 ? a ^ b : gcd(a, b | 1) + 7;
}

__device__ binary_fn table[4] = {plus, times, gcd, mixed};

KERNEL indirect_table(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a = in[i] % 1000, b = in[n + i] % 1000;

	/* A different one in each lane, then the same one in all, then in some. */
	out[0 * n + i] = table[in[i] % 4](a, b);
	out[1 * n + i] = table[n % 4](a, b + 1);
	out[2 * n + i] = i % 3 == 0 ? table[i / 3 % 4](b, a) : 5;
}

/* Handed down, and called again from within. */
static __device__ __noinline__ u64 fold(binary_fn fn, const u32 *in, u32 count, u64 start)
{
	return count == 0 ? start : fold(fn, in + 1, count - 1, start * 3 + fn((u32)start & 0xff, in[0] % 100));
}

KERNEL indirect_fold(const u32 *in, u64 *out, u32 n)
{
	u32 i = global_x();

	if (i < n) {
		out[i] = fold(table[i % 4], in + i, 1 + i % 5, i);
	}
}

struct shape {
	__device__ virtual u32 area(u32 scale) const = 0;
	__device__ virtual u32 corners() const
	{
		return 0;
	}
};

struct square : shape {
	u32 side;
	__device__ square(u32 s) : side(s)
	{
	}
	__device__ u32 area(u32 scale) const override
	{
		return side * side * scale;
	}
	__device__ u32 corners() const override
	{
		return 4;
	}
};

struct disc : shape {
	u32 radius;
	__device__ disc(u32 r) : radius(r)
	{
	}
	__device__ u32 area(u32 scale) const override
	{
		u32 sum = 0;

		for (u32 k = 0; k < scale % 5; k++) {
			sum += 3 * radius * radius + k;
		}
		return sum;
	}
};

static __device__ __noinline__ u32 measure(const shape *s, u32 scale)
{
	return s->area(scale) * 8 + s->corners();
}

KERNEL indirect_virtual(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	square q(in[i] % 50);
	disc d(in[i] % 30);

	out[i] = measure(in[n + i] & 1 ? (const shape *)&q : (const shape *)&d, in[i] % 9);
}
