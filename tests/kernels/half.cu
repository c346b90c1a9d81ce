/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16, one and two at a time. `regenerate` has clang compute __fp16 as f16, not as f32 as C would:
 * so this is the code that it makes of halves, beside the forms that need to be named.
 */
#include "cuda.h"

typedef __fp16 half;
typedef __fp16 half2 __attribute__((ext_vector_type(2)));

/* From registers of 16 bits, as cuda_fp16.h has it. */
#define HALF2(text, at)                                                                            \
	do {                                                                                       \
		u16 r_;                                                                            \
		PTX2(text, "h", r_, "h", a, "h", b);                                               \
		out[(at)*n + i] = r_;                                                              \
	} while (0)
#define HALF3(text, at)                                                                            \
	do {                                                                                       \
		u16 r_;                                                                            \
		PTX3(text, "h", r_, "h", a, "h", b, "h", c);                                       \
		out[(at)*n + i] = r_;                                                              \
	} while (0)

static __device__ __noinline__ half middle(half a, half2 b)
{
	half sum = a + b.x;

	return sum * (half)0.5f - b.y;
}

KERNEL half_native(const half *in, half *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	half a = in[i], b = in[n + i], c = in[2 * n + i];

	out[0 * n + i] = a + b;
	out[1 * n + i] = a - b;
	out[2 * n + i] = a * b;
	out[3 * n + i] = a * b + c;
	out[4 * n + i] = a / b;
	out[5 * n + i] = -a;
	out[6 * n + i] = a < b ? a : c;
	out[7 * n + i] = (half)((float)a * (float)b + 0.5f);
	out[8 * n + i] = (half)((double)a * 0.1);
	out[9 * n + i] = a == b || c > a ? (half)1.5f : b;
	out[10 * n + i] = a * (half)0.3f - (half)2;
	out[11 * n + i] = middle(a, half2{b, c});
}

KERNEL half_flags(const u16 *in, u16 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u16 a = in[i], b = in[n + i], c = in[2 * n + i], r;

	HALF2("add.f16", 0);
	HALF2("add.rn.sat.f16", 1);
	HALF2("sub.ftz.f16", 2);
	HALF2("mul.ftz.sat.f16", 3);
	HALF3("fma.rn.f16", 4);
	HALF3("fma.rn.sat.f16", 5);
	HALF3("fma.rn.ftz.f16", 6);
	PTX1("neg.f16", "h", r, "h", a);
	out[7 * n + i] = r;
	PTX1("abs.f16", "h", r, "h", a);
	out[8 * n + i] = r;
	PTX1("abs.ftz.f16", "h", r, "h", b);
	out[9 * n + i] = r;
}

KERNEL half_pairs(const half2 *in, half2 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	half2 a = in[i], b = in[n + i], c = in[2 * n + i];
	u32 words[3] = {((const u32 *)in)[i], ((const u32 *)in)[n + i], ((const u32 *)in)[2 * n + i]}, r;

	out[0 * n + i] = a + b;
	out[1 * n + i] = a - b;
	out[2 * n + i] = a * b + c;
	out[3 * n + i] = half2{a.y, b.x};
	PTX2("mul.sat.f16x2", "r", r, "r", words[0], "r", words[1]);
	((u32 *)out)[4 * n + i] = r;
	PTX3("fma.rn.ftz.f16x2", "r", r, "r", words[0], "r", words[1], "r", words[2]);
	((u32 *)out)[5 * n + i] = r;
	PTX1("neg.f16x2", "r", r, "r", words[0]);
	((u32 *)out)[6 * n + i] = r;
	PTX1("abs.f16x2", "r", r, "r", words[0]);
	((u32 *)out)[7 * n + i] = r;
	asm("{.reg .f16 low, high;\n\tmov.b32 {low, high}, %1;\n\tadd.f16 low, low, high;\n\tmov.b32 %0, {high, low};}"
	    : "=r"(r)
	    : "r"(words[0]));
	((u32 *)out)[8 * n + i] = r;
}

/* f16 to integers and wider floats. */
KERNEL half_to(const u16 *in, s64 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u16 a = in[i], h;
	s32 r;
	u32 u;
	s64 wide;
	float f;
	double d;

	PTX1("cvt.rni.s32.f16", "r", r, "h", a);
	out[0 * n + i] = r;
	PTX1("cvt.rzi.s16.f16", "h", h, "h", a);
	out[1 * n + i] = (s16)h;
	PTX1("cvt.rmi.s32.f16", "r", r, "h", a);
	out[2 * n + i] = r;
	PTX1("cvt.rpi.u32.f16", "r", u, "h", a);
	out[3 * n + i] = u;
	PTX1("cvt.rzi.u8.f16", "r", u, "h", a);
	out[4 * n + i] = u;
	PTX1("cvt.rzi.s64.f16", "l", wide, "h", a);
	out[5 * n + i] = wide;
	PTX1("cvt.f32.f16", "f", f, "h", a);
	out[6 * n + i] = f == f ? (s64)__builtin_bit_cast(u32, f) : 0x7fffffff;
	PTX1("cvt.f64.f16", "d", d, "h", a);
	out[7 * n + i] = __builtin_bit_cast(s64, d);
	PTX1("cvt.rni.f16.f16", "h", h, "h", a);
	out[8 * n + i] = h;
	PTX1("cvt.rzi.f16.f16", "h", h, "h", a);
	out[9 * n + i] = h;
	PTX1("cvt.rmi.f16.f16", "h", h, "h", a);
	out[10 * n + i] = h;
	PTX1("cvt.rpi.f16.f16", "h", h, "h", a);
	out[11 * n + i] = h;
	PTX1("cvt.sat.f32.f16", "f", f, "h", a);
	out[12 * n + i] = (s64)__builtin_bit_cast(u32, f);
}

