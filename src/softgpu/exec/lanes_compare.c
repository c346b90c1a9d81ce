/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons: one function for each type and comparison, found in a table. */
#include "softgpu/exec/half.h"
#include "softgpu/exec/lanes.h"

typedef uint32_t (*compare_fn)(const void *a, const void *b, bool ftz);

#define COMPARE(type, name, expression)                                                            \
	static uint32_t type##_##name(const void *a_, const void *b_, bool ftz)                    \
	{                                                                                          \
		const MEM_##type *a = a_, *b = b_;                                                 \
		uint32_t bits = 0;                                                                 \
                                                                                                   \
		EXEC_EACH_LANE                                                                     \
		{                                                                                  \
			VAL_##type x = FLUSH_##type(a[l]), y = FLUSH_##type(b[l]);                 \
			bits |= (uint32_t)(expression) << l;                                       \
		}                                                                                  \
		return bits;                                                                       \
	}
#define INTEGERS(type)                                                                             \
	COMPARE(type, eq, x == y)                                                                  \
	COMPARE(type, ne, x != y)                                                                  \
	COMPARE(type, lt, x < y)                                                                   \
	COMPARE(type, le, x <= y)                                                                  \
	COMPARE(type, gt, x > y)                                                                   \
	COMPARE(type, ge, x >= y)
#define FLOATS(type)                                                                               \
	COMPARE(type, eq, x == y)                                                                  \
	COMPARE(type, ne, x<y || x> y)                                                             \
	COMPARE(type, lt, x < y)                                                                   \
	COMPARE(type, le, x <= y)                                                                  \
	COMPARE(type, gt, x > y)                                                                   \
	COMPARE(type, ge, x >= y)                                                                  \
	COMPARE(type, num, x == x && y == y)
/* The unordered comparisons are the complements of the opposite ordered ones. */

#define FLUSH_s16(v) ((int16_t)(v))
#define FLUSH_s32(v) (v)
#define FLUSH_u32(v) (v)
#define FLUSH_s64(v) (v)
#define FLUSH_u64(v) (v)
#define FLUSH_f32(v) (ftz && __builtin_fabsf(v) < 0x1p-126f ? 0.0f : (v))
#define FLUSH_f64(v) (v)

INTEGERS(s16)
INTEGERS(s32)
INTEGERS(u32)
INTEGERS(s64)
INTEGERS(u64)
FLOATS(f32)
FLOATS(f64)

struct comparison {
	compare_fn fn;
	bool complement;
};

