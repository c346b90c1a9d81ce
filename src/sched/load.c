/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes on on a GPU: programs by class, and the share of the last second for which the GPU was
 * in use. The share is a sum over slots, of which the oldest is dropped as a whole. So it costs an
 * addition per event, and nothing while time passes.
 */
#include <string.h>

#include "sched/impl.h"

#define SLOT_NS (UINT64_C(1) << 27) /* 134 ms */

void rbt_load_add(struct rbt_sched_gpu *gpu, uint64_t from_ns, uint64_t to_ns)
{
	if (to_ns - from_ns > RBT_LOAD_SLOTS * SLOT_NS) {
		from_ns = to_ns - RBT_LOAD_SLOTS * SLOT_NS;
	}
	while (from_ns < to_ns) {
		uint64_t number = from_ns / SLOT_NS, rest_ns = SLOT_NS - from_ns % SLOT_NS;
		uint64_t ns = rest_ns < to_ns - from_ns ? rest_ns : to_ns - from_ns;
		struct rbt_load_slot *slot = &gpu->load[number % RBT_LOAD_SLOTS];

		slot->used_ns = (slot->number == number ? slot->used_ns : 0) + ns;
		slot->number = number;
		from_ns += ns;
	}
}

void rbt_load_count(struct rbt_sched *s, const struct rbt_sched_unit *u, bool begins)
{
	const struct rbt_sched_prog *p;

	LIST_FOREACH (p, &u->members, member) {
		enum rbt_class cls = rbt_class_of(rbt_prog_priority(p));

		for (uint32_t m = p->params.suspended ? 0 : p->mask; m != 0; m &= m - 1) {
			rbt_count(&rbt_first_gpu(s, m)->n_class[cls], 1, begins);
			s->recounted |= m & -m;
		}
	}
}

void rbt_sched_load(struct rbt_sched *s, uint32_t g, struct rbt_sched_load *ret)
{
	struct rbt_sched_gpu *gpu = &s->gpus[g];
	uint64_t now = s->now_ns / SLOT_NS, used_ns = 0;
	/* The newest slot is not over yet. */
	uint64_t passed_ns = (RBT_LOAD_SLOTS - 1) * SLOT_NS + s->now_ns % SLOT_NS;

	rbt_gpu_settle(s, gpu);
	for (unsigned i = 0; i < RBT_LOAD_SLOTS; i++) {
		const struct rbt_load_slot *slot = &gpu->load[i];
		used_ns += slot->number + RBT_LOAD_SLOTS > now ? slot->used_ns : 0;
	}
	memcpy(ret->n, gpu->n_class, sizeof(ret->n));
	ret->permille = (uint32_t)(used_ns / (passed_ns / 1000));
}
