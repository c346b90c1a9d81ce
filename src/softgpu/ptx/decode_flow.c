/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls and ends. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

static int decode_bra(struct parser *p, struct insn *in)
{
	struct scope *scope = &p->scopes[p->depth];
	struct label_use *use;
	int r = ptx_nops(p, in, 1, 1);

	if (r < 0) {
		return r;
	}
	if (in->ops[0].kind != OPD_SYMBOL || in->ops[0].offset != 0 || in->ops[0].neg) {
		return ptx_fail(p, EINVAL, "'bra' needs a label");
	}
	use = ptx_alloc(p, sizeof(*use));
	if (use == NULL) {
		return p->failed;
	}
	*use = (struct label_use){
		.name = in->ops[0].name, .inst = ptx_function(p)->ninsts, .line = in->line};
	*scope->uses_end = use;
	scope->uses_end = &use->next;
	in->out.op = RBT_PTX_BRA;
	in->out.flags |= ptx_has(in, "uni") ? RBT_PTX_UNI : 0;
	in->out.target = RBT_PTX_NO_INDEX;
	in->out.reconv = RBT_PTX_NO_INDEX;
	return 0;
}

/* The lists of a call: results, arguments. */
static int call_args(struct parser *p, const struct operand *list, struct rbt_ptx_arg *ret_args)
{
	for (unsigned i = 0; list != NULL && i < list->count; i++) {
		const struct operand *o = &p->elements[list->first + i];

		if (o->kind != OPD_SYMBOL || o->binding == NULL || o->binding->kind != BIND_FRAME ||
			o->offset != 0 || o->neg) {
			return ptx_fail(p, ENOTSUP,
				"arguments of calls that are no .param variables are not supported");
		}
		ret_args[i] = (struct rbt_ptx_arg){
			.offset = (uint32_t)o->binding->offset, .size = (uint32_t)o->binding->size};
	}
	return 0;
}

static int check_signature(
	struct parser *p, const struct rbt_ptx_function *f, const struct rbt_ptx_call *call)
{
	bool same = !f->is_entry && f->nparams == call->nargs && f->nrets == call->nrets;

	for (uint32_t i = 0; same && i < call->nargs + call->nrets; i++) {
		same = f->params[i].size == call->args[i].size;
	}
	return same ? 0
		    : ptx_fail(p, EINVAL, "a call of '%.100s' that is not as it was declared",
			      f->name);
}

/* Adds a call to the function, which frees args also if a later step fails. */
static int add_call(struct parser *p, struct insn *in, const struct operand *rets,
	const struct operand *args, uint32_t function)
{
	struct rbt_ptx_function *f = ptx_function(p);
	struct rbt_ptx_call *call;
	int r = ptx_grow(p, &f->calls, &p->body.call_cap, f->ncalls, sizeof(*f->calls));

	if (r < 0) {
		return r;
	}
	call = &f->calls[f->ncalls];
	*call = (struct rbt_ptx_call){
		.function = function,
		.nargs = args != NULL ? args->count : 0,
		.nrets = rets != NULL ? rets->count : 0,
	};
	call->args = calloc(call->nargs + call->nrets + 1, sizeof(*call->args));
	if (call->args == NULL) {
		return ptx_fail(p, ENOMEM, "out of memory");
	}
	in->out.index = f->ncalls++;
	r = call_args(p, args, call->args);
	r = r < 0 ? r : call_args(p, rets, call->args + call->nargs);
	if (r == 0 && function != RBT_PTX_NO_INDEX) {
		r = check_signature(p, &p->module->functions[function], call);
	}
	return r;
}

/* call [(results),] function [, (arguments)] [, prototype] */
static int decode_call(struct parser *p, struct insn *in)
{
	const struct operand *rets = NULL, *args = NULL, *target;
	unsigned i = 0;
	int r = ptx_nops(p, in, 1, 4);

	if (r < 0) {
		return r;
	}
	in->out.flags |= ptx_has(in, "uni") ? RBT_PTX_UNI : 0;
	if (in->ops[0].kind == OPD_VECTOR && in->ops[0].is_list && in->nops > 1) {
		rets = &in->ops[i++];
	}
	target = &in->ops[i++];
	if (i < in->nops && in->ops[i].kind == OPD_VECTOR && in->ops[i].is_list) {
		args = &in->ops[i++];
	}
	if (target->kind == OPD_SYMBOL && target->binding != NULL &&
		target->binding->kind == BIND_FUNCTION && target->offset == 0 && i == in->nops) {
		in->out.op = RBT_PTX_CALL;
		return add_call(p, in, rets, args, target->binding->index);
	}
	if (target->kind != OPD_REG) {
		return ptx_fail(p, EINVAL, "'call' of what is no function");
	}
	in->out.op = RBT_PTX_CALL_IND;
	r = ptx_src(p, in, &in->out.a, target, RBT_PTX_B64);
	return r < 0 ? r : add_call(p, in, rets, args, RBT_PTX_NO_INDEX);
}

static int decode_end(struct parser *p, struct insn *in)
{
	static const struct {
		const char *name;
		uint16_t op;
	} ends[] = {{"ret", RBT_PTX_RET}, {"exit", RBT_PTX_EXIT}, {"trap", RBT_PTX_TRAP},
		{"brkpt", RBT_PTX_BRKPT}};
	unsigned which = 0;

	while (strcmp(ends[which].name, in->name) != 0) {
		which++;
	}
	in->out.op = ends[which].op;
	if (in->out.op == RBT_PTX_RET) {
		in->out.flags |= ptx_has(in, "uni") ? RBT_PTX_UNI : 0;
		in->out.op = ptx_function(p)->is_entry ? RBT_PTX_EXIT : RBT_PTX_RET;
	}
	return ptx_nops(p, in, 0, 0);
}

const struct decoder ptx_flow_decoders[] = {
	{"bra", decode_bra},
	{"call", decode_call},
	{"ret", decode_end},
	{"exit", decode_end},
	{"trap", decode_end},
	{"brkpt", decode_end},
	{NULL, NULL},
};
