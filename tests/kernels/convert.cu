/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions: between widths, to and from floats, rounding and saturation. */
#include "cuda.h"

KERNEL convert_int(const s64 *in, s64 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	s64 a = in[i];
	u32 r;
	u16 h;

	out[0 * n + i] = (s8)a;
	out[1 * n + i] = (u8)a;
	out[2 * n + i] = (s16)a;
	out[3 * n + i] = (u16)a;
	out[4 * n + i] = (s32)a;
	out[5 * n + i] = (u32)a;
	PTX1("cvt.sat.s32.s64", "r", r, "l", a);
	out[6 * n + i] = (s32)r;
	PTX1("cvt.sat.u32.s64", "r", r, "l", a);
	out[7 * n + i] = r;
	PTX1("cvt.sat.u16.s64", "h", h, "l", a);
	out[8 * n + i] = h;
	PTX1("cvt.sat.s8.s32", "r", r, "r", (s32)a);
	out[9 * n + i] = (s32)r;
	PTX1("cvt.sat.u8.s32", "r", r, "r", (s32)a);
	out[10 * n + i] = (s32)r;
}

/* Floats to integers; what does not fit is clamped, and NaN is 0. */
KERNEL convert_to_int(const float *in, s64 *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i];
	s32 r;
	u32 u;
	s64 wide;
	u64 uwide;

	PTX1("cvt.rni.s32.f32", "r", r, "f", a);
	out[0 * n + i] = r;
	PTX1("cvt.rzi.s32.f32", "r", r, "f", a);
	out[1 * n + i] = r;
	PTX1("cvt.rmi.s32.f32", "r", r, "f", a);
	out[2 * n + i] = r;
	PTX1("cvt.rpi.s32.f32", "r", r, "f", a);
	out[3 * n + i] = r;
	PTX1("cvt.rzi.u32.f32", "r", u, "f", a);
	out[4 * n + i] = u;
	PTX1("cvt.rzi.s64.f32", "l", wide, "f", a);
	out[5 * n + i] = wide;
	PTX1("cvt.rni.u64.f64", "l", uwide, "d", (double)a * 4096);
	out[6 * n + i] = (s64)uwide;
	PTX1("cvt.rpi.s32.f64", "r", r, "d", (double)a);
	out[7 * n + i] = r;
}

KERNEL convert_to_float(const s64 *in, double *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	s64 a = in[i];
	float f;
	double d;

	PTX1("cvt.rn.f32.s32", "f", f, "r", (s32)a);
	out[0 * n + i] = f;
	PTX1("cvt.rz.f32.u32", "f", f, "r", (u32)a);
	out[1 * n + i] = f;
	PTX1("cvt.rm.f32.s64", "f", f, "l", a);
	out[2 * n + i] = f;
	PTX1("cvt.rp.f32.u64", "f", f, "l", a);
	out[3 * n + i] = f;
	PTX1("cvt.rn.f64.s64", "d", d, "l", a);
	out[4 * n + i] = d;
	PTX1("cvt.rn.f64.u64", "d", d, "l", a);
	out[5 * n + i] = d;
	PTX1("cvt.rz.f32.f64", "f", f, "d", d);
	out[6 * n + i] = f;
	PTX1("cvt.rp.f32.f64", "f", f, "d", d);
	out[7 * n + i] = f;
	PTX1("cvt.sat.f32.f32", "f", f, "f", (float)(s32)a * 1e-9f);
	out[8 * n + i] = f;
}

/* Floats to whole floats. */
KERNEL convert_whole(const float *in, float *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	float a = in[i], r;

	PTX1("cvt.rni.f32.f32", "f", r, "f", a);
	out[0 * n + i] = r;
	PTX1("cvt.rzi.f32.f32", "f", r, "f", a);
	out[1 * n + i] = r;
	PTX1("cvt.rmi.f32.f32", "f", r, "f", a);
	out[2 * n + i] = r;
	PTX1("cvt.rpi.f32.f32", "f", r, "f", a);
	out[3 * n + i] = r;
}
