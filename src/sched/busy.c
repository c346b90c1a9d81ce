/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which programs are busy. The start of activity is reported. The core finds the end
 * itself, by polling the program's board when it matters: for a latency program while it is busy,
 * for the program in its turn while another waits, and for other programs when a reserve would take
 * them off.
 */
#include "sched/impl.h"

/* The shortest interval between polls: the caller's timers are not more exact. */
#define POLL_NS UINT64_C(50000)
/*
 * Each poll wakes the daemon, which costs 15 to 40 us of a core. So a program is not polled before
 * its request has lasted as long as the shortest recent one, then often around its expected end,
 * and less and less often after that: the end is found at most a few per cent of the request late.
 */
#define BLIND_MAX_NS UINT64_C(10000000)
#define WAIT_MIN_NS  UINT64_C(200000)
#define WAIT_MAX_NS  UINT64_C(2000000)
#define WAIT_SHARE   16
#define EARLY_SHARE  8
#define CLOSE_MIN_NS UINT64_C(150000)
#define CLOSE_SHARE  4
/* If the return of a synchronisation is reported, the program is not polled before its request has
 * lasted twice as long. A program that synchronises all the time must not cause a report each time.
 * A program whose last requests ended without a report is polled, and a report is tried now and
 * then. */
#define AWAITS_MAX   4
#define AWAIT_MAX_NS UINT64_C(5000000)
#define UNHEARD_MAX  2
#define TRY_EVERY    64
/* The interval between probes grows up to 8 times. */
#define PROBE_MOST 8

static bool has_open_request(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	return p->requests > 0 && (p->deadline_ns == 0 || s->now_ns < p->deadline_ns);
}

bool rbt_prog_is_wanting(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	return p->mask != 0 && (!p->params.is_known || p->busy || has_open_request(s, p));
}

static void note(struct rbt_sched *s, struct rbt_sched_prog *p, const struct rbt_activity *activity)
{
	/* The board is the program's word, which may be nonsense. */
	uint64_t last_ns = activity->last_ns < s->now_ns ? activity->last_ns : s->now_ns;

	p->last_ns = last_ns > p->last_ns ? last_ns : p->last_ns;
	p->waiting = activity->waiting;
	p->in_flight = activity->in_flight;
	if (p->waiting) {
		p->patience_ns = 0; /* its silences end with a synchronisation */
		if (p->submit_ns == RBT_NEVER && p->last_ns >= p->first_ns) {
			p->submit_ns = p->last_ns - p->first_ns;
		}
	}
}

static void poll_board(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	struct rbt_activity activity = {0};

	if (p->params.is_known && s->ops.poll != NULL && s->ops.poll(s->ctx, p->owner, &activity)) {
		note(s, p, &activity);
	}
}

/*
 * How long a program in its turn may be silent before it counts as idle. With work in flight that
 * is most of a turn at first, because a kernel may take long and a waiting call is not always seen.
 * A program that never synchronises always has work in flight: its timeout is halved after each
 * correct guess, that is, if it was silent while it had the GPU.
 */
static uint64_t patience_ns(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	if (!p->in_flight) {
		return rbt_us(s->config.idle_us);
	}
	return p->patience_ns != 0 ? p->patience_ns : rbt_ms(s->config.turn_ms) / 8 * 7;
}

static void lose_patience(const struct rbt_sched *s, struct rbt_sched_prog *p)
{
	uint64_t half_ns = patience_ns(s, p) / 2, least_ns = rbt_us(s->config.idle_us);

	if (p->in_flight) {
		p->patience_ns = half_ns > least_ns ? half_ns : least_ns;
	}
}

/* When the program will count as idle if it shows no more activity. */
static uint64_t idle_at(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	const struct rbt_sched_unit *u = p->unit;
	uint64_t since_ns = p->last_ns;

	if (has_open_request(s, p)) {
		return RBT_NEVER;
	}
	if (!p->params.is_known) {
		return 0; /* an announced request has ended */
	}
	if (p->waiting) {
		return RBT_NEVER;
	}
	if (rbt_reserve_applies(s, p)) {
		uint64_t window_ns = p->in_flight ? p->flight_ns : p->window_ns;
		return since_ns + (window_ns > POLL_NS ? window_ns : POLL_NS);
	}
	if (u->role == RBT_ROLE_TURN || u->was_refused) {
		/* While the program is kept off, its earlier submissions cannot end: its silence
		 * says nothing. */
		if (!u->is_on) {
			return RBT_NEVER;
		}
		since_ns = since_ns > u->on_since_ns ? since_ns : u->on_since_ns;
		return since_ns + patience_ns(s, p);
	}
	return since_ns + rbt_us(s->config.idle_us);
}

