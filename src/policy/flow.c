/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/flow.h"

#include <errno.h>
#include <stdlib.h>

#define BIT(reg)  (1u << (reg))
#define ARGUMENTS (BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5))
#define UNSEEN    0xffffu

static const uint8_t helper_args[] = {
	[BPF_FUNC_map_lookup_elem] = 2,
	[BPF_FUNC_map_update_elem] = 4,
	[BPF_FUNC_map_delete_elem] = 2,
	[BPF_FUNC_ktime_get_ns] = 0,
	[BPF_FUNC_ringbuf_output] = 4,
	[BPF_FUNC_ringbuf_reserve] = 3,
	[BPF_FUNC_ringbuf_submit] = 2,
	[BPF_FUNC_ringbuf_discard] = 2,
};

static unsigned first_arguments(unsigned n)
{
	return (BIT(n + 1) - 1) & ~BIT(0);
}

/* The registers that an instruction reads. */
static unsigned reads(const struct bpf_insn *insn, bool is_hook)
{
	const bool has_source = BPF_SRC(insn->code) == BPF_X;
	const int op = BPF_OP(insn->code);

	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
		if (op == BPF_END || op == BPF_NEG) {
			return BIT(insn->dst_reg);
		}
		return (op != BPF_MOV ? BIT(insn->dst_reg) : 0) |
		       (has_source ? BIT(insn->src_reg) : 0);
	case BPF_JMP:
	case BPF_JMP32:
		if (op == BPF_CALL) {
			/* How many arguments a subprogram has is not known. */
			return insn->src_reg == 0 ? first_arguments(helper_args[insn->imm]) : 0;
		}
		if (op == BPF_EXIT) {
			return is_hook ? BIT(0) : 0;
		}
		return op == BPF_JA ? 0
				    : BIT(insn->dst_reg) | (has_source ? BIT(insn->src_reg) : 0);
	case BPF_LDX:
		return BIT(insn->src_reg);
	case BPF_ST:
		return BIT(insn->dst_reg);
	case BPF_STX:
		return BIT(insn->dst_reg) | BIT(insn->src_reg) |
		       (BPF_MODE(insn->code) == BPF_ATOMIC && insn->imm == BPF_CMPXCHG ? BIT(0)
										       : 0);
	default:
		return 0;
	}
}

/* The registers that have a value after an instruction. */
static unsigned after(const struct bpf_insn *insn, unsigned before)
{
	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
	case BPF_LDX:
	case BPF_LD:
		return before | BIT(insn->dst_reg);
	case BPF_JMP:
		return insn->code == (BPF_JMP | BPF_CALL) ? (before & ~ARGUMENTS) | BIT(0) : before;
	default:
		return before;
	}
}

/* A register has a value only if it has one on every way here. */
static void arrive(uint16_t *known, uint32_t *todo, uint32_t *n_todo, uint32_t at, unsigned regs)
{
	unsigned both = known[at] == UNSEEN ? regs : known[at] & regs;

	if (both != known[at]) {
		known[at] = (uint16_t)both;
		todo[(*n_todo)++] = at;
	}
}

/* Each instruction is queued at most once per register that it loses, and once at first. */
#define MAX_VISITS 13

static int follow(const struct rbt_object *o, const struct rbt_object_function *f, uint16_t *known,
	uint32_t *todo, struct rbt_why *why)
{
	const bool is_hook = f->hook != RBT_N_HOOKS;
	uint32_t n_todo = 0;

	arrive(known, todo, &n_todo, 0, is_hook ? BIT(1) | BIT(10) : ARGUMENTS | BIT(10));
	while (n_todo > 0) {
		const uint32_t at = todo[--n_todo];
		const struct bpf_insn *insn = &o->code[f->start + at];
		const int class = BPF_CLASS(insn->code), op = BPF_OP(insn->code);
		const bool is_jump = class == BPF_JMP || class == BPF_JMP32;
		unsigned missing = reads(insn, is_hook) & ~(unsigned)known[at];
		if (missing != 0) {
			return rbt_why_set(why, -EINVAL,
				"section %s: instruction %u: it reads r%d, which may have no value",
				f->section_name, at + f->in_section, __builtin_ctz(missing));
		}
		unsigned regs = after(insn, known[at]);
		if (is_jump && op == BPF_EXIT) {
			continue;
		}
		if (is_jump && op != BPF_CALL) {
			arrive(known, todo, &n_todo, (uint32_t)((int64_t)at + 1 + insn->off), regs);
			if (op == BPF_JA) {
				continue;
			}
		}
		arrive(known, todo, &n_todo, at + (class == BPF_LD ? 2 : 1), regs);
	}
	return 0;
}

int rbt_flow_check(
	const struct rbt_object *o, const struct rbt_object_function *f, struct rbt_why *why)
{
	uint16_t *known = malloc(f->n * sizeof(*known));
	uint32_t *todo = malloc((size_t)f->n * MAX_VISITS * sizeof(*todo));
	int r = -ENOMEM;

	if (known == NULL || todo == NULL) {
		rbt_why_set(why, r, "out of memory");
	} else {
		for (uint32_t i = 0; i < f->n; i++) {
			known[i] = UNSEEN;
		}
		r = follow(o, f, known, todo, why);
	}
	free(known);
	free(todo);
	return r;
}
