/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/impl.h"

#define TURN_MS 100 /* by default */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value == 0 ? otherwise : value;
}

static uint32_t or_never(uint32_t value, uint32_t otherwise)
{
	return value == RBT_SCHED_NEVER ? 0 : or_default(value, otherwise);
}

static int config_fill(const struct rbt_sched_config *given, struct rbt_sched_config *ret)
{
	size_t n;
	struct rbt_sched_config c = {
		.policy = given->policy != NULL ? given->policy : rbt_sched_policies(&n),
		.turn_ms = or_default(given->turn_ms, TURN_MS),
		.idle_us = or_default(given->idle_us, 5000),
		.max_hold_us = or_never(given->max_hold_us, 1000),
		.max_reserve_ms = or_default(given->max_reserve_ms, 2000),
		.switch_cost_us = or_default(given->switch_cost_us, 1000),
		.latency_slice_us = or_never(given->latency_slice_us, 10000),
		.burst_us = or_default(given->burst_us, 2000),
		.min_share_permille = or_never(given->min_share_permille, 20),
		.share_window_ms = or_default(given->share_window_ms, 1000),
		.max_latency = or_never(given->max_latency, 8),
		.probe_ms = or_default(given->probe_ms, 1000),
		.always_reserve = given->always_reserve,
	};

	if (c.turn_ms < 60 || c.turn_ms > 100 || c.min_share_permille > RBT_SHARE_MAX_PERMILLE ||
		c.share_window_ms < 100 || c.share_window_ms > 60000 || c.idle_us > 1000000 ||
		c.max_hold_us > 30000 || c.latency_slice_us > 100000 ||
		c.max_reserve_ms > RBT_RESERVE_MAX_MS || c.switch_cost_us > 100000 ||
		c.burst_us > 1000000 || c.probe_ms < 10 || c.probe_ms > 3600000) {
		return -EINVAL;
	}
	*ret = c;
	return 0;
}

int rbt_sched_create(const struct rbt_sched_config *config, const struct rbt_sched_ops *ops,
	void *ctx, struct rbt_sched **ret)
{
	struct rbt_sched_config filled;
	int r = config_fill(config, &filled);

	if (r < 0) {
		return r;
	}
	struct rbt_sched *s = calloc(1, sizeof(*s));
	if (s == NULL) {
		return -ENOMEM;
	}
	s->config = filled;
	s->ctx = ctx;
	if (ops != NULL) {
		s->ops = *ops;
	}
	s->guard_timer.kind = RBT_TIMER_GUARD;
	LIST_INIT(&s->units);
	LIST_INIT(&s->dirty);
	LIST_INIT(&s->due);
	LIST_INIT(&s->changed);
	*ret = s;
	return 0;
}

static void unit_free(struct rbt_sched_unit *u)
{
	while (!LIST_EMPTY(&u->members)) {
		struct rbt_sched_prog *p = LIST_FIRST(&u->members);
		LIST_REMOVE(p, member);
		free(p->trials);
		free(p);
	}
	free(u);
}

void rbt_sched_destroy(struct rbt_sched *s)
{
	if (s == NULL) {
		return;
	}
	while (!LIST_EMPTY(&s->units)) {
		struct rbt_sched_unit *u = LIST_FIRST(&s->units);
		LIST_REMOVE(u, entries);
		unit_free(u);
	}
	for (uint32_t g = 0; g < RBT_MAX_GPUS; g++) {
		rbt_heap_finish(&s->gpus[g].ready);
		free(s->gpus[g].free);
	}
	rbt_heap_finish(&s->timers);
	free(s->latency);
	free(s);
}

static void begin(struct rbt_sched *s, uint64_t t_ns)
{
	s->now_ns = t_ns > s->now_ns ? t_ns : s->now_ns;
}

static void finish(struct rbt_sched *s)
{
	rbt_ask_run(s);
	rbt_turns_run(s);
	rbt_guard_arm(s);
	rbt_decide_flush(s);
}

