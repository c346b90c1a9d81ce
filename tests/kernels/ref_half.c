/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References for half.cu and bhalf.cu: values as long double, which holds every sum and product
 * that counts, and rounding by the definition: to a multiple of the last place.
 */
#include <math.h>
#include <string.h>

#include "cases.h"

#define N 200

struct format {
	int digits;    /* with the leading one */
	int emin;      /* of the smallest normal number */
	uint16_t last; /* the largest finite one */
	uint16_t one;
};

static const struct format f16 = {11, -14, 0x7bff, 0x3c00}, bf16 = {8, -126, 0x7f7f, 0x3f80};

enum direction { NEAREST, TO_ZERO, DOWN, UP };

static long double value(uint16_t bits, const struct format *f)
{
	unsigned magnitude = bits & 0x7fff;
	int e = (int)(magnitude >> (f->digits - 1)) - 1;
	unsigned fraction = magnitude & ((1u << (f->digits - 1)) - 1);
	long double v;

	if (magnitude > f->last) {
		v = fraction ? (long double)NAN : (long double)INFINITY;
	} else {
		fraction += e < 0 ? 0 : 1u << (f->digits - 1);
		v = ldexpl(fraction, f->emin + (e < 0 ? 0 : e) - (f->digits - 1));
	}
	return bits & 0x8000 ? -v : v;
}

static uint16_t rounded(long double v, const struct format *f, enum direction to)
{
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	long double x = fabsl(v), places, whole;
	uint64_t bits;
	int e;

	if (isnan(v)) {
		return 0x7fff;
	}
	if (isinf(v) || x == 0) {
		return (uint16_t)(sign | (x == 0 ? 0 : f->last + 1));
	}
	e = ilogbl(x) < f->emin ? f->emin : ilogbl(x);
	if (e > 1 - f->emin) {
		e = 1 - f->emin;
		x = ldexpl(1, 2 - f->emin);
	}
	places = ldexpl(x, f->digits - 1 - e);
	whole = to == NEAREST                               ? rintl(places)
		: to == (sign ? DOWN : UP) && to != TO_ZERO ? ceill(places)
							    : floorl(places);
	bits = ((uint64_t)(e - f->emin) << (f->digits - 1)) + (uint64_t)whole;
	if (bits > f->last) {
		bits = f->last + (to == NEAREST || to == (sign ? DOWN : UP));
	}
	return (uint16_t)(sign | bits);
}

static uint16_t nearest(long double v, const struct format *f)
{
	return rounded(v, f, NEAREST);
}

/* Where even long double is too short, the side of the sum on which the exact value lies. */
static long double fused(long double a, long double b, long double c)
{
	volatile long double product = a * b, sum = product + c, part = sum - product;
	volatile long double lost = (product - (sum - part)) + (c - part);

	if (lost > 0 || lost < 0) {
		return nextafterl(sum, lost > 0 ? (long double)INFINITY : -(long double)INFINITY);
	}
	return sum;
}

static uint16_t saturated(uint16_t h, const struct format *f)
{
	return (h & 0x7fff) > f->last + 1 || h & 0x8000 ? 0 : h > f->one ? f->one : h;
}

static uint16_t flushed(uint16_t h, const struct format *f)
{
	return (h & 0x7fff) < 1 << (f->digits - 1) ? h & 0x8000 : h;
}

static uint16_t relu(uint16_t h, const struct format *f)
{
	return (h & 0x7fff) > f->last + 1 ? h : h & 0x8000 ? 0 : h;
}

static uint16_t sum(uint16_t a, uint16_t b, const struct format *f)
{
	return nearest(value(a, f) + value(b, f), f);
}

static uint16_t difference(uint16_t a, uint16_t b, const struct format *f)
{
	return nearest(value(a, f) - value(b, f), f);
}

static uint16_t product(uint16_t a, uint16_t b, const struct format *f)
{
	return nearest(value(a, f) * value(b, f), f);
}

static uint16_t multiply_add(uint16_t a, uint16_t b, uint16_t c, const struct format *f)
{
	return nearest(fused(value(a, f), value(b, f), value(c, f)), f);
}

static uint16_t chosen(uint16_t a, uint16_t b, const struct format *f, int greatest, int nan_wins)
{
	long double x = value(a, f), y = value(b, f);

	if (isnan(x) || isnan(y)) {
		return nan_wins || (isnan(x) && isnan(y)) ? 0x7fff : isnan(x) ? b : a;
	}
	if (x == y) {
		/* Zeros of both signs are equal, and yet in order. */
		return greatest ? a & b : a | b;
	}
	return (x < y) != greatest ? a : b;
}

