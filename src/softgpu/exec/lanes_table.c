/* SPDX-License-Identifier: Apache-2.0 */
/* This level's table of operations, made once. */
#include <pthread.h>

#include "softgpu/exec/lanes.h"

static exec_op table[RBT_PTX_OP_COUNT];

static int illegal(struct exec_warp *w, const struct rbt_ptx_inst *i, uint32_t mask)
{
	return exec_fault(
		w, i, RBT_EXEC_FAULT_ILLEGAL_INSTRUCTION, (uint32_t)__builtin_ctz(mask), 0);
}

static void fill(void)
{
	for (unsigned op = 0; op < RBT_PTX_OP_COUNT; op++) {
		table[op] = illegal;
	}
	EXEC_AT_LEVEL(exec_fill_int)(table);
	EXEC_AT_LEVEL(exec_fill_bits)(table);
	EXEC_AT_LEVEL(exec_fill_float)(table);
	EXEC_AT_LEVEL(exec_fill_half)(table);
	EXEC_AT_LEVEL(exec_fill_compare)(table);
	EXEC_AT_LEVEL(exec_fill_move)(table);
	EXEC_AT_LEVEL(exec_fill_memory)(table);
	table[RBT_PTX_SREG_B32] = table[RBT_PTX_SREG_B64] = exec_sreg;
	table[RBT_PTX_ATOM] = exec_atom;
}

const exec_op *EXEC_AT_LEVEL(exec_ops)(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill);
	return table;
}
