/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs and programs, simulated around the decision core with a clock of their own. The device is a
 * fluid: those that are on and have work share a GPU in proportion to their slices, which is what
 * it does over any time much longer than a slice. It goes to whoever has the longest slice of them
 * at once; while it is on its way, it works for nobody. What the core promises is verified after
 * every event.
 */
#ifndef RBT_TESTS_SCHED_SIM_H
#define RBT_TESTS_SCHED_SIM_H

#include "check.h"
#include "sched/core.h"

#define SIM_US          UINT64_C(1000)
#define SIM_MS          UINT64_C(1000000)
#define SIM_S           UINT64_C(1000000000)
#define SIM_OWN_US      2048
#define SIM_MAX_PROGS   64
#define SIM_MAX_SAMPLES 65536

/* A program works in requests of `bursts` bursts with gaps between them, waiting for the end of
 * each burst. burst_ns UINT64_MAX: it never waits for anything. */
struct sim_work {
	uint64_t burst_ns; /* alone on the GPU */
	uint64_t gap_ns;
	unsigned bursts;
	uint64_t period_ns; /* from one request to the next */
	bool is_poisson;    /* period_ns is a mean */
	uint64_t until_ns;  /* no request begins after this; 0: no end */
	bool is_hinted;
	bool hides_waiting; /* its board does not say so */
	bool is_eager;      /* it waits for the last burst only, and has its board count no gap */
	bool is_polling;    /* and not even for that: it asks until it is done */
	bool is_uneven;     /* from half as many bursts to half as many again */
	/* It is eager, and launches its bursts gap_ns apart, half of that more or less, whether or
	 * not earlier ones are done. */
	bool is_queued;
};

struct sim_prog {
	struct sim *sim;
	struct rbt_sched_prog *handle;
	struct rbt_sched_params params;
	struct rbt_decision applied; /* as told */
	struct sim_work work;
	unsigned left;         /* bursts of the present request after this one */
	bool in_burst, in_gap; /* neither: between requests */
	bool is_first;         /* the next submission of its request */
	enum rbt_off then_off; /* what `applied` will say from then_ns on; 0: nothing new */
	uint64_t then_ns;
	uint64_t switch_ns;   /* what switching from it or to it takes, if more than with others */
	bool is_resting;      /* the next submission is to be reported */
	uint64_t report_ns;   /* when it will be; 0: there is none to report */
	bool is_awaited;      /* and the next synchronisation that returns */
	double burst_left_ns; /* of GPU time */
	uint64_t next_ns;     /* end of the gap, or of the pause */
	uint64_t arrival_ns;  /* of the present request */
	uint64_t due_ns;      /* of the next */
	uint64_t last_ns;     /* activity, as on a board */
	double done_ns;       /* GPU time it got, of all its GPUs */
	double off_ns;        /* how long it was off */
	double all_ns;        /* the same, from the beginning */
	uint64_t n_submitted;
	uint64_t n_requests;
	bool is_refused;                   /* for an admit() that knows no better */
	uint64_t took_ns[SIM_MAX_SAMPLES]; /* of the latest requests */
};

/* One GPU on its way from one program to another. */
struct sim_device {
	struct sim_prog *owner;
	uint64_t until_ns; /* when it will be there */
};

struct sim {
	struct rbt_sched *s;
	uint64_t switch_ns;     /* what changing the owner takes */
	uint64_t off_ns, on_ns; /* what taking a program off takes, and letting it back */
	uint64_t poll_ns;       /* how often submissions are looked for; 0: they are told at once */
	struct sim_device devices[RBT_MAX_GPUS];
	uint64_t now_ns;
	uint64_t seed;
	struct sim_prog *progs[SIM_MAX_PROGS];
	unsigned n_progs;
	double idle_ns;   /* no GPU time was used on GPU 0, though somebody had work for it */
	double stolen_ns; /* GPU time that `victim` lost to others between its submissions */
	struct sim_prog *victim;
	uint64_t n_ticks, n_changes;
	bool (*admit)(struct sim_prog *p); /* the policy's answer; NULL: yes */
	uint64_t n_asked;                  /* how often it was asked */
	const char *broken;                /* the first promise that was */
	uint64_t broken_ns;
};

/* The device switches for nothing, and obeys at once. A reserve would be found to gain nothing: the
 * core is told to reserve all the same. */
void sim_init(struct sim *sim, const struct rbt_sched_config *config);
/* The device is slow to switch and to obey, as an H200, and the core is to find out what a reserve
 * is worth. */
void sim_init_slow(struct sim *sim, const struct rbt_sched_config *config);
/* From now on the core can ask for synchronisations. */
void sim_tell_syncs(struct sim *sim);
void sim_finish(struct sim *sim);
/* A program with one compute task on GPU 0; NULL work: a trainer, always busy. */
struct sim_prog *sim_add(
	struct sim *sim, unsigned priority, bool is_known, const struct sim_work *work);
struct sim_prog *sim_add_params(
	struct sim *sim, const struct rbt_sched_params *params, const struct sim_work *work);
void sim_change(struct sim_prog *p);
void sim_remove(struct sim_prog *p);
void sim_run(struct sim *sim, uint64_t for_ns);
/* Forgets what was measured so far, and goes on. */
void sim_reset(struct sim *sim);
uint64_t sim_random(struct sim *sim, uint64_t below);
/* A quantile of what its requests took. */
uint64_t sim_quantile(const struct sim_prog *p, double q);
/* (sum x)^2 / (n sum x^2) of done_ns / weight. */
double sim_jain(struct sim_prog *const *progs, unsigned n);

static inline struct rbt_sched_stats sim_stats(const struct sim_prog *p)
{
	struct rbt_sched_stats stats;

	rbt_sched_stats(p->sim->s, p->handle, &stats);
	return stats;
}

/* That no promise was broken so far. */
static inline void check_kept(const struct sim *sim)
{
	CHECK(sim->broken == NULL);
	if (sim->broken != NULL) {
		fprintf(stderr, "broken at %" PRIu64 " ns: %s\n", sim->broken_ns, sim->broken);
	}
}

#endif
