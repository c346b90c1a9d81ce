/* SPDX-License-Identifier: Apache-2.0 */
/* Moves and conversions. */
#include "softgpu/ptx/impl.h"

static int mov_pred(struct parser *p, struct insn *in)
{
	int r = ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);

	in->out.op = RBT_PTX_MOV_PRED;
	return r < 0 ? r : ptx_pred(p, in, &in->out.a, &in->ops[1], RBT_PTX_NEG_A);
}

/* The type of one of `count` parts of `bits`; 0: there is none. */
static unsigned part_type(unsigned bits, unsigned count)
{
	switch (count == 2 || count == 4 ? bits / count : 0) {
	case 8:
		return RBT_PTX_B8;
	case 16:
		return RBT_PTX_B16;
	case 32:
		return RBT_PTX_B32;
	default:
		return RBT_PTX_NONE;
	}
}

static int mov_unpack(struct parser *p, struct insn *in)
{
	const struct operand *to = &in->ops[0];
	unsigned bits = rbt_ptx_type_bits(in->types[0]), part = part_type(bits, to->count);
	uint8_t have;
	int r = 0;

	if (part == RBT_PTX_NONE || to->is_list) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_UNPACK;
	in->out.mod = (uint8_t)to->count;
	in->out.sbits = (uint8_t)bits;
	in->out.dbits = (uint8_t)rbt_ptx_type_bits(part);
	for (unsigned i = 0; r == 0 && i < to->count; i++) {
		r = ptx_dst_any(
			p, in, &in->out.d[i], &p->elements[to->first + i], in->out.dbits, &have);
		if (r == 0 && have != in->out.dbits) {
			return ptx_fail(
				p, EINVAL, "'mov' to a vector of registers of another width");
		}
	}
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
}

static int mov_pack(struct parser *p, struct insn *in)
{
	const struct operand *from = &in->ops[1];
	unsigned bits = rbt_ptx_type_bits(in->types[0]), part = part_type(bits, from->count);
	uint16_t *fields[] = {&in->out.a, &in->out.b, &in->out.c, &in->out.e};
	int r = 0;

	if (part == RBT_PTX_NONE || from->is_list) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_PACK;
	in->out.mod = (uint8_t)from->count;
	in->out.dbits = (uint8_t)bits;
	in->out.sbits = (uint8_t)rbt_ptx_type_bits(part);
	for (unsigned i = 0; r == 0 && i < from->count; i++) {
		r = ptx_src(p, in, fields[i], &p->elements[from->first + i], part);
	}
	return r < 0 ? r : ptx_dst(p, in, &in->out.d[0], &in->ops[0], bits);
}

static int mov_sreg(struct parser *p, struct insn *in)
{
	unsigned sreg = in->ops[1].sreg, bits = sreg >= RBT_PTX_SREG_GRIDID ? 64 : 32;

	if (rbt_ptx_type_bits(in->types[0]) != bits) {
		return ptx_fail(p, EINVAL, "'%s' is %u bits wide", ptx_sreg_name(sreg), bits);
	}
	in->out.op = bits == 64 ? RBT_PTX_SREG_B64 : RBT_PTX_SREG_B32;
	in->out.a = (uint16_t)sreg;
	return ptx_dst(p, in, &in->out.d[0], &in->ops[0], bits);
}

static int decode_mov(struct parser *p, struct insn *in)
{
	unsigned bits = rbt_ptx_type_bits(in->types[0]);
	int r = ptx_nops(p, in, 2, 2);

	if (r < 0) {
		return r;
	}
	if (in->ntypes != 1) {
		return ptx_no_form(p, in);
	}
	in->out.type = in->types[0];
	if (in->types[0] == RBT_PTX_PRED) {
		return mov_pred(p, in);
	}
	if (in->ops[0].kind == OPD_VECTOR) {
		return mov_unpack(p, in);
	}
	if (in->ops[1].kind == OPD_VECTOR) {
		return mov_pack(p, in);
	}
	if (in->ops[1].kind == OPD_SREG) {
		return mov_sreg(p, in);
	}
	in->out.op = bits == 64 ? RBT_PTX_MOV_B64 : RBT_PTX_MOV_B32;
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], bits);
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
}

static bool is_convertible(unsigned type)
{
	return (type >= RBT_PTX_U8 && type <= RBT_PTX_S64) ||
	       (ptx_is_float(type) && type != RBT_PTX_F16X2 && type != RBT_PTX_BF16X2);
}

/* Conversions between integers take no rounding. Conversions to an integer, or with a loss of
 * precision, must name one. */
static int cvt_rounding(struct parser *p, struct insn *in, bool from_float, bool to_float)
{
	int round = ptx_rounding(in);
	bool to_integer = round >= RBT_PTX_RNI && round <= RBT_PTX_RPI;
	bool narrows = rbt_ptx_type_bits(in->types[0]) < rbt_ptx_type_bits(in->types[1]);

	if (round == RBT_PTX_APPROX || (!from_float && !to_float && round >= 0) ||
		(from_float && !to_float && !to_integer) ||
		(!from_float && to_float && to_integer) ||
		(from_float && to_float && narrows && round < 0)) {
		return ptx_no_form(p, in);
	}
	in->out.mod = (uint8_t)(round < 0 ? RBT_PTX_RN : round);
	return 0;
}

