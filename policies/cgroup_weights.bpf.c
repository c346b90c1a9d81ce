/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_weights: the share of turns by control group, so that a container or a systemd slice gets
 * its share however it starts its programs.
 *
 *     rubato policy load cgroup_weights.bpf.o --set default_weight=100
 *     rubato policy map set weights $(stat -c %i /sys/fs/cgroup/batch.slice/team-a.scope) 300
 *
 * The key is the number of the control group that the program itself is in, which is the inode of
 * its folder; a parent's entry does not count. A changed entry is used when the program next makes
 * a task or submits work. Each program has the weight: two programs of a group have it twice.
 */
#define GPU_SCHED_NO_LOG
#include <rubato/policy.bpf.h>

const volatile __u32 default_weight = 0; /* of groups without an entry; 0: as users say */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* control group */
	__type(value, __u32);
} weights SEC(".maps");

/* work_submit does not say which group a task is in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* task */
	__type(value, __u64);
} cgroups SEC(".maps");

static __always_inline __u32 weight_of(const __u64 *cgroup)
{
	const __u32 *weight = bpf_map_lookup_elem(&weights, cgroup);

	return weight && *weight ? *weight : default_weight ? default_weight : GPU_SCHED_KEEP;
}

GPU_SCHED_HOOK(task_init, ctx)
{
	if (ctx->valid & GPU_SCHED_HAS_CGROUP) {
		bpf_map_update_elem(&cgroups, &ctx->task, &ctx->cgroup_id, BPF_ANY);
		ctx->weight = weight_of(&ctx->cgroup_id);
	}
}

GPU_SCHED_HOOK(work_submit, ctx)
{
	const __u64 *cgroup = bpf_map_lookup_elem(&cgroups, &ctx->task);

	if (cgroup) {
		ctx->weight = weight_of(cgroup);
	}
}

GPU_SCHED_HOOK(task_destroy, ctx)
{
	bpf_map_delete_elem(&cgroups, &ctx->task);
}

GPU_SCHED_OPS_DEFINE(cgroup_weights, .base = "turns");
char LICENSE[] SEC("license") = "GPL";
