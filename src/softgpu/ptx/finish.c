/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a function: properties that are known only then. */
#include <stdlib.h>

#include "softgpu/ptx/impl.h"

static void body_free(struct body *body)
{
	for (unsigned i = 0; i < 2; i++) {
		free(body->pools[i].consts);
		free(body->pools[i].table);
	}
	free(body->fixups);
}

void ptx_body_reset(struct parser *p)
{
	body_free(&p->body);
	p->body = (struct body){.nregs[FILE_PRED] = 1};
}

void ptx_body_finish_memory(struct parser *p)
{
	body_free(&p->body);
}

static bool ends(const struct rbt_ptx_inst *inst)
{
	bool is_end = inst->op == RBT_PTX_BRA || inst->op == RBT_PTX_RET ||
		      inst->op == RBT_PTX_EXIT || inst->op == RBT_PTX_TRAP;

	return is_end && inst->guard == RBT_PTX_PRED_TRUE && (inst->flags & RBT_PTX_NEG_GUARD) == 0;
}

/* Code that reaches the end returns. */
static int emit_return(struct parser *p)
{
	struct rbt_ptx_function *f = ptx_function(p);
	struct rbt_ptx_inst inst = {
		.op = f->is_entry ? RBT_PTX_EXIT : RBT_PTX_RET,
		.d = {RBT_PTX_NO_SLOT, RBT_PTX_NO_SLOT, RBT_PTX_NO_SLOT, RBT_PTX_NO_SLOT},
		.a = RBT_PTX_NO_SLOT,
		.b = RBT_PTX_NO_SLOT,
		.c = RBT_PTX_NO_SLOT,
		.e = RBT_PTX_NO_SLOT,
		.line = p->tok.line,
	};

	if (f->ninsts > 0 && !p->body.label_at_end && ends(&f->insts[f->ninsts - 1])) {
		return 0;
	}
	return ptx_emit_simple(p, &inst);
}

/* Constants follow the registers of their file. */
static int place_constants(struct parser *p)
{
	struct rbt_ptx_function *f = ptx_function(p);
	struct body *body = &p->body;

	for (unsigned file = 0; file < 2; file++) {
		if (body->nregs[file] + body->pools[file].count > PTX_MAX_SLOTS) {
			return ptx_fail(
				p, E2BIG, "more than %d registers and constants", PTX_MAX_SLOTS);
		}
	}
	for (uint32_t i = 0; i < body->nfixups; i++) {
		const struct fixup *fix = &body->fixups[i];
		uint16_t slot = (uint16_t)(body->nregs[fix->file] + fix->constant);

		memcpy((char *)&f->insts[fix->inst] + fix->field, &slot, sizeof(slot));
	}
	f->nregs32 = body->nregs[FILE_32];
	f->nregs64 = body->nregs[FILE_64];
	f->npreds = body->nregs[FILE_PRED];
	f->consts32 = body->pools[FILE_32].consts;
	f->nconsts32 = body->pools[FILE_32].count;
	f->consts64 = body->pools[FILE_64].consts;
	f->nconsts64 = body->pools[FILE_64].count;
	body->pools[FILE_32].consts = NULL;
	body->pools[FILE_64].consts = NULL;
	return 0;
}

int ptx_body_finish(struct parser *p)
{
	struct rbt_ptx_function *f = ptx_function(p);
	int r = emit_return(p);

	r = r < 0 ? r : place_constants(p);
	r = r < 0 ? r : ptx_cfg(p, f);
	f->frame_size = (f->frame_size + 15) & ~15u;
	f->local_align = f->local_align < 16 ? 16 : f->local_align;
	f->local_size = (f->local_size + f->local_align - 1) & ~(f->local_align - 1);
	f->shared_size = (uint32_t)p->body.shared_used;
	return r;
}
