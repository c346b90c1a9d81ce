/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the decision core. For src/sched alone.
 *
 * A *unit* is what has turns: a program, or a group of ranks. It is on or off as a whole. Units of
 * role TURN queue on each of their GPUs (`ready`) or are the `current` one on all of them; units of
 * role FREE are always runnable unless a reserve keeps them off.
 *
 * Events change units and programs, settle what has been used so far before they do, and name in
 * `resched` the GPUs whose turn has to be looked at again; then rbt_turns_run() gives the turns,
 * and rbt_decide_flush() turns what became of the units into decisions.
 */
#ifndef RBT_SCHED_IMPL_H
#define RBT_SCHED_IMPL_H

#include <stddef.h>
#include <sys/queue.h>

#include "sched/class.h"
#include "sched/core.h"
#include "sched/heap.h"
#include "sched/learn.h"
#include "sched/trial.h"

#define RBT_LEVELS (RBT_PRIORITY_MAX + 1)
#define RBT_NEVER  UINT64_MAX /* a time */

#define RBT_OWNER_OF(ptr, type, field) ((type *)(void *)((char *)(ptr)-offsetof(type, field)))

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
	bool is_sole; /* of those admitted and not suspended by command, on all its GPUs */

	bool busy, waiting, in_flight;
	uint64_t patience_ns; /* with something in flight; 0: most of its turn */
	bool was_seen;        /* first_ns and last_ns mean something */
	uint64_t first_ns, last_ns;
	bool is_awaited;    /* the end of its synchronisation will be told */
	unsigned n_awaits;  /* how often that was asked for in this busy period */
	unsigned n_unheard; /* late periods that ended without, though it was */
	bool gaps_are_told;
	unsigned requests; /* begun and not ended */
	uint64_t deadline_ns;

	/* reserve.c */
	bool is_holding;        /* keeps others off now */
	bool has_overstayed;    /* may not again before it has idled */
	uint64_t held_since_ns; /* in this busy period; 0: not yet */
	uint64_t hold_ns;       /* when the present hold began */
	uint64_t engage_ns;     /* when to begin */
	uint64_t submit_ns;     /* how long it submitted before it waited; RBT_NEVER: it has not */
	/* How long to hold after it has synchronised; and after it was last seen to submit, as long
	 * as it has not. */
	uint64_t window_ns, flight_ns;
	struct rbt_learn learn, flight;
	/* Whether reserves are worth it (trial.h). In this busy period, once it is time to reserve:
	 * */
	bool is_judged;  /* that was asked */
	bool was_spared; /* and it began without a reserve */
	bool is_spared;  /* still, up to spared_ns */
	uint64_t spared_ns;
	struct rbt_trial *trial; /* what its length says something about; NULL: nothing */
	struct {
		struct rbt_trial *trial; /* NULL: not measured */
		bool was_reserved;
		uint64_t n_submitted, since_ns;
	} pace;                                       /* of its company, since that request began */
	struct rbt_trials *trials;                    /* NULL: never needed yet, or no memory */
	uint64_t company, company_serial, company_ns; /* as of the last look, and when that was */

	struct rbt_timer check; /* when to look whether it is idle */
	struct rbt_decision decision;
	bool is_changed;
	struct rbt_sched_stats stats;
	LIST_ENTRY(rbt_sched_prog) member;
	LIST_ENTRY(rbt_sched_prog) changed;
};

enum rbt_role { RBT_ROLE_NONE, RBT_ROLE_TURN, RBT_ROLE_FREE };

struct rbt_sched_unit {
	uint64_t group;
	uint64_t id; /* nobody else's, ever */
	LIST_HEAD(, rbt_sched_prog) members;
	LIST_ENTRY(rbt_sched_unit) link;
	LIST_ENTRY(rbt_sched_unit) dirty;
	bool is_dirty;

	/* From its members, while it is in (unit.c). A group is as important as its least. */
	enum rbt_role role;
	uint32_t mask;
	unsigned priority, level; /* level: the priority where the policy is strict, else 0 */
	uint32_t weight;
	uint32_t min_share_permille;
	bool can_suspend;
	bool is_blocked; /* a member is suspended by command */

	bool is_wanting;    /* not known to be idle */
	uint64_t wanted_ns; /* when it last ended to be */
	bool is_on;
	bool is_counted_busy; /* in n_busy of its GPUs */
	uint64_t charged_ns;  /* up to when it has been settled */
	uint64_t on_since_ns;
	struct rbt_timer timer; /* end of its turn, of its guard or of its wait; or a probe */

