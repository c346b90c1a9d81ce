/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the operations on 32 lanes are written. The files lanes_*.c are compiled once for each level
 * of vector instructions (meson.build: EXEC_LEVEL is base or v3), and each fills its operations
 * into that level's table. An operation is a loop over the lanes that the compiler turns into
 * vectors: all lanes at once when all are active, else computed for all and kept for the active
 * ones. So what is computed must be defined for any operand, active or not.
 *
 * A type is named as in PTX. FILE_x is the register file that it lives in, MEM_x what a slot of it
 * holds (16-bit values are zero-extended in 32), VAL_x what it is computed as, OUT_x the way back.
 */
#ifndef RBT_SOFTGPU_EXEC_LANES_H
#define RBT_SOFTGPU_EXEC_LANES_H

#include "softgpu/exec/impl.h"

#define EXEC_JOIN_(a, b) a##_##b
#define EXEC_JOIN(a, b)  EXEC_JOIN_(a, b)
#define EXEC_AT_LEVEL(x) EXEC_JOIN(x, EXEC_LEVEL)

void EXEC_AT_LEVEL(exec_fill_int)(exec_op *ops);
void EXEC_AT_LEVEL(exec_fill_bits)(exec_op *ops);
void EXEC_AT_LEVEL(exec_fill_float)(exec_op *ops);
void EXEC_AT_LEVEL(exec_fill_half)(exec_op *ops);
void EXEC_AT_LEVEL(exec_fill_move)(exec_op *ops);
void EXEC_AT_LEVEL(exec_fill_compare)(exec_op *ops);
void EXEC_AT_LEVEL(exec_fill_memory)(exec_op *ops);
const exec_op *EXEC_AT_LEVEL(exec_ops)(void);

/* Lanes are independent: a destination may be a source, but then at the same lane. */
#ifdef __clang__
#define EXEC_EACH_LANE                                                                             \
	_Pragma("clang loop vectorize(assume_safety)") for (unsigned l = 0; l < EXEC_LANES; l++)
#else
#define EXEC_EACH_LANE _Pragma("GCC ivdep") for (unsigned l = 0; l < EXEC_LANES; l++)
#endif

/*
 * The same, one lane at a time: for loops that read through addresses. There the compiler would
 * choose the processor's gather instruction, which is several times slower.
 */
#ifdef __clang__
#define EXEC_EACH_SINGLE                                                                           \
	_Pragma("clang loop vectorize(disable) unroll_count(8)") for (unsigned l = 0;              \
								      l < EXEC_LANES; l++)
#else
#define EXEC_EACH_SINGLE _Pragma("GCC unroll 8") for (unsigned l = 0; l < EXEC_LANES; l++)
#endif

#define FILE_u16 r32
#define FILE_s16 r32
#define FILE_u32 r32
#define FILE_s32 r32
#define FILE_f32 r32
#define FILE_u64 r64
#define FILE_s64 r64
#define FILE_f64 r64

#define MEM_u16 uint32_t
#define MEM_s16 uint32_t
#define MEM_u32 uint32_t
#define MEM_s32 int32_t
#define MEM_f32 float
#define MEM_u64 uint64_t
#define MEM_s64 int64_t
#define MEM_f64 double

#define VAL_u16 uint16_t
#define VAL_s16 int16_t
#define VAL_u32 uint32_t
#define VAL_s32 int32_t
#define VAL_f32 float
#define VAL_u64 uint64_t
#define VAL_s64 int64_t
#define VAL_f64 double

#define OUT_u16 (uint16_t)
#define OUT_s16 (uint16_t)
#define OUT_u32 (uint32_t)
#define OUT_s32 (int32_t)
#define OUT_f32 (float)
#define OUT_u64 (uint64_t)
#define OUT_s64 (int64_t)
#define OUT_f64 (double)

/* The lanes of a slot. Registers are read as the type that the operation uses. */
#define EXEC_SLOT(type, slot) ((MEM_##type *)w->FILE_##type[slot])

/* Writes `expression` of lane l to d: the two loops of every operation. */
#define EXEC_WRITE(type, expression)                                                               \
	if (mask == EXEC_ALL) {                                                                    \
		EXEC_EACH_LANE                                                                     \
		{                                                                                  \
			d[l] = OUT_##type(expression);                                             \
		}                                                                                  \
	} else {                                                                                   \
		EXEC_EACH_LANE                                                                     \
		{                                                                                  \
			MEM_##type value_ = OUT_##type(expression);                                \
			d[l] = mask >> l & 1 ? value_ : d[l];                                      \
		}                                                                                  \
	}                                                                                          \
	return 0;

/* d = expression of x; of x, y; of x, y, z; with the types of each. Fills op_<name>. */
#define X1(dt, at, name, expression)                                                               \
	static inline VAL_##dt name##_of(VAL_##at x)                                               \
	{                                                                                          \
		return (VAL_##dt)(expression);                                                     \
	}                                                                                          \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		MEM_##dt *d = EXEC_SLOT(dt, i->d[0]);                                              \
		const MEM_##at *a = EXEC_SLOT(at, i->a);                                           \
		EXEC_WRITE(dt, name##_of((VAL_##at)a[l]))                                          \
	}

#define X2T(dt, at, bt, name, expression)                                                          \
	static inline VAL_##dt name##_of(VAL_##at x, VAL_##bt y)                                   \
	{                                                                                          \
		return (VAL_##dt)(expression);                                                     \
	}                                                                                          \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		MEM_##dt *d = EXEC_SLOT(dt, i->d[0]);                                              \
		const MEM_##at *a = EXEC_SLOT(at, i->a);                                           \
		const MEM_##bt *b = EXEC_SLOT(bt, i->b);                                           \
		EXEC_WRITE(dt, name##_of((VAL_##at)a[l], (VAL_##bt)b[l]))                          \
	}
#define X2(type, name, expression) X2T(type, type, type, name, expression)

#define X3T(dt, at, bt, ct, name, expression)                                                      \
	static inline VAL_##dt name##_of(VAL_##at x, VAL_##bt y, VAL_##ct z)                       \
	{                                                                                          \
		return (VAL_##dt)(expression);                                                     \
	}                                                                                          \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		MEM_##dt *d = EXEC_SLOT(dt, i->d[0]);                                              \
		const MEM_##at *a = EXEC_SLOT(at, i->a);                                           \
		const MEM_##bt *b = EXEC_SLOT(bt, i->b);                                           \
		const MEM_##ct *c = EXEC_SLOT(ct, i->c);                                           \
		EXEC_WRITE(dt, name##_of((VAL_##at)a[l], (VAL_##bt)b[l], (VAL_##ct)c[l]))          \
	}
#define X3(type, name, expression) X3T(type, type, type, type, name, expression)

#define EXEC_SET(name) ops[RBT_PTX_##name] = op_##name

#endif
