/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of a function. */
#include "softgpu/ptx/impl.h"

static int parse_modifiers(struct parser *p, struct insn *in)
{
	size_t used = 0;
	int r = 0;

	while (r == 0 && p->tok.kind == TOK_WORD) {
		size_t length = p->tok.length - 1;
		enum rbt_ptx_type type = ptx_type_of(p->tok.text + 1, length);

		if (in->nmods == PTX_MAX_MODS || used + length + 1 > sizeof(in->modtext)) {
			return ptx_fail(p, ENOTSUP, "this form of '%s' is not supported", in->name);
		}
		memcpy(in->modtext + used, p->tok.text + 1, length);
		in->modtext[used + length] = '\0';
		in->mods[in->nmods] = in->modtext + used;
		if (type != RBT_PTX_NONE && in->ntypes < 4) {
			in->types[in->ntypes++] = (uint8_t)type;
			in->used[in->nmods] = true;
		}
		in->nmods++;
		used += length + 1;
		r = ptx_next(p);
	}
	return r;
}

static int parse_guard(struct parser *p, struct insn *in)
{
	struct operand guard;
	int r = ptx_next(p);

	r = r < 0 ? r : ptx_parse_operand(p, &guard);
	return r < 0 ? r : ptx_pred(p, in, &in->out.guard, &guard, RBT_PTX_NEG_GUARD);
}

/* The name has been read, and whether it has a guard. */
static int parse_instruction(struct parser *p, struct insn *in, const struct token *name)
{
	int r;

	in->line = name->line;
	if (name->length >= sizeof(in->name)) {
		return ptx_fail(p, ENOTSUP, "the instruction '%.*s' is not supported",
			(int)(name->length < 40 ? name->length : 40), name->text);
	}
	memcpy(in->name, name->text, name->length);
	r = parse_modifiers(p, in);
	r = r < 0 ? r : ptx_parse_operands(p, in);
	if (r < 0) {
		return r;
	}
	/* Messages about an instruction name its first line, not the line of its ';'. */
	p->tok.line = in->line;
	r = ptx_decode(p, in);
	return r < 0 ? r : ptx_expect(p, ';', "';'");
}

void ptx_insn_init(struct insn *in)
{
	struct rbt_ptx_inst *out = &in->out;

	memset(in, 0, sizeof(*in));
	out->guard = RBT_PTX_PRED_TRUE;
	out->a = out->b = out->c = out->e = RBT_PTX_NO_SLOT;
	out->d[0] = out->d[1] = out->d[2] = out->d[3] = RBT_PTX_NO_SLOT;
}

static int parse_guarded(struct parser *p)
{
	struct insn in;
	struct token name;
	int r;

	ptx_insn_init(&in);
	r = parse_guard(p, &in);
	if (r == 0 && p->tok.kind != TOK_IDENT) {
		return ptx_unexpected(p, "an instruction");
	}
	name = p->tok;
	r = r < 0 ? r : ptx_next(p);
	return r < 0 ? r : parse_instruction(p, &in, &name);
}

/* Prototypes are not needed: an indirect call is checked against its callee when it happens. */
static int skip_prototype(struct parser *p)
{
	int r = 0;

	while (r == 0 && p->tok.kind != ';' && p->tok.kind != TOK_END) {
		r = ptx_next(p);
	}
	return r < 0 ? r : ptx_expect(p, ';', "';'");
}

static int parse_label(struct parser *p, const struct token *name)
{
	struct binding *b;
	uint32_t id;
	int r = ptx_next(p);
	bool is_prototype = ptx_tok_is(p, ".callprototype");

	r = r < 0 ? r : ptx_intern(p, name->text, name->length, &id);
	r = r < 0 ? r : ptx_bind(p, id, is_prototype ? BIND_PROTOTYPE : BIND_LABEL, &b);
	if (r < 0) {
		return r;
	}
	if (is_prototype) {
		return skip_prototype(p);
	}
	b->index = ptx_function(p)->ninsts;
	p->body.label_at_end = true;
	return 0;
}

static int parse_named(struct parser *p)
{
	struct token name = p->tok;
	struct insn in;
	int r = ptx_next(p);

	if (r < 0) {
		return r;
	}
	if (p->tok.kind == ':') {
		return parse_label(p, &name);
	}
	ptx_insn_init(&in);
	return parse_instruction(p, &in, &name);
}

static int parse_body_directive(struct parser *p)
{
	bool found;
	int r;

	if (ptx_tok_is(p, ".loc") || ptx_tok_is(p, ".file")) {
		return ptx_skip_line(p);
	}
	if (ptx_tok_is(p, ".reg")) {
		r = ptx_next(p);
		return r < 0 ? r : ptx_parse_regs(p);
	}
	if (ptx_tok_is(p, ".pragma")) {
		return skip_prototype(p);
	}
	r = ptx_parse_declaration(p, 0, &found);
	if (r < 0 || found) {
		return r;
	}
	return ptx_fail(p, ENOTSUP, "'%.*s' in a function is not supported",
		(int)(p->tok.length < 40 ? p->tok.length : 40), p->tok.text);
}

static int parse_statement(struct parser *p)
{
	int r;

	switch (p->tok.kind) {
	case '{':
		r = ptx_scope_push(p);
		return r < 0 ? r : ptx_next(p);
	case '}':
		r = ptx_scope_pop(p);
		return r < 0 ? r : ptx_next(p);
	case ';':
		return ptx_next(p);
	case '@':
		return parse_guarded(p);
	case TOK_WORD:
		return parse_body_directive(p);
	case TOK_IDENT:
		return parse_named(p);
	default:
		return ptx_unexpected(p, "a statement");
	}
}

/* From after the opening brace to after the closing one, which ends the function's scope. */
int ptx_parse_body(struct parser *p)
{
	unsigned outside = p->depth - 1;
	int r = 0;

	while (r == 0 && p->depth > outside) {
		r = parse_statement(p);
	}
	return r;
}
