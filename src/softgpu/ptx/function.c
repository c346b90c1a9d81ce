/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an entry or a function, and its directives. */
#include <assert.h>
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

struct head {
	struct rbt_ptx_param *params; /* nparams, then nrets */
	uint32_t *names;
	uint32_t nparams, nrets, cap, name_cap;
	uint64_t size;
};

struct rbt_ptx_function *ptx_function(struct parser *p)
{
	return &p->module->functions[p->body.function];
}

static void params_free(struct rbt_ptx_param *params, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		free(params[i].name);
	}
	free(params);
}

static int add_param(struct parser *p, struct head *head, const struct declared *decl, uint64_t max)
{
	uint32_t count = head->nparams + head->nrets;
	uint64_t offset;
	char *name;
	int r = ptx_place(p, &head->size, decl, max, "parameters", &offset);

	r = r < 0 ? r : ptx_grow(p, &head->params, &head->cap, count, sizeof(*head->params));
	r = r < 0 ? r : ptx_grow(p, &head->names, &head->name_cap, count, sizeof(*head->names));
	if (r < 0) {
		return r;
	}
	name = ptx_name_copy(p, decl->name);
	if (name == NULL) {
		return p->failed;
	}
	head->names[count] = decl->name;
	head->params[count] = (struct rbt_ptx_param){
		.name = name,
		.size = (uint32_t)decl->size,
		.align = decl->align,
		.offset = (uint32_t)offset,
		.type = decl->type,
	};
	return 0;
}

/* The current token is the opening parenthesis. */
static int parse_params(struct parser *p, struct head *head, uint32_t *count, uint64_t max)
{
	bool more;
	int r = ptx_next(p);

	if (r == 0 && p->tok.kind == ')') {
		return ptx_next(p);
	}
	do {
		struct declared decl = {0};

		if (r == 0 && !ptx_tok_is(p, ".param")) {
			return ptx_tok_is(p, ".reg")
				       ? ptx_fail(p, ENOTSUP,
						 "parameters in registers are not supported")
				       : ptx_unexpected(p, ".param");
		}
		r = r < 0 ? r : ptx_next(p);
		r = r < 0 ? r : ptx_parse_declarator(p, &decl);
		r = r < 0 ? r : add_param(p, head, &decl, max);
		if (r == 0) {
			(*count)++;
		}
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	} while (r == 0 && more);
	return r < 0 ? r : ptx_expect(p, ')', "')'");
}

/* Results come first in the text but last in the table; there are few of them. */
static int rotate_results(struct parser *p, struct head *head)
{
	uint32_t count = head->nparams + head->nrets;
	struct rbt_ptx_param *params = calloc(count + 1, sizeof(*params));
	uint32_t *names = calloc(count + 1, sizeof(*names));

	if (params == NULL || names == NULL) {
		free(params);
		free(names);
		return ptx_fail(p, ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t to = i < head->nrets ? head->nparams + i : i - head->nrets;

		params[to] = head->params[i];
		names[to] = head->names[i];
	}
	free(head->params);
	free(head->names);
	head->params = params;
	head->names = names;
	return 0;
}

static bool same_sizes(const struct rbt_ptx_function *f, const struct head *head)
{
	if (f->nparams != head->nparams || f->nrets != head->nrets) {
		return false;
	}
	for (uint32_t i = 0; i < f->nparams + f->nrets; i++) {
		if (f->params[i].size != head->params[i].size ||
			f->params[i].offset != head->params[i].offset) {
			return false;
		}
	}
	return true;
}

static const struct {
	const char *name;
	uint8_t builtin, nparams, nrets;
	uint8_t sizes[6];
} builtins[] = {
	{"vprintf", RBT_PTX_BUILTIN_VPRINTF, 2, 1, {8, 8, 4}},
	{"__assertfail", RBT_PTX_BUILTIN_ASSERTFAIL, 5, 0, {8, 8, 4, 8, 8}},
};

static uint8_t builtin_of(const struct rbt_ptx_function *f)
{
	for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
		bool same = strcmp(f->name, builtins[i].name) == 0 &&
			    f->nparams == builtins[i].nparams && f->nrets == builtins[i].nrets;

		for (uint32_t k = 0; same && k < f->nparams + f->nrets; k++) {
			same = f->params[k].size == builtins[i].sizes[k];
		}
		if (same) {
			return builtins[i].builtin;
		}
	}
	return RBT_PTX_BUILTIN_NONE;
}

static int new_function(struct parser *p, uint32_t name, bool is_entry, uint32_t *ret_index)
{
	struct rbt_ptx_module *m = p->module;
	struct binding *b;
	char *copy;
	int r = ptx_grow(p, &m->functions, &p->function_cap, m->nfunctions, sizeof(*m->functions));

	r = r < 0 ? r : ptx_bind(p, name, BIND_FUNCTION, &b);
	if (r < 0) {
		return r;
	}
	copy = ptx_name_copy(p, name);
	if (copy == NULL) {
		return p->failed;
	}
	m->functions[m->nfunctions] =
		(struct rbt_ptx_function){.name = copy, .is_entry = is_entry, .line = p->tok.line};
	b->index = m->nfunctions;
	*ret_index = m->nfunctions++;
	return 0;
}

/* A function may be declared any number of times, always alike, and defined once. */
static int find_function(
	struct parser *p, uint32_t name, bool is_entry, struct head *head, uint32_t *ret_index)
{
	const struct binding *b = ptx_lookup(p, name);
	struct rbt_ptx_function *f;
	int r = 0;

