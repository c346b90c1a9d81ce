/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misuse of what ordinary policies use: records of rings in functions, keys in other places than
 * the stack, entries that are gone. The vm accepts all of it at load and stops it at run time.
 */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

struct name {
	char comm[GPU_SCHED_COMM_SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, struct name);
	__type(value, __u64);
} by_name SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16);
	__type(key, __u64);
	__type(value, __u64);
} lru SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

static const __u32 constant = 0;
__u64 kept;       /* an address, for the next call */
volatile __u64 n; /* not known to the compiler */

__noinline int leave_a_record(__u64 size)
{
	return bpf_ringbuf_reserve(&ring, 24, 0) == 0 && size == 0;
}

__noinline int count(__u64 i)
{
	while (n != i) {
		n++;
	}
	return 0;
}

static __always_inline int misuse_records(__u32 uid)
{
	__u64 *record;

	switch (uid) {
	case 1:
		leave_a_record(uid);
		return 0;
	case 2:
		record = bpf_ringbuf_reserve(&ring, 24, 0);
		bpf_ringbuf_submit(record, 0);
		bpf_ringbuf_submit(record, 0);
		return 0;
	case 3:
		record = bpf_ringbuf_reserve(&ring, 24, 0);
		bpf_ringbuf_submit(record, 0);
		*(volatile __u64 *)record = 5;
		return 0;
	case 4:
		record = bpf_ringbuf_reserve(&ring, 24, 0);
		bpf_ringbuf_discard(record, 0);
		bpf_ringbuf_submit(record, 0);
		return 0;
	case 5:
		record = bpf_ringbuf_reserve(&ring, 24, 0);
		((volatile __u64 *)record)[3] = 5;
		bpf_ringbuf_submit(record, 0);
		return 0;
	case 6:
		record = bpf_ringbuf_reserve(&ring, 24, 0);
		bpf_ringbuf_submit(record + 1, 0);
		return 0;
	case 7: /* the address of a record that another call has submitted */
		if (kept == 0) {
			record = bpf_ringbuf_reserve(&ring, 24, 0);
			kept = (__u64)record;
			bpf_ringbuf_submit(record, 0);
		}
		*(volatile __u64 *)kept = 5;
		return 0;
	}
	return 0;
}

/* The misuse is in `uid`. */
SEC("gpu_sched/task_init")
int task_init(struct bpf_gpu_task_ctx *ctx)
{
	__u64 key = ctx->task, value = 1, *found;

	switch (ctx->uid) {
	case 0:
		return 0;
	case 1 ... 7:
		return misuse_records(ctx->uid);
	case 8: /* a key that ends behind the end of .rodata */
		return bpf_map_lookup_elem(&by_name, (char *)&constant - 12 + 60000) != 0;
	case 9: /* a key behind the end of the stack */
		return bpf_map_lookup_elem(&by_name, (char *)&key + 512) != 0;
	case 10: /* a key that ends behind the end of an entry */
		bpf_map_update_elem(&lru, &key, &value, BPF_ANY);
		found = bpf_map_lookup_elem(&lru, &key);
		return bpf_map_lookup_elem(&by_name, found) != 0;
	case 11: /* a value that begins before .bss does */
		return bpf_map_update_elem(&lru, &key, (char *)&kept - 4096, BPF_ANY);
	case 12:
		return bpf_map_update_elem(&by_name, &by_name, &value, BPF_ANY);
	case 13:
		return bpf_ringbuf_output(&ring, &value, 0xffffffff, 0);
	case 14:
		return bpf_ringbuf_output(&ring, &value, 9000, 0);
	case 15: /* without end */
		return count(~0ull);
	case 16: /* as a map: an entry of one */
		bpf_map_update_elem(&lru, &key, &value, BPF_ANY);
		found = bpf_map_lookup_elem(&lru, &key);
		return bpf_map_lookup_elem(found, &key) != 0;
	case 17: /* the address of a map, as a number */
		return (int)*(volatile __u32 *)&by_name;
	case 18:
		*(volatile __u32 *)&constant = 1;
		return 0;
	default:
		return -1;
	}
}

/* What looks hostile, and is allowed. */
GPU_SCHED_HOOK(schedule, ctx)
{
	__u64 key = ctx->task, value = 1, *found;

	bpf_map_update_elem(&lru, &key, &value, BPF_ANY);
	found = bpf_map_lookup_elem(&lru, &key);
	if (!found) {
		return;
	}
	bpf_map_delete_elem(&lru, &key);
	*found = 77; /* nobody's entry any more */
	for (__u64 i = 0; i < 100; i++) {
		bpf_map_update_elem(&lru, &i, &i, BPF_ANY);
	}
	ctx->priority = bpf_ringbuf_reserve(&ring, 1ull << 30, 0) == 0;
}

char LICENSE[] SEC("license") = "GPL";
