/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the compiled level that the host's processor can run. */
#include <errno.h>

#include "softgpu/exec/impl.h"

const exec_op *exec_ops_base(void);
const exec_op *exec_ops_v3(void);

/* The table of a level, or NULL. */
static const exec_op *table_of(enum rbt_exec_level level)
{
	if (level == RBT_EXEC_LEVEL_BASE) {
		return exec_ops_base();
	}
#ifdef EXEC_HAVE_X86_LEVELS
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		__builtin_cpu_supports("bmi2")) {
		return exec_ops_v3();
	}
#endif
	return NULL;
}

const exec_op *exec_ops_best(void)
{
	const exec_op *ops = table_of(RBT_EXEC_LEVEL_V3);

	return ops != NULL ? ops : table_of(RBT_EXEC_LEVEL_BASE);
}

int rbt_exec_sm_set_level(struct rbt_exec_sm *sm, enum rbt_exec_level level)
{
	const exec_op *ops = table_of(level);

	if (!ops) {
		return -ENOTSUP;
	}
	sm->ops = ops;
	return 0;
}
