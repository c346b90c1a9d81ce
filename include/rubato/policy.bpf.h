/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For policies in eBPF. A policy is one C file:
 *
 *     #include <rubato/policy.bpf.h>
 *
 *     const volatile __u64 slice_us = 200;             // rubato policy load --set slice_us=500
 *
 *     GPU_SCHED_HOOK(task_init, ctx)
 *     {
 *             if (ctx->user_priority < 6)
 *                     ctx->timeslice = slice_us;
 *     }
 *
 *     GPU_SCHED_OPS_DEFINE(short_slices, .timeout_ms = 5000, .base = "turns");
 *     char LICENSE[] SEC("license") = "GPL";
 *
 * and is compiled by one command:
 *
 *     clang -O2 -g -target bpf -c short_slices.bpf.c -o short_slices.bpf.o
 *
 * The hooks are task_init, schedule, work_submit, task_destroy, init, exit and tick; a policy has
 * the ones it needs. Their contexts are in policy_abi.h. A policy may use maps of the types ARRAY,
 * HASH, LRU_HASH and RINGBUF, and these functions: bpf_map_lookup_elem, bpf_map_update_elem,
 * bpf_map_delete_elem, bpf_ktime_get_ns, bpf_ringbuf_output, bpf_ringbuf_reserve,
 * bpf_ringbuf_submit and bpf_ringbuf_discard.
 */
#ifndef RUBATO_POLICY_BPF_H
#define RUBATO_POLICY_BPF_H

/*
 * Types and constants of the kernel: from vmlinux.h if the policy has included that, from
 * <linux/bpf.h> if the compiler finds all of it, and otherwise from here. (Debian has asm/types.h
 * in a folder that clang does not search for this target.)
 */
#if defined(__VMLINUX_H__)
#elif __has_include(<asm/types.h>) && __has_include(<linux/bpf.h>)
#include <linux/bpf.h>
#else
typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };
#endif

#if __has_include(<bpf/bpf_helpers.h>)
#include <bpf/bpf_helpers.h>
#else
#define SEC(name)                                                                                  \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wignored-attributes\"")  \
		__attribute__((section(name), used)) _Pragma("GCC diagnostic pop")
#define __always_inline   inline __attribute__((always_inline))
#define __noinline        __attribute__((noinline))
#define __weak            __attribute__((weak))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(
	void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_ringbuf_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *)130;
