/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/hooks.h"

#include <string.h>

#include "daemon/program.h"

/* The driver's constructor sets it. */
#define DEFAULT_INTERLEAVE 1

static uint32_t valid_of(const struct rbt_event *event, const struct program *p)
{
	const uint32_t has = event->task.valid;

	return ((has & RBT_EVENT_HAS_RUNLIST) != 0 ? GPU_SCHED_HAS_RUNLIST : 0) |
	       ((has & RBT_EVENT_HAS_TSG) != 0 ? GPU_SCHED_HAS_TSG : 0) |
	       ((p->treat.said & RBT_TREAT_BIT(PRIORITY)) != 0 ? GPU_SCHED_HAS_USER_PRIORITY : 0);
}

/* The first fields of every context. The value of an unknown field is 0. */
#define FILL_TASK(ret, event, p)                                                                   \
	do {                                                                                       \
		(ret)->task = (event)->task.id;                                                    \
		(ret)->valid = valid_of(event, p);                                                 \
		(ret)->gpu = (event)->task.gpu;                                                    \
		(ret)->runlist_id =                                                                \
			((ret)->valid & GPU_SCHED_HAS_RUNLIST) != 0 ? (event)->task.runlist : 0;   \
		(ret)->tsg_id = ((ret)->valid & GPU_SCHED_HAS_TSG) != 0 ? (event)->task.tsg : 0;   \
		(ret)->pid = (uint32_t)(event)->pid;                                               \
		(ret)->user_priority = (event)->priority;                                          \
	} while (0)

#define FILL_KEEP(ret)                                                                             \
	do {                                                                                       \
		(ret)->timeslice = GPU_SCHED_KEEP;                                                 \
		(ret)->interleave_level = GPU_SCHED_KEEP;                                          \
		(ret)->priority = GPU_SCHED_KEEP;                                                  \
		(ret)->weight = GPU_SCHED_KEEP;                                                    \
	} while (0)

static uint32_t engine_type(enum rbt_event_engine engine)
{
	return engine == RBT_EVENT_COMPUTE ? GPU_SCHED_ENGINE_COMPUTE
	       : engine == RBT_EVENT_COPY  ? GPU_SCHED_ENGINE_COPY
					   : GPU_SCHED_ENGINE_OTHER;
}

void hooks_fill_init(
	const struct rbt_event *event, const struct program *p, struct bpf_gpu_task_ctx *ret)
{
	const struct policy_facts *f = &p->policy.facts;

	memset(ret, 0, sizeof(*ret));
	FILL_TASK(ret, event, p);
	FILL_KEEP(ret);
	ret->valid |= GPU_SCHED_HAS_ENGINE | GPU_SCHED_HAS_UID | f->valid;
	ret->engine_type = engine_type(event->task.engine);
	ret->uid = event->uid;
	ret->cgroup_id = f->cgroup_id;
	memcpy(ret->comm, f->comm, sizeof(ret->comm));
	if ((event->task.valid & RBT_EVENT_HAS_TIMESLICE) != 0) {
		ret->valid |= GPU_SCHED_HAS_DEFAULTS;
		ret->default_timeslice = event->task.timeslice_us;
		ret->default_interleave = DEFAULT_INTERLEAVE;
	}
}

void hooks_fill_schedule(
	const struct rbt_event *event, const struct program *p, struct bpf_gpu_schedule_ctx *ret)
{
	memset(ret, 0, sizeof(*ret));
	FILL_TASK(ret, event, p);
	FILL_KEEP(ret);
	ret->valid |= GPU_SCHED_HAS_LOAD;
	if (event->task.n_channels > 0) {
		ret->valid |= GPU_SCHED_HAS_CHANNELS;
		ret->channel_count = event->task.n_channels;
	}
	ret->load = event->load.permille;
	ret->n_latency = event->load.n[RBT_CLASS_LATENCY];
	ret->n_normal = event->load.n[RBT_CLASS_NORMAL];
	ret->n_best_effort = event->load.n[RBT_CLASS_BEST_EFFORT];
	ret->allow_schedule = 1;
}

void hooks_fill_work(
	const struct rbt_event *event, const struct program *p, struct bpf_gpu_work_ctx *ret)
{
	const struct rbt_event_work *w = &event->work;

	memset(ret, 0, sizeof(*ret));
	FILL_TASK(ret, event, p);
	FILL_KEEP(ret);
	/* Boards do not tell channels apart. */
	ret->valid |= GPU_SCHED_HAS_WORK;
	if (p->sched.params.is_known) {
		ret->valid |= GPU_SCHED_HAS_BUSY;
		ret->busy = w->busy_ns;
	}
	ret->timestamp = event->time_ns;
	ret->interval = w->interval_ns;
	ret->launches = w->n_launches;
	ret->graphs = w->n_graphs;
	ret->copies = w->n_copies;
	ret->memsets = w->n_memsets;
	ret->count = w->n_launches + w->n_graphs + w->n_copies + w->n_memsets;
	ret->syncs = w->n_syncs;
	ret->bursts = w->n_bursts;
}

void hooks_fill_destroy(const struct rbt_event *event, const struct program *p,
	struct bpf_gpu_task_destroy_ctx *ret)
{
	memset(ret, 0, sizeof(*ret));
	FILL_TASK(ret, event, p);
	ret->created = event->task.created_ns;
	if (p->sched.params.is_known) {
		ret->valid |= GPU_SCHED_HAS_RUNTIME;
		ret->total_runtime = event->used_ns;
	}
}

struct rbt_policy_output hooks_output(
	uint64_t timeslice, uint32_t interleave, uint32_t priority, uint32_t weight)
{
	static_assert(GPU_SCHED_KEEP == RBT_POLICY_KEEP, "both mean: change nothing");
	/* A longer one is limited later, and must not become KEEP by losing its upper half. */
	const uint64_t most = RBT_POLICY_KEEP - UINT64_C(1);
	const bool is_kept = timeslice == GPU_SCHED_KEEP;

	return (struct rbt_policy_output){
		.timeslice_us =
			is_kept ? RBT_POLICY_KEEP : (uint32_t)(timeslice < most ? timeslice : most),
		.interleave = interleave,
		.priority = priority,
		.weight = weight,
	};
}
