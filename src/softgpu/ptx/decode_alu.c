/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic and bits, by a table: name and qualifiers to operations by type. The shape lists the
 * operands, the destination first: t as wide as the type, d twice that, w 32 bits, p a predicate
 * that may be negated. They go to d, a, b, c, e.
 */
#include "softgpu/ptx/impl.h"

enum { U16, S16, U32, S32, U64, S64, HALF, F32, F64, COLUMNS };

/* Modifiers that a row accepts. */
enum { ROUND = 1, FTZ = 2, SAT = 4, CC = 8, RELU = 16, MINMAX = 32 };

struct row {
	const char *name, *qualifier, *qualifier2;
	const char *shape;
	uint8_t takes;
	uint16_t flags;
	uint16_t ops[COLUMNS];
};

/* clang-format off */
#define O(name) RBT_PTX_##name
#define I3(name)  [U16] = O(name##_I16), [S16] = O(name##_I16), [U32] = O(name##_I32), \
	[S32] = O(name##_I32), [U64] = O(name##_I64), [S64] = O(name##_I64)
#define I2(name)  [U32] = O(name##_I32), [S32] = O(name##_I32), \
	[U64] = O(name##_I64), [S64] = O(name##_I64)
#define SU3(name) [U16] = O(name##_U16), [S16] = O(name##_S16), [U32] = O(name##_U32), \
	[S32] = O(name##_S32), [U64] = O(name##_U64), [S64] = O(name##_S64)
#define SU3N(name) [U16] = O(name##_U32), [S16] = O(name##_S16), [U32] = O(name##_U32), \
	[S32] = O(name##_S32), [U64] = O(name##_U64), [S64] = O(name##_S64)
#define SU2(name) [U32] = O(name##_U32), [S32] = O(name##_S32), \
	[U64] = O(name##_U64), [S64] = O(name##_S64)
#define S3(name)  [S16] = O(name##_S16), [S32] = O(name##_S32), [S64] = O(name##_S64)
#define W2(name)  [U16] = O(name##_U16), [S16] = O(name##_S16), \
	[U32] = O(name##_U32), [S32] = O(name##_S32)
#define B2(name)  [U32] = O(name##_B32), [U64] = O(name##_B64)
#define B3(name)  [U16] = O(name##_B16), [U32] = O(name##_B32), [U64] = O(name##_B64)
#define B3N(name) [U16] = O(name##_B32), [U32] = O(name##_B32), [U64] = O(name##_B64)
#define FF(name)  [F32] = O(name##_F32), [F64] = O(name##_F64)
#define HFF(name) [HALF] = O(name##_HALF), FF(name)
#define HF(name)  [HALF] = O(name##_HALF), [F32] = O(name##_F32)
#define IN RBT_PTX_CC_IN
#define OUT RBT_PTX_CC_OUT

static const struct row rows[] = {
	{ "add", "cc", NULL, "ttt", 0, OUT, { I2(ADDX) } },
	{ "add", "sat", NULL, "ttt", 0, 0, { [S32] = O(ADD_SAT_S32) } },
	{ "add", NULL, NULL, "ttt", 0, 0, { I3(ADD) } },
	{ "add", NULL, NULL, "ttt", ROUND | FTZ | SAT, 0, { HFF(ADD) } },
	{ "addc", NULL, NULL, "ttt", CC, IN, { I2(ADDX) } },
	{ "sub", "cc", NULL, "ttt", 0, OUT, { I2(SUBX) } },
	{ "sub", "sat", NULL, "ttt", 0, 0, { [S32] = O(SUB_SAT_S32) } },
	{ "sub", NULL, NULL, "ttt", 0, 0, { I3(SUB) } },
	{ "sub", NULL, NULL, "ttt", ROUND | FTZ | SAT, 0, { HFF(SUB) } },
	{ "subc", NULL, NULL, "ttt", CC, IN, { I2(SUBX) } },
	{ "mul", "lo", NULL, "ttt", 0, 0, { I3(MUL_LO) } },
	{ "mul", "hi", NULL, "ttt", 0, 0, { SU3(MUL_HI) } },
	{ "mul", "wide", NULL, "dtt", 0, 0, { W2(MUL_WIDE) } },
	{ "mul", NULL, NULL, "ttt", ROUND | FTZ | SAT, 0, { HFF(MUL) } },
	{ "mad", "lo", "cc", "tttt", 0, OUT, { I2(MADX_LO) } },
	{ "mad", "hi", "cc", "tttt", 0, OUT, { SU2(MADX_HI) } },
	{ "mad", "lo", NULL, "tttt", 0, 0, { I3(MAD_LO) } },
	{ "mad", "hi", NULL, "tttt", 0, 0, { SU3(MAD_HI) } },
	{ "mad", "wide", NULL, "dttd", 0, 0, { W2(MAD_WIDE) } },
	{ "mad", NULL, NULL, "tttt", ROUND | FTZ | SAT, 0, { FF(FMA) } },
	{ "madc", "lo", NULL, "tttt", CC, IN, { I2(MADX_LO) } },
	{ "madc", "hi", NULL, "tttt", CC, IN, { SU2(MADX_HI) } },
	{ "fma", NULL, NULL, "tttt", ROUND | FTZ | SAT, 0, { FF(FMA) } },
	{ "fma", NULL, NULL, "tttt", ROUND | FTZ | SAT | RELU, 0, { [HALF] = O(FMA_HALF) } },
	{ "div", NULL, NULL, "ttt", 0, 0, { SU3(DIV) } },
	{ "div", NULL, NULL, "ttt", ROUND | FTZ, 0, { FF(DIV) } },
	{ "rem", NULL, NULL, "ttt", 0, 0, { SU3N(REM) } },
	{ "neg", NULL, NULL, "tt", 0, 0, { I3(NEG) } },
	{ "neg", NULL, NULL, "tt", FTZ, 0, { HFF(NEG) } },
	{ "abs", NULL, NULL, "tt", 0, 0, { S3(ABS) } },
	{ "abs", NULL, NULL, "tt", FTZ, 0, { HFF(ABS) } },
	{ "min", NULL, NULL, "ttt", 0, 0, { SU3N(MIN) } },
	{ "min", NULL, NULL, "ttt", FTZ | MINMAX, 0, { HFF(MIN) } },
	{ "max", NULL, NULL, "ttt", 0, 0, { SU3N(MAX) } },
	{ "max", NULL, NULL, "ttt", FTZ | MINMAX, 0, { HFF(MAX) } },
	{ "sqrt", NULL, NULL, "tt", ROUND | FTZ, 0, { FF(SQRT) } },
	{ "rcp", NULL, NULL, "tt", ROUND | FTZ, 0, { FF(RCP) } },
	{ "rsqrt", NULL, NULL, "tt", ROUND | FTZ, 0, { FF(RSQRT) } },
	{ "ex2", NULL, NULL, "tt", ROUND | FTZ, 0, { HF(EX2) } },
	{ "lg2", NULL, NULL, "tt", ROUND | FTZ, 0, { [F32] = O(LG2_F32) } },
	{ "sin", NULL, NULL, "tt", ROUND | FTZ, 0, { [F32] = O(SIN_F32) } },
	{ "cos", NULL, NULL, "tt", ROUND | FTZ, 0, { [F32] = O(COS_F32) } },
	{ "tanh", NULL, NULL, "tt", ROUND, 0, { HF(TANH) } },
	{ "copysign", NULL, NULL, "ttt", 0, 0, { FF(COPYSIGN) } },
	{ "and", NULL, NULL, "ttt", 0, 0, { B3N(AND) } },
	{ "or", NULL, NULL, "ttt", 0, 0, { B3N(OR) } },
	{ "xor", NULL, NULL, "ttt", 0, 0, { B3N(XOR) } },
	{ "not", NULL, NULL, "tt", 0, 0, { B3(NOT) } },
	{ "shl", NULL, NULL, "ttw", 0, 0, { B3(SHL) } },
	{ "shr", NULL, NULL, "ttw", 0, 0, { SU3N(SHR) } },
	{ "bfe", NULL, NULL, "ttww", 0, 0, { SU2(BFE) } },
	{ "bfi", NULL, NULL, "tttww", 0, 0, { B2(BFI) } },
	{ "brev", NULL, NULL, "tt", 0, 0, { B2(BREV) } },
	{ "clz", NULL, NULL, "wt", 0, 0, { B2(CLZ) } },
	{ "popc", NULL, NULL, "wt", 0, 0, { B2(POPC) } },
	{ "selp", NULL, NULL, "tttp", 0, 0, { [U16] = O(SELP_B32), [S16] = O(SELP_B32),
		[U32] = O(SELP_B32), [S32] = O(SELP_B32), [F32] = O(SELP_B32),
		[U64] = O(SELP_B64), [S64] = O(SELP_B64), [F64] = O(SELP_B64) } },
};
/* clang-format on */

static int column_of(unsigned type)
{
	switch (type) {
	case RBT_PTX_B16:
	case RBT_PTX_U16:
		return U16;
	case RBT_PTX_S16:
		return S16;
	case RBT_PTX_B32:
	case RBT_PTX_U32:
		return U32;
	case RBT_PTX_S32:
		return S32;
	case RBT_PTX_B64:
	case RBT_PTX_U64:
		return U64;
	case RBT_PTX_S64:
		return S64;
	case RBT_PTX_F16:
	case RBT_PTX_BF16:
	case RBT_PTX_F16X2:
	case RBT_PTX_BF16X2:
		return HALF;
	case RBT_PTX_F32:
		return F32;
	case RBT_PTX_F64:
		return F64;
	default:
		return -1;
	}
}

static bool has_qualifier(const struct insn *in, const char *qualifier)
{
	for (unsigned i = 0; qualifier != NULL && i < in->nmods; i++) {
		if (strcmp(in->mods[i], qualifier) == 0) {
			return true;
		}
	}
	return qualifier == NULL;
}

static const struct row *find_row(const struct insn *in, int column, bool *ret_known)
{
	*ret_known = false;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].name, in->name) != 0) {
			continue;
		}
		*ret_known = true;
		if (column >= 0 && rows[i].ops[column] != RBT_PTX_NOP &&
			has_qualifier(in, rows[i].qualifier) &&
			has_qualifier(in, rows[i].qualifier2)) {
			return &rows[i];
		}
	}
	return NULL;
}

static uint8_t take_minmax(struct insn *in)
{
	unsigned mod = ptx_has(in, "NaN") ? RBT_PTX_MINMAX_NAN : 0;

	if (ptx_has(in, "xorsign") && ptx_has(in, "abs")) {
		mod |= RBT_PTX_MINMAX_XORSIGN;
	}
	return (uint8_t)mod;
}

static int take_modifiers(struct parser *p, struct insn *in, const struct row *row)
{
	int round;

	in->out.flags |= row->flags;
	if (row->qualifier != NULL) {
		ptx_has(in, row->qualifier);
	}
	if (row->qualifier2 != NULL) {
		ptx_has(in, row->qualifier2);
	}
	if ((row->takes & FTZ) != 0 && ptx_has(in, "ftz")) {
		in->out.flags |= RBT_PTX_FTZ;
	}
	if ((row->takes & SAT) != 0 && ptx_has(in, "sat")) {
		in->out.flags |= RBT_PTX_SAT;
	}
	if ((row->takes & CC) != 0 && ptx_has(in, "cc")) {
		in->out.flags |= RBT_PTX_CC_OUT;
	}
	if ((row->takes & RELU) != 0 && ptx_has(in, "relu")) {
		in->out.flags |= RBT_PTX_RELU;
	}
	if ((row->takes & MINMAX) != 0) {
		in->out.mod = take_minmax(in);
	}
	if ((row->takes & ROUND) != 0) {
		round = ptx_rounding(in);
		if ((round >= RBT_PTX_RNI && round <= RBT_PTX_RPI) ||
			(ptx_is_half(in->types[0]) && round >= RBT_PTX_RZ && round <= RBT_PTX_RP)) {
			return ptx_no_form(p, in);
		}
		in->out.mod = (uint8_t)(round < 0 ? RBT_PTX_RN : round);
	}
	return 0;
}

static unsigned twice(unsigned type)
{
	switch (type) {
	case RBT_PTX_S16:
		return RBT_PTX_S32;
	case RBT_PTX_U16:
	case RBT_PTX_B16:
		return RBT_PTX_U32;
	default:
		return type == RBT_PTX_S32 ? RBT_PTX_S64 : RBT_PTX_U64;
	}
}

static int put_operands(struct parser *p, struct insn *in, const char *shape, unsigned type)
{
	struct rbt_ptx_inst *out = &in->out;
	uint16_t *fields[] = {&out->d[0], &out->a, &out->b, &out->c, &out->e};
	int r = 0;

	for (unsigned i = 0; r == 0 && shape[i] != '\0'; i++) {
		unsigned t = shape[i] == 'd' ? twice(type) : shape[i] == 'w' ? RBT_PTX_B32 : type;

		if (shape[i] == 'p') {
			r = ptx_pred(p, in, fields[i], &in->ops[i], RBT_PTX_NEG_C);
		} else if (i == 0) {
			r = ptx_dst(p, in, fields[0], &in->ops[0], rbt_ptx_type_bits(t));
		} else {
			r = ptx_src(p, in, fields[i], &in->ops[i], t);
		}
	}
	return r;
}

/* `ret_known` false: the table has no such instruction, and nothing has been done. */
int ptx_decode_alu(struct parser *p, struct insn *in, bool *ret_known)
{
	unsigned type = in->types[0];
	int column = in->ntypes == 1 ? column_of(type) : -1;
	const struct row *row = find_row(in, column, ret_known);
	unsigned count;
	int r;

	if (!*ret_known) {
		return 0;
	}
	if (row == NULL) {
		return ptx_no_form(p, in);
	}
	count = (unsigned)strlen(row->shape);
	in->out.op = row->ops[column];
	in->out.type = (uint8_t)type;
	r = ptx_nops(p, in, count, count);
	r = r < 0 ? r : take_modifiers(p, in, row);
	return r < 0 ? r : put_operands(p, in, row->shape, type);
}
