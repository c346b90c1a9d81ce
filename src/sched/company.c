/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The company of a latency program: the units that a reserve would keep off. Whether a reserve is
 * worth its cost is learnt per company (trial.h). A program that pauses for less than a second
 * still belongs to the company: otherwise each neighbour that synchronises or reads its data now
 * and then would make two companies.
 */
#include "sched/impl.h"

#define RECENT_NS UINT64_C(1000000000)
/* The longest time that a result is reused if no program has come, gone or changed: one may have
 * become busy. */
#define REUSE_NS UINT64_C(250000000)

/* Spreads a difference of a few bits over all bits (splitmix64). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static bool is_company(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, const struct rbt_sched_unit *u)
{
	bool is_there = (u->is_wanting && !u->is_probing) ||
			(u->wanted_ns != 0 && s->now_ns - u->wanted_ns < RECENT_NS);

	return is_there && u->level < p->unit->level && u->can_suspend && !u->is_blocked;
}

/* Calls fn for each unit of the company on a GPU; stops when it returns false. A unit on several
 * GPUs of the program is visited on each of them. */
static bool each(struct rbt_sched *s, const struct rbt_sched_prog *p,
	bool (*fn)(struct rbt_sched *s, const struct rbt_sched_unit *u, uint64_t *sum),
	uint64_t *sum)
{
	bool go_on = true;

	for (uint32_t m = p->mask; m != 0 && go_on; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		const struct rbt_sched_gpu *gpu = &s->gpus[g];

		for (uint32_t i = 0; i < gpu->n_free && go_on; i++) {
			go_on = !is_company(s, p, gpu->free[i]) || fn(s, gpu->free[i], sum);
		}
		for (uint32_t i = 0; i < gpu->ready.n && go_on; i++) {
			const struct rbt_sched_unit *u = RBT_OWNER_OF(
				gpu->ready.nodes[i] - g, struct rbt_sched_unit, ready[0]);
			go_on = !is_company(s, p, u) || fn(s, u, sum);
		}
		if (go_on && gpu->current != NULL && is_company(s, p, gpu->current)) {
			go_on = fn(s, gpu->current, sum);
		}
	}
	return go_on;
}

static bool add_identity(struct rbt_sched *s, const struct rbt_sched_unit *u, uint64_t *sum)
{
	*sum += mix(u->id * RBT_LEVELS + u->priority);
	return true;
}

static uint64_t identify(struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint64_t locks = (uint64_t)(s->locks.locked & p->mask) << 32 | (s->locks.marked & p->mask);
	uint64_t sum = 0;

	each(s, p, add_identity, &sum);
	if (sum == 0) {
		return 0;
	}
	sum += mix(s->n_configs << 8 | p->unit->priority << 1 | p->is_sole);
	sum += mix(mix(p->mask) + locks);
	return sum != 0 ? sum : 1;
}

uint64_t rbt_company_of(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (p->company_serial != s->serial || s->now_ns - p->company_ns >= REUSE_NS) {
		p->company = identify(s, p);
		p->company_serial = s->serial;
		p->company_ns = s->now_ns;
	}
	return p->company;
}

static bool add_progress(struct rbt_sched *s, const struct rbt_sched_unit *u, uint64_t *sum)
{
	const struct rbt_sched_prog *p;
	uint64_t n;

	LIST_FOREACH (p, &u->members, member) {
		if (!p->params.is_known || !s->ops.progress(s->ctx, p->owner, &n)) {
			return false;
		}
		*sum += n;
	}
	return true;
}

bool rbt_company_progress(struct rbt_sched *s, const struct rbt_sched_prog *p, uint64_t *ret)
{
	uint64_t sum = 0;

	if (s->ops.progress == NULL || !each(s, p, add_progress, &sum)) {
		return false;
	}
	*ret = sum;
	return true;
}

bool rbt_company_is_wanting(struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint32_t below = (UINT32_C(1) << p->unit->level) - 1;

	for (uint32_t m = p->mask; m != 0; m &= m - 1) {
		if ((rbt_first_gpu(s, m)->wanting_bits & below) != 0) {
			return true;
		}
	}
	return false;
}
