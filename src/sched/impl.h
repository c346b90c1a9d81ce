/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the decision core, for src/sched alone.
 *
 * A *unit* takes turns as a whole: it is a program, or a group of ranks. Units of role TURN wait in
 * the queue (`ready`) of each of their GPUs, or are the `current` unit on all of them. Units of
 * role FREE are always runnable unless a reserve keeps them off.
 *
 * An event first settles the accounts (rbt_unit_settle), then changes units and programs, and sets
 * a bit in `resched` for each GPU whose turn may change. After that, rbt_turns_run() gives the
 * turns, and rbt_decide_flush() makes decisions of the changed units.
 */
#ifndef RBT_SCHED_IMPL_H
#define RBT_SCHED_IMPL_H

#include <stddef.h>
#include <sys/queue.h>

#include "sched/class.h"
#include "sched/core.h"
#include "sched/count.h"
#include "sched/heap.h"
#include "sched/learn.h"
#include "sched/trial.h"
#include "util/owner.h"

#define RBT_LEVELS (RBT_PRIORITY_MAX + 1)
#define RBT_NEVER  UINT64_MAX /* a time */

struct rbt_timer {
	struct rbt_heap_node node; /* major: when */
	enum { RBT_TIMER_PROG, RBT_TIMER_UNIT, RBT_TIMER_GUARD } kind;
};

struct rbt_sched_prog {
	struct rbt_sched_unit *unit;
	void *owner;
	struct rbt_sched_params params;
	uint32_t mask; /* GPUs it has compute tasks on */
	bool is_admitted;
	bool is_sole; /* the only admitted, not suspended latency program on all its GPUs */

	bool busy, waiting, in_flight;
	uint64_t patience_ns; /* timeout with work in flight; 0: most of its turn */
	bool was_seen;        /* first_ns and last_ns are valid */
	uint64_t first_ns, last_ns;
	bool is_awaited;    /* the return of its synchronisation will be reported */
	unsigned n_awaits;  /* number of such orders in this busy period */
	unsigned n_unheard; /* recent busy periods that ended without the ordered report */
	bool gaps_are_told;
	unsigned requests; /* announced requests that have not ended */
	uint64_t deadline_ns;

	/* reserve.c */
	bool is_reserving;          /* has a reserve now */
	bool has_overstayed;        /* gets no reserve before it has idled */
	uint64_t reserved_since_ns; /* first reserve of this busy period; 0: none yet */
	uint64_t reserve_ns;        /* start of the present reserve */
	uint64_t engage_ns;         /* when the reserve shall begin */
	uint64_t submit_ns; /* from first submission to first wait; RBT_NEVER: no wait yet */
	/* How long the reserve lasts after a synchronisation has returned (window_ns), and after
	 * the last submission while work is in flight (flight_ns). */
	uint64_t window_ns, flight_ns;
	struct rbt_learn learn, flight;
	/* Whether reserves are worth their cost (trial.h), for this busy period. */
	bool is_judged;  /* the trial has been asked */
	bool was_spared; /* the period began without a reserve */
	bool is_spared;  /* it still has none, until spared_ns */
	uint64_t spared_ns;
	struct rbt_trial *trial; /* gets the length of this request; NULL: nothing to learn */
	struct {
		struct rbt_trial *trial; /* NULL: not measured */
		bool was_reserved;
		uint64_t n_submitted, since_ns;
	} pace;                                       /* of its company, since the last request */
	struct rbt_trials *trials;                    /* NULL: not needed yet, or no memory */
	uint64_t company, company_serial, company_ns; /* as of the last check, and its time */

	struct rbt_timer check; /* when to check whether it is idle */
	struct rbt_decision decision;
	bool is_changed;
	struct rbt_sched_stats stats;
	LIST_ENTRY(rbt_sched_prog) member;
	LIST_ENTRY(rbt_sched_prog) changed;
};

