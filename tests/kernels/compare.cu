/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons, ordered and unordered, combined predicates, and selection. */
#include "cuda.h"

/* bit `at` of `bits` becomes: a op b */
#define COMPARE(op, c, at)                                                                         \
	do {                                                                                       \
		u32 r_;                                                                            \
		asm("{.reg .pred p;\n\tsetp." op " p, %1, %2;\n\tselp.u32 %0, 1, 0, p;}"           \
		    : "=r"(r_)                                                                     \
		    : c(a), c(b));                                                                 \
		bits |= r_ << (at);                                                                \
	} while (0)

KERNEL compare_int(const s32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), bits = 0;

	if (i >= n) {
		return;
	}
	s32 a = in[i], b = in[n + i];

	COMPARE("eq.s32", "r", 0);
	COMPARE("ne.s32", "r", 1);
	COMPARE("lt.s32", "r", 2);
	COMPARE("le.s32", "r", 3);
	COMPARE("gt.s32", "r", 4);
	COMPARE("ge.s32", "r", 5);
	COMPARE("lo.u32", "r", 6);
	COMPARE("ls.u32", "r", 7);
	COMPARE("hi.u32", "r", 8);
	COMPARE("hs.u32", "r", 9);
	COMPARE("lt.u32", "r", 10);
	out[i] = bits;
}

KERNEL compare_float(const float *in, u32 *out, u32 n)
{
	u32 i = global_x(), bits = 0;

	if (i >= n) {
		return;
	}
	float a = in[i], b = in[n + i];

	COMPARE("eq.f32", "f", 0);
	COMPARE("ne.f32", "f", 1);
	COMPARE("lt.f32", "f", 2);
	COMPARE("le.f32", "f", 3);
	COMPARE("gt.f32", "f", 4);
	COMPARE("ge.f32", "f", 5);
	COMPARE("equ.f32", "f", 6);
	COMPARE("neu.f32", "f", 7);
	COMPARE("ltu.f32", "f", 8);
	COMPARE("leu.f32", "f", 9);
	COMPARE("gtu.f32", "f", 10);
	COMPARE("geu.f32", "f", 11);
	COMPARE("num.f32", "f", 12);
	COMPARE("nan.f32", "f", 13);
	out[i] = bits;
}

/* setp with two results and a third predicate; predicates in logic; slct and set. */
KERNEL compare_combined(const s32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	s32 a = in[i], b = in[n + i], both, either, logic, chosen, set;

	asm("{.reg .pred p, q, r;\n\t"
	    "setp.gt.s32 r, %2, 0;\n\t"
	    "setp.lt.and.s32 p|q, %2, %3, r;\n\t"
	    "selp.s32 %0, 1, 0, p;\n\t"
	    "selp.s32 %1, 1, 0, q;}"
	    : "=&r"(both), "=&r"(either)
	    : "r"(a), "r"(b));
	asm("{.reg .pred p, q, r;\n\t"
	    "setp.gt.s32 p, %1, 5;\n\t"
	    "setp.lt.s32 q, %2, 7;\n\t"
	    "xor.pred r, p, q;\n\t"
	    "not.pred p, p;\n\t"
	    "or.pred r, r, p;\n\t"
	    "mov.u32 %0, 3;\n\t"
	    "@!r mov.u32 %0, 4;}"
	    : "=&r"(logic)
	    : "r"(a), "r"(b));
	PTX3("slct.s32.s32", "r", chosen, "r", a, "r", b, "r", a - b);
	PTX2("set.ge.u32.s32", "r", set, "r", a, "r", b);
	out[0 * n + i] = (u32)both | (u32)either << 1;
	out[1 * n + i] = (u32)logic;
	out[2 * n + i] = (u32)chosen;
	out[3 * n + i] = (u32)set;
}
