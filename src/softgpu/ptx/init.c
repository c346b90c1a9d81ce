/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisers of variables: numbers, and addresses that the loader fills in. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

struct init {
	struct rbt_ptx_variable *variable;
	uint32_t element; /* bytes */
	bool is_unsized;
	uint32_t cap, reloc_cap;
};

/* Room for one more element. */
static int reserve(struct parser *p, struct init *init)
{
	struct rbt_ptx_variable *v = init->variable;
	int r = 0;

	if (!init->is_unsized && v->init_size + init->element > v->size) {
		return ptx_fail(p, EINVAL, "more values than '%s' has room for", v->name);
	}
	while (r == 0 && init->cap < v->init_size + init->element) {
		r = ptx_grow(p, &v->init, &init->cap, init->cap, 1);
	}
	return r;
}

static void put(struct init *init, uint64_t bits)
{
	struct rbt_ptx_variable *v = init->variable;

	for (uint32_t i = 0; i < init->element; i++) {
		v->init[v->init_size++] = (uint8_t)(bits >> (8 * i));
	}
}

static int literal_bits(
	struct parser *p, const struct init *init, bool negative, uint64_t *ret_bits)
{
	struct literal lit = p->tok.literal;
	unsigned type = init->variable->type;
	int r = ptx_literal_bits(p, &lit, type, ret_bits);

	if (r == 0 && negative) {
		*ret_bits = ptx_is_float(type) ? *ret_bits ^ UINT64_C(1) << (init->element * 8 - 1)
					       : -*ret_bits;
	}
	return r < 0 ? r : ptx_next(p);
}

static int parse_number(struct parser *p, struct init *init)
{
	bool negative;
	uint64_t bits;
	int r = ptx_accept(p, '-', &negative);

	if (r < 0) {
		return r;
	}
	if (p->tok.kind != TOK_INT && p->tok.kind != TOK_FLOAT) {
		return ptx_unexpected(p, "a value");
	}
	r = literal_bits(p, init, negative, &bits);
	if (r == 0) {
		put(init, bits);
	}
	return r;
}

static int parse_symbol(struct parser *p, struct rbt_ptx_reloc *ret_reloc)
{
	const struct binding *b;
	uint32_t name;
	int r = p->tok.kind == TOK_IDENT ? 0 : ptx_unexpected(p, "a name");

	r = r < 0 ? r : ptx_intern(p, p->tok.text, p->tok.length, &name);
	if (r < 0) {
		return r;
	}
	b = ptx_lookup(p, name);
	if (b == NULL || (b->kind != BIND_VARIABLE && b->kind != BIND_FUNCTION)) {
		return ptx_fail(p, EINVAL, "'%.*s' is not a variable or function",
			(int)p->tok.length, p->tok.text);
	}
	ret_reloc->index = b->index;
	ret_reloc->is_function = b->kind == BIND_FUNCTION;
	return ptx_next(p);
}

/* name, generic(name), either with + or - a number. */
static int parse_address(struct parser *p, struct init *init)
{
	struct rbt_ptx_variable *v = init->variable;
	struct rbt_ptx_reloc reloc = {.offset = (uint32_t)v->init_size, .size = init->element};
	bool is_generic = ptx_tok_is(p, "generic");
	int r = 0;

	if (ptx_is_float(v->type) || init->element < 4) {
		return ptx_fail(
			p, EINVAL, "an address in a variable of type .%s", ptx_type_name(v->type));
	}
	if (is_generic) {
		r = ptx_next(p);
		r = r < 0 ? r : ptx_expect(p, '(', "'('");
	}
	r = r < 0 ? r : parse_symbol(p, &reloc);
	if (r == 0 && is_generic) {
		r = ptx_expect(p, ')', "')'");
	}
	r = r < 0 ? r : ptx_parse_offset(p, &reloc.addend);
	r = r < 0 ? r : ptx_grow(p, &v->relocs, &init->reloc_cap, v->nrelocs, sizeof(*v->relocs));
	if (r == 0) {
		v->relocs[v->nrelocs++] = reloc;
		put(init, 0);
	}
	return r;
}

static int parse_value(struct parser *p, struct init *init)
{
	int r;

	if (p->tok.kind == '{') {
		return ptx_fail(p, ENOTSUP, "nested lists of values are not supported");
	}
	r = reserve(p, init);
	if (r < 0) {
		return r;
	}
	return p->tok.kind == TOK_IDENT ? parse_address(p, init) : parse_number(p, init);
}

int ptx_parse_initialiser(struct parser *p, struct rbt_ptx_variable *variable, bool is_unsized)
{
	struct init init = {
		.variable = variable,
		.element = rbt_ptx_type_bits(variable->type) / 8,
		.is_unsized = is_unsized,
	};
	bool is_list, more = true;
	int r = ptx_accept(p, '{', &is_list);

	if (r == 0 && !is_list) {
		return is_unsized ? ptx_unexpected(p, "'{'") : parse_value(p, &init);
	}
	while (r == 0 && more && p->tok.kind != '}') {
		r = parse_value(p, &init);
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	}
	if (is_unsized) {
		variable->size = variable->init_size;
	}
	return r < 0 ? r : ptx_expect(p, '}', "'}'");
}
