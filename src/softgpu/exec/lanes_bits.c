/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on bits and predicates. */
#include "softgpu/exec/lanes.h"

X2(u32, AND_B32, x &y)
X2(u64, AND_B64, x &y)
X2(u32, OR_B32, x | y)
X2(u64, OR_B64, x | y)
X2(u32, XOR_B32, x ^ y)
X2(u64, XOR_B64, x ^ y)
X1(u16, u16, NOT_B16, ~(uint32_t)x)
X1(u32, u32, NOT_B32, ~x)
X1(u64, u64, NOT_B64, ~x)

/* C does not define shifts by more than the width: amounts are masked, and the result is chosen
 * separately. */
X2T(u16, u16, u32, SHL_B16, y > 15 ? 0 : (uint32_t)x << (y & 15))
X2T(u32, u32, u32, SHL_B32, y > 31 ? 0 : x << (y & 31))
X2T(u64, u64, u32, SHL_B64, y > 63 ? 0 : x << (y & 63))
X2T(s16, s16, u32, SHR_S16, x >> (y > 15 ? 15 : y))
X2T(s32, s32, u32, SHR_S32, x >> (y > 31 ? 31 : y))
X2T(u32, u32, u32, SHR_U32, y > 31 ? 0 : x >> (y & 31))
X2T(s64, s64, u32, SHR_S64, x >> (y > 63 ? 63 : y))
X2T(u64, u64, u32, SHR_U64, y > 63 ? 0 : x >> (y & 63))

static inline uint32_t funnel(uint32_t low, uint32_t high, uint32_t amount, bool clamp, bool left)
{
	uint64_t both = (uint64_t)high << 32 | low;
	uint32_t n = clamp ? (amount > 32 ? 32 : amount) : amount & 31;

	/* A shift left by n is a shift right by 32 - n in 64 bits. */
	return (uint32_t)(both >> (left ? 32 - n : n));
}

#define FUNNEL(name, left)                                                                         \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		uint32_t *d = w->r32[i->d[0]];                                                     \
		const uint32_t *a = w->r32[i->a], *b = w->r32[i->b], *c = w->r32[i->c];            \
		bool clamp = i->mod;                                                               \
		EXEC_WRITE(u32, funnel(a[l], b[l], c[l], clamp, left))                             \
	}
FUNNEL(SHF_L_B32, true)
FUNNEL(SHF_R_B32, false)

/* Bits [at, at + len) of x, sign-extended from the field's last bit (or the word's) if
 * requested. */
static inline uint64_t field_of(
	uint64_t x, uint32_t at, uint32_t len, uint32_t width, bool is_signed)
{
	uint32_t top;
	uint64_t value, keep, sign;

	at &= 0xff;
	len &= 0xff;
	if (len == 0) {
		return 0;
	}
	top = at + len - 1 < width - 1 ? at + len - 1 : width - 1;
	sign = is_signed ? x >> top & 1 : 0;
	value = at < width ? x >> at : 0;
	/* The number of the field's bits that are inside the word. */
	top = at < width ? top + 1 - at : 0;
	keep = top > 63 ? UINT64_MAX : (1ull << top) - 1;
	return (value & keep) | (sign ? ~keep : 0);
}

X3T(u32, u32, u32, u32, BFE_S32, field_of(x, y, z, 32, true))
X3T(u32, u32, u32, u32, BFE_U32, field_of(x, y, z, 32, false))
X3T(u64, u64, u32, u32, BFE_S64, field_of(x, y, z, 64, true))
X3T(u64, u64, u32, u32, BFE_U64, field_of(x, y, z, 64, false))

static inline uint64_t insert_of(uint64_t x, uint64_t y, uint32_t at, uint32_t len)
{
	uint64_t keep;

	at &= 0xff;
	len &= 0xff;
	if (at > 63 || len == 0) {
		return y;
	}
	keep = (len > 63 ? UINT64_MAX : (1ull << len) - 1) << at;
	return (y & ~keep) | (x << at & keep);
}

#define INSERT(name, type)                                                                         \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		MEM_##type *d = EXEC_SLOT(type, i->d[0]);                                          \
		const MEM_##type *a = EXEC_SLOT(type, i->a), *b = EXEC_SLOT(type, i->b);           \
		const uint32_t *c = w->r32[i->c], *e = w->r32[i->e];                               \
		EXEC_WRITE(type, insert_of(a[l], b[l], c[l], e[l]))                                \
	}
INSERT(BFI_B32, u32)
INSERT(BFI_B64, u64)

static inline uint32_t highest_bit(uint64_t x)
{
	return x ? 63 - (uint32_t)__builtin_clzll(x) : UINT32_MAX;
}

static inline uint32_t find_of(uint64_t x, uint32_t width, bool shiftamt)
{
	uint32_t at = highest_bit(x);

	return shiftamt && at != UINT32_MAX ? width - 1 - at : at;
}

#define FIND(name, type, width, magnitude)                                                         \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		uint32_t *d = w->r32[i->d[0]];                                                     \
		const MEM_##type *a = EXEC_SLOT(type, i->a);                                       \
		bool shiftamt = i->mod;                                                            \
		EXEC_WRITE(u32, find_of(magnitude, width, shiftamt))                               \
	}
FIND(BFIND_U32, u32, 32, a[l])
FIND(BFIND_U64, u64, 64, a[l])
FIND(BFIND_S32, s32, 32, (uint32_t)(a[l] < 0 ? ~a[l] : a[l]))
FIND(BFIND_S64, s64, 64, (uint64_t)(a[l] < 0 ? ~a[l] : a[l]))

static inline uint64_t reverse_of(uint64_t x)
{
	x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
	x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
	x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
	return __builtin_bswap64(x);
}

