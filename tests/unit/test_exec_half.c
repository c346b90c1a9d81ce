/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16 and bf16 in the executor: every value there and back, and results against exact integers, of
 * 128 bits where it takes them.
 */
#include <math.h>

#include "check.h"
#include "softgpu/exec/half.h"

__extension__ typedef __int128 wide;

static uint64_t random_next(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}

/* A format's value is fraction * 2^scale; its digits include the leading one. */
struct format {
	int digits, least; /* scale of the smallest number */
	uint32_t infinity;
};
static const struct format formats[] = {{11, -24, 0x7c00}, {8, -133, 0x7f80}};

/* The nearest to value * 2^scale, and which neighbour when it lies between two. */
static uint32_t nearest(wide value, int scale, const struct format *f, unsigned mod)
{
	uint32_t sign = value < 0 ? 0x8000 : 0;
	wide v = value < 0 ? -value : value, rest = 0, half = 0;
	int at = scale;
	uint64_t bits;

	for (; v >> f->digits != 0 || at < f->least; at++) {
		/* The bits cut off so far, and what their half would be. */
		half = half == 0 ? 1 : half * 2;
		rest += (v & 1) * half;
		v >>= 1;
		if (half >> 100 != 0) {
			/* Only whether there is something matters by now. */
			rest = rest != 0;
			half = 4;
		}
	}
	if (rest != 0) {
		bool up = mod == RBT_PTX_RZ   ? false
			  : mod == RBT_PTX_RM ? sign != 0
			  : mod == RBT_PTX_RP ? sign == 0
					      : rest > half || (rest == half && (v & 1) != 0);
		v += up;
	}
	for (; v != 0 && v >> (f->digits - 1) == 0 && at > f->least; at--) {
		v *= 2;
	}
	bits = ((uint64_t)(at - f->least) << (f->digits - 1)) + (uint64_t)v;
	if (v >> (f->digits - 1) == 0) {
		bits = (uint64_t)v;
	}
	if (bits >= f->infinity) {
		bool to_infinity = mod == RBT_PTX_RN || mod == (sign ? RBT_PTX_RM : RBT_PTX_RP);
		bits = f->infinity - !to_infinity;
	}
	return sign | (uint32_t)bits;
}

static void fraction_of(uint32_t h, const struct format *f, int64_t *ret_fraction, int *ret_scale)
{
	int exponent = (int)(h & 0x7fff) >> (f->digits - 1);
	int64_t fraction = h & ((1u << (f->digits - 1)) - 1);

	fraction += exponent > 0 ? 1ll << (f->digits - 1) : 0;
	*ret_fraction = h & 0x8000 ? -fraction : fraction;
	*ret_scale = f->least + (exponent > 0 ? exponent - 1 : 0);
}

static void test_values(bool is_bf16)
{
	const struct format *f = &formats[is_bf16];

	for (uint32_t h = 0; h < 0x10000; h++) {
		float value = half_to_f32(h, is_bf16);
		uint32_t back = is_bf16 ? bf16_from_f32(value) : f16_from_f32(value);
		int64_t fraction;
		int scale;

		if ((h & 0x7fff) >= f->infinity) {
			bool is_nan = (h & 0x7fff) > f->infinity;
			CHECK(is_nan ? isnan(value)
				     : isinf(value) && !signbit(value) == !(h >> 15));
			CHECK_INT(back, is_nan ? HALF_NAN : h);
			CHECK_INT(half_round(value, is_bf16, RBT_PTX_RP), is_nan ? HALF_NAN : h);
			continue;
		}
		fraction_of(h, f, &fraction, &scale);
		CHECK((double)value == ldexp((double)fraction, scale));
		CHECK_INT(back, h);
		for (unsigned mod = RBT_PTX_RN; mod <= RBT_PTX_RP; mod++) {
			CHECK_INT(half_round(value, is_bf16, mod), h);
		}
	}
}

/* From f32: any, and such as lie at and beside the middle between two halves. */
static void test_rounding(bool is_bf16)
{
	for (unsigned n = 0; n < 400000; n++) {
		uint32_t bits = (uint32_t)random_next();
		int exponent;
		wide value;

		if (n % 2) {
			float near = half_to_f32(bits & 0x7fff, is_bf16);
			uint32_t middle = half_bits(near) + (is_bf16 ? 0x8000 : 0x1000);

			bits = (middle + (bits >> 16) % 3 - 1) | (bits & 0x80000000);
		}
		exponent = (int)(bits >> 23 & 0xff);
		if (exponent == 0xff) {
			continue;
		}
		value = (bits & 0x7fffff) + (exponent ? 0x800000 : 0);
		value = bits >> 31 ? -value : value;
		exponent = (exponent ? exponent : 1) - 150;
		for (unsigned mod = RBT_PTX_RN; mod <= RBT_PTX_RP; mod++) {
			/* An integer has no sign when it is 0. */
			uint32_t expected = nearest(value, exponent, &formats[is_bf16], mod) |
					    (bits >> 16 & 0x8000);

			CHECK_INT(half_round(half_float(bits), is_bf16, mod), expected);
			if (mod == RBT_PTX_RN) {
				CHECK_INT(is_bf16 ? bf16_from_f32(half_float(bits))
						  : f16_from_f32(half_float(bits)),
					expected);
			}
		}
	}
}

