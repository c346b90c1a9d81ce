/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the model and the decision core (sched/core.h): what the core is told of programs, GPUs
 * and boards, and when it is asked.
 *
 * Nothing here spins. The core names the next moment at which it has something to do, and the loop
 * waits until then. For an idle program, the loop itself waits on the futex of its board
 * (board/waiter.h). If all programs are idle or alone on their GPUs, there is no such moment at
 * all. Only the end of a request that a program has announced is polled, less and less often,
 * because it makes no call that the daemon would see.
 */
#include "daemon/schedule.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "daemon/daemon.h"
#include "daemon/kick.h"
#include "daemon/metrics/accounting.h"
#include "daemon/params.h"
#include "daemon/peers/crowd.h"
#include "daemon/program.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

/* A program can make its board report any number of pauses. That may spoil its own window, but must
 * not cost the daemon's time. */
#define MAX_GAPS 512

/* How often the end of a request is polled if it cannot be waited for: the shortest and the longest
 * interval, and in between a share of the time that the request has taken. */
#define HINT_MIN_NS (200 * RBT_NS_PER_US)
#define HINT_MAX_NS (20 * RBT_NS_PER_MS)
#define HINT_SHARE  32

/* The length that stands for a gap of this class: just below its upper end, so that a window that
 * is learnt from it covers the gap. */
static uint64_t gap_ns_of(uint32_t bucket)
{
	return ((uint64_t)RBT_BOARD_GAP_UNIT_NS << bucket) / 16 * 15;
}

/* The core itself sees the gap before a program becomes busy. The board may have counted it too, if
 * it came after a synchronisation: once, or as a sample for those that it does not count. */
static void forget_edge_gap(struct program *p, const uint32_t *gaps)
{
	uint32_t bucket =
		rbt_board_bucket(p->reader.edge_gap_ns, RBT_BOARD_GAP_UNIT_NS, RBT_BOARD_GAPS);
	uint32_t lowest = bucket > 0 ? bucket - 1 : 0;

	if (p->reader.edge_gap_ns == 0) {
		return;
	}
	p->reader.edge_gap_ns = 0;
	for (uint32_t i = bucket + 1; i-- > lowest;) {
		uint32_t n = gaps[i] - p->reader.gaps[i];

		if (n > 0) {
			p->reader.gaps[i] += n < RBT_BOARD_GAP_SAMPLE ? n : RBT_BOARD_GAP_SAMPLE;
			return;
		}
	}
}

static void tell_gaps(struct program *p, const struct rbt_board_reading *reading)
{
	forget_edge_gap(p, reading->gaps);
	for (uint32_t i = 0; i < RBT_BOARD_GAPS; i++) {
		uint32_t n = reading->gaps[i] - p->reader.gaps[i];

		p->reader.gaps[i] = reading->gaps[i];
		if (n > 0) {
			rbt_sched_gap(p->sched.prog, gap_ns_of(i), n < MAX_GAPS ? n : MAX_GAPS);
		}
	}
}

static void read_board(
	struct daemon *d, struct program *p, uint64_t now_ns, struct rbt_board_reading *ret)
{
	rbt_board_read(p->reader.board, &p->reader.watch, now_ns, ret);
	p->request.is_open = ret->in_request;
	p->request.deadline_ns = ret->deadline_ns;
	d->sched.hints.has_changed =
		d->sched.hints.has_changed || p->request.is_open != p->request.is_hinted;
}

static bool poll_board(void *ctx, void *owner, struct rbt_activity *ret)
{
	struct program *p = owner;
	struct rbt_board_reading reading;

	if (p->reader.board == NULL) {
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

/* Stops waiting for the end of requests and of a synchronisation. */
static void await_no_more(struct daemon *d, struct program *p)
{
	if (p->request.awaits_end || p->request.awaits_sync) {
		p->request.awaits_end = p->request.awaits_sync = false;
		rbt_board_waiter_remove(d->sched.waiter, p->reader.board);
		rbt_board_awake(p->reader.board);
	}
}

static bool doze(void *ctx, void *owner)
{
	struct daemon *d = ctx;
	struct program *p = owner;

	if (p->reader.board == NULL) {
		return true;
	}
	await_no_more(d, p);
	if (!rbt_board_doze(p->reader.board, &p->reader.watch)) {
		return false;
	}
	int r = rbt_board_waiter_add(d->sched.waiter, p->reader.board);
	if (r < 0) {
		/* The program is polled instead. */
		rbt_debug("process %d cannot be waited for: %s", (int)p->pid, strerror(-r));
		rbt_board_awake(p->reader.board);
		return false;
	}
	return true;
}

static bool await_sync(void *ctx, void *owner)
{
	struct daemon *d = ctx;
	struct program *p = owner;

	if (p->reader.board == NULL || p->request.awaits_end ||
		!rbt_board_await_sync(p->reader.board, &p->reader.watch)) {
		return false;
	}
	p->request.awaits_sync = rbt_board_waiter_add(d->sched.waiter, p->reader.board) == 0;
	if (!p->request.awaits_sync) {
		rbt_board_awake(p->reader.board);
	}
	return p->request.awaits_sync;
}

static bool progress(void *ctx, void *owner, uint64_t *ret)
{
	const struct program *p = owner;

	if (p->reader.board == NULL) {
		return false;
	}
	*ret = rbt_board_progress(p->reader.board).n;
	return true;
}

static const struct rbt_sched_ops ops = {.poll = poll_board,
	.doze = doze,
	.await = await_sync,
	.progress = progress,
	.admit = events_admit};

static struct program *find_by_board(struct daemon *d, const struct rbt_board *board)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (p->reader.board == board) {
			return p;
		}
	}
	return NULL;
}

