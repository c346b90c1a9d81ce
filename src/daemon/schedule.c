/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the model and the decision core (sched/core.h): what the core is told of programs, GPUs
 * and boards, and when it is asked.
 *
 * Nothing here spins. The core names the next moment at which it has something to do, and the loop
 * waits until then; a program that is taken to be idle is waited for on its board's futex, by the
 * loop itself (board/waiter.h). With everybody idle, or alone, there is no such moment at all. Only
 * the end of a request that a program has announced is looked for, less and less often: it makes no
 * call that we would see.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "daemon/daemon.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

/* A program can make its board say that it paused ever so often: only its own window suffers, but
 * not our time. */
#define MAX_GAPS 512

/* How often the end of a request is looked for where it cannot be waited for: at first, at last,
 * and in between after a share of the time that it has taken. */
#define HINT_MIN_NS (200 * RBT_NS_PER_US)
#define HINT_MAX_NS (20 * RBT_NS_PER_MS)
#define HINT_SHARE  32

/* The length to take for a gap of a class: just below its upper end, so that a window that is
 * learnt from it covers what it stands for. */
static uint64_t gap_ns_of(uint32_t bucket)
{
	return ((uint64_t)RBT_BOARD_GAP_UNIT_NS << bucket) / 16 * 15;
}

/* The core sees the gap before a program becomes busy by itself; the board may have counted it too,
 * if it came after a synchronisation: once, or for all those that it has not. */
static void forget_edge_gap(struct program *p, const uint32_t *gaps)
{
	uint32_t bucket = rbt_board_bucket(p->edge_gap_ns, RBT_BOARD_GAP_UNIT_NS, RBT_BOARD_GAPS);
	uint32_t lowest = bucket > 0 ? bucket - 1 : 0;

	if (p->edge_gap_ns == 0) {
		return;
	}
	p->edge_gap_ns = 0;
	for (uint32_t i = bucket + 1; i-- > lowest;) {
		uint32_t n = gaps[i] - p->gaps[i];

		if (n > 0) {
			p->gaps[i] += n < RBT_BOARD_GAP_SAMPLE ? n : RBT_BOARD_GAP_SAMPLE;
			return;
		}
	}
}

static void tell_gaps(struct program *p, const struct rbt_board_reading *reading)
{
	forget_edge_gap(p, reading->gaps);
	for (uint32_t i = 0; i < RBT_BOARD_GAPS; i++) {
		uint32_t n = reading->gaps[i] - p->gaps[i];

		p->gaps[i] = reading->gaps[i];
		if (n > 0) {
			rbt_sched_gap(p->sched, gap_ns_of(i), n < MAX_GAPS ? n : MAX_GAPS);
		}
	}
}

static void read_board(
	struct daemon *d, struct program *p, uint64_t now_ns, struct rbt_board_reading *ret)
{
	rbt_board_look(p->board, &p->board_watch, now_ns, ret);
	p->has_open_request = ret->in_request;
	p->request_deadline_ns = ret->deadline_ns;
	d->hints_changed = d->hints_changed || p->has_open_request != p->is_hinted;
}

static bool look(void *ctx, void *owner, struct rbt_activity *ret)
{
	struct program *p = owner;
	struct rbt_board_reading reading;

	if (p->board == NULL) {
		return false;
	}
	read_board(ctx, p, rbt_now_ns(), &reading);
	tell_gaps(p, &reading);
	*ret = (struct rbt_activity){
		.last_ns = reading.active_ns,
		.waiting = reading.in_sync,
		.in_flight = reading.in_flight,
	};
	return true;
}

/* Neither for the end of requests nor of a synchronisation. */
static void await_no_more(struct daemon *d, struct program *p)
{
	if (p->awaits_end || p->awaits_sync) {
		p->awaits_end = p->awaits_sync = false;
		rbt_board_waiter_remove(d->waiter, p->board);
		rbt_board_awake(p->board);
	}
}

static bool rest(void *ctx, void *owner)
{
	struct daemon *d = ctx;
	struct program *p = owner;

	if (p->board == NULL) {
		return true;
	}
	await_no_more(d, p);
	if (!rbt_board_rest(p->board, &p->board_watch)) {
		return false;
	}
	int r = rbt_board_waiter_add(d->waiter, p->board);
	if (r < 0) {
		/* It will be looked at instead. */
		rbt_debug("process %d cannot be waited for: %s", (int)p->pid, strerror(-r));
		rbt_board_awake(p->board);
		return false;
	}
	return true;
}

