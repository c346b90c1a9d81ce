/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that the lanes of a warp compute together. The lanes may come in several groups, each
 * with its own registers. So the inputs are collected first, and the results are written last.
 */
#include "softgpu/exec/impl.h"

struct meeting {
	uint32_t lanes;
	uint32_t members[EXEC_LANES];
	uint64_t value[EXEC_LANES];
	uint32_t holds;                               /* VOTE: the predicate */
	uint32_t lane[EXEC_LANES], clamp[EXEC_LANES]; /* SHFL */
	uint64_t result[EXEC_LANES];
	uint32_t truth; /* the result that is a predicate */
};

static void collect(struct meeting *m, const struct exec_warp *w, const struct exec_group *g)
{
	const struct exec_frame *frame = w->frames[g->frame];
	const struct rbt_ptx_inst *i = &frame->fn->insts[g->pc];
	bool wide = i->op == RBT_PTX_MATCH &&
		    (i->type == RBT_PTX_B64 || i->type == RBT_PTX_U64 || i->type == RBT_PTX_S64);

	m->lanes |= g->mask;
	for (uint32_t left = g->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		m->members[l] = i->e == RBT_PTX_NO_SLOT ? g->mask : frame->r32[i->e][l];
		if (i->op == RBT_PTX_VOTE) {
			uint32_t holds =
				frame->pred[i->c] ^ (i->flags & RBT_PTX_NEG_C ? EXEC_ALL : 0);
			m->holds |= holds & 1u << l;
			continue;
		}
		m->value[l] = wide ? frame->r64[i->a][l] : frame->r32[i->a][l];
		if (i->op == RBT_PTX_SHFL) {
			m->lane[l] = frame->r32[i->b][l];
			m->clamp[l] = frame->r32[i->c][l];
		}
	}
}

/* The segment and the bound are in the third operand, as in the PTX manual. */
static void shuffle(struct meeting *m, unsigned mode)
{
	for (uint32_t left = m->lanes; left; left &= left - 1) {
		uint32_t l = (uint32_t)__builtin_ctz(left);
		uint32_t b = m->lane[l] & 31, clamp = m->clamp[l] & 31,
			 segment = m->clamp[l] >> 8 & 31;
		uint32_t low = l & segment, high = low | (clamp & ~segment), from;
		bool in_range;

		switch (mode) {
		case RBT_PTX_SHFL_UP:
			from = l - b;
			in_range = (int32_t)from >= (int32_t)high;
			break;
		case RBT_PTX_SHFL_DOWN:
			from = l + b;
			in_range = from <= high;
			break;
		case RBT_PTX_SHFL_BFLY:
			from = l ^ b;
			in_range = from <= high;
			break;
		default:
			from = low | (b & ~segment);
			in_range = from <= high;
		}
		from = in_range ? from : l;
		/* A lane that is missing provides no value: the result is undefined, here 0. */
		m->result[l] = m->lanes >> from & 1 ? m->value[from] : 0;
		m->truth |= (uint32_t)in_range << l;
	}
}

/* The lanes that came with the same member mask as lane l. */
static uint32_t partners(const struct meeting *m, uint32_t l)
{
	uint32_t same = 0;

	for (uint32_t left = m->lanes; left; left &= left - 1) {
		uint32_t k = (uint32_t)__builtin_ctz(left);
		same |= (uint32_t)(m->members[k] == m->members[l]) << k;
	}
	return same;
}

static void vote(struct meeting *m, unsigned mode, uint32_t l, uint32_t with)
{
	uint32_t holds = m->holds & with;
	bool all = holds == with, any = holds != 0;
	bool truth = mode == RBT_PTX_VOTE_ALL ? all : mode == RBT_PTX_VOTE_ANY ? any : all || !any;

	m->result[l] = holds;
	m->truth |= (uint32_t)truth << l;
}

static void match(struct meeting *m, bool all, uint32_t l, uint32_t with)
{
	uint32_t same = 0;

	for (uint32_t left = with; left; left &= left - 1) {
		uint32_t k = (uint32_t)__builtin_ctz(left);
		same |= (uint32_t)(m->value[k] == m->value[l]) << k;
	}
	m->truth |= (uint32_t)(same == with) << l;
	m->result[l] = !all ? same : same == with ? with : 0;
}

static uint32_t reduce_two(unsigned how, bool is_signed, uint32_t a, uint32_t b)
{
	bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	switch (how) {
	case RBT_PTX_RMW_ADD:
		return a + b;
	case RBT_PTX_RMW_MIN:
		return less ? a : b;
	case RBT_PTX_RMW_MAX:
		return less ? b : a;
	case RBT_PTX_RMW_AND:
		return a & b;
	case RBT_PTX_RMW_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

static void reduce(struct meeting *m, const struct rbt_ptx_inst *i, uint32_t l, uint32_t with)
{
	uint32_t first = (uint32_t)__builtin_ctz(with), r = (uint32_t)m->value[first];

	for (uint32_t left = with & (with - 1); left; left &= left - 1) {
		r = reduce_two(
			i->mod, i->type == RBT_PTX_S32, r, (uint32_t)m->value[__builtin_ctz(left)]);
	}
	m->result[l] = r;
}

static void compute(struct meeting *m, const struct rbt_ptx_inst *i)
{
	if (i->op == RBT_PTX_SHFL) {
		shuffle(m, i->mod);
		return;
	}
	for (uint32_t left = m->lanes; left; left &= left - 1) {
		uint32_t l = (uint32_t)__builtin_ctz(left), with = partners(m, l);

		if (i->op == RBT_PTX_VOTE) {
			vote(m, i->mod, l, with);
		} else if (i->op == RBT_PTX_MATCH) {
			match(m, i->mod, l, with);
		} else if (i->op == RBT_PTX_REDUX) {
			reduce(m, i, l, with);
		}
	}
}

static void hand_out(const struct meeting *m, const struct exec_warp *w, const struct exec_group *g)
{
	struct exec_frame *frame = w->frames[g->frame];
	const struct rbt_ptx_inst *i = &frame->fn->insts[g->pc];
	uint16_t truth_slot = i->d[1];

	if (i->op == RBT_PTX_VOTE && i->mod != RBT_PTX_VOTE_BALLOT) {
		truth_slot = i->d[0];
	} else if (i->d[0] != RBT_PTX_NO_SLOT) {
		for (uint32_t left = g->mask; left; left &= left - 1) {
			unsigned l = (unsigned)__builtin_ctz(left);
			frame->r32[i->d[0]][l] = (uint32_t)m->result[l];
		}
	}
	if (truth_slot != RBT_PTX_NO_SLOT) {
		frame->pred[truth_slot] =
			(frame->pred[truth_slot] & ~g->mask) | (m->truth & g->mask);
	}
}

void exec_collective(struct exec_warp *w, const uint32_t *groups, uint32_t ngroups)
{
	const struct exec_group *first = &w->groups[groups[0]];
	const struct rbt_ptx_inst *i = &w->frames[first->frame]->fn->insts[first->pc];
	struct meeting m;

	if (i->op == RBT_PTX_BAR_WARP_SYNC) {
		return;
	}
	m.lanes = m.holds = m.truth = 0;
	for (uint32_t k = 0; k < ngroups; k++) {
		collect(&m, w, &w->groups[groups[k]]);
	}
	compute(&m, i);
	for (uint32_t k = 0; k < ngroups; k++) {
		hand_out(&m, w, &w->groups[groups[k]]);
	}
}
