/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: of the units that take turns, at most one is runnable per GPU. Two with short slices all
 * but stop each other (26.5 it/s fell to 2.95 on an H200). One at a time, changed every 60 to 100
 * ms, they make 27.6 together, and a latency program beside them does not notice how many there
 * are.
 *
 * Order: first a unit that is owed time (guard.c), then the higher level, then the smaller key of
 * the policy. A turn ends when its time is up and another unit is first, when its unit idles, or at
 * once when a higher level wants the GPU. If no other unit wants the GPU, the turn does not end,
 * and there is no timer.
 *
 * Before a turn begins or goes on, a policy may refuse it (ask.c). The unit then leaves the order
 * for the length of a turn, and the next one is asked about. Guard turns are not asked about.
 *
 * A reserve keeps the current unit off. If most of its turn is over when the reserve ends, the next
 * unit gets the GPU in its place. That saves two driver calls, and a millisecond in which no unit
 * has the GPU.
 *
 * A unit on several GPUs needs all of them at once, when it is first on each. While some of them
 * are in the midst of another unit's turn, the next in line may use the others. After one turn of
 * such waiting the unit takes them all, unless a higher level has one of them.
 */
#include "sched/impl.h"

/* Order in the queues: first units that are owed time, last idle units and refused ones. */
#define MAJOR_GUARD   0
#define MAJOR_LEVEL   1 /* plus how far from the highest level */
#define MAJOR_IDLE    100
#define MAJOR_REFUSED 101

/* A turn that would be cut short before this time does not begin: a change takes about 1 ms. */
#define MIN_TURN_NS UINT64_C(10000000)

struct rbt_sched_unit *rbt_ready_top(const struct rbt_sched_gpu *gpu, uint32_t g)
{
	const struct rbt_heap_node *node = rbt_heap_top(&gpu->ready);

	return node == NULL ? NULL : RBT_OWNER_OF(node - g, struct rbt_sched_unit, ready[0]);
}

static uint64_t major_of(const struct rbt_sched_unit *u)
{
	if (!u->is_wanting) {
		return MAJOR_IDLE;
	}
	if (!rbt_unit_is_ready(u)) {
		return MAJOR_REFUSED;
	}
	return u->is_guarded ? MAJOR_GUARD : MAJOR_LEVEL + RBT_PRIORITY_MAX - u->level;
}

uint64_t rbt_turn_ns(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	const struct rbt_sched_policy *policy = s->config.policy;

	return u->turn_ns != 0 ? u->turn_ns : policy->turn_ns(policy->ctx, &s->config);
}

static void count_ready(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_ready)
{
	if (is_ready == u->is_counted_ready) {
		return;
	}
	u->is_counted_ready = is_ready;
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		rbt_count(&rbt_first_gpu(s, m)->n_ready[u->level], 1, is_ready);
	}
}

static void queue(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_heap *ready = &rbt_first_gpu(s, m)->ready;
		struct rbt_heap_node *node = &u->ready[rbt_first_bit(m)];

		node->major = major_of(u);
		node->minor = rbt_unit_key(s, u, rbt_first_bit(m));
		node->seq = u->order;
		if (node->pos == 0) {
			rbt_heap_push(ready, node);
		} else {
			rbt_heap_update(ready, node);
		}
	}
	count_ready(s, u, rbt_unit_is_ready(u));
	s->resched |= u->mask;
}

static void unqueue(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		rbt_heap_remove(&rbt_first_gpu(s, m)->ready, &u->ready[rbt_first_bit(m)]);
	}
	count_ready(s, u, false);
	s->resched |= u->mask;
}

/* Ends its turn. The unit is then in no queue. */
static void stop(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	rbt_unit_settle(s, u);
	u->is_current = false;
	u->is_over = false;
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		rbt_first_gpu(s, m)->current = NULL;
	}
	s->resched |= u->mask;
}

/* Returns whether that takes it off. */
static bool evict(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	bool was_on = u->is_on;

	stop(s, u);
	rbt_guard_end(s, u);
	/* During its turn, idle or not, the unit was not kept off. */
	if (u->probe_at_ns < s->now_ns + u->probe_ns) {
		u->probe_at_ns = s->now_ns + u->probe_ns;
	}
	queue(s, u);
	rbt_unit_update_on(s, u);
	rbt_turns_arm(s, u);
	return was_on && !u->is_on;
}

