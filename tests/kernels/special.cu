/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of f32: exactly rounded ones, and the approximate ones of the special function unit. */
#include "cuda.h"

KERNEL float_exact(const float *in, float *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i], b = in[n + i], c = in[2 * n + i], r;

	out[0 * n + i] = a + b;
	out[1 * n + i] = a - b;
	PTX2("mul.rn.f32", "f", r, "f", a, "f", b);
	out[2 * n + i] = r;
	PTX3("fma.rn.f32", "f", r, "f", a, "f", b, "f", c);
	out[3 * n + i] = r;
	PTX2("div.rn.f32", "f", r, "f", a, "f", b);
	out[4 * n + i] = r;
	PTX1("sqrt.rn.f32", "f", r, "f", a);
	out[5 * n + i] = r;
	PTX1("rcp.rn.f32", "f", r, "f", b);
	out[6 * n + i] = r;
	PTX2("min.f32", "f", r, "f", a, "f", b);
	out[7 * n + i] = r;
	PTX2("max.f32", "f", r, "f", a, "f", b);
	out[8 * n + i] = r;
	PTX1("abs.f32", "f", r, "f", a);
	out[9 * n + i] = r;
	PTX1("neg.f32", "f", r, "f", b);
	out[10 * n + i] = r;
	PTX2("copysign.f32", "f", r, "f", a, "f", b);
	out[11 * n + i] = r;
	PTX2("add.sat.f32", "f", r, "f", a, "f", b);
	out[12 * n + i] = r;
}

/* Directed rounding and flushed subnormals. */
KERNEL float_rounding(const float *in, float *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i], b = in[n + i], c = in[2 * n + i], r;

	PTX2("add.rz.f32", "f", r, "f", a, "f", b);
	out[0 * n + i] = r;
	PTX2("add.rm.f32", "f", r, "f", a, "f", b);
	out[1 * n + i] = r;
	PTX2("add.rp.f32", "f", r, "f", a, "f", b);
	out[2 * n + i] = r;
	PTX2("mul.rz.f32", "f", r, "f", a, "f", b);
	out[3 * n + i] = r;
	PTX3("fma.rm.f32", "f", r, "f", a, "f", b, "f", c);
	out[4 * n + i] = r;
	PTX2("div.rp.f32", "f", r, "f", a, "f", b);
	out[5 * n + i] = r;
	PTX1("sqrt.rz.f32", "f", r, "f", a * a);
	out[6 * n + i] = r;
	PTX2("mul.ftz.f32", "f", r, "f", a * 1e-30f, "f", 1e-10f);
	out[7 * n + i] = r;
	PTX2("add.ftz.f32", "f", r, "f", a * 1e-40f, "f", b * 1e-40f);
	out[8 * n + i] = r;
}

KERNEL float_approx(const float *in, float *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i], b = in[n + i], r;

	PTX1("sqrt.approx.f32", "f", r, "f", a);
	out[0 * n + i] = r;
	PTX1("rsqrt.approx.f32", "f", r, "f", a);
	out[1 * n + i] = r;
	PTX1("rcp.approx.f32", "f", r, "f", a);
	out[2 * n + i] = r;
	PTX1("ex2.approx.f32", "f", r, "f", b);
	out[3 * n + i] = r;
	PTX1("lg2.approx.f32", "f", r, "f", a + 2);
	out[4 * n + i] = r;
	PTX1("sin.approx.f32", "f", r, "f", b);
	out[5 * n + i] = r + 2;
	PTX1("cos.approx.f32", "f", r, "f", b);
	out[6 * n + i] = r + 2;
	PTX2("div.approx.f32", "f", r, "f", b, "f", a);
	out[7 * n + i] = r;
	PTX2("div.full.f32", "f", r, "f", b, "f", a);
	out[8 * n + i] = r;
}
