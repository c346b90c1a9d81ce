/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision core: events go in, decisions come out. Pure: no I/O and no clock of its own, so
 * that the same code runs in the daemon, in tests with a fake clock, and in the simulator.
 *
 * What it keeps, whatever happens:
 * - the rule that prevents collapse (rule.h): a slice shorter than the driver's own only with the
 *   GPU's lock, and at most one such task runnable on a runlist;
 * - nobody is kept off for ever: see min_share and probe_ms below;
 * - a program, and a group of ranks, is on or off on all its GPUs together.
 *
 * What it does (policy `turns`): best-effort programs take turns, one at a time on a GPU, by
 * weight; a higher priority goes first. Normal and latency programs stay runnable. While a latency
 * program is taken to be busy, everybody of strictly lower priority is kept off its GPUs: that is
 * the reserve. See turns.c, fair.c, reserve.c, guard.c.
 *
 * Use: report events as they happen, with the time; call rbt_sched_tick() when the time that
 * rbt_sched_next_tick() names has come; after either, carry out what rbt_sched_next_change()
 * returns, suspends and longer slices before resumes and shorter ones. Only rbt_sched_create(),
 * rbt_sched_add() and rbt_sched_change() can fail; events cannot. Times are nanoseconds on any
 * clock that does not go back (one that does is taken to stand still). Not thread safe.
 */
#ifndef RBT_SCHED_CORE_H
#define RBT_SCHED_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/class.h"
#include "sched/policy.h"
#include "sched/rule.h"

#define RBT_SCHED_MAX_GPUS 32

/* A machine, and a program on it. */
struct rbt_sched;
struct rbt_sched_prog;

/* 0 stands for the default where a default is named. */
struct rbt_sched_config {
	const struct rbt_sched_policy *policy; /* NULL: turns */
	/* A turn; 60 to 100, default 100. Shorter ones lose to switching, longer ones are felt. */
	uint32_t turn_ms;
	/* Who has the turn, has nothing in flight and shows no activity for this long is idle;
	 * default 5000. */
	uint32_t idle_us;
	/* The most a latency program is held after its last activity (learn.h); default 1000.
	 * RBT_SCHED_NEVER: 0. */
	uint32_t max_hold_us;
	/* A reserve ends after this, and the program shares by slice until it has idled;
	 * default 2000. */
	uint32_t max_reserve_ms;
	/* What a release too early is taken to cost (learn.h); default 1000. */
	uint32_t switch_cost_us;
	/* The slice of a latency program beside short ones, where it is the only one on the GPU;
	 * default 10000. Nobody has to be kept off for a burst that ends within it. At most 100000.
	 * RBT_SCHED_NEVER: the driver's. */
	uint32_t latency_slice_us;
	/* With the driver's slice (2048), a program without gaps is reserved for only when it is
	 * still busy after this, or always is; default 2000: up to then the device does not leave
	 * it anyway, and keeping the others off and letting them back costs them 0.8 ms. */
	uint32_t burst_us;
	/* What a program gets at least of share_window_ms, however busy higher priorities are, in
	 * thousandths; default 20, at most 100. RBT_SCHED_NEVER: nothing. */
	uint32_t min_share_permille;
	uint32_t share_window_ms; /* default 1000, at least 100 */
	/* Programs of class latency on a GPU; those beyond it are treated as normal until a place
	 * is free. Default 8. RBT_SCHED_NEVER: no limit. */
	uint32_t max_latency;
	/* Who was only guessed to be idle and is kept off gets a look after this (and then after
	 * twice that, up to 8 times): the guess may be wrong. Default 1000. */
	uint32_t probe_ms;
	/* Reserves are not given up where they are found to gain nothing (trial.h). */
	bool always_reserve;
	/* Not the core's: how often the queues of devices that tell nothing are looked at, where it
	 * matters; 100 to 5000, default 2000. */
	uint32_t queue_poll_us;
};
#define RBT_SCHED_NEVER UINT32_MAX