X1(u32, u32, BREV_B32, reverse_of(x) >> 32)
X1(u64, u64, BREV_B64, reverse_of(x))
X1(u32, u32, CLZ_B32, 31 - highest_bit(x))
X1(u32, u64, CLZ_B64, 63 - highest_bit(x))
X1(u32, u32, POPC_B32, __builtin_popcount(x))
X1(u32, u64, POPC_B64, __builtin_popcountll(x))

/* Selector nibbles of the modes other than the default, by the low bits of c. */
static uint32_t prmt_selector(unsigned mode, uint32_t c)
{
	static const uint16_t by_two_bits[][4] = {
		[RBT_PTX_PRMT_F4E] = {0x3210, 0x4321, 0x5432, 0x6543},
		[RBT_PTX_PRMT_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
		[RBT_PTX_PRMT_RC8] = {0x0000, 0x1111, 0x2222, 0x3333},
		[RBT_PTX_PRMT_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
		[RBT_PTX_PRMT_ECR] = {0x0000, 0x1110, 0x2210, 0x3210},
		[RBT_PTX_PRMT_RC16] = {0x1010, 0x3232, 0x1010, 0x3232},
	};

	return mode == RBT_PTX_PRMT_INDEX ? c : by_two_bits[mode][c & 3];
}

static inline uint32_t permute_of(uint32_t x, uint32_t y, uint32_t selector)
{
	uint64_t both = (uint64_t)y << 32 | x;
	uint32_t r = 0;

	for (unsigned k = 0; k < 4; k++) {
		uint32_t pick = selector >> (4 * k), byte = (both >> (8 * (pick & 7))) & 0xff;
		r |= (pick & 8 ? (byte >> 7) * 0xff : byte) << (8 * k);
	}
	return r;
}

static int op_PRMT_B32(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint32_t *d = w->r32[i->d[0]];
	const uint32_t *a = w->r32[i->a], *b = w->r32[i->b], *c = w->r32[i->c];

	for (unsigned l = 0; l < EXEC_LANES; l++) {
		if (mask >> l & 1) {
			d[l] = permute_of(a[l], b[l], prmt_selector(i->mod, c[l]));
		}
	}
	return 0;
}

/* immLut: bit k of the table is the result if the bits of a, b, c are those of k. */
static inline uint32_t lop3_of(uint32_t x, uint32_t y, uint32_t z, uint32_t table)
{
	uint32_t r = 0;

	for (unsigned k = 0; k < 8; k++) {
		uint32_t here = (k & 4 ? x : ~x) & (k & 2 ? y : ~y) & (k & 1 ? z : ~z);
		r |= table >> k & 1 ? here : 0;
	}
	return r;
}

static int op_LOP3_B32(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint32_t *d = w->r32[i->d[0]], table = i->mod;
	const uint32_t *a = w->r32[i->a], *b = w->r32[i->b], *c = w->r32[i->c];

	EXEC_WRITE(u32, lop3_of(a[l], b[l], c[l], table))
}

/* Predicates are masks of lanes already. */
#define PREDICATE(name, expression)                                                                \
	static int op_##name(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)     \
	{                                                                                          \
		uint32_t x = w->pred[i->a] ^ (i->flags & RBT_PTX_NEG_A ? EXEC_ALL : 0);            \
		uint32_t y = w->pred[i->b] ^ (i->flags & RBT_PTX_NEG_B ? EXEC_ALL : 0);            \
		uint32_t *d = &w->pred[i->d[0]];                                                   \
                                                                                                   \
		*d = (*d & ~mask) | ((expression)&mask);                                           \
		return 0;                                                                          \
	}
PREDICATE(AND_PRED, x &y)
PREDICATE(OR_PRED, x | y)
PREDICATE(XOR_PRED, x ^ y)

static int op_MOV_PRED(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	uint32_t x = w->pred[i->a] ^ (i->flags & RBT_PTX_NEG_A ? EXEC_ALL : 0),
		 *d = &w->pred[i->d[0]];

	*d = (*d & ~mask) | (x & mask);
	return 0;
}

void EXEC_AT_LEVEL(exec_fill_bits)(exec_op *ops)
{
	EXEC_SET(AND_B32), EXEC_SET(AND_B64), EXEC_SET(OR_B32), EXEC_SET(OR_B64);
	EXEC_SET(XOR_B32), EXEC_SET(XOR_B64), EXEC_SET(NOT_B16), EXEC_SET(NOT_B32),
		EXEC_SET(NOT_B64);
	EXEC_SET(SHL_B16), EXEC_SET(SHL_B32), EXEC_SET(SHL_B64), EXEC_SET(SHR_S16);
	EXEC_SET(SHR_S32), EXEC_SET(SHR_U32), EXEC_SET(SHR_S64), EXEC_SET(SHR_U64);
	EXEC_SET(SHF_L_B32), EXEC_SET(SHF_R_B32);
	EXEC_SET(BFE_S32), EXEC_SET(BFE_U32), EXEC_SET(BFE_S64), EXEC_SET(BFE_U64);
	EXEC_SET(BFI_B32), EXEC_SET(BFI_B64), EXEC_SET(BFIND_S32), EXEC_SET(BFIND_U32);
	EXEC_SET(BFIND_S64), EXEC_SET(BFIND_U64), EXEC_SET(BREV_B32), EXEC_SET(BREV_B64);
	EXEC_SET(CLZ_B32), EXEC_SET(CLZ_B64), EXEC_SET(POPC_B32), EXEC_SET(POPC_B64);
	EXEC_SET(PRMT_B32), EXEC_SET(LOP3_B32);
	EXEC_SET(AND_PRED), EXEC_SET(OR_PRED), EXEC_SET(XOR_PRED), EXEC_SET(MOV_PRED);
}