struct rbt_sched_unit {
	uint64_t group;
	uint64_t id; /* unique for ever */
	LIST_HEAD(, rbt_sched_prog) members;
	LIST_ENTRY(rbt_sched_unit) entries;
	LIST_ENTRY(rbt_sched_unit) dirty;
	bool is_dirty;

	/* Derived from its members while it takes part (unit.c). The priority of a group is the
	 * lowest of its members. */
	enum rbt_role role; /* never RESERVE, but FREE: see has_reserve */
	bool has_reserve;   /* the policy gives reserves to its priority */
	uint32_t mask;
	unsigned priority, level; /* level: the priority if the policy is strict, else 0 */
	uint32_t weight;
	uint32_t min_share_permille;
	uint64_t turn_ns; /* set by the user, without slices; 0: the policy's */
	bool can_suspend;
	bool no_slices;  /* on all its GPUs: it stays on while it idles */
	bool is_blocked; /* a member is suspended by command */

	bool is_wanting;    /* not known to be idle */
	uint64_t wanted_ns; /* when it last stopped wanting */
	bool is_on;
	bool is_counted_busy; /* in n_busy of its GPUs */
	uint64_t charged_ns;  /* its account is settled up to here */
	uint64_t on_since_ns;
	struct rbt_timer timer; /* end of its turn, guard turn or wait; or its next probe */

	/* turns.c */
	struct rbt_heap_node ready[RBT_MAX_GPUS];
	bool is_current, is_counted_ready;
	bool had_turn;    /* when it left, to be changed */
	bool was_wanting; /* the same */
	uint64_t left_ns; /* of its turn */
	bool is_over;     /* its turn is used up, and has not been ended yet */
	uint64_t order;   /* when it came, for first come first served and for ties */
	uint64_t vtime_ns[RBT_MAX_GPUS]; /* fair.c */
	bool is_forced;                  /* has waited long enough for all its GPUs at once */
	bool is_stuck;                   /* it is its turn on all its GPUs, and some are in use */
	uint64_t stuck_ns;               /* since when */
	bool is_unasked; /* it is current, and its turn has begun without the question */
	bool is_probing;
	uint64_t probe_ns; /* how long to wait for the next probe; 0: not guessed to be idle */
	uint64_t probe_at_ns;

	/* ask.c */
	/* The policy has refused it. If it takes turns, it is out of their order until ask_ns, when
	 * it is queued to be asked about again; otherwise it is kept off. */
	bool is_refused;
	bool was_refused; /* the same, and until it is admitted or does not want the GPU */
	bool is_answered; /* asked_ns and is_allowed are valid */
	bool is_allowed;  /* the last answer */
	uint64_t asked_ns;
	uint64_t ask_ns; /* when it is asked about next; with role TURN: if it is refused */
	bool is_due;     /* it is asked about at the end of this event */
	LIST_ENTRY(rbt_sched_unit) due;

	/* guard.c */
	bool is_guarded;    /* has a guard turn, because it is owed time */
	bool guard_is_long; /* with the default slice, beside other busy programs */
	uint64_t guard_ns;  /* length of the guard turn */
	uint64_t served_ns, off_ns;
	uint64_t denied_ns; /* of off_ns, since the policy refused it */
	/* when last it was owed nothing */
	uint64_t seen_at_ns, seen_served_ns, seen_off_ns, seen_denied_ns;
	uint64_t seen_above_ns[RBT_MAX_GPUS];

	uint32_t free_pos[RBT_MAX_GPUS]; /* in the GPU's list of free units, from 1 */
};

/* How long a GPU was in use, in eighths of about a second. */
#define RBT_LOAD_SLOTS 8
struct rbt_load_slot {
	uint64_t number; /* since time 0 */
	uint64_t used_ns;
};

