/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter. The code has been checked (check.c): it consists of known instructions with
 * existing registers, and cannot leave its functions. Addresses, depth and fuel are checked here.
 */
#include "policy/vm_run.h"

#include <errno.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

struct frame {
	uint32_t back; /* the instruction behind the call */
	uint64_t saved[4];
};

/* One call of a hook. */
struct run {
	struct vm *vm;
	uint64_t r[11];
	uint32_t pc; /* of the next instruction */
	unsigned depth;
	struct frame frames[VM_FRAMES];
	const char *wrong; /* what went wrong, or NULL */
};

INLINE uint64_t alu64(unsigned op, uint64_t a, uint64_t b)
{
	switch (op) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b != 0 ? a / b : 0;
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_LSH:
		return a << (b & 63);
	case BPF_RSH:
		return a >> (b & 63);
	case BPF_NEG:
		return 0 - a;
	case BPF_MOD:
		return b != 0 ? a % b : a;
	case BPF_XOR:
		return a ^ b;
	case BPF_MOV:
		return b;
	default: /* BPF_ARSH */
		return (uint64_t)((int64_t)a >> (b & 63));
	}
}

INLINE uint32_t alu32(unsigned op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_LSH:
		return a << (b & 31);
	case BPF_RSH:
		return a >> (b & 31);
	case BPF_ARSH:
		return (uint32_t)((int32_t)a >> (b & 31));
	default:
		return (uint32_t)alu64(op, a, b);
	}
}

/* To or from little endian (BPF_K) only cuts off; to or from big endian swaps. */
static uint64_t swap(const struct vm_insn *i, uint64_t a)
{
	const bool is_big = BPF_SRC(i->code) == BPF_X;

	switch (i->imm) {
	case 16:
		return is_big ? __builtin_bswap16((uint16_t)a) : (uint16_t)a;
	case 32:
		return is_big ? __builtin_bswap32((uint32_t)a) : (uint32_t)a;
	default:
		return is_big ? __builtin_bswap64(a) : a;
	}
}

INLINE bool is_taken(unsigned op, uint64_t a, uint64_t b, int64_t sa, int64_t sb)
{
	switch (op) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	case BPF_JSET:
		return (a & b) != 0;
	case BPF_JNE:
		return a != b;
	case BPF_JSGT:
		return sa > sb;
	case BPF_JSGE:
		return sa >= sb;
	case BPF_JLT:
		return a < b;
	case BPF_JLE:
		return a <= b;
	case BPF_JSLT:
		return sa < sb;
	default: /* BPF_JSLE */
		return sa <= sb;
	}
}

INLINE unsigned size_of(uint8_t code)
{
	switch (BPF_SIZE(code)) {
	case BPF_B:
		return 1;
	case BPF_H:
		return 2;
	case BPF_W:
		return 4;
	default:
		return 8;
	}
}

INLINE void load(struct run *run, const struct vm_insn *i)
{
	const unsigned n = size_of(i->code);
	const uint8_t *p = vm_at(run->vm, run->r[i->src] + (uint64_t)(int64_t)i->off, n, false);
	uint16_t half;
	uint32_t word;

	if (p == NULL) {
		run->wrong = "it reads memory that is not the policy's";
		return;
	}
	switch (n) {
	case 1:
		run->r[i->dst] = *p;
		break;
	case 2:
		memcpy(&half, p, sizeof(half));
		run->r[i->dst] = half;
		break;
	case 4:
		memcpy(&word, p, sizeof(word));
		run->r[i->dst] = word;
		break;
	default:
		memcpy(&run->r[i->dst], p, sizeof(run->r[0]));
	}
}

INLINE void put(uint8_t *p, unsigned n, uint64_t value)
{
	switch (n) {
	case 1:
		*p = (uint8_t)value;
		break;
	case 2:
		memcpy(p, &value, 2); /* little endian, as BPF */
		break;
	case 4:
		memcpy(p, &value, 4);
		break;
	default:
		memcpy(p, &value, 8);
	}
}

/* An engine has one thread, so that plain accesses are atomic. */
static void atomic(struct run *run, const struct vm_insn *i, uint8_t *p, unsigned n)
{
	const uint64_t mask = n == 8 ? UINT64_MAX : UINT32_MAX;
	const uint64_t operand = run->r[i->src] & mask;
	const unsigned op = i->imm & ~(unsigned)BPF_FETCH;
	uint64_t old = 0;

	if (((uintptr_t)p & (n - 1)) != 0) {
		run->wrong = "an atomic access is not aligned";
		return;
	}
	memcpy(&old, p, n);
	if (i->imm == BPF_CMPXCHG) {
		if (old == (run->r[0] & mask)) {
			put(p, n, operand);
		}
		run->r[0] = old;
		return;
	}
	put(p, n, i->imm == BPF_XCHG ? operand : alu64(op, old, operand));
	if ((i->imm & BPF_FETCH) != 0) {
		run->r[i->src] = old;
	}
}

