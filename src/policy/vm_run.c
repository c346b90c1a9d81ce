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
	const struct vm_insn *back; /* the call */
	uint64_t saved[4];
};

/* One call of a hook. */
struct run {
	struct vm *vm;
	unsigned depth;
	uint8_t *frame_end; /* what r10 points to, in our memory */
	const char *wrong;  /* what went wrong, or NULL */
	uint8_t *ctx;
	uint64_t ctx_size;
	uint64_t r[11];
	struct frame frames[VM_FRAMES];
};

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

/* The memory that a load or store accesses, or NULL. */
INLINE uint8_t *memory(
	struct run *run, const struct vm_insn *i, unsigned reg, unsigned n, bool is_write)
{
	if (i->is_frame) {
		return run->frame_end + i->off;
	}
	const uint64_t address = run->r[reg] + (uint64_t)(int64_t)i->off;
	const uint64_t in_ctx = address - VM_ADDRESS(VM_REGION_CTX, 0);
	if (in_ctx <= run->ctx_size - n) { /* the shortest context has 16 bytes */
		return run->ctx + in_ctx;
	}
	uint8_t *p = vm_at(run->vm, address, n, is_write);
	if (__builtin_expect(p == NULL, 0)) {
		run->wrong = is_write ? "it writes memory that is not the policy's"
				      : "it reads memory that is not the policy's";
	}
	return p;
}

/* An engine has one thread, so that plain accesses are atomic. */
static void atomic(struct run *run, const struct vm_insn *i, unsigned n)
{
	const uint64_t mask = n == 8 ? UINT64_MAX : UINT32_MAX;
	const uint64_t operand = run->r[i->src] & mask;
	uint8_t *p = memory(run, i, i->dst, n, true);
	uint64_t old = 0, new;

	if (p == NULL) {
		return;
	}
	if (((uintptr_t)p & (n - 1)) != 0) {
		run->wrong = "an atomic access is not aligned";
		return;
	}
	memcpy(&old, p, n);
	switch (i->imm & ~(uint64_t)BPF_FETCH) {
	case BPF_ADD:
		new = old + operand;
		break;
	case BPF_OR:
		new = old | operand;
		break;
	case BPF_AND:
		new = old &operand;
		break;
	case BPF_XOR:
		new = old ^ operand;
		break;
	case BPF_CMPXCHG & ~BPF_FETCH:
		new = old == (run->r[0] & mask) ? operand : old;
		break;
	default: /* BPF_XCHG */
		new = operand;
	}
	memcpy(p, &new, n); /* little endian, as BPF */
	if (i->imm == BPF_CMPXCHG) {
		run->r[0] = old;
	} else if ((i->imm & BPF_FETCH) != 0) {
		run->r[i->src] = old;
	}
}

static void enter(struct run *run)
{
	struct vm_region *frame = &run->vm->regions[VM_REGION_FRAME + run->depth];

	memset(frame->base, 0, VM_FRAME_SIZE);
	frame->n_slots = 1;
	run->frame_end = frame->base + VM_FRAME_SIZE;
	run->r[10] = VM_ADDRESS(VM_REGION_FRAME + run->depth, VM_FRAME_SIZE);
}

/* Calls a subprogram or a helper. Returns the instruction behind which execution goes on. */
static const struct vm_insn *call(struct run *run, const struct vm_insn *i)
{
	if (i->src == 0) {
		run->wrong = vm_helper(run->vm, (int32_t)i->imm, run->r);
		return i;
	}
	if (run->depth + 1 == VM_FRAMES) {
		run->wrong = "calls are nested too deeply";
		return i;
	}
	struct frame *f = &run->frames[run->depth++];
	f->back = i;
	memcpy(f->saved, &run->r[6], sizeof(f->saved));
	enter(run);
	return &run->vm->code[i->off] - 1;
}

/* The same at the end of a function; NULL if the hook itself is done. */
static const struct vm_insn *leave(struct run *run)
{
	run->vm->regions[VM_REGION_FRAME + run->depth].n_slots = 0;
	if (run->depth == 0) {
		return NULL;
	}
	const struct frame *f = &run->frames[--run->depth];
	memcpy(&run->r[6], f->saved, sizeof(f->saved));
	run->frame_end = run->vm->stack[run->depth] + VM_FRAME_SIZE;
	run->r[10] = VM_ADDRESS(VM_REGION_FRAME + run->depth, VM_FRAME_SIZE);
	return f->back;
}

