/* SPDX-License-Identifier: Apache-2.0 */
/* What sm_80 added for halves: bf16, minima and maxima, relu, packing conversions, functions. */
#include "cuda.h"

#define PUT(r, at) out[(at)*n + i] = r

KERNEL bhalf_exact(const u16 *in, u16 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u16 a = in[i], b = in[n + i], c = in[2 * n + i], r;

	PTX3("fma.rn.bf16", "h", r, "h", a, "h", b, "h", c);
	PUT(r, 0);
	PTX3("fma.rn.relu.bf16", "h", r, "h", a, "h", b, "h", c);
	PUT(r, 1);
	PTX2("min.bf16", "h", r, "h", a, "h", b);
	PUT(r, 2);
	PTX2("max.bf16", "h", r, "h", a, "h", b);
	PUT(r, 3);
	PTX2("max.NaN.bf16", "h", r, "h", a, "h", b);
	PUT(r, 4);
	PTX1("neg.bf16", "h", r, "h", a);
	PUT(r, 5);
	PTX1("abs.bf16", "h", r, "h", a);
	PUT(r, 6);
}

KERNEL bhalf_pairs(const u32 *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u32 a = in[i], b = in[n + i], c = in[2 * n + i], r;

	PTX3("fma.rn.bf16x2", "r", r, "r", a, "r", b, "r", c);
	PUT(r, 0);
	PTX3("fma.rn.relu.bf16x2", "r", r, "r", a, "r", b, "r", c);
	PUT(r, 1);
	PTX2("min.NaN.bf16x2", "r", r, "r", a, "r", b);
	PUT(r, 2);
	PTX2("max.bf16x2", "r", r, "r", a, "r", b);
	PUT(r, 3);
	PTX1("neg.bf16x2", "r", r, "r", a);
	PUT(r, 4);
	PTX1("abs.bf16x2", "r", r, "r", a);
	PUT(r, 5);
}

/* The same of f16, which sm_80 has, too. */
KERNEL half_choose(const u16 *in, u16 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u16 a = in[i], b = in[n + i], c = in[2 * n + i], r;
	u32 pair;

	PTX2("min.f16", "h", r, "h", a, "h", b);
	PUT(r, 0);
	PTX2("max.f16", "h", r, "h", a, "h", b);
	PUT(r, 1);
	PTX2("min.ftz.NaN.f16", "h", r, "h", a, "h", b);
	PUT(r, 2);
	PTX3("fma.rn.relu.f16", "h", r, "h", a, "h", b, "h", c);
	PUT(r, 3);
	PTX2("max.f16x2", "r", pair, "r", (u32)a << 16 | b, "r", (u32)b << 16 | c);
	PUT((u16)pair, 4);
	PUT((u16)(pair >> 16), 5);
}

KERNEL bhalf_from(const float *in, u32 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i], b = in[n + i];
	u16 h;
	u32 r;

	PTX1("cvt.rn.bf16.f32", "h", h, "f", a);
	PUT(h, 0);
	PTX1("cvt.rz.bf16.f32", "h", h, "f", a);
	PUT(h, 1);
	PTX1("cvt.rn.relu.bf16.f32", "h", h, "f", a);
	PUT(h, 2);
	PTX2("cvt.rn.bf16x2.f32", "r", r, "f", a, "f", b);
	PUT(r, 3);
	PTX2("cvt.rz.relu.bf16x2.f32", "r", r, "f", a, "f", b);
	PUT(r, 4);
	PTX2("cvt.rn.f16x2.f32", "r", r, "f", a, "f", b);
	PUT(r, 5);
	PTX2("cvt.rz.f16x2.f32", "r", r, "f", a, "f", b);
	PUT(r, 6);
	PTX1("cvt.rn.relu.f16.f32", "h", h, "f", a);
	PUT(h, 7);
}

KERNEL half_approx(const u16 *in, u16 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	u16 a = in[i], r;
	u32 pair;

	PTX1("ex2.approx.f16", "h", r, "h", a);
	PUT(r, 0);
	PTX1("tanh.approx.f16", "h", r, "h", a);
	PUT(r, 1);
	PTX1("ex2.approx.f16x2", "r", pair, "r", (u32)a << 16 | in[n + i]);
	PUT((u16)pair, 2);
	PUT((u16)(pair >> 16), 3);
	PTX1("tanh.approx.f16x2", "r", pair, "r", (u32)a << 16 | in[n + i]);
	PUT((u16)pair, 4);
	PUT((u16)(pair >> 16), 5);
}
