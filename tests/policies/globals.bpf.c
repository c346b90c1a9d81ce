/* SPDX-License-Identifier: Apache-2.0 */
/* Global data of all kinds, also static, in arrays and in sections of their own. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

enum by { LAUNCHES, BURSTS = 7, DUTY };

const volatile __u8 a_byte = 1;
const volatile __s64 a_long = -2;
const volatile enum by by = LAUNCHES;
const volatile _Bool is_strict;
static const volatile __u16 table[8] = {1, 1, 2, 3, 5, 8, 13, 21};
__u32 counts[16];
static __u64 total;
static __u32 first = 40, second = 2;
__u64 own SEC(".data.own") = 11;

GPU_SCHED_HOOK(task_init, ctx)
{
	__u32 i = ctx->gpu & 15;

	counts[i] += 1;
	total += counts[i] + own;
	own = total;
	ctx->timeslice = total;
	ctx->interleave_level = table[i & 7];
	ctx->priority = first + second++ + a_byte;
	ctx->weight = (__u32)(by + a_long + is_strict);
}

GPU_SCHED_OPS_DEFINE(globals);
char LICENSE[] SEC("license") = "GPL";
