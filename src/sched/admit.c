/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: latency programs share by slice, so each further one on a GPU makes the others slower.
 * Programs beyond the limit are treated as normal. When a latency program leaves, they take its
 * place in the order they came.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/impl.h"

int rbt_admit_reserve(struct rbt_sched *s)
{
	if (s->n_progs + 1 > s->latency_capacity) {
		uint32_t capacity = s->latency_capacity > 0 ? s->latency_capacity * 2 : 16;
		struct rbt_sched_prog **list =
			realloc(s->latency, capacity * sizeof(struct rbt_sched_prog *));
		if (list == NULL) {
			return -ENOMEM;
		}
		s->latency = list;
		s->latency_capacity = capacity;
	}
	return 0;
}

static uint32_t find(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint32_t i = 0;

	while (i < s->n_latency && s->latency[i] != p) {
		i++;
	}
	return i;
}

void rbt_admit_forget(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	uint32_t i = find(s, p);

	if (i < s->n_latency) {
		s->n_latency--;
		memmove(&s->latency[i], &s->latency[i + 1],
			(s->n_latency - i) * sizeof(s->latency[0]));
	}
	p->is_admitted = true;
	p->is_sole = false;
}

void rbt_admit_join(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (rbt_class_of(p->params.priority) != RBT_CLASS_LATENCY) {
		rbt_admit_forget(s, p);
	} else if (find(s, p) == s->n_latency) {
		s->latency[s->n_latency++] = p;
	}
}

/* Finds latency programs that may have a long slice: two with long slices would wait for each
 * other. A suspended program does not count. */
static void find_sole(struct rbt_sched *s)
{
	uint32_t counts[RBT_MAX_GPUS] = {0};

	for (uint32_t i = 0; i < s->n_latency; i++) {
		const struct rbt_sched_prog *p = s->latency[i];
		bool counts_here = p->is_admitted && !p->params.suspended;

		for (uint32_t m = counts_here ? p->mask : 0; m != 0; m &= m - 1) {
			counts[rbt_first_bit(m)]++;
		}
	}
	for (uint32_t i = 0; i < s->n_latency; i++) {
		struct rbt_sched_prog *p = s->latency[i];
		bool is_sole = p->is_admitted && !p->params.suspended;

		for (uint32_t m = p->mask; m != 0; m &= m - 1) {
			is_sole &= counts[rbt_first_bit(m)] == 1;
		}
		if (is_sole != p->is_sole) {
			p->is_sole = is_sole;
			rbt_unit_mark(s, p->unit);
		}
	}
}

void rbt_admit(struct rbt_sched *s)
{
	uint32_t counts[RBT_MAX_GPUS] = {0};
	uint32_t limit = s->config.max_latency;

	for (uint32_t i = 0; i < s->n_latency; i++) {
		struct rbt_sched_prog *p = s->latency[i];
		bool fits = true;

		for (uint32_t m = p->mask; m != 0; m &= m - 1) {
			fits &= limit == 0 || counts[rbt_first_bit(m)] < limit;
		}
		for (uint32_t m = fits ? p->mask : 0; m != 0; m &= m - 1) {
			counts[rbt_first_bit(m)]++;
		}
		if (fits != p->is_admitted) {
			rbt_unit_leave(s, p->unit);
			p->is_admitted = fits;
			rbt_unit_enter(s, p->unit);
		}
	}
	find_sole(s);
}
