/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the accounts (account.h) of programs and GPUs. Nothing here costs a system call: the clock
 * and the boards are read from memory, and the hand's replies arrive anyway.
 */
#include "daemon/metrics/accounting.h"

#include <stdio.h>

#include "daemon/activity.h"
#include "daemon/daemon.h"
#include "daemon/edge.h"
#include "daemon/metrics/account.h"
#include "daemon/peers/rights.h"
#include "daemon/schedule.h"
#include "util/time.h"

static bool is_followed(const struct program *p)
{
	return p->reader.board != NULL && p->sched.prog != NULL &&
	       rbt_sched_is_wanting(p->sched.prog);
}

bool accounting_needs_tick(const struct daemon *d)
{
	const struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (is_followed(p)) {
			return true;
		}
	}
	return false;
}

/* The core's clock must have been advanced first, because it stands at the last event. Returns
 * false if a policy must hear of the program's work later. */
static bool sample(struct daemon *d, struct program *p, bool is_last)
{
	struct rbt_sched_stats stats;

	if (p->sched.prog == NULL) {
		return true;
	}
	rbt_sched_stats(d->sched.core, p->sched.prog, &stats);
	struct account_step step = account_sample(
		&p->account, &stats, p->sched.params.is_known, p->reader.board, rbt_now_ns());
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if (p->sched.params.tasks[gpu].n_compute > 0) {
			struct gpu_account *a = &d->gpu_accounts[gpu];

			a->had_programs = true;
			a->had_known = a->had_known || p->sched.params.is_known;
			a->used_ns += step.used_ns;
			a->reserved_ns += step.reserved_ns;
		}
	}
	return events_take_work(d, p, is_last);
}

void accounting_tick(struct daemon *d)
{
	struct program *p;

	if (!accounting_needs_tick(d)) {
		return;
	}
	schedule_tick(d);
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->reader.board != NULL) {
			sample(d, p, false);
		}
	}
}

/* Returns when to look at it again, at the latest. */
static uint64_t follow(struct daemon *d, struct program *p, uint64_t now_ns)
{
	uint64_t count = rbt_board_count(p->reader.board);

	if (count == p->work.board_count) {
		pace_silent(&p->work.pace, now_ns);
		return is_followed(p) ? pace_due(&p->work.pace) : UINT64_MAX;
	}
	if (events_are_too_soon(p, now_ns) || !sample(d, p, false)) {
		return p->work.at_ns + PACE_MIN_NS;
	}
	p->work.board_count = count;
	return is_followed(p) ? pace_due(&p->work.pace) : UINT64_MAX;
}

void accounting_follow(struct daemon *d)
{
	uint64_t now_ns, next_ns = UINT64_MAX;
	struct program *p;
	uint32_t n = 0;

	if (!events_want_work(d) || (now_ns = rbt_now_ns()) < d->events.round_ns) {
		return;
	}
	schedule_tick(d);
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->reader.board != NULL && p->sched.prog != NULL) {
			uint64_t due_ns = follow(d, p, now_ns);

			next_ns = due_ns < next_ns ? due_ns : next_ns;
			n++;
		}
	}
	d->events.round_ns = now_ns + pace_round_ns(n);
	d->events.next_ns = next_ns > d->events.round_ns ? next_ns : d->events.round_ns;
}

void accounting_refresh(struct daemon *d)
{
	struct program *p;

	schedule_tick(d);
	LIST_FOREACH (p, &d->programs, entries) {
		sample(d, p, false);
	}
}

void accounting_fill(struct daemon *d, struct program *p, struct rbt_program_account *ret)
{
	schedule_tick(d);
	sample(d, p, false);
	account_fill(&p->account, p->sched.params.is_known, rbt_now_ns(), ret);
	activity_account(p, ret);
}

