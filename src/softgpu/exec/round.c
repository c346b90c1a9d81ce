/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats with directed rounding, flushed subnormals or saturation, and functions that cannot be
 * vectorised. One lane after the other. Compiled so that the rounding mode is respected
 * (meson.build).
 */
#include <fenv.h>
#include <math.h>

#include "softgpu/exec/impl.h"

/* Changes the host's rounding mode; it is reset when the operation ends. */
static void set_rounding(const struct rbt_ptx_inst *i)
{
	static const int modes[] = {[RBT_PTX_RN] = FE_TONEAREST,
		[RBT_PTX_RZ] = FE_TOWARDZERO,
		[RBT_PTX_RM] = FE_DOWNWARD,
		[RBT_PTX_RP] = FE_UPWARD};

	/* For min and max, mod has another meaning, and nothing is rounded. */
	bool is_choice = i->op == RBT_PTX_MIN_F32 || i->op == RBT_PTX_MAX_F32 ||
			 i->op == RBT_PTX_MIN_F64 || i->op == RBT_PTX_MAX_F64;

	fesetround(i->mod <= RBT_PTX_RP && !is_choice ? modes[i->mod] : FE_TONEAREST);
}

/* -0 is less than +0; a number wins against a NaN. */
static double least(double x, double y)
{
	return isnan(x) ? y : isnan(y) ? x : x < y || (x == y && signbit(x)) ? x : y;
}

static double greatest(double x, double y)
{
	return isnan(x) ? y : isnan(y) ? x : x > y || (x == y && !signbit(x)) ? x : y;
}

static float function_f32(unsigned op, float x)
{
	switch (op) {
	case RBT_PTX_SQRT_F32:
		return sqrtf(x);
	case RBT_PTX_RCP_F32:
		return 1.0f / x;
	case RBT_PTX_NEG_F32:
		return -x;
	case RBT_PTX_ABS_F32:
		return fabsf(x);
	case RBT_PTX_RSQRT_F32:
		return (float)(1.0 / sqrt((double)x));
	case RBT_PTX_EX2_F32:
		return exp2f(x);
	case RBT_PTX_LG2_F32:
		return log2f(x);
	case RBT_PTX_SIN_F32:
		return sinf(x);
	case RBT_PTX_TANH_F32:
		return tanhf(x);
	default:
		return cosf(x);
	}
}

/* min or max with additional rules (enum rbt_ptx_minmax). */
static double choose(unsigned mod, bool greatest_wins, double x, double y)
{
	double r;

	if (mod & RBT_PTX_MINMAX_NAN && (isnan(x) || isnan(y))) {
		return NAN;
	}
	if (!(mod & RBT_PTX_MINMAX_XORSIGN)) {
		return greatest_wins ? greatest(x, y) : least(x, y);
	}
	r = greatest_wins ? greatest(fabs(x), fabs(y)) : least(fabs(x), fabs(y));
	return signbit(x) != signbit(y) ? -r : r;
}

static float compute_f32(const struct rbt_ptx_inst *i, float x, float y, float z)
{
	switch (i->op) {
	case RBT_PTX_ADD_F32:
		return x + y;
	case RBT_PTX_SUB_F32:
		return x - y;
	case RBT_PTX_MUL_F32:
		return x * y;
	case RBT_PTX_FMA_F32:
		return fmaf(x, y, z);
	case RBT_PTX_DIV_F32:
		return x / y;
	case RBT_PTX_MIN_F32:
		return (float)choose(i->mod, false, x, y);
	case RBT_PTX_MAX_F32:
		return (float)choose(i->mod, true, x, y);
	default:
		return function_f32(i->op, x);
	}
}

static double compute_f64(const struct rbt_ptx_inst *i, double x, double y, double z)
{
	switch (i->op) {
	case RBT_PTX_ADD_F64:
		return x + y;
	case RBT_PTX_SUB_F64:
		return x - y;
	case RBT_PTX_MUL_F64:
		return x * y;
	case RBT_PTX_FMA_F64:
		return fma(x, y, z);
	case RBT_PTX_DIV_F64:
		return x / y;
	case RBT_PTX_MIN_F64:
		return choose(i->mod, false, x, y);
	case RBT_PTX_MAX_F64:
		return choose(i->mod, true, x, y);
	case RBT_PTX_SQRT_F64:
		return sqrt(x);
	case RBT_PTX_RCP_F64:
		return 1.0 / x;
	case RBT_PTX_NEG_F64:
		return -x;
	case RBT_PTX_ABS_F64:
		return fabs(x);
	default:
		return 1.0 / sqrt(x);
	}
}

static float flushed(const struct rbt_ptx_inst *i, float x)
{
	return i->flags & RBT_PTX_FTZ && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* To [0, 1]; NaN becomes 0. */
static double saturated(const struct rbt_ptx_inst *i, double x)
{
	return !(i->flags & RBT_PTX_SAT) ? x : x > 1 ? 1 : x > 0 ? x : 0;
}

#define LANE_OF(file, type, slot) ((slot) == RBT_PTX_NO_SLOT ? 0 : ((const type *)w->file[slot])[l])

int exec_slow_f32(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	set_rounding(i);
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		/* Through memory: otherwise the compiler may compute before the mode is set. */
		volatile float x = flushed(i, LANE_OF(r32, float, i->a));
		volatile float y = flushed(i, LANE_OF(r32, float, i->b));
		volatile float z = flushed(i, LANE_OF(r32, float, i->c));
		volatile float r = compute_f32(i, x, y, z);

		((float *)w->r32[i->d[0]])[l] = (float)saturated(i, flushed(i, r));
	}
	fesetround(FE_TONEAREST);
	return 0;
}

int exec_slow_f64(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	set_rounding(i);
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		volatile double x = LANE_OF(r64, double, i->a), y = LANE_OF(r64, double, i->b);
		volatile double z = LANE_OF(r64, double, i->c);
		volatile double r = compute_f64(i, x, y, z);

		((double *)w->r64[i->d[0]])[l] = saturated(i, r);
	}
	fesetround(FE_TONEAREST);
	return 0;
}