struct rbt_sched_gpu {
	struct rbt_heap ready; /* units that are not current, whether they want the GPU or not */
	struct rbt_sched_unit *current;
	struct rbt_sched_unit **free; /* units of role FREE */
	uint32_t n_free, free_capacity;
	/* Compute tasks that wish for a short slice and are not suspended by command (n_short), and
	 * all such tasks by runlist. */
	uint32_t n_short;
	struct rbt_rule_tally tally;
	uint32_t n_ready[RBT_LEVELS];   /* units in `ready` that may have the next turn */
	uint64_t clock_ns[RBT_LEVELS];  /* fair.c: the virtual time of each level */
	uint32_t n_wanting[RBT_LEVELS]; /* units of both roles that want the GPU */
	uint32_t n_busy[RBT_LEVELS];    /* free units that are on and certainly busy */
	uint32_t n_reserve[RBT_LEVELS]; /* programs with a reserve */
	uint64_t above_ns[RBT_LEVELS];  /* how long something above each level has been served */
	uint64_t settled_ns;
	/* Levels with a count above 0, a bit each. */
	uint32_t wanting_bits, busy_bits, reserve_bits;
	uint32_t n_busy_all;
	uint32_t n_guard_long; /* units in a guard turn at the driver's slice */

	/* load.c */
	uint32_t n_class[RBT_CLASS_LATENCY + 1]; /* programs that are not suspended by command */
	uint32_t
		seen_class[RBT_CLASS_LATENCY + 1]; /* ask.c: n_class at the end of the last event */
	struct rbt_load_slot load[RBT_LOAD_SLOTS];
};

struct rbt_sched {
	struct rbt_sched_config config; /* with defaults filled in; RBT_SCHED_NEVER becomes 0 */
	struct rbt_sched_ops ops;
	void *ctx;
	uint64_t now_ns;
	uint64_t next_order;
	uint64_t last_id;
	uint64_t serial; /* counts changes of programs and configuration */
	uint64_t n_configs;
	uint32_t n_progs;
	struct rbt_sched_gpus locks;
	LIST_HEAD(, rbt_sched_unit) units;
	LIST_HEAD(, rbt_sched_unit) dirty;
	LIST_HEAD(, rbt_sched_unit) due; /* units to be asked about */
	LIST_HEAD(, rbt_sched_prog) changed;
	struct rbt_heap timers;
	struct rbt_timer guard_timer;
	uint32_t n_shares;               /* units with a min_share */
	uint32_t n_refused;              /* units with was_refused */
	uint32_t resched;                /* GPUs whose turn must be decided again */
	uint32_t touched;                /* GPUs settled since guard.c last ran */
	uint32_t recounted;              /* GPUs whose n_class may have changed in this event */
	struct rbt_sched_prog **latency; /* programs of class latency, in order of arrival */
	uint32_t n_latency, latency_capacity;
	struct rbt_sched_gpu gpus[RBT_MAX_GPUS];
};

static inline uint32_t rbt_first_bit(uint32_t mask)
{
	return (uint32_t)__builtin_ctz(mask);
}

/* The first GPU of `mask`, which must not be empty. */
static inline struct rbt_sched_gpu *rbt_first_gpu(struct rbt_sched *s, uint32_t mask)
{
	return &s->gpus[rbt_first_bit(mask)];
}

static inline uint64_t rbt_us(uint32_t us)
{
	return us * UINT64_C(1000);
}

static inline uint64_t rbt_ms(uint32_t ms)
{
	return ms * UINT64_C(1000000);
}

/* The unit at the head of a queue, or NULL. */
struct rbt_sched_unit *rbt_ready_top(const struct rbt_sched_gpu *gpu, uint32_t g);

/* unit.c */

