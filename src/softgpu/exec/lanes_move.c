/* SPDX-License-Identifier: Apache-2.0 */
/* Moves, selections, conversions between integers, and conversions of addresses. */
#include <stdatomic.h>
#include <string.h>

#include "softgpu/exec/half.h"
#include "softgpu/exec/lanes.h"
#include "softgpu/ptx/ptx.h"

X1(u32, u32, MOV_B32, x)
X1(u64, u64, MOV_B64, x)

#define SELECT(name, type)                                                                         \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		MEM_##type *d = EXEC_SLOT(type, i->d[0]);                                          \
		const MEM_##type *a = EXEC_SLOT(type, i->a), *b = EXEC_SLOT(type, i->b);           \
		uint32_t c = w->pred[i->c] ^ (i->flags & RBT_PTX_NEG_C ? EXEC_ALL : 0);            \
		EXEC_WRITE(type, c >> l & 1 ? a[l] : b[l])                                         \
	}
SELECT(SELP_B32, u32)
SELECT(SELP_B64, u64)

/* A NaN is not >= 0; -0 is. */
X3T(u32, u32, u32, s32, SLCT_B32_S32, z >= 0 ? x : y)
X3T(u64, u64, u64, s32, SLCT_B64_S32, z >= 0 ? x : y)

#define SLCT_FLOAT(name, type)                                                                     \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		MEM_##type *d = EXEC_SLOT(type, i->d[0]);                                          \
		const MEM_##type *a = EXEC_SLOT(type, i->a), *b = EXEC_SLOT(type, i->b);           \
		const float *c = EXEC_SLOT(f32, i->c);                                             \
		float least = i->flags & RBT_PTX_FTZ ? -0x1.fffffcp-127f : 0;                      \
		EXEC_WRITE(type, c[l] >= least ? a[l] : b[l])                                      \
	}
SLCT_FLOAT(SLCT_B32_F32, u32)
SLCT_FLOAT(SLCT_B64_F32, u64)

/* A value of `bits` in the low bits of x, extended to 64. */
static inline uint64_t extended(uint64_t x, unsigned bits, bool is_signed)
{
	unsigned shift = 64 - bits;

	return is_signed ? (uint64_t)((int64_t)(x << shift) >> shift) : x << shift >> shift;
}

static bool is_signed_type(unsigned type)
{
	return type >= RBT_PTX_S8 && type <= RBT_PTX_S64;
}

X1(u64, u32, cvt_u64_u32, x)
X1(s64, s32, cvt_s64_s32, x)
X1(u32, u64, cvt_u32_u64, x)

/* Any widths and signs: extended to 64 bits by the source's sign, then cut and extended by the
 * result's. */
static int convert_integers(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned sbits = rbt_ptx_type_bits(i->stype), bits = rbt_ptx_type_bits(i->type);
	bool ssigned = is_signed_type(i->stype), is_signed = is_signed_type(i->type);

	for (unsigned l = 0; l < EXEC_LANES; l++) {
		uint64_t v = i->sbits == 64 ? w->r64[i->a][l] : w->r32[i->a][l];

		if (!(mask >> l & 1)) {
			continue;
		}
		v = extended(extended(v, sbits, ssigned), bits, is_signed);
		if (i->dbits == 64) {
			w->r64[i->d[0]][l] = v;
		} else {
			w->r32[i->d[0]][l] = (uint32_t)extended(v, i->dbits, false);
		}
	}
	return 0;
}

static int op_CVT_II(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned sbits, bits;

	if (i->flags & RBT_PTX_SAT) {
		return exec_slow_cvt(w, i, mask);
	}
	sbits = rbt_ptx_type_bits(i->stype);
	bits = rbt_ptx_type_bits(i->type);
	if (sbits == 32 && bits == 64 && i->sbits == 32) {
		return is_signed_type(i->stype) ? op_cvt_s64_s32(w, i, mask)
						: op_cvt_u64_u32(w, i, mask);
	}
	if (sbits == 64 && bits == 32 && i->dbits == 32) {
		return op_cvt_u32_u64(w, i, mask);
	}
	return convert_integers(w, i, mask);
}

