/* SPDX-License-Identifier: Apache-2.0 */
/* A module: its header, its declarations, and checks that are possible only at its end. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

static int parse_version(struct parser *p)
{
	double version;
	int r = ptx_next(p);

	if (r < 0) {
		return r;
	}
	if (p->tok.kind != TOK_FLOAT || p->tok.literal.kind != LIT_F64) {
		return ptx_unexpected(p, "a version");
	}
	memcpy(&version, &p->tok.literal.bits, sizeof(version));
	if (!(version >= 1.0 && version < 100.0)) {
		return ptx_unexpected(p, "a version");
	}
	p->module->version = (uint32_t)(version * 10 + 0.5);
	return ptx_next(p);
}

/* sm_70, debug: the options that follow do not change the meaning of instructions. */
static int parse_target(struct parser *p)
{
	bool more = true;
	int r = ptx_next(p);

	while (r == 0 && more) {
		if (p->tok.kind != TOK_IDENT) {
			return ptx_unexpected(p, "a target");
		}
		if (p->tok.length >= 5 && p->tok.length <= 7 &&
			memcmp(p->tok.text, "sm_", 3) == 0) {
			p->module->target = (uint32_t)strtoul(p->tok.text + 3, NULL, 10);
		} else if (ptx_tok_is(p, "texmode_unified") || ptx_tok_is(p, "debug")) {
			;
		} else {
			return ptx_fail(p, ENOTSUP, "target '%.*s' is not supported",
				(int)p->tok.length, p->tok.text);
		}
		r = ptx_next(p);
		r = r < 0 ? r : ptx_accept(p, ',', &more);
	}
	return r;
}

static int parse_address_size(struct parser *p)
{
	int r = ptx_next(p);

	if (r < 0) {
		return r;
	}
	if (p->tok.kind != TOK_INT || p->tok.literal.bits != 64) {
		return ptx_fail(p, ENOTSUP, "addresses of other than 64 bits are not supported");
	}
	return ptx_next(p);
}

/* .section .debug_str { ... }: also followed by a label, or by values without braces. */
static int skip_section(struct parser *p)
{
	int r = ptx_next(p);

	r = r < 0 ? r : ptx_next(p);
	if (r == 0 && p->tok.kind != '{') {
		return ptx_unexpected(p, "'{'");
	}
	return r < 0 ? r : ptx_skip_braces(p);
}

static int skip_pragma(struct parser *p)
{
	int r = 0;

	while (r == 0 && p->tok.kind != ';' && p->tok.kind != TOK_END) {
		r = ptx_next(p);
	}
	return r < 0 ? r : ptx_expect(p, ';', "';'");
}

struct directive {
	const char *name;
	int (*parse)(struct parser *p);
};

static const struct directive header[] = {
	{".version", parse_version},
	{".target", parse_target},
	{".address_size", parse_address_size},
	{".section", skip_section},
	{".pragma", skip_pragma},
	{".file", ptx_skip_line},
	{".loc", ptx_skip_line},
};

static const struct {
	const char *name;
	enum rbt_ptx_space space;
} spaces[] = {
	{".global", RBT_PTX_SPACE_GLOBAL},
	{".const", RBT_PTX_SPACE_CONST},
	{".shared", RBT_PTX_SPACE_SHARED},
	{".local", RBT_PTX_SPACE_LOCAL},
	{".param", RBT_PTX_SPACE_FRAME},
};

int ptx_parse_declaration(struct parser *p, unsigned linkage, bool *ret_found)
{
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		if (ptx_tok_is(p, spaces[i].name)) {
			int r = ptx_next(p);

			*ret_found = true;
			return r < 0 ? r : ptx_parse_variable(p, spaces[i].space, linkage);
		}
	}
	*ret_found = false;
	return 0;
}

static int parse_linkage(struct parser *p, unsigned *ret_linkage)
{
	int r = 0;

	*ret_linkage = 0;
	while (r == 0 && p->tok.kind == TOK_WORD) {
		if (ptx_tok_is(p, ".extern")) {
			*ret_linkage |= LINK_EXTERN;
		} else if (!ptx_tok_is(p, ".visible") && !ptx_tok_is(p, ".weak") &&
			   !ptx_tok_is(p, ".common")) {
			break;
		}
		r = ptx_next(p);
	}
	return r;
}

