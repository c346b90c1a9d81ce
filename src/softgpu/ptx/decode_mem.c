/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and atomics. */
#include "softgpu/ptx/impl.h"

/* Accepted and without effect: caches are not modelled, and every access is in program order. */
static const char *const hints[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "cta",
	"cluster", "gpu", "sys", "mmio", NULL};
static const char *const orders[] = {"volatile", "relaxed", "acquire", "release", "acq_rel", NULL};

static void take_hints(struct insn *in)
{
	for (unsigned i = 0; i < in->nmods; i++) {
		const char *mod = in->mods[i];

		if (strncmp(mod, "L1::", 4) == 0 || strncmp(mod, "L2::", 4) == 0) {
			in->used[i] = strcmp(mod, "L2::cache_hint") != 0;
		}
	}
	if (ptx_one_of(in, orders) >= 0) {
		in->out.flags |= RBT_PTX_STRONG;
	}
	for (unsigned i = 0; hints[i] != NULL; i++) {
		ptx_has(in, hints[i]);
	}
}

/* SPACE_PARAM means .param here, before it is known which one. */
static void take_space(struct insn *in)
{
	static const char *const words[] = {"global", "const", "shared", "shared::cta", "local",
		"param", "param::entry", "param::func", NULL};
	static const uint8_t spaces[] = {RBT_PTX_SPACE_GLOBAL, RBT_PTX_SPACE_CONST,
		RBT_PTX_SPACE_SHARED, RBT_PTX_SPACE_SHARED, RBT_PTX_SPACE_LOCAL,
		RBT_PTX_SPACE_PARAM, RBT_PTX_SPACE_PARAM, RBT_PTX_SPACE_PARAM};
	int which = ptx_one_of(in, words);

	in->out.space = which < 0 ? RBT_PTX_SPACE_GENERIC : spaces[which];
}

static int bad_symbol(struct parser *p, struct insn *in, const struct operand *o)
{
	return ptx_fail(p, EINVAL, "'%.*s' is not in the state space of this '%s'",
		(int)(p->names[o->name].length < 60 ? p->names[o->name].length : 60),
		p->names[o->name].text, in->name);
}

/* A parameter, by name: its offset is known and its range is checked. */
static int param_address(struct parser *p, struct insn *in, const struct operand *o, uint64_t size)
{
	const struct binding *b = o->binding;
	uint64_t offset = (uint64_t)o->offset, element = rbt_ptx_type_bits(in->types[0]) / 8;

	if (b == NULL || (b->kind != BIND_PARAM && b->kind != BIND_FRAME)) {
		return bad_symbol(p, in, o);
	}
	if (offset > b->size || size > b->size - offset) {
		return ptx_fail(p, EINVAL, "'%s' beyond the end of a parameter", in->name);
	}
	if ((b->offset + offset) % element != 0) {
		return ptx_fail(p, EINVAL, "'%s' at an offset that is not aligned", in->name);
	}
	in->out.space = b->kind == BIND_PARAM ? RBT_PTX_SPACE_PARAM : RBT_PTX_SPACE_FRAME;
	in->out.imm = (int64_t)(b->offset + offset);
	return 0;
}

static int symbol_address(struct parser *p, struct insn *in, const struct operand *o)
{
	unsigned space = in->out.space, kind = o->binding != NULL ? o->binding->kind : BIND_LABEL;
	struct operand base = *o;
	bool fits = (kind == BIND_VARIABLE &&
			    (space == RBT_PTX_SPACE_GENERIC ||
				    space == p->module->variables[o->binding->index].space)) ||
		    ((kind == BIND_SHARED || kind == BIND_DYN_SHARED) &&
			    space == RBT_PTX_SPACE_SHARED) ||
		    (kind == BIND_LOCAL && space == RBT_PTX_SPACE_LOCAL);

	if (!fits) {
		return bad_symbol(p, in, o);
	}
	/* The offset stays in the instruction, so that one constant serves the whole variable. */
	base.kind = OPD_SYMBOL;
	base.offset = 0;
	in->out.imm = o->offset;
	in->out.flags |= RBT_PTX_UNIFORM;
	return ptx_src(p, in, &in->out.a, &base, RBT_PTX_B64);
}

