/* SPDX-License-Identifier: Apache-2.0 */
/* Prints decoded PTX: r is a 32-bit slot, q a 64-bit one, p a predicate, # a constant. */
#include "softgpu/ptx/impl.h"

const char *rbt_ptx_op_name(unsigned op)
{
	static const char *const names[] = {
#define X(name, text) text,
		RBT_PTX_OPS(X)
#undef X
	};

	return op < RBT_PTX_OP_COUNT ? names[op] : "?";
}

static const char *const space_names[] = {
	"generic", "global", "const", "shared", "local", "param", "frame"};

static void dump_const(const struct rbt_ptx_const *c, FILE *file)
{
	static const char *const kinds[] = {"", "variable+", "local+", "dynshared+"};

	fprintf(file, "#%s", c->kind < 4 ? kinds[c->kind] : "?");
	if (c->kind == RBT_PTX_CONST_VARIABLE) {
		fprintf(file, "%" PRIu32 ":", c->index);
	}
	fprintf(file, "0x%" PRIx64, c->value);
}

static void dump_slot(const struct rbt_ptx_function *f, char kind, uint16_t slot, FILE *file)
{
	uint32_t nregs = kind == 'q' ? f->nregs64 : f->nregs32;

	if (kind == 'p') {
		fprintf(file, "p%u", slot);
	} else if (slot < nregs) {
		fprintf(file, "%c%u", kind == 'q' ? 'q' : 'r', slot);
	} else {
		dump_const(kind == 'q' ? &f->consts64[slot - nregs] : &f->consts32[slot - nregs],
			file);
	}
}

static void dump_flags(const struct rbt_ptx_inst *inst, FILE *file)
{
	static const char *const names[] = {"", "nega", "negb", "negc", "ftz", "sat", "ccin",
		"ccout", "uni", "", "addr32", "uniform", "strong", "aligned", "relu"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if ((inst->flags & 1u << i) != 0 && names[i][0] != '\0') {
			fprintf(file, " %s", names[i]);
		}
	}
}

static void dump_rest(const struct rbt_ptx_inst *inst, FILE *file)
{
	if (inst->op == RBT_PTX_SREG_B32 || inst->op == RBT_PTX_SREG_B64) {
		fprintf(file, " %s", ptx_sreg_name(inst->a));
	}
	if (inst->op == RBT_PTX_LD || inst->op == RBT_PTX_ST || inst->op == RBT_PTX_ATOM) {
		fprintf(file, " %s%+" PRId64, space_names[inst->space], inst->imm);
	} else if (inst->space != RBT_PTX_SPACE_GENERIC) {
		fprintf(file, " %s", space_names[inst->space]);
	}
	if (inst->type != RBT_PTX_NONE) {
		fprintf(file, " %s", ptx_type_name(inst->type));
	}
	if (inst->stype != RBT_PTX_NONE && inst->op >= RBT_PTX_CVT_II &&
		inst->op <= RBT_PTX_CVT_PAIR) {
		fprintf(file, " from %s", ptx_type_name(inst->stype));
	} else if (inst->stype != RBT_PTX_NONE) {
		fprintf(file, " stype %u", inst->stype);
	}
	if (inst->mod != 0) {
		fprintf(file, " mod %u", inst->mod);
	}
	if (inst->op == RBT_PTX_BRA) {
		fprintf(file, " to %" PRIu32, inst->target);
		if (inst->reconv != RBT_PTX_NO_INDEX) {
			fprintf(file, " meet %" PRIu32, inst->reconv);
		}
	}
	if (inst->op == RBT_PTX_CALL || inst->op == RBT_PTX_CALL_IND) {
		fprintf(file, " call %" PRIu32, inst->index);
	}
}

