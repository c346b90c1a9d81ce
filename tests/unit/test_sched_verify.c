/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold between any two events, counted afresh from units and programs: by what they were
 * told (decisions), and by what the core keeps (counters, queues, timers).
 */
#include "test_sched_verify.h"

#include <string.h>

#include "sched/impl.h"

/* The longest time from one question about a unit without turns to the next. */
#define MAX_ASK_NS UINT64_C(100000000)

/* What is counted on one GPU. */
struct tally {
	uint32_t n_short_runnable, n_short, n_turn_on, n_queued, n_current, n_guard_long;
	uint32_t n_ready[RBT_LEVELS], n_wanting[RBT_LEVELS], n_busy[RBT_LEVELS];
	uint32_t n_reserve[RBT_LEVELS], n_class[RBT_CLASS_LATENCY + 1];
	bool has_stuck;
	struct rbt_rule_tally wishes;  /* for short slices */
	struct rbt_rule_tally running; /* short and runnable */
};

/* One that is longer than the driver's, and nobody has asked for it. */
static const char *check_long_slice(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g)
{
	const struct rbt_sched_unit *u;
	const struct rbt_sched_prog *peer;

	if (p->decision.slice_us[g] != s->config.latency_slice_us) {
		return "a long slice of no known length";
	}
	if (rbt_class_of(rbt_prog_priority(p)) != RBT_CLASS_LATENCY || !p->unit->has_reserve ||
		p->unit->role != RBT_ROLE_FREE || !p->params.is_known) {
		return "a long slice for who has no reserve, or may never idle";
	}
	if ((s->locks.locked & ~s->locks.marked & UINT32_C(1) << g) == 0) {
		return "a long slice without the lock, or beside a rival";
	}
	if (s->gpus[g].n_short == 0 || p->has_overstayed) {
		return "a long slice for nothing";
	}
	if (s->gpus[g].n_guard_long > 0) {
		return "a long slice beside one who is owed";
	}
	LIST_FOREACH (u, &s->units, entries) {
		LIST_FOREACH (peer, &u->members, member) {
			if (peer != p && (peer->mask & p->mask) != 0 && !peer->params.suspended &&
				rbt_class_of(rbt_prog_priority(peer)) == RBT_CLASS_LATENCY) {
				return "a long slice beside another latency program";
			}
		}
	}
	return NULL;
}

/* Copy tasks are off only by command. */
static bool copies_run(const struct rbt_sched_prog *p)
{
	return p->decision.off != RBT_OFF_COMMAND;
}

static const char *check_copies(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g, struct tally *tally)
{
	const struct rbt_sched_tasks *tasks = &p->params.tasks[g];
	uint64_t us = p->decision.slice_us[g];
	bool is_short = (p->decision.short_copies >> g & 1) != 0;

	if (is_short && (us == RBT_TIMESLICE_OWN || us >= tasks->copy_own_us ||
				us >= tasks->own_us || tasks->copy_runlists == 0)) {
		return "short copies without a short slice, or without copies";
	}
	if (is_short && (tasks->compute_runlists == 0 ||
				(tasks->copy_runlists & tasks->compute_runlists) != 0)) {
		return "short copies that may share a runlist with their program's kernels";
	}
	if (is_short && copies_run(p)) {
		rbt_rule_count(&tally->running, tasks->copy_runlists, true);
	}
	return NULL;
}

static const char *check_slice(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g, struct tally *tally)
{
	uint64_t us = p->decision.slice_us[g], own_us = p->params.tasks[g].own_us;

	if (us != RBT_TIMESLICE_OWN && us > own_us && us != p->params.timeslice_us) {
		return check_long_slice(s, p, g);
	}
	if (us == RBT_TIMESLICE_OWN || us >= own_us) {
		return NULL;
	}
	if ((s->locks.locked & ~s->locks.marked & UINT32_C(1) << g) == 0) {
		return "a short slice without the lock, or beside a rival";
	}
	if (p->decision.off == RBT_ON) {
		tally->n_short_runnable += p->params.tasks[g].n_compute;
		rbt_rule_count(&tally->running, p->params.tasks[g].compute_runlists, true);
	}
	return NULL;
}

