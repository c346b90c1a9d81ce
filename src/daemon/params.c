/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/params.h"

#include "daemon/daemon.h"
#include "daemon/peers/allowed.h"
#include "daemon/peers/rights.h"
#include "daemon/program.h"
#include "sched/policy.h"

/* The places of a program's tasks on one GPU. */
struct places {
	uint64_t compute, copy; /* runlists, a bit each */
	uint64_t shared;        /* by several of its copy tasks */
	bool has_unknown; /* a compute task's runlist is unknown, or beyond what a set holds */
};

static void count_compute(
	const struct rbt_task *t, struct rbt_sched_tasks *tasks, struct places *places)
{
	uint64_t own_us =
		t->valid & RBT_TASK_HAS_OWN_TIMESLICE ? t->own_timeslice_us : RBT_TIMESLICE_OWN;

	if (tasks->n_compute == 0 || own_us < tasks->own_us) {
		tasks->own_us = own_us;
	}
	tasks->n_compute++;
	places->compute |= rbt_task_runlists(t);
	places->has_unknown = places->has_unknown || rbt_task_runlists(t) == 0;
}

/* A copy task keeps its slice if its runlist is unknown, or the slice to give back. */
static void count_copy(
	const struct rbt_task *t, struct rbt_sched_tasks *tasks, struct places *places)
{
	uint64_t runlists = rbt_task_runlists(t);

	if (runlists == 0 || (t->valid & RBT_TASK_HAS_OWN_TIMESLICE) == 0) {
		return;
	}
	if (places->copy == 0 || t->own_timeslice_us < tasks->copy_own_us) {
		tasks->copy_own_us = t->own_timeslice_us;
	}
	places->shared |= places->copy & runlists;
	places->copy |= runlists;
}

/* Counts the program's tasks over all its clients. Clients that may not be written to are left
 * out. */
static void count_tasks(struct daemon *d, struct program *p, struct rbt_sched_params *params)
{
	struct places places[RBT_MAX_GPUS] = {0};
	const struct rbt_backend *b;
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		struct rbt_holding *mine = h->mine;
		if (!holding_may(mine, RBT_CAP_TIMESLICE)) {
			continue;
		}
		b = rbt_backend_by_id(mine->rec.backend);
		for (uint32_t i = 0; i < mine->rec.n_tasks; i++) {
			const struct rbt_task *t = &mine->rec.tasks[i];
			int gpu = rbt_gpu_find(&d->gpu_table, mine->rec.backend, t->gpu);
			if (gpu < 0 || gate_is_shut(p, h->client, t->handle)) {
				continue;
			}
			if (t->kind == RBT_TASK_COPY) {
				count_copy(t, &params->tasks[gpu], &places[gpu]);
			} else if (t->kind == RBT_TASK_COMPUTE) {
				count_compute(t, &params->tasks[gpu], &places[gpu]);
				params->tasks[gpu].no_slices = b != NULL && !b->has_slices;
			}
		}
	}
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		const struct places *at = &places[gpu];

		params->tasks[gpu].compute_runlists = at->has_unknown ? 0 : at->compute;
		params->tasks[gpu].copy_runlists = at->copy & ~at->shared & ~at->compute;
	}
}

/* Fills in the core's part of a program's treatment. */
static void fill_treatment(
	const struct daemon *d, const struct program *p, struct rbt_sched_params *ret)
{
	const struct rbt_treatment *t = &p->treat;

	ret->priority = t->priority;
	ret->weight = t->weight;
	ret->group = p->group.id;
	ret->timeslice_us = t->timeslice_us;
	ret->limits = limits_in_force(d, p);
	ret->may_reserve = (p->rights.granted & RBT_TREAT_BIT(PRIORITY)) != 0;
}

void params_fill(struct daemon *d, struct program *p, uint64_t now_ns, struct rbt_sched_params *ret)
{
	uint64_t ignored;

	*ret = (struct rbt_sched_params){0};
	fill_treatment(d, p, ret);
	bool is_parked = park_find(d, p) != NULL;

	ret->suspended = p->suspend.is_ordered && !is_parked;
	ret->is_known = p->reader.board != NULL;
	/* A half suspended program would be worse than a running one. */
	ret->cannot_suspend = now_ns < p->sched.no_turns_until_ns || program_is_partial(p) ||
			      !program_may(p, RBT_CAP_SUSPEND);
	/* A parked program is not on the GPU, and one that leaves it must not be touched. */
	if (!program_is_in_setup(p, now_ns, &ignored) && !program_is_beyond(p) && !is_parked) {
		count_tasks(d, p, ret);
	}
	/* A slice longer than the driver's takes time from others, as a priority above normal
	 * does. */
	for (uint32_t gpu = 0; !ret->may_reserve && gpu < RBT_MAX_GPUS; gpu++) {
		if (ret->tasks[gpu].n_compute > 0 &&
			p->treat.timeslice_us > rbt_sched_fair_slice_us(&ret->tasks[gpu])) {
			ret->timeslice_us = RBT_TIMESLICE_OWN;
		}
	}
	/* A policy needs no rights of the program's: those who load it have them. */
	rbt_policy_output_apply(&p->sched.output, ret);
}

uint32_t params_interleave(const struct program *p)
{
	uint32_t level = p->sched.output.interleave;

	return level == RBT_POLICY_KEEP || program_is_beyond(p) ? RBT_INTERLEAVE_OWN : level;
}