static bool await_sync(void *ctx, void *owner)
{
	struct daemon *d = ctx;
	struct program *p = owner;

	if (p->board == NULL || p->awaits_end || !rbt_board_await_sync(p->board, &p->board_watch)) {
		return false;
	}
	p->awaits_sync = rbt_board_waiter_add(d->waiter, p->board) == 0;
	if (!p->awaits_sync) {
		rbt_board_awake(p->board);
	}
	return p->awaits_sync;
}

static bool progress(void *ctx, void *owner, uint64_t *ret)
{
	const struct program *p = owner;

	if (p->board == NULL) {
		return false;
	}
	*ret = rbt_board_progress(p->board).n;
	return true;
}

static const struct rbt_sched_ops ops = {
	.look = look, .rest = rest, .await = await_sync, .progress = progress};

static struct program *find_by_board(struct daemon *d, const struct rbt_board *board)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, link) {
		if (p->board == board) {
			return p;
		}
	}
	return NULL;
}

/* When the end of an announced request is to be looked for next. */
static void plan_look(struct daemon *d)
{
	uint64_t now_ns = rbt_now_ns();
	const struct program *p;

	d->hint_look_ns = UINT64_MAX;
	if (d->n_hinted == 0) {
		return;
	}
	LIST_FOREACH (p, &d->programs, link) {
		uint64_t wait_ns = (now_ns - p->hinted_ns) / HINT_SHARE;

		wait_ns = wait_ns > HINT_MIN_NS ? wait_ns : HINT_MIN_NS;
		wait_ns = wait_ns < HINT_MAX_NS && !p->awaits_end ? wait_ns : HINT_MAX_NS;
		if (p->is_hinted && now_ns + wait_ns < d->hint_look_ns) {
			d->hint_look_ns = now_ns + wait_ns;
		}
	}
}

static void await_end(struct daemon *d, struct program *p)
{
	if (p->board == NULL) {
		return;
	}
	await_no_more(d, p);
	if (!rbt_board_await_end(p->board)) {
		return;
	}
	p->awaits_end = rbt_board_waiter_add(d->waiter, p->board) == 0;
	if (!p->awaits_end) {
		rbt_board_awake(p->board);
	}
}

/* Requests that boards say have begun or ended since the core was told. Not from within look(). */
static void tell_requests(struct daemon *d)
{
	struct program *p;
	uint64_t now_ns = rbt_now_ns();

	if (!d->hints_changed) {
		return;
	}
	d->hints_changed = false;
	LIST_FOREACH (p, &d->programs, link) {
		if (p->sched == NULL || p->has_open_request == p->is_hinted) {
			continue;
		}
		p->is_hinted = p->has_open_request;
		if (p->is_hinted) {
			p->hinted_ns = now_ns;
			d->n_hinted++;
			rbt_sched_request_begin(d->sched, now_ns, p->sched, p->request_deadline_ns);
			await_end(d, p);
		} else {
			d->n_hinted--;
			await_no_more(d, p);
			rbt_sched_request_end(d->sched, now_ns, p->sched);
		}
	}
	plan_look(d);
}

static void look_for_ends(struct daemon *d)
{
	struct rbt_board_reading reading;
	struct program *p;

	if (rbt_now_ns() < d->hint_look_ns) {
		return;
	}
	LIST_FOREACH (p, &d->programs, link) {
		if (p->is_hinted && p->board != NULL) {
			read_board(d, p, rbt_now_ns(), &reading);
			tell_gaps(p, &reading);
			if (p->has_open_request && !p->awaits_end) {
				await_end(d, p);
			}
		}
	}
	plan_look(d);
}

/* Programs that have become busy, or whose announced request has ended. */
static void take_woken(struct daemon *d)
{
	struct rbt_board *board;
	bool has_begun = false;

	while ((board = rbt_board_waiter_next(d->waiter)) != NULL) {
		struct program *p = find_by_board(d, board);
		struct rbt_board_reading reading;
		uint64_t now_ns = rbt_now_ns(), last_ns = 0;

		if (p == NULL || p->sched == NULL) {
			continue;
		}
		if (p->awaits_sync) {
			p->awaits_sync = false;
			rbt_sched_synced(d->sched, now_ns, p->sched);
			continue;
		}
		for (size_t i = 0; i < RBT_BOARD_SLOTS; i++) {
			uint64_t ns = p->board_watch.active_ns[i];
			last_ns = ns > last_ns ? ns : last_ns;
		}
		read_board(d, p, now_ns, &reading);
		if (p->awaits_end) {
			p->awaits_end = false;
			tell_gaps(p, &reading);
			/* Another has begun since, or none has ended: it is waited for after the
			 * next look, or a program could keep us here for ever. */
			if (p->has_open_request) {
				p->hinted_ns = now_ns;
				has_begun = true;
			}
			continue;
		}
		p->edge_gap_ns = last_ns != 0 && now_ns > last_ns ? now_ns - last_ns : 0;
		rbt_sched_busy(d->sched, now_ns, p->sched);
	}
	tell_requests(d);
	if (has_begun) {
		plan_look(d);
	}
}

