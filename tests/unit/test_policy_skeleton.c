/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy's object with a skeleton of `bpftool gen skeleton`, as in docs/policies.md: a program
 * that has nothing of Rubato but policy_abi.h sets a tunable by name, fills a map and calls a hook.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "check.h"
#include "rubato/policy_abi.h"

/* Its functions are all static, and the object is one long string. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "lc_be.skel.h"
#pragma GCC diagnostic pop

/* Programs of this type write to the context that they were given. */
static int call(struct bpf_program *prog, struct bpf_gpu_task_ctx *ctx)
{
	struct bpf_test_run_opts opts = {
		.sz = sizeof(opts), .ctx_in = ctx, .ctx_size_in = sizeof(*ctx)};
	int r = bpf_prog_test_run_opts(bpf_program__fd(prog), &opts);

	return r < 0 ? r : (int)opts.retval;
}

int main(void)
{
	struct bpf_gpu_task_ctx ctx = {
		.valid = GPU_SCHED_HAS_COMM, .comm = "training", .priority = GPU_SCHED_KEEP};
	const char name[GPU_SCHED_COMM_SIZE] = "training";
	const __u32 best_effort = 2;
	struct lc_be *policy;

	CHECK(libbpf_register_prog_handler("gpu_sched+", BPF_PROG_TYPE_SYSCALL, 0, NULL) >= 0);
	policy = lc_be__open();
	CHECK(policy != NULL);
	if (policy == NULL) {
		return check_result();
	}
	CHECK_INT(policy->rodata->best_effort_us, 200);
	CHECK(strcmp(policy->rodata->gpu_sched_ops.name, "lc_be") == 0);
	policy->rodata->best_effort_us = 500;
	struct bpf_program *prog;
	bpf_object__for_each_program(prog, policy->obj)
	{
		bpf_program__set_flags(prog, BPF_F_SLEEPABLE);
	}
	int r = lc_be__load(policy);
	if (r == -EPERM || r == -EACCES) {
		printf("SKIP: bpf(2) is refused; the skeleton could be compiled and opened\n");
		lc_be__destroy(policy);
		return check_result() != 0 ? 1 : 77;
	}
	CHECK_INT(r, 0);
	CHECK_INT(call(policy->progs.task_init, &ctx), 0);
	CHECK_INT(ctx.priority, GPU_SCHED_KEEP);
	CHECK_INT(bpf_map__update_elem(policy->maps.task_type_map, name, sizeof(name), &best_effort,
			  sizeof(best_effort), BPF_ANY),
		0);
	CHECK_INT(call(policy->progs.task_init, &ctx), 0);
	CHECK_INT(ctx.priority, 2);
	CHECK_INT(ctx.timeslice, 500);
	lc_be__destroy(policy);
	return check_result();
}
