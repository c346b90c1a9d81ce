/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f16 and bf16, as 16 bits. They are computed in f32 or f64 and rounded once. An intermediate value
 * that does not fit is rounded to odd (its last bit tells that something was cut off); then
 * rounding it to at least two bits fewer gives the same as rounding the exact value. Mostly without
 * branches, so that loops become vectors. Requires that the host rounds to nearest.
 */
#ifndef RBT_SOFTGPU_EXEC_HALF_H
#define RBT_SOFTGPU_EXEC_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "softgpu/ptx/ir.h"

#define HALF_NAN      0x7fffu /* the representation of NaN in both formats */
#define HALF_SIGN     0x8000u
#define HALF_F16_INF  0x7c00u
#define HALF_BF16_INF 0x7f80u

static inline uint32_t half_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static inline float half_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline float f16_to_f32(uint32_t h)
{
	/* Moves fraction and exponent to their place in f32; the exponent's offset is 112 less. */
	uint32_t x = (h & 0x7fff) << 13, exponent = x & 0x0f800000;
	uint32_t normal = x + (112u << 23) + (exponent == 0x0f800000 ? 112u << 23 : 0);
	uint32_t tiny = half_bits(half_float(x + (113u << 23)) - half_float(113u << 23));

	return half_float((exponent == 0 ? tiny : normal) | (h & HALF_SIGN) << 16);
}

static inline uint32_t f16_from_f32(float f)
{
	uint32_t bits = half_bits(f), x = bits & 0x7fffffff;
	uint32_t large = x > 0x7f800000 ? HALF_NAN : HALF_F16_INF;
	uint32_t normal = (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13;
	/* An ulp of 0.5f is the smallest f16: the addition rounds. */
	uint32_t tiny = half_bits(half_float(x < 0x38800000 ? x : 0) + 0.5f) - half_bits(0.5f);
	uint32_t r = x >= 0x47800000 ? large : x < 0x38800000 ? tiny : normal;

	return r | (x > 0x7f800000 ? 0 : bits >> 16 & HALF_SIGN);
}

static inline float bf16_to_f32(uint32_t h)
{
	return half_float(h << 16);
}

static inline uint32_t bf16_from_f32(float f)
{
	uint32_t bits = half_bits(f);
	uint32_t r = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (bits & 0x7fffffff) > 0x7f800000 ? HALF_NAN : r;
}

/* The neighbour of `bits` (a magnitude with a sign) whose last bit is set, in the direction of the
 * exact value; or `bits` if nothing was cut off. */
static inline uint32_t odd_f32(float rounded, bool larger, bool smaller)
{
	uint32_t bits = half_bits(rounded);

	/* No && here or below: the compiler would make branches of them. */
	return bits + (~bits & larger) - (~bits & smaller);
}

/* To f32, rounded to odd. */
static inline float f32_from_f64(double d)
{
	float f = (float)d;
	double back = f;
	bool is_less = __builtin_fabs(back) < __builtin_fabs(d);
	bool is_more = __builtin_fabs(back) > __builtin_fabs(d);

	return half_float(odd_f32(f, is_less, is_more));
}

/* x * y is exact in f32, and so is the error of the sum. */
static inline uint32_t f16_fma(float x, float y, float z)
{
	float product = x * y, sum = product + z, part = sum - product;
	float lost = (product - (sum - part)) + (z - part);
	bool is_out = ((lost > 0) & (sum > 0)) | ((lost < 0) & (sum < 0));
	bool is_in = ((lost > 0) & (sum < 0)) | ((lost < 0) & (sum > 0));

	return f16_from_f32(half_float(odd_f32(sum, is_out, is_in)));
}

/* bf16 has the range of f32, so an exact product needs f64. */
static inline uint32_t bf16_fma(double x, double y, double z)
{
	double product = x * y, sum = product + z, part = sum - product;
	double lost = (product - (sum - part)) + (z - part);
	bool is_out = ((lost > 0) & (sum > 0)) | ((lost < 0) & (sum < 0));
	bool is_in = ((lost > 0) & (sum < 0)) | ((lost < 0) & (sum > 0));
	uint64_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	bits = bits + (~bits & is_out) - (~bits & is_in);
	memcpy(&sum, &bits, sizeof(sum));
	return bf16_from_f32(f32_from_f64(sum));
}

static inline bool half_is_bf16(unsigned type)
{
	return type == RBT_PTX_BF16 || type == RBT_PTX_BF16X2;
}

static inline bool half_is_pair(unsigned type)
{
	return type == RBT_PTX_F16X2 || type == RBT_PTX_BF16X2;
}

static inline float half_to_f32(uint32_t h, bool is_bf16)
{
	return is_bf16 ? bf16_to_f32(h) : f16_to_f32(h);
}

/*
 * Rounds in any direction, from an f32 that is exact or was rounded to odd. The value is first cut
 * towards zero, with a note of what was cut: 0, or 1 to 3 for less than, exactly, or more than half
 * of the last place.
 */
static inline uint32_t half_round(float f, bool is_bf16, unsigned mod)
{
	uint32_t bits = half_bits(f), x = bits & 0x7fffffff, cut, rest, place;
	bool is_negative = bits >> 31, up;

	if (x >= 0x7f800000) {
		return x > 0x7f800000 ? HALF_NAN
				      : (is_negative ? HALF_SIGN : 0) |
						(is_bf16 ? HALF_BF16_INF : HALF_F16_INF);
	}
	if (is_bf16) {
		cut = x >> 16;
		rest = x & 0xffff;
		place = 0x10000;
	} else if (x >= 0x47800000) {
		cut = HALF_F16_INF - 1;
		rest = 3;
		place = 4;
	} else if (x >= 0x38800000) {
		cut = (x - (112u << 23)) >> 13;
		rest = x & 0x1fff;
		place = 0x2000;
	} else {
		uint32_t shift = 126 - (x >> 23), fraction = (x & 0x7fffff) | 0x800000;

		/* Values below a quarter of the smallest are all rounded alike. */
		cut = shift > 25 ? 0 : fraction >> shift;
		rest = shift > 25 ? x != 0 : fraction & ((1u << shift) - 1);
		place = shift > 25 ? 4 : 1u << shift;
	}
	up = mod == RBT_PTX_RZ   ? false
	     : mod == RBT_PTX_RM ? is_negative && rest
	     : mod == RBT_PTX_RP ? !is_negative && rest
				 : rest * 2 + (cut & 1) > place;
	return (cut + up) | (is_negative ? HALF_SIGN : 0);
}

/* The effect of FTZ on an operand or result, and of SAT and RELU on a result. */
static inline uint32_t half_flushed(uint32_t h, bool is_bf16)
{
	uint32_t exponent = is_bf16 ? HALF_BF16_INF : HALF_F16_INF;

	return h & exponent ? h : h & HALF_SIGN;
}

static inline uint32_t half_finished(uint32_t h, bool is_bf16, unsigned flags)
{
	bool is_nan = (h & 0x7fff) > (is_bf16 ? HALF_BF16_INF : HALF_F16_INF);

	h = flags & RBT_PTX_FTZ ? half_flushed(h, is_bf16) : h;
	if (flags & RBT_PTX_SAT) {
		uint32_t one = is_bf16 ? 0x3f80 : 0x3c00;
		h = is_nan || h & HALF_SIGN ? 0 : h > one ? one : h;
	}
	if (flags & RBT_PTX_RELU && !is_nan) {
		h = h & HALF_SIGN ? 0 : h;
	}
	return h;
}

#endif
