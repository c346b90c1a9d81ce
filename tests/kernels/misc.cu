/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that clang seldom chooses by itself. */
#include "cuda.h"

#define PUT(r, at) out[(at)*n + i] = r

__device__ u32 in_global;
__constant__ u32 in_constant = 4;

static __device__ u32 space_of(const void *at)
{
	u32 r;

	asm("{.reg .pred p;\n\tisspacep.global p, %1;\n\tselp.u32 %0, 1, 0, p;\n\t"
	    "isspacep.shared p, %1;\n\t@p or.b32 %0, %0, 2;\n\t"
	    "isspacep.local p, %1;\n\t@p or.b32 %0, %0, 4;}"
	    : "=&r"(r)
	    : "l"(at));
	return r;
}

/* One instruction, lanes with addresses of different spaces. */
KERNEL misc_spaces(u32 *out, u32 n)
{
	__shared__ u32 shared[32];
	u32 i = global_x();
	volatile u32 local[4] = {i, 1, 2, 3};

	if (i >= n) {
		return;
	}
	const void *at = i % 4 == 0   ? (const void *)&in_global
			 : i % 4 == 1 ? (const void *)&shared[i % 32]
			 : i % 4 == 2 ? (const void *)(local + i / 4 % 4)
				      : (const void *)(out + i);
	shared[i % 32] = 17;
	PUT(space_of(at), 0);
	/* And what is there. */
	PUT(*(const volatile u32 *)(i % 4 == 3 ? (const void *)&in_constant : at), 1);
}

#define TEST(what, type, c, value, at)                                                             \
	do {                                                                                       \
		u32 r_;                                                                            \
		asm("{.reg .pred p;\n\ttestp." what "." type " p, %1;\n\tselp.u32 %0, 1, 0, p;}"   \
		    : "=r"(r_)                                                                     \
		    : c(value));                                                                   \
		bits |= r_ << (at);                                                                \
	} while (0)

KERNEL misc_testp(const float *in, u32 *out, u32 n)
{
	u32 i = global_x(), bits = 0;

	if (i >= n) {
		return;
	}
	float a = in[i];
	double d = i % 7 == 0 ? __builtin_bit_cast(double, (u64)i + 1) : (double)a;

	TEST("finite", "f32", "f", a, 0);
	TEST("infinite", "f32", "f", a, 1);
	TEST("number", "f32", "f", a, 2);
	TEST("notanumber", "f32", "f", a, 3);
	TEST("normal", "f32", "f", a, 4);
	TEST("subnormal", "f32", "f", a, 5);
	TEST("finite", "f64", "d", d, 6);
	TEST("infinite", "f64", "d", d, 7);
	TEST("number", "f64", "d", d, 8);
	TEST("notanumber", "f64", "d", d, 9);
	TEST("normal", "f64", "d", d, 10);
	TEST("subnormal", "f64", "d", d, 11);
	out[i] = bits;
}

KERNEL misc_bits(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), r;

	if (i >= n) {
		return;
	}
	u32 a = in[i], b = in[n + i], c = in[2 * n + i];

#define LOP3(table, at)                                                                            \
	asm("lop3.b32 %0, %1, %2, %3, " table ";" : "=r"(r) : "r"(a), "r"(b), "r"(c));             \
	PUT(r, at)
#define PRMT(mode, at)                                                                             \
	PTX3("prmt.b32" mode, "r", r, "r", a, "r", b, "r", c);                                     \
	PUT(r, at)
	LOP3("0xe8", 0);
	LOP3("0x96", 1);
	LOP3("0x1b", 2);
	LOP3("0xff", 3);
	LOP3("0x40", 4);
	PRMT("", 5);
	PRMT(".f4e", 6);
	PRMT(".b4e", 7);
	PRMT(".rc8", 8);
	PRMT(".ecl", 9);
	PRMT(".ecr", 10);
	PRMT(".rc16", 11);
}

KERNEL misc_wide(const u64 *in, u64 *out, u32 n)
{
	u32 i = global_x(), r;

	if (i >= n) {
		return;
	}
	u64 a = in[i], b = in[n + i], wide;
	u32 at = (u32)b & 127, length = (u32)(b >> 7) & 127;

	PTX3("bfe.u64", "l", wide, "l", a, "r", at, "r", length);
	PUT(wide, 0);
	PTX3("bfe.s64", "l", wide, "l", a, "r", at, "r", length);
	PUT(wide, 1);
	asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(wide) : "l"(a), "l"(b), "r"(at), "r"(length));
	PUT(wide, 2);
	PTX1("bfind.u64", "r", r, "l", a);
	PUT(r, 3);
	PTX1("bfind.shiftamt.s64", "r", r, "l", a);
	PUT(r, 4);
	PTX2("mul24.lo.s32", "r", r, "r", (u32)a, "r", (u32)b);
	PUT(r, 5);
	PTX3("mad24.lo.u32", "r", r, "r", (u32)a, "r", (u32)b, "r", at);
	PUT(r, 6);
	PTX3("slct.u64.s32", "l", wide, "l", a, "l", b, "r", (u32)a);
	PUT(wide, 7);
	PTX3("slct.b64.f32", "l", wide, "l", a, "l", b, "f", __builtin_bit_cast(float, (u32)b));
	PUT(wide, 8);
	PTX2("set.lt.f32.s64", "r", r, "l", a, "l", b);
	PUT(r, 9);
	asm("{.reg .b16 p, q, r, s;\n\tmov.b64 {p, q, r, s}, %1;\n\tmov.b64 %0, {s, q, p, r};}" : "=l"(wide) : "l"(a));
	PUT(wide, 10);
	asm("{.reg .b32 p, q, r;\n\tmov.b64 {p, q}, %1;\n\tmov.b64 {r, q}, %2;\n\tmov.b64 %0, {q, p};}"
	    : "=l"(wide)
	    : "l"(a), "l"(b));
	PUT(wide, 11);
}

/* Compare and swap of every width; what is there is known to each thread. */
KERNEL misc_swap(u64 *words, u64 *out, u32 n)
{
	u32 i = global_x(), old;
	u64 wide;

	if (i >= n) {
		return;
	}
	asm volatile("atom.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(wide)
		     : "l"(words + i), "l"(i % 2 ? (u64)0 : words[i]), "l"((u64)i << 40 | 1)
		     : "memory");
	PUT(wide, 0);
	asm volatile("atom.exch.b64 %0, [%1], %2;" : "=l"(wide) : "l"(words + n + i), "l"((u64)i * 3) : "memory");
	PUT(wide, 1);
	asm volatile("{.reg .b16 o, b, c;\n\tcvt.u16.u32 b, %2;\n\tmov.b16 c, 0x1234;\n\t"
		     "atom.global.cas.b16 o, [%1], b, c;\n\tcvt.u32.u16 %0, o;}"
		     : "=r"(old)
		     : "l"((u16 *)(words + 2 * n + i) + i % 4), "r"(i % 3 ? 0 : ((u16 *)(words + 2 * n + i))[i % 4])
		     : "memory");
	PUT(old, 2);
	asm volatile("atom.global.inc.u32 %0, [%1], 5;" : "=r"(old) : "l"((u32 *)(words + 3 * n) + i) : "memory");
	PUT(old, 3);
}
