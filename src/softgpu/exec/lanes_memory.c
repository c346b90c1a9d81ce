/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores. A warp's addresses are resolved once (address.c); then elements are gathered or
 * scattered, or copied at once if the lanes are contiguous.
 */
#include <string.h>

#include "softgpu/exec/lanes.h"

/*
 * The fast way: all active lanes within `room` bytes from address va on. One pass over the lanes
 * finds the highest offset and all low bits; inactive lanes count as offset 0.
 */
static inline bool is_near(const uint64_t *a, uint64_t back, uint32_t mask, uint64_t room,
	uint32_t size, uint32_t misalign, uint32_t *ret_offset)
{
	uint64_t high = 0;
	uint32_t most = 0, bits = misalign;

	if (room < size || room > UINT32_MAX) {
		return false;
	}
	EXEC_EACH_LANE
	{
		/* Not a condition, which would prevent vectorisation. */
		uint64_t off = (a[l] + back) & (0 - (uint64_t)(mask >> l & 1));

		ret_offset[l] = (uint32_t)off;
		high |= off >> 32;
		bits |= (uint32_t)off;
		most = (uint32_t)off > most ? (uint32_t)off : most;
	}
	return high == 0 && (bits & (size - 1)) == 0 && most <= room - size;
}

static inline int locate(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	uint32_t size, bool store, struct exec_span *span)
{
	struct rbt_exec_block *block = w->block;

	if (i->space <= RBT_PTX_SPACE_SHARED && i->a != RBT_PTX_NO_SLOT &&
		!(i->flags & RBT_PTX_ADDR32)) {
		const uint64_t *a = w->r64[i->a];

		span->scattered = false;
		if (i->space == RBT_PTX_SPACE_SHARED) {
			span->base = (uintptr_t)block->shared;
			if (is_near(a, (uint64_t)i->imm, mask, block->shared_size, size, 0,
				    span->offset)) {
				return 0;
			}
		} else {
			const struct rbt_exec_window *window =
				exec_window_at(block, a[__builtin_ctz(mask)] + (uint64_t)i->imm);

			span->base = window ? (uintptr_t)window->host : 0;
			if (window && !(store && window->read_only) &&
				is_near(a, (uint64_t)i->imm - window->va, mask, window->size, size,
					(uint32_t)window->va, span->offset)) {
				return 0;
			}
		}
	}
	return exec_resolve(w, i, mask, size, store, span);
}

/* Whether all lanes are active, and each element is right behind that of the lane before. */
static inline bool is_contiguous(const struct exec_span *span, uint32_t mask, uint32_t size)
{
	uint32_t off = 0;

	if (mask != EXEC_ALL || span->scattered) {
		return false;
	}
	EXEC_EACH_LANE
	{
		off |= (span->offset[l] - span->offset[0]) ^ (l * size);
	}
	return off == 0;
}

/* Sizes of the types, in bytes. */
static const uint8_t sizes[] = {[RBT_PTX_B8] = 1,
	[RBT_PTX_B16] = 2,
	[RBT_PTX_B32] = 4,
	[RBT_PTX_B64] = 8,
	[RBT_PTX_U8] = 1,
	[RBT_PTX_U16] = 2,
	[RBT_PTX_U32] = 4,
	[RBT_PTX_U64] = 8,
	[RBT_PTX_S8] = 1,
	[RBT_PTX_S16] = 2,
	[RBT_PTX_S32] = 4,
	[RBT_PTX_S64] = 8,
	[RBT_PTX_F16] = 2,
	[RBT_PTX_BF16] = 2,
	[RBT_PTX_F16X2] = 4,
	[RBT_PTX_BF16X2] = 4,
	[RBT_PTX_F32] = 4,
	[RBT_PTX_F64] = 8,
	[RBT_PTX_PRED] = 1};

/* One lane of a scattered access, as a span of its own. */
static void narrow(struct exec_span *span, uint32_t lane)
{
	span->base = span->at[lane];
	span->offset[lane] = 0;
}

#define AT(element) ((element *)(base + offset[l]))

/* Reads elements of one type into a register file, extended as in C and then cut to `keep`. */
#define GATHER(name, element, file, word)                                                          \
	static void name(struct exec_warp *w, const struct exec_span *span, uint32_t mask,         \
		unsigned slot, uint64_t extra, word keep)                                          \
	{                                                                                          \
		word *restrict d = w->file[slot];                                                  \
		const uint32_t *restrict offset = span->offset;                                    \
		const uintptr_t base = span->base + extra;                                         \
                                                                                                   \
		if (mask == EXEC_ALL) {                                                            \
			EXEC_EACH_SINGLE                                                           \
			{                                                                          \
				word value = (word)*AT(const element);                             \
                                                                                                   \
				__asm__("" : "+r"(value)); /* no gather */                         \
				d[l] = value & keep;                                               \
			}                                                                          \
			return;                                                                    \
		}                                                                                  \
		for (uint32_t left = mask; left; left &= left - 1) {                               \
			unsigned l = (unsigned)__builtin_ctz(left);                                \
			d[l] = (word)*AT(const element) & keep;                                    \
		}                                                                                  \
	}