INLINE void store(struct run *run, const struct vm_insn *i)
{
	const unsigned n = size_of(i->code);
	uint8_t *p = vm_at(run->vm, run->r[i->dst] + (uint64_t)(int64_t)i->off, n, true);

	if (p == NULL) {
		run->wrong = "it writes memory that is not the policy's";
	} else if (BPF_CLASS(i->code) == BPF_ST) {
		put(p, n, i->imm);
	} else if (BPF_MODE(i->code) == BPF_MEM) {
		put(p, n, run->r[i->src]);
	} else {
		atomic(run, i, p, n);
	}
}

static void enter(struct run *run)
{
	struct vm_region *frame = &run->vm->regions[VM_REGION_FRAME + run->depth];

	memset(frame->base, 0, VM_FRAME_SIZE);
	frame->n_slots = 1;
	run->r[10] = VM_ADDRESS(VM_REGION_FRAME + run->depth, VM_FRAME_SIZE);
}

static void call(struct run *run, const struct vm_insn *i)
{
	if (i->src == 0) {
		run->wrong = vm_helper(run->vm, (int32_t)i->imm, run->r);
		return;
	}
	if (run->depth + 1 == VM_FRAMES) {
		run->wrong = "calls are nested too deeply";
		return;
	}
	struct frame *f = &run->frames[run->depth++];
	f->back = run->pc;
	memcpy(f->saved, &run->r[6], sizeof(f->saved));
	run->pc = (uint32_t)i->off;
	enter(run);
}

/* Whether the hook itself is done. */
static bool leave(struct run *run)
{
	run->vm->regions[VM_REGION_FRAME + run->depth].n_slots = 0;
	if (run->depth == 0) {
		return true;
	}
	const struct frame *f = &run->frames[--run->depth];
	run->pc = f->back;
	memcpy(&run->r[6], f->saved, sizeof(f->saved));
	run->r[10] = VM_ADDRESS(VM_REGION_FRAME + run->depth, VM_FRAME_SIZE);
	return false;
}

INLINE bool jump(struct run *run, const struct vm_insn *i, uint64_t b)
{
	const uint64_t a = run->r[i->dst];
	const unsigned op = BPF_OP(i->code);

	if (BPF_CLASS(i->code) == BPF_JMP32) {
		if (is_taken(op, (uint32_t)a, (uint32_t)b, (int32_t)a, (int32_t)b)) {
			run->pc = (uint32_t)i->off;
		}
	} else if (op == BPF_EXIT) {
		return leave(run);
	} else if (op == BPF_CALL) {
		call(run, i);
	} else if (op == BPF_JA || is_taken(op, a, b, (int64_t)a, (int64_t)b)) {
		run->pc = (uint32_t)i->off;
	}
	return false;
}

INLINE bool step(struct run *run, const struct vm_insn *i)
{
	const uint64_t b = BPF_SRC(i->code) == BPF_X ? run->r[i->src] : i->imm;
	uint64_t *dst = &run->r[i->dst];

	switch (BPF_CLASS(i->code)) {
	case BPF_ALU64:
		*dst = alu64(BPF_OP(i->code), *dst, b);
		return false;
	case BPF_ALU:
		*dst = BPF_OP(i->code) == BPF_END
			       ? swap(i, *dst)
			       : alu32(BPF_OP(i->code), (uint32_t)*dst, (uint32_t)b);
		return false;
	case BPF_LDX:
		load(run, i);
		return false;
	case BPF_ST:
	case BPF_STX:
		store(run, i);
		return false;
	case BPF_LD:
		*dst = i->imm;
		run->pc++; /* its second half */
		return false;
	default:
		return jump(run, i, b);
	}
}

static int fail(struct run *run, enum rbt_fault_kind kind, uint32_t at, struct rbt_fault *fault)
{
	const struct rbt_object_function *f = rbt_object_function_at(run->vm->base.object, at);

	for (unsigned i = 0; i < VM_FRAMES; i++) {
		run->vm->regions[VM_REGION_FRAME + i].n_slots = 0;
	}
	vm_drop_reservations(run->vm);
	fault->kind = kind;
	fault->what = run->wrong;
	fault->section = f != NULL ? f->section_name : NULL;
	fault->pc = f != NULL ? at - f->start + f->in_section : at;
	return -EFAULT;
}

int vm_run(struct vm *vm, uint32_t entry, uint64_t *ret_value, struct rbt_fault *fault)
{
	struct run run = {.vm = vm, .pc = entry};
	uint32_t at;

	vm->fuel = RBT_ENGINE_FUEL;
	run.r[1] = VM_ADDRESS(VM_REGION_CTX, 0);
	enter(&run);
	do {
		at = run.pc++;
		if (--vm->fuel < 0) {
			run.wrong = "it runs for too long";
			return fail(&run, RBT_FAULT_FUEL, at, fault);
		}
		if (step(&run, &vm->code[at])) {
			break;
		}
	} while (run.wrong == NULL);
	if (run.wrong == NULL && vm_drop_reservations(vm)) {
		run.wrong = "a reserved record is neither submitted nor discarded";
	}
	if (run.wrong != NULL) {
		return fail(&run, RBT_FAULT_ACCESS, at, fault);
	}
	*ret_value = run.r[0];
	return 0;
}