X1(f32, s32, cvt_f32_s32, (float)x)
X1(f32, u32, cvt_f32_u32, (float)x)
X1(f64, s32, cvt_f64_s32, (double)x)
X1(f64, u32, cvt_f64_u32, (double)x)
X1(f64, f32, cvt_f64_f32, (double)x)
X1(f32, f64, cvt_f32_f64, (float)x)
X1(f32, u32, cvt_f32_f16, f16_to_f32(x))
X1(f32, u32, cvt_f32_bf16, bf16_to_f32(x))
X1(u32, f32, cvt_f16_f32, f16_from_f32(x))
X1(u32, f32, cvt_bf16_f32, bf16_from_f32(x))

/* The common conversions; the others, and all rounding modes but nearest, are in convert.c. */
static int convert_floats(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned pair = (unsigned)i->type << 8 | i->stype;

	if (i->mod != RBT_PTX_RN || i->flags & (RBT_PTX_SAT | RBT_PTX_FTZ | RBT_PTX_RELU)) {
		return exec_slow_cvt(w, i, mask);
	}
	switch (pair) {
	case RBT_PTX_F32 << 8 | RBT_PTX_S32:
		return op_cvt_f32_s32(w, i, mask);
	case RBT_PTX_F32 << 8 | RBT_PTX_U32:
		return op_cvt_f32_u32(w, i, mask);
	case RBT_PTX_F64 << 8 | RBT_PTX_S32:
		return op_cvt_f64_s32(w, i, mask);
	case RBT_PTX_F64 << 8 | RBT_PTX_U32:
		return op_cvt_f64_u32(w, i, mask);
	case RBT_PTX_F64 << 8 | RBT_PTX_F32:
		return op_cvt_f64_f32(w, i, mask);
	case RBT_PTX_F32 << 8 | RBT_PTX_F64:
		return op_cvt_f32_f64(w, i, mask);
	case RBT_PTX_F32 << 8 | RBT_PTX_F16:
		return op_cvt_f32_f16(w, i, mask);
	case RBT_PTX_F32 << 8 | RBT_PTX_BF16:
		return op_cvt_f32_bf16(w, i, mask);
	case RBT_PTX_F16 << 8 | RBT_PTX_F32:
		return op_cvt_f16_f32(w, i, mask);
	case RBT_PTX_BF16 << 8 | RBT_PTX_F32:
		return op_cvt_bf16_f32(w, i, mask);
	default:
		return exec_slow_cvt(w, i, mask);
	}
}

static uint64_t part_of(const struct exec_warp *w, unsigned slot, unsigned bits, unsigned l)
{
	return bits == 64 ? w->r64[slot][l] : w->r32[slot][l];
}

static int op_PACK(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	const uint16_t from[4] = {i->a, i->b, i->c, i->e};
	unsigned bits = i->dbits / i->mod;

	if (i->mod == 2 && i->dbits == 32) {
		uint32_t *d = w->r32[i->d[0]];
		const uint32_t *a = w->r32[i->a], *b = w->r32[i->b];

		EXEC_WRITE(u32, a[l] | b[l] << 16)
	}
	if (i->mod == 2 && i->dbits == 64) {
		uint64_t *d = w->r64[i->d[0]];
		const uint32_t *a = w->r32[i->a], *b = w->r32[i->b];

		EXEC_WRITE(u64, a[l] | (uint64_t)b[l] << 32)
	}
	for (unsigned l = 0; l < EXEC_LANES; l++) {
		uint64_t v = 0;

		if (!(mask >> l & 1)) {
			continue;
		}
		for (unsigned k = 0; k < i->mod; k++) {
			v |= extended(part_of(w, from[k], bits, l), bits, false) << (k * bits);
		}
		if (i->dbits == 64) {
			w->r64[i->d[0]][l] = v;
		} else {
			w->r32[i->d[0]][l] = (uint32_t)v;
		}
	}
	return 0;
}

