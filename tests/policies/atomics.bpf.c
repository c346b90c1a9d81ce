/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operations with and without their old values, in 32 and 64 bits; compiled for -mcpu=v3. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

__u64 wide = 100;
__u32 narrow = 0xfffffff0;

GPU_SCHED_HOOK(task_init, ctx)
{
	__u64 sum = 0;

	sum += __sync_fetch_and_add(&wide, ctx->task);
	sum = sum * 3 + __sync_fetch_and_or(&wide, 0x100);
	sum = sum * 3 + __sync_fetch_and_and(&wide, 0xffff);
	sum = sum * 3 + __sync_fetch_and_xor(&wide, 0x55);
	sum = sum * 3 + __sync_lock_test_and_set(&wide, ctx->cgroup_id);
	sum = sum * 3 + __sync_val_compare_and_swap(&wide, ctx->cgroup_id, 5);
	sum = sum * 3 + __sync_val_compare_and_swap(&wide, 1, 9);
	sum = sum * 3 + __sync_fetch_and_add(&narrow, 0x20);
	sum = sum * 3 + __sync_fetch_and_xor(&narrow, ctx->uid);
	sum = sum * 3 + __sync_val_compare_and_swap(&narrow, ctx->uid ^ 0x10, 3);
	sum = sum * 3 + __sync_lock_test_and_set(&narrow, ctx->pid);
	__sync_fetch_and_add(&narrow, 7);
	ctx->timeslice = sum;
	ctx->priority = narrow;
	ctx->weight = (__u32)wide;
	if ((__s32)ctx->pid < -3 || ctx->uid > ctx->gpu) {
		ctx->interleave_level = (__u32)((__s32)ctx->pid >> 2);
	}
}

char LICENSE[] SEC("license") = "GPL";
