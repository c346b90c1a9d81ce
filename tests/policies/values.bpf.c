/* SPDX-License-Identifier: Apache-2.0 */
/* Types of all kinds in maps and variables, for the tools that print and parse them. */
#include "rubato/policy.bpf.h"

enum kind { IDLE, TRAINER = 3, SERVER = -2 };

struct point {
	__s32 x, y;
};

struct entry {
	__u64 n;
	__s16 small;
	_Bool is_on;
	__u8 bytes[3];
	enum kind kind;
	char comm[8];
	struct point at, path[2];
	__u32 low : 3, high : 7;
	__s32 middle : 5;
	union {
		__u32 word;
		__u16 half;
	};
	struct {
		__u32 inside;
	};
	void *pointer;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, struct point);
	__type(value, struct entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, enum kind);
} kinds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 6);
} untyped SEC(".maps");

const volatile __u32 limit = 7;
__u64 n_calls;
enum kind last = TRAINER;
struct point here = {1, -1};

GPU_SCHED_HOOK(task_init, ctx)
{
	struct point key = {.x = (__s32)ctx->gpu};
	struct entry entry = {.n = ctx->task, .kind = last};

	n_calls += limit;
	here.x += 1;
	bpf_map_update_elem(&entries, &key, &entry, BPF_ANY);
	gpu_sched_log("task %llu of %d", ctx->task, ctx->pid);
}

GPU_SCHED_OPS_DEFINE(values, .timeout_ms = 5000, .base = "turns");
char LICENSE[] SEC("license") = "GPL";
