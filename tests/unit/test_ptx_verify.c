/* SPDX-License-Identifier: Apache-2.0 */
/* What ir.h promises to the executor, checked by unit tests on good PTX, by the fuzzer on all. */
#include "test_ptx_verify.h"

static const char *verify_slots(const struct rbt_ptx_function *f, const struct rbt_ptx_inst *inst)
{
	const uint16_t fields[8] = {
		inst->d[0], inst->d[1], inst->d[2], inst->d[3], inst->a, inst->b, inst->c, inst->e};
	char files[8];

	rbt_ptx_files(inst, files);
	for (unsigned i = 0; i < 8; i++) {
		bool is_dst = i < 4 && inst->op != RBT_PTX_ST;
		uint32_t count = files[i] == 'q'   ? f->nregs64 + (is_dst ? 0 : f->nconsts64)
				 : files[i] == 'w' ? f->nregs32 + (is_dst ? 0 : f->nconsts32)
						   : f->npreds;

		if (files[i] == '-') {
			continue;
		}
		if (fields[i] >= count) {
			return "a slot is out of range";
		}
		if (files[i] == 'p' && is_dst && fields[i] == RBT_PTX_PRED_TRUE) {
			return "the true predicate is written";
		}
	}
	return NULL;
}

static const char *verify_memory(const struct rbt_ptx_function *f, const struct rbt_ptx_inst *inst)
{
	uint64_t size = (uint64_t)rbt_ptx_type_bits(inst->type) / 8 * inst->mod;
	uint32_t limit = inst->space == RBT_PTX_SPACE_FRAME ? f->frame_size : f->param_size;

	if (inst->mod != 1 && inst->mod != 2 && inst->mod != 4) {
		return "a vector is of no known length";
	}
	if (rbt_ptx_type_bits(inst->type) < 8 ||
		(inst->op == RBT_PTX_LD ? inst->dbits : inst->sbits) <
			rbt_ptx_type_bits(inst->type)) {
		return "a register is narrower than memory";
	}
	if (inst->space == RBT_PTX_SPACE_PARAM && (!f->is_entry || inst->op == RBT_PTX_ST)) {
		return "parameters are read only, by entries";
	}
	if ((inst->space == RBT_PTX_SPACE_PARAM || inst->space == RBT_PTX_SPACE_FRAME) &&
		inst->a == RBT_PTX_NO_SLOT &&
		(inst->imm < 0 || (uint64_t)inst->imm + size > limit)) {
		return "an access beyond the parameters";
	}
	return NULL;
}

static const char *verify_call(const struct rbt_ptx_module *m, const struct rbt_ptx_function *f,
	const struct rbt_ptx_inst *inst)
{
	const struct rbt_ptx_call *call;
	const struct rbt_ptx_function *callee = NULL;

	if (inst->index >= f->ncalls) {
		return "a call is out of range";
	}
	call = &f->calls[inst->index];
	if ((call->function == RBT_PTX_NO_INDEX) != (inst->op == RBT_PTX_CALL_IND)) {
		return "a call is of the wrong kind";
	}
	if (call->function != RBT_PTX_NO_INDEX) {
		callee = &m->functions[call->function];
		if (call->nargs != callee->nparams || call->nrets != callee->nrets ||
			(!callee->has_body && callee->builtin == RBT_PTX_BUILTIN_NONE)) {
			return "a call that its callee does not take";
		}
	}
	for (uint32_t i = 0; i < call->nargs + call->nrets; i++) {
		if ((uint64_t)call->args[i].offset + call->args[i].size > f->frame_size) {
			return "an argument beyond the frame";
		}
		if (callee != NULL && callee->params[i].size != call->args[i].size) {
			return "an argument of another size";
		}
	}
	return NULL;
}

static const char *verify_branch(const struct rbt_ptx_function *f, const struct rbt_ptx_inst *inst)
{
	if (inst->target >= f->ninsts ||
		(inst->reconv != RBT_PTX_NO_INDEX && inst->reconv >= f->ninsts) ||
		(f->insts[inst->target].flags & RBT_PTX_LEADER) == 0) {
		return "a target is out of range or no leader";
	}
	return NULL;
}