static void count_wishes(const struct rbt_sched_prog *p, uint32_t g, struct tally *tally)
{
	if (rbt_prog_short_tasks(p, g) == 0) {
		return;
	}
	tally->n_short += rbt_prog_short_tasks(p, g);
	rbt_rule_count(&tally->wishes, p->params.tasks[g].compute_runlists, true);
	if (rbt_prog_short_copies(p, g) != 0) {
		rbt_rule_count(&tally->wishes, rbt_prog_short_copies(p, g), true);
	}
}

static const char *check_off(const struct rbt_sched_prog *p)
{
	const struct rbt_sched_unit *u = p->unit;
	bool off = p->decision.off != RBT_ON;

	if ((p->decision.off == RBT_OFF_COMMAND) != p->params.suspended) {
		return "suspended by command, or not, against the command";
	}
	if (p->params.suspended || p->mask == 0) {
		return NULL;
	}
	if (off && p->params.cannot_suspend) {
		return "off, who cannot be";
	}
	if (!p->params.cannot_suspend && off == u->is_on) {
		return "not what became of its unit";
	}
	return NULL;
}

static const char *check_prog(
	const struct rbt_sched *s, const struct rbt_sched_prog *p, struct tally *tallies)
{
	const char *why = check_off(p);

	for (uint32_t g = 0; g < RBT_MAX_GPUS && why == NULL; g++) {
		if ((p->mask & UINT32_C(1) << g) == 0) {
			why = p->decision.slice_us[g] != 0 ||
					      (p->decision.short_copies >> g & 1) != 0
				      ? "a slice where it has no task"
				      : NULL;
			continue;
		}
		why = check_slice(s, p, g, &tallies[g]);
		why = why == NULL ? check_copies(s, p, g, &tallies[g]) : why;
		if (p->unit->role != RBT_ROLE_NONE) {
			count_wishes(p, g, &tallies[g]);
			unsigned rank = rbt_reserve_rank(s, p, g);
			tallies[g].n_reserve[rank] += p->is_reserving && rank > 0;
			tallies[g].n_class[rbt_class_of(rbt_prog_priority(p))] +=
				!p->params.suspended;
		}
	}
	return why;
}

static void tally_unit(const struct rbt_sched_unit *u, uint32_t g, struct tally *tally)
{
	tally->n_wanting[u->level] += u->is_wanting;
	tally->n_busy[u->level] += u->is_counted_busy;
	tally->n_guard_long += u->guard_is_long;
	if (u->role == RBT_ROLE_TURN && !u->is_blocked) {
		tally->n_turn_on += u->is_on && (u->is_wanting || !u->no_slices);
		tally->n_current += u->is_current;
		tally->n_queued += !u->is_current;
		tally->n_ready[u->level] +=
			!u->is_current && u->is_wanting && (!u->is_refused || u->is_guarded);
		tally->has_stuck |= u->is_stuck;
	}
}

/* Kept off by a reserve, on any of its GPUs. */
static bool is_reserved_against(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		if (rbt_reserve_level(&s->gpus[rbt_first_bit(m)]) > u->level) {
			return true;
		}
	}
	return false;
}

/* A refused unit waits until it is asked about again, and has nothing but guard turns. */
static const char *check_refused(const struct rbt_sched_unit *u)
{
	const struct rbt_sched_prog *p;

	if (u->was_refused && (u->role == RBT_ROLE_NONE || !u->is_wanting)) {
		return "a refusal for nothing";
	}
	if (u->is_refused && (!u->was_refused || u->is_blocked)) {
		return "a refusal that does not count";
	}
	if (u->is_refused && !u->is_guarded && (u->is_current || u->is_on) && u->can_suspend) {
		return "on, though refused";
	}
	if (u->is_refused && u->timer.node.pos == 0) {
		return "refused for ever";
	}
	LIST_FOREACH (p, &u->members, member) {
		if (u->was_refused && p->is_reserving) {
			return "a reserve, though refused";
		}
	}
	return NULL;
}

