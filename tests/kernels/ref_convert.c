/* SPDX-License-Identifier: Apache-2.0 */
/* References for convert.cu. */
#include <math.h>

#include "cases.h"

#define N 200

static int64_t clamp(int64_t a, int64_t low, int64_t high)
{
	return a < low ? low : a > high ? high : a;
}

static void ref_int(const struct kcase *kase, struct kcase_data *d)
{
	const int64_t *in = d->bytes[0];
	int64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		int64_t a = in[i];
		int64_t rows[] = {(int8_t)a, (uint8_t)a, (int16_t)a, (uint16_t)a, (int32_t)a,
			(uint32_t)a, clamp(a, INT32_MIN, INT32_MAX), clamp(a, 0, UINT32_MAX),
			clamp(a, 0, UINT16_MAX), clamp((int32_t)a, -128, 127),
			clamp((int32_t)a, 0, 255)};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

/* A whole double, clamped to what the type holds; NaN is 0. */
static int64_t held_signed(double whole, double low, double high, int64_t min, int64_t max)
{
	return isnan(whole) ? 0 : whole <= low ? min : whole >= high ? max : (int64_t)whole;
}

static int64_t to_s32(double whole)
{
	return held_signed(whole, -0x1p31, 0x1p31 - 1, INT32_MIN, INT32_MAX);
}

static uint64_t held_unsigned(double whole, double high, uint64_t max)
{
	return isnan(whole) || whole <= 0 ? 0 : whole >= high ? max : (uint64_t)whole;
}

static void ref_to_int(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	int64_t *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		double a = in[i];
		int64_t rows[] = {to_s32(nearbyint(a)), to_s32(trunc(a)), to_s32(floor(a)),
			to_s32(ceil(a)), (int64_t)held_unsigned(trunc(a), 0x1p32 - 1, UINT32_MAX),
			held_signed(trunc(a), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX),
			(int64_t)held_unsigned(nearbyint(a * 4096), 0x1p64, UINT64_MAX),
			to_s32(ceil(a))};

		/* Where f64 or 64 bits are involved, NaN is the highest bit. */
		if (isnan(a)) {
			rows[5] = rows[6] = INT64_MIN;
			rows[7] = INT32_MIN;
		}

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

/* long double holds every 64-bit integer: which side of its rounding the value lies is plain. */
static float to_f32(long double exact, int direction)
{
	float r = (float)exact;

	if (direction > 0) {
		return (long double)r < exact ? nextafterf(r, INFINITY) : r;
	}
	return direction < 0 && (long double)r > exact ? nextafterf(r, -INFINITY) : r;
}

static void ref_to_float(const struct kcase *kase, struct kcase_data *d)
{
	const int64_t *in = d->bytes[0];
	double *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		int64_t a = in[i];
		double from_unsigned = (double)(uint64_t)a;
		float small = (float)(int32_t)a * 1e-9f;
		double rows[] = {(float)(int32_t)a, to_f32((uint32_t)a, -1), to_f32(a, -1),
			to_f32((uint64_t)a, 1), (double)a, from_unsigned, to_f32(from_unsigned, -1),
			to_f32(from_unsigned, 1),
			small > 1   ? 1
			: small > 0 ? small
				    : 0};

		for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			out[k * N + i] = rows[k];
		}
	}
}

static void ref_whole(const struct kcase *kase, struct kcase_data *d)
{
	const float *in = d->bytes[0];
	float *out = d->expected[1];

	for (unsigned i = 0; i < N; i++) {
		out[0 * N + i] = nearbyintf(in[i]);
		out[1 * N + i] = truncf(in[i]);
		out[2 * N + i] = floorf(in[i]);
		out[3 * N + i] = ceilf(in[i]);
	}
}

#define CASE(entry, in_size, out_size, fill, equal, reference)                                     \
	KCASE_MAP("convert", entry, N, in_size, fill, out_size, equal, reference)

static const struct kcase cases[] = {
	CASE("convert_int", 8, 88, KFILL_INTS64, KEQUAL_BYTES, ref_int),
	CASE("convert_to_int", 4, 64, KFILL_FLOATS_ODD, KEQUAL_BYTES, ref_to_int),
	CASE("convert_to_float", 8, 72, KFILL_INTS64, KEQUAL_F64, ref_to_float),
	CASE("convert_whole", 4, 16, KFILL_FLOATS_ODD, KEQUAL_F32, ref_whole),
};

const struct kcase_set kcases_convert = KSET(cases);
