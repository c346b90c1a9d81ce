/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on bits, including the counts and positions past a word's end. */
#include "cuda.h"

KERNEL bits_count(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a = in[i], r;
	u64 wide = ((u64)in[n + i] << 32) | a, reversed;

	PTX1("popc.b32", "r", r, "r", a);
	out[0 * n + i] = r;
	PTX1("clz.b32", "r", r, "r", a);
	out[1 * n + i] = r;
	PTX1("brev.b32", "r", r, "r", a);
	out[2 * n + i] = r;
	PTX1("bfind.u32", "r", r, "r", a);
	out[3 * n + i] = r;
	PTX1("bfind.s32", "r", r, "r", a);
	out[4 * n + i] = r;
	PTX1("bfind.shiftamt.u32", "r", r, "r", a);
	out[5 * n + i] = r;
	PTX1("popc.b64", "r", r, "l", wide);
	out[6 * n + i] = r;
	PTX1("clz.b64", "r", r, "l", wide);
	out[7 * n + i] = r;
	PTX1("brev.b64", "l", reversed, "l", wide);
	out[8 * n + i] = (u32)reversed;
	out[9 * n + i] = (u32)(reversed >> 32);
}

/* Fields and shifts: the position comes from the data, and may be past the end. */
KERNEL bits_field(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a = in[i], b = in[n + i], at = in[2 * n + i] % 48, len = (in[2 * n + i] >> 8) % 40, r;

	PTX3("bfe.u32", "r", r, "r", a, "r", at, "r", len);
	out[0 * n + i] = r;
	PTX3("bfe.s32", "r", r, "r", a, "r", at, "r", len);
	out[1 * n + i] = r;
	asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(at), "r"(len));
	out[2 * n + i] = r;
	PTX2("shl.b32", "r", r, "r", a, "r", at);
	out[3 * n + i] = r;
	PTX2("shr.u32", "r", r, "r", a, "r", at);
	out[4 * n + i] = r;
	PTX2("shr.s32", "r", r, "r", a, "r", at);
	out[5 * n + i] = r;
	PTX3("shf.l.wrap.b32", "r", r, "r", a, "r", b, "r", at);
	out[6 * n + i] = r;
	PTX3("shf.r.wrap.b32", "r", r, "r", a, "r", b, "r", at);
	out[7 * n + i] = r;
	PTX3("shf.l.clamp.b32", "r", r, "r", a, "r", b, "r", at);
	out[8 * n + i] = r;
	PTX3("shf.r.clamp.b32", "r", r, "r", a, "r", b, "r", at);
	out[9 * n + i] = r;
	PTX3("prmt.b32", "r", r, "r", a, "r", b, "r", in[2 * n + i] & 0xffff);
	out[10 * n + i] = r;
}

KERNEL bits_logic(const u64 *in, u64 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u64 a = in[i], b = in[n + i], r;
	u32 at = (u32)(b >> 7) % 80;

	out[0 * n + i] = a & b;
	out[1 * n + i] = a | b;
	out[2 * n + i] = a ^ b;
	out[3 * n + i] = ~a;
	PTX2("shl.b64", "l", r, "l", a, "r", at);
	out[4 * n + i] = r;
	PTX2("shr.u64", "l", r, "l", a, "r", at);
	out[5 * n + i] = r;
	PTX2("shr.s64", "l", r, "l", a, "r", at);
	out[6 * n + i] = r;
	PTX1("not.b64", "l", r, "l", b);
	out[7 * n + i] = r;
	PTX1("cnot.b64", "l", r, "l", i % 3 ? a : 0);
	out[8 * n + i] = r;
}