/* Units that take no turns are asked about soon, unless they do not want the GPU. */
static const char *check_asked(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	if (!s->config.policy->asks || s->ops.admit == NULL) {
		return u->was_refused ? "refused by nobody" : NULL;
	}
	if (u->is_due) {
		return "due, and not asked about";
	}
	if (u->role == RBT_ROLE_FREE && u->is_wanting &&
		(u->timer.node.pos == 0 || u->ask_ns > u->asked_ns + MAX_ASK_NS ||
			u->timer.node.major > u->ask_ns)) {
		return "not asked about soon";
	}
	return NULL;
}

static const char *check_unit_on(const struct rbt_sched *s, const struct rbt_sched_unit *u)
{
	bool reserved = is_reserved_against(s, u);

	if (u->is_on && u->is_blocked) {
		return "on, with a member that is suspended";
	}
	if (u->is_on && reserved && u->is_wanting && u->can_suspend && !u->is_guarded) {
		return "on, in spite of a reserve";
	}
	if (!u->is_on && !u->is_blocked && (u->role == RBT_ROLE_FREE || u->is_current) &&
		!reserved && !(u->role == RBT_ROLE_FREE && u->is_refused)) {
		return "off for no reason";
	}
	return NULL;
}

static const char *check_unit(
	const struct rbt_sched *s, const struct rbt_sched_unit *u, struct tally *tallies)
{
	if (u->role == RBT_ROLE_NONE) {
		return NULL;
	}
	for (uint32_t m = u->mask; m != 0; m &= m - 1) {
		uint32_t g = rbt_first_bit(m);
		bool should_queue = u->role == RBT_ROLE_TURN && !u->is_blocked && !u->is_current;

		tally_unit(u, g, &tallies[g]);
		if ((s->gpus[g].current == u) != u->is_current) {
			return "a turn on some of its GPUs only";
		}
		if ((u->ready[g].pos != 0) != should_queue) {
			return "in a queue, or not, by mistake";
		}
	}
	if (u->role == RBT_ROLE_TURN && u->is_current && u->is_on && u->is_wanting &&
		u->left_ns > 0 && u->timer.node.pos == 0) {
		for (uint32_t m = u->mask; m != 0; m &= m - 1) {
			const struct rbt_sched_unit *top =
				rbt_ready_top(&s->gpus[rbt_first_bit(m)], rbt_first_bit(m));
			if (top != NULL && rbt_unit_is_ready(top) && top->level >= u->level) {
				return "a turn that will not end";
			}
		}
	}
	const char *why = check_refused(u);
	why = why != NULL ? why : check_asked(s, u);
	return why != NULL ? why : check_unit_on(s, u);
}

static const char *check_levels(const struct rbt_sched_gpu *gpu, const struct tally *tally)
{
	for (unsigned level = 0; level < RBT_LEVELS; level++) {
		uint32_t bit = UINT32_C(1) << level;
		if (gpu->n_ready[level] != tally->n_ready[level]) {
			return "n_ready";
		}
		if (gpu->n_wanting[level] != tally->n_wanting[level] ||
			((gpu->wanting_bits & bit) != 0) != (tally->n_wanting[level] > 0)) {
			return "n_wanting";
		}
		if (gpu->n_busy[level] != tally->n_busy[level] ||
			((gpu->busy_bits & bit) != 0) != (tally->n_busy[level] > 0)) {
			return "n_busy";
		}
		if (gpu->n_reserve[level] != tally->n_reserve[level] ||
			((gpu->reserve_bits & bit) != 0) != (tally->n_reserve[level] > 0)) {
			return "n_reserve";
		}
	}
	return NULL;
}

