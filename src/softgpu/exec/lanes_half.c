/* SPDX-License-Identifier: Apache-2.0 */
/* f16 and bf16, single or two in a word: loops over lanes, one for each of the four types. */
#include <math.h>

#include "softgpu/exec/half.h"
#include "softgpu/exec/lanes.h"

typedef uint32_t (*half_fn)(uint32_t x, uint32_t y, uint32_t z);

/* Makes name_f16 and name_bf16, functions of f32 x, y, z; the expression itself rounds the
 * result. */
#define HALF(name, f16_expression, bf16_expression)                                                \
	static inline uint32_t name##_f16(uint32_t a, uint32_t b, uint32_t c)                      \
	{                                                                                          \
		float x = f16_to_f32(a), y = f16_to_f32(b), z = f16_to_f32(c);                     \
		(void)y, (void)z;                                                                  \
		return f16_expression;                                                             \
	}                                                                                          \
	static inline uint32_t name##_bf16(uint32_t a, uint32_t b, uint32_t c)                     \
	{                                                                                          \
		float x = bf16_to_f32(a), y = bf16_to_f32(b), z = bf16_to_f32(c);                  \
		(void)y, (void)z;                                                                  \
		return bf16_expression;                                                            \
	}

/* A sum in f32 has more than twice the bits of either operand, plus two: rounding it again is safe.
 * A product of bf16 may be too small for f32, but not for f64. */
HALF(add, f16_from_f32(x + y), bf16_from_f32(x + y))
HALF(sub, f16_from_f32(x - y), bf16_from_f32(x - y))
HALF(mul, f16_from_f32(x *y), bf16_from_f32(f32_from_f64((double)x *y)))
HALF(fma, f16_fma(x, y, z), bf16_fma(x, y, z))
HALF(ex2, f16_from_f32(exp2f(x)), bf16_from_f32(exp2f(x)))
HALF(tanh, f16_from_f32(tanhf(x)), bf16_from_f32(tanhf(x)))

/* Changes signs alone, also of NaN. */
#define SIGN(name, expression)                                                                     \
	static inline uint32_t name##_f16(uint32_t a, uint32_t b, uint32_t c)                      \
	{                                                                                          \
		return expression;                                                                 \
	}                                                                                          \
	static inline uint32_t name##_bf16(uint32_t a, uint32_t b, uint32_t c)                     \
	{                                                                                          \
		return expression;                                                                 \
	}
SIGN(neg, (a & 0xffff) ^ HALF_SIGN)
SIGN(abs, a & 0x7fff)

/* Integers in the order of the values, -0 before 0. */
static inline int32_t order_of(uint32_t h)
{
	return h & HALF_SIGN ? -(int32_t)(h & 0x7fff) - 1 : (int32_t)h;
}

static inline uint32_t choose(uint32_t a, uint32_t b, uint32_t infinity, bool greatest)
{
	bool a_nan = (a & 0x7fff) > infinity, b_nan = (b & 0x7fff) > infinity;
	bool first = b_nan | ((order_of(a) < order_of(b)) != greatest);
	uint32_t r = (a_nan | !first) ? b : a;

	return (a_nan & b_nan) ? HALF_NAN : r;
}
#define CHOICE(name, greatest)                                                                     \
	static inline uint32_t name##_f16(uint32_t a, uint32_t b, uint32_t c)                      \
	{                                                                                          \
		return choose(a & 0xffff, b & 0xffff, HALF_F16_INF, greatest);                     \
	}                                                                                          \
	static inline uint32_t name##_bf16(uint32_t a, uint32_t b, uint32_t c)                     \
	{                                                                                          \
		return choose(a & 0xffff, b & 0xffff, HALF_BF16_INF, greatest);                    \
	}
CHOICE(min, false)
CHOICE(max, true)

/* The additional rules of min and max (enum rbt_ptx_minmax). */
static uint32_t choose_more(const struct rbt_ptx_inst *i, half_fn fn, uint32_t a, uint32_t b)
{
	uint32_t infinity = half_is_bf16(i->type) ? HALF_BF16_INF : HALF_F16_INF;
	bool is_nan = (a & 0x7fff) > infinity || (b & 0x7fff) > infinity;

	if (i->mod & RBT_PTX_MINMAX_NAN && is_nan) {
		return HALF_NAN;
	}
	if (i->mod & RBT_PTX_MINMAX_XORSIGN) {
		uint32_t r = fn(a & 0x7fff, b & 0x7fff, 0);
		return r == HALF_NAN ? r : r | ((a ^ b) & HALF_SIGN);
	}
	return fn(a, b, 0);
}