static void put(uint16_t *out, unsigned i, const uint16_t *rows, unsigned count)
{
	for (unsigned k = 0; k < count; k++) {
		out[k * N + i] = rows[k];
	}
}
#define PUT(rows) put(d->expected[1], i, rows, sizeof(rows) / sizeof((rows)[0]))

static void ref_native(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		uint16_t a = in[i], b = in[N + i], c = in[2 * N + i];
		long double x = value(a, &f16), y = value(b, &f16), z = value(c, &f16);
		uint16_t rows[] = {sum(a, b, &f16), difference(a, b, &f16), product(a, b, &f16),
			multiply_add(a, b, c, &f16), nearest(x / y, &f16), a ^ 0x8000,
			x < y ? a : c, nearest((float)x * (float)y + 0.5f, &f16),
			nearest((double)x * 0.1, &f16), x == y || z > x ? 0x3e00 : b,
			multiply_add(a, 0x34cd, 0xc000, &f16),
			multiply_add(sum(a, b, &f16), 0x3800, c ^ 0x8000, &f16)};

		PUT(rows);
	}
}

static void ref_flags(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	const struct format *f = &f16;

	for (unsigned i = 0; i < N; i++) {
		uint16_t a = in[i], b = in[N + i], c = in[2 * N + i];
		uint16_t fa = flushed(a, f), fb = flushed(b, f), fc = flushed(c, f);
		uint16_t rows[] = {sum(a, b, f), saturated(sum(a, b, f), f),
			flushed(difference(fa, fb, f), f),
			saturated(flushed(product(fa, fb, f), f), f), multiply_add(a, b, c, f),
			saturated(multiply_add(a, b, c, f), f),
			flushed(multiply_add(fa, fb, fc, f), f), a ^ 0x8000, a & 0x7fff,
			fb & 0x7fff};

		PUT(rows);
	}
}

static void ref_pairs(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	uint16_t *out = d->expected[1];

	for (unsigned i = 0; i < 2 * N; i++) {
		uint16_t a = in[i], b = in[2 * N + i], c = in[4 * N + i];
		uint16_t rows[] = {sum(a, b, &f16), difference(a, b, &f16),
			multiply_add(a, b, c, &f16), i & 1 ? in[2 * N + (i & ~1u)] : in[i | 1],
			saturated(product(a, b, &f16), &f16),
			flushed(multiply_add(
					flushed(a, &f16), flushed(b, &f16), flushed(c, &f16), &f16),
				&f16),
			a ^ 0x8000, a & 0x7fff, i & 1 ? sum(in[i & ~1u], in[i], &f16) : in[i | 1]};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * 2 * N + i] = rows[k];
		}
	}
}

/* Clamped to [low, high]; NaN is 0, as for all integers under 64 bits. */
static int64_t held(long double whole, int64_t low, int64_t high)
{
	return isnan(whole) ? 0 : whole < low ? low : whole > high ? high : (int64_t)whole;
}

static int64_t bits_of_float(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	return isnan(f) ? 0x7fffffff : bits;
}

static int64_t bits_of_double(double x)
{
	int64_t bits;

	memcpy(&bits, &x, 8);
	return bits;
}

static void ref_to(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	int64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		long double x = value(in[i], &f16);
		int64_t rows[] = {held(rintl(x), INT32_MIN, INT32_MAX),
			held(truncl(x), INT16_MIN, INT16_MAX),
			held(floorl(x), INT32_MIN, INT32_MAX), held(ceill(x), 0, UINT32_MAX),
			held(truncl(x), 0, 255),
			isnan(x) ? INT64_MIN : held(truncl(x), INT64_MIN, INT64_MAX),
			bits_of_float((float)x), bits_of_double((double)x), nearest(rintl(x), &f16),
			nearest(truncl(x), &f16), nearest(floorl(x), &f16), nearest(ceill(x), &f16),
			bits_of_float(isnan(x) || x < 0 ? 0
				      : x > 1           ? 1
							: (float)x)};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

static void ref_from_float(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		float a = in[i], tiny = a * 0x1p-24f;
		double wide = (double)a * 1.0000001;
		uint16_t rows[] = {nearest(a, &f16), rounded(a, &f16, TO_ZERO),
			rounded(a, &f16, DOWN), rounded(a, &f16, UP),
			saturated(nearest(a, &f16), &f16), nearest(wide, &f16),
			rounded(wide, &f16, UP), nearest(tiny, &f16), rounded(tiny, &f16, DOWN)};

		PUT(rows);
	}
}

