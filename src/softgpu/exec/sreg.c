/* SPDX-License-Identifier: Apache-2.0 */
/* Special registers. */
#include "softgpu/exec/impl.h"

void exec_thread_index(const struct rbt_exec_block *block, uint32_t thread, uint32_t ret_index[3])
{
	const uint32_t *size = block->launch->block;

	ret_index[0] = thread % size[0];
	ret_index[1] = thread / size[0] % size[1];
	ret_index[2] = thread / size[0] / size[1];
}

/* Cycles are warp instructions of the SM; the time that a block was off its SM does not count. */
static uint64_t clock_of(const struct rbt_exec_block *block)
{
	return block->sm->cycles + block->clock_offset;
}

static uint64_t timer_of(const struct rbt_exec_block *block)
{
	return block->sm->cycles + block->sm->timer_offset_ns;
}

static uint64_t lane_value(const struct exec_warp *w, unsigned which, uint32_t lane)
{
	uint32_t bit = 1u << lane;

	switch (which) {
	case RBT_PTX_SREG_LANEID:
		return lane;
	case RBT_PTX_SREG_LANEMASK_EQ:
		return bit;
	case RBT_PTX_SREG_LANEMASK_LT:
		return bit - 1;
	case RBT_PTX_SREG_LANEMASK_LE:
		return bit | (bit - 1);
	case RBT_PTX_SREG_LANEMASK_GT:
		return ~(bit | (bit - 1));
	default:
		return ~(bit - 1);
	}
}

static uint64_t warp_value(const struct exec_warp *w, unsigned which)
{
	const struct rbt_exec_block *block = w->block;

	switch (which) {
	case RBT_PTX_SREG_WARPID:
		return w->index;
	case RBT_PTX_SREG_NWARPID:
		return EXEC_MAX_WARPS;
	case RBT_PTX_SREG_SMID:
		return block->sm->id;
	case RBT_PTX_SREG_NSMID:
		return block->sm->count;
	case RBT_PTX_SREG_CLOCK:
	case RBT_PTX_SREG_CLOCK64:
		return clock_of(block);
	case RBT_PTX_SREG_CLOCK_HI:
		return clock_of(block) >> 32;
	case RBT_PTX_SREG_GLOBALTIMER:
	case RBT_PTX_SREG_GLOBALTIMER_LO:
		return timer_of(block);
	case RBT_PTX_SREG_GLOBALTIMER_HI:
		return timer_of(block) >> 32;
	case RBT_PTX_SREG_DYNAMIC_SMEM_SIZE:
		return block->launch->dynamic_shared;
	case RBT_PTX_SREG_TOTAL_SMEM_SIZE:
		return block->shared_size;
	case RBT_PTX_SREG_GRIDID:
		return block->launch->grid_id;
	default:
		return 0;
	}
}

static uint64_t value_of(const struct exec_warp *w, unsigned which, uint32_t lane)
{
	const struct rbt_exec_block *block = w->block;
	uint32_t index[3];

	if (which <= RBT_PTX_SREG_TID_Z) {
		exec_thread_index(block, w->index * EXEC_LANES + lane, index);
		return index[which - RBT_PTX_SREG_TID_X];
	}
	if (which <= RBT_PTX_SREG_NTID_Z) {
		return block->launch->block[which - RBT_PTX_SREG_NTID_X];
	}
	if (which <= RBT_PTX_SREG_CTAID_Z) {
		return block->index[which - RBT_PTX_SREG_CTAID_X];
	}
	if (which <= RBT_PTX_SREG_NCTAID_Z) {
		return block->launch->grid[which - RBT_PTX_SREG_NCTAID_X];
	}
	if (which == RBT_PTX_SREG_LANEID ||
		(which >= RBT_PTX_SREG_LANEMASK_EQ && which <= RBT_PTX_SREG_LANEMASK_GE)) {
		return lane_value(w, which, lane);
	}
	return warp_value(w, which);
}

int exec_sreg(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	bool by_lane = i->a <= RBT_PTX_SREG_TID_Z || i->a == RBT_PTX_SREG_LANEID ||
		       (i->a >= RBT_PTX_SREG_LANEMASK_EQ && i->a <= RBT_PTX_SREG_LANEMASK_GE);
	uint64_t value = 0;
	bool known = false;

	for (uint32_t l = 0; l < EXEC_LANES; l++) {
		if (!(mask >> l & 1)) {
			continue;
		}
		if (by_lane || !known) {
			value = value_of(w, i->a, l);
			known = true;
		}
		if (i->op == RBT_PTX_SREG_B64) {
			w->r64[i->d[0]][l] = value;
		} else {
			w->r32[i->d[0]][l] = (uint32_t)value;
		}
	}
	return 0;
}
