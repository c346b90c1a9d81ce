/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every conversion, one lane after the other; the common ones have a faster way (lanes_move.c).
 * Compiled so that the rounding mode is respected (meson.build).
 */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "softgpu/exec/half.h"
#include "softgpu/exec/impl.h"
#include "softgpu/ptx/ptx.h"

static bool is_float(unsigned type)
{
	return type >= RBT_PTX_F16 && type <= RBT_PTX_F64;
}

static bool is_signed_type(unsigned type)
{
	return type >= RBT_PTX_S8 && type <= RBT_PTX_S64;
}

static double whole(double x, unsigned mod)
{
	switch (mod) {
	case RBT_PTX_RZ:
	case RBT_PTX_RZI:
		return trunc(x);
	case RBT_PTX_RM:
	case RBT_PTX_RMI:
		return floor(x);
	case RBT_PTX_RP:
	case RBT_PTX_RPI:
		return ceil(x);
	default:
		return nearbyint(x);
	}
}

/*
 * Values out of range are clamped, with or without .sat. NaN is 0 between types of up to 32 bits,
 * else the highest bit alone.
 */
static uint64_t to_integer(const struct rbt_ptx_inst *i, double x)
{
	unsigned bits = rbt_ptx_type_bits(i->type);
	bool is_signed = is_signed_type(i->type);
	double low = is_signed ? -ldexp(1, (int)bits - 1) : 0;
	double high = ldexp(1, is_signed ? (int)bits - 1 : (int)bits);
	uint64_t most = is_signed ? (1ull << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);

	if (isnan(x)) {
		return i->stype != RBT_PTX_F64 && bits < 64 ? 0 : 1ull << (bits - 1);
	}
	x = whole(x, i->mod);
	if (x >= high) {
		return most;
	}
	if (x <= low) {
		return is_signed ? ~most : 0;
	}
	return is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
}

static uint64_t clamp_integer(uint64_t v, bool from_signed, unsigned bits, bool is_signed)
{
	uint64_t most = is_signed ? (1ull << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);

	if (from_signed && (int64_t)v < 0) {
		int64_t least = is_signed ? (int64_t)~most : 0;
		return (int64_t)v < least ? (uint64_t)least : v;
	}
	return v > most ? most : v;
}

static uint64_t extended(uint64_t x, unsigned bits, bool is_signed)
{
	unsigned shift = 64 - bits;

	return is_signed ? (uint64_t)((int64_t)(x << shift) >> shift) : x << shift >> shift;
}

static bool is_half(unsigned type)
{
	return type == RBT_PTX_F16 || type == RBT_PTX_BF16;
}

/* Rounds by itself, while the host rounds to nearest. */
static uint64_t to_half(const struct rbt_ptx_inst *i, double x)
{
	bool is_bf16 = half_is_bf16(i->type);
	unsigned mod = i->mod <= RBT_PTX_RP ? i->mod : RBT_PTX_RN;

	/* FTZ applies to f32 only. */
	return half_finished(half_round(f32_from_f64(x), is_bf16, mod), is_bf16,
		i->flags & ~(unsigned)RBT_PTX_FTZ);
}

/* Makes an integer with no more bits than f64 has; its last bit tells whether others were cut
 * off. */
static double to_odd(uint64_t v, bool is_signed)
{
	bool is_negative = is_signed && (int64_t)v < 0;
	unsigned cut = 0;

	v = is_negative ? -v : v;
	for (; v >> 50; cut++) {
		v = v >> 1 | (v & 1);
	}
	return ldexp(is_negative ? -(double)v : (double)v, (int)cut);
}

static uint64_t from_integer(const struct rbt_ptx_inst *i, uint64_t v)
{
	unsigned sbits = rbt_ptx_type_bits(i->stype), bits = rbt_ptx_type_bits(i->type);
	bool from_signed = is_signed_type(i->stype);
	uint64_t r = 0;

	v = extended(v, sbits, from_signed);
	if (is_half(i->type)) {
		return to_half(i, to_odd(v, from_signed));
	}
	if (i->type == RBT_PTX_F32) {
		volatile float f = from_signed ? (float)(int64_t)v : (float)v;
		f = i->flags & RBT_PTX_SAT ? fminf(fmaxf(f, 0), 1) : f;
		memcpy(&r, (const void *)&f, 4);
	} else if (i->type == RBT_PTX_F64) {
		volatile double d = from_signed ? (double)(int64_t)v : (double)v;
		d = i->flags & RBT_PTX_SAT ? fmin(fmax(d, 0), 1) : d;
		memcpy(&r, (const void *)&d, 8);
	} else {
		r = i->flags & RBT_PTX_SAT
			    ? clamp_integer(v, from_signed, bits, is_signed_type(i->type))
			    : v;
		r = extended(r, bits, is_signed_type(i->type));
	}
	return r;
}

static uint64_t to_float(const struct rbt_ptx_inst *i, double x)
{
	uint64_t r = 0;

	if (i->mod >= RBT_PTX_RNI && i->mod <= RBT_PTX_RPI) {
		x = whole(x, i->mod);
	}
	if (is_half(i->type)) {
		return to_half(i, x);
	}
	if (i->type == RBT_PTX_F64) {
		volatile double d = i->flags & RBT_PTX_SAT ? (x > 1 ? 1 : x > 0 ? x : 0) : x;
		memcpy(&r, (const void *)&d, 8);
	} else {
		volatile double from = x;
		volatile float f = (float)from;

		if (i->flags & RBT_PTX_SAT) {
			f = f > 1 ? 1 : f > 0 ? f : 0;
		}
		if (i->flags & RBT_PTX_FTZ && fabsf(f) < 0x1p-126f) {
			f = copysignf(0, f);
		}
		memcpy(&r, (const void *)&f, 4);
	}
	return r;
}

static uint64_t from_float(const struct rbt_ptx_inst *i, uint64_t v)
{
	double x;

	if (i->stype == RBT_PTX_F32) {
		uint32_t word = (uint32_t)v;
		float f;

		memcpy(&f, &word, 4);
		x = i->flags & RBT_PTX_FTZ && fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
	} else if (is_half(i->stype)) {
		x = half_to_f32((uint32_t)v & 0xffff, half_is_bf16(i->stype));
	} else {
		memcpy(&x, &v, 8);
	}
	if (is_float(i->type)) {
		return to_float(i, x);
	}
	return to_integer(i, x);
}

int exec_slow_cvt(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	static const int modes[] = {[RBT_PTX_RN] = FE_TONEAREST,
		[RBT_PTX_RZ] = FE_TOWARDZERO,
		[RBT_PTX_RM] = FE_DOWNWARD,
		[RBT_PTX_RP] = FE_UPWARD};

	fesetround(i->mod <= RBT_PTX_RP && is_float(i->type) && !is_half(i->type) ? modes[i->mod]
										  : FE_TONEAREST);
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint64_t v = i->sbits == 64 ? w->r64[i->a][l] : w->r32[i->a][l];

		v = is_float(i->stype) ? from_float(i, v) : from_integer(i, v);
		if (i->dbits == 64) {
			w->r64[i->d[0]][l] = v;
		} else {
			w->r32[i->d[0]][l] = (uint32_t)extended(v, i->dbits, false);
		}
	}
	fesetround(FE_TONEAREST);
	return 0;
}
