/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons, predicates, and operations that do not fit the table of decode_alu.c. */
#include "softgpu/ptx/impl.h"

static const char *const cmp_words[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu",
	"leu", "gtu", "geu", "num", "nan", "lo", "ls", "hi", "hs", NULL};

/* set is NOP if there is no such operation: then it is made of setp and selp. */
struct compare {
	uint8_t type;
	uint16_t setp, set;
};

static const struct compare compares[] = {
	{RBT_PTX_S16, RBT_PTX_SETP_S16, RBT_PTX_SET_S16},
	{RBT_PTX_U16, RBT_PTX_SETP_U32, RBT_PTX_SET_U32},
	{RBT_PTX_B16, RBT_PTX_SETP_U32, RBT_PTX_SET_U32},
	{RBT_PTX_S32, RBT_PTX_SETP_S32, RBT_PTX_SET_S32},
	{RBT_PTX_U32, RBT_PTX_SETP_U32, RBT_PTX_SET_U32},
	{RBT_PTX_B32, RBT_PTX_SETP_U32, RBT_PTX_SET_U32},
	{RBT_PTX_S64, RBT_PTX_SETP_S64, RBT_PTX_SET_S64},
	{RBT_PTX_U64, RBT_PTX_SETP_U64, RBT_PTX_SET_U64},
	{RBT_PTX_B64, RBT_PTX_SETP_U64, RBT_PTX_SET_U64},
	{RBT_PTX_F32, RBT_PTX_SETP_F32, RBT_PTX_SET_F32},
	{RBT_PTX_F64, RBT_PTX_SETP_F64, RBT_PTX_SET_F64},
	{RBT_PTX_F16, RBT_PTX_SETP_HALF, RBT_PTX_NOP},
	{RBT_PTX_BF16, RBT_PTX_SETP_HALF, RBT_PTX_NOP},
	{RBT_PTX_F16X2, RBT_PTX_SETP_HALF, RBT_PTX_NOP},
	{RBT_PTX_BF16X2, RBT_PTX_SETP_HALF, RBT_PTX_NOP},
};

static const struct compare *compare_of(unsigned type)
{
	for (size_t i = 0; i < sizeof(compares) / sizeof(compares[0]); i++) {
		if (compares[i].type == type) {
			return &compares[i];
		}
	}
	return NULL;
}

/* lo, ls, hi, hs are unsigned comparisons and mean lt, le, gt, ge. */
static int take_cmp(struct parser *p, struct insn *in, unsigned type)
{
	enum { LO = 14 };
	int cmp = ptx_one_of(in, cmp_words);
	bool is_float = ptx_is_float(type);

	if (cmp < 0 || (!is_float && cmp >= RBT_PTX_EQU && cmp < LO) || (is_float && cmp >= LO) ||
		(cmp >= LO && ptx_is_signed(type))) {
		return ptx_no_form(p, in);
	}
	in->out.mod = (uint8_t)(cmp >= LO ? RBT_PTX_LT + (cmp - LO) : cmp);
	if (is_float && ptx_has(in, "ftz")) {
		in->out.flags |= RBT_PTX_FTZ;
	}
	return 0;
}

/* a, b and, with a boolean operation, c. */
static int compare_sources(struct parser *p, struct insn *in, unsigned type)
{
	static const char *const words[] = {"and", "or", "xor", NULL};
	int op = ptx_one_of(in, words);
	unsigned count = op < 0 ? 3 : 4;
	int r = ptx_nops(p, in, count, count);

	r = r < 0 ? r : take_cmp(p, in, type);
	r = r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], type);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &in->ops[2], type);
	in->out.stype = (uint8_t)(op + 1);
	if (r == 0 && op >= 0) {
		r = ptx_pred(p, in, &in->out.c, &in->ops[3], RBT_PTX_NEG_C);
	}
	return r;
}

/* Two halves, compared each by itself. */
static bool is_pair(unsigned type)
{
	return type == RBT_PTX_F16X2 || type == RBT_PTX_BF16X2;
}