static uint32_t one_slowly(
	const struct rbt_ptx_inst *i, half_fn fn, uint32_t a, uint32_t b, uint32_t c)
{
	bool is_bf16 = half_is_bf16(i->type);
	uint32_t r;

	if (i->flags & RBT_PTX_FTZ) {
		a = half_flushed(a, is_bf16);
		b = half_flushed(b, is_bf16);
		c = half_flushed(c, is_bf16);
	}
	if (i->op == RBT_PTX_MIN_HALF || i->op == RBT_PTX_MAX_HALF) {
		r = choose_more(i, fn, a, b);
	} else {
		r = fn(a, b, c);
	}
	return half_finished(r, is_bf16, i->flags);
}

/* With flags: one lane after the other. */
static int slowly(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, half_fn fn)
{
	const uint32_t *a = w->r32[i->a], *b = w->r32[i->b == RBT_PTX_NO_SLOT ? i->a : i->b],
		       *c = w->r32[i->c == RBT_PTX_NO_SLOT ? i->a : i->c];

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint32_t r = one_slowly(i, fn, a[l] & 0xffff, b[l] & 0xffff, c[l] & 0xffff);

		if (half_is_pair(i->type)) {
			r |= one_slowly(i, fn, a[l] >> 16, b[l] >> 16, c[l] >> 16) << 16;
		}
		w->r32[i->d[0]][l] = r;
	}
	return 0;
}

#define ONE(fn) fn(a[l], b[l], c[l])
#define BOTH(fn)                                                                                   \
	(fn(a[l] & 0xffff, b[l] & 0xffff, c[l] & 0xffff) | fn(a[l] >> 16, b[l] >> 16, c[l] >> 16)  \
								   << 16)
#define HALF_OP(name, fn)                                                                          \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		uint32_t *d = w->r32[i->d[0]];                                                     \
		const uint32_t *a = w->r32[i->a];                                                  \
		const uint32_t *b = w->r32[i->b == RBT_PTX_NO_SLOT ? i->a : i->b];                 \
		const uint32_t *c = w->r32[i->c == RBT_PTX_NO_SLOT ? i->a : i->c];                 \
                                                                                                   \
		if (i->flags & (RBT_PTX_FTZ | RBT_PTX_SAT | RBT_PTX_RELU) ||                       \
			(i->mod != 0 && i->mod != RBT_PTX_APPROX)) {                               \
			return slowly(w, i, mask, half_is_bf16(i->type) ? fn##_bf16 : fn##_f16);   \
		}                                                                                  \
		if (i->type == RBT_PTX_F16) {                                                      \
			EXEC_WRITE(u32, ONE(fn##_f16))                                             \
		} else if (i->type == RBT_PTX_BF16) {                                              \
			EXEC_WRITE(u32, ONE(fn##_bf16))                                            \
		} else if (i->type == RBT_PTX_F16X2) {                                             \
			EXEC_WRITE(u32, BOTH(fn##_f16))                                            \
		} else {                                                                           \
			EXEC_WRITE(u32, BOTH(fn##_bf16))                                           \
		}                                                                                  \
	}
HALF_OP(ADD_HALF, add)
HALF_OP(SUB_HALF, sub)
HALF_OP(MUL_HALF, mul)
HALF_OP(FMA_HALF, fma)
HALF_OP(NEG_HALF, neg)
HALF_OP(ABS_HALF, abs)
HALF_OP(MIN_HALF, min)
HALF_OP(MAX_HALF, max)

/* The host's own functions are not vectorised. */
static int op_EX2_HALF(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	return slowly(w, i, mask, half_is_bf16(i->type) ? ex2_bf16 : ex2_f16);
}

static int op_TANH_HALF(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	return slowly(w, i, mask, half_is_bf16(i->type) ? tanh_bf16 : tanh_f16);
}

static int op_CVT_PAIR(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	const float *a = EXEC_SLOT(f32, i->a), *b = EXEC_SLOT(f32, i->b);
	bool is_bf16 = half_is_bf16(i->type);

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uint32_t high = half_round(a[l], is_bf16, i->mod);
		uint32_t low = half_round(b[l], is_bf16, i->mod);

		w->r32[i->d[0]][l] = half_finished(high, is_bf16, i->flags) << 16 |
				     half_finished(low, is_bf16, i->flags);
	}
	return 0;
}

void EXEC_AT_LEVEL(exec_fill_half)(exec_op *ops)
{
	EXEC_SET(ADD_HALF), EXEC_SET(SUB_HALF), EXEC_SET(MUL_HALF), EXEC_SET(FMA_HALF);
	EXEC_SET(NEG_HALF), EXEC_SET(ABS_HALF), EXEC_SET(MIN_HALF), EXEC_SET(MAX_HALF);
	EXEC_SET(EX2_HALF), EXEC_SET(TANH_HALF), EXEC_SET(CVT_PAIR);
}