void rbt_ptx_dump_inst(const struct rbt_ptx_function *f, uint32_t index, FILE *file)
{
	const struct rbt_ptx_inst *inst = &f->insts[index];
	const uint16_t fields[8] = {
		inst->d[0], inst->d[1], inst->d[2], inst->d[3], inst->a, inst->b, inst->c, inst->e};
	const char *between = " ";
	char files[8];

	rbt_ptx_files(inst, files);
	fprintf(file, "%s%" PRIu32 ": ", (inst->flags & RBT_PTX_LEADER) != 0 ? "*" : " ", index);
	if (inst->guard != RBT_PTX_PRED_TRUE || (inst->flags & RBT_PTX_NEG_GUARD) != 0) {
		fprintf(file, "@%sp%u ", (inst->flags & RBT_PTX_NEG_GUARD) != 0 ? "!" : "",
			inst->guard);
	}
	fprintf(file, "%s", rbt_ptx_op_name(inst->op));
	for (unsigned i = 0; i < 8; i++) {
		if (files[i] != '-') {
			fprintf(file, "%s", between);
			dump_slot(f, files[i], fields[i], file);
			between = ", ";
		}
	}
	dump_rest(inst, file);
	dump_flags(inst, file);
	fprintf(file, " ; %" PRIu32 "\n", inst->line);
}

static void dump_call(
	const struct rbt_ptx_module *m, const struct rbt_ptx_call *call, uint32_t index, FILE *file)
{
	fprintf(file, " call %" PRIu32 ": %s", index,
		call->function == RBT_PTX_NO_INDEX ? "indirect"
						   : m->functions[call->function].name);
	for (uint32_t i = 0; i < call->nargs + call->nrets; i++) {
		fprintf(file, " %s%" PRIu32 "+%" PRIu32, i < call->nargs ? "in " : "out ",
			call->args[i].offset, call->args[i].size);
	}
	fprintf(file, "\n");
}

static void dump_function(
	const struct rbt_ptx_module *m, const struct rbt_ptx_function *f, FILE *file)
{
	fprintf(file,
		"%s %s regs32 %" PRIu32 " regs64 %" PRIu32 " preds %" PRIu32 " consts %" PRIu32
		"/%" PRIu32 " frame %" PRIu32 " local %" PRIu32 " shared %" PRIu32 "%s\n",
		f->is_entry ? "entry" : "func", f->name, f->nregs32, f->nregs64, f->npreds,
		f->nconsts32, f->nconsts64, f->frame_size, f->local_size, f->shared_size,
		f->builtin != RBT_PTX_BUILTIN_NONE ? " builtin"
		: f->has_body                      ? ""
						   : " extern");
	for (uint32_t i = 0; i < f->nparams + f->nrets; i++) {
		fprintf(file, " %s %s offset %" PRIu32 " size %" PRIu32 " align %" PRIu32 "\n",
			i < f->nparams ? "param" : "result", f->params[i].name, f->params[i].offset,
			f->params[i].size, f->params[i].align);
	}
	for (uint32_t i = 0; i < f->ncalls; i++) {
		dump_call(m, &f->calls[i], i, file);
	}
	for (uint32_t i = 0; i < f->ninsts; i++) {
		rbt_ptx_dump_inst(f, i, file);
	}
}

void rbt_ptx_dump(const struct rbt_ptx_module *module, FILE *file)
{
	fprintf(file, "version %" PRIu32 " target %" PRIu32 "\n", module->version, module->target);
	for (uint32_t i = 0; i < module->nvariables; i++) {
		const struct rbt_ptx_variable *v = &module->variables[i];

		fprintf(file, "variable %" PRIu32 ": %s %s%s align %" PRIu32 " size %" PRIu64, i,
			space_names[v->space], v->name, v->is_extern ? " extern" : "", v->align,
			v->size);
		fprintf(file, " init %" PRIu64 "\n", v->init_size);
		for (uint32_t k = 0; k < v->nrelocs; k++) {
			fprintf(file, " at %" PRIu32 " %s %" PRIu32 "%+" PRId64 "\n",
				v->relocs[k].offset,
				v->relocs[k].is_function ? "function" : "variable",
				v->relocs[k].index, v->relocs[k].addend);
		}
	}
	for (uint32_t i = 0; i < module->nfunctions; i++) {
		dump_function(module, &module->functions[i], file);
	}
}
