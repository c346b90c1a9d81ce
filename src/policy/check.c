/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for code. An interpreter that has seen them hold needs to check nothing at run time but
 * addresses, depth and fuel.
 */
#include <errno.h>
#include <stdlib.h>

#include "policy/allow.h"
#include "policy/flow.h"
#include "policy/object.h"

#define LAST_REG     BPF_REG_10 /* the frame; it is read only */
#define OP_JCOND_MAX BPF_JSLE

/* What is being checked. */
struct walk {
	const struct rbt_object *o;
	const struct rbt_object_function *f;
	const uint8_t *is_second; /* the second half of an lddw */
	uint32_t at;
	struct rbt_why *why;
};

static int refuse(const struct walk *w, const char *what)
{
	return rbt_why_set(w->why, -EINVAL, "section %s: instruction %u: %s", w->f->section_name,
		w->at - w->f->start + w->f->in_section, what);
}

static int check_target(const struct walk *w, int64_t target)
{
	if (target < w->f->start || target >= (int64_t)w->f->start + w->f->n ||
		w->is_second[target]) {
		return refuse(w, "it jumps out of its function, or into an instruction");
	}
	return 0;
}

static bool is_known_alu(const struct bpf_insn *insn)
{
	const int op = BPF_OP(insn->code);
	const bool is_imm = BPF_SRC(insn->code) == BPF_K;
	const int bits = BPF_CLASS(insn->code) == BPF_ALU64 ? 64 : 32;

	switch (op) {
	case BPF_END: /* the source bit is the byte order */
		return bits == 32 && insn->src_reg == 0 && insn->off == 0 &&
		       (insn->imm == 16 || insn->imm == 32 || insn->imm == 64);
	case BPF_NEG:
		return is_imm && insn->src_reg == 0 && insn->imm == 0 && insn->off == 0;
	case BPF_LSH:
	case BPF_RSH:
	case BPF_ARSH:
		if (is_imm && (insn->imm < 0 || insn->imm >= bits)) {
			return false;
		}
		break;
	case BPF_DIV:
	case BPF_MOD:
		if (is_imm && insn->imm == 0) {
			return false;
		}
		break;
	default:
		if (op > BPF_END) {
			return false;
		}
	}
	return insn->off == 0 && (is_imm ? insn->src_reg == 0 : insn->imm == 0);
}

static int check_alu(const struct walk *w, const struct bpf_insn *insn)
{
	if (!is_known_alu(insn)) {
		return refuse(w, "this calculation is not known (compile with -mcpu=v3 or older)");
	}
	return insn->dst_reg >= LAST_REG ? refuse(w, "it writes to r10") : 0;
}

static bool is_known_atomic(const struct bpf_insn *insn)
{
	const int size = BPF_SIZE(insn->code);

	if (size != BPF_W && size != BPF_DW) {
		return false;
	}
	switch (insn->imm) {
	case BPF_ADD:
	case BPF_OR:
	case BPF_AND:
	case BPF_XOR:
		return true;
	case BPF_ADD | BPF_FETCH:
	case BPF_OR | BPF_FETCH:
	case BPF_AND | BPF_FETCH:
	case BPF_XOR | BPF_FETCH:
	case BPF_XCHG:
		return insn->src_reg < LAST_REG;
	case BPF_CMPXCHG:
		return true;
	default:
		return false;
	}
}

static int check_memory(const struct walk *w, const struct bpf_insn *insn)
{
	const int mode = BPF_MODE(insn->code);
	bool is_known;

	switch (BPF_CLASS(insn->code)) {
	case BPF_LDX:
		is_known = mode == BPF_MEM && insn->imm == 0;
		if (is_known && insn->dst_reg >= LAST_REG) {
			return refuse(w, "it writes to r10");
		}
		break;
	case BPF_ST:
		is_known = mode == BPF_MEM && insn->src_reg == 0;
		break;
	default:
		is_known = (mode == BPF_MEM && insn->imm == 0) ||
			   (mode == BPF_ATOMIC && is_known_atomic(insn));
	}
	return is_known
		       ? 0
		       : refuse(w,
				 "this load or store is not known (compile with -mcpu=v3 or older)");
}

static int check_lddw(const struct walk *w, const struct bpf_insn *insn)
{
	if (insn->code != (BPF_LD | BPF_IMM | BPF_DW)) {
		return refuse(w, "this load is not known");
	}
	if (w->at + 1 >= w->f->start + w->f->n) {
		return refuse(w, "the second half of the instruction is missing");
	}
	if (insn->off != 0 || insn[1].code != 0 || insn[1].dst_reg != 0 || insn[1].src_reg != 0 ||
		insn[1].off != 0) {
		return refuse(w, "the instruction is damaged");
	}
	const char *forbidden = rbt_allow_reference(insn);
	if (forbidden != NULL) {
		return refuse(w, forbidden);
	}
	return insn->dst_reg >= LAST_REG ? refuse(w, "it writes to r10") : 0;
}

