/* SPDX-License-Identifier: Apache-2.0 */
/* References for special.cu and double.cu. */
#include <fenv.h>
#include <math.h>

#include "cases.h"

#define N 200

static float min_f32(float a, float b)
{
	return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static float max_f32(float a, float b)
{
	return isnan(a) ? b : isnan(b) ? a : a > b || (a == b && !signbit(a)) ? a : b;
}

static float saturated(float a)
{
	return a > 1 ? 1 : a > 0 ? a : 0;
}

static void ref_exact(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	float *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		float a = in[i], b = in[N + i], c = in[2 * N + i];
		float rows[] = {a + b, a - b, a * b, fmaf(a, b, c), a / b, sqrtf(a), 1 / b,
			min_f32(a, b), max_f32(a, b), fabsf(a), -b, copysignf(b, a),
			saturated(a + b)};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

/*
 * Directed rounding without the environment: f64 holds a sum, product or quotient of f32 well
 * enough to see on which side of its rounding to f32 the exact value lies.
 */
static float directed(double exact, int mode)
{
	float r = (float)exact;

	if (mode == FE_UPWARD || (mode == FE_TOWARDZERO && exact < 0)) {
		return (double)r < exact ? nextafterf(r, INFINITY) : r;
	}
	return (double)r > exact ? nextafterf(r, -INFINITY) : r;
}

static float flushed(float a)
{
	return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a;
}

/* Inputs are small enough that a sum of two or a product plus a third is exact in long double. */
static void ref_rounding(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	float *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		float a = in[i], b = in[N + i], c = in[2 * N + i], square = a * a;
		double sum = (double)a + b, product = (double)a * b, root = sqrt((double)square);
		long double fused = (long double)product + c;
		float low = (float)fused;

		out[0 * N + i] = directed(sum, FE_TOWARDZERO);
		out[1 * N + i] = directed(sum, FE_DOWNWARD);
		out[2 * N + i] = directed(sum, FE_UPWARD);
		out[3 * N + i] = directed(product, FE_TOWARDZERO);
		out[4 * N + i] = (long double)low > fused ? nextafterf(low, -INFINITY) : low;
		out[5 * N + i] = directed((double)a / b, FE_UPWARD);
		out[6 * N + i] = directed(root, FE_TOWARDZERO);
		out[7 * N + i] = flushed(flushed(a * 1e-30f) * 1e-10f);
		out[8 * N + i] = flushed(flushed(a * 1e-40f) + flushed(b * 1e-40f));
	}
}

static void ref_approx(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	float *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		double a = in[i], b = in[N + i];
		double rows[] = {sqrt(a), 1 / sqrt(a), 1 / a, exp2(b), log2((double)(float)(a + 2)),
			sin(b) + 2, cos(b) + 2, b / a, b / a};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = (float)rows[k];
		}
	}
}

/* The error of a rounded sum (Knuth's two-sum) tells on which side the exact value lies. */
static double sum_upward(double a, double b)
{
	volatile double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);

	return error > 0 ? nextafter(sum, INFINITY) : sum;
}

/* fma toward zero: the exact value is a sum of four doubles, of which r is the nearest one. */
static double fma_to_zero(double a, double b, double c)
{
	volatile double r = fma(a, b, c), product = a * b, low = fma(a, b, -product);
	volatile double sum = product + c, part = sum - product;
	volatile double error = (product - (sum - part)) + (c - part);
	/* exact = sum + error + low; what is left of it after r: */
	long double rest = ((long double)sum - r) + error + low;

	if (r > 0 && rest < 0) {
		return nextafter(r, 0);
	}
	return r < 0 && rest > 0 ? nextafter(r, 0) : r;
}

static void ref_double(const struct kcase *kase, struct kcase_data *d)
{
	const double *in = d->bytes[0];
	double *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		double a = in[i], b = in[N + i], c = in[2 * N + i];
		double rows[] = {a + b, a - b, a * b, fma(a, b, c), a / b, sqrt(a), 1 / b,
			a < b ? a : b, a > b ? a : b, fabs(a), -b, copysign(b, a), sum_upward(a, b),
			fma_to_zero(a, b, c)};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

#define CASE(module, entry, in_size, out_size, fill, equal, reference)                             \
	KCASE_MAP(module, entry, N, in_size, fill, out_size, equal, reference)

static const struct kcase cases[] = {
	CASE("special", "float_exact", 12, 52, KFILL_FLOATS_ODD, KEQUAL_F32, ref_exact),
	CASE("special", "float_rounding", 12, 36, KFILL_FLOATS, KEQUAL_F32, ref_rounding),
	CASE("special", "float_approx", 8, 36, KFILL_FLOATS_PLUS, KEQUAL_F32_APPROX, ref_approx),
	CASE("double", "double_exact", 24, 112, KFILL_DOUBLES, KEQUAL_F64, ref_double),
};

const struct kcase_set kcases_float = KSET(cases);
