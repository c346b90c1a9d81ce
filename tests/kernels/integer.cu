/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic: one output an operation, `n` of each, one after the other. */
#include "cuda.h"

template <typename T> static __device__ inline void arithmetic(const T *in, T *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	T a = in[i], b = in[n + i], c = in[2 * n + i];

	out[0 * n + i] = a + b;
	out[1 * n + i] = a - b;
	out[2 * n + i] = a * b;
	out[3 * n + i] = a * b + c;
	out[4 * n + i] = b != 0 ? a / b : c;
	out[5 * n + i] = b != 0 ? a % b : c;
	out[6 * n + i] = a < b ? a : b;
	out[7 * n + i] = a > b ? a : b;
	out[8 * n + i] = a >> (b & 7);
	out[9 * n + i] = a << (b & 7);
	out[10 * n + i] = -a;
}

KERNEL int_u32(const u32 *in, u32 *out, u32 n)
{
	arithmetic(in, out, n);
}

KERNEL int_s32(const s32 *in, s32 *out, u32 n)
{
	arithmetic(in, out, n);
}

KERNEL int_u64(const u64 *in, u64 *out, u32 n)
{
	arithmetic(in, out, n);
}

KERNEL int_s64(const s64 *in, s64 *out, u32 n)
{
	arithmetic(in, out, n);
}

KERNEL int_u16(const u16 *in, u16 *out, u32 n)
{
	arithmetic(in, out, n);
}

KERNEL int_s16(const s16 *in, s16 *out, u32 n)
{
	arithmetic(in, out, n);
}

/* High halves, wide products, and the forms that clang does not choose by itself. */
KERNEL int_wide(const u32 *in, u64 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a = in[i], b = in[n + i], high, sad;
	s32 shigh, sabs, sneg;
	u64 wide, wide64, high64;
	s64 swide, mad;

	PTX2("mul.hi.u32", "r", high, "r", a, "r", b);
	PTX2("mul.hi.s32", "r", shigh, "r", a, "r", b);
	PTX2("mul.wide.u32", "l", wide, "r", a, "r", b);
	PTX2("mul.wide.s32", "l", swide, "r", a, "r", b);
	PTX3("mad.wide.s32", "l", mad, "r", a, "r", b, "l", (s64)-5);
	PTX2("mul.hi.u64", "l", high64, "l", wide * 3, "l", wide + 7);
	PTX2("mul.lo.u64", "l", wide64, "l", wide, "l", wide + 7);
	PTX1("abs.s32", "r", sabs, "r", a);
	PTX1("neg.s32", "r", sneg, "r", a);
	PTX3("sad.u32", "r", sad, "r", a, "r", b, "r", 9u);
	out[0 * n + i] = high;
	out[1 * n + i] = (u64)(s64)shigh;
	out[2 * n + i] = wide;
	out[3 * n + i] = (u64)swide;
	out[4 * n + i] = (u64)mad;
	out[5 * n + i] = high64;
	out[6 * n + i] = wide64;
	out[7 * n + i] = (u64)(s64)sabs;
	out[8 * n + i] = (u64)(s64)sneg;
	out[9 * n + i] = sad;
}
