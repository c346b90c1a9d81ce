/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations: variables in every state space, and registers. */
#include "softgpu/ptx/impl.h"

static int parse_align(struct parser *p, uint32_t *ret_align)
{
	uint64_t align;
	int r = ptx_next(p);

	if (r < 0) {
		return r;
	}
	align = p->tok.literal.bits;
	if (p->tok.kind != TOK_INT || align == 0 || (align & (align - 1)) != 0) {
		return ptx_unexpected(p, "an alignment, a power of two,");
	}
	if (align > PTX_MAX_ALIGN) {
		return ptx_fail(p, E2BIG, "an alignment of more than %d", PTX_MAX_ALIGN);
	}
	*ret_align = (uint32_t)align;
	return ptx_next(p);
}

/* .v2, .v4, .align, .ptr .global and the type, in any order, up to the name. */
static int parse_attributes(struct parser *p, struct declared *decl, bool *ret_is_pointer)
{
	bool is_pointer = false;
	uint32_t align = 0, vector = 1;
	int r = 0;

	while (r == 0 && p->tok.kind == TOK_WORD) {
		enum rbt_ptx_type type = ptx_type_of(p->tok.text + 1, p->tok.length - 1);

		if (ptx_tok_is(p, ".align")) {
			r = parse_align(p, is_pointer ? &vector : &align);
			vector = is_pointer ? 1 : vector;
			continue;
		}
		if (type != RBT_PTX_NONE && decl->type == RBT_PTX_NONE) {
			decl->type = (uint8_t)type;
		} else if (ptx_tok_is(p, ".v2") || ptx_tok_is(p, ".v4")) {
			vector = ptx_tok_is(p, ".v2") ? 2 : 4;
		} else if (ptx_tok_is(p, ".ptr")) {
			is_pointer = true;
		} else if (!is_pointer) {
			return ptx_fail(p, ENOTSUP, "'%.*s' in a declaration is not supported",
				(int)p->tok.length, p->tok.text);
		}
		r = ptx_next(p);
	}
	*ret_is_pointer = is_pointer;
	decl->size = (uint64_t)vector * rbt_ptx_type_bits(decl->type) / 8;
	decl->align = align > 0 ? align : (uint32_t)decl->size;
	return r;
}

static int parse_dimensions(struct parser *p, struct declared *decl)
{
	int r = 0;

	while (r == 0 && p->tok.kind == '[') {
		r = ptx_next(p);
		if (r == 0 && p->tok.kind == ']') {
			if (decl->is_unsized) {
				return ptx_unexpected(p, "a size");
			}
			decl->is_unsized = true;
			r = ptx_next(p);
			continue;
		}
		if (r == 0 && p->tok.kind != TOK_INT) {
			return ptx_unexpected(p, "a size");
		}
		if (r == 0 &&
			(__builtin_mul_overflow(decl->size, p->tok.literal.bits, &decl->size) ||
				decl->size > PTX_MAX_VARIABLE)) {
			return ptx_fail(p, E2BIG, "a variable that is too large");
		}
		r = r < 0 ? r : ptx_next(p);
		r = r < 0 ? r : ptx_expect(p, ']', "']'");
	}
	return r;
}

int ptx_parse_declarator(struct parser *p, struct declared *ret_decl)
{
	struct declared decl = {0};
	bool is_pointer;
	int r = parse_attributes(p, &decl, &is_pointer);

	if (r < 0) {
		return r;
	}
	if (decl.type == RBT_PTX_NONE || decl.type == RBT_PTX_PRED) {
		return ptx_unexpected(p, "the type of a variable");
	}
	if (p->tok.kind != TOK_IDENT) {
		return ptx_unexpected(p, "a name");
	}
	r = ptx_intern(p, p->tok.text, p->tok.length, &decl.name);
	r = r < 0 ? r : ptx_next(p);
	r = r < 0 ? r : parse_dimensions(p, &decl);
	if (r < 0) {
		return r;
	}
	*ret_decl = decl;
	return 0;
}

int ptx_place(struct parser *p, uint64_t *used, const struct declared *decl, uint64_t max,
	const char *what, uint64_t *ret_offset)
{
	uint64_t offset = (*used + decl->align - 1) & ~(uint64_t)(decl->align - 1);

	if (decl->is_unsized) {
		return ptx_fail(p, EINVAL, "a variable without a size");
	}
	if (offset > max || decl->size > max - offset) {
		return ptx_fail(p, E2BIG, "more than %" PRIu64 " bytes of %s", max, what);
	}
	*used = offset + decl->size;
	*ret_offset = offset;
	return 0;
}

static int declare_shared(struct parser *p, const struct declared *decl, unsigned linkage)
{
	bool in_entry = p->depth > 0 && ptx_function(p)->is_entry;
	struct binding *b;
	uint64_t *used = in_entry ? &p->body.shared_used : &p->shared_used, offset = 0;
	bool is_dynamic = decl->is_unsized && (linkage & LINK_EXTERN) != 0;
	int r = 0;

	if (!is_dynamic) {
		r = ptx_place(p, used, decl, PTX_MAX_SHARED, "shared memory", &offset);
	}
	r = r < 0 ? r : ptx_bind(p, decl->name, is_dynamic ? BIND_DYN_SHARED : BIND_SHARED, &b);
	if (r < 0) {
		return r;
	}
	b->offset = offset;
	b->size = decl->size;
	b->index = in_entry;
	return 0;
}