/* In the order of enum rbt_ptx_cmp. */
#define ROW(type)                                                                                  \
	{type##_eq, false}, {type##_ne, false}, {type##_lt, false}, {type##_le, false},            \
		{type##_gt, false},                                                                \
	{                                                                                          \
		type##_ge, false                                                                   \
	}
#define ROW_FLOAT(type)                                                                            \
	ROW(type), {type##_ne, true}, {type##_eq, true}, {type##_ge, true}, {type##_gt, true},     \
		{type##_le, true}, {type##_lt, true}, {type##_num, false},                         \
	{                                                                                          \
		type##_num, true                                                                   \
	}

static uint32_t compare(
	const struct comparison *row, const struct rbt_ptx_inst *i, const void *a, const void *b)
{
	const struct comparison *c = &row[i->mod];

	return c->fn(a, b, i->flags & RBT_PTX_FTZ) ^ (c->complement ? EXEC_ALL : 0);
}

/* The predicate that the result is combined with. */
static uint32_t combine(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t bits)
{
	uint32_t c;

	if (i->stype == RBT_PTX_BOOL_NONE) {
		return bits;
	}
	c = w->pred[i->c] ^ (i->flags & RBT_PTX_NEG_C ? EXEC_ALL : 0);
	return i->stype == RBT_PTX_BOOL_AND  ? bits & c
	       : i->stype == RBT_PTX_BOOL_OR ? bits | c
					     : bits ^ c;
}

static int set_predicates(
	struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, uint32_t bits)
{
	uint32_t yes = combine(w, i, bits), no = combine(w, i, ~bits);

	w->pred[i->d[0]] = (w->pred[i->d[0]] & ~mask) | (yes & mask);
	if (i->d[1] != RBT_PTX_NO_SLOT) {
		w->pred[i->d[1]] = (w->pred[i->d[1]] & ~mask) | (no & mask);
	}
	return 0;
}

static int set_words(
	struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, uint32_t bits)
{
	uint32_t yes = combine(w, i, bits), *d = w->r32[i->d[0]];
	uint32_t word = i->type == RBT_PTX_F32 ? 0x3f800000 : UINT32_MAX;

	EXEC_WRITE(u32, yes >> l & 1 ? word : 0)
}

#define SETS(type, name, row)                                                                      \
	static const struct comparison row_##type[] = {row(type)};                                 \
	static int op_SETP_##name(                                                                 \
		struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)                  \
	{                                                                                          \
		return set_predicates(w, i, mask,                                                  \
			compare(row_##type, i, EXEC_SLOT(type, i->a), EXEC_SLOT(type, i->b)));     \
	}                                                                                          \
	static int op_SET_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask) \
	{                                                                                          \
		return set_words(w, i, mask,                                                       \
			compare(row_##type, i, EXEC_SLOT(type, i->a), EXEC_SLOT(type, i->b)));     \
	}

SETS(s16, S16, ROW)
SETS(s32, S32, ROW)
SETS(u32, U32, ROW)
SETS(s64, S64, ROW)
SETS(u64, U64, ROW)
SETS(f32, F32, ROW_FLOAT)
SETS(f64, F64, ROW_FLOAT)

/* The halves at `shift` of a register, as f32, which compare the same. */
static void widen(const struct rbt_ptx_inst *i, const uint32_t *from, unsigned shift, float *ret)
{
	bool ftz = i->flags & RBT_PTX_FTZ, is_bf16 = half_is_bf16(i->type);

	for (unsigned l = 0; l < EXEC_LANES; l++) {
		uint32_t h = from[l] >> shift & 0xffff;
		ret[l] = half_to_f32(ftz ? half_flushed(h, is_bf16) : h, is_bf16);
	}
}

static uint32_t compare_halves(struct exec_warp *w, const struct rbt_ptx_inst *i, unsigned shift)
{
	float a[EXEC_LANES], b[EXEC_LANES];

	widen(i, w->r32[i->a], shift, a);
	widen(i, w->r32[i->b], shift, b);
	return compare(row_f32, i, a, b);
}

static int op_SETP_HALF(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint32_t low = compare_halves(w, i, 0), high, *d;

	if (!half_is_pair(i->type)) {
		return set_predicates(w, i, mask, low);
	}
	/* Both are computed before either is written: c may be one of them. */
	high = combine(w, i, compare_halves(w, i, 16));
	low = combine(w, i, low);
	d = &w->pred[i->d[0]];
	*d = (*d & ~mask) | (low & mask);
	d = &w->pred[i->d[1]];
	*d = (*d & ~mask) | (high & mask);
	return 0;
}

/* finite, infinite, number, notanumber, normal, subnormal: by exponent and fraction. */
static bool test_of(unsigned what, bool exponent_ones, bool exponent_zero, bool fraction_zero)
{
	switch (what) {
	case RBT_PTX_TESTP_FINITE:
		return !exponent_ones;
	case RBT_PTX_TESTP_INFINITE:
		return exponent_ones && fraction_zero;
	case RBT_PTX_TESTP_NUMBER:
		return !exponent_ones || fraction_zero;
	case RBT_PTX_TESTP_NOTANUMBER:
		return exponent_ones && !fraction_zero;
	case RBT_PTX_TESTP_NORMAL: /* in PTX, zero is normal */
		return !exponent_ones && (!exponent_zero || fraction_zero);
	default:
		return exponent_zero && !fraction_zero;
	}
}

#define TESTP(name, file, ones, fraction)                                                          \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		uint32_t bits = 0;                                                                 \
                                                                                                   \
		for (unsigned l = 0; l < EXEC_LANES; l++) {                                        \
			uint64_t v = w->file[i->a][l];                                             \
			bits |= (uint32_t)test_of(i->mod, (v & (ones)) == (ones),                  \
					(v & (ones)) == 0, (v & (fraction)) == 0)                  \
				<< l;                                                              \
		}                                                                                  \
		w->pred[i->d[0]] = (w->pred[i->d[0]] & ~mask) | (bits & mask);                     \
		return 0;                                                                          \
	}
TESTP(TESTP_F32, r32, 0x7f800000u, 0x7fffffu)
TESTP(TESTP_F64, r64, 0x7ff0000000000000u, 0xfffffffffffffu)

void EXEC_AT_LEVEL(exec_fill_compare)(exec_op *ops)
{
	EXEC_SET(SETP_S16), EXEC_SET(SETP_S32), EXEC_SET(SETP_U32), EXEC_SET(SETP_S64);
	EXEC_SET(SETP_U64), EXEC_SET(SETP_F32), EXEC_SET(SETP_F64), EXEC_SET(SETP_HALF);
	EXEC_SET(SET_S16), EXEC_SET(SET_S32), EXEC_SET(SET_U32), EXEC_SET(SET_S64);
	EXEC_SET(SET_U64), EXEC_SET(SET_F32), EXEC_SET(SET_F64);
	EXEC_SET(TESTP_F32), EXEC_SET(TESTP_F64);
}
