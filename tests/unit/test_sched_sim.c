/* SPDX-License-Identifier: Apache-2.0 */
#include "test_sched_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"
#include "sched/impl.h"
#include "test_sched_verify.h"

static bool look(void *ctx, void *owner, struct rbt_activity *ret)
{
	const struct sim_prog *p = owner;

	ret->last_ns = p->work.burst_ns == UINT64_MAX ? p->sim->now_ns : p->last_ns;
	ret->waiting = p->in_burst && !p->work.hides_waiting &&
		       (!p->work.is_eager || p->left == 0) && !p->work.is_polling;
	ret->in_flight = p->work.is_eager && (p->left > 0 || p->work.is_polling);
	return true;
}

static bool doze(void *ctx, void *owner)
{
	struct sim_prog *p = owner;

	p->is_resting = true;
	return true;
}

static bool await(void *ctx, void *owner)
{
	struct sim_prog *p = owner;

	p->is_awaited = true;
	return true;
}

/* A trainer launches a step of a thousand kernels whenever one is done. */
static bool progress(void *ctx, void *owner, uint64_t *ret)
{
	const struct sim_prog *p = owner;

	*ret = p->work.burst_ns == UINT64_MAX ? (uint64_t)(p->all_ns / 31e6) * 1000
					      : p->n_submitted;
	return true;
}

static bool admit(void *ctx, void *owner)
{
	struct sim *sim = ctx;

	sim->n_asked++;
	return sim->admit == NULL || sim->admit(owner);
}

void sim_tell_syncs(struct sim *sim)
{
	sim->s->ops.await = await;
}

static void init(struct sim *sim, const struct rbt_sched_config *config, bool always_reserve)
{
	static const struct rbt_sched_ops ops = {.poll = look, .doze = doze, .admit = admit};
	struct rbt_sched_config own = config != NULL ? *config : (struct rbt_sched_config){0};

	own.always_reserve = always_reserve;
	memset(sim, 0, sizeof(*sim));
	sim->seed = 20260101;
	if (rbt_sched_create(&own, &ops, sim, &sim->s) < 0) {
		abort();
	}
	rbt_sched_set_gpus(sim->s, 0, &(struct rbt_sched_gpus){.locked = UINT32_MAX});
}

void sim_init(struct sim *sim, const struct rbt_sched_config *config)
{
	init(sim, config, true);
}

void sim_init_slow(struct sim *sim, const struct rbt_sched_config *config)
{
	init(sim, config, config != NULL && config->always_reserve);
	sim_tell_syncs(sim);
	sim->s->ops.progress = progress;
	sim->switch_ns = 150 * SIM_US;
	sim->off_ns = sim->on_ns = 400 * SIM_US;
}

void sim_finish(struct sim *sim)
{
	rbt_sched_destroy(sim->s);
	for (unsigned i = 0; i < sim->n_progs; i++) {
		free(sim->progs[i]);
	}
}

uint64_t sim_random(struct sim *sim, uint64_t below)
{
	sim->seed = sim->seed * 6364136223846793005u + 1442695040888963407u;
	return (sim->seed >> 20) % below;
}

/* Takes note of decisions, and that they keep what is promised. */
static void obey(struct sim *sim)
{
	const struct rbt_decision *d;
	struct sim_prog *p;

	while ((p = rbt_sched_next_change(sim->s, &d)) != NULL) {
		enum rbt_off before = p->applied.off;
		uint64_t takes_ns = d->off == RBT_ON ? sim->on_ns : sim->off_ns;

		p->applied = *d;
		if (takes_ns > 0 && (d->off != before || p->then_ns != 0)) {
			p->applied.off = before;
			p->then_off = d->off;
			p->then_ns =
				(p->then_ns > sim->now_ns ? p->then_ns : sim->now_ns) + takes_ns;
		}
		sim->n_changes++;
	}
	if (sim->broken == NULL) {
		sim->broken = sched_verify(sim->s);
		sim->broken_ns = sim->now_ns;
	}
}

static void plan_request(struct sim_prog *p)
{
	uint64_t wait_ns = p->work.period_ns;

	if (p->work.is_poisson) {
		double u = (double)(1 + sim_random(p->sim, 1000000)) / 1000001.0;
		wait_ns = (uint64_t)(-log(u) * (double)wait_ns);
	}
	p->due_ns += wait_ns;
}