static void ref_from_int(const struct kcase *kase, struct kcase_data *d)
{
	const int64_t *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		int64_t a = in[i];
		uint16_t rows[] = {nearest((int32_t)a, &f16), rounded((uint32_t)a, &f16, TO_ZERO),
			nearest((long double)a, &f16),
			rounded((long double)(uint64_t)a, &f16, DOWN), nearest((int16_t)a, &f16),
			rounded((uint16_t)a, &f16, UP), nearest((int32_t)a % 5000, &f16)};

		PUT(rows);
	}
}

static uint32_t comparisons(long double x, long double y)
{
	int nan = isnan(x) || isnan(y);
	int ordered[] = {x == y, x < y || x > y, x<y, x <= y, x> y, x >= y};
	uint32_t bits = (uint32_t)!nan << 12 | (uint32_t)nan << 13;

	for (unsigned k = 0; k < 6; k++) {
		bits |= (uint32_t)ordered[k] << k | (uint32_t)(ordered[k] || nan) << (k + 6);
	}
	return bits;
}

static void ref_compare(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		uint16_t a = in[i], b = in[i % 3 == 0 ? i : N + i];
		long double x = value(a, &f16), y = value(b, &f16);
		long double high = value(in[N - 1 - i], &f16), other = value(in[N + i], &f16);
		uint32_t low_lt = x < y, high_lt = high < other;
		uint32_t eq_flushed =
			value(flushed(a, &f16), &f16) == value(flushed(b, &f16), &f16);

		out[0 * N + i] = comparisons(x, y) | eq_flushed << 14 | (i & low_lt) << 30 |
				 (i & high_lt) << 31;
		out[1 * N + i] = x > y ? 0x3c00 : 0;
		out[2 * N + i] = (x > y ? 0 : 0x3c00u) | (high > other ? 0 : 0x3c00u << 16);
		out[3 * N + i] = x > y ? UINT32_MAX : 0;
		out[4 * N + i] = low_lt * 0xffffu | high_lt * 0xffff0000u;
		out[5 * N + i] = i < 100 ? 7 : (x >= y) * 0x3c00u | (high >= other) * 0x3c000000u;
	}
}

static void ref_atomic(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	uint16_t *sums = d->expected[1];
	uint32_t *pairs = d->expected[2];
	int totals[4] = {0};

	for (unsigned i = 0; i < N; i++) {
		totals[i % 4] += in[i] & 1 ? -2 : 2;
		pairs[1 + i] = 0x3c00c000;
	}
	sums[1] = nearest(N, &f16);
	for (unsigned k = 0; k < 4; k++) {
		sums[2 + k] = nearest(totals[k], &f16);
	}
	pairs[0] = (uint32_t)nearest(N, &f16) << 16 | nearest(4 * N, &f16);
}

static void ref_bhalf(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	const struct format *f = &bf16;

	for (unsigned i = 0; i < N; i++) {
		uint16_t a = in[i], b = in[N + i], c = in[2 * N + i];
		uint16_t rows[] = {multiply_add(a, b, c, f), relu(multiply_add(a, b, c, f), f),
			chosen(a, b, f, 0, 0), chosen(a, b, f, 1, 0), chosen(a, b, f, 1, 1),
			a ^ 0x8000, a & 0x7fff};

		PUT(rows);
	}
}

static void ref_bpairs(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	uint16_t *out = d->expected[1];
	const struct format *f = &bf16;

	for (unsigned i = 0; i < 2 * N; i++) {
		uint16_t a = in[i], b = in[2 * N + i], c = in[4 * N + i];
		uint16_t rows[] = {multiply_add(a, b, c, f), relu(multiply_add(a, b, c, f), f),
			chosen(a, b, f, 0, 1), chosen(a, b, f, 1, 0), a ^ 0x8000, a & 0x7fff};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * 2 * N + i] = rows[k];
		}
	}
}

static void ref_choose(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];
	const struct format *f = &f16;

	for (unsigned i = 0; i < N; i++) {
		uint16_t a = in[i], b = in[N + i], c = in[2 * N + i];
		uint16_t rows[] = {chosen(a, b, f, 0, 0), chosen(a, b, f, 1, 0),
			chosen(flushed(a, f), flushed(b, f), f, 0, 1),
			relu(multiply_add(a, b, c, f), f), chosen(b, c, f, 1, 0),
			chosen(a, b, f, 1, 0)};

		PUT(rows);
	}
}