void accounting_fill_turns(struct daemon *d, struct program *p, struct rbt_program_turns *ret)
{
	struct rbt_sched_stats stats = {0};
	struct rbt_limits own = limits_in_force(d, p);

	*ret = (struct rbt_program_turns){.weight = p->treat.weight,
		.has_board = p->reader.board != NULL,
		.limits = rbt_sched_limits(d->sched.core, &own)};
	snprintf(ret->policy, sizeof(ret->policy), "%s", schedule_policy(d));
	if (p->sched.prog == NULL) {
		return;
	}
	rbt_sched_stats(d->sched.core, p->sched.prog, &stats);
	ret->on_ns = stats.on_ns;
	ret->waited_ns = stats.kept_off_ns;
	ret->n_turns = stats.turns;
	ret->n_owed_turns = stats.guard_turns;
	ret->n_reserves = stats.reserves;
	ret->reserved_ns = stats.reserved_ns;
	ret->hold_ns = stats.window_ns;
	ret->n_requests = stats.requests;
}

void accounting_fill_reserve(struct daemon *d, struct program *p, struct rbt_program_reserve *ret)
{
	static const enum rbt_no_reserve reasons[] = {
		[RBT_UNRESERVED_NOT] = RBT_NO_RESERVE_NONE,
		[RBT_UNRESERVED_UNSEEN] = RBT_NO_RESERVE_UNSEEN,
		[RBT_UNRESERVED_OVERSTAYED] = RBT_NO_RESERVE_OVERSTAYED,
		[RBT_UNRESERVED_WORTHLESS] = RBT_NO_RESERVE_WORTHLESS,
	};
	struct rbt_sched_stats stats = {0};

	*ret = (struct rbt_program_reserve){0};
	if (p->sched.prog == NULL) {
		return;
	}
	rbt_sched_stats(d->sched.core, p->sched.prog, &stats);
	ret->why_not = reasons[rbt_sched_unreserved(d->sched.core, p->sched.prog)];
	ret->n_unreserved = stats.spared;
}

const char *accounting_reserve_note(struct daemon *d, struct program *p)
{
	struct rbt_program_reserve reserve;

	accounting_fill_reserve(d, p, &reserve);
	switch (reserve.why_not) {
	case RBT_NO_RESERVE_UNSEEN:
		return "no reserve: its submissions are not seen";
	case RBT_NO_RESERVE_OVERSTAYED:
		return "no reserve: busy for longer than max_reserve_ms";
	case RBT_NO_RESERVE_WORTHLESS:
		return "no reserve: its requests are as fast without one, and a reserve slows others down";
	default:
		return "";
	}
}

void accounting_start(struct program *p)
{
	account_start(&p->account, rbt_now_ns());
}

void accounting_end(struct daemon *d, struct program *p)
{
	sample(d, p, true);
}

void accounting_begin_board(struct daemon *d, struct program *p, struct rbt_board *board)
{
	sample(d, p, false);
	p->work.board_count = 0;
	account_begin_board(&p->account, board, rbt_now_ns());
}

void accounting_seen(
	struct daemon *d, struct program *p, const struct rbt_sched_stats *stats, uint64_t seen_ns)
{
	/* A program that has to wait for its turn takes no program off now. */
	if (rbt_sched_decision(p->sched.prog)->off == RBT_ON) {
		account_seen(&p->account, stats, seen_ns);
		d->sched.any_seen = true;
	}
}

void accounting_cleared(struct daemon *d, uint64_t now_ns)
{
	struct rbt_sched_stats stats;
	struct program *p;

	if (!d->sched.any_seen) {
		return;
	}
	d->sched.any_seen = false;
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->account.seen_ns != 0 && p->sched.prog != NULL) {
			rbt_sched_stats(d->sched.core, p->sched.prog, &stats);
			account_cleared(&p->account, &stats, p->reader.board, now_ns);
			d->sched.any_seen = d->sched.any_seen || p->account.seen_ns != 0;
		}
	}
}

void accounting_applied(
	struct daemon *d, struct program *p, const struct edge *edge, uint64_t now_ns)
{
	bool was_off = (edge->was & RBT_IS_IN_TURNS) != 0;
	bool is_off = (edge->is & RBT_IS_IN_TURNS) != 0;

	if (!account_set_off(
		    &p->account, was_off, is_off, rbt_sched_is_wanting(p->sched.prog), now_ns)) {
		return;
	}
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		d->gpu_accounts[gpu].n_switches += p->sched.params.tasks[gpu].n_compute > 0;
	}
}
