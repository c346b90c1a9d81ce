/* SPDX-License-Identifier: Apache-2.0 */
/* Its dry run fails. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

SEC("gpu_sched/tick")
int tick(struct bpf_gpu_policy_ctx *ctx)
{
	return 3;
}

GPU_SCHED_OPS_DEFINE(untried);
char LICENSE[] SEC("license") = "GPL";
