/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic. Sums and products are computed in unsigned, where they wrap as a GPU's do. */
#include "softgpu/exec/lanes.h"

/* Products of 64 bits. */
__extension__ typedef __int128 wide_s;
__extension__ typedef unsigned __int128 wide_u;

#define U(x) ((uint32_t)(x))
#define W(x) ((uint64_t)(x))

X2(u16, ADD_I16, U(x) + U(y))
X2(u32, ADD_I32, x + y)
X2(u64, ADD_I64, x + y)
X2(u16, SUB_I16, U(x) - U(y))
X2(u32, SUB_I32, x - y)
X2(u64, SUB_I64, x - y)
X2(u16, MUL_LO_I16, U(x) * U(y))
X2(u32, MUL_LO_I32, x *y)
X2(u64, MUL_LO_I64, x *y)

static inline int32_t clamped(int64_t x)
{
	return (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}

X2(s32, ADD_SAT_S32, clamped((int64_t)x + y))
X2(s32, SUB_SAT_S32, clamped((int64_t)x - y))

#define HI_S16(x, y) (((int32_t)(x) * (int32_t)(y)) >> 16)
#define HI_U16(x, y) ((U(x) * U(y)) >> 16)
#define HI_S32(x, y) (((int64_t)(x) * (int64_t)(y)) >> 32)
#define HI_U32(x, y) ((W(x) * W(y)) >> 32)
#define HI_S64(x, y) ((uint64_t)(((wide_s)(x) * (wide_s)(y)) >> 64))
#define HI_U64(x, y) ((uint64_t)(((wide_u)(x) * (wide_u)(y)) >> 64))

X2(s16, MUL_HI_S16, HI_S16(x, y))
X2(u16, MUL_HI_U16, HI_U16(x, y))
X2(s32, MUL_HI_S32, HI_S32(x, y))
X2(u32, MUL_HI_U32, HI_U32(x, y))
X2(s64, MUL_HI_S64, HI_S64(x, y))
X2(u64, MUL_HI_U64, HI_U64(x, y))
X2T(s32, s16, s16, MUL_WIDE_S16, (int32_t)x *(int32_t)y)
X2T(u32, u16, u16, MUL_WIDE_U16, U(x) * U(y))
X2T(s64, s32, s32, MUL_WIDE_S32, (int64_t)x *(int64_t)y)
X2T(u64, u32, u32, MUL_WIDE_U32, W(x) * W(y))

X3(u16, MAD_LO_I16, U(x) * U(y) + U(z))
X3(u32, MAD_LO_I32, x *y + z)
X3(u64, MAD_LO_I64, x *y + z)
X3(s16, MAD_HI_S16, HI_S16(x, y) + z)
X3(u16, MAD_HI_U16, HI_U16(x, y) + z)
X3(s32, MAD_HI_S32, U(HI_S32(x, y)) + U(z))
X3(u32, MAD_HI_U32, U(HI_U32(x, y)) + z)
X3(s64, MAD_HI_S64, HI_S64(x, y) + W(z))
X3(u64, MAD_HI_U64, HI_U64(x, y) + z)
X3T(s32, s16, s16, s32, MAD_WIDE_S16, U((int32_t)x *(int32_t)y) + U(z))
X3T(u32, u16, u16, u32, MAD_WIDE_U16, U(x) * U(y) + z)
X3T(s64, s32, s32, s64, MAD_WIDE_S32, W((int64_t)x *(int64_t)y) + W(z))
X3T(u64, u32, u32, u64, MAD_WIDE_U32, W(x) * W(y) + z)

/* The one quotient that overflows wraps; see ops.h for division by zero. */
X2(s16, DIV_S16, y == 0 ? -1 : x / y)
X2(u16, DIV_U16, y == 0 ? UINT16_MAX : x / y)
X2(s32, DIV_S32, y == 0 ? -1 : (int64_t)x / y)
X2(u32, DIV_U32, y == 0 ? UINT32_MAX : x / y)
X2(s64, DIV_S64, y == 0 ? -1 : y == -1 ? (int64_t)(0 - W(x)) : x / y)
X2(u64, DIV_U64, y == 0 ? UINT64_MAX : x / y)
X2(s16, REM_S16, y == 0 ? x : x % y)
X2(s32, REM_S32, y == 0 ? x : (int64_t)x % y)
X2(u32, REM_U32, y == 0 ? x : x % y)
X2(s64, REM_S64, y == 0 ? x : y == -1 ? 0 : x % y)
X2(u64, REM_U64, y == 0 ? x : x % y)

X1(u16, u16, NEG_I16, 0 - U(x))
X1(u32, u32, NEG_I32, 0 - x)
X1(u64, u64, NEG_I64, 0 - x)
X1(s16, s16, ABS_S16, x < 0 ? -x : x)
X1(s32, s32, ABS_S32, x < 0 ? 0 - U(x) : U(x))
X1(s64, s64, ABS_S64, x < 0 ? 0 - W(x) : W(x))
X2(s16, MIN_S16, x < y ? x : y)
X2(s32, MIN_S32, x < y ? x : y)
X2(u32, MIN_U32, x < y ? x : y)
X2(s64, MIN_S64, x < y ? x : y)
X2(u64, MIN_U64, x < y ? x : y)
X2(s16, MAX_S16, x > y ? x : y)
X2(s32, MAX_S32, x > y ? x : y)
X2(u32, MAX_U32, x > y ? x : y)
X2(s64, MAX_S64, x > y ? x : y)
X2(u64, MAX_U64, x > y ? x : y)

/* With carry: the sum (or difference) of first and second, in one word more than they have. */
#define CARRY(name, file, word, first, second, subtract)                                           \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		uint32_t in = i->flags & RBT_PTX_CC_IN ? w->carry : 0, out = 0;                    \
		word *d = w->file[i->d[0]];                                                        \
                                                                                                   \
		for (unsigned l = 0; l < EXEC_LANES; l++) {                                        \
			word x = first, y = second, carry = in >> l & 1;                           \
			word part = (word)(subtract ? x - y : x + y);                              \
			word sum = (word)(subtract ? part - carry : part + carry);                 \
			bool over = subtract ? x < y || part < carry : part < x || sum < part;     \
                                                                                                   \
			out |= (uint32_t)over << l;                                                \
			d[l] = mask >> l & 1 ? sum : d[l];                                         \
		}                                                                                  \
		if (i->flags & RBT_PTX_CC_OUT) {                                                   \
			w->carry = (w->carry & ~mask) | (out & mask);                              \
		}                                                                                  \
		return 0;                                                                          \
	}