static int decode_setp(struct parser *p, struct insn *in)
{
	const struct compare *compare = compare_of(in->types[0]);
	int r;

	if (compare == NULL || in->ntypes != 1) {
		return ptx_no_form(p, in);
	}
	in->out.op = compare->setp;
	in->out.type = in->types[0];
	r = compare_sources(p, in, in->types[0]);
	r = r < 0 ? r : ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);
	if (r == 0 && in->ops[0].kind != OPD_VECTOR && in->ops[0].count == 1) {
		r = ptx_pred_dst(p, in, &in->out.d[1], &p->elements[in->ops[0].first]);
	} else if (r == 0 && is_pair(in->types[0])) {
		return ptx_fail(p, EINVAL, "'setp' of two halves needs two predicates");
	}
	return r;
}

/* The value that set writes if the comparison holds; 0: the types do not fit together. */
static uint32_t set_word(unsigned type, unsigned stype)
{
	switch (type) {
	case RBT_PTX_U16:
	case RBT_PTX_S16:
		return is_pair(stype) ? 0 : 0xffff;
	case RBT_PTX_F16:
		return is_pair(stype) ? 0 : 0x3c00;
	case RBT_PTX_BF16:
		return is_pair(stype) ? 0 : 0x3f80;
	case RBT_PTX_F16X2:
		return stype == RBT_PTX_F16X2 ? 0x3c003c00 : 0;
	case RBT_PTX_BF16X2:
		return stype == RBT_PTX_BF16X2 ? 0x3f803f80 : 0;
	case RBT_PTX_U32:
	case RBT_PTX_S32:
		return 0xffffffff;
	default:
		return 0;
	}
}

/* into = pred ? word : 0, all of 32 bits */
static int select_word(struct parser *p, struct insn *into, uint16_t pred, uint32_t word)
{
	int r = ptx_const(p, into, &into->out.a, FILE_32, RBT_PTX_CONST_VALUE, 0, word);

	into->out.op = RBT_PTX_SELP_B32;
	into->out.type = RBT_PTX_B32;
	into->out.c = pred;
	return r < 0 ? r : ptx_const(p, into, &into->out.b, FILE_32, RBT_PTX_CONST_VALUE, 0, 0);
}

/* A selection into a register of ours, for one half. */
static int select_half(
	struct parser *p, const struct insn *in, uint16_t pred, uint32_t word, uint16_t *ret_slot)
{
	struct insn half;
	int r;

	ptx_insn_init(&half);
	half.line = in->line;
	r = select_word(p, &half, pred, word);
	r = r < 0 ? r : ptx_new_slot(p, RBT_PTX_B32, ret_slot);
	half.out.d[0] = *ret_slot;
	return r < 0 ? r : ptx_emit(p, &half);
}

/* The comparison that in->out holds, as an instruction of its own with predicates of ours. */
static int emit_setp(struct parser *p, struct insn *in, unsigned op, uint16_t ret_preds[2])
{
	struct insn setp = *in;
	struct rbt_ptx_inst *out = &setp.out;
	int r = ptx_new_slot(p, RBT_PTX_PRED, &out->d[0]);

	if (r == 0 && is_pair(in->types[1])) {
		r = ptx_new_slot(p, RBT_PTX_PRED, &out->d[1]);
	}
	out->op = (uint16_t)op;
	out->type = in->types[1];
	out->guard = RBT_PTX_PRED_TRUE;
	out->flags &= (uint16_t)~RBT_PTX_NEG_GUARD;
	ret_preds[0] = out->d[0];
	ret_preds[1] = out->d[1];
	return r < 0 ? r : ptx_emit(p, &setp);
}