static int declare_local(struct parser *p, const struct declared *decl)
{
	struct rbt_ptx_function *f;
	struct binding *b;
	uint64_t used, offset = 0;
	int r;

	if (p->depth == 0) {
		return ptx_fail(
			p, ENOTSUP, "a .local variable outside of a function is not supported");
	}
	f = ptx_function(p);
	used = f->local_size;
	r = ptx_place(p, &used, decl, PTX_MAX_LOCAL, "local memory", &offset);
	r = r < 0 ? r : ptx_bind(p, decl->name, BIND_LOCAL, &b);
	if (r < 0) {
		return r;
	}
	b->offset = offset;
	b->size = decl->size;
	f->local_size = (uint32_t)used;
	f->local_align = decl->align > f->local_align ? decl->align : f->local_align;
	return 0;
}

static int declare_frame(struct parser *p, const struct declared *decl)
{
	struct rbt_ptx_function *f;
	struct binding *b;
	uint64_t offset = 0;
	int r;

	if (p->depth == 0) {
		return ptx_fail(
			p, ENOTSUP, "a .param variable outside of a function is not supported");
	}
	f = ptx_function(p);
	r = ptx_place(p, &p->body.frame_used, decl, PTX_MAX_FRAME, "parameters of calls", &offset);
	r = r < 0 ? r : ptx_bind(p, decl->name, BIND_FRAME, &b);
	if (r < 0) {
		return r;
	}
	b->offset = offset;
	b->size = decl->size;
	b->align = decl->align;
	if (f->frame_size < p->body.frame_used) {
		f->frame_size = (uint32_t)p->body.frame_used;
	}
	return 0;
}

static int declare_variable(
	struct parser *p, const struct declared *decl, enum rbt_ptx_space space, unsigned linkage)
{
	struct rbt_ptx_module *m = p->module;
	struct rbt_ptx_variable *v;
	struct binding *b;
	bool has_value;
	int r = ptx_grow(p, &m->variables, &p->variable_cap, m->nvariables, sizeof(*m->variables));

	r = r < 0 ? r : ptx_bind(p, decl->name, BIND_VARIABLE, &b);
	if (r < 0) {
		return r;
	}
	v = &m->variables[m->nvariables];
	*v = (struct rbt_ptx_variable){
		.name = ptx_name_copy(p, decl->name),
		.space = (uint8_t)space,
		.type = decl->type,
		.is_extern = (linkage & LINK_EXTERN) != 0,
		.align = decl->align,
		.size = decl->size,
	};
	b->index = m->nvariables++;
	if (v->name == NULL) {
		return p->failed;
	}
	r = ptx_accept(p, '=', &has_value);
	if (r == 0 && has_value) {
		r = ptx_parse_initialiser(p, v, decl->is_unsized);
	} else if (r == 0 && decl->is_unsized && !v->is_extern) {
		r = ptx_fail(p, EINVAL, "a variable without a size");
	}
	return r;
}

static int declare(
	struct parser *p, const struct declared *decl, enum rbt_ptx_space space, unsigned linkage)
{
	switch (space) {
	case RBT_PTX_SPACE_SHARED:
		return declare_shared(p, decl, linkage);
	case RBT_PTX_SPACE_LOCAL:
		return declare_local(p, decl);
	case RBT_PTX_SPACE_FRAME:
		return declare_frame(p, decl);
	default:
		return declare_variable(p, decl, space, linkage);
	}
}

int ptx_parse_variable(struct parser *p, enum rbt_ptx_space space, unsigned linkage)
{
	struct declared decl = {0};
	int r = ptx_parse_declarator(p, &decl);

	r = r < 0 ? r : declare(p, &decl, space, linkage);
	return r < 0 ? r : ptx_expect(p, ';', "';' after a variable");
}

static int parse_reg_name(struct parser *p, enum rbt_ptx_type type)
{
	struct binding *b;
	uint32_t name;
	bool is_range;
	int r = p->tok.kind == TOK_IDENT ? 0 : ptx_unexpected(p, "the name of a register");

	r = r < 0 ? r : ptx_intern(p, p->tok.text, p->tok.length, &name);
	r = r < 0 ? r : ptx_next(p);
	r = r < 0 ? r : ptx_accept(p, '<', &is_range);
	r = r < 0 ? r : ptx_bind(p, name, is_range ? BIND_RANGE : BIND_REG, &b);
	if (r < 0) {
		return r;
	}
	b->type = (uint8_t)type;
	if (!is_range) {
		b->slot = RBT_PTX_NO_SLOT;
		return 0;
	}
	if (p->tok.kind != TOK_INT) {
		return ptx_unexpected(p, "a count of registers");
	}
	b->index = p->tok.literal.bits > UINT32_MAX ? UINT32_MAX : (uint32_t)p->tok.literal.bits;
	r = ptx_next(p);
	return r < 0 ? r : ptx_expect(p, '>', "'>'");
}

int ptx_parse_regs(struct parser *p)
{
	enum rbt_ptx_type type = RBT_PTX_NONE;
	bool more = true;
	int r = 0;

	if (p->tok.kind == TOK_WORD) {
		type = ptx_type_of(p->tok.text + 1, p->tok.length - 1);
	}
	if (type == RBT_PTX_NONE) {
		return ptx_unexpected(p, "the type of a register, which is no vector,");
	}
	r = ptx_next(p);
	while (r == 0 && more) {
		r = parse_reg_name(p, type);
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	}
	return r < 0 ? r : ptx_expect(p, ';', "';' after registers");
}