/* The caller has checked that every current unit gives way. */
static void start(struct rbt_sched *s, struct rbt_sched_unit *u, uint64_t for_ns)
{
	struct rbt_sched_prog *p;
	unsigned n_off = 0;

	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		struct rbt_sched_gpu *gpu = rbt_first_gpu(s, m);

		rbt_gpu_settle(s, gpu);
		n_off += gpu->current != NULL && evict(s, gpu->current);
	}
	rbt_unit_settle(s, u);
	unqueue(s, u);
	LIST_FOREACH (p, &u->members, member) {
		p->stats.turns += u->is_wanting;
		p->stats.displaced += n_off;
	}
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		rbt_first_gpu(s, m)->current = u;
	}
	u->is_current = true;
	u->is_forced = false;
	u->is_stuck = false;
	u->left_ns = for_ns;
	rbt_fair_start(s, u);
	rbt_unit_update_on(s, u);
	rbt_turns_arm(s, u);
}

void rbt_turns_enter(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	uint64_t left_ns = u->left_ns;
	bool is_clear = u->had_turn;

	u->had_turn = false;
	queue(s, u);
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		is_clear &= rbt_first_gpu(s, m)->current == NULL;
	}
	if (is_clear) {
		start(s, u, left_ns);
	}
}

void rbt_turns_leave(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	u->had_turn = u->is_current;
	if (u->is_current) {
		stop(s, u);
	}
	unqueue(s, u);
}

void rbt_turns_update(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	s->resched |= u->mask;
	if (!u->is_current && !u->is_blocked) {
		queue(s, u);
	}
	rbt_turns_arm(s, u);
}

bool rbt_turns_is_contested(struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		const struct rbt_sched_unit *top =
			rbt_ready_top(rbt_first_gpu(s, m), rbt_first_bit(m));
		if (top != NULL && rbt_unit_is_ready(top)) {
			return true;
		}
	}
	return false;
}

/* Whether another unit waits that will be first when the time is up. A unit of a lower level never
 * is. */
static bool has_rival(struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		const struct rbt_sched_unit *top =
			rbt_ready_top(rbt_first_gpu(s, m), rbt_first_bit(m));
		if (top != NULL && rbt_unit_is_ready(top) && major_of(top) <= major_of(u)) {
			return true;
		}
	}
	return false;
}

static uint64_t timer_of(struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	if (u->role == RBT_ROLE_FREE) {
		uint64_t ask_ns = rbt_ask_next(s, u), end_ns = u->charged_ns + u->left_ns;
		return u->is_guarded && end_ns < ask_ns ? end_ns : ask_ns;
	}
	if (u->is_guarded && u->is_current) {
		return u->charged_ns + u->left_ns;
	}
	if (u->role != RBT_ROLE_TURN || u->is_blocked) {
		return RBT_NEVER;
	}
	if (u->is_current) {
		return u->is_on && u->is_wanting && u->left_ns > 0 &&
				       (has_rival(s, u) || rbt_ask_is_on(s))
			       ? u->charged_ns + u->left_ns
			       : RBT_NEVER;
	}
	if (u->is_wanting && u->is_refused) {
		return u->ask_ns;
	}
	if (u->is_wanting) {
		return u->is_stuck && !u->is_forced ? u->stuck_ns + rbt_turn_ns(s, u) : RBT_NEVER;
	}
	/* There is no guess to check about a unit that is on. */
	return u->probe_ns == 0 || u->is_on ? RBT_NEVER : u->probe_at_ns;
}

void rbt_turns_arm(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	struct rbt_sched_prog *p;

	rbt_timer_set(s, &u->timer, timer_of(s, u));
	LIST_FOREACH (p, &u->members, member) {
		rbt_busy_arm(s, p);
	}
}

/* Whether the GPU's current unit, if any, gives way to `u`. Out of order, the policy's keys do not
 * count. */