/* Tells the core of a submission, at the next poll if there are polls. */
static void report(struct sim_prog *p)
{
	struct sim *sim = p->sim;

	if (sim->poll_ns > 0 && p->report_ns == 0) {
		p->report_ns = (sim->now_ns / sim->poll_ns + 1) * sim->poll_ns;
		return;
	}
	p->report_ns = 0;
	rbt_sched_busy(sim->s, sim->now_ns, p->handle);
}

static void submit(struct sim_prog *p)
{
	struct sim *sim = p->sim;

	p->in_gap = p->work.is_queued && p->left > 0;
	if (p->in_gap) {
		uint64_t gap_ns = p->work.gap_ns;
		p->next_ns = sim->now_ns + gap_ns / 2 + sim_random(sim, gap_ns);
	}
	p->burst_left_ns = (p->in_burst ? p->burst_left_ns : 0) + (double)p->work.burst_ns;
	p->in_burst = true;
	if (!p->work.is_eager || p->is_first) {
		rbt_sched_gap(p->handle, sim->now_ns - p->last_ns, 1);
	}
	if (p->is_resting) {
		p->is_resting = false;
		report(p);
	}
	p->is_first = false;
	p->n_submitted++;
	p->last_ns = sim->now_ns;
}

static void begin_request(struct sim_prog *p)
{
	p->arrival_ns = p->due_ns;
	p->left = p->work.bursts - 1;
	if (p->work.is_uneven) {
		p->left = p->work.bursts / 2 + (unsigned)sim_random(p->sim, p->work.bursts);
	}
	p->is_first = true;
	plan_request(p);
	if (p->work.is_hinted) {
		rbt_sched_request_begin(p->sim->s, p->sim->now_ns, p->handle, 0);
	}
	submit(p);
}

static void end_burst(struct sim_prog *p)
{
	struct sim *sim = p->sim;
	bool is_last = !p->work.is_eager || p->left == 0;

	p->in_burst = false;
	if (p->work.is_queued && p->in_gap) {
		return; /* there is nothing to do until the next */
	}
	p->last_ns = is_last ? sim->now_ns : p->last_ns;
	if (is_last && !p->work.is_polling && p->is_awaited) {
		p->is_awaited = false;
		sim->n_ticks++;
		rbt_sched_synced(sim->s, sim->now_ns, p->handle);
	}
	if (p->left > 0) {
		p->left--;
		p->in_gap = true;
		p->next_ns = sim->now_ns + p->work.gap_ns;
		return;
	}
	p->took_ns[p->n_requests++ % SIM_MAX_SAMPLES] = sim->now_ns - p->arrival_ns;
	if (p->work.is_hinted) {
		rbt_sched_request_end(sim->s, sim->now_ns, p->handle);
	}
}

/* When something happens to it by itself. */
static uint64_t next_of(const struct sim_prog *p)
{
	if (p->in_gap) {
		return p->next_ns;
	}
	if (p->in_burst || p->work.burst_ns == UINT64_MAX) {
		return UINT64_MAX;
	}
	return p->work.until_ns != 0 && p->due_ns > p->work.until_ns ? UINT64_MAX : p->due_ns;
}

static bool has_work(const struct sim_prog *p)
{
	return p->in_burst || p->work.burst_ns == UINT64_MAX;
}

static double slice_of(const struct sim_prog *p, uint32_t g)
{
	uint64_t us = p->applied.slice_us[g];

	return us == RBT_TIMESLICE_OWN ? SIM_OWN_US : (double)us;
}

static bool is_at_work(const struct sim_prog *p, uint32_t g)
{
	return p->params.tasks[g].n_compute > 0 && p->applied.off == RBT_ON && has_work(p);
}

/* Its share of a GPU now. */
static double rate_of(const struct sim *sim, const struct sim_prog *p, uint32_t g)
{
	double sum = 0, own = 0;

	for (unsigned i = 0; i < sim->n_progs; i++) {
		const struct sim_prog *q = sim->progs[i];
		double slice = slice_of(q, g);

		if (is_at_work(q, g)) {
			sum += slice;
			own += q == p ? slice : 0;
		}
	}
	return sum > 0 && sim->devices[g].until_ns <= sim->now_ns ? own / sum : 0;
}

static uint32_t first_gpu(const struct sim_prog *p)
{
	uint32_t g = 0;

	while (g < RBT_MAX_GPUS - 1 && p->params.tasks[g].n_compute == 0) {
		g++;
	}
	return g;
}

static uint64_t switch_time(
	const struct sim *sim, const struct sim_prog *a, const struct sim_prog *b)
{
	uint64_t most_ns = a->switch_ns > b->switch_ns ? a->switch_ns : b->switch_ns;

	return most_ns > sim->switch_ns ? most_ns : sim->switch_ns;
}