static int parse_item(struct parser *p)
{
	unsigned linkage;
	bool found;
	int r;

	for (size_t i = 0; i < sizeof(header) / sizeof(header[0]); i++) {
		if (ptx_tok_is(p, header[i].name)) {
			return header[i].parse(p);
		}
	}
	if (p->module->version == 0) {
		return ptx_unexpected(p, ".version, first in PTX,");
	}
	r = parse_linkage(p, &linkage);
	r = r < 0 ? r : ptx_parse_declaration(p, linkage, &found);
	if (r < 0 || found) {
		return r;
	}
	if (ptx_tok_is(p, ".entry") || ptx_tok_is(p, ".func")) {
		bool is_entry = ptx_tok_is(p, ".entry");

		r = ptx_next(p);
		return r < 0 ? r : ptx_parse_function(p, is_entry);
	}
	if (p->tok.kind == TOK_WORD) {
		return ptx_fail(p, ENOTSUP, "'%.*s' is not supported",
			(int)(p->tok.length < 40 ? p->tok.length : 40), p->tok.text);
	}
	return ptx_unexpected(p, "a directive");
}

/* A kernel's shared memory is behind that of the module, whose size is known only now. */
static int place_shared(struct parser *p, struct rbt_ptx_function *f)
{
	uint64_t base = (p->shared_used + 15) & ~UINT64_C(15);
	struct rbt_ptx_const *consts[] = {f->consts32, f->consts64};
	uint32_t counts[] = {f->nconsts32, f->nconsts64};

	for (unsigned file = 0; file < 2; file++) {
		for (uint32_t i = 0; i < counts[file]; i++) {
			if (consts[file][i].kind == PTX_CONST_KERNEL_SHARED) {
				consts[file][i].kind = RBT_PTX_CONST_VALUE;
				consts[file][i].value += base;
			}
		}
	}
	if (f->is_entry) {
		f->shared_size = (uint32_t)(base + ((f->shared_size + 15) & ~15u));
	}
	if (f->shared_size > PTX_MAX_SHARED) {
		p->tok.line = f->line;
		return ptx_fail(p, E2BIG, "shared memory of '%s' is larger than %d bytes", f->name,
			PTX_MAX_SHARED);
	}
	return 0;
}

static int check_calls(struct parser *p, const struct rbt_ptx_function *f)
{
	for (uint32_t i = 0; f->ncalls > 0 && i < f->ninsts; i++) {
		const struct rbt_ptx_function *callee;

		if (f->insts[i].op != RBT_PTX_CALL) {
			continue;
		}
		callee = &p->module->functions[f->calls[f->insts[i].index].function];
		if (!callee->has_body && callee->builtin == RBT_PTX_BUILTIN_NONE) {
			p->tok.line = f->insts[i].line;
			return ptx_fail(p, ENOTSUP,
				"the function '%.100s' is not here: linking is not supported",
				callee->name);
		}
	}
	return 0;
}

static int parse_module(struct parser *p)
{
	int r = ptx_next(p);

	while (r == 0 && p->tok.kind != TOK_END) {
		r = parse_item(p);
	}
	if (r == 0 && p->module->version == 0) {
		r = ptx_unexpected(p, ".version");
	}
	for (uint32_t i = 0; r == 0 && i < p->module->nfunctions; i++) {
		r = place_shared(p, &p->module->functions[i]);
		r = r < 0 ? r : check_calls(p, &p->module->functions[i]);
	}
	return r;
}

int rbt_ptx_parse(const char *text, size_t size, struct rbt_ptx_module **ret_module,
	struct rbt_ptx_error *error)
{
	struct rbt_ptx_error ignored = {0};
	struct parser p = {.text = text, .size = size, .line = 1, .error = error};
	int r;

	p.error = error != NULL ? error : &ignored;
	*p.error = (struct rbt_ptx_error){0};
	if (size > PTX_MAX_TEXT) {
		return ptx_fail(&p, E2BIG, "PTX of more than %d bytes", PTX_MAX_TEXT);
	}
	p.module = calloc(1, sizeof(*p.module));
	p.elements = calloc(PTX_MAX_ELEMENTS, sizeof(*p.elements));
	if (p.module == NULL || p.elements == NULL) {
		r = ptx_fail(&p, ENOMEM, "out of memory");
	} else {
		r = parse_module(&p);
	}
	ptx_body_finish_memory(&p);
	ptx_names_finish(&p);
	free(p.elements);
	if (r < 0) {
		rbt_ptx_module_destroy(p.module);
		return r;
	}
	*ret_module = p.module;
	return 0;
}