static int register_address(struct parser *p, struct insn *in, const struct operand *o)
{
	unsigned bits = rbt_ptx_type_bits(o->binding->type);

	if (bits != 64 && bits != 32) {
		return ptx_fail(p, EINVAL, "an address in a register of %u bits", bits);
	}
	if (in->out.space == RBT_PTX_SPACE_PARAM && !ptx_function(p)->is_entry) {
		in->out.space = RBT_PTX_SPACE_FRAME;
	}
	in->out.flags |= bits == 32 ? RBT_PTX_ADDR32 : 0;
	in->out.a = o->binding->slot;
	in->out.imm = o->offset;
	return 0;
}

/* `size`: bytes accessed. */
int ptx_address(struct parser *p, struct insn *in, const struct operand *o, uint64_t size)
{
	if (o->kind != OPD_ADDR || o->neg) {
		return ptx_fail(p, EINVAL, "'%s' needs an address in [ ]", in->name);
	}
	if (o->base == OPD_REG) {
		return register_address(p, in, o);
	}
	in->out.flags |= RBT_PTX_UNIFORM;
	if (o->base == OPD_SYMBOL) {
		return in->out.space == RBT_PTX_SPACE_PARAM ? param_address(p, in, o, size)
							    : symbol_address(p, in, o);
	}
	if (in->out.space == RBT_PTX_SPACE_PARAM) {
		return ptx_no_form(p, in);
	}
	in->out.imm = o->offset;
	return 0;
}

/* Elements of a vector only: {a, b}; one register without .v2 or .v4. */
static int vector_of(struct parser *p, struct insn *in, const struct operand *o,
	const struct operand **ret_elements)
{
	static const char *const words[] = {"v2", "v4", NULL};
	static const uint8_t counts[] = {1, 2, 4};
	unsigned count = counts[ptx_one_of(in, words) + 1];

	in->out.mod = (uint8_t)count;
	if (count == 1 && o->kind != OPD_VECTOR) {
		*ret_elements = o;
		return 0;
	}
	if (o->kind != OPD_VECTOR || o->is_list || o->count != count) {
		return ptx_fail(p, EINVAL, "'%s' needs %u registers", in->name, count);
	}
	*ret_elements = &p->elements[o->first];
	return 0;
}

static int memory_type(struct parser *p, struct insn *in)
{
	if (in->ntypes != 1 || in->types[0] == RBT_PTX_PRED) {
		return ptx_no_form(p, in);
	}
	in->out.type = in->types[0];
	return 0;
}

static int decode_ld(struct parser *p, struct insn *in)
{
	const struct operand *elements = NULL;
	unsigned bits = rbt_ptx_type_bits(in->types[0]);
	uint8_t width = 0;
	int r = ptx_nops(p, in, 2, 2);

	in->out.op = RBT_PTX_LD;
	take_hints(in);
	take_space(in);
	r = r < 0 ? r : memory_type(p, in);
	r = r < 0 ? r : vector_of(p, in, &in->ops[0], &elements);
	for (unsigned i = 0; r == 0 && i < in->out.mod; i++) {
		r = ptx_dst_any(p, in, &in->out.d[i], &elements[i], bits, &width);
		if (r == 0 && i > 0 && width != in->out.dbits) {
			return ptx_fail(p, EINVAL, "'ld' to registers of different widths");
		}
		in->out.dbits = width;
	}
	return r < 0 ? r : ptx_address(p, in, &in->ops[1], (uint64_t)bits / 8 * in->out.mod);
}

static int store_sources(struct parser *p, struct insn *in, const struct operand *elements)
{
	uint8_t width = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < in->out.mod; i++) {
		r = ptx_src_any(p, in, &in->out.d[i], &elements[i], in->out.type, &width);
		/* Widths below 64 share a register file, so a constant beside a wider register does
		 * no harm. */
		if (r == 0 && i > 0 && (width == 64) != (in->out.sbits == 64)) {
			return ptx_fail(p, EINVAL, "'st' of registers of different widths");
		}
		in->out.sbits = width > in->out.sbits ? width : in->out.sbits;
	}
	return r;
}