static uint64_t clamp(uint64_t ns, uint64_t min_ns, uint64_t max_ns)
{
	return ns < min_ns ? min_ns : ns > max_ns ? max_ns : ns;
}

/* The time until its request may end, judged by the shortest recent one; 0: it may end now. */
static uint64_t blind_time(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint64_t so_far_ns = s->now_ns - p->first_ns, least_ns = rbt_learn_least(&p->learn);

	return least_ns > so_far_ns ? clamp(least_ns - so_far_ns, 0, BLIND_MAX_NS) : 0;
}

/* The time to the next poll while the program waits for the device. */
static uint64_t wait_time(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	const struct rbt_learn *l = &p->learn;
	uint64_t so_far_ns = s->now_ns - p->first_ns, spread_ns = 2 * l->deviation_ns;
	uint64_t wait_ns = blind_time(s, p);

	if (wait_ns > 0) {
		return wait_ns;
	}
	if (so_far_ns + spread_ns < l->request_ns) {
		return clamp(so_far_ns / EARLY_SHARE, WAIT_MIN_NS, WAIT_MAX_NS);
	}
	wait_ns = so_far_ns / WAIT_SHARE;
	if (so_far_ns < l->request_ns + spread_ns) {
		uint64_t close_ns = l->deviation_ns / CLOSE_SHARE;
		return clamp(wait_ns < close_ns ? wait_ns : close_ns, CLOSE_MIN_NS, WAIT_MAX_NS);
	}
	return clamp(wait_ns, WAIT_MIN_NS, WAIT_MAX_NS);
}

/* The time to the next poll while the program goes on submitting. */
static uint64_t submit_time(const struct rbt_sched *s, const struct rbt_sched_prog *p)
{
	uint64_t wait_ns = blind_time(s, p), share_ns = (s->now_ns - p->first_ns) / WAIT_SHARE;

	return wait_ns > 0 ? wait_ns : clamp(share_ns, 0, WAIT_MAX_NS);
}

/* Whether the return of its synchronisation will be reported, once its request may end. */
static bool is_awaited(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (!(p->is_reserving || p->is_spared) || !(p->waiting || p->in_flight) ||
		has_open_request(s, p) || blind_time(s, p) > 0) {
		return false;
	}
	bool is_heard = p->n_unheard < UNHEARD_MAX || p->learn.n_requests % TRY_EVERY == 0;
	if (!p->is_awaited && s->ops.await != NULL && is_heard && p->n_awaits < AWAITS_MAX) {
		p->n_awaits++;
		p->is_awaited = s->ops.await(s->ctx, p->owner);
	}
	return p->is_awaited;
}

/* The time of the next poll, for a program whose end matters. */
static uint64_t next_poll(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	uint64_t at_ns = idle_at(s, p), later_ns = s->now_ns + submit_time(s, p);
	unsigned n_awaits = p->n_awaits;

	if (has_open_request(s, p)) {
		return p->deadline_ns == 0 ? RBT_NEVER : p->deadline_ns;
	}
	if (is_awaited(s, p)) {
		return s->now_ns + clamp(s->now_ns - p->first_ns, WAIT_MIN_NS, AWAIT_MAX_NS);
	}
	if (p->n_awaits > n_awaits) {
		return s->now_ns + POLL_NS; /* a synchronisation has returned since the last poll */
	}
	if (p->waiting) {
		return s->now_ns + wait_time(s, p);
	}
	return p->in_flight && at_ns < later_ns ? later_ns : at_ns;
}

void rbt_busy_arm(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	const struct rbt_sched_unit *u = p->unit;
	uint64_t at_ns = RBT_NEVER;

	if (p->busy && rbt_reserve_applies(s, p)) {
		uint64_t next_ns = rbt_reserve_next(s, p);
		at_ns = next_poll(s, p);
		at_ns = at_ns < next_ns ? at_ns : next_ns;
		/* A program that has overstayed is in no hurry, nor is a burst without a reserve.
		 * But the end of a burst must be found before the next one begins, or both count as
		 * one long burst: once the program has waited, the burst may end at any time. */
		if (!p->is_reserving && p->has_overstayed) {
			uint64_t later_ns = s->now_ns + rbt_us(s->config.idle_us);
			at_ns = at_ns > later_ns ? at_ns : later_ns;
		} else if (!p->is_reserving && p->submit_ns == RBT_NEVER &&
			   p->engage_ns > s->now_ns) {
			at_ns = p->engage_ns;
		}
	} else if (p->busy && !p->params.is_known) {
		at_ns = next_poll(s, p);
	} else if (u->role == RBT_ROLE_TURN && u->is_current && u->is_on && u->is_wanting &&
		   (p->busy || u->is_probing) && p->params.is_known &&
		   rbt_turns_is_contested(s, u)) {
		/* A program that waits for the device is not idle. */
		at_ns = p->waiting ? s->now_ns + 2 * rbt_us(s->config.idle_us) : next_poll(s, p);
	}
	if (at_ns != RBT_NEVER && at_ns < s->now_ns + POLL_NS) {
		at_ns = s->now_ns + POLL_NS;
	}
	rbt_timer_set(s, &p->check, at_ns);
}