/* x * y + z as one integer: f16 always fits; of bf16, what is not too far apart. */
static void test_fused(bool is_bf16)
{
	const struct format *f = &formats[is_bf16];
	unsigned tried = 0;

	for (unsigned n = 0; n < 400000; n++) {
		uint64_t any = random_next();
		uint32_t h[3] = {any & 0xffff, any >> 16 & 0xffff, any >> 32 & 0xffff}, got;
		int64_t fraction[3];
		int scale[3], low;
		wide sum;

		/* Of bf16, exponents near each other. */
		for (unsigned k = 0; is_bf16 && k < 3; k++) {
			h[k] = (h[k] & 0x807f) | ((h[k] >> 7 & 31) + 112) << 7;
		}
		for (unsigned k = 0; k < 3; k++) {
			fraction_of(h[k], f, &fraction[k], &scale[k]);
		}
		low = scale[0] + scale[1] < scale[2] ? scale[0] + scale[1] : scale[2];
		if ((h[0] & 0x7fff) >= f->infinity || (h[1] & 0x7fff) >= f->infinity ||
			(h[2] & 0x7fff) >= f->infinity || scale[0] + scale[1] - low > 90 ||
			scale[2] - low > 90) {
			continue;
		}
		sum = fraction[0] * fraction[1] * ((wide)1 << (scale[0] + scale[1] - low)) +
		      fraction[2] * ((wide)1 << (scale[2] - low));
		got = is_bf16 ? bf16_fma(bf16_to_f32(h[0]), bf16_to_f32(h[1]), bf16_to_f32(h[2]))
			      : f16_fma(f16_to_f32(h[0]), f16_to_f32(h[1]), f16_to_f32(h[2]));
		if (sum != 0) {
			CHECK_INT(got, nearest(sum, low, f, RBT_PTX_RN));
			tried++;
		} else {
			CHECK((got & 0x7fff) == 0);
		}
	}
	CHECK(tried > 200000);
}

/* Sums whose parts are so far apart that f64 loses the smaller one, which yet decides. */
static void test_sticky(void)
{
	/* 2^80 * (1 + 2^-8), the middle between two, and 2^-40 more or less. */
	float x = 0x1.01p40f, y = 0x1p40f, z = 0x1p-40f;

	CHECK_INT(bf16_fma(0x1.02p40f, 0x1.02p40f, 0), bf16_from_f32(0x1.04p80f));
	CHECK_INT(bf16_fma(x, y, 0), bf16_from_f32(0x1p80f));
	CHECK_INT(bf16_fma(x, y, z), bf16_from_f32(0x1.02p80f));
	CHECK_INT(bf16_fma(x, y, -z), bf16_from_f32(0x1p80f));
	CHECK_INT(bf16_fma(-x, y, -z), bf16_from_f32(-0x1.02p80f));
	/* Too large for f32 on the way, and back in range. */
	CHECK_INT(bf16_fma(0x1p100f, 0x1p28f, -0x1p127f), bf16_from_f32(0x1p127f));
	CHECK_INT(bf16_fma(0x1p100f, 0x1p29f, 0), HALF_BF16_INF);
	CHECK(f32_from_f64(0x1.000001p0) == 0x1.000002p0f);
	CHECK(f32_from_f64(0x1.0000030000001p0) == 0x1.000002p0f);
	CHECK(f32_from_f64(0x1p-200) == 0x1p-149f);
	CHECK(f32_from_f64(-0x1p200) == -0x1.fffffep127f);
	CHECK(isinf(f32_from_f64((double)INFINITY)));
	CHECK(isnan(f32_from_f64((double)NAN)));
	CHECK_INT(f16_fma(INFINITY, 1, 0), HALF_F16_INF);
	CHECK_INT(f16_fma(INFINITY, 1, -INFINITY), HALF_NAN);
	CHECK_INT(f16_fma(0, INFINITY, 1), HALF_NAN);
	CHECK_INT(bf16_fma((double)INFINITY, -1, 5), HALF_SIGN | HALF_BF16_INF);
}

static void test_flags(void)
{
	CHECK_INT(half_finished(0x3c01, false, RBT_PTX_SAT), 0x3c00);
	CHECK_INT(half_finished(0x3bff, false, RBT_PTX_SAT), 0x3bff);
	CHECK_INT(half_finished(0x8001, false, RBT_PTX_SAT), 0);
	CHECK_INT(half_finished(HALF_NAN, false, RBT_PTX_SAT), 0);
	CHECK_INT(half_finished(0x4000, true, RBT_PTX_SAT), 0x3f80);
	CHECK_INT(half_finished(0x83ff, false, RBT_PTX_FTZ), 0x8000);
	CHECK_INT(half_finished(0x0400, false, RBT_PTX_FTZ), 0x0400);
	CHECK_INT(half_finished(0xbc00, false, RBT_PTX_RELU), 0);
	CHECK_INT(half_finished(HALF_NAN, false, RBT_PTX_RELU), HALF_NAN);
}

int main(void)
{
	for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
		test_values(is_bf16);
		test_rounding(is_bf16);
		test_fused(is_bf16);
	}
	test_sticky();
	test_flags();
	return check_result();
}
