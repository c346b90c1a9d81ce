/* SPDX-License-Identifier: Apache-2.0 */
/* Floats, rounded to nearest; other modes and flags are in round.c. */
#include <math.h>
#include <string.h>

#include "softgpu/exec/lanes.h"

/* Approximate forms may be exact, so they are computed here. */
static inline bool is_slow(const struct rbt_ptx_inst *i)
{
	return i->flags & (RBT_PTX_FTZ | RBT_PTX_SAT) ||
	       (i->mod != RBT_PTX_RN && i->mod != RBT_PTX_APPROX);
}

/* F1, F2, F3: op_NAME is the loop, unless the instruction has further flags. */
#define F1(type, name, expression)                                                                 \
	X1(type, type, fast_##name, expression)                                                    \
	FAST(type, name)
#define F2(type, name, expression)                                                                 \
	X2(type, fast_##name, expression)                                                          \
	FAST(type, name)
#define F3(type, name, expression)                                                                 \
	X3(type, fast_##name, expression)                                                          \
	FAST(type, name)
#define FAST(type, name)                                                                           \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		return __builtin_expect(is_slow(i), 0) ? exec_slow_##type(w, i, mask)              \
						       : op_fast_##name(w, i, mask);               \
	}

F2(f32, ADD_F32, x + y)
F2(f64, ADD_F64, x + y)
F2(f32, SUB_F32, x - y)
F2(f64, SUB_F64, x - y)
F2(f32, MUL_F32, x *y)
F2(f64, MUL_F64, x *y)
F3(f32, FMA_F32, __builtin_fmaf(x, y, z))
F3(f64, FMA_F64, __builtin_fma(x, y, z))
F2(f32, DIV_F32, x / y)
F2(f64, DIV_F64, x / y)
F1(f32, SQRT_F32, sqrtf(x))
F1(f64, SQRT_F64, sqrt(x))
F1(f32, RCP_F32, 1.0f / x)
F1(f64, RCP_F64, 1.0 / x)
/*
 * A number wins against a NaN, and of two zeros the one with its sign set is the smaller: equal
 * numbers differ in that bit alone.
 */
#define CHOOSE(name, type, word)                                                                   \
	static inline type name(type x, type y, bool greatest)                                     \
	{                                                                                          \
		word a, b, r;                                                                      \
                                                                                                   \
		memcpy(&a, &x, sizeof(a));                                                         \
		memcpy(&b, &y, sizeof(b));                                                         \
		r = (greatest ? x > y : x < y) ? a : b;                                            \
		r = x == y ? (greatest ? a & b : a | b) : r;                                       \
		r = y != y ? a : r;                                                                \
		r = x != x ? b : r;                                                                \
		memcpy(&x, &r, sizeof(x));                                                         \
		return x;                                                                          \
	}
CHOOSE(choose_f32, float, uint32_t)
CHOOSE(choose_f64, double, uint64_t)
F2(f32, MIN_F32, choose_f32(x, y, false))
F2(f32, MAX_F32, choose_f32(x, y, true))
F2(f64, MIN_F64, choose_f64(x, y, false))
F2(f64, MAX_F64, choose_f64(x, y, true))
F1(f32, NEG_F32, -x)
F1(f64, NEG_F64, -x)
F1(f32, ABS_F32, __builtin_fabsf(x))
F1(f64, ABS_F64, __builtin_fabs(x))
X2(f32, COPYSIGN_F32, __builtin_copysignf(y, x))
X2(f64, COPYSIGN_F64, __builtin_copysign(y, x))

void EXEC_AT_LEVEL(exec_fill_float)(exec_op *ops)
{
	EXEC_SET(ADD_F32), EXEC_SET(ADD_F64), EXEC_SET(SUB_F32), EXEC_SET(SUB_F64);
	EXEC_SET(MUL_F32), EXEC_SET(MUL_F64), EXEC_SET(FMA_F32), EXEC_SET(FMA_F64);
	EXEC_SET(DIV_F32), EXEC_SET(DIV_F64), EXEC_SET(SQRT_F32), EXEC_SET(SQRT_F64);
	EXEC_SET(RCP_F32), EXEC_SET(RCP_F64), EXEC_SET(NEG_F32), EXEC_SET(NEG_F64);
	EXEC_SET(ABS_F32), EXEC_SET(ABS_F64), EXEC_SET(COPYSIGN_F32), EXEC_SET(COPYSIGN_F64);
	EXEC_SET(MIN_F32), EXEC_SET(MIN_F64), EXEC_SET(MAX_F32), EXEC_SET(MAX_F64);
	ops[RBT_PTX_RSQRT_F32] = ops[RBT_PTX_EX2_F32] = ops[RBT_PTX_LG2_F32] = exec_slow_f32;
	ops[RBT_PTX_SIN_F32] = ops[RBT_PTX_COS_F32] = exec_slow_f32;
	ops[RBT_PTX_TANH_F32] = exec_slow_f32;
	ops[RBT_PTX_RSQRT_F64] = exec_slow_f64;
}