int rbt_sched_configure(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_config *config)
{
	struct rbt_sched_config filled;
	struct rbt_sched_unit *u;
	struct rbt_sched_prog *p;
	int r = config_fill(config, &filled);

	if (r < 0) {
		return r;
	}
	begin(s, t_ns);
	LIST_FOREACH (u, &s->units, entries) {
		rbt_unit_leave(s, u);
		u->is_answered = false; /* by another policy */
	}
	s->config = filled;
	s->n_configs++;
	rbt_timer_set(s, &s->guard_timer, RBT_NEVER);
	LIST_FOREACH (u, &s->units, entries) {
		LIST_FOREACH (p, &u->members, member) {
			p->learn.stale = p->flight.stale = true;
		}
		rbt_unit_enter(s, u);
	}
	rbt_admit(s);
	finish(s);
	return 0;
}

uint64_t rbt_sched_fair_slice_us(const struct rbt_sched_tasks *tasks)
{
	return tasks->no_slices ? TURN_MS * UINT64_C(1000) : tasks->own_us;
}

struct rbt_limits rbt_sched_limits(const struct rbt_sched *s, const struct rbt_limits *own)
{
	uint32_t share = own->min_share_permille;

	return (struct rbt_limits){
		.max_reserve_ms = or_default(own->max_reserve_ms, s->config.max_reserve_ms),
		.min_share_permille = or_never(share, s->config.min_share_permille),
	};
}

void rbt_sched_set_gpus(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_gpus *gpus)
{
	struct rbt_sched_unit *u;

	begin(s, t_ns);
	if (memcmp(&s->locks, gpus, sizeof(s->locks)) != 0) {
		s->locks = *gpus;
		s->serial++;
		LIST_FOREACH (u, &s->units, entries) {
			rbt_unit_mark(s, u);
		}
	}
	finish(s);
}

uint32_t rbt_sched_locks_wanted(const struct rbt_sched *s)
{
	uint32_t wanted = 0;

	for (uint32_t g = 0; g < RBT_MAX_GPUS; g++) {
		wanted |= (uint32_t)(s->gpus[g].n_short > 0) << g;
	}
	return wanted;
}

static int params_check(const struct rbt_sched_params *params)
{
	bool is_wrong = params->priority > RBT_PRIORITY_MAX || params->weight > RBT_WEIGHT_MAX ||
			params->timeslice_us > RBT_TIMESLICE_MAX_US ||
			!rbt_limits_are_right(&params->limits);

	return is_wrong ? -EINVAL : 0;
}

static uint32_t mask_of(const struct rbt_sched_params *params)
{
	uint32_t mask = 0;

	for (uint32_t g = 0; g < RBT_MAX_GPUS; g++) {
		mask |= (uint32_t)(params->tasks[g].n_compute > 0) << g;
	}
	return mask;
}

static void prog_set_params(struct rbt_sched_prog *p, const struct rbt_sched_params *params)
{
	p->params = *params;
	p->params.weight = or_default(params->weight, 1);
	p->mask = mask_of(params);
	if (!params->is_known && p->requests == 0) {
		p->busy = false;
		p->waiting = false;
	}
}

static int reserve_free(struct rbt_sched_gpu *gpu, uint32_t n)
{
	uint32_t capacity = gpu->free_capacity > 0 ? gpu->free_capacity : 16;

	if (n <= gpu->free_capacity) {
		return 0;
	}
	while (capacity < n) {
		capacity *= 2;
	}
	struct rbt_sched_unit **list =
		realloc(gpu->free, capacity * sizeof(struct rbt_sched_unit *));
	if (list == NULL) {
		return -ENOMEM;
	}
	gpu->free = list;
	gpu->free_capacity = capacity;
	return 0;
}