/* What a program's board says. */
struct rbt_activity {
	uint64_t last_ns; /* the last submission, returned synchronisation, or query for one */
	bool waiting;     /* a thread waits for the device inside a driver call: busy for sure */
	/* It has submitted since a synchronisation last returned. Something may still be on the
	 * device, or a thread inside a call that waits without our knowing. */
	bool in_flight;
};

/* How the core asks for what it needs at that moment. All optional. */
struct rbt_sched_ops {
	/* The newest activity of a program that is known and busy. False: nothing new is known.
	 * May call rbt_sched_gap(), and nothing else of this header. */
	bool (*look)(void *ctx, void *owner, struct rbt_activity *ret);
	/* The program is about to be taken for idle: from now on its next submission must be
	 * reported with rbt_sched_busy(). False when one has happened meanwhile. */
	bool (*rest)(void *ctx, void *owner);
	/* The next synchronisation of a busy program that returns is to be reported, once, with
	 * rbt_sched_synced(). False when that cannot be, or one has since the last look. No more
	 * than a help: the core goes on looking, less often. rest(), rbt_sched_busy() and the begin
	 * and end of requests take it back. */
	bool (*await)(void *ctx, void *owner);
	/* How much a known program has submitted so far, in any unit. False: that is not known.
	 * Without it, reserves are taken to cost nothing (trial.h). */
	bool (*progress)(void *ctx, void *owner, uint64_t *ret);
};

/* A program's tasks on one GPU. Copy tasks alone, without compute tasks, are left alone. */
struct rbt_sched_tasks {
	uint32_t n_compute;
	/* The shortest own slice of its compute tasks. RBT_TIMESLICE_OWN: the device has none that
	 * could be set; such tasks are only ever taken off, altogether. */
	uint64_t own_us;
	/* Runlists, a bit each (rule.h). Those of its compute tasks; 0: not all are known. */
	uint64_t compute_runlists;
	/* Those on which it has one copy task whose own slice is known, and no other task. */
	uint64_t copy_runlists;
	uint64_t copy_own_us; /* the shortest own slice of these copy tasks */
};

struct rbt_sched_params {
	unsigned priority;     /* 0 to 15 */
	uint32_t weight;       /* 1 to RBT_WEIGHT_MAX; 0 is taken for 1 */
	uint64_t group;        /* ranks with the same number have their turns together; 0: none */
	uint64_t timeslice_us; /* explicit; RBT_TIMESLICE_OWN: by priority */
	struct rbt_limits limits;
	bool suspended; /* by command */
	/* Busy and idle are known: it has a board, and rbt_sched_busy() will be called. Otherwise
	 * it is taken for busy when it comes to turns, and it never reserves. */
	bool is_known;
	/* It has the rights that class latency needs: where the policy lets normal programs
	 * reserve, those without it do not. */
	bool may_reserve;
	/* The device will not take its tasks off: it takes no turns and cannot be kept off. To be
	 * set also after a suspend has failed. */
	bool cannot_suspend;
	struct rbt_sched_tasks tasks[RBT_SCHED_MAX_GPUS];
};

enum rbt_off {
	RBT_ON,
	RBT_OFF_SCHEDULING, /* its compute tasks, "scheduling only": they run at short slices */
	RBT_OFF_FULL,       /* its compute tasks, preempted */
	RBT_OFF_COMMAND,    /* all its tasks, preempted: suspended by command */
};

/* What is to be done to a program. A program that is off keeps its short slice, so that a turn
 * costs one suspend and one resume: whoever resumes out of turn restores slices first. */
struct rbt_decision {
	enum rbt_off off;
	enum rbt_denial denial; /* why something it asked for is not given */
	/* GPUs, a bit each, on which its copy tasks (those of copy_runlists) have the slice of its
	 * compute tasks, which is a short one. All other copy tasks have their own. */
	uint32_t short_copies;
	uint64_t slice_us[RBT_SCHED_MAX_GPUS]; /* RBT_TIMESLICE_OWN: leave or restore its own */
};

/* For accounting, since the program was added. Times as of the last event; of a program whose
 * idleness is not known or does not matter, they count idle time too. */