/* Part k of two. */
static int unpack_word(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, unsigned k)
{
	uint32_t *d = w->r32[i->d[k]];
	const uint32_t *a = w->r32[i->a];

	EXEC_WRITE(u32, a[l] >> (16 * k) & 0xffff)
}

static int unpack_long(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask, unsigned k)
{
	uint32_t *d = w->r32[i->d[k]];
	const uint64_t *a = w->r64[i->a];

	EXEC_WRITE(u32, (uint32_t)(a[l] >> (32 * k)))
}

static int op_UNPACK(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned bits = i->sbits / i->mod;

	if (i->mod == 2 && i->d[0] != RBT_PTX_NO_SLOT && i->d[1] != RBT_PTX_NO_SLOT &&
		i->sbits >= 32) {
		return i->sbits == 64 ? unpack_long(w, i, mask, 0) | unpack_long(w, i, mask, 1)
				      : unpack_word(w, i, mask, 0) | unpack_word(w, i, mask, 1);
	}
	for (unsigned l = 0; l < EXEC_LANES; l++) {
		uint64_t v = part_of(w, i->a, i->sbits, l);

		for (unsigned k = 0; k < i->mod; k++) {
			if (mask >> l & 1 && i->d[k] != RBT_PTX_NO_SLOT) {
				w->r32[i->d[k]][l] =
					(uint32_t)extended(v >> (k * bits), bits, false);
			}
		}
	}
	return 0;
}

static uint64_t window_of(const struct rbt_ptx_inst *i)
{
	return i->space == RBT_PTX_SPACE_SHARED ? RBT_EXEC_SHARED_VA : RBT_EXEC_LOCAL_VA;
}

static int op_CVTA(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint64_t *d = w->r64[i->d[0]], window = window_of(i);
	const uint64_t *a = w->r64[i->a];

	EXEC_WRITE(u64, a[l] + window)
}

static int op_CVTA_TO(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint64_t *d = w->r64[i->d[0]], window = window_of(i);
	const uint64_t *a = w->r64[i->a];

	EXEC_WRITE(u64, a[l] - window)
}

static int op_ISSPACEP(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint32_t bits = 0;

	for (unsigned l = 0; l < EXEC_LANES; l++) {
		uint64_t a = w->r64[i->a][l];
		bool shared = a - RBT_EXEC_SHARED_VA < RBT_EXEC_SHARED_MAX;
		bool local = a - RBT_EXEC_LOCAL_VA < RBT_EXEC_LOCAL_MAX;
		bool is = i->space == RBT_PTX_SPACE_SHARED  ? shared
			  : i->space == RBT_PTX_SPACE_LOCAL ? local
							    : !shared && !local;

		bits |= (uint32_t)is << l;
	}
	w->pred[i->d[0]] = (w->pred[i->d[0]] & ~mask) | (bits & mask);
	return 0;
}

static int op_MEMBAR(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}

void EXEC_AT_LEVEL(exec_fill_move)(exec_op *ops)
{
	EXEC_SET(MOV_B32), EXEC_SET(MOV_B64), EXEC_SET(SELP_B32), EXEC_SET(SELP_B64);
	EXEC_SET(SLCT_B32_S32), EXEC_SET(SLCT_B64_S32), EXEC_SET(SLCT_B32_F32),
		EXEC_SET(SLCT_B64_F32);
	EXEC_SET(CVT_II), EXEC_SET(PACK), EXEC_SET(UNPACK);
	ops[RBT_PTX_CVT_IF] = ops[RBT_PTX_CVT_FI] = ops[RBT_PTX_CVT_FF] = convert_floats;
	EXEC_SET(CVTA), EXEC_SET(CVTA_TO), EXEC_SET(ISSPACEP), EXEC_SET(MEMBAR);
}