static uint32_t pair(uint16_t high, uint16_t low)
{
	return (uint32_t)high << 16 | low;
}

static void ref_bfrom(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	uint32_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		float a = in[i], b = in[N + i];

		out[0 * N + i] = nearest(a, &bf16);
		out[1 * N + i] = rounded(a, &bf16, TO_ZERO);
		out[2 * N + i] = relu(nearest(a, &bf16), &bf16);
		out[3 * N + i] = pair(nearest(a, &bf16), nearest(b, &bf16));
		out[4 * N + i] = pair(relu(rounded(a, &bf16, TO_ZERO), &bf16),
			relu(rounded(b, &bf16, TO_ZERO), &bf16));
		out[5 * N + i] = pair(nearest(a, &f16), nearest(b, &f16));
		out[6 * N + i] = pair(rounded(a, &f16, TO_ZERO), rounded(b, &f16, TO_ZERO));
		out[7 * N + i] = relu(nearest(a, &f16), &f16);
	}
}

static void ref_half_approx(const struct kcase *kase, struct kcase_data *d)
{
	const uint16_t *in = d->bytes[0];

	for (unsigned i = 0; i < N; i++) {
		double a = (double)value(in[i], &f16), b = (double)value(in[N + i], &f16);
		uint16_t rows[] = {nearest(exp2(a), &f16), nearest(tanh(a), &f16),
			nearest(exp2(b), &f16), nearest(exp2(a), &f16), nearest(tanh(b), &f16),
			nearest(tanh(a), &f16)};

		PUT(rows);
	}
}

#define CASE(module, entry, in_size, fill, out_size, equal, reference)                             \
	KCASE_MAP(module, entry, N, in_size, fill, out_size, equal, reference)

static const struct kcase cases[] = {
	CASE("half", "half_native", 6, KFILL_RANDOM, 24, KEQUAL_F16, ref_native),
	CASE("half", "half_native", 6, KFILL_HALVES, 24, KEQUAL_F16, ref_native),
	CASE("half", "half_flags", 6, KFILL_RANDOM, 20, KEQUAL_F16, ref_flags),
	CASE("half", "half_flags", 6, KFILL_HALVES, 20, KEQUAL_F16, ref_flags),
	CASE("half", "half_pairs", 12, KFILL_HALVES, 36, KEQUAL_F16, ref_pairs),
	CASE("half", "half_pairs", 12, KFILL_RANDOM, 36, KEQUAL_F16, ref_pairs),
	CASE("half", "half_to", 2, KFILL_RANDOM, 104, KEQUAL_F64, ref_to),
	CASE("half", "half_to", 2, KFILL_HALVES, 104, KEQUAL_F64, ref_to),
	CASE("half", "half_from_float", 4, KFILL_FLOATS_ODD, 18, KEQUAL_F16, ref_from_float),
	CASE("half", "half_from_int", 8, KFILL_INTS64, 14, KEQUAL_F16, ref_from_int),
	CASE("half", "half_compare", 4, KFILL_RANDOM, 24, KEQUAL_BYTES, ref_compare),
	CASE("half", "half_compare", 4, KFILL_HALVES, 24, KEQUAL_BYTES, ref_compare),
	{"half", "half_atomic", {4, 1, 1}, {64, 1, 1}, 0,
		{{2 * N, KFILL_RANDOM, KEQUAL_BYTES}, {12, KFILL_ZERO, KEQUAL_F16},
			{8 * N + 4, KFILL_ZERO, KEQUAL_BYTES}},
		{KARG32(N)}, ref_atomic, true},
	CASE("bhalf", "bhalf_exact", 6, KFILL_RANDOM, 14, KEQUAL_BF16, ref_bhalf),
	CASE("bhalf", "bhalf_exact", 6, KFILL_FLOATS, 14, KEQUAL_BF16, ref_bhalf),
	CASE("bhalf", "bhalf_pairs", 12, KFILL_RANDOM, 24, KEQUAL_BF16, ref_bpairs),
	CASE("bhalf", "half_choose", 6, KFILL_RANDOM, 12, KEQUAL_F16, ref_choose),
	CASE("bhalf", "bhalf_from", 8, KFILL_FLOATS_ODD, 32, KEQUAL_BF16, ref_bfrom),
	CASE("bhalf", "half_approx", 4, KFILL_HALVES, 12, KEQUAL_F16_APPROX, ref_half_approx),
};

const struct kcase_set kcases_half = KSET(cases);