static int decode_st(struct parser *p, struct insn *in)
{
	const struct operand *elements = NULL;
	unsigned bits = rbt_ptx_type_bits(in->types[0]);
	int r = ptx_nops(p, in, 2, 2);

	in->out.op = RBT_PTX_ST;
	take_hints(in);
	take_space(in);
	r = r < 0 ? r : memory_type(p, in);
	r = r < 0 ? r : vector_of(p, in, &in->ops[1], &elements);
	r = r < 0 ? r : store_sources(p, in, elements);
	r = r < 0 ? r : ptx_address(p, in, &in->ops[0], (uint64_t)bits / 8 * in->out.mod);
	if (r == 0 &&
		(in->out.space == RBT_PTX_SPACE_CONST || in->out.space == RBT_PTX_SPACE_PARAM ||
			(in->out.space == RBT_PTX_SPACE_FRAME && in->out.a != RBT_PTX_NO_SLOT))) {
		return ptx_fail(p, EINVAL, "'st' to memory that is read only");
	}
	return r;
}

enum {
	T_INT = 1 << RBT_PTX_U32 | 1 << RBT_PTX_S32 | 1 << RBT_PTX_U64 | 1 << RBT_PTX_S64,
	T_BITS = 1 << RBT_PTX_B32 | 1 << RBT_PTX_B64,
	T_FLOAT = 1 << RBT_PTX_F16 | 1 << RBT_PTX_BF16 | 1 << RBT_PTX_F16X2 | 1 << RBT_PTX_BF16X2 |
		  1 << RBT_PTX_F32 | 1 << RBT_PTX_F64,
};

/* In the order of enum rbt_ptx_rmw. */
static const char *const rmw_words[] = {
	"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", NULL};
static const uint32_t rmw_types[] = {
	[RBT_PTX_RMW_ADD] = T_INT | T_FLOAT,
	[RBT_PTX_RMW_MIN] = T_INT,
	[RBT_PTX_RMW_MAX] = T_INT,
	[RBT_PTX_RMW_AND] = T_BITS,
	[RBT_PTX_RMW_OR] = T_BITS,
	[RBT_PTX_RMW_XOR] = T_BITS,
	[RBT_PTX_RMW_EXCH] = T_BITS,
	[RBT_PTX_RMW_CAS] = T_BITS | 1 << RBT_PTX_B16,
	[RBT_PTX_RMW_INC] = 1 << RBT_PTX_U32,
	[RBT_PTX_RMW_DEC] = 1 << RBT_PTX_U32,
};

static int atomic(struct parser *p, struct insn *in, const struct operand *o, unsigned nops)
{
	int which = ptx_one_of(in, rmw_words);
	unsigned count = which == RBT_PTX_RMW_CAS ? 3 : 2, type = in->types[0];
	int r;

	take_hints(in);
	take_space(in);
	if (ptx_is_half(type)) {
		ptx_has(in, "noftz");
	}
	if (which < 0 || in->ntypes != 1 || (rmw_types[which] & 1u << type) == 0 ||
		in->out.space > RBT_PTX_SPACE_SHARED || in->out.space == RBT_PTX_SPACE_CONST) {
		return ptx_no_form(p, in);
	}
	if (nops != count) {
		return ptx_fail(p, EINVAL, "'%s' with %u operands", in->name, in->nops);
	}
	in->out.op = RBT_PTX_ATOM;
	in->out.mod = (uint8_t)which;
	in->out.type = (uint8_t)type;
	r = ptx_address(p, in, &o[0], rbt_ptx_type_bits(type) / 8);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &o[1], type);
	if (r == 0 && count == 3) {
		r = ptx_src(p, in, &in->out.c, &o[2], type);
	}
	return r;
}

static int decode_atom(struct parser *p, struct insn *in)
{
	int r = ptx_nops(p, in, 3, 4);

	if (r == 0 && in->ops[0].kind != OPD_SINK) {
		r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], rbt_ptx_type_bits(in->types[0]));
	}
	return r < 0 ? r : atomic(p, in, &in->ops[1], in->nops - 1);
}

static int decode_red(struct parser *p, struct insn *in)
{
	int r = ptx_nops(p, in, 2, 2);

	return r < 0 ? r : atomic(p, in, &in->ops[0], in->nops);
}

static int decode_prefetch(struct parser *p, struct insn *in)
{
	memset(in->used, true, sizeof(in->used));
	in->out.op = RBT_PTX_NOP;
	return 0;
}

const struct decoder ptx_mem_decoders[] = {
	{"ld", decode_ld},
	{"ldu", decode_ld},
	{"st", decode_st},
	{"atom", decode_atom},
	{"red", decode_red},
	{"prefetch", decode_prefetch},
	{"prefetchu", decode_prefetch},
	{NULL, NULL},
};