/* Whoever needs this GPU alone has it if it should, unless a unit on several GPUs is about to. */
static const char *check_turn(
	const struct rbt_sched_gpu *gpu, uint32_t g, const struct tally *tally)
{
	const struct rbt_sched_unit *cur = gpu->current;

	for (uint32_t i = 0; i < gpu->ready.n && !tally->has_stuck; i++) {
		struct rbt_heap_node *node = gpu->ready.nodes[i];
		const struct rbt_sched_unit *u =
			RBT_OWNER_OF(node - g, struct rbt_sched_unit, ready[0]);

		if (!u->is_wanting || u->mask != UINT32_C(1) << g ||
			(u->is_refused && !u->is_guarded)) {
			continue;
		}
		if (cur == NULL || !cur->is_wanting) {
			return "idle, though somebody waits";
		}
		if (u->level > cur->level && !cur->is_guarded) {
			return "a lower level before a higher one";
		}
	}
	return NULL;
}

/* At most one short task may run on each runlist, and none beside one whose runlist is unknown. */
static const char *check_runlists(const struct rbt_sched_gpu *gpu, const struct tally *tally)
{
	const struct rbt_rule_tally *running = &tally->running;
	uint32_t n = 0;

	for (uint32_t i = 0; i < RBT_RULE_RUNLISTS; i++) {
		if (running->n[i] > 1) {
			return "two short slices runnable on one runlist";
		}
		n += running->n[i];
	}
	if (running->n_unknown > 0 && n > 0) {
		return "short slices beside one whose runlist is not known";
	}
	return memcmp(&gpu->tally, &tally->wishes, sizeof(gpu->tally)) != 0 ? "tally" : NULL;
}

static const char *check_gpu(const struct rbt_sched *s, uint32_t g, const struct tally *tally)
{
	const struct rbt_sched_gpu *gpu = &s->gpus[g];
	const char *why = check_levels(gpu, tally);

	why = why == NULL ? check_runlists(gpu, tally) : why;
	if (tally->n_short_runnable > 1) {
		return "two short slices runnable";
	}
	if (tally->n_turn_on > 1 || tally->n_current > 1) {
		return "two have the turn";
	}
	if (tally->n_queued != gpu->ready.n || (tally->n_current > 0) != (gpu->current != NULL)) {
		return "a queue with strangers";
	}
	if (gpu->n_short != tally->n_short) {
		return "n_short";
	}
	if (memcmp(gpu->n_class, tally->n_class, sizeof(gpu->n_class)) != 0) {
		return "n_class";
	}
	if (gpu->n_guard_long != tally->n_guard_long) {
		return "n_guard_long";
	}
	for (uint32_t i = 1; i < gpu->ready.n; i++) {
		if (rbt_heap_before(gpu->ready.nodes[i], gpu->ready.nodes[(i + 1) / 2 - 1])) {
			return "a queue out of order";
		}
	}
	return why != NULL ? why : check_turn(gpu, g, tally);
}

const char *sched_verify(const struct rbt_sched *s)
{
	struct tally tallies[RBT_MAX_GPUS];
	const struct rbt_sched_unit *u;
	const struct rbt_sched_prog *p;
	const char *why = NULL;
	uint32_t used = 0, n_refused = 0;

	memset(tallies, 0, sizeof(tallies));
	LIST_FOREACH (u, &s->units, entries) {
		const char *unit_why = check_unit(s, u, tallies);
		why = why == NULL ? unit_why : why;
		used |= u->mask;
		n_refused += u->was_refused;
		LIST_FOREACH (p, &u->members, member) {
			const char *prog_why = check_prog(s, p, tallies);
			why = why == NULL ? prog_why : why;
		}
	}
	for (uint32_t g = 0; g < RBT_MAX_GPUS && why == NULL; g++) {
		/* The others cannot have anything: it would be somebody's. */
		why = (used & UINT32_C(1) << g) != 0 ? check_gpu(s, g, &tallies[g]) : NULL;
	}
	return why == NULL && n_refused != s->n_refused ? "n_refused" : why;
}