/* setp, then the selection; only the last step, which writes a visible result, needs the guard. */
static int set_by_setp(struct parser *p, struct insn *in, unsigned op)
{
	uint32_t word = set_word(in->types[0], in->types[1]);
	struct rbt_ptx_inst guarded = in->out;
	uint16_t preds[2];
	int r = compare_sources(p, in, in->types[1]);

	if (r == 0 && word == 0) {
		return ptx_no_form(p, in);
	}
	r = r < 0 ? r : emit_setp(p, in, op, preds);
	in->out = guarded;
	in->nfixups = 0;
	if (r == 0 && is_pair(in->types[1])) {
		in->out.op = RBT_PTX_OR_B32;
		r = select_half(p, in, preds[0], word & 0xffff, &in->out.a);
		r = r < 0 ? r : select_half(p, in, preds[1], word & 0xffff0000, &in->out.b);
	} else if (r == 0) {
		r = select_word(p, in, preds[0], word);
	}
	in->out.type = in->types[0];
	return r < 0 ? r
		     : ptx_dst(p, in, &in->out.d[0], &in->ops[0], rbt_ptx_type_bits(in->types[0]));
}

static int decode_set(struct parser *p, struct insn *in)
{
	const struct compare *compare = compare_of(in->types[1]);
	unsigned type = in->types[0];
	int r;

	if (compare == NULL || in->ntypes != 2) {
		return ptx_no_form(p, in);
	}
	if (compare->set == RBT_PTX_NOP ||
		(type != RBT_PTX_U32 && type != RBT_PTX_S32 && type != RBT_PTX_F32)) {
		return set_by_setp(p, in, compare->setp);
	}
	in->out.op = compare->set;
	in->out.type = (uint8_t)type;
	r = compare_sources(p, in, in->types[1]);
	return r < 0 ? r : ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
}

static int decode_slct(struct parser *p, struct insn *in)
{
	unsigned bits = rbt_ptx_type_bits(in->types[0]);
	bool is_float = in->types[1] == RBT_PTX_F32;
	int r = ptx_nops(p, in, 4, 4);

	if (r < 0) {
		return r;
	}
	if (in->ntypes != 2 || bits < 16 || (!is_float && in->types[1] != RBT_PTX_S32)) {
		return ptx_no_form(p, in);
	}
	in->out.op = bits == 64 ? RBT_PTX_SLCT_B64_S32 : RBT_PTX_SLCT_B32_S32;
	if (is_float) {
		in->out.op = bits == 64 ? RBT_PTX_SLCT_B64_F32 : RBT_PTX_SLCT_B32_F32;
		in->out.flags |= ptx_has(in, "ftz") ? RBT_PTX_FTZ : 0;
	}
	in->out.type = in->types[0];
	in->out.stype = in->types[1];
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], bits);
	r = r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &in->ops[2], in->types[0]);
	return r < 0 ? r : ptx_src(p, in, &in->out.c, &in->ops[3], in->types[1]);
}

/* and, or, xor, not: of predicates here, of registers in the table. */
static int decode_logic(struct parser *p, struct insn *in)
{
	static const char *const names[] = {"and", "or", "xor", NULL};
	static const uint16_t ops[] = {
		RBT_PTX_AND_PRED, RBT_PTX_OR_PRED, RBT_PTX_XOR_PRED, RBT_PTX_MOV_PRED};
	unsigned which = 0;
	bool known;
	int r;

	if (in->ntypes != 1 || in->types[0] != RBT_PTX_PRED) {
		return ptx_decode_alu(p, in, &known);
	}
	while (names[which] != NULL && strcmp(names[which], in->name) != 0) {
		which++;
	}
	in->out.op = ops[which];
	in->out.type = RBT_PTX_PRED;
	r = ptx_nops(p, in, which < 3 ? 3 : 2, which < 3 ? 3 : 2);
	r = r < 0 ? r : ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);
	r = r < 0 ? r : ptx_pred(p, in, &in->out.a, &in->ops[1], RBT_PTX_NEG_A);
	if (which < 3) {
		return r < 0 ? r : ptx_pred(p, in, &in->out.b, &in->ops[2], RBT_PTX_NEG_B);
	}
	in->out.flags ^= RBT_PTX_NEG_A;
	return r;
}

