/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main loop. The order of turns depends on the block's state alone, never on where a budget
 * ended: so a block that is stopped and restored anywhere takes the same path.
 */
#include "softgpu/exec/impl.h"

static uint32_t guard_mask(const uint32_t *pred, const struct rbt_ptx_inst *i)
{
	return pred[i->guard] ^ (i->flags & RBT_PTX_NEG_GUARD ? EXEC_ALL : 0);
}

static void active_mask(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i)
{
	for (unsigned l = 0; l < EXEC_LANES; l++) {
		if (g->mask >> l & 1) {
			w->r32[i->d[0]][l] = g->mask;
		}
	}
	g->pc++;
}

static int run_control(struct exec_warp *w, struct exec_group *g, const struct rbt_ptx_inst *i)
{
	switch (i->op) {
	case RBT_PTX_BAR_SYNC:
	case RBT_PTX_BAR_ARRIVE:
	case RBT_PTX_BAR_RED:
		return exec_barrier(w, g, i);
	case RBT_PTX_BAR_WARP_SYNC:
	case RBT_PTX_SHFL:
	case RBT_PTX_VOTE:
	case RBT_PTX_MATCH:
	case RBT_PTX_REDUX:
		exec_sync(w, g, i);
		return 0;
	case RBT_PTX_ACTIVEMASK:
		active_mask(w, g, i);
		return 0;
	case RBT_PTX_CALL:
	case RBT_PTX_CALL_IND:
		return exec_call(w, g, i);
	case RBT_PTX_RET:
		if (w->frame->parent != EXEC_NO_FRAME) {
			exec_ret(w, g);
			return 0;
		}
		exec_exit(w, g);
		return 0;
	case RBT_PTX_EXIT:
		exec_exit(w, g);
		return 0;
	case RBT_PTX_NANOSLEEP:
		/* A sleeping warp waits for another: let the others go first. */
		w->turn_left = 0;
		g->pc++;
		return 0;
	case RBT_PTX_NOP:
		g->pc++;
		return 0;
	default:
		return exec_fault(w, i, RBT_EXEC_FAULT_TRAP, (uint32_t)__builtin_ctz(g->mask), 0);
	}
}

/* Runs instructions that may change where lanes are. A guard that selects only some lanes splits
 * the group. */
static int run_special(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	struct exec_group *g = &w->groups[w->current];

	w->choose = true;
	if (mask == 0) {
		g->pc++;
		return 0;
	}
	if (i->op == RBT_PTX_BRA) {
		if (mask != g->mask) {
			exec_group_split(w, g, g->mask & ~mask)->pc++;
		}
		g->pc = i->target;
		return 0;
	}
	if (mask != g->mask) {
		exec_group_split(w, g, g->mask & ~mask)->pc++;
	}
	return run_control(w, g, i);
}

/* Whether another ready group waits at this pc. */
static bool meets(const struct exec_warp *w, uint32_t pc)
{
	const struct exec_group *me = &w->groups[w->current];

	for (uint32_t k = 0; k < w->ngroups; k++) {
		const struct exec_group *g = &w->groups[k];

		if (g->pc == pc && g != me && g->frame == me->frame && g->state == EXEC_READY) {
			return true;
		}
	}
	return false;
}

/* Runs the current group until `end`, or until a group must be chosen again. */
static int run_group(struct exec_warp *w, struct rbt_exec_sm *sm, uint64_t end)
{
	struct exec_group *g = &w->groups[w->current];
	const struct rbt_ptx_inst *insts = w->frame->fn->insts;
	const exec_op *ops = sm->ops;
	const uint32_t active = g->mask, *pred = w->pred;
	bool alone = w->ngroups == 1;
	uint32_t pc = g->pc;

	while (sm->cycles < end) {
		const struct rbt_ptx_inst *i = &insts[pc];
		uint32_t mask = active & guard_mask(pred, i);

		sm->cycles++;
		if (i->op < RBT_PTX_BAR_SYNC) {
			if (mask && ops[i->op](w, i, mask)) {
				g->pc = pc;
				return EXEC_FAULTED;
			}
			pc++;
			if (!alone && meets(w, pc)) {
				w->choose = true;
				break;
			}
		} else if (i->op == RBT_PTX_BRA && alone && (mask == active || mask == 0)) {
			pc = mask ? i->target : pc + 1;
		} else {
			g->pc = pc;
			return run_special(w, i, mask);
		}
	}
	g->pc = pc;
	return 0;
}

/* Runs until `end`, until no group of the warp is ready, or until a fault. */
static int run_warp(struct exec_warp *w, struct rbt_exec_sm *sm, uint64_t end)
{
	while (sm->cycles < end) {
		bool several;
		uint64_t start = sm->cycles, stop = end;

		if (w->choose || (w->ngroups > 1 && w->turn_left == 0)) {
			if (!exec_group_choose(w)) {
				return 0;
			}
			exec_group_merge(w);
		}
		several = w->ngroups > 1;
		if (several && stop - start > w->turn_left) {
			stop = start + w->turn_left;
		}
		if (run_group(w, sm, stop)) {
			return EXEC_FAULTED;
		}
		if (several) {
			uint64_t used = sm->cycles - start;
			w->turn_left -= used < w->turn_left ? (uint32_t)used : w->turn_left;
		}
	}
	return 0;
}

static bool is_ready(const struct exec_warp *w)
{
	for (uint32_t k = 0; k < w->ngroups; k++) {
		if (w->groups[k].state == EXEC_READY) {
			return true;
		}
	}
	return false;
}

/* The next warp that can go on, after the current one; false: none can. */
static bool next_warp(struct rbt_exec_block *block)
{
	for (uint32_t k = 1; k <= block->nwarps; k++) {
		uint32_t next = (block->warp + k) % block->nwarps;

		if (is_ready(&block->warps[next])) {
			block->warp = next;
			block->quantum_left = EXEC_QUANTUM;
			return true;
		}
	}
	return false;
}

static enum rbt_exec_status run_block(struct rbt_exec_block *block, uint64_t end)
{
	struct rbt_exec_sm *sm = block->sm;

	while (block->live > 0) {
		uint64_t start = sm->cycles, stop;
		struct exec_warp *w = &block->warps[block->warp];

		if (start >= end) {
			return RBT_EXEC_BUDGET;
		}
		if (block->quantum_left == 0 || !is_ready(w)) {
			if (!next_warp(block)) {
				return RBT_EXEC_BLOCKED;
			}
			w = &block->warps[block->warp];
		}
		stop = end - start > block->quantum_left ? start + block->quantum_left : end;
		if (run_warp(w, sm, stop)) {
			return RBT_EXEC_FAULT;
		}
		block->quantum_left -= (uint32_t)(sm->cycles - start);
	}
	return RBT_EXEC_DONE;
}

enum rbt_exec_status rbt_exec_run(struct rbt_exec_block *block, uint64_t budget)
{
	struct rbt_exec_sm *sm = block->sm;
	uint64_t start = sm->cycles;
	enum rbt_exec_status status;

	if (block->fault.kind != RBT_EXEC_FAULT_NONE) {
		return RBT_EXEC_FAULT;
	}
	status = run_block(block, budget > UINT64_MAX - start ? UINT64_MAX : start + budget);
	block->instructions += sm->cycles - start;
	sm->counters.instructions += sm->cycles - start;
	return status;
}