static void begin(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	p->busy = true;
	p->first_ns = s->now_ns;
	p->last_ns = s->now_ns;
	p->submit_ns = RBT_NEVER;
	p->is_awaited = false;
	p->n_awaits = 0;
	p->is_judged = p->is_spared = false;
	p->trial = NULL;
	p->unit->is_probing = false;
	p->unit->probe_ns = 0;
	if (!p->unit->is_wanting) {
		rbt_ask_begin(s, p->unit); /* no reserve before the answer */
	}
	rbt_reserve_begin(s, p);
	rbt_unit_update_wanting(s, p->unit);
	rbt_busy_arm(s, p);
}

void rbt_busy_begin(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	p->waiting = false;
	p->is_awaited = false;
	p->was_seen = true;
	p->last_ns = s->now_ns;
	if (p->unit->is_probing) {
		p->patience_ns = 0; /* it was silent because it was kept off */
	}
	if (!p->busy) {
		begin(s, p);
	}
}

/* Guessed to be idle, a unit is given a chance to show that it is not, now and then. */
static void plan_probe(struct rbt_sched *s, struct rbt_sched_unit *u)
{
	uint64_t first_ns = rbt_ms(s->config.probe_ms);

	u->probe_ns = u->probe_ns == 0 ? first_ns : u->probe_ns * 2;
	if (u->probe_ns > PROBE_MOST * first_ns) {
		u->probe_ns = PROBE_MOST * first_ns;
	}
	u->probe_at_ns = s->now_ns + u->probe_ns;
}

/* False when it turns out to be active again. */
static bool end(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (p->params.is_known && s->ops.doze != NULL && !s->ops.doze(s->ctx, p->owner)) {
		p->last_ns = s->now_ns;
		p->is_awaited = false;
		rbt_busy_arm(s, p);
		return false;
	}
	p->busy = false;
	p->waiting = false;
	if (p->n_awaits > 0) {
		p->n_unheard = !p->is_awaited ? 0 : p->n_unheard + (p->n_unheard < UNHEARD_MAX);
	}
	p->is_awaited = false;
	lose_patience(s, p);
	rbt_reserve_end(s, p);
	plan_probe(s, p->unit);
	rbt_unit_update_wanting(s, p->unit);
	rbt_busy_arm(s, p);
	return true;
}

void rbt_busy_request(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	p->is_awaited = false;
	if (p->requests == 0) {
		/* The end of a request says when to end the reserve, not that nothing is in
		 * flight. */
		if (p->busy && p->unit->role != RBT_ROLE_TURN) {
			end(s, p);
		} else {
			rbt_busy_arm(s, p);
		}
	} else if (!p->busy) {
		begin(s, p);
	} else {
		rbt_reserve_begin(s, p);
		rbt_busy_arm(s, p);
	}
}

static void end_probe(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	struct rbt_sched_unit *u = p->unit;

	/* Work that was in flight when the program was taken off may need a whole turn to show. */
	uint64_t wait_ns = p->in_flight ? rbt_ms(s->config.turn_ms) : rbt_us(s->config.idle_us);

	if (u->is_on && s->now_ns >= u->on_since_ns + wait_ns) {
		uint64_t wanted_ns = u->wanted_ns;

		u->is_probing = false;
		plan_probe(s, u);
		rbt_unit_update_wanting(s, u);
		u->wanted_ns = wanted_ns; /* the probe was our wish, not the program's */
	}
}

void rbt_busy_check(struct rbt_sched *s, struct rbt_sched_prog *p)
{
	if (!p->busy) {
		if (p->unit->is_probing) {
			end_probe(s, p);
		}
		rbt_busy_arm(s, p);
		return;
	}
	poll_board(s, p);
	if (s->now_ns >= idle_at(s, p) && end(s, p)) {
		return;
	}
	rbt_reserve_check(s, p);
	rbt_busy_arm(s, p);
}
