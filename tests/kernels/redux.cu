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
}