uint64_t schedule_next(const struct daemon *d)
{
	uint64_t at_ns = rbt_sched_next_tick(d->sched);

	at_ns = at_ns < d->rouse_ns ? at_ns : d->rouse_ns;
	return at_ns < d->hint_look_ns ? at_ns : d->hint_look_ns;
}

void schedule_run(struct daemon *d)
{
	take_woken(d);
	if (rbt_now_ns() >= schedule_next(d)) {
		look_for_ends(d);
		rouse_run(d);
		schedule_tick(d);
	}
}

void schedule_tick(struct daemon *d)
{
	tell_requests(d);
	rbt_sched_tick(d->sched, rbt_now_ns());
	tell_requests(d);
}

bool schedule_takes_turns(const struct daemon *d, unsigned priority)
{
	const struct rbt_sched_policy *policy = rbt_sched_policy_find(schedule_policy(d));

	return policy != NULL && policy->turns_up_to != RBT_PRIORITY_NOBODY &&
	       priority <= policy->turns_up_to;
}

const char *schedule_policy(const struct daemon *d)
{
	size_t n;

	return d->config.policy != NULL ? d->config.policy->name : rbt_sched_policies(&n)->name;
}

int schedule_start(struct daemon *d)
{
	int r = rbt_sched_create(&d->config, &ops, d, &d->sched);

	d->hint_look_ns = d->rouse_ns = UINT64_MAX;
	/* A wait may end as late as this besides; by default 50 us, as long as a wake-up takes. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	return r < 0 ? r : rbt_board_waiter_create(d->epoll_fd, &d->waiter);
}

int schedule_configure(struct daemon *d, const struct rbt_sched_config *config)
{
	int r = rbt_sched_configure(d->sched, rbt_now_ns(), config);

	if (r == 0) {
		d->config = *config;
		d->dirty = true;
	}
	return r;
}

void schedule_stop(struct daemon *d)
{
	rbt_board_waiter_destroy(d->waiter);
	rbt_sched_destroy(d->sched);
}

/* Where a program's tasks are, on one GPU. */
struct places {
	uint64_t compute, copy; /* runlists, a bit each */
	uint64_t shared;        /* by several of its copy tasks */
	bool has_unknown;       /* compute task, or one beyond what a set holds */
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

/* One of which it is not known where it is, or what slice to give back, keeps what it has. */
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

/* The program's tasks over all its clients. Those we may not write to are none of ours. */
static void count_tasks(struct daemon *d, struct program *p, struct rbt_sched_params *params)
{
	struct places places[RBT_MAX_GPUS] = {0};
	const struct rbt_backend *b;
	struct hold *h;

	LIST_FOREACH (h, &p->holds, link) {
		struct rbt_holding *mine = rbt_holdings_find(&d->mine, h->id);
		if (mine == NULL || !hold_may(mine, RBT_CAP_TIMESLICE)) {
			continue;
		}
		b = rbt_backend_by_id(mine->rec.backend);
		for (uint32_t i = 0; i < mine->rec.n_tasks; i++) {
			const struct rbt_task *t = &mine->rec.tasks[i];
			int gpu = rbt_gpu_find(&d->gpu_table, mine->rec.backend, t->gpu);
			if (gpu < 0) {
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

/* What the core has to know of how a program is to be treated. */
static void fill_treatment(
	const struct daemon *d, const struct program *p, struct rbt_sched_params *ret)
{
	const struct rbt_treatment *t = &p->treat;

	ret->priority = t->priority;
	ret->weight = t->weight;
	ret->group = p->group;
	ret->timeslice_us = t->timeslice_us;
	ret->limits = limits_in_force(d, p);
	ret->may_reserve = (p->granted & RBT_TREAT_BIT(PRIORITY)) != 0;
}

static void fill_params(
	struct daemon *d, struct program *p, uint64_t now_ns, struct rbt_sched_params *ret)
{
	uint64_t ignored;

	*ret = (struct rbt_sched_params){0};
	fill_treatment(d, p, ret);
	ret->suspended = p->suspended;
	ret->is_known = p->board != NULL;
	/* Half of it off would be worse than none. */
	ret->cannot_suspend = now_ns < p->no_turns_until_ns || program_is_partial(d, p) ||
			      !program_may(d, p, RBT_CAP_SUSPEND);
	if (!program_is_in_setup(p, now_ns, &ignored) && !program_is_beyond(p)) {
		count_tasks(d, p, ret);
	}
	/* A slice longer than the driver's takes from others, as a priority above normal does. */
	for (uint32_t gpu = 0; !ret->may_reserve && gpu < RBT_MAX_GPUS; gpu++) {
		if (ret->tasks[gpu].n_compute > 0 &&
			p->treat.timeslice_us > rbt_sched_fair_slice_us(&ret->tasks[gpu])) {
			ret->timeslice_us = RBT_TIMESLICE_OWN;
		}
	}
}

/* The parameters of a program change by themselves when its setup ends, and when it may be taken
 * off again: the core is to be told then. */
static void plan_retell(struct daemon *d, const struct program *p, uint64_t now_ns)
{
	uint64_t at_ns = UINT64_MAX;

	(void)program_is_in_setup(p, now_ns, &at_ns);
	if (now_ns < p->no_turns_until_ns && p->no_turns_until_ns < at_ns) {
		at_ns = p->no_turns_until_ns;
	}
	if (at_ns != UINT64_MAX && (d->retry_ns == 0 || at_ns < d->retry_ns)) {
		d->retry_ns = at_ns;
	}
}

/* In what fill_params() fills in. */
static bool is_same(const struct rbt_sched_params *a, const struct rbt_sched_params *b)
{
	bool same = a->priority == b->priority && a->weight == b->weight && a->group == b->group &&
		    a->timeslice_us == b->timeslice_us &&
		    a->limits.max_reserve_ms == b->limits.max_reserve_ms &&
		    a->limits.min_share_permille == b->limits.min_share_permille &&
		    a->suspended == b->suspended && a->is_known == b->is_known &&
		    a->may_reserve == b->may_reserve && a->cannot_suspend == b->cannot_suspend;

	for (uint32_t gpu = 0; same && gpu < RBT_MAX_GPUS; gpu++) {
		const struct rbt_sched_tasks *x = &a->tasks[gpu], *y = &b->tasks[gpu];

		same = x->n_compute == y->n_compute && x->own_us == y->own_us &&
		       x->compute_runlists == y->compute_runlists &&
		       x->copy_runlists == y->copy_runlists && x->copy_own_us == y->copy_own_us &&
		       x->no_slices == y->no_slices;
	}
	return same;
}

int schedule_tell(struct daemon *d, struct program *p)
{
	uint64_t now_ns = rbt_now_ns();
	struct rbt_sched_params params;
	int r = 0;

	fill_params(d, p, now_ns, &params);
	plan_retell(d, p, now_ns);
	if (p->sched == NULL) {
		r = rbt_sched_add(d->sched, now_ns, &params, p, &p->sched);
	} else if (!is_same(&params, &p->params)) {
		r = rbt_sched_change(d->sched, now_ns, p->sched, &params);
	}
	if (r < 0) {
		if (user_may_be_named(p->user)) {
			rbt_warn("process %d cannot be scheduled: %s", (int)p->pid, strerror(-r));
		}
		return r;
	}
	p->params = params;
	/* What it had submitted before we saw its board may still be running. */
	if (p->board_is_new) {
		p->board_is_new = false;
		rbt_sched_busy(d->sched, now_ns, p->sched);
	}
	return 0;
}

void schedule_forget_board(struct daemon *d, struct program *p)
{
	if (p->board != NULL) {
		rbt_board_waiter_remove(d->waiter, p->board);
	}
	p->awaits_end = p->awaits_sync = false;
}

void schedule_forget(struct daemon *d, struct program *p)
{
	schedule_forget_board(d, p);
	if (p->is_pending) {
		LIST_REMOVE(p, pending);
		p->is_pending = false;
	}
	d->n_hinted -= p->is_hinted;
	p->is_hinted = false;
	if (p->sched != NULL) {
		rbt_sched_remove(d->sched, rbt_now_ns(), p->sched);
		p->sched = NULL;
	}
}

void schedule_tell_gpus(struct daemon *d)
{
	rbt_sched_set_gpus(d->sched, rbt_now_ns(), &d->gpus);
}
