/* SPDX-License-Identifier: Apache-2.0 */
/* Subprograms, loops and arithmetic. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

static __noinline __u64 mix(__u64 a, __u64 b)
{
	a ^= b << 13;
	a *= 0x9e3779b97f4a7c15ull;
	return a ^ (a >> 29);
}

static __noinline __u64 fold(const __u8 *bytes, __u32 n)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < n && i < GPU_SCHED_COMM_SIZE; i++) {
		sum = mix(sum, bytes[i]);
	}
	return sum;
}

__noinline __u64 divide(__u64 a, __u64 b)
{
	__s32 s = (__s32)a;
	__u64 r = a / (b | 1) + a % (b | 1);

	r += (__u64)(__s64)(s >> 3);
	if (s < -5) {
		r ^= 0xff00ff;
	}
	if ((__s64)a > (__s64)b) {
		r += 77;
	}
	return r + __builtin_bswap32((__u32)a) + __builtin_bswap16((__u16)b) + __builtin_bswap64(a);
}

GPU_SCHED_HOOK(task_init, ctx)
{
	__u64 sum = fold((const __u8 *)ctx->comm, GPU_SCHED_COMM_SIZE);

	for (int i = 0; i < 100; i++) {
		sum = mix(sum, (__u64)i + ctx->task);
	}
	ctx->timeslice = sum;
	ctx->priority = (__u32)divide(ctx->cgroup_id, ctx->uid);
	ctx->weight = (__u32)(divide(sum, ctx->task) >> 7);
}

char LICENSE[] SEC("license") = "GPL";