GATHER(gather_u8, uint8_t, r32, uint32_t)
GATHER(gather_s8, int8_t, r32, uint32_t)
GATHER(gather_u16, uint16_t, r32, uint32_t)
GATHER(gather_s16, int16_t, r32, uint32_t)
GATHER(gather_32, uint32_t, r32, uint32_t)
GATHER(gather_u8_64, uint8_t, r64, uint64_t)
GATHER(gather_s8_64, int8_t, r64, uint64_t)
GATHER(gather_u16_64, uint16_t, r64, uint64_t)
GATHER(gather_s16_64, int16_t, r64, uint64_t)
GATHER(gather_u32_64, uint32_t, r64, uint64_t)
GATHER(gather_s32_64, int32_t, r64, uint64_t)
GATHER(gather_64, uint64_t, r64, uint64_t)

typedef void (*gather32_fn)(
	struct exec_warp *, const struct exec_span *, uint32_t, unsigned, uint64_t, uint32_t);
typedef void (*gather64_fn)(
	struct exec_warp *, const struct exec_span *, uint32_t, unsigned, uint64_t, uint64_t);

/* By the logarithm of the size, then by sign. */
static const gather32_fn gathers32[3][2] = {
	{gather_u8, gather_s8}, {gather_u16, gather_s16}, {gather_32, gather_32}};
static const gather64_fn gathers64[4][2] = {{gather_u8_64, gather_s8_64},
	{gather_u16_64, gather_s16_64}, {gather_u32_64, gather_s32_64}, {gather_64, gather_64}};

static void load_elements(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	const struct exec_span *span, unsigned size)
{
	unsigned log = (unsigned)__builtin_ctz(size);
	bool is_signed = i->type >= RBT_PTX_S8 && i->type <= RBT_PTX_S64;

	for (unsigned k = 0; k < i->mod; k++) {
		if (i->d[k] == RBT_PTX_NO_SLOT) {
			continue;
		}
		if (i->dbits == 64) {
			gathers64[log][is_signed](
				w, span, mask, i->d[k], (uint64_t)k * size, UINT64_MAX);
		} else {
			gathers32[log][is_signed](w, span, mask, i->d[k], (uint64_t)k * size,
				UINT32_MAX >> (32 - i->dbits));
		}
	}
}

static int op_LD(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned size = sizes[i->type];
	struct exec_span span;

	if (locate(w, i, mask, size * i->mod, false, &span)) {
		return EXEC_FAULTED;
	}
	if (i->flags & RBT_PTX_STRONG) {
		exec_load_strong(w, i, mask, &span);
		return 0;
	}
	if (i->mod == 1 && size * 8 == i->dbits && size >= 4 && is_contiguous(&span, mask, size)) {
		void *d = size == 4 ? (void *)w->r32[i->d[0]] : (void *)w->r64[i->d[0]];

		memcpy(d, (const void *)(span.base + span.offset[0]), (size_t)size * EXEC_LANES);
		return 0;
	}
	if (!span.scattered) {
		load_elements(w, i, mask, &span, size);
		return 0;
	}
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		narrow(&span, lane);
		load_elements(w, i, 1u << lane, &span, size);
	}
	return 0;
}

/* In the order of lanes: if several write to one place, the last value stays. */
#define SCATTER(name, element, file)                                                               \
	static void name(struct exec_warp *w, const struct exec_span *span, uint32_t mask,         \
		unsigned slot, uint64_t extra)                                                     \
	{                                                                                          \
		const uint32_t *offset = span->offset;                                             \
		const uintptr_t base = span->base + extra;                                         \
                                                                                                   \
		for (uint32_t left = mask; left; left &= left - 1) {                               \
			unsigned l = (unsigned)__builtin_ctz(left);                                \
			*AT(element) = (element)w->file[slot][l];                                  \
		}                                                                                  \
	}
SCATTER(scatter_8, uint8_t, r32)
SCATTER(scatter_16, uint16_t, r32)
SCATTER(scatter_32, uint32_t, r32)
SCATTER(scatter_8_64, uint8_t, r64)
SCATTER(scatter_16_64, uint16_t, r64)
SCATTER(scatter_32_64, uint32_t, r64)
SCATTER(scatter_64, uint64_t, r64)

typedef void (*scatter_fn)(
	struct exec_warp *, const struct exec_span *, uint32_t, unsigned, uint64_t);

static const scatter_fn scatters32[3] = {scatter_8, scatter_16, scatter_32};
static const scatter_fn scatters64[4] = {scatter_8_64, scatter_16_64, scatter_32_64, scatter_64};

static void store_elements(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	const struct exec_span *span, unsigned size)
{
	const scatter_fn *scatters = i->sbits == 64 ? scatters64 : scatters32;

	for (unsigned k = 0; k < i->mod; k++) {
		scatters[__builtin_ctz(size)](w, span, mask, i->d[k], (uint64_t)k * size);
	}
}

static int op_ST(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned size = sizes[i->type];
	struct exec_span span;

	if (locate(w, i, mask, size * i->mod, true, &span)) {
		return EXEC_FAULTED;
	}
	if (i->flags & RBT_PTX_STRONG) {
		exec_store_strong(w, i, mask, &span);
		return 0;
	}
	if (i->mod == 1 && size * 8 == i->sbits && size >= 4 && is_contiguous(&span, mask, size)) {
		const void *d = size == 4 ? (void *)w->r32[i->d[0]] : (void *)w->r64[i->d[0]];

		memcpy((void *)(span.base + span.offset[0]), d, (size_t)size * EXEC_LANES);
		return 0;
	}
	if (!span.scattered) {
		store_elements(w, i, mask, &span, size);
		return 0;
	}
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		narrow(&span, lane);
		store_elements(w, i, 1u << lane, &span, size);
	}
	return 0;
}

void EXEC_AT_LEVEL(exec_fill_memory)(exec_op *ops)
{
	EXEC_SET(LD), EXEC_SET(ST);
}
