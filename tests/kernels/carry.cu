/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of carries: numbers of 128 bits in four words. */
#include "cuda.h"

KERNEL carry_add(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	const u32 *a = in + 4 * i, *b = in + 4 * (n + i);
	u32 *sum = out + 4 * i, *difference = out + 4 * (n + i);

	asm("add.cc.u32 %0, %4, %8;\n\t"
	    "addc.cc.u32 %1, %5, %9;\n\t"
	    "addc.cc.u32 %2, %6, %10;\n\t"
	    "addc.u32 %3, %7, %11;"
	    : "=&r"(sum[0]), "=&r"(sum[1]), "=&r"(sum[2]), "=&r"(sum[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));
	asm("sub.cc.u32 %0, %4, %8;\n\t"
	    "subc.cc.u32 %1, %5, %9;\n\t"
	    "subc.cc.u32 %2, %6, %10;\n\t"
	    "subc.u32 %3, %7, %11;"
	    : "=&r"(difference[0]), "=&r"(difference[1]), "=&r"(difference[2]), "=&r"(difference[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));
}

/* 64 x 64 = 128 bits, from products of 32. */
KERNEL carry_mul(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a0 = in[4 * i], a1 = in[4 * i + 1], b0 = in[4 * i + 2], b1 = in[4 * i + 3];
	u32 r0, r1, r2, r3;

	asm("mul.lo.u32 %0, %4, %6;\n\t"
	    "mul.hi.u32 %1, %4, %6;\n\t"
	    "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
	    "madc.hi.u32 %2, %4, %7, 0;\n\t"
	    "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
	    "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
	    "addc.u32 %3, 0, 0;\n\t"
	    "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
	    "madc.hi.u32 %3, %5, %7, %3;"
	    : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3)
	    : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
	out[4 * i] = r0;
	out[4 * i + 1] = r1;
	out[4 * i + 2] = r2;
	out[4 * i + 3] = r3;
}
