/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of lanes, warps and blocks together. */
#include "softgpu/ptx/impl.h"

static int warp_sync(struct parser *p, struct insn *in)
{
	int r = ptx_nops(p, in, 1, 1);

	in->out.op = RBT_PTX_BAR_WARP_SYNC;
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[0], RBT_PTX_B32);
}

/* The barrier's number and, if there is another operand, its count of threads. */
static int bar_operands(struct parser *p, struct insn *in, const struct operand *o, unsigned count)
{
	int r = ptx_src(p, in, &in->out.a, &o[0], RBT_PTX_B32);

	if (r == 0 && count == 2) {
		r = ptx_src(p, in, &in->out.b, &o[1], RBT_PTX_B32);
	}
	return r;
}

static int bar_red(struct parser *p, struct insn *in)
{
	static const char *const words[] = {"popc", "and", "or", NULL};
	int which = ptx_one_of(in, words), r = ptx_nops(p, in, 3, 4);

	if (r < 0) {
		return r;
	}
	if (which < 0) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_BAR_RED;
	in->out.mod = (uint8_t)which;
	r = which == RBT_PTX_BARRED_POPC ? ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32)
					 : ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);
	r = r < 0 ? r : bar_operands(p, in, &in->ops[1], in->nops - 2);
	return r < 0 ? r : ptx_pred(p, in, &in->out.c, &in->ops[in->nops - 1], RBT_PTX_NEG_C);
}

static int decode_bar(struct parser *p, struct insn *in)
{
	int r;

	if (strcmp(in->name, "bar") == 0 || ptx_has(in, "aligned")) {
		in->out.flags |= RBT_PTX_ALIGNED;
	}
	ptx_has(in, "cta");
	if (ptx_has(in, "warp")) {
		ptx_has(in, "sync");
		in->out.flags &= (uint16_t)~RBT_PTX_ALIGNED;
		return warp_sync(p, in);
	}
	if (ptx_has(in, "red")) {
		return bar_red(p, in);
	}
	if (ptx_has(in, "arrive")) {
		in->out.op = RBT_PTX_BAR_ARRIVE;
		r = ptx_nops(p, in, 2, 2);
	} else if (ptx_has(in, "sync")) {
		in->out.op = RBT_PTX_BAR_SYNC;
		r = ptx_nops(p, in, 1, 2);
	} else {
		return ptx_no_form(p, in);
	}
	return r < 0 ? r : bar_operands(p, in, in->ops, in->nops);
}

static int decode_membar(struct parser *p, struct insn *in)
{
	static const char *const words[] = {"cta", "gl", "gpu", "cluster", "sys", NULL};
	static const uint8_t levels[] = {0, 1, 1, 1, 2};
	int which = ptx_one_of(in, words);

	if (which < 0) {
		return ptx_no_form(p, in);
	}
	ptx_has(in, "sc");
	ptx_has(in, "acq_rel");
	in->out.op = RBT_PTX_MEMBAR;
	in->out.mod = levels[which];
	return ptx_nops(p, in, 0, 0);
}

/* With .sync the last operand is the mask of lanes that take part. */
static int member_mask(struct parser *p, struct insn *in, unsigned count)
{
	unsigned with_mask = ptx_has(in, "sync") ? 1 : 0;
	int r = ptx_nops(p, in, count + with_mask, count + with_mask);

	if (r == 0 && with_mask) {
		r = ptx_src(p, in, &in->out.e, &in->ops[count], RBT_PTX_B32);
	}
	return r;
}

/* The predicate of d|p. */
static int pair_dst(struct parser *p, struct insn *in)
{
	const struct operand *o = &in->ops[0];

	if (o->kind == OPD_VECTOR || o->count == 0) {
		return 0;
	}
	return ptx_pred_dst(p, in, &in->out.d[1], &p->elements[o->first]);
}

static int decode_shfl(struct parser *p, struct insn *in)
{
	static const char *const words[] = {"up", "down", "bfly", "idx", NULL};
	int which = ptx_one_of(in, words);
	int r = member_mask(p, in, 4);

	if (r < 0) {
		return r;
	}
	if (which < 0 || in->ntypes != 1 || rbt_ptx_type_bits(in->types[0]) != 32) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_SHFL;
	in->out.mod = (uint8_t)which;
	in->out.type = RBT_PTX_B32;
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
	r = r < 0 ? r : pair_dst(p, in);
	r = r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
	r = r < 0 ? r : ptx_src(p, in, &in->out.b, &in->ops[2], RBT_PTX_B32);
	return r < 0 ? r : ptx_src(p, in, &in->out.c, &in->ops[3], RBT_PTX_B32);
}

static int decode_vote(struct parser *p, struct insn *in)
{
	static const char *const words[] = {"all", "any", "uni", "ballot", NULL};
	int which = ptx_one_of(in, words);
	int r = member_mask(p, in, 2);

	if (r < 0) {
		return r;
	}
	if (which < 0) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_VOTE;
	in->out.mod = (uint8_t)which;
	r = which == RBT_PTX_VOTE_BALLOT ? ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32)
					 : ptx_pred_dst(p, in, &in->out.d[0], &in->ops[0]);
	return r < 0 ? r : ptx_pred(p, in, &in->out.c, &in->ops[1], RBT_PTX_NEG_C);
}

static int decode_match(struct parser *p, struct insn *in)
{
	bool all = ptx_has(in, "all");
	unsigned bits = rbt_ptx_type_bits(in->types[0]);
	int r = member_mask(p, in, 2);

	if (r < 0) {
		return r;
	}
	if ((!all && !ptx_has(in, "any")) || in->ntypes != 1 || (bits != 32 && bits != 64)) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_MATCH;
	in->out.mod = all;
	in->out.type = in->types[0];
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
	r = r < 0 ? r : pair_dst(p, in);
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
}

static int decode_redux(struct parser *p, struct insn *in)
{
	static const char *const words[] = {"add", "min", "max", "and", "or", "xor", NULL};
	int which = ptx_one_of(in, words);
	int r = member_mask(p, in, 2);

	if (r < 0) {
		return r;
	}
	if (which < 0 || in->ntypes != 1 || rbt_ptx_type_bits(in->types[0]) != 32 ||
		ptx_is_float(in->types[0])) {
		return ptx_no_form(p, in);
	}
	in->out.op = RBT_PTX_REDUX;
	in->out.mod = (uint8_t)which;
	in->out.type = in->types[0];
	r = ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[1], in->types[0]);
}

static int decode_activemask(struct parser *p, struct insn *in)
{
	int r = ptx_nops(p, in, 1, 1);

	in->out.op = RBT_PTX_ACTIVEMASK;
	return r < 0 ? r : ptx_dst(p, in, &in->out.d[0], &in->ops[0], 32);
}

static int decode_nanosleep(struct parser *p, struct insn *in)
{
	int r = ptx_nops(p, in, 1, 1);

	in->out.op = RBT_PTX_NANOSLEEP;
	return r < 0 ? r : ptx_src(p, in, &in->out.a, &in->ops[0], RBT_PTX_B32);
}

const struct decoder ptx_sync_decoders[] = {
	{"bar", decode_bar},
	{"barrier", decode_bar},
	{"membar", decode_membar},
	{"fence", decode_membar},
	{"shfl", decode_shfl},
	{"vote", decode_vote},
	{"match", decode_match},
	{"redux", decode_redux},
	{"activemask", decode_activemask},
	{"nanosleep", decode_nanosleep},
	{NULL, NULL},
};
