/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over a warp in one instruction (sm_80). */
#include "cuda.h"

KERNEL warp_redux(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), r;

#define REDUX(text, at)                                                                            \
	do {                                                                                       \
		asm volatile("redux.sync." text " %0, %1, -1;" : "=r"(r) : "r"(in[i]));            \
		out[(at)*n + i] = r;                                                               \
	} while (0)
	REDUX("add.u32", 0);
	REDUX("min.s32", 1);
	REDUX("max.u32", 2);
	REDUX("and.b32", 3);
	REDUX("or.b32", 4);
	REDUX("xor.b32", 5);
	/* Two parts of a warp, each by itself, in different branches; match.all there, too. */
	if (i % 32 < 10) {
		asm volatile("redux.sync.max.s32 %0, %1, 0x3ff;" : "=r"(r) : "r"(in[i]));
	} else {
		u32 same;

		asm volatile("redux.sync.min.u32 %0, %1, 0xfffffc00;" : "=r"(r) : "r"(in[i]));
		asm volatile("match.all.sync.b64 %0, %1, 0xfffffc00;" : "=r"(same) : "l"((u64)r << 32 | i / 64));
		r ^= same;
	}
	out[6 * n + i] = r;
}