/* UINT64_MAX: no timer. */
void rbt_timer_set(struct rbt_sched *s, struct rbt_timer *timer, uint64_t at_ns);
void rbt_unit_mark(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Accounts for the time until now. To be called before anything about the unit's GPUs changes. */
void rbt_unit_settle(struct rbt_sched *s, struct rbt_sched_unit *u);
void rbt_gpu_settle(struct rbt_sched *s, struct rbt_sched_gpu *gpu);
/* A unit enters with what its members add up to, and leaves so that members can be changed. */
void rbt_unit_enter(struct rbt_sched *s, struct rbt_sched_unit *u);
void rbt_unit_leave(struct rbt_sched *s, struct rbt_sched_unit *u);
/* To be called after a member has become busy or idle. */
void rbt_unit_update_wanting(struct rbt_sched *s, struct rbt_sched_unit *u);
/* To be called after the unit has got or lost its turn, or a reserve has begun or ended. */
void rbt_unit_update_on(struct rbt_sched *s, struct rbt_sched_unit *u);
/* The effective priority: a latency program that is not admitted counts as normal. */
unsigned rbt_prog_priority(const struct rbt_sched_prog *p);

/* admit.c. Decides again which latency programs are admitted. */
void rbt_admit(struct rbt_sched *s);
/* For `p` before it changes or goes, and after. 0 or -ENOMEM. */
int rbt_admit_reserve(struct rbt_sched *s);
void rbt_admit_forget(struct rbt_sched *s, struct rbt_sched_prog *p);
void rbt_admit_join(struct rbt_sched *s, struct rbt_sched_prog *p);

/* turns.c */
/* The policy's key of `u` on a GPU: the smallest is first. */
static inline uint64_t rbt_unit_key(
	const struct rbt_sched *s, const struct rbt_sched_unit *u, uint32_t g)
{
	return s->config.policy->key(s->config.policy->ctx, u, g);
}
/* Whether `u` may have the next turn. */
static inline bool rbt_unit_is_ready(const struct rbt_sched_unit *u)
{
	return u->is_wanting && (!u->is_refused || u->is_guarded);
}
/* The length of its turns. */
uint64_t rbt_turn_ns(const struct rbt_sched *s, const struct rbt_sched_unit *u);
void rbt_turns_enter(struct rbt_sched *s, struct rbt_sched_unit *u);
void rbt_turns_leave(struct rbt_sched *s, struct rbt_sched_unit *u);
/* To be called after its place in the queues has changed. */
void rbt_turns_update(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Sets its timers. To be called after anything about it or its company has changed. */
void rbt_turns_arm(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Its timer has expired. */
void rbt_turns_expire(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Decides the turns of the GPUs in `resched`. */
void rbt_turns_run(struct rbt_sched *s);
/* A reserve ends that has kept `u` off during its turn. */
void rbt_turns_let_back(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Whether another unit waits for a GPU that `u` has. */
bool rbt_turns_is_contested(struct rbt_sched *s, const struct rbt_sched_unit *u);

/* ask.c: questions to the policy */
/* Whether the policy is asked at all. */
bool rbt_ask_is_on(const struct rbt_sched *s);
/* Whether the policy lets `u` have a turn. */
bool rbt_ask_turn(struct rbt_sched *s, struct rbt_sched_unit *u);
/* `u` is about to want the GPU. If it takes no turns, rbt_ask_run() asks about it. */
void rbt_ask_begin(struct rbt_sched *s, struct rbt_sched_unit *u);
/* `u` leaves, and is not asked about. */
void rbt_ask_drop(struct rbt_sched_unit *u);
/* `u` does not want the GPU any more: the policy is asked again when it does. */
void rbt_ask_forget(struct rbt_sched *s, struct rbt_sched_unit *u);
/* When `u`, which takes no turns, is asked about next. */
uint64_t rbt_ask_next(const struct rbt_sched *s, const struct rbt_sched_unit *u);
/* Asks about `u` if that time has come. */
void rbt_ask_again(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Asks about the units that are due, at the end of an event. */
void rbt_ask_run(struct rbt_sched *s);

/* fair.c: virtual time */
/* key() of policies that order by use. */
uint64_t rbt_fair_key(void *ctx, const struct rbt_sched_unit *u, uint32_t g);
void rbt_fair_charge(struct rbt_sched *s, struct rbt_sched_unit *u, uint64_t dt_ns);
/* `u` begins to want the GPU, for the first time or again; or its turn starts. */
void rbt_fair_join(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_new);
void rbt_fair_start(struct rbt_sched *s, struct rbt_sched_unit *u);

/* load.c: what goes on on a GPU */
void rbt_load_add(struct rbt_sched_gpu *gpu, uint64_t from_ns, uint64_t to_ns);
/* Counts the members of `u` by class. */
void rbt_load_count(struct rbt_sched *s, const struct rbt_sched_unit *u, bool begins);

/* guard.c: no starvation */
void rbt_guard_enter(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Sets the guard's timer if higher priorities keep a unit waiting. */
void rbt_guard_arm(struct rbt_sched *s);
void rbt_guard_scan(struct rbt_sched *s);
void rbt_guard_end(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Units below this level are kept waiting on the GPU now. */
unsigned rbt_guard_top(const struct rbt_sched_gpu *gpu);

/* busy.c: which programs are busy */
bool rbt_prog_is_wanting(const struct rbt_sched *s, const struct rbt_sched_prog *p);
/* The program submits now. */
void rbt_busy_begin(struct rbt_sched *s, struct rbt_sched_prog *p);
/* The number of open requests has changed. */
void rbt_busy_request(struct rbt_sched *s, struct rbt_sched_prog *p);
/* Polls the board, and takes the program for idle if it is. */
void rbt_busy_check(struct rbt_sched *s, struct rbt_sched_prog *p);
void rbt_busy_arm(struct rbt_sched *s, struct rbt_sched_prog *p);

/* company.c */
/* A number for the units that would be kept off for `p`. It stays the same while these units, which
 * are at work or were within the last second, their priorities, and all else that decides how they
 * share the GPU stay the same. 0: there are none. */
uint64_t rbt_company_of(struct rbt_sched *s, struct rbt_sched_prog *p);
/* The sum of their submissions so far. False: not all of them are known. */
bool rbt_company_progress(struct rbt_sched *s, const struct rbt_sched_prog *p, uint64_t *ret);
/* Whether one of these units wants the GPU now. */
bool rbt_company_is_wanting(struct rbt_sched *s, const struct rbt_sched_prog *p);

/* reserve.c */
bool rbt_reserve_applies(const struct rbt_sched *s, const struct rbt_sched_prog *p);
/* Units below this level are kept off the GPU by a reserve of the program; 0: none are. */
unsigned rbt_reserve_rank(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g);
/* The program has become busy; idle. */
void rbt_reserve_begin(struct rbt_sched *s, struct rbt_sched_prog *p);
void rbt_reserve_end(struct rbt_sched *s, struct rbt_sched_prog *p);
/* The check timer has expired, and the program is still busy. */
void rbt_reserve_check(struct rbt_sched *s, struct rbt_sched_prog *p);
/* When the check should be, apart from checks for idleness. */
uint64_t rbt_reserve_next(const struct rbt_sched *s, const struct rbt_sched_prog *p);
/* Ends the reserve but keeps its state: the unit leaves, and will enter again. */
void rbt_reserve_let_go(struct rbt_sched *s, struct rbt_sched_prog *p);
/* Units below this level are kept off the GPU. */
unsigned rbt_reserve_level(const struct rbt_sched_gpu *gpu);

/* decide.c */
/* Whether its class gives it a slice on the GPU that is longer than the driver's. */
bool rbt_prog_is_long(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g);
void rbt_decide_flush(struct rbt_sched *s);
/* The number of its compute tasks on a GPU that wish for a short slice. */
uint32_t rbt_prog_short_tasks(const struct rbt_sched_prog *p, uint32_t g);
/* Runlists on which one of its copy tasks wishes for a short slice. */
uint64_t rbt_prog_short_copies(const struct rbt_sched_prog *p, uint32_t g);

#endif