/* Lets the device set out for whoever it is to work for from now on. */
static void switch_owner(struct sim *sim, uint32_t g)
{
	struct sim_device *device = &sim->devices[g];
	struct sim_prog *next = NULL;
	double longest = 0;

	for (unsigned i = 0; i < sim->n_progs; i++) {
		struct sim_prog *p = sim->progs[i];
		double slice = slice_of(p, g) + (p == device->owner ? 0.5 : 0);

		if (is_at_work(p, g) && slice > longest) {
			longest = slice;
			next = p;
		}
	}
	if (next == NULL || next == device->owner) {
		return;
	}
	if (device->owner != NULL) {
		/* What it has set out for first, it reaches first. */
		uint64_t from_ns = device->until_ns > sim->now_ns ? device->until_ns : sim->now_ns;
		device->until_ns = from_ns + switch_time(sim, device->owner, next);
	}
	device->owner = next;
}

static void switch_owners(struct sim *sim)
{
	uint32_t seen = 0;

	for (unsigned i = 0; i < sim->n_progs && sim->switch_ns > 0; i++) {
		uint32_t g = first_gpu(sim->progs[i]);
		if ((seen >> g & 1) == 0) {
			seen |= UINT32_C(1) << g;
			switch_owner(sim, g);
		}
	}
}

/* Lets the device work for dt. */
static void advance(struct sim *sim, uint64_t dt_ns)
{
	double used = 0, rates[SIM_MAX_PROGS];
	bool wanted = false;

	for (unsigned i = 0; i < sim->n_progs; i++) {
		rates[i] = rate_of(sim, sim->progs[i], first_gpu(sim->progs[i]));
	}
	for (unsigned i = 0; i < sim->n_progs; i++) {
		struct sim_prog *p = sim->progs[i];
		double got = rates[i] * (double)dt_ns;

		p->done_ns += got;
		p->off_ns += p->applied.off != RBT_ON ? (double)dt_ns : 0;
		p->all_ns += got;
		p->burst_left_ns -= p->in_burst ? got : 0;
		used += first_gpu(p) == 0 ? got : 0;
		wanted |= has_work(p) && first_gpu(p) == 0;
		if (sim->victim != NULL && (sim->victim->in_gap || sim->victim->in_burst) &&
			p != sim->victim) {
			sim->stolen_ns += got;
		}
	}
	sim->idle_ns += wanted ? (double)dt_ns - used : 0;
	sim->now_ns += dt_ns;
}

/* When the first burst ends, as things are. */
static uint64_t next_burst_end(const struct sim *sim)
{
	double first = 1e18;

	for (unsigned i = 0; i < sim->n_progs; i++) {
		const struct sim_prog *p = sim->progs[i];
		double rate = p->in_burst ? rate_of(sim, p, first_gpu(p)) : 0;
		if (rate > 0 && p->burst_left_ns / rate < first) {
			first = p->burst_left_ns / rate;
		}
	}
	return first < 1e17 ? sim->now_ns + (uint64_t)ceil(first > 0 ? first : 0) : UINT64_MAX;
}

static void happen(struct sim *sim)
{
	for (unsigned i = 0; i < sim->n_progs; i++) {
		struct sim_prog *p = sim->progs[i];

		if (p->then_ns != 0 && p->then_ns <= sim->now_ns) {
			p->applied.off = p->then_off;
			p->then_ns = 0;
		}
		if (p->report_ns != 0 && p->report_ns <= sim->now_ns) {
			report(p);
			obey(sim);
		}
		if (p->in_burst && p->burst_left_ns <= 0.5) {
			end_burst(p);
			obey(sim);
		}
		if (next_of(p) <= sim->now_ns) {
			if (p->in_gap) {
				p->left -= p->work.is_queued;
				submit(p);
			} else {
				begin_request(p);
			}
			obey(sim);
		}
	}
}

/* When the first device reaches whom it is on its way to, or has obeyed; or `otherwise`. */
static uint64_t next_arrival(const struct sim *sim, uint64_t otherwise)
{
	for (uint32_t g = 0; g < RBT_MAX_GPUS; g++) {
		uint64_t at_ns = sim->devices[g].until_ns;
		otherwise = at_ns > sim->now_ns && at_ns < otherwise ? at_ns : otherwise;
	}
	for (unsigned i = 0; i < sim->n_progs; i++) {
		uint64_t at_ns = sim->progs[i]->then_ns, report_ns = sim->progs[i]->report_ns;
		otherwise = at_ns != 0 && at_ns < otherwise ? at_ns : otherwise;
		otherwise = report_ns != 0 && report_ns < otherwise ? report_ns : otherwise;
	}
	return otherwise;
}

