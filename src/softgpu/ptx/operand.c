/* SPDX-License-Identifier: Apache-2.0 */
/* Operands as they are written; emit.c checks what they may be. */
#include "softgpu/ptx/impl.h"

/* Any number of + n, - n, + -n, all wrapping. */
int ptx_parse_offset(struct parser *p, int64_t *ret_offset)
{
	uint64_t offset = 0;
	int r = 0;

	while (r == 0 && (p->tok.kind == '+' || p->tok.kind == '-')) {
		bool negative = p->tok.kind == '-', again;

		r = ptx_next(p);
		r = r < 0 ? r : ptx_accept(p, '-', &again);
		if (r == 0 && p->tok.kind != TOK_INT) {
			return ptx_unexpected(p, "an offset");
		}
		if (r == 0) {
			uint64_t n = p->tok.literal.bits;

			offset += negative != again ? -n : n;
			r = ptx_next(p);
		}
	}
	*ret_offset = (int64_t)offset;
	return r;
}

static int parse_number(struct parser *p, struct operand *o)
{
	int sign = p->tok.kind;
	int r = sign == '-' || sign == '~' ? ptx_next(p) : 0;
	uint64_t *bits = &o->literal.bits;

	if (r < 0) {
		return r;
	}
	if (p->tok.kind != TOK_INT && p->tok.kind != TOK_FLOAT) {
		return ptx_unexpected(p, "an operand");
	}
	o->kind = OPD_IMM;
	o->literal = p->tok.literal;
	if (o->literal.kind == LIT_INT) {
		*bits = sign == '-' ? -*bits : sign == '~' ? ~*bits : *bits;
	} else if (sign == '-') {
		*bits ^= UINT64_C(1) << (o->literal.kind == LIT_F32 ? 31 : 63);
	} else if (sign == '~') {
		return ptx_fail(p, EINVAL, "'~' before a floating-point constant");
	}
	return ptx_next(p);
}

static int parse_special(struct parser *p, struct operand *o)
{
	struct token name = p->tok;
	int sreg, r = ptx_next(p);

	if (r < 0) {
		return r;
	}
	if (p->tok.kind == TOK_WORD) {
		sreg = ptx_sreg_of(name.text, name.length, p->tok.text + 1, p->tok.length - 1);
		r = ptx_next(p);
	} else {
		sreg = ptx_sreg_of(name.text, name.length, NULL, 0);
	}
	if (sreg < 0) {
		p->tok.line = name.line;
		return ptx_fail(p, ENOTSUP,
			"'%.*s' is no register declared here, and no special one that is supported",
			(int)(name.length < 40 ? name.length : 40), name.text);
	}
	o->kind = OPD_SREG;
	o->sreg = (uint8_t)sreg;
	return r;
}

/* A register, a special one, a symbol, '_' or WARP_SZ. */
static int parse_name(struct parser *p, struct operand *o)
{
	int r;

	if (ptx_tok_is(p, "_")) {
		o->kind = OPD_SINK;
		return ptx_next(p);
	}
	if (ptx_tok_is(p, "WARP_SZ")) {
		o->kind = OPD_IMM;
		o->literal = (struct literal){.kind = LIT_INT, .bits = 32};
		return ptx_next(p);
	}
	r = ptx_intern(p, p->tok.text, p->tok.length, &o->name);
	if (r < 0) {
		return r;
	}
	o->binding = ptx_lookup(p, o->name);
	if (p->failed != 0) {
		return p->failed;
	}
	if (o->binding == NULL && p->tok.text[0] == '%') {
		return parse_special(p, o);
	}
	o->kind = o->binding != NULL && o->binding->kind == BIND_REG ? OPD_REG : OPD_SYMBOL;
	/* Only registers that are used get slots: callers of functions declare many that are
	 * not. */
	if (o->kind == OPD_REG && o->binding->slot == RBT_PTX_NO_SLOT) {
		r = ptx_new_slot(p, o->binding->type, &o->binding->slot);
	}
	return r < 0 ? r : ptx_next(p);
}

static int parse_simple(struct parser *p, struct operand *o)
{
	int r;

	memset(o, 0, sizeof(*o));
	r = ptx_accept(p, '!', &o->neg);
	if (r < 0) {
		return r;
	}
	if (p->tok.kind != TOK_IDENT) {
		return parse_number(p, o);
	}
	r = parse_name(p, o);
	if (r == 0 && o->kind == OPD_SYMBOL) {
		r = ptx_parse_offset(p, &o->offset);
	}
	return r;
}

static int parse_address(struct parser *p, struct operand *o)
{
	int r = ptx_next(p);

	r = r < 0 ? r : parse_simple(p, o);
	if (r < 0) {
		return r;
	}
	if (o->kind != OPD_REG && o->kind != OPD_SYMBOL && o->kind != OPD_IMM) {
		return ptx_fail(p, EINVAL, "an address must be a register, a variable or a number");
	}
	o->base = o->kind;
	o->kind = OPD_ADDR;
	if (o->base == OPD_REG) {
		r = ptx_parse_offset(p, &o->offset);
	} else if (o->base == OPD_IMM) {
		if (o->literal.kind != LIT_INT) {
			return ptx_fail(p, EINVAL, "an address must be an integer");
		}
		o->offset = (int64_t)o->literal.bits;
	}
	return r < 0 ? r : ptx_expect(p, ']', "']'");
}

static int add_element(struct parser *p)
{
	int r;

	if (p->nelements == PTX_MAX_ELEMENTS) {
		return ptx_fail(p, E2BIG, "more than %d operands", PTX_MAX_ELEMENTS);
	}
	r = parse_simple(p, &p->elements[p->nelements]);
	p->nelements++;
	return r;
}

static int parse_elements(struct parser *p, struct operand *o, int close)
{
	bool more = true;
	int r = ptx_next(p);

	memset(o, 0, sizeof(*o));
	o->kind = OPD_VECTOR;
	o->is_list = close == ')';
	o->first = (uint16_t)p->nelements;
	while (r == 0 && more && p->tok.kind != close) {
		r = add_element(p);
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	}
	o->count = (uint16_t)(p->nelements - o->first);
	return r < 0 ? r : ptx_expect(p, close, close == ')' ? "')'" : "'}'");
}

int ptx_parse_operand(struct parser *p, struct operand *ret_operand)
{
	bool is_pair;
	int r;

	switch (p->tok.kind) {
	case '{':
		return parse_elements(p, ret_operand, '}');
	case '(':
		return parse_elements(p, ret_operand, ')');
	case '[':
		return parse_address(p, ret_operand);
	default:
		break;
	}
	r = parse_simple(p, ret_operand);
	r = r < 0 ? r : ptx_accept(p, '|', &is_pair);
	if (r == 0 && is_pair) {
		ret_operand->first = (uint16_t)p->nelements;
		ret_operand->count = 1;
		r = add_element(p);
	}
	return r;
}

/* Up to the ';', which stays the current token. */
int ptx_parse_operands(struct parser *p, struct insn *in)
{
	bool more = p->tok.kind != ';';
	int r = 0;

	p->nelements = 0;
	while (r == 0 && more) {
		if (in->nops == PTX_MAX_OPERANDS) {
			return ptx_fail(p, EINVAL, "'%s' with more than %d operands", in->name,
				PTX_MAX_OPERANDS);
		}
		r = ptx_parse_operand(p, &in->ops[in->nops]);
		in->nops++;
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	}
	if (r == 0 && p->tok.kind != ';') {
		return ptx_unexpected(p, "',' or ';'");
	}
	return r;
}