/* The instructions, with one case for each code. `a` and `b` are the operands. */
#define ALU_AS(code_, type, operand, result)                                                       \
	case code_: {                                                                              \
		const type a = (type)r[i->dst], b = (type)(operand);                               \
		(void)a;                                                                           \
		r[i->dst] = (result);                                                              \
		break;                                                                             \
	}
#define ALU(op, result64, result32)                                                                \
	ALU_AS(BPF_ALU64 | (op) | BPF_K, uint64_t, i->imm, result64)                               \
	ALU_AS(BPF_ALU64 | (op) | BPF_X, uint64_t, r[i->src], result64)                            \
	ALU_AS(BPF_ALU | (op) | BPF_K, uint32_t, i->imm, (uint32_t)(result32))                     \
	ALU_AS(BPF_ALU | (op) | BPF_X, uint32_t, r[i->src], (uint32_t)(result32))
#define JUMP_AS(code_, type, operator, operand)                                                    \
	case code_:                                                                                \
		if ((type)r[i->dst] operator(type)(operand)) {                                     \
			i = &code[i->off] - 1;                                                     \
		}                                                                                  \
		break;
#define JUMP(op, type64, type32, operator)                                                         \
	JUMP_AS(BPF_JMP | (op) | BPF_K, type64, operator, i->imm)                                  \
	JUMP_AS(BPF_JMP | (op) | BPF_X, type64, operator, r[i->src])                               \
	JUMP_AS(BPF_JMP32 | (op) | BPF_K, type32, operator, i->imm)                                \
	JUMP_AS(BPF_JMP32 | (op) | BPF_X, type32, operator, r[i->src])
#define MEMORY(size, type)                                                                         \
	case BPF_LDX | BPF_MEM | (size): {                                                         \
		const uint8_t *p = memory(run, i, i->src, sizeof(type), false);                    \
		type value;                                                                        \
		if (p == NULL) {                                                                   \
			return i;                                                                  \
		}                                                                                  \
		memcpy(&value, p, sizeof(value));                                                  \
		r[i->dst] = value;                                                                 \
		break;                                                                             \
	}                                                                                          \
	case BPF_STX | BPF_MEM | (size):                                                           \
	case BPF_ST | BPF_MEM | (size): {                                                          \
		const type value = (type)(BPF_CLASS(i->code) == BPF_ST ? i->imm : r[i->src]);      \
		uint8_t *p = memory(run, i, i->dst, sizeof(type), true);                           \
		if (p == NULL) {                                                                   \
			return i;                                                                  \
		}                                                                                  \
		memcpy(p, &value, sizeof(value));                                                  \
		break;                                                                             \
	}

/* clang-format off */
#define CALCULATIONS                                                                               \
	ALU(BPF_ADD, a + b, a + b)                                                                 \
	ALU(BPF_SUB, a - b, a - b)                                                                 \
	ALU(BPF_MUL, a * b, a * b)                                                                 \
	ALU(BPF_DIV, b != 0 ? a / b : 0, b != 0 ? a / b : 0)                                       \
	ALU(BPF_OR, a | b, a | b)                                                                  \
	ALU(BPF_AND, a & b, a & b)                                                                 \
	ALU(BPF_LSH, a << (b & 63), a << (b & 31))                                                 \
	ALU(BPF_RSH, a >> (b & 63), a >> (b & 31))                                                 \
	ALU(BPF_MOD, b != 0 ? a % b : a, b != 0 ? a % b : a)                                       \
	ALU(BPF_XOR, a ^ b, a ^ b)                                                                 \
	ALU(BPF_MOV, b, b)                                                                         \
	ALU(BPF_ARSH, (uint64_t)((int64_t)a >> (b & 63)), (int32_t)a >> (b & 31))                  \
	ALU_AS(BPF_ALU64 | BPF_NEG, uint64_t, 0, b - a)                                            \
	ALU_AS(BPF_ALU | BPF_NEG, uint32_t, 0, (uint32_t)(b - a))