struct rbt_sched_stats {
	uint64_t on_ns;       /* had the GPU, or a share of it, while it wanted it */
	uint64_t kept_off_ns; /* wanted it and was kept off */
	uint64_t turns;
	uint64_t guard_turns; /* owed to min_share */
	uint64_t reserves;
	uint64_t reserved_ns;
	uint64_t spared;    /* requests without a reserve, to compare or because it gives nothing */
	uint64_t requests;  /* hinted */
	uint64_t window_ns; /* the hold window learnt */
};

/* Why a program is not reserved for that would be, by the policy and its priority. */
enum rbt_unreserved {
	RBT_UNRESERVED_NOT,        /* it is, whenever it needs to be; or would not be anyway */
	RBT_UNRESERVED_UNSEEN,     /* nobody knows what it submits, nor does it announce requests */
	RBT_UNRESERVED_OVERSTAYED, /* busy for longer than max_reserve_ms, since it last idled */
	RBT_UNRESERVED_WORTHLESS,  /* its requests are as fast without, beside these (trial.h) */
};

/* 0, -EINVAL for a configuration out of range, or -ENOMEM. ops may be NULL. */
int rbt_sched_create(const struct rbt_sched_config *config, const struct rbt_sched_ops *ops,
	void *ctx, struct rbt_sched **ret);
void rbt_sched_destroy(struct rbt_sched *s); /* and all its programs */
/* 0, or -EINVAL and nothing has changed. */
int rbt_sched_configure(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_config *config);
/* What a program's own limits come to. No share is 0 here. */
struct rbt_limits rbt_sched_limits(const struct rbt_sched *s, const struct rbt_limits *own);

/* The locks we hold and the marks others have left. */
void rbt_sched_set_gpus(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_gpus *gpus);
/* A bit for each GPU whose lock is to be held: a program there wishes for a short slice. */
uint32_t rbt_sched_locks_wanted(const struct rbt_sched *s);

/* `owner` comes back with decisions and ops. 0, -EINVAL or -ENOMEM. */
int rbt_sched_add(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_params *params,
	void *owner, struct rbt_sched_prog **ret);
/* 0, or -EINVAL or -ENOMEM and nothing has changed. */
int rbt_sched_change(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p,
	const struct rbt_sched_params *params);
void rbt_sched_remove(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);

/* A submission at t: the idle->busy edge, or any further one that the caller happens to see. */
void rbt_sched_busy(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);
/* What ops.await() was asked to tell: a synchronisation has returned. */
void rbt_sched_synced(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);
/* n gaps of about gap_ns, as its board has counted them since they were last told (learn.h). For a
 * program whose gaps are told, the core counts only those that it sees for itself to have been
 * taken for the end of a request; for others, all that end with rbt_sched_busy(). */
void rbt_sched_gap(struct rbt_sched_prog *p, uint64_t gap_ns, uint32_t n);

/* A request begins; until as many ends have come, or the deadline has passed, the program is busy
 * whatever its board says. deadline_ns 0: none. Works for unknown programs too. */
void rbt_sched_request_begin(
	struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p, uint64_t deadline_ns);
void rbt_sched_request_end(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);

/* Does what is due. */
void rbt_sched_tick(struct rbt_sched *s, uint64_t t_ns);
/* When to tick next, after what was last reported; UINT64_MAX: not until something happens. */
uint64_t rbt_sched_next_tick(const struct rbt_sched *s);

/* The owner of a program whose decision has changed since it was last returned here, or NULL. */
void *rbt_sched_next_change(struct rbt_sched *s, const struct rbt_decision **ret);
const struct rbt_decision *rbt_sched_decision(const struct rbt_sched_prog *p);
/* Whether it wants the GPU, as far as is known. */
bool rbt_sched_is_wanting(const struct rbt_sched_prog *p);
enum rbt_unreserved rbt_sched_unreserved(const struct rbt_sched *s, const struct rbt_sched_prog *p);
void rbt_sched_stats(
	struct rbt_sched *s, const struct rbt_sched_prog *p, struct rbt_sched_stats *ret);

#endif