/* Plans when the end of announced requests is polled next. */
static void plan_poll(struct daemon *d)
{
	uint64_t now_ns = rbt_now_ns();
	const struct program *p;

	d->sched.hints.poll_ns = UINT64_MAX;
	if (d->sched.hints.n == 0) {
		return;
	}
	LIST_FOREACH (p, &d->programs, entries) {
		uint64_t wait_ns = (now_ns - p->request.hinted_ns) / HINT_SHARE;

		wait_ns = wait_ns > HINT_MIN_NS ? wait_ns : HINT_MIN_NS;
		wait_ns = wait_ns < HINT_MAX_NS && !p->request.awaits_end ? wait_ns : HINT_MAX_NS;
		if (p->request.is_hinted && now_ns + wait_ns < d->sched.hints.poll_ns) {
			d->sched.hints.poll_ns = now_ns + wait_ns;
		}
	}
}

static void await_end(struct daemon *d, struct program *p)
{
	if (p->reader.board == NULL) {
		return;
	}
	await_no_more(d, p);
	if (!rbt_board_await_end(p->reader.board)) {
		return;
	}
	p->request.awaits_end = rbt_board_waiter_add(d->sched.waiter, p->reader.board) == 0;
	if (!p->request.awaits_end) {
		rbt_board_awake(p->reader.board);
	}
}

/* Tells the core of requests that have begun or ended according to boards. Not to be called from
 * within poll_board(). */
static void tell_requests(struct daemon *d)
{
	struct program *p;
	uint64_t now_ns = rbt_now_ns();

	if (!d->sched.hints.has_changed) {
		return;
	}
	d->sched.hints.has_changed = false;
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->sched.prog == NULL || p->request.is_open == p->request.is_hinted) {
			continue;
		}
		p->request.is_hinted = p->request.is_open;
		if (p->request.is_hinted) {
			p->request.hinted_ns = now_ns;
			d->sched.hints.n++;
			rbt_sched_request_begin(
				d->sched.core, now_ns, p->sched.prog, p->request.deadline_ns);
			await_end(d, p);
		} else {
			d->sched.hints.n--;
			await_no_more(d, p);
			rbt_sched_request_end(d->sched.core, now_ns, p->sched.prog);
		}
	}
	plan_poll(d);
}

static void poll_for_ends(struct daemon *d)
{
	struct rbt_board_reading reading;
	struct program *p;

	if (rbt_now_ns() < d->sched.hints.poll_ns) {
		return;
	}
	LIST_FOREACH (p, &d->programs, entries) {
		if (p->request.is_hinted && p->reader.board != NULL) {
			read_board(d, p, rbt_now_ns(), &reading);
			tell_gaps(p, &reading);
			if (p->request.is_open && !p->request.awaits_end) {
				await_end(d, p);
			}
		}
	}
	plan_poll(d);
}

/* The program was last active at last_ns, and has submitted since. */
static void tell_busy(struct daemon *d, struct program *p, uint64_t last_ns, uint64_t now_ns)
{
	uint64_t seen_ns = rbt_board_last_seen(&p->reader.watch);
	struct rbt_sched_stats before;

	p->reader.edge_gap_ns = last_ns != 0 && now_ns > last_ns ? now_ns - last_ns : 0;
	rbt_sched_stats(d->sched.core, p->sched.prog, &before);
	rbt_sched_busy(d->sched.core, now_ns, p->sched.prog);
	/* Queues leave the time of the poll that saw the submission. */
	accounting_seen(d, p, &before, seen_ns > last_ns ? seen_ns : now_ns);
	events_woke(d, p, now_ns);
}

/* Handles programs that have become busy, or whose announced request has ended. */
static void take_woken(struct daemon *d)
{
	struct rbt_board *board;
	bool has_begun = false;

	while ((board = rbt_board_waiter_next(d->sched.waiter)) != NULL) {
		struct program *p = find_by_board(d, board);
		struct rbt_board_reading reading;
		uint64_t now_ns = rbt_now_ns();

		if (p == NULL || p->sched.prog == NULL) {
			continue;
		}
		if (p->request.awaits_sync) {
			p->request.awaits_sync = false;
			rbt_sched_synced(d->sched.core, now_ns, p->sched.prog);
			continue;
		}
		uint64_t last_ns = rbt_board_last_seen(&p->reader.watch);
		read_board(d, p, now_ns, &reading);
		if (p->request.awaits_end) {
			p->request.awaits_end = false;
			tell_gaps(p, &reading);
			/* Another request has begun since, or none has ended. The loop waits for it
			 * again only after the next poll, or a program could keep the daemon here
			 * for ever. */
			if (p->request.is_open) {
				p->request.hinted_ns = now_ns;
				has_begun = true;
			}
			continue;
		}
		tell_busy(d, p, last_ns, now_ns);
	}
	tell_requests(d);
	if (has_begun) {
		plan_poll(d);
	}
}