KERNEL half_from_float(const float *in, u16 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i];
	double d = (double)a * 1.0000001;
	u16 h;

#define FROM(text, c, value, at)                                                                   \
	PTX1(text, "h", h, c, value);                                                              \
	out[(at)*n + i] = h
	FROM("cvt.rn.f16.f32", "f", a, 0);
	FROM("cvt.rz.f16.f32", "f", a, 1);
	FROM("cvt.rm.f16.f32", "f", a, 2);
	FROM("cvt.rp.f16.f32", "f", a, 3);
	FROM("cvt.rn.sat.f16.f32", "f", a, 4);
	FROM("cvt.rn.f16.f64", "d", d, 5);
	FROM("cvt.rp.f16.f64", "d", d, 6);
	/* Subnormals of f16, and what lies beside and between them. */
	FROM("cvt.rn.f16.f32", "f", a * 0x1p-24f, 7);
	FROM("cvt.rm.f16.f32", "f", a * 0x1p-24f, 8);
}

KERNEL half_from_int(const s64 *in, u16 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	s64 a = in[i];
	u16 h;

	FROM("cvt.rn.f16.s32", "r", (s32)a, 0);
	FROM("cvt.rz.f16.u32", "r", (u32)a, 1);
	FROM("cvt.rn.f16.s64", "l", a, 2);
	FROM("cvt.rm.f16.u64", "l", a, 3);
	FROM("cvt.rn.f16.s16", "h", (s16)a, 4);
	FROM("cvt.rp.f16.u16", "h", (u16)a, 5);
	FROM("cvt.rn.f16.s32", "r", (s32)a % 5000, 6);
}

KERNEL half_compare(const u16 *in, u32 *out, u32 n)
{
	u32 i = global_x(), bits = 0, low, high, r;

	if (i >= n) {
		return;
	}
	u16 a = in[i], b = in[i % 3 == 0 ? i : n + i], h;
	u32 pair = (u32)in[n - 1 - i] << 16 | a, other = (u32)in[n + i] << 16 | b;

#define COMPARE(op, at)                                                                            \
	do {                                                                                       \
		asm("{.reg .pred p;\n\tsetp." op ".f16 p, %1, %2;\n\tselp.u32 %0, 1, 0, p;}"       \
		    : "=r"(r)                                                                      \
		    : "h"(a), "h"(b));                                                             \
		bits |= r << (at);                                                                 \
	} while (0)
	COMPARE("eq", 0);
	COMPARE("ne", 1);
	COMPARE("lt", 2);
	COMPARE("le", 3);
	COMPARE("gt", 4);
	COMPARE("ge", 5);
	COMPARE("equ", 6);
	COMPARE("neu", 7);
	COMPARE("ltu", 8);
	COMPARE("leu", 9);
	COMPARE("gtu", 10);
	COMPARE("geu", 11);
	COMPARE("num", 12);
	COMPARE("nan", 13);
	COMPARE("eq.ftz", 14);
	asm("{.reg .pred p, q, r;\n\tsetp.ne.u32 r, %4, 0;\n\tsetp.lt.and.f16x2 p|q, %2, %3, r;\n\t"
	    "selp.u32 %0, 1, 0, p;\n\tselp.u32 %1, 1, 0, q;}"
	    : "=&r"(low), "=&r"(high)
	    : "r"(pair), "r"(other), "r"(i & 1));
	out[0 * n + i] = bits | low << 30 | high << 31;
	PTX2("set.gt.f16.f16", "h", h, "h", a, "h", b);
	/* Not a plain conversion: ptxas (13.0) takes the result's upper half for zero, and stores both. */
	asm("mov.b32 %0, {%1, %2};" : "=r"(r) : "h"(h), "h"((u16)0));
	out[1 * n + i] = r;
	PTX2("set.leu.f16x2.f16x2", "r", r, "r", pair, "r", other);
	out[2 * n + i] = r;
	PTX2("set.gt.u32.f16", "r", r, "h", a, "h", b);
	out[3 * n + i] = r;
	PTX2("set.lt.u32.f16x2", "r", r, "r", pair, "r", other);
	out[4 * n + i] = r;
	r = 7;
	asm("{.reg .pred p;\n\tsetp.lt.u32 p, %3, 100;\n\t@!p set.ge.f16x2.f16x2 %0, %1, %2;}"
	    : "+r"(r)
	    : "r"(pair), "r"(other), "r"(i));
	out[5 * n + i] = r;
}

/* Sums that are exact in any order; one word for all threads, and halves of words. */
KERNEL half_atomic(const u16 *in, u16 *sums, u32 *pairs, u32 n)
{
	u32 i = global_x(), old;
	u16 h = 0x3c00, was;

	if (i >= n) {
		return;
	}
	asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(sums + 1), "h"(h) : "memory");
	asm volatile("atom.global.add.noftz.f16 %0, [%1], %2;"
		     : "=h"(was)
		     : "l"(sums + 2 + i % 4), "h"((u16)((in[i] & 1) << 15 | 0x4000))
		     : "memory");
	asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(pairs), "r"(0x3c004400) : "memory");
	asm volatile("atom.global.add.noftz.f16x2 %0, [%1], %2;"
		     : "=r"(old)
		     : "l"(pairs + 1 + i), "r"(0x3c00c000)
		     : "memory");
	pairs[1 + n + i] = old;
}