#define A32 w->r32[i->a][l]
#define B32 w->r32[i->b][l]
#define C32 w->r32[i->c][l]
#define A64 w->r64[i->a][l]
#define B64 w->r64[i->b][l]
#define C64 w->r64[i->c][l]

CARRY(ADDX_I32, r32, uint32_t, A32, B32, false)
CARRY(ADDX_I64, r64, uint64_t, A64, B64, false)
CARRY(SUBX_I32, r32, uint32_t, A32, B32, true)
CARRY(SUBX_I64, r64, uint64_t, A64, B64, true)
CARRY(MADX_LO_I32, r32, uint32_t, A32 *B32, C32, false)
CARRY(MADX_LO_I64, r64, uint64_t, A64 *B64, C64, false)
CARRY(MADX_HI_S32, r32, uint32_t, U(HI_S32((int32_t)A32, (int32_t)B32)), C32, false)
CARRY(MADX_HI_U32, r32, uint32_t, U(HI_U32(A32, B32)), C32, false)
CARRY(MADX_HI_S64, r64, uint64_t, HI_S64((int64_t)A64, (int64_t)B64), C64, false)
CARRY(MADX_HI_U64, r64, uint64_t, HI_U64(A64, B64), C64, false)

static void fill_divide(exec_op *ops)
{
	EXEC_SET(DIV_S16), EXEC_SET(DIV_U16), EXEC_SET(DIV_S32), EXEC_SET(DIV_U32),
		EXEC_SET(DIV_S64), EXEC_SET(DIV_U64);
	EXEC_SET(REM_S16), EXEC_SET(REM_S32), EXEC_SET(REM_U32), EXEC_SET(REM_S64),
		EXEC_SET(REM_U64);
	EXEC_SET(NEG_I16), EXEC_SET(NEG_I32), EXEC_SET(NEG_I64);
	EXEC_SET(ABS_S16), EXEC_SET(ABS_S32), EXEC_SET(ABS_S64);
	EXEC_SET(MIN_S16), EXEC_SET(MIN_S32), EXEC_SET(MIN_U32), EXEC_SET(MIN_S64),
		EXEC_SET(MIN_U64);
	EXEC_SET(MAX_S16), EXEC_SET(MAX_S32), EXEC_SET(MAX_U32), EXEC_SET(MAX_S64),
		EXEC_SET(MAX_U64);
	EXEC_SET(ADDX_I32), EXEC_SET(ADDX_I64), EXEC_SET(SUBX_I32), EXEC_SET(SUBX_I64);
	EXEC_SET(MADX_LO_I32), EXEC_SET(MADX_LO_I64), EXEC_SET(MADX_HI_S32), EXEC_SET(MADX_HI_U32);
	EXEC_SET(MADX_HI_S64), EXEC_SET(MADX_HI_U64);
}

void EXEC_AT_LEVEL(exec_fill_int)(exec_op *ops)
{
	EXEC_SET(ADD_I16), EXEC_SET(ADD_I32), EXEC_SET(ADD_I64), EXEC_SET(ADD_SAT_S32);
	EXEC_SET(SUB_I16), EXEC_SET(SUB_I32), EXEC_SET(SUB_I64), EXEC_SET(SUB_SAT_S32);
	EXEC_SET(MUL_LO_I16), EXEC_SET(MUL_LO_I32), EXEC_SET(MUL_LO_I64);
	EXEC_SET(MUL_HI_S16), EXEC_SET(MUL_HI_U16), EXEC_SET(MUL_HI_S32), EXEC_SET(MUL_HI_U32);
	EXEC_SET(MUL_HI_S64), EXEC_SET(MUL_HI_U64), EXEC_SET(MUL_WIDE_S16), EXEC_SET(MUL_WIDE_U16);
	EXEC_SET(MUL_WIDE_S32), EXEC_SET(MUL_WIDE_U32);
	EXEC_SET(MAD_LO_I16), EXEC_SET(MAD_LO_I32), EXEC_SET(MAD_LO_I64);
	EXEC_SET(MAD_HI_S16), EXEC_SET(MAD_HI_U16), EXEC_SET(MAD_HI_S32), EXEC_SET(MAD_HI_U32);
	EXEC_SET(MAD_HI_S64), EXEC_SET(MAD_HI_U64), EXEC_SET(MAD_WIDE_S16), EXEC_SET(MAD_WIDE_U16);
	EXEC_SET(MAD_WIDE_S32), EXEC_SET(MAD_WIDE_U32);
	fill_divide(ops);
}
