/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are parked because they are idle (park_idle_s). Idle is a program that has made no
 * driver call for that time, waits for nothing, and has no open request. Its library counts all its
 * calls on its board; board/park.h explains how no call is missed.
 *
 * While such a program is off the GPU, or on its way, each of its calls wakes the daemon, which
 * brings it back. A program whose board is lost comes back at once, because its calls could wake
 * nobody.
 */
#include <errno.h>

#include "board/park.h"
#include "daemon/daemon.h"
#include "daemon/park/order.h"
#include "daemon/program.h"
#include "util/log.h"
#include "util/time.h"

/* How often the calls of a program that may become idle are looked at: a share of its time, within
 * these bounds. */
#define LOOK_SHARE  8
#define LOOK_MIN_NS (20 * RBT_NS_PER_MS)
#define LOOK_MAX_NS RBT_NS_PER_S
/* After a failed attempt. */
#define FAILED_NS (30 * RBT_NS_PER_S)

static uint64_t idle_ns_of(const struct program *p)
{
	return p->treat.park_idle_ms * RBT_NS_PER_MS;
}

/* Whether the program is to be parked once it is idle. The ranks of a group go off together, and
 * only by order. */
static bool is_candidate(const struct daemon *d, const struct program *p)
{
	return p->treat.park_idle_ms != 0 && p->reader.board != NULL &&
	       rbt_park_counts(p->reader.board) && p->group.id == 0 && !p->awaited &&
	       !LIST_EMPTY(&p->clients) && park_find(d, p) == NULL;
}

/* A thread waits for the GPU, or a request is open. */
static bool is_in_use(struct program *p, uint64_t now_ns)
{
	return rbt_board_is_in_use(p->reader.board, now_ns);
}

/* From now on the program's next call ends the wait of the loop. */
static bool listen(struct daemon *d, struct program *p)
{
	if (atomic_load_explicit(&p->reader.board->asleep, memory_order_relaxed) == 0) {
		rbt_board_sleep(p->reader.board);
	}
	if (rbt_board_waiter_add(d->sched.waiter, p->reader.board) == 0) {
		return true;
	}
	rbt_board_awake(p->reader.board);
	return false;
}

/* Afterwards the list of programs may have changed. */
static void try_off(struct daemon *d, struct program *p, uint64_t now_ns)
{
	struct rbt_board *b = p->reader.board;
	uint64_t n_calls = p->idle.n_calls;

	if (is_in_use(p, now_ns) || !rbt_park_begin(b, n_calls)) {
		p->idle.since_ns = now_ns;
		return;
	}
	/* A synchronisation that began before is counted, and was seen above; one that begins now
	 * is a call. */
	pid_t pid = p->pid;
	int r = is_in_use(p, now_ns) ? -EAGAIN : park_order_idle(d, p, n_calls);
	p = program_find(d, pid);
	if (r < 0 && p != NULL && p->reader.board != NULL) {
		rbt_park_end(p->reader.board);
		p->idle.since_ns = now_ns;
		p->idle.look_ns = r == -EAGAIN ? 0 : now_ns + FAILED_NS;
		rbt_debug("process %d is idle, but cannot be parked (%d)", (int)p->pid, r);
	}
}

/* Whether it was tried to park the program. */
static bool look_at(struct daemon *d, struct program *p, uint64_t now_ns)
{
	uint64_t n_calls = rbt_park_calls(p->reader.board), every_ns = idle_ns_of(p) / LOOK_SHARE;

	if (now_ns < p->idle.look_ns) {
		return false;
	}
	every_ns = every_ns < LOOK_MIN_NS ? LOOK_MIN_NS : every_ns;
	p->idle.look_ns = now_ns + (every_ns < LOOK_MAX_NS ? every_ns : LOOK_MAX_NS);
	if (p->idle.since_ns == 0 || n_calls != p->idle.n_calls || is_in_use(p, now_ns)) {
		p->idle.n_calls = n_calls;
		p->idle.since_ns = now_ns;
	} else if (now_ns - p->idle.since_ns >= idle_ns_of(p)) {
		try_off(d, p, now_ns);
		return true;
	} else if (p->idle.since_ns + idle_ns_of(p) < p->idle.look_ns) {
		p->idle.look_ns = p->idle.since_ns + idle_ns_of(p);
	}
	return false;
}

/* A parked program that must come back: it has made a call, or could not be heard. */
static bool is_wanted(struct daemon *d, struct program *p, const struct parked *k)
{
	struct rbt_board *b = p->reader.board;

	if (b == NULL || !rbt_park_counts(b) || rbt_park_calls(b) != k->n_calls) {
		return true;
	}
	if (!listen(d, p)) {
		return true;
	}
	/* Again: a call may have come before the daemon could be woken by it. */
	atomic_thread_fence(memory_order_seq_cst);
	return rbt_park_calls(b) != k->n_calls;
}

static void bring_back(struct daemon *d, struct parked *k)
{
	k->is_wanted_off = false;
	if (k->job != NULL && k->job->goal == RBT_PARK_GOAL_OFF) {
		job_cancel(k->job);
	}
	park_write(d);
	park_tick(d, rbt_now_ns());
}

void park_idle_run(struct daemon *d)
{
	uint64_t now_ns = rbt_now_ns();
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		struct parked *k = park_find(d, p);

		if (k != NULL && k->is_idle && k->is_wanted_off) {
			if (is_wanted(d, p, k)) {
				bring_back(d, k);
			}
		} else if (is_candidate(d, p) && look_at(d, p, now_ns)) {
			return; /* the others have their turn after this */
		}
	}
}

uint64_t park_idle_next(const struct daemon *d)
{
	uint64_t next_ns = UINT64_MAX;
	const struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		if (is_candidate(d, p) && p->idle.look_ns < next_ns) {
			next_ns = p->idle.look_ns;
		}
	}
	return next_ns;
}

void park_idle_came_back(struct daemon *d, struct program *p, bool has_failed)
{
	p->idle = (struct program_idle){.look_ns = has_failed ? rbt_now_ns() + FAILED_NS : 0};
	if (p->reader.board != NULL) {
		rbt_park_end(p->reader.board);
	}
}
