/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses that must be atomic, because other SMs, on other threads of the host, may access the
 * same words at the same time: atomic operations, by compare and exchange, and strong loads and
 * stores. One lane after the other.
 */
#include <string.h>

#include "softgpu/exec/half.h"
#include "softgpu/exec/impl.h"
#include "softgpu/ptx/ptx.h"

static float add_f32(uint32_t a, uint32_t b)
{
	float x, y;

	memcpy(&x, &a, 4);
	memcpy(&y, &b, 4);
	return x + y;
}

static double add_f64(uint64_t a, uint64_t b)
{
	double x, y;

	memcpy(&x, &a, 8);
	memcpy(&y, &b, 8);
	return x + y;
}

static uint32_t add_half(unsigned type, uint32_t a, uint32_t b)
{
	if (half_is_bf16(type)) {
		return bf16_from_f32(bf16_to_f32(a) + bf16_to_f32(b));
	}
	return f16_from_f32(f16_to_f32(a) + f16_to_f32(b));
}

static uint64_t sum(unsigned type, uint64_t old, uint64_t b)
{
	uint64_t r = 0;

	if (type == RBT_PTX_F32) {
		float f = add_f32((uint32_t)old, (uint32_t)b);
		memcpy(&r, &f, 4);
	} else if (type == RBT_PTX_F64) {
		double d = add_f64(old, b);
		memcpy(&r, &d, 8);
	} else if (type == RBT_PTX_F16 || type == RBT_PTX_BF16) {
		r = add_half(type, old & 0xffff, b & 0xffff);
	} else if (half_is_pair(type)) {
		r = add_half(type, old & 0xffff, b & 0xffff) |
		    add_half(type, (uint32_t)old >> 16, (uint32_t)b >> 16) << 16;
	} else {
		r = old + b;
	}
	return r;
}

static bool is_less(unsigned type, uint64_t a, uint64_t b)
{
	if (type == RBT_PTX_S32) {
		return (int32_t)a < (int32_t)b;
	}
	return type == RBT_PTX_S64 ? (int64_t)a < (int64_t)b : a < b;
}

/* The new value for `old`; 32-bit types use the low half. */
static uint64_t replaced(const struct rbt_ptx_inst *i, uint64_t old, uint64_t b, uint64_t c)
{
	switch (i->mod) {
	case RBT_PTX_RMW_ADD:
		return sum(i->type, old, b);
	case RBT_PTX_RMW_MIN:
		return is_less(i->type, b, old) ? b : old;
	case RBT_PTX_RMW_MAX:
		return is_less(i->type, old, b) ? b : old;
	case RBT_PTX_RMW_AND:
		return old & b;
	case RBT_PTX_RMW_OR:
		return old | b;
	case RBT_PTX_RMW_XOR:
		return old ^ b;
	case RBT_PTX_RMW_EXCH:
		return b;
	case RBT_PTX_RMW_CAS:
		return old == b ? c : old;
	case RBT_PTX_RMW_INC:
		return old >= b ? 0 : old + 1;
	default:
		return old == 0 || old > b ? b : old - 1;
	}
}

#define ATOMIC(name, word, file)                                                                   \
	static void name(                                                                          \
		struct exec_warp *w, const struct rbt_ptx_inst *i, unsigned l, uintptr_t at)       \
	{                                                                                          \
		word *p = (word *)at, old = __atomic_load_n(p, __ATOMIC_RELAXED), next;            \
		word b = (word)w->file[i->b][l];                                                   \
		word c = i->c == RBT_PTX_NO_SLOT ? 0 : (word)w->file[i->c][l];                     \
                                                                                                   \
		do {                                                                               \
			next = (word)replaced(i, old, b, c);                                       \
		} while (!__atomic_compare_exchange_n(                                             \
			p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));                \
		if (i->d[0] != RBT_PTX_NO_SLOT) {                                                  \
			w->file[i->d[0]][l] = old;                                                 \
		}                                                                                  \
	}
ATOMIC(atomic_16, uint16_t, r32)
ATOMIC(atomic_32, uint32_t, r32)
ATOMIC(atomic_64, uint64_t, r64)

static uintptr_t lane_at(const struct exec_span *span, unsigned l)
{
	return span->scattered ? span->at[l] : span->base + span->offset[l];
}

int exec_atom(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned size = rbt_ptx_type_bits(i->type) / 8;
	struct exec_span span;

	if (exec_resolve(w, i, mask, size, true, &span)) {
		return EXEC_FAULTED;
	}
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uintptr_t at = lane_at(&span, l);

		if (size == 8) {
			atomic_64(w, i, l, at);
		} else if (size == 4) {
			atomic_32(w, i, l, at);
		} else {
			atomic_16(w, i, l, at);
		}
	}
	return 0;
}

static uint64_t load_word(uintptr_t at, unsigned size)
{
	switch (size) {
	case 1:
		return __atomic_load_n((const uint8_t *)at, __ATOMIC_ACQUIRE);
	case 2:
		return __atomic_load_n((const uint16_t *)at, __ATOMIC_ACQUIRE);
	case 4:
		return __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
	default:
		return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
	}
}

static void store_word(uintptr_t at, unsigned size, uint64_t word)
{
	switch (size) {
	case 1:
		__atomic_store_n((uint8_t *)at, (uint8_t)word, __ATOMIC_RELEASE);
		break;
	case 2:
		__atomic_store_n((uint16_t *)at, (uint16_t)word, __ATOMIC_RELEASE);
		break;
	case 4:
		__atomic_store_n((uint32_t *)at, (uint32_t)word, __ATOMIC_RELEASE);
		break;
	default:
		__atomic_store_n((uint64_t *)at, word, __ATOMIC_RELEASE);
	}
}

void exec_load_strong(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	const struct exec_span *span)
{
	unsigned size = rbt_ptx_type_bits(i->type) / 8, shift = 64 - 8 * size;
	bool is_signed = i->type >= RBT_PTX_S8 && i->type <= RBT_PTX_S64;

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		for (unsigned k = 0; k < i->mod; k++) {
			uint64_t word = load_word(lane_at(span, l) + (uintptr_t)k * size, size);

			word = is_signed ? (uint64_t)((int64_t)(word << shift) >> shift) : word;
			if (i->d[k] == RBT_PTX_NO_SLOT) {
				continue;
			}
			if (i->dbits == 64) {
				w->r64[i->d[k]][l] = word;
			} else {
				w->r32[i->d[k]][l] = (uint32_t)word & UINT32_MAX >> (32 - i->dbits);
			}
		}
	}
}

void exec_store_strong(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask,
	const struct exec_span *span)
{
	unsigned size = rbt_ptx_type_bits(i->type) / 8;

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		for (unsigned k = 0; k < i->mod; k++) {
			store_word(lane_at(span, l) + (uintptr_t)k * size, size,
				i->sbits == 64 ? w->r64[i->d[k]][l] : w->r32[i->d[k]][l]);
		}
	}
}