static bool gives_way(
	const struct rbt_sched *s, uint32_t g, const struct rbt_sched_unit *u, bool in_order)
{
	const struct rbt_sched_unit *cur = s->gpus[g].current;

	if (u->is_wanting && !rbt_unit_is_ready(u)) {
		return false;
	}
	if (cur == NULL) {
		return true;
	}
	if (!u->is_wanting) {
		return false;
	}
	if (!cur->is_wanting || major_of(u) < major_of(cur)) {
		return true;
	}
	if (major_of(u) > major_of(cur) || (cur->left_ns > 0 && !u->is_forced)) {
		return false;
	}
	return !in_order || rbt_unit_key(s, u, g) <= rbt_unit_key(s, cur, g);
}

/* Whether no unit is before `u` in the queue. */
static bool is_due(const struct rbt_sched *s, uint32_t g, const struct rbt_sched_unit *u)
{
	const struct rbt_heap_node *top = rbt_heap_top(&s->gpus[g].ready), *own = &u->ready[g];

	return top->major > own->major || (top->major == own->major && top->minor >= own->minor);
}

/* Whether `u` can have all its GPUs. On those in `loose` it may pass other units whose turn it
 * is. */
static bool can_start(struct rbt_sched *s, const struct rbt_sched_unit *u, uint32_t loose)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		bool in_order = (loose & UINT32_C(1) << g) == 0;

		rbt_gpu_settle(s, &s->gpus[g]);
		if (!gives_way(s, g, u, in_order) || (in_order && !is_due(s, g, u))) {
			return false;
		}
	}
	return true;
}

static struct rbt_sched_unit *find_startable(struct rbt_sched *s, uint32_t g, uint32_t loose)
{
	struct rbt_sched_gpu *gpu = &s->gpus[g];
	struct rbt_sched_unit *best = NULL;

	for (uint32_t i = 0; i < gpu->ready.n; i++) {
		struct rbt_heap_node *node = gpu->ready.nodes[i];
		struct rbt_sched_unit *u = RBT_OWNER_OF(node - g, struct rbt_sched_unit, ready[0]);

		if ((best == NULL || rbt_heap_before(node, &best->ready[g])) &&
			can_start(s, u, loose)) {
			best = u;
		}
	}
	return best;
}

/* Whether `u` has only to wait for the ends of turns. A higher level may never end its turn. */
static bool is_next(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		const struct rbt_sched_unit *cur = s->gpus[rbt_first_bit(m)].current;

		if (!is_due(s, rbt_first_bit(m), u) ||
			(cur != NULL && cur->is_wanting && major_of(cur) < major_of(u))) {
			return false;
		}
	}
	return u->is_wanting;
}

/*
 * `first` is first on this GPU but cannot have all its others: finds another unit for this GPU
 * meanwhile. A unit that keeps the order on its other GPUs is preferred. If there is none, and the
 * GPU would be unused, one that does not is taken: otherwise units that cross each other could wait
 * in a circle.
 */
static struct rbt_sched_unit *find_stopgap(
	struct rbt_sched *s, uint32_t g, struct rbt_sched_unit *first)
{
	const struct rbt_sched_unit *cur = s->gpus[g].current;
	bool has_only_to_wait = is_next(s, first);

	if (has_only_to_wait && !first->is_stuck) {
		first->is_stuck = true;
		first->stuck_ns = s->now_ns;
		rbt_turns_arm(s, first);
	}
	if (has_only_to_wait && first->stuck_ns + rbt_turn_ns(s, first) < s->now_ns + MIN_TURN_NS) {
		return NULL;
	}
	struct rbt_sched_unit *u = find_startable(s, g, UINT32_C(1) << g);
	if (u == NULL && (cur == NULL || !cur->is_wanting)) {
		u = find_startable(s, g, UINT32_MAX);
	}
	return u;
}

/* Whether the unit is still first on all its GPUs. */
static bool is_first(struct rbt_sched *s, const struct rbt_sched_unit *cur)
{
	for (uint32_t m = cur->mask; m != 0; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		const struct rbt_sched_unit *top = rbt_ready_top(&s->gpus[g], g);
		if (top != NULL && gives_way(s, g, top, true)) {
			return false;
		}
	}
	return true;
}

