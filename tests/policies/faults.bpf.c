/* SPDX-License-Identifier: Apache-2.0 */
/* What only the vm accepts at load, and stops at run time. */
#define GPU_SCHED_NO_LOG
#include "rubato/policy.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32[3]);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

const volatile __u32 limit = 16;
__u32 state;

/* The fault to make is in `uid`. */
SEC("gpu_sched/task_init")
int task_init(struct bpf_gpu_task_ctx *ctx)
{
	__u32 key = 1;
	volatile __u32 *value = bpf_map_lookup_elem(&array, &key);

	ctx->priority = 99;
	switch (ctx->uid) {
	case 0:
		return 0;
	case 1: /* the next element of the array begins 4 bytes further on */
		return (int)value[3];
	case 2:
		value[-1] = 1;
		return 0;
	case 3:
		return (int)*(volatile __u32 *)0;
	case 4:
		*(volatile __u32 *)&limit = 5;
		return 0;
	case 5:
		for (;;) {
			state++;
		}
	case 6:
		return (int)bpf_map_delete_elem(&array, (void *)1);
	case 7:
		return ((volatile int *)ctx)[-1];
	case 8:
		return ((volatile int *)ctx)[1000];
	case 9:
		return ((volatile int *)ctx)[26];
	case 10: /* never submitted */
		return bpf_ringbuf_reserve(&ring, 8, 0) == 0;
	case 11:
		return bpf_map_update_elem(&ring, &key, &key, 0);
	case 12:
		bpf_ringbuf_submit((void *)value, 0);
		return 0;
	case 13:
		return bpf_map_lookup_elem((void *)(long)ctx->task, &key) != 0;
	case 14:
		return bpf_map_lookup_elem(&array, (void *)(long)ctx->task) != 0;
	case 15: /* any address at all */
		return (int)*(volatile __u8 *)(long)ctx->task;
	case 16:
		*(volatile __u64 *)(long)ctx->task = 0x41;
		return 0;
	default:
		return -7;
	}
}

char LICENSE[] SEC("license") = "GPL";