	/* turns.c */
	struct rbt_heap_node ready[RBT_SCHED_MAX_GPUS];
	bool is_current, is_counted_ready;
	bool had_turn;    /* when it left, to be changed */
	bool was_wanting; /* the same */
	uint64_t left_ns; /* of its turn */
	bool is_over;     /* nothing is left of its turn, and nobody has looked at that yet */
	uint64_t order;   /* when it came, for first come first served and for ties */
	uint64_t vtime_ns[RBT_SCHED_MAX_GPUS]; /* fair.c */
	bool is_forced;                        /* has waited long enough for all its GPUs at once */
	bool is_stuck;     /* it is its turn on all its GPUs, and some are in use */
	uint64_t stuck_ns; /* since when */
	bool is_probing;
	uint64_t probe_ns; /* how long to wait for the next probe; 0: not guessed to be idle */
	uint64_t probe_at_ns;

	/* guard.c */
	bool is_guarded;    /* now served because it is owed */
	bool guard_is_long; /* with the driver's slice, beside others that are busy */
	uint64_t guard_ns;  /* for how long */
	uint64_t served_ns, off_ns;
	uint64_t seen_at_ns, seen_served_ns, seen_off_ns; /* when last it was owed nothing */
	uint64_t seen_above_ns[RBT_SCHED_MAX_GPUS];

	uint32_t free_pos[RBT_SCHED_MAX_GPUS]; /* in the GPU's list of free units, from 1 */
};

struct rbt_sched_gpu {
	struct rbt_heap ready; /* units that are not current, wanting or not */
	struct rbt_sched_unit *current;
	struct rbt_sched_unit **free; /* units of role FREE */
	uint32_t n_free, free_capacity;
	/* Compute tasks that wish for a short slice and are not suspended by command; and all such
	 * tasks, by runlist. */
	uint32_t n_short;
	struct rbt_rule_tally tally;
	uint32_t n_ready[RBT_LEVELS];   /* wanting units in `ready` */
	uint64_t clock_ns[RBT_LEVELS];  /* fair.c: the virtual time of each level */
	uint32_t n_wanting[RBT_LEVELS]; /* units, of both roles */
	uint32_t n_busy[RBT_LEVELS];    /* free units that are on and known to be busy */
	uint32_t n_reserve[RBT_LEVELS]; /* programs that hold it */
	uint64_t above_ns[RBT_LEVELS];  /* how long something above each level has been served */
	uint64_t settled_ns;
	/* Levels with a count above 0, a bit each. */
	uint32_t wanting_bits, busy_bits, reserve_bits;
	uint32_t n_busy_all;
	uint32_t n_guard_long; /* units that have a guard's turn with the driver's slice */
};