void sim_run(struct sim *sim, uint64_t for_ns)
{
	uint64_t end_ns = sim->now_ns + for_ns;

	while (sim->now_ns < end_ns) {
		switch_owners(sim);
		uint64_t next_ns = rbt_sched_next_tick(sim->s), burst_ns = next_burst_end(sim);

		next_ns = burst_ns < next_ns ? burst_ns : next_ns;
		next_ns = end_ns < next_ns ? end_ns : next_ns;
		next_ns = next_arrival(sim, next_ns);
		for (unsigned i = 0; i < sim->n_progs; i++) {
			uint64_t at_ns = next_of(sim->progs[i]);
			next_ns = at_ns < next_ns ? at_ns : next_ns;
		}
		if (next_ns > sim->now_ns) {
			advance(sim, next_ns - sim->now_ns);
		}
		happen(sim);
		if (rbt_sched_next_tick(sim->s) <= sim->now_ns) {
			sim->n_ticks++;
			rbt_sched_tick(sim->s, sim->now_ns);
			if (rbt_sched_next_tick(sim->s) <= sim->now_ns) {
				sim->broken = "the next tick is not later";
				return;
			}
			obey(sim);
		}
	}
}

void sim_reset(struct sim *sim)
{
	sim->idle_ns = sim->stolen_ns = 0;
	sim->n_ticks = sim->n_changes = 0;
	for (unsigned i = 0; i < sim->n_progs; i++) {
		sim->progs[i]->done_ns = sim->progs[i]->off_ns = 0;
		sim->progs[i]->n_requests = 0;
	}
}

struct sim_prog *sim_add_params(
	struct sim *sim, const struct rbt_sched_params *params, const struct sim_work *work)
{
	struct sim_prog *p = calloc(1, sizeof(*p));

	if (p == NULL || sim->n_progs == SIM_MAX_PROGS) {
		abort();
	}
	p->sim = sim;
	p->params = *params;
	p->is_resting = true;
	p->last_ns = p->due_ns = sim->now_ns;
	p->work = work != NULL ? *work : (struct sim_work){.burst_ns = UINT64_MAX};
	sim->progs[sim->n_progs++] = p;
	if (rbt_sched_add(sim->s, sim->now_ns, params, p, &p->handle) < 0) {
		abort();
	}
	if (work == NULL && params->is_known) {
		p->is_resting = false;
		rbt_sched_busy(sim->s, sim->now_ns, p->handle);
	} else if (work != NULL) {
		plan_request(p);
	}
	obey(sim);
	return p;
}

struct sim_prog *sim_add(
	struct sim *sim, unsigned priority, bool is_known, const struct sim_work *work)
{
	struct rbt_sched_params params = {.priority = priority, .weight = 1, .is_known = is_known};

	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = SIM_OWN_US};
	return sim_add_params(sim, &params, work);
}

void sim_change(struct sim_prog *p)
{
	if (rbt_sched_change(p->sim->s, p->sim->now_ns, p->handle, &p->params) < 0) {
		abort();
	}
	obey(p->sim);
}

void sim_remove(struct sim_prog *p)
{
	struct sim *sim = p->sim;
	unsigned i = 0;

	while (sim->progs[i] != p) {
		i++;
	}
	sim->progs[i] = sim->progs[--sim->n_progs];
	for (uint32_t g = 0; g < RBT_MAX_GPUS; g++) {
		sim->devices[g].owner = sim->devices[g].owner == p ? NULL : sim->devices[g].owner;
	}
	rbt_sched_remove(sim->s, sim->now_ns, p->handle);
	free(p);
	obey(sim);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t sim_quantile(const struct sim_prog *p, double q)
{
	uint64_t n = p->n_requests < SIM_MAX_SAMPLES ? p->n_requests : SIM_MAX_SAMPLES;
	uint64_t *sorted = malloc((n + 1) * sizeof(*sorted));

	if (sorted == NULL || n == 0) {
		free(sorted);
		return UINT64_MAX;
	}
	memcpy(sorted, p->took_ns, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	uint64_t value = sorted[(uint64_t)(q * (double)(n - 1))];
	free(sorted);
	return value;
}

double sim_jain(struct sim_prog *const *progs, unsigned n)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < n; i++) {
		double x = progs[i]->done_ns / progs[i]->params.weight;
		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}