static const char *verify_inst(
	const struct rbt_ptx_module *m, const struct rbt_ptx_function *f, uint32_t index)
{
	const struct rbt_ptx_inst *inst = &f->insts[index];
	const char *wrong = NULL;

	if (inst->op >= RBT_PTX_OP_COUNT || inst->guard >= f->npreds) {
		return "an operation or guard is out of range";
	}
	switch (inst->op) {
	case RBT_PTX_BRA:
		wrong = verify_branch(f, inst);
		break;
	case RBT_PTX_CALL:
	case RBT_PTX_CALL_IND:
		wrong = verify_call(m, f, inst);
		break;
	case RBT_PTX_LD:
	case RBT_PTX_ST:
		wrong = verify_memory(f, inst);
		break;
	case RBT_PTX_RET:
		wrong = f->is_entry ? "an entry returns" : NULL;
		break;
	default:
		break;
	}
	return wrong != NULL ? wrong : verify_slots(f, inst);
}

static const char *verify_consts(
	const struct rbt_ptx_module *m, const struct rbt_ptx_const *consts, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (consts[i].kind > RBT_PTX_CONST_DYN_SHARED ||
			(consts[i].kind == RBT_PTX_CONST_VARIABLE &&
				consts[i].index >= m->nvariables)) {
			return "a constant is out of range";
		}
	}
	return NULL;
}

static const char *verify_params(const struct rbt_ptx_function *f)
{
	uint32_t limit = f->is_entry ? f->param_size : f->frame_size;

	for (uint32_t i = 0; i < f->nparams + f->nrets; i++) {
		if ((uint64_t)f->params[i].offset + f->params[i].size > limit ||
			f->params[i].offset % f->params[i].align != 0) {
			return "a parameter is out of range or not aligned";
		}
	}
	return NULL;
}

static const char *verify_function(const struct rbt_ptx_module *m, const struct rbt_ptx_function *f)
{
	const char *wrong = verify_params(f);
	const struct rbt_ptx_inst *last;

	if (!f->has_body) {
		return wrong != NULL ? wrong : f->ninsts > 0 ? "code without a body" : NULL;
	}
	if (f->ninsts == 0 || f->nregs32 + f->nconsts32 > 65534 ||
		f->nregs64 + f->nconsts64 > 65534) {
		return "a function without code, or with too many slots";
	}
	last = &f->insts[f->ninsts - 1];
	if (last->guard != RBT_PTX_PRED_TRUE || (last->flags & RBT_PTX_NEG_GUARD) != 0 ||
		(last->op != RBT_PTX_BRA && last->op != RBT_PTX_RET && last->op != RBT_PTX_EXIT &&
			last->op != RBT_PTX_TRAP)) {
		return "a function whose end can be passed";
	}
	wrong = wrong != NULL ? wrong : verify_consts(m, f->consts32, f->nconsts32);
	wrong = wrong != NULL ? wrong : verify_consts(m, f->consts64, f->nconsts64);
	for (uint32_t i = 0; wrong == NULL && i < f->ninsts; i++) {
		wrong = verify_inst(m, f, i);
	}
	return wrong;
}

static const char *verify_variable(const struct rbt_ptx_module *m, const struct rbt_ptx_variable *v)
{
	if (v->align == 0 || (v->align & (v->align - 1)) != 0 || v->init_size > v->size) {
		return "a variable's alignment or size";
	}
	for (uint32_t i = 0; i < v->nrelocs; i++) {
		const struct rbt_ptx_reloc *reloc = &v->relocs[i];

		if ((uint64_t)reloc->offset + reloc->size > v->init_size ||
			reloc->index >= (reloc->is_function ? m->nfunctions : m->nvariables)) {
			return "a relocation is out of range";
		}
	}
	return NULL;
}

const char *ptx_verify(const struct rbt_ptx_module *module)
{
	const char *wrong = NULL;

	for (uint32_t i = 0; wrong == NULL && i < module->nvariables; i++) {
		wrong = verify_variable(module, &module->variables[i]);
	}
	for (uint32_t i = 0; wrong == NULL && i < module->nfunctions; i++) {
		wrong = verify_function(module, &module->functions[i]);
	}
	return wrong;
}
