/* SPDX-License-Identifier: Apache-2.0 */
/* Gives all tasks one interleave level. It has no say in who runs. */
#include "rubato/policy.bpf.h"

const volatile __u32 level = GPU_SCHED_KEEP;

GPU_SCHED_HOOK(task_init, ctx)
{
	ctx->interleave_level = level;
}

GPU_SCHED_OPS_DEFINE(levels);
char LICENSE[] SEC("license") = "GPL";