/* Whether the current unit may go on. A guard turn may have ended, or an idle unit has come to want
 * the GPU. */
static bool may_stay(struct rbt_sched *s, struct rbt_sched_unit *cur)
{
	if (!rbt_ask_is_on(s) || !cur->is_wanting) {
		return true;
	}
	bool is_new = cur->is_unasked || (cur->left_ns == 0 && is_first(s, cur));
	return rbt_unit_is_ready(cur) && (!is_new || rbt_ask_turn(s, cur));
}

/* A turn on the GPU is over: a unit that needs another GPU, too, may now have both. */
static void rouse(struct rbt_sched *s, uint32_t g)
{
	const struct rbt_sched_gpu *gpu = &s->gpus[g];

	for (uint32_t i = 0; i < gpu->ready.n; i++) {
		struct rbt_heap_node *node = gpu->ready.nodes[i];
		const struct rbt_sched_unit *u =
			RBT_OWNER_OF(node - g, struct rbt_sched_unit, ready[0]);

		if (u->mask != UINT32_C(1) << g && rbt_unit_is_ready(u)) {
			s->resched |= u->mask;
		}
	}
}

static void choose_next(struct rbt_sched *s, uint32_t g)
{
	struct rbt_sched_gpu *gpu = &s->gpus[g];
	struct rbt_sched_unit *cur = gpu->current, *u = rbt_ready_top(gpu, g);

	rbt_gpu_settle(s, gpu);
	if (cur != NULL && cur->is_over) {
		cur->is_over = false;
		cur->order = ++s->next_order;
		rouse(s, g);
	}
	if (cur != NULL && !may_stay(s, cur)) {
		evict(s, cur); /* this GPU is decided again */
		return;
	}
	if (u != NULL && gives_way(s, g, u, true)) {
		u = can_start(s, u, 0) ? u : find_stopgap(s, g, u);
		if (u != NULL && !rbt_ask_turn(s, u)) {
			queue(s, u); /* the same */
			rbt_turns_arm(s, u);
		} else if (u != NULL) {
			start(s, u, u->is_guarded ? u->guard_ns : rbt_turn_ns(s, u));
		}
	} else if (cur != NULL && cur->left_ns == 0 && !cur->is_guarded && is_first(s, cur)) {
		cur->left_ns = rbt_turn_ns(s, cur);
	}
	if (gpu->current != NULL) {
		rbt_turns_arm(s, gpu->current);
	}
}

void rbt_turns_run(struct rbt_sched *s)
{
	while (s->resched != 0) {
		uint32_t g = rbt_first_bit(s->resched);

		s->resched &= s->resched - 1;
		choose_next(s, g);
	}
}

/* The turn is over. rbt_turns_run() decides what comes next. */
static void end_turn(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	if (u->left_ns > 0) {
		return; /* it was kept off meanwhile */
	}
	rbt_guard_end(s, u);
	s->resched |= u->mask;
}

void rbt_turns_let_back(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	bool is_on_one = (u->mask & (u->mask - 1)) == 0;

	if (u->role == RBT_ROLE_TURN && !u->is_on && !u->is_guarded && is_on_one &&
		s->config.policy->orders_by_use && u->left_ns > 0 &&
		u->left_ns <= rbt_turn_ns(s, u) / 5 * 2 && has_rival(s, u)) {
		u->left_ns = 0;
		u->is_over = true;
		s->resched |= u->mask;
	}
}

void rbt_turns_expire(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	rbt_unit_settle(s, u);
	if (u->is_current) {
		end_turn(s, u);
	} else if (u->role == RBT_ROLE_FREE) {
		if (u->left_ns == 0) {
			rbt_guard_end(s, u);
		}
		rbt_ask_again(s, u);
	} else if (u->is_wanting && u->is_refused) {
		/* It has saved up no time meanwhile. */
		u->is_refused = false;
		rbt_fair_join(s, u, true);
		queue(s, u);
	} else if (u->is_wanting) {
		u->is_forced = u->is_stuck;
		s->resched |= u->mask;
	} else {
		u->is_probing = true;
		rbt_unit_update_wanting(s, u);
	}
	rbt_turns_arm(s, u);
}
