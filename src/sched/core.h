/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision core: events go in, decisions come out. Pure: no I/O and no clock of its own, so
 * that the same code runs in the daemon, in tests with a fake clock, and in the simulator.
 *
 * Guarantees:
 * - The rule that prevents collapse (rule.h) holds: only the holder of the GPU's lock sets a slice
 *   shorter than the driver's own, and at most one such task is runnable per runlist.
 * - No program is kept off for ever, by whomever: see min_share and probe_ms below.
 * - A program, or a group of ranks, is on or off on all its GPUs together.
 *
 * Policy `turns`: best-effort programs take turns, one at a time per GPU, by weight; a higher
 * priority goes first. Normal and latency programs stay runnable. While a latency program counts as
 * busy, every program of strictly lower priority is kept off its GPUs: that is the reserve. On a
 * GPU without slices, a busy normal program also keeps best-effort programs off. See turns.c,
 * fair.c, reserve.c, guard.c.
 *
 * Use: report events as they happen, with the time. Call rbt_sched_tick() at the time that
 * rbt_sched_next_tick() names. After either, carry out the decisions that rbt_sched_next_change()
 * returns: suspends and longer slices before resumes and shorter ones. Only rbt_sched_create(),
 * rbt_sched_add() and rbt_sched_change() can fail; events cannot. Times are nanoseconds on any
 * monotonic clock (if it goes back, the core's time stands still). Not thread safe.
 */
#ifndef RBT_SCHED_CORE_H
#define RBT_SCHED_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/class.h"
#include "sched/policy.h"
#include "sched/rule.h"
#include "util/limits.h"

/* A machine, and a program on it. */
struct rbt_sched;
struct rbt_sched_prog;

/* 0 stands for the default, if the comment names one. */
struct rbt_sched_config {
	/* Borrowed; must not change while it is in force. NULL: turns. */
	const struct rbt_sched_policy *policy;
	/* Length of a turn; 60 to 100, default 100. With shorter turns, switching costs too much;
	 * users notice longer ones. */
	uint32_t turn_ms;
	/* A program in its turn with nothing in flight is idle after this much silence; default
	 * 5000. */
	uint32_t idle_us;
	/* The longest time that a latency program keeps its reserve after its last activity
	 * (learn.h); default 1000. RBT_SCHED_NEVER: 0. */
	uint32_t max_hold_us;
	/* A reserve ends after this time, and the program shares by slice until it has idled;
	 * default 2000. Without slices it does not end: the others get their min_share. */
	uint32_t max_reserve_ms;
	/* The assumed cost of ending a reserve too early (learn.h); default 1000. */
	uint32_t switch_cost_us;
	/* The slice of a latency program beside short slices, if it is the only latency program on
	 * the GPU; default 10000, at most 100000. A burst that ends within this slice needs no
	 * reserve. RBT_SCHED_NEVER: the driver's slice. */
	uint32_t latency_slice_us;
	/* A program with the driver's slice (2048) and without gaps in its requests gets a reserve
	 * only after it has been busy for this long, or if it always is; default 2000. Until then
	 * the device does not leave it anyway, and a reserve costs the neighbours 0.8 ms. */
	uint32_t burst_us;
	/* The least share of share_window_ms that a program gets, however busy higher priorities
	 * are, in thousandths; default 20, at most 100. RBT_SCHED_NEVER: none. */
	uint32_t min_share_permille;
	uint32_t share_window_ms; /* default 1000, at least 100 */
	/* The most programs of class latency per GPU. Further ones are treated as normal until a
	 * place is free. Default 8. RBT_SCHED_NEVER: no limit. */
	uint32_t max_latency;
	/* A program that is kept off because it seemed idle is let on again after this time, to
	 * check the guess (then after twice that, up to 8 times). Default 1000. */
	uint32_t probe_ms;
	/* Keep reserves even if they are found to gain nothing (trial.h). */
	bool always_reserve;
	/* Not used by the core: how often the daemon polls queues of devices that report no
	 * activity, while it matters; 100 to 5000, default 2000. */
	uint32_t queue_poll_us;
};
#define RBT_SCHED_NEVER UINT32_MAX

/* The state of a program's board. */
struct rbt_activity {
	uint64_t last_ns; /* the last submission, or return or query of a synchronisation */
	bool waiting;     /* a thread waits for the device in a driver call: certainly busy */
	/* The program has submitted work since a synchronisation last returned. The work may still
	 * be on the device, or a thread may wait in a call that the shim does not see. */
	bool in_flight;
};

/* Callbacks through which the core asks for facts. All are optional. */
struct rbt_sched_ops {
	/* The newest activity of a known, busy program. Returns false if there is none. May call
	 * rbt_sched_gap(), and nothing else of this header. */
	bool (*poll)(void *ctx, void *owner, struct rbt_activity *ret);
	/* The program is about to count as idle: its next submission must be reported with
	 * rbt_sched_busy(). Returns false if there has been one meanwhile. */
	bool (*doze)(void *ctx, void *owner);
	/* Asks for one rbt_sched_synced() when a synchronisation of the busy program next returns.
	 * Returns false if that is impossible, or if one has returned since the last reading. The
	 * report only saves polls: the core still polls, less often. doze(), rbt_sched_busy() and
	 * the begin and end of requests cancel the order. */
	bool (*await)(void *ctx, void *owner);
	/* How much a known program has submitted so far, in any unit. Returns false if that is
	 * unknown. Without this callback, reserves count as free of cost (trial.h). */
	bool (*progress)(void *ctx, void *owner, uint64_t *ret);
	/* Asked before a turn of the program begins or goes on, if the policy asks. A program that
	 * takes no turns is asked about when it begins to want the GPU, and about ten times per
	 * second while it does. False: the program is kept off, and asked about again after one
	 * turn, or when other programs come or go (ask.c). It still gets its min_share: guard turns
	 * are not asked about. A program that cannot be suspended runs on. An answer counts for 10
	 * ms. A group is refused if one of its ranks is. May call rbt_sched_load(), and nothing
	 * else of this header. */
	bool (*admit)(void *ctx, void *owner);
};

/* What goes on on a GPU, for those who decide about programs there. */
struct rbt_sched_load {
	/* Programs with compute tasks there that are not suspended by command, by the class that
	 * they are treated as. */
	uint32_t n[RBT_CLASS_LATENCY + 1];
	/* For how much of about the last second a program was on that is known to be busy, or that
	 * had its turn. */
	uint32_t permille;
};

/* A program's tasks on one GPU. A program that has only copy tasks is left alone. */
struct rbt_sched_tasks {
	uint32_t n_compute;
	/* The shortest own slice of its compute tasks. RBT_TIMESLICE_OWN: the slices of this device
	 * cannot be set; such tasks can only be kept off. */
	uint64_t own_us;
	/* Runlists of its compute tasks, one bit each (rule.h); 0: not all are known. */
	uint64_t compute_runlists;
	/* Runlists on which it has one copy task whose own slice is known, and no other task. */
	uint64_t copy_runlists;
	uint64_t copy_own_us; /* the shortest own slice of these copy tasks */
	/* The device has no slices: it runs all runnable tasks side by side, so a class has an
	 * effect only if lower ones are kept off. */
	bool no_slices;
};

struct rbt_sched_params {
	unsigned priority; /* 0 to 15 */
	uint32_t weight;   /* 1 to RBT_WEIGHT_MAX; 0 counts as 1 */
	uint64_t group;    /* ranks with the same number take turns together; 0: none */
	/* Set by the user; RBT_TIMESLICE_OWN: by priority. Without slices, from RBT_TURN_MIN_US on:
	 * the length of its turns. A normal program then takes turns, too. */
	uint64_t timeslice_us;
	struct rbt_limits limits;
	bool suspended; /* by command */
	/* The program has a board, so rbt_sched_busy() will be called. Otherwise it counts as busy
	 * for turns, and never gets a reserve. */
	bool is_known;
	/* The program has the rights that class latency needs. If the policy gives reserves to
	 * normal programs, only those with these rights get one. */
	bool may_reserve;
	/* The device cannot suspend its tasks: it takes no turns and cannot be kept off. Also to be
	 * set after a suspend has failed. */
	bool cannot_suspend;
	struct rbt_sched_tasks tasks[RBT_MAX_GPUS];
};

enum rbt_off {
	RBT_ON,
	RBT_OFF_SCHEDULING, /* its compute tasks, "scheduling only": they run at short slices */
	RBT_OFF_FULL,       /* its compute tasks, preempted */
	RBT_OFF_COMMAND,    /* all its tasks, preempted: suspended by command */
};

/* The decision for one program. A program that is off keeps its short slice, so that a change of
 * turns costs one suspend and one resume. A caller that resumes out of turn must restore slices
 * first. */
struct rbt_decision {
	enum rbt_off off;
	enum rbt_denial denial; /* why a wish of the program is refused */
	/* GPUs, one bit each, on which its copy tasks (those of copy_runlists) get the short slice
	 * of its compute tasks. All other copy tasks keep their own. */
	uint32_t short_copies;
	uint64_t slice_us[RBT_MAX_GPUS]; /* RBT_TIMESLICE_OWN: leave or restore its own */
};

/* For accounting, since the program was added. Times as of the last event. If the idleness of a
 * program is unknown or does not matter, its times include idle time. */
struct rbt_sched_stats {
	uint64_t on_ns;       /* had the GPU, or a share of it, while busy */
	uint64_t kept_off_ns; /* was kept off while busy */
	uint64_t turns;
	uint64_t guard_turns; /* turns given to make up for min_share */
	uint64_t reserves;
	uint64_t reserved_ns;
	uint64_t spared;    /* requests without a reserve, for a trial or because it gains
	                     * nothing */
	uint64_t requests;  /* announced */
	uint64_t displaced; /* programs or groups that its reserves and turns have taken off */
	uint64_t window_ns; /* the learnt window of its reserves */
};

/* Why a program gets no reserve although its priority and the policy allow one. */
enum rbt_unreserved {
	RBT_UNRESERVED_NOT,        /* it gets one when needed; or is not entitled to one */
	RBT_UNRESERVED_UNSEEN,     /* no board, and it announces no requests */
	RBT_UNRESERVED_OVERSTAYED, /* busy for longer than max_reserve_ms without a pause */
	RBT_UNRESERVED_WORTHLESS,  /* its requests are as fast without one in this company
	                            * (trial.h) */
};

/* 0, -EINVAL for a configuration out of range, or -ENOMEM. ops may be NULL. */
int rbt_sched_create(const struct rbt_sched_config *config, const struct rbt_sched_ops *ops,
	void *ctx, struct rbt_sched **ret);
void rbt_sched_destroy(struct rbt_sched *s); /* with all its programs */
/* 0, or -EINVAL with nothing changed. */
int rbt_sched_configure(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_config *config);
/* The longest timeslice for these tasks that takes nothing from other programs. */
uint64_t rbt_sched_fair_slice_us(const struct rbt_sched_tasks *tasks);
/* The limits that apply to a program with these own limits. No share is 0 here. */
struct rbt_limits rbt_sched_limits(const struct rbt_sched *s, const struct rbt_limits *own);

/* The locks that we hold and the marks that other schedulers have left. */
void rbt_sched_set_gpus(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_gpus *gpus);
/* One bit per GPU whose lock is needed because a program there asks for a short slice. */
uint32_t rbt_sched_locks_wanted(const struct rbt_sched *s);

/* `owner` is passed to callbacks and returned with decisions. 0, -EINVAL or -ENOMEM. */
int rbt_sched_add(struct rbt_sched *s, uint64_t t_ns, const struct rbt_sched_params *params,
	void *owner, struct rbt_sched_prog **ret);
/* 0, or -EINVAL or -ENOMEM with nothing changed. */
int rbt_sched_change(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p,
	const struct rbt_sched_params *params);
void rbt_sched_remove(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);

/* A submission at t_ns: the change from idle to busy, or any later one that the caller sees. */
void rbt_sched_busy(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);
/* What ops.await() was asked to tell: a synchronisation has returned. */
void rbt_sched_synced(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);
/* Reports n gaps of about gap_ns that the program's board has counted since the last report
 * (learn.h). If a program's gaps are reported, the core itself counts only gaps that it has
 * mistaken for the end of a request. Otherwise it counts all gaps that end with
 * rbt_sched_busy(). */
void rbt_sched_gap(struct rbt_sched_prog *p, uint64_t gap_ns, uint32_t n);

/* A request begins. The program stays busy, whatever its board says, until as many requests have
 * ended, or the deadline has passed. deadline_ns 0: no deadline. Also works for unknown
 * programs. */
void rbt_sched_request_begin(
	struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p, uint64_t deadline_ns);
void rbt_sched_request_end(struct rbt_sched *s, uint64_t t_ns, struct rbt_sched_prog *p);

/* Handles everything that is due. */
void rbt_sched_tick(struct rbt_sched *s, uint64_t t_ns);
/* The time of the next tick, as of the last event; UINT64_MAX: none until the next event. */
uint64_t rbt_sched_next_tick(const struct rbt_sched *s);

/* Returns the owner of a program whose decision has changed since this function last returned it,
 * or NULL. */
void *rbt_sched_next_change(struct rbt_sched *s, const struct rbt_decision **ret);
const struct rbt_decision *rbt_sched_decision(const struct rbt_sched_prog *p);
/* Whether the program wants the GPU, as far as is known. */
bool rbt_sched_is_wanting(const struct rbt_sched_prog *p);
/* Whether the program has a reserve now. */
bool rbt_sched_is_reserving(const struct rbt_sched_prog *p);
void rbt_sched_load(struct rbt_sched *s, uint32_t gpu, struct rbt_sched_load *ret);
enum rbt_unreserved rbt_sched_unreserved(const struct rbt_sched *s, const struct rbt_sched_prog *p);
void rbt_sched_stats(
	struct rbt_sched *s, const struct rbt_sched_prog *p, struct rbt_sched_stats *ret);

#endif