uint64_t schedule_next(const struct daemon *d)
{
	uint64_t at_ns = rbt_sched_next_tick(d->sched.core);

	at_ns = at_ns < d->kick_ns ? at_ns : d->kick_ns;
	at_ns = at_ns < events_next(d) ? at_ns : events_next(d);
	return at_ns < d->sched.hints.poll_ns ? at_ns : d->sched.hints.poll_ns;
}

void schedule_run(struct daemon *d)
{
	take_woken(d);
	if (rbt_now_ns() >= schedule_next(d)) {
		poll_for_ends(d);
		kick_run(d);
		schedule_tick(d);
	}
	accounting_follow(d);
}

void schedule_tick(struct daemon *d)
{
	tell_requests(d);
	rbt_sched_tick(d->sched.core, rbt_now_ns());
	tell_requests(d);
}

static const struct rbt_sched_policy *policy_of(const struct daemon *d)
{
	size_t n;

	return d->sched.config.policy != NULL ? d->sched.config.policy : rbt_sched_policies(&n);
}

bool schedule_takes_turns(const struct daemon *d, unsigned priority)
{
	const struct rbt_sched_policy *policy = policy_of(d);

	return policy->role(policy->ctx, priority) == RBT_ROLE_TURN;
}

const char *schedule_policy(const struct daemon *d)
{
	return policy_of(d)->name;
}

int schedule_start(struct daemon *d)
{
	int r = rbt_sched_create(&d->sched.config, &ops, d, &d->sched.core);

	d->sched.hints.poll_ns = d->kick_ns = UINT64_MAX;
	/* The kernel may delay the end of a wait by this much; the default is 50 us, as long as a
	 * wake-up takes. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	return r < 0 ? r : rbt_board_waiter_create(d->epoll_fd, &d->sched.waiter);
}

int schedule_configure(struct daemon *d, const struct rbt_sched_config *config)
{
	int r = rbt_sched_configure(d->sched.core, rbt_now_ns(), config);

	if (r == 0) {
		d->sched.config = *config;
		d->dirty = true;
	}
	return r;
}

void schedule_stop(struct daemon *d)
{
	rbt_board_waiter_destroy(d->sched.waiter);
	rbt_sched_destroy(d->sched.core);
}

/* A program's parameters change by themselves when its setup ends, and when it may be suspended
 * again: the core is to be told then. */
static void plan_retell(struct daemon *d, const struct program *p, uint64_t now_ns)
{
	uint64_t at_ns = UINT64_MAX;

	(void)program_is_in_setup(p, now_ns, &at_ns);
	if (now_ns < p->sched.no_turns_until_ns && p->sched.no_turns_until_ns < at_ns) {
		at_ns = p->sched.no_turns_until_ns;
	}
	if (at_ns != UINT64_MAX && (d->retry_ns == 0 || at_ns < d->retry_ns)) {
		d->retry_ns = at_ns;
	}
}

/* Whether both are the same in what params_fill() fills in. */
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

	params_fill(d, p, now_ns, &params);
	plan_retell(d, p, now_ns);
	if (p->sched.prog == NULL) {
		r = rbt_sched_add(d->sched.core, now_ns, &params, p, &p->sched.prog);
	} else if (!is_same(&params, &p->sched.params)) {
		r = rbt_sched_change(d->sched.core, now_ns, p->sched.prog, &params);
	}
	if (r < 0) {
		if (user_may_be_named(p->user)) {
			rbt_warn("process %d cannot be scheduled: %s", (int)p->pid, strerror(-r));
		}
		return r;
	}
	p->sched.params = params;
	p->sched.interleave = params_interleave(p);
	/* Work that was submitted before the daemon saw the board may still be running. */
	if (p->reader.is_new) {
		p->reader.is_new = false;
		rbt_sched_busy(d->sched.core, now_ns, p->sched.prog);
	}
	return 0;
}

void schedule_forget_board(struct daemon *d, struct program *p)
{
	if (p->reader.board != NULL) {
		rbt_board_waiter_remove(d->sched.waiter, p->reader.board);
	}
	p->request.awaits_end = p->request.awaits_sync = false;
}

void schedule_forget(struct daemon *d, struct program *p)
{
	schedule_forget_board(d, p);
	if (p->sched.is_pending) {
		LIST_REMOVE(p, sched.pending);
		p->sched.is_pending = false;
	}
	d->sched.hints.n -= p->request.is_hinted;
	p->request.is_hinted = false;
	if (p->sched.prog != NULL) {
		rbt_sched_remove(d->sched.core, rbt_now_ns(), p->sched.prog);
		p->sched.prog = NULL;
	}
}

void schedule_tell_gpus(struct daemon *d)
{
	rbt_sched_set_gpus(d->sched.core, rbt_now_ns(), &d->locks.gpus);
}
