/* SPDX-License-Identifier: Apache-2.0 */
/* The same for f64. */
#include "cuda.h"

KERNEL double_exact(const double *in, double *out, u32 n)
{
	u32 i = global_x();

	if (i >= n) {
		return;
	}
	double a = in[i], b = in[n + i], c = in[2 * n + i], r;

	out[0 * n + i] = a + b;
	out[1 * n + i] = a - b;
	PTX2("mul.rn.f64", "d", r, "d", a, "d", b);
	out[2 * n + i] = r;
	PTX3("fma.rn.f64", "d", r, "d", a, "d", b, "d", c);
	out[3 * n + i] = r;
	PTX2("div.rn.f64", "d", r, "d", a, "d", b);
	out[4 * n + i] = r;
	PTX1("sqrt.rn.f64", "d", r, "d", a);
	out[5 * n + i] = r;
	PTX1("rcp.rn.f64", "d", r, "d", b);
	out[6 * n + i] = r;
	PTX2("min.f64", "d", r, "d", a, "d", b);
	out[7 * n + i] = r;
	PTX2("max.f64", "d", r, "d", a, "d", b);
	out[8 * n + i] = r;
	PTX1("abs.f64", "d", r, "d", a);
	out[9 * n + i] = r;
	PTX1("neg.f64", "d", r, "d", b);
	out[10 * n + i] = r;
	PTX2("copysign.f64", "d", r, "d", a, "d", b);
	out[11 * n + i] = r;
	PTX2("add.rp.f64", "d", r, "d", a, "d", b);
	out[12 * n + i] = r;
	PTX3("fma.rz.f64", "d", r, "d", a, "d", b, "d", c);
	out[13 * n + i] = r;
}