/* cvt.rn.f16x2.f32 d, a, b: a becomes the upper half. */
static int cvt_pair(struct parser *p, struct insn *in)
{
	int round = ptx_rounding(in), r = ptx_nops(p, in, 3, 3);

	if (r < 0) {
		return r;
	}
	if (in->ntypes != 2 || in->types[1] != RBT_PTX_F32 ||
		(round != RBT_PTX_RN && round != RBT_PTX_RZ)) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_CVT_PAIR;
	in->out.mod = (uint8_t)round;
	in->out.type = in->types[0];
	in->out.stype = in->types[1];
	in->out.flags |= ptx_has(in, "relu") ? RBT_PTX_RELU : 0;
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
	r = r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], RBT_PTX_F32);
	return r < 0 ? r : ptx_src(p, in, &in->out.b, &in->ops[2], RBT_PTX_F32);
}

static int decode_cvt(struct parser *p, struct insn *in)
{
	static const uint16_t ops[2][2] = {
		{RBT_PTX_CVT_II, RBT_PTX_CVT_IF}, {RBT_PTX_CVT_FI, RBT_PTX_CVT_FF}};
	bool from_float = ptx_is_float(in->types[1]), to_float = ptx_is_float(in->types[0]);
	int r;

	if (in->types[0] == RBT_PTX_F16X2 || in->types[0] == RBT_PTX_BF16X2) {
		return cvt_pair(p, in);
	}
	r = ptx_nops(p, in, 2, 2);
	if (r < 0) {
		return r;
	}
	if (in->ntypes != 2 || !is_convertible(in->types[0]) || !is_convertible(in->types[1])) {
		return ptx_no_form(p, in);
	}
	in->out.op = ops[from_float][to_float];
	in->out.type = in->types[0];
	in->out.stype = in->types[1];
	in->out.flags |= (uint16_t)((ptx_has(in, "ftz") ? RBT_PTX_FTZ : 0) |
				    (ptx_has(in, "sat") ? RBT_PTX_SAT : 0));
	if (ptx_is_half(in->types[0]) && ptx_has(in, "relu")) {
		in->out.flags |= RBT_PTX_RELU;
	}
	r = cvt_rounding(p, in, from_float, to_float);
	r = r < 0 ? r
		  : ptx_dst_any(p, in, &in->out.d[0], &in->ops[0], rbt_ptx_type_bits(in->types[0]),
			    &in->out.dbits);
	r = r < 0 ? r : ptx_src_any(p, in, &in->out.a, &in->ops[1], in->types[1], &in->out.sbits);
	if (r == 0 && ((to_float && in->out.dbits != rbt_ptx_type_bits(in->types[0])) ||
			      (from_float && in->out.sbits != rbt_ptx_type_bits(in->types[1])))) {
		return ptx_fail(p, EINVAL, "'cvt' with a register of another width than its type");
	}
	return r;
}

static int take_space(struct insn *in, bool *ret_is_memory)
{
	static const char *const words[] = {"global", "const", "shared", "local", NULL};
	static const uint8_t spaces[] = {RBT_PTX_SPACE_GLOBAL, RBT_PTX_SPACE_CONST,
		RBT_PTX_SPACE_SHARED, RBT_PTX_SPACE_LOCAL};
	int which = ptx_one_of(in, words);

	*ret_is_memory = which == 0 || which == 1;
	return which < 0 ? -1 : spaces[which];
}

static int decode_cvta(struct parser *p, struct insn *in)
{
	bool is_to = ptx_has(in, "to"), is_memory;
	int space = take_space(in, &is_memory), r = ptx_nops(p, in, 2, 2);

	if (r < 0) {
		return r;
	}
	if (space < 0 || in->ntypes != 1 || rbt_ptx_type_bits(in->types[0]) != 64) {
		return ptx_no_form(p, in);
	}
	in->out.op = is_memory ? RBT_PTX_MOV_B64 : is_to ? RBT_PTX_CVTA_TO : RBT_PTX_CVTA;
	in->out.space = (uint8_t)space;
	in->out.type = RBT_PTX_B64;
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 64);
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], RBT_PTX_B64);
}

static int decode_isspacep(struct parser *p, struct insn *in)
{
	bool is_memory;
	int space = take_space(in, &is_memory), r = ptx_nops(p, in, 2, 2);

	if (r < 0) {
		return r;
	}
	if (space < 0) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_ISSPACEP;
	in->out.space = (uint8_t)space;
	r = ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], RBT_PTX_B64);
}

const struct decoder ptx_move_decoders[] = {
	{"mov", decode_mov},
	{"cvt", decode_cvt},
	{"cvta", decode_cvta},
	{"isspacep", decode_isspacep},
	{NULL, NULL},
};