static int decode_testp(struct parser *p, struct insn *in)
{
	static const char *const words[] = {
		"finite", "infinite", "number", "notanumber", "normal", "subnormal", NULL};
	int which = ptx_one_of(in, words);
	bool is_wide = in->types[0] == RBT_PTX_F64;
	int r = ptx_nops(p, in, 2, 2);

	if (r < 0) {
		return r;
	}
	if (which < 0 || in->ntypes != 1 || (!is_wide && in->types[0] != RBT_PTX_F32)) {
		return ptx_no_form(p, in);
	}
	in->out.op = is_wide ? RBT_PTX_TESTP_F64 : RBT_PTX_TESTP_F32;
	in->out.mod = (uint8_t)which;
	in->out.type = in->types[0];
	r = ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
}

/* d, a, b, c of 32 bits. */
static int four_words(struct parser *p, struct insn *in)
{
	int r = 0;

	if (in->ntypes != 1 || rbt_ptx_type_bits(in->types[0]) != 32 ||
		ptx_is_float(in->types[0])) {
		return ptx_no_form(p, in);
	}
	in->out.type = RBT_PTX_B32;
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
	r = r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], RBT_PTX_B32);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &in->ops[2], RBT_PTX_B32);
	return r < 0 ? r : ptx_src(p, in, &in->out.c, &in->ops[3], RBT_PTX_B32);
}

static int decode_shf(struct parser *p, struct insn *in)
{
	bool left = ptx_has(in, "l"), clamp = ptx_has(in, "clamp");
	int r = ptx_nops(p, in, 4, 4);

	if (r < 0) {
		return r;
	}
	if ((!left && !ptx_has(in, "r")) || (!clamp && !ptx_has(in, "wrap"))) {
		return ptx_no_form(p, in);
	}
	in->out.op = left ? RBT_PTX_SHF_L_B32 : RBT_PTX_SHF_R_B32;
	in->out.mod = clamp;
	return four_words(p, in);
}

static int decode_prmt(struct parser *p, struct insn *in)
{
	static const char *const words[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
	int r = ptx_nops(p, in, 4, 4);

	in->out.op = RBT_PTX_PRMT_B32;
	in->out.mod = (uint8_t)(ptx_one_of(in, words) + 1);
	return r < 0 ? r : four_words(p, in);
}

static int decode_lop3(struct parser *p, struct insn *in)
{
	const struct operand *table = &in->ops[4];
	int r = ptx_nops(p, in, 5, 5);

	if (r < 0) {
		return r;
	}
	if (table->kind != OPD_IMM || table->literal.kind != LIT_INT || table->literal.bits > 255) {
		return ptx_fail(p, EINVAL, "'lop3' needs a constant from 0 to 255");
	}
	in->out.op = RBT_PTX_LOP3_B32;
	in->out.mod = (uint8_t)table->literal.bits;
	return four_words(p, in);
}

static int decode_bfind(struct parser *p, struct insn *in)
{
	static const struct {
		uint8_t type;
		uint16_t op;
	} forms[] = {{RBT_PTX_S32, RBT_PTX_BFIND_S32}, {RBT_PTX_U32, RBT_PTX_BFIND_U32},
		{RBT_PTX_S64, RBT_PTX_BFIND_S64}, {RBT_PTX_U64, RBT_PTX_BFIND_U64}};
	int r = ptx_nops(p, in, 2, 2);

	for (size_t i = 0; r == 0 && i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (in->ntypes == 1 && in->types[0] == forms[i].type) {
			in->out.op = forms[i].op;
			in->out.mod = ptx_has(in, "shiftamt");
			in->out.type = in->types[0];
			r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
			return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
		}
	}
	return r < 0 ? r : ptx_no_form(p, in);
}

const struct decoder ptx_compare_decoders[] = {
	{"setp", decode_setp},
	{"set", decode_set},
	{"slct", decode_slct},
	{"and", decode_logic},
	{"or", decode_logic},
	{"xor", decode_logic},
	{"not", decode_logic},
	{"testp", decode_testp},
	{"shf", decode_shf},
	{"prmt", decode_prmt},
	{"lop3", decode_lop3},
	{"bfind", decode_bfind},
	{NULL, NULL},
};
