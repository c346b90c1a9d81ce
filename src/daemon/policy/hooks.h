/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the daemon's events and the contexts of hooks (rubato/policy_abi.h). A field that the
 * daemon does not know has no bit in `valid`.
 */
#ifndef RBT_DAEMON_POLICY_HOOKS_H
#define RBT_DAEMON_POLICY_HOOKS_H

#include <stdint.h>

#include "daemon/policy/facts.h"
#include "daemon/policy/safety.h"
#include "rubato/policy_abi.h"
#include "sched/event.h"

struct program;

/* In struct program. */
struct program_policy {
	struct refusal refusals[2]; /* [1]: of tasks that have never run */
	uint64_t output_ns;         /* when an output of `schedule` last changed something */
	struct policy_facts facts;
};

void hooks_fill_init(
	const struct rbt_event *event, const struct program *p, struct bpf_gpu_task_ctx *ret);
void hooks_fill_schedule(
	const struct rbt_event *event, const struct program *p, struct bpf_gpu_schedule_ctx *ret);
void hooks_fill_work(
	const struct rbt_event *event, const struct program *p, struct bpf_gpu_work_ctx *ret);
void hooks_fill_destroy(const struct rbt_event *event, const struct program *p,
	struct bpf_gpu_task_destroy_ctx *ret);

/* The outputs of a context; rbt_policy_output_take() limits them to what is allowed. */
#define HOOKS_OUTPUT(ctx)                                                                          \
	hooks_output((ctx)->timeslice, (ctx)->interleave_level, (ctx)->priority, (ctx)->weight)
struct rbt_policy_output hooks_output(
	uint64_t timeslice, uint32_t interleave, uint32_t priority, uint32_t weight);

#endif