struct rbt_sched {
	struct rbt_sched_config config; /* defaults filled in; never: 0 */
	struct rbt_sched_ops ops;
	void *ctx;
	uint64_t now_ns;
	uint64_t next_order;
	uint64_t last_id;
	uint64_t serial; /* of changes to who is there, and of the configuration */
	uint64_t n_configs;
	uint32_t n_progs;
	struct rbt_sched_gpus locks;
	LIST_HEAD(, rbt_sched_unit) units;
	LIST_HEAD(, rbt_sched_unit) dirty;
	LIST_HEAD(, rbt_sched_prog) changed;
	struct rbt_heap timers;
	struct rbt_timer guard_timer;
	uint32_t n_shares;               /* units with a min_share */
	uint32_t resched;                /* GPUs whose turn is to be looked at */
	uint32_t touched;                /* GPUs settled since guard.c last looked */
	struct rbt_sched_prog **latency; /* programs of the class, in the order they came */
	uint32_t n_latency, latency_capacity;
	struct rbt_sched_gpu gpus[RBT_SCHED_MAX_GPUS];
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

/* The unit behind the first of a queue, or NULL. */
struct rbt_sched_unit *rbt_ready_top(const struct rbt_sched_gpu *gpu, uint32_t g);

/* unit.c */

/* UINT64_MAX: no timer. */
void rbt_timer_set(struct rbt_sched *s, struct rbt_timer *timer, uint64_t at_ns);
void rbt_unit_mark(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Adds up what its GPUs have done until now. To be called before anything about them changes. */
void rbt_unit_settle(struct rbt_sched *s, struct rbt_sched_unit *u);
void rbt_gpu_settle(struct rbt_sched *s, struct rbt_sched_gpu *gpu);
/* Takes part, with what its members say; or no more, so that they can be changed. */
void rbt_unit_enter(struct rbt_sched *s, struct rbt_sched_unit *u);
void rbt_unit_leave(struct rbt_sched *s, struct rbt_sched_unit *u);
/* After a member has become busy or idle. */
void rbt_unit_update_wanting(struct rbt_sched *s, struct rbt_sched_unit *u);
/* After it has got or lost its turn, or a reserve came or went. */
void rbt_unit_update_on(struct rbt_sched *s, struct rbt_sched_unit *u);
/* The priority that counts: latency programs that were not admitted are normal ones. */
unsigned rbt_prog_priority(const struct rbt_sched_prog *p);

/* admit.c. Decides anew who of the latency programs is treated as one. */
void rbt_admit(struct rbt_sched *s);
/* Before `p` is changed or gone, and after. 0 or -ENOMEM. */
int rbt_admit_reserve(struct rbt_sched *s);
void rbt_admit_forget(struct rbt_sched *s, struct rbt_sched_prog *p);
void rbt_admit_join(struct rbt_sched *s, struct rbt_sched_prog *p);

/* turns.c */
void rbt_turns_enter(struct rbt_sched *s, struct rbt_sched_unit *u);
void rbt_turns_leave(struct rbt_sched *s, struct rbt_sched_unit *u);
/* After its place in the queues has changed. */
void rbt_turns_update(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Its timers, after anything about it or its company has changed. */
void rbt_turns_arm(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Its timer has come. */
void rbt_turns_expire(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Looks at the GPUs in `resched`. */
void rbt_turns_run(struct rbt_sched *s);
/* A reserve ends that has kept it off, in its turn. */
void rbt_turns_let_back(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Whether somebody waits for what it has. */
bool rbt_turns_is_contested(struct rbt_sched *s, const struct rbt_sched_unit *u);

/* fair.c: virtual time */
uint64_t rbt_fair_key(const struct rbt_sched_unit *u, uint32_t g);
void rbt_fair_charge(struct rbt_sched *s, struct rbt_sched_unit *u, uint64_t dt_ns);
/* Begins to want, for the first time or again; or gets its turn. */
void rbt_fair_join(struct rbt_sched *s, struct rbt_sched_unit *u, bool is_new);
void rbt_fair_start(struct rbt_sched *s, struct rbt_sched_unit *u);

/* guard.c: no starvation */
void rbt_guard_enter(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Sets the timer when somebody is being kept waiting by higher priorities. */
void rbt_guard_arm(struct rbt_sched *s);
void rbt_guard_scan(struct rbt_sched *s);
void rbt_guard_end(struct rbt_sched *s, struct rbt_sched_unit *u);
/* Levels below this are kept waiting on the GPU now. */
unsigned rbt_guard_top(const struct rbt_sched_gpu *gpu);

/* busy.c: who is busy */
bool rbt_prog_is_wanting(const struct rbt_sched *s, const struct rbt_sched_prog *p);
/* A submission now. */
void rbt_busy_begin(struct rbt_sched *s, struct rbt_sched_prog *p);
/* The number of open requests has changed. */
void rbt_busy_request(struct rbt_sched *s, struct rbt_sched_prog *p);
/* Looks, and takes it for idle if so. */
void rbt_busy_check(struct rbt_sched *s, struct rbt_sched_prog *p);
void rbt_busy_arm(struct rbt_sched *s, struct rbt_sched_prog *p);

/* company.c */
/* A number for the units that would be kept off for `p`. It stays the same while these units, which
 * are at work or were within the last second, their priorities, and all else that decides how they
 * share the GPU stay the same. 0: there are none. */
uint64_t rbt_company_of(struct rbt_sched *s, struct rbt_sched_prog *p);
/* What they have submitted so far, together. False: not known of all of them. */
bool rbt_company_progress(struct rbt_sched *s, const struct rbt_sched_prog *p, uint64_t *ret);
/* Whether one of them wants the GPU now. */
bool rbt_company_is_wanting(struct rbt_sched *s, const struct rbt_sched_prog *p);

/* reserve.c */
bool rbt_reserve_applies(const struct rbt_sched *s, const struct rbt_sched_prog *p);
/* Busy now; idle now. */
void rbt_reserve_begin(struct rbt_sched *s, struct rbt_sched_prog *p);
void rbt_reserve_end(struct rbt_sched *s, struct rbt_sched_prog *p);
/* Its check timer has come, and it is still busy. */
void rbt_reserve_check(struct rbt_sched *s, struct rbt_sched_prog *p);
/* When that should be, besides looking for idleness. */
uint64_t rbt_reserve_next(const struct rbt_sched *s, const struct rbt_sched_prog *p);
/* Lets go without forgetting: its unit leaves, to enter again. */
void rbt_reserve_let_go(struct rbt_sched *s, struct rbt_sched_prog *p);
/* The level below which everybody is kept off the GPU. */
unsigned rbt_reserve_level(const struct rbt_sched_gpu *gpu);

/* decide.c */
/* Whether it has a slice on the GPU that is longer than the driver's because of its class. */
bool rbt_prog_is_long(const struct rbt_sched *s, const struct rbt_sched_prog *p, uint32_t g);
void rbt_decide_flush(struct rbt_sched *s);
/* Compute tasks of the program on a GPU that wish for a short slice. */
uint32_t rbt_prog_short_tasks(const struct rbt_sched_prog *p, uint32_t g);
/* Runlists on which a copy task of the program does. */
uint64_t rbt_prog_short_copies(const struct rbt_sched_prog *p, uint32_t g);

#endif