static int check_call(const struct walk *w, const struct bpf_insn *insn)
{
	const char *forbidden = rbt_allow_reference(insn);

	if (insn->dst_reg != 0 || insn->off != 0) {
		return refuse(w, "the instruction is damaged");
	}
	if (forbidden != NULL && insn->src_reg == 0) {
		return rbt_why_set(w->why, -EINVAL,
			"section %s: instruction %u: helper %d (%s) is not allowed",
			w->f->section_name, w->at - w->f->start + w->f->in_section, insn->imm,
			rbt_helper_name(insn->imm));
	}
	if (forbidden != NULL) {
		return refuse(w, forbidden);
	}
	if (insn->src_reg == BPF_PSEUDO_CALL) {
		int64_t target = (int64_t)w->at + 1 + insn->imm;
		const struct rbt_object_function *f =
			target >= 0 && target < w->o->n_code
				? rbt_object_function_at(w->o, (uint32_t)target)
				: NULL;
		if (f == NULL || f->start != target || f->hook != RBT_N_HOOKS) {
			return refuse(w, "the call goes to no subprogram");
		}
	}
	return 0;
}

static int check_jump(const struct walk *w, const struct bpf_insn *insn)
{
	const int op = BPF_OP(insn->code);
	const bool is_imm = BPF_SRC(insn->code) == BPF_K;

	if (BPF_CLASS(insn->code) == BPF_JMP && is_imm) {
		if (op == BPF_CALL) {
			return check_call(w, insn);
		}
		if (op == BPF_EXIT || op == BPF_JA) {
			if (insn->dst_reg != 0 || insn->src_reg != 0 || insn->imm != 0 ||
				(op == BPF_EXIT && insn->off != 0)) {
				return refuse(w, "the instruction is damaged");
			}
			return op == BPF_EXIT ? 0 : check_target(w, (int64_t)w->at + 1 + insn->off);
		}
	}
	if (op == BPF_CALL || op == BPF_EXIT || op == BPF_JA || op > OP_JCOND_MAX ||
		(is_imm ? insn->src_reg != 0 : insn->imm != 0)) {
		return refuse(w, "this jump is not known (compile with -mcpu=v3 or older)");
	}
	return check_target(w, (int64_t)w->at + 1 + insn->off);
}

static int check_insn(const struct walk *w)
{
	const struct bpf_insn *insn = &w->o->code[w->at];

	if (insn->dst_reg > LAST_REG ||
		(insn->src_reg > LAST_REG && insn->code != (BPF_JMP | BPF_CALL))) {
		return refuse(w, "there is no such register");
	}
	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
		return check_alu(w, insn);
	case BPF_JMP:
	case BPF_JMP32:
		return check_jump(w, insn);
	case BPF_LD:
		return check_lddw(w, insn);
	default:
		return check_memory(w, insn);
	}
}

static int check_function(struct walk *w, uint8_t *is_second)
{
	const struct bpf_insn *code = w->o->code;
	const uint32_t end = w->f->start + w->f->n;
	uint32_t last = w->f->start;

	for (uint32_t i = w->f->start; i + 1 < end; i++) {
		if (code[i].code == (BPF_LD | BPF_IMM | BPF_DW)) {
			is_second[++i] = 1;
		}
	}
	for (w->at = w->f->start; w->at < end; w->at++) {
		if (is_second[w->at]) {
			continue;
		}
		int r = check_insn(w);
		if (r < 0) {
			return r;
		}
		last = w->at;
	}
	w->at = last;
	if (code[last].code != (BPF_JMP | BPF_EXIT) && code[last].code != (BPF_JMP | BPF_JA)) {
		return refuse(w, "the function has no end");
	}
	return rbt_flow_check(w->o, w->f, w->why);
}

int rbt_object_check_code(const struct rbt_object *o, struct rbt_why *why)
{
	uint8_t *is_second = calloc(o->n_code + 1, 1);
	int r = 0;

	if (is_second == NULL) {
		return rbt_why_set(why, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; r == 0 && i < o->n_functions; i++) {
		struct walk w = {.o = o, .f = &o->functions[i], .is_second = is_second, .why = why};
		r = check_function(&w, is_second);
	}
	free(is_second);
	return r;
}