/* Allocates everything that `n` programs may need: afterwards nothing can fail. */
static int make_room(struct rbt_sched *s, uint32_t n, uint32_t mask)
{
	int r = rbt_heap_reserve(&s->timers, 2 * n + 1);

	if (r == 0) {
		r = rbt_admit_reserve(s);
	}
	for (uint32_t m = mask; m != 0 && r == 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		r = rbt_heap_reserve(&gpu->ready, n);
		if (r == 0) {
			r = reserve_free(gpu, n);
		}
	}
	return r;
}

/* The unit of a group, or a new one. NULL: no memory. */
static struct rbt_sched_unit *unit_obtain(struct rbt_sched *s, uint64_t group)
{
	struct rbt_sched_unit *u;

	if (group != 0) {
		LIST_FOREACH (u, &s->units, entries) {
			if (u->group == group) {
				return u;
			}
		}
	}
	u = calloc(1, sizeof(*u));
	if (u != NULL) {
		u->group = group;
		u->id = ++s->last_id;
		u->timer.kind = RBT_TIMER_UNIT;
		LIST_INIT(&u->members);
		LIST_INSERT_HEAD(&s->units, u, entries);
	}
	return u;
}

/* A unit that has left enters again, or is freed if it has no members. */
static void unit_reenter(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (!LIST_EMPTY(&u->members)) {
		rbt_unit_enter(s, u);
		return;
	}
	if (u->is_dirty) {
		LIST_REMOVE(u, dirty);
	}
	LIST_REMOVE(u, entries);
	free(u);
}

int rbt_sched_add(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_params *params,
	void *owner, struct rbt_sched_prog **ret)
{
	struct rbt_sched_unit *u = NULL;
	int r = params_check(params);

	if (r == 0) {
		r = make_room(s, s->n_progs + 1, mask_of(params));
	}
	if (r < 0) {
		return r;
	}
	struct rbt_sched_prog *p = calloc(1, sizeof(*p));
	if (p != NULL) {
		u = unit_obtain(s, params->group);
	}
	if (u == NULL) {
		free(p);
		return -ENOMEM;
	}
	begin(s, t_ns);
	rbt_unit_leave(s, u);
	s->n_progs++;
	p->owner = owner;
	p->unit = u;
	p->is_admitted = true;
	p->check.kind = RBT_TIMER_PROG;
	prog_set_params(p, params);
	LIST_INSERT_HEAD(&u->members, p, member);
	rbt_unit_enter(s, u);
	rbt_admit_join(s, p);
	rbt_admit(s);
	finish(s);
	*ret = p;
	return 0;
}

int rbt_sched_change(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p,
	const struct rbt_sched_params *params)
{
	struct rbt_sched_unit *from = p->unit, *to = from;
	int r = params_check(params);

	if (r == 0) {
		r = make_room(s, s->n_progs, mask_of(params));
	}
	if (r < 0) {
		return r;
	}
	if (params->group != p->params.group) {
		to = unit_obtain(s, params->group);
		if (to == NULL) {
			return -ENOMEM;
		}
	}
	begin(s, t_ns);
	rbt_unit_leave(s, from);
	if (to != from) {
		rbt_unit_leave(s, to);
		LIST_REMOVE(p, member);
		LIST_INSERT_HEAD(&to->members, p, member);
		p->unit = to;
		unit_reenter(s, from);
	}
	prog_set_params(p, params);
	rbt_unit_enter(s, to);
	rbt_admit_join(s, p);
	rbt_admit(s);
	finish(s);
	return 0;
}

void rbt_sched_remove(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p)
{
	struct rbt_sched_unit *u = p->unit;

	begin(s, t_ns);
	rbt_unit_leave(s, u);
	rbt_timer_set(s, &p->check, RBT_NEVER);
	rbt_admit_forget(s, p);
	if (p->is_changed) {
		LIST_REMOVE(p, changed);
	}
	LIST_REMOVE(p, member);
	free(p->trials);
	free(p);
	s->n_progs--;
	unit_reenter(s, u);
	rbt_admit(s);
	finish(s);
}

