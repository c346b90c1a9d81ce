/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes of a warp do together: votes, matches, shuffles. */
#include "cuda.h"

KERNEL warp_vote(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();
	bool p = in[i] & 1;
	u32 active = 0;

	out[0 * n + i] = (u32)__nvvm_vote_ballot_sync(WARP_ALL, p);
	out[1 * n + i] = __nvvm_vote_any_sync(WARP_ALL, p && in[i] % 8 == 1);
	out[2 * n + i] = __nvvm_vote_all_sync(WARP_ALL, p || i < 32);
	out[3 * n + i] = __nvvm_vote_uni_sync(WARP_ALL, i < 40);
	out[4 * n + i] = 0;
	out[5 * n + i] = 0;
	if (p) {
		asm volatile("activemask.b32 %0;" : "=r"(active));
		out[4 * n + i] = active != 0 && (active >> (i % 32) & 1);
	}
	/* Half a warp votes by itself. */
	if (i % 32 < 16) {
		out[5 * n + i] = (u32)__nvvm_vote_ballot_sync(0xffff, in[i] & 2);
	}
	out[6 * n + i] = (u32)__nvvm_read_ptx_sreg_laneid() | (u32)__nvvm_read_ptx_sreg_lanemask_lt() << 8;
}

KERNEL warp_match(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), r, all, same;

	asm volatile("match.any.sync.b32 %0, %1, -1;" : "=r"(r) : "r"(in[i] % 5));
	out[0 * n + i] = r;
	asm volatile("match.any.sync.b64 %0, %1, -1;" : "=r"(r) : "l"((u64)(in[i] % 3) << 40));
	out[1 * n + i] = r;
	asm volatile("{.reg .pred p;\n\tmatch.all.sync.b32 %0|p, %2, -1;\n\tselp.u32 %1, 1, 0, p;}"
		     : "=r"(all), "=r"(same)
		     : "r"(i / 32 == 1 ? 7 : in[i]));
	out[2 * n + i] = all;
	out[3 * n + i] = same;
}

/* Every mode, segments of 8, and the predicate that says whether the source was in range. */
KERNEL warp_shuffle(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x(), value = in[i], r, in_range;

#define SHUFFLE(mode, b, c, at)                                                                    \
	do {                                                                                       \
		asm volatile("{.reg .pred p;\n\tshfl.sync." mode                                   \
			     ".b32 %0|p, %2, %3, %4, -1;\n\tselp.u32 %1, 1, 0, p;}"                \
			     : "=&r"(r), "=&r"(in_range)                                           \
			     : "r"(value), "r"(b), "r"(c));                                        \
		out[(at)*n + i] = r;                                                               \
		out[((at) + 1) * n + i] = in_range;                                                \
	} while (0)
	SHUFFLE("up", 3, 0, 0);
	SHUFFLE("down", 5, 31, 2);
	SHUFFLE("bfly", 9, 31, 4);
	SHUFFLE("idx", in[i] % 32, 31, 6);
	SHUFFLE("up", 2, 0x1800, 8);
	SHUFFLE("down", 3, 0x181f, 10);
	SHUFFLE("idx", 5, 0x181f, 12);
}