static void *(*bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;
static void (*bpf_ringbuf_discard)(void *data, __u64 flags) = (void *)133;
#endif

#include "policy_abi.h"

/* Every object says which layout of the contexts it was compiled for. */
const __u32 gpu_sched_abi __attribute__((weak, used)) = GPU_SCHED_ABI;

/* GPU_SCHED_OPS_DEFINE(name, .timeout_ms = …, .base = "…"): the policy's name and what else Rubato
 * should know about it. Optional, at most once. */
#define GPU_SCHED_OPS_DEFINE(name_, ...)                                                           \
	const struct gpu_sched_ops gpu_sched_ops                                                   \
		__attribute__((used)) = {.name = #name_, ##__VA_ARGS__}

#define GPU_SCHED_CTX_task_init    struct bpf_gpu_task_ctx
#define GPU_SCHED_CTX_schedule     struct bpf_gpu_schedule_ctx
#define GPU_SCHED_CTX_work_submit  struct bpf_gpu_work_ctx
#define GPU_SCHED_CTX_task_destroy struct bpf_gpu_task_destroy_ctx
#define GPU_SCHED_CTX_init         struct bpf_gpu_policy_ctx
#define GPU_SCHED_CTX_exit         struct bpf_gpu_policy_ctx
#define GPU_SCHED_CTX_tick         struct bpf_gpu_policy_ctx

/* The hooks' functions. The compiler has its own idea of a function called exit. */
#define GPU_SCHED_NAME_task_init    task_init
#define GPU_SCHED_NAME_schedule     schedule
#define GPU_SCHED_NAME_work_submit  work_submit
#define GPU_SCHED_NAME_task_destroy task_destroy
#define GPU_SCHED_NAME_init         init
#define GPU_SCHED_NAME_exit         exit_
#define GPU_SCHED_NAME_tick         tick

#define GPU_SCHED_COPY_OUTPUTS(to, from)                                                           \
	do {                                                                                       \
		(to)->timeslice = (from)->timeslice;                                               \
		(to)->interleave_level = (from)->interleave_level;                                 \
		(to)->priority = (from)->priority;                                                 \
		(to)->weight = (from)->weight;                                                     \
	} while (0)
#define GPU_SCHED_OUT_task_init(to, from) GPU_SCHED_COPY_OUTPUTS(to, from)
#define GPU_SCHED_OUT_schedule(to, from)                                                           \
	do {                                                                                       \
		(to)->allow_schedule = (from)->allow_schedule;                                     \
		GPU_SCHED_COPY_OUTPUTS(to, from);                                                  \
	} while (0)
#define GPU_SCHED_OUT_work_submit(to, from)  GPU_SCHED_COPY_OUTPUTS(to, from)
#define GPU_SCHED_OUT_task_destroy(to, from) ((void)0)
#define GPU_SCHED_OUT_init(to, from)         ((void)0)
#define GPU_SCHED_OUT_exit(to, from)         ((void)0)
#define GPU_SCHED_OUT_tick(to, from)         ((void)0)

/*
 * GPU_SCHED_HOOK(hook, ctx) { … }: defines a hook. `ctx` points to a copy of the context on the
 * stack, because the kernel's verifier refuses pointers into the context itself as keys of maps.
 * The outputs are copied back. The body returns nothing; a hook that should report a failure is
 * written as SEC("gpu_sched/HOOK") int f(GPU_SCHED_CTX_HOOK *ctx).
 */
#define GPU_SCHED_HOOK(hook, ctx_)                                                                 \
	static __always_inline void gpu_sched_body_##hook(GPU_SCHED_CTX_##hook *ctx_);             \
	SEC("gpu_sched/" #hook) int GPU_SCHED_NAME_##hook(GPU_SCHED_CTX_##hook *gpu_sched_ctx)     \
	{                                                                                          \
		GPU_SCHED_CTX_##hook gpu_sched_copy = *gpu_sched_ctx;                              \
                                                                                                   \
		gpu_sched_body_##hook(&gpu_sched_copy);                                            \
		GPU_SCHED_OUT_##hook(gpu_sched_ctx, &gpu_sched_copy);                              \
		return 0;                                                                          \
	}                                                                                          \
	static __always_inline void gpu_sched_body_##hook(GPU_SCHED_CTX_##hook *ctx_)

/*
 * gpu_sched_log("task %llu: %u launches", ctx->task, n): writes a line to the policy's log, which
 * `rubato policy log` prints. The format is a literal of at most 63 characters with up to four
 * integers: %d %i %u %x %c and %%, with or without l and ll. A full log loses the line. A policy
 * that never logs saves the memory of the ring with #define GPU_SCHED_NO_LOG.
 */
#ifndef GPU_SCHED_NO_LOG
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16384);
} gpu_sched_log_ring SEC(".maps");

#define GPU_SCHED_LOG_ARGS_(none, a0, a1, a2, a3, ...)                                             \
	{                                                                                          \
		(__u64)(a0), (__u64)(a1), (__u64)(a2), (__u64)(a3)                                 \
	}
#define gpu_sched_log(format_, ...)                                                                \
	do {                                                                                       \
		static const char gpu_sched_text[GPU_SCHED_LOG_TEXT] __attribute__((aligned(8))) = \
			format_;                                                                   \
		const __u64 gpu_sched_args[] = GPU_SCHED_LOG_ARGS_(0, ##__VA_ARGS__, 0, 0, 0, 0);  \
		struct gpu_sched_log_record *gpu_sched_record =                                    \
			bpf_ringbuf_reserve(&gpu_sched_log_ring, sizeof(*gpu_sched_record), 0);    \
                                                                                                   \
		_Static_assert(sizeof(format_) <= GPU_SCHED_LOG_TEXT, "the format is too long");   \
		if (gpu_sched_record) {                                                            \
			gpu_sched_record->timestamp = bpf_ktime_get_ns();                          \
			__builtin_memcpy(                                                          \
				gpu_sched_record->args, gpu_sched_args, sizeof(gpu_sched_args));   \
			__builtin_memcpy(                                                          \
				gpu_sched_record->format, gpu_sched_text, sizeof(gpu_sched_text)); \
			bpf_ringbuf_submit(gpu_sched_record, 0);                                   \
		}                                                                                  \
	} while (0)
#endif

#endif