#define CONDITIONS                                                                                 \
	JUMP(BPF_JEQ, uint64_t, uint32_t, ==)                                                      \
	JUMP(BPF_JNE, uint64_t, uint32_t, !=)                                                      \
	JUMP(BPF_JGT, uint64_t, uint32_t, >)                                                       \
	JUMP(BPF_JGE, uint64_t, uint32_t, >=)                                                      \
	JUMP(BPF_JLT, uint64_t, uint32_t, <)                                                       \
	JUMP(BPF_JLE, uint64_t, uint32_t, <=)                                                      \
	JUMP(BPF_JSET, uint64_t, uint32_t, &)                                                      \
	JUMP(BPF_JSGT, int64_t, int32_t, >)                                                        \
	JUMP(BPF_JSGE, int64_t, int32_t, >=)                                                       \
	JUMP(BPF_JSLT, int64_t, int32_t, <)                                                        \
	JUMP(BPF_JSLE, int64_t, int32_t, <=)
/* clang-format on */

/* Executes instructions until the hook is done, something is wrong or the fuel is used up. Returns
 * the last one. */
static const struct vm_insn *execute(struct run *run, const struct vm_insn *i)
{
	const struct vm_insn *const code = run->vm->code, *next;
	uint64_t *const r = run->r;

	for (int64_t fuel = RBT_ENGINE_FUEL; fuel > 0; i++, fuel--) {
		switch (i->code) {
			CALCULATIONS
			CONDITIONS
			MEMORY(BPF_B, uint8_t)
			MEMORY(BPF_H, uint16_t)
			MEMORY(BPF_W, uint32_t)
			MEMORY(BPF_DW, uint64_t)
		case BPF_STX | BPF_ATOMIC | BPF_W:
		case BPF_STX | BPF_ATOMIC | BPF_DW:
			atomic(run, i, BPF_SIZE(i->code) == BPF_W ? 4 : 8);
			if (run->wrong != NULL) {
				return i;
			}
			break;
		case VM_COPY: {
			const uint8_t *p = memory(run, i, i->src, 8, false);
			if (p == NULL) {
				return i;
			}
			memcpy(&r[i->dst], p, 8);
			memcpy(run->frame_end + i[1].off, p, 8);
			i++;
			fuel--;
			break;
		}
		case BPF_LD | BPF_IMM | BPF_DW:
			r[i->dst] = i->imm;
			i++; /* its second half */
			break;
		case BPF_JMP | BPF_JA:
			i = &code[i->off] - 1;
			break;
		case BPF_JMP | BPF_CALL:
			run->vm->charged = 0;
			next = call(run, i);
			fuel -= (int64_t)run->vm->charged;
			if (run->wrong != NULL) {
				return i;
			}
			i = next;
			break;
		case BPF_JMP | BPF_EXIT:
			next = leave(run);
			if (next == NULL) {
				return i;
			}
			i = next;
			break;
		default: /* BPF_END */
			r[i->dst] = swap(i, r[i->dst]);
		}
	}
	return i;
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
	struct run run;

	run.vm = vm;
	run.depth = 0;
	run.wrong = NULL;
	run.ctx = vm->regions[VM_REGION_CTX].base;
	run.ctx_size = vm->regions[VM_REGION_CTX].size;
	memset(run.r, 0, sizeof(run.r));
	run.r[1] = VM_ADDRESS(VM_REGION_CTX, 0);
	enter(&run);
	const struct vm_insn *last = execute(&run, &vm->code[entry]);
	const bool is_done =
		last->code == (BPF_JMP | BPF_EXIT) && vm->regions[VM_REGION_FRAME].n_slots == 0;
	const uint32_t at = (uint32_t)(last - vm->code);
	if (run.wrong == NULL && !is_done) {
		run.wrong = "it runs for too long";
		return fail(&run, RBT_FAULT_FUEL, at, fault);
	}
	if (run.wrong == NULL && vm_drop_reservations(vm)) {
		run.wrong = "a reserved record is neither submitted nor discarded";
	}
	if (run.wrong != NULL) {
		return fail(&run, RBT_FAULT_ACCESS, at, fault);
	}
	*ret_value = run.r[0];
	return 0;
}