void rbt_sched_busy(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p)
{
	begin(s, t_ns);
	if (!p->params.is_known) {
		return;
	}
	uint64_t gap_ns = s->now_ns - p->last_ns;
	if (p->was_seen && p->in_flight) {
		rbt_learn_gap(&p->flight, gap_ns, 1);
	} else if (p->was_seen && (!p->gaps_are_told || gap_ns <= rbt_us(s->config.max_hold_us))) {
		rbt_learn_gap(&p->learn, gap_ns, 1);
	}
	rbt_busy_begin(s, p);
	finish(s);
}

void rbt_sched_synced(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p)
{
	begin(s, t_ns);
	p->is_awaited = false;
	if (p->busy) {
		rbt_busy_check(s, p);
	}
	finish(s);
}

void rbt_sched_gap(struct rbt_sched_prog *p, uint64_t gap_ns, uint32_t n)
{
	p->gaps_are_told = true;
	rbt_learn_gap(&p->learn, gap_ns, n);
}

void rbt_sched_request_begin(
	struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p, uint64_t deadline_ns)
{
	begin(s, t_ns);
	/* With several open requests the latest deadline counts: the GPU is needed until the last
	 * one ends. */
	if (p->requests == 0 || deadline_ns == 0 ||
		(p->deadline_ns != 0 && deadline_ns > p->deadline_ns)) {
		p->deadline_ns = deadline_ns;
	}
	p->requests++;
	p->stats.requests++;
	rbt_busy_request(s, p);
	finish(s);
}

void rbt_sched_request_end(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p)
{
	begin(s, t_ns);
	if (p->requests > 0 && --p->requests == 0) {
		p->deadline_ns = 0;
		rbt_busy_request(s, p);
	}
	finish(s);
}

static void expire(struct rbt_sched *s, struct rbt_timer *timer)
{
	rbt_timer_set(s, timer, RBT_NEVER);
	switch (timer->kind) {
	case RBT_TIMER_PROG:
		rbt_busy_check(s, RBT_OWNER_OF(timer, struct rbt_sched_prog, check));
		break;
	case RBT_TIMER_UNIT:
		rbt_turns_expire(s, RBT_OWNER_OF(timer, struct rbt_sched_unit, timer));
		break;
	case RBT_TIMER_GUARD:
		rbt_guard_scan(s);
		break;
	}
}

void rbt_sched_tick(struct rbt_sched *s, uint64_t t_ns)
{
	begin(s, t_ns);
	while (rbt_sched_next_tick(s) <= s->now_ns) {
		expire(s, RBT_OWNER_OF(rbt_heap_top(&s->timers), struct rbt_timer, node));
		rbt_turns_run(s);
	}
	finish(s);
}

uint64_t rbt_sched_next_tick(const struct rbt_sched *s)
{
	const struct rbt_heap_node *node = rbt_heap_top(&s->timers);

	return node == NULL ? RBT_NEVER : node->major;
}

void *rbt_sched_next_change(struct rbt_sched *s, const struct rbt_decision **ret)
{
	struct rbt_sched_prog *p = LIST_FIRST(&s->changed);

	if (p == NULL) {
		return NULL;
	}
	LIST_REMOVE(p, changed);
	p->is_changed = false;
	*ret = &p->decision;
	return p->owner;
}

const struct rbt_decision *rbt_sched_decision(const struct rbt_sched_prog *p)
{
	return &p->decision;
}

bool rbt_sched_is_wanting(const struct rbt_sched_prog *p)
{
	return p->unit->is_wanting;
}

bool rbt_sched_is_reserving(const struct rbt_sched_prog *p)
{
	return p->is_reserving;
}

void rbt_sched_stats(
	struct rbt_sched *s, const struct rbt_sched_prog *p, struct rbt_sched_stats *ret)
{
	rbt_unit_settle(s, p->unit);
	*ret = p->stats;
	ret->reserved_ns += p->is_reserving ? s->now_ns - p->reserve_ns : 0;
}
