/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operations, lane after lane; between SMs on several threads by compare and exchange. */
#include <string.h>

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

static uint64_t sum(unsigned type, uint64_t old, uint64_t b)
{
	uint64_t r = 0;

	if (type == RBT_PTX_F32) {
		float f = add_f32((uint32_t)old, (uint32_t)b);
		memcpy(&r, &f, 4);
	} else if (type == RBT_PTX_F64) {
		double d = add_f64(old, b);
		memcpy(&r, &d, 8);
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

/* What is written for `old`; 32-bit types use the low half. */
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

int exec_atom(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	unsigned size = rbt_ptx_type_bits(i->type) / 8;
	struct exec_span span;

	if (i->type == RBT_PTX_F16 || i->type == RBT_PTX_BF16 || i->type == RBT_PTX_F16X2) {
		return exec_fault(
			w, i, RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, (uint32_t)__builtin_ctz(mask), 0);
	}
	if (exec_resolve(w, i, mask, size, true, &span)) {
		return EXEC_FAULTED;
	}
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);
		uintptr_t at = span.scattered ? span.at[l] : span.base + span.offset[l];

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