	if (b == NULL || b->kind != BIND_FUNCTION) {
		r = new_function(p, name, is_entry, ret_index);
	} else {
		f = &p->module->functions[b->index];
		if (f->is_entry != is_entry || !same_sizes(f, head)) {
			return ptx_fail(p, EINVAL, "'%.100s' was declared otherwise", f->name);
		}
		*ret_index = b->index;
	}
	if (r < 0) {
		return r;
	}
	f = &p->module->functions[*ret_index];
	params_free(f->params, f->nparams + f->nrets);
	f->params = head->params;
	f->nparams = head->nparams;
	f->nrets = head->nrets;
	f->param_size = is_entry ? (uint32_t)head->size : 0;
	f->frame_size = is_entry ? 0 : (uint32_t)(head->size + 15) & ~15u;
	f->builtin = f->has_body || is_entry ? RBT_PTX_BUILTIN_NONE : builtin_of(f);
	head->params = NULL;
	return 0;
}

static int parse_counts(struct parser *p, uint32_t *counts, unsigned max)
{
	unsigned n = 0;
	bool more = true;
	int r = ptx_next(p);

	while (r == 0 && more && n < max) {
		if (p->tok.kind != TOK_INT || p->tok.literal.bits > INT32_MAX) {
			return ptx_unexpected(p, "a count");
		}
		counts[n++] = (uint32_t)p->tok.literal.bits;
		r = ptx_next(p);
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	}
	while (n < max) {
		counts[n++] = 1;
	}
	return r;
}

static int parse_directive(struct parser *p, struct rbt_ptx_function *f)
{
	if (ptx_tok_is(p, ".maxntid")) {
		return parse_counts(p, f->max_ntid, 3);
	}
	if (ptx_tok_is(p, ".reqntid")) {
		return parse_counts(p, f->req_ntid, 3);
	}
	if (ptx_tok_is(p, ".minnctapersm")) {
		return parse_counts(p, &f->min_nctapersm, 1);
	}
	if (ptx_tok_is(p, ".maxnreg")) {
		return parse_counts(p, &f->max_nreg, 1);
	}
	if (ptx_tok_is(p, ".noreturn")) {
		return ptx_next(p);
	}
	if (ptx_tok_is(p, ".pragma")) {
		int r = ptx_next(p);

		r = r < 0 ? r : ptx_expect(p, TOK_STRING, "a string");
		return r < 0 ? r : ptx_expect(p, ';', "';'");
	}
	if (p->tok.kind == TOK_WORD) {
		return ptx_fail(p, ENOTSUP, "'%.*s' of a function is not supported",
			(int)(p->tok.length < 40 ? p->tok.length : 40), p->tok.text);
	}
	return ptx_unexpected(p, "'{' or ';'");
}

static int bind_params(struct parser *p, const struct head *head)
{
	const struct rbt_ptx_function *f = ptx_function(p);
	struct binding *b;
	int r = 0;

	assert(head->names != NULL);
	for (uint32_t i = 0; r == 0 && i < f->nparams + f->nrets; i++) {
		r = ptx_bind(p, head->names[i], f->is_entry ? BIND_PARAM : BIND_FRAME, &b);
		if (r == 0) {
			b->offset = f->params[i].offset;
			b->size = f->params[i].size;
			b->align = f->params[i].align;
		}
	}
	return r;
}

static int parse_definition(struct parser *p, uint32_t index, const struct head *head)
{
	struct rbt_ptx_function *f = &p->module->functions[index];
	int r;

	if (f->has_body) {
		return ptx_fail(p, EINVAL, "'%.100s' is defined twice", f->name);
	}
	f->has_body = true;
	f->builtin = RBT_PTX_BUILTIN_NONE;
	ptx_body_reset(p);
	p->body.function = index;
	if (!f->is_entry) {
		p->body.frame_used = head->size;
		f->frame_size = (uint32_t)head->size;
	}
	r = ptx_scope_push(p);
	r = r < 0 ? r : bind_params(p, head);
	r = r < 0 ? r : ptx_next(p);
	r = r < 0 ? r : ptx_parse_body(p);
	r = r < 0 ? r : ptx_body_finish(p);
	return r;
}

static int parse_head(struct parser *p, bool is_entry, struct head *head, uint32_t *ret_index)
{
	uint64_t max = is_entry ? PTX_MAX_PARAM : PTX_MAX_FRAME;
	uint32_t name;
	int r = 0;

	if (p->tok.kind == '(') {
		r = is_entry ? ptx_unexpected(p, "a name")
			     : parse_params(p, head, &head->nrets, max);
	}
	if (r == 0 && p->tok.kind != TOK_IDENT) {
		return ptx_unexpected(p, "a name");
	}
	r = r < 0 ? r : ptx_intern(p, p->tok.text, p->tok.length, &name);
	r = r < 0 ? r : ptx_next(p);
	if (r == 0 && p->tok.kind == '(') {
		r = parse_params(p, head, &head->nparams, max);
	}
	r = r < 0 ? r : rotate_results(p, head);
	return r < 0 ? r : find_function(p, name, is_entry, head, ret_index);
}

/* The current token is the one after .entry or .func. */
int ptx_parse_function(struct parser *p, bool is_entry)
{
	struct head head = {0};
	uint32_t index = 0;
	int r = parse_head(p, is_entry, &head, &index);

	while (r == 0 && p->tok.kind != '{' && p->tok.kind != ';') {
		r = parse_directive(p, &p->module->functions[index]);
	}
	if (r == 0 && p->tok.kind == '{') {
		r = parse_definition(p, index, &head);
	} else if (r == 0) {
		r = ptx_next(p);
	}
	if (head.params != NULL) {
		params_free(head.params, head.nparams + head.nrets);
	}
	free(head.names);
	return r;
}
