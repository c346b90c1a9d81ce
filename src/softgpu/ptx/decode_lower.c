/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rare instructions as a few common ones: sad, cnot, mul24, mad24. All but the last step write
 * registers of our own, so only the last needs the guard.
 */
#include "softgpu/ptx/impl.h"

/* An operation on registers of ours, or on operands of the instruction. */
struct step {
	struct insn insn;
	unsigned type;
};

static void step_init(struct step *step, const struct insn *in, unsigned op, unsigned type)
{
	ptx_insn_init(&step->insn);
	memcpy(step->insn.name, in->name, sizeof(in->name));
	step->insn.line = in->line;
	step->insn.out.op = (uint16_t)op;
	step->insn.out.type = (uint8_t)type;
	step->type = type;
}

static int step_emit(struct parser *p, struct step *step, uint16_t *ret_slot)
{
	int r = ptx_new_slot(p, step->type, &step->insn.out.d[0]);

	*ret_slot = step->insn.out.d[0];
	return r < 0 ? r : ptx_emit(p, &step->insn);
}

/* slot = op(a, b) */
static int binary(struct parser *p, const struct insn *in, unsigned op, unsigned type,
	const struct operand *a, const struct operand *b, uint16_t *ret_slot)
{
	struct step step;
	int r;

	step_init(&step, in, op, type);
	r = ptx_src(p, &step.insn, &step.insn.out.a, a, type);
	r = r < 0 ? r : ptx_src(p, &step.insn, &step.insn.out.b, b, type);
	return r < 0 ? r : step_emit(p, &step, ret_slot);
}

static const struct {
	uint8_t type;
	uint16_t max, min, sub, add;
} sads[] = {
	{RBT_PTX_U16, RBT_PTX_MAX_U32, RBT_PTX_MIN_U32, RBT_PTX_SUB_I16, RBT_PTX_ADD_I16},
	{RBT_PTX_S16, RBT_PTX_MAX_S16, RBT_PTX_MIN_S16, RBT_PTX_SUB_I16, RBT_PTX_ADD_I16},
	{RBT_PTX_U32, RBT_PTX_MAX_U32, RBT_PTX_MIN_U32, RBT_PTX_SUB_I32, RBT_PTX_ADD_I32},
	{RBT_PTX_S32, RBT_PTX_MAX_S32, RBT_PTX_MIN_S32, RBT_PTX_SUB_I32, RBT_PTX_ADD_I32},
	{RBT_PTX_U64, RBT_PTX_MAX_U64, RBT_PTX_MIN_U64, RBT_PTX_SUB_I64, RBT_PTX_ADD_I64},
	{RBT_PTX_S64, RBT_PTX_MAX_S64, RBT_PTX_MIN_S64, RBT_PTX_SUB_I64, RBT_PTX_ADD_I64},
};

/* c + (max(a, b) - min(a, b)) */
static int decode_sad(struct parser *p, struct insn *in)
{
	unsigned type = in->types[0], which = 0;
	uint16_t high, low;
	struct step step;
	int r = ptx_nops(p, in, 4, 4);

	while (which < 6 && sads[which].type != type) {
		which++;
	}
	if (r == 0 && (which == 6 || in->ntypes != 1)) {
		return ptx_no_form(p, in);
	}
	r = r < 0 ? r : binary(p, in, sads[which].max, type, &in->ops[1], &in->ops[2], &high);
	r = r < 0 ? r : binary(p, in, sads[which].min, type, &in->ops[1], &in->ops[2], &low);
	if (r < 0) {
		return r;
	}
	step_init(&step, in, sads[which].sub, type);
	step.insn.out.a = high;
	step.insn.out.b = low;
	in->out.op = sads[which].add;
	in->out.type = (uint8_t)type;
	r = step_emit(p, &step, &in->out.a);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &in->ops[3], type);
	return r < 0 ? r : ptx_dst(p, in, &in->out.d[0], &in->ops[0], rbt_ptx_type_bits(type));
}

/* a == 0 ? 1 : 0 */
static int decode_cnot(struct parser *p, struct insn *in)
{
	static const struct operand zero = {.kind = OPD_IMM},
				    one = {.kind = OPD_IMM, .literal.bits = 1};
	unsigned type = in->types[0], bits = rbt_ptx_type_bits(type);
	struct step step;
	int r = ptx_nops(p, in, 2, 2);

	if (r < 0) {
		return r;
	}
	if (in->ntypes != 1 ||
		(type != RBT_PTX_B16 && type != RBT_PTX_B32 && type != RBT_PTX_B64)) {
		return ptx_no_form(p, in);
	}
	step_init(&step, in, bits == 64 ? RBT_PTX_SETP_U64 : RBT_PTX_SETP_U32, type);
	step.insn.out.mod = RBT_PTX_EQ;
	r = ptx_src(p, &step.insn, &step.insn.out.a, &in->ops[1], type);
	r = r < 0 ? r : ptx_src(p, &step.insn, &step.insn.out.b, &zero, type);
	step.type = RBT_PTX_PRED;
	r = r < 0 ? r : step_emit(p, &step, &in->out.c);
	in->out.op = bits == 64 ? RBT_PTX_SELP_B64 : RBT_PTX_SELP_B32;
	in->out.type = (uint8_t)type;
	r = r < 0 ? r : ptx_src(p, in, &in->out.a, &one, type);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &zero, type);
	return r < 0 ? r : ptx_dst(p, in, &in->out.d[0], &in->ops[0], bits);
}

/* The low 24 bits of an operand, with the type's sign. */
static int low24(
	struct parser *p, const struct insn *in, const struct operand *o, uint16_t *ret_slot)
{
	static const struct operand zero = {.kind = OPD_IMM},
				    count = {.kind = OPD_IMM, .literal.bits = 24};
	struct step step;
	int r;

	step_init(&step, in, in->types[0] == RBT_PTX_S32 ? RBT_PTX_BFE_S32 : RBT_PTX_BFE_U32,
		in->types[0]);
	r = ptx_src(p, &step.insn, &step.insn.out.a, o, in->types[0]);
	r = r < 0 ? r : ptx_src(p, &step.insn, &step.insn.out.b, &zero, RBT_PTX_B32);
	r = r < 0 ? r : ptx_src(p, &step.insn, &step.insn.out.c, &count, RBT_PTX_B32);
	return r < 0 ? r : step_emit(p, &step, ret_slot);
}

static int decode_mul24(struct parser *p, struct insn *in)
{
	bool is_mad = strcmp(in->name, "mad24") == 0;
	int r = ptx_nops(p, in, is_mad ? 4 : 3, is_mad ? 4 : 3);

	if (r < 0) {
		return r;
	}
	if (!ptx_has(in, "lo") || in->ntypes != 1 ||
		(in->types[0] != RBT_PTX_S32 && in->types[0] != RBT_PTX_U32)) {
		return ptx_no_form(p, in);
	}
	in->out.op = is_mad ? RBT_PTX_MAD_LO_I32 : RBT_PTX_MUL_LO_I32;
	in->out.type = in->types[0];
	r = low24(p, in, &in->ops[1], &in->out.a);
	r = r < 0 ? r : low24(p, in, &in->ops[2], &in->out.b);
	if (r == 0 && is_mad) {
		r = ptx_src(p, in, &in->out.c, &in->ops[3], in->types[0]);
	}
	return r < 0 ? r : ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
}

const struct decoder ptx_lower_decoders[] = {
	{"sad", decode_sad},
	{"cnot", decode_cnot},
	{"mul24", decode_mul24},
	{"mad24", decode_mul24},
	{NULL, NULL},
};
