/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation on every type of map with entries, with all results in the outputs. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

struct key {
	__u64 task;
	__u32 gpu;
	__u32 zero;
};

struct value {
	__u64 n;
	__u32 small;
	__u8 bytes[20];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct value);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 3);
	__type(key, struct key);
	__type(value, struct value);
} hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} lru SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__uint(key_size, 3);
	__uint(value_size, 5);
} odd SEC(".maps");

/* The operation is in `channel_id`, its flags in `token`; its result goes to `timeslice`. */
GPU_SCHED_HOOK(work_submit, ctx)
{
	struct key key = {.task = ctx->task, .gpu = ctx->gpu};
	struct value value = {.n = ctx->count, .small = ctx->pid, .bytes = {1, 2, 3}};
	__u32 index = ctx->gpu, word = ctx->pid;
	struct value *found = 0;
	__u32 *found_word;
	long r = 0;

	switch (ctx->channel_id) {
	case 0:
		r = bpf_map_update_elem(&array, &index, &value, ctx->token);
		break;
	case 1:
		found = bpf_map_lookup_elem(&array, &index);
		break;
	case 2:
		r = bpf_map_delete_elem(&array, &index);
		break;
	case 3:
		r = bpf_map_update_elem(&hash, &key, &value, ctx->token);
		break;
	case 4:
		found = bpf_map_lookup_elem(&hash, &key);
		break;
	case 5:
		r = bpf_map_delete_elem(&hash, &key);
		break;
	case 6:
		r = bpf_map_update_elem(&lru, &ctx->task, &word, ctx->token);
		break;
	case 7:
		found_word = bpf_map_lookup_elem(&lru, &ctx->task);
		r = found_word ? *found_word : -1;
		break;
	case 8:
		r = bpf_map_delete_elem(&lru, &ctx->task);
		break;
	case 9: /* an update replaces the value; the old one is still there */
		found = bpf_map_lookup_elem(&hash, &key);
		if (found) {
			r = bpf_map_update_elem(&hash, &key, &value, BPF_ANY);
			ctx->weight = (__u32)found->n;
		}
		break;
	case 10:
		r = bpf_map_update_elem(&odd, &ctx->task, &value, ctx->token);
		break;
	}
	ctx->timeslice = (__u64)r;
	ctx->interleave_level = found != 0;
	if (found) {
		found->n += 1;
		found->bytes[19] ^= 0x5a;
		ctx->priority = (__u32)found->n + found->small + found->bytes[1];
	}
}

char LICENSE[] SEC("license") = "GPL";
