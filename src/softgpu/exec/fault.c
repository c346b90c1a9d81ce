/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/exec/impl.h"

int exec_fault(struct exec_warp *w, const struct rbt_ptx_inst *i, enum rbt_exec_fault_kind kind,
	uint32_t lane, uint64_t address)
{
	struct rbt_exec_block *block = w->block;
	struct rbt_exec_fault *fault = &block->fault;

	fault->kind = kind;
	for (unsigned k = 0; k < 3; k++) {
		fault->block[k] = block->index[k];
	}
	exec_thread_index(block, w->index * EXEC_LANES + lane, fault->thread);
	fault->warp = w->index;
	fault->lane = lane;
	fault->address = address;
	fault->function = w->frame->fn->name;
	fault->pc = (uint32_t)(i - w->frame->fn->insts);
	fault->line = i->line;
	return EXEC_FAULTED;
}

const char *rbt_exec_fault_text(enum rbt_exec_fault_kind kind)
{
	static const char *const texts[] = {
		[RBT_EXEC_FAULT_NONE] = "no fault",
		[RBT_EXEC_FAULT_ILLEGAL_ADDRESS] = "an illegal memory access",
		[RBT_EXEC_FAULT_MISALIGNED_ADDRESS] = "a misaligned address",
		[RBT_EXEC_FAULT_TRAP] = "a trap",
		[RBT_EXEC_FAULT_ASSERT] = "a failed assertion",
		[RBT_EXEC_FAULT_STACK_OVERFLOW] = "a stack overflow",
		[RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION] = "an illegal instruction",
		[RBT_EXEC_FAULT_NO_MEMORY] = "no memory left on the host",
	};

	return kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "an unknown fault";
}
