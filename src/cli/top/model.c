/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"
#include "util/time.h"

/* Samples after which a new base for p99 is taken: p99 covers one to two of these periods. */
#define BASE_SAMPLES 15
/* Shares of an interval that count as equal if they differ by less. */
#define SAME_RESERVE 0.05

struct top_sample *top_sample_create(void)
{
	return calloc(1, sizeof(struct top_sample));
}

void top_sample_destroy(struct top_sample *s)
{
	if (s != NULL) {
		free(s->readings);
		free(s);
	}
}

struct top_reading *top_sample_add(struct top_sample *s)
{
	if (s->n_readings == s->capacity) {
		size_t capacity = s->capacity > 0 ? s->capacity * 2 : 16;
		struct top_reading *readings = realloc(s->readings, capacity * sizeof(*readings));
		if (readings == NULL) {
			return NULL;
		}
		s->readings = readings;
		s->capacity = capacity;
	}
	struct top_reading *r = &s->readings[s->n_readings++];
	memset(r, 0, sizeof(*r));
	return r;
}

void top_model_init(struct top_model *m)
{
	memset(m, 0, sizeof(*m));
}

void top_model_finish(struct top_model *m)
{
	free(m->rows);
	top_model_init(m);
}

static bool is_same_program(const struct top_reading *a, const struct top_reading *b)
{
	return a->pid == b->pid && a->start_time == b->start_time;
}

static struct top_row *find_row(struct top_model *m, const struct top_reading *r, size_t near)
{
	/* Samples come in much the same order each time. */
	for (size_t i = 0; i < m->n_rows; i++) {
		struct top_row *row = &m->rows[(near + i) % m->n_rows];
		if (is_same_program(&row->now, r)) {
			return row;
		}
	}
	return NULL;
}

/* A restarted daemon counts from zero again: then the rates of this interval are unknown. */
static bool has_gone_back(const struct top_reading *old, const struct top_reading *now)
{
	const struct rbt_program_turns *a = &old->turns, *b = &now->turns;
	const struct rbt_program_account *c = &old->account, *d = &now->account;

	if (b->on_ns < a->on_ns || b->waited_ns < a->waited_ns || b->n_turns < a->n_turns ||
		b->reserved_ns < a->reserved_ns || b->n_requests < a->n_requests) {
		return true;
	}
	return now->has_account && (d->known_ns < c->known_ns || d->used_ns < c->used_ns);
}

/* A share of the interval; clocks that were read in two processes may differ a little. */
static double part(uint64_t old_ns, uint64_t now_ns, uint64_t interval_ns)
{
	double p = (double)(now_ns - old_ns) / (double)interval_ns;

	return p > 1 ? 1 : p;
}

static double per_second(uint64_t old, uint64_t now, uint64_t interval_ns)
{
	return (double)(now - old) * (double)RBT_NS_PER_S / (double)interval_ns;
}

/* The time between two readings: by the daemon's clock, if it is sent, because its counters use
 * that one. */
static uint64_t interval_of(const struct top_reading *old, const struct top_reading *now)
{
	if (old->has_account && now->has_account && now->account.known_ns > old->account.known_ns) {
		return now->account.known_ns - old->account.known_ns;
	}
	return now->at_ns > old->at_ns ? now->at_ns - old->at_ns : 0;
}

static void set_rates(struct top_row *row, const struct top_reading *old, uint64_t interval_ns)
{
	const struct rbt_program_turns *a = &old->turns, *b = &row->now.turns;
	const struct rbt_program_account *c = &old->account, *d = &row->now.account;
	bool has_used = old->has_account && row->now.has_account &&
			(c->valid & d->valid & RBT_ACCOUNT_HAS_USED) != 0;

	row->valid |= TOP_HAS_SHARE | TOP_HAS_WAIT | TOP_HAS_TURNS | TOP_HAS_RESERVED;
	if (has_used) {
		row->share = part(c->used_ns, d->used_ns, interval_ns);
	} else {
		row->share = part(a->on_ns, b->on_ns, interval_ns);
		row->valid |= b->has_board ? 0 : TOP_SHARE_IS_ALLOWED;
	}
	row->wait = part(a->waited_ns, b->waited_ns, interval_ns);
	row->reserved = part(a->reserved_ns, b->reserved_ns, interval_ns);
	row->turns_per_s = per_second(a->n_turns, b->n_turns, interval_ns);
	if (b->n_requests > 0) {
		row->valid |= TOP_HAS_REQUESTS;
		row->requests_per_s = per_second(a->n_requests, b->n_requests, interval_ns);
	} else if (row->now.has_account && (d->valid & RBT_ACCOUNT_HAS_REQUESTS) != 0) {
		row->valid |= TOP_HAS_REQUESTS;
		row->requests_per_s = per_second(
			rbt_hist_count(&c->request), rbt_hist_count(&d->request), interval_ns);
	}
}

/* now - base; false: it would be negative. */
static bool subtract(const struct rbt_hist *now, const struct rbt_hist *base, struct rbt_hist *ret)
{
	*ret = *now;
	for (unsigned i = 0; i < RBT_HIST_BUCKETS; i++) {
		if (now->n[i] < base->n[i]) {
			return false;
		}
		ret->n[i] -= base->n[i];
	}
	return true;
}

/* Returns whether there were durations lately, and if so, their 99th percentile. */
static bool update_window(
	struct top_window *w, bool is_known, const struct rbt_hist *now, uint64_t *ret_p99_ns)
{
	struct rbt_hist recent;

	if (!is_known) {
		w->has_base = false;
		return false;
	}
	if (!w->has_base || !subtract(now, &w->base[0], &recent)) {
		w->base[0] = w->base[1] = *now;
		w->base_age = 0;
		w->has_base = true;
		return false;
	}
	if (++w->base_age == BASE_SAMPLES) {
		w->base_age = 0;
		w->base[0] = w->base[1];
		w->base[1] = *now;
	}
	*ret_p99_ns = rbt_hist_quantile_ns(&recent, 990);
	return rbt_hist_count(&recent) > 0;
}

static void set_times(struct top_row *row)
{
	const struct rbt_program_account *a = &row->now.account;
	uint32_t has = row->now.has_account ? a->valid : 0;

	if (update_window(&row->requests, (has & RBT_ACCOUNT_HAS_REQUESTS) != 0, &a->request,
		    &row->p99_ns)) {
		row->valid |= TOP_HAS_P99;
	}
	if (update_window(&row->offs, (has & RBT_ACCOUNT_HAS_SUBMISSIONS) != 0, &a->seen_to_off,
		    &row->off_ns)) {
		row->valid |= TOP_HAS_OFF;
	}
	if (update_window(&row->dones, (has & RBT_ACCOUNT_HAS_DONE) != 0, &a->off_to_done,
		    &row->done_ns)) {
		row->valid |= TOP_HAS_DONE;
	}
}

static void remember(struct top_row *row)
{
	row->history[row->at] = (row->valid & TOP_HAS_SHARE) != 0 ? (float)row->share : -1;
	row->at = (row->at + 1) % TOP_HISTORY;
	row->n_history += row->n_history < TOP_HISTORY;
}

float top_row_history(const struct top_row *r, unsigned ago)
{
	return ago < r->n_history ? r->history[(r->at + TOP_HISTORY - 1 - ago) % TOP_HISTORY] : -1;
}

/* Makes a row's next state from its last one. `old` is NULL for a new program. */
static void make_row(const struct top_row *old, const struct top_reading *r, struct top_row *ret)
{
	uint64_t interval_ns = old != NULL ? interval_of(&old->now, r) : 0;

	if (old != NULL) {
		*ret = *old;
	} else {
		memset(ret, 0, sizeof(*ret));
	}
	ret->now = *r;
	ret->valid = 0;
	ret->turns_per_s = 0;
	if (interval_ns > 0 && r->has_turns && old->now.has_turns) {
		if (!has_gone_back(&old->now, r)) {
			set_rates(ret, &old->now, interval_ns);
		} else {
			ret->requests.has_base = ret->offs.has_base = ret->dones.has_base = false;
		}
	}
	set_times(ret);
	remember(ret);
}

/* Programs on each GPU by priority: those that are kept off, and those that may run. */
struct crowd {
	uint32_t waiting[RBT_MAX_GPUS][RBT_PRIORITY_MAX + 1],
		running[RBT_MAX_GPUS][RBT_PRIORITY_MAX + 1];
};

static unsigned priority_of(const struct top_row *r)
{
	return r->now.priority < RBT_PRIORITY_MAX ? r->now.priority : RBT_PRIORITY_MAX;
}

static void count_crowd(const struct top_model *m, struct crowd *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < m->n_rows; i++) {
		const struct top_row *r = &m->rows[i];
		for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
			if ((r->now.gpus >> gpu & 1) != 0 && r->now.managed && !r->now.suspended &&
				!r->now.parked) {
				(r->now.waiting ? ret->waiting
						: ret->running)[gpu][priority_of(r)]++;
			}
		}
	}
}

/* Whether there is a program of these priorities on one of these GPUs. */
static bool is_anybody(const uint32_t who[RBT_MAX_GPUS][RBT_PRIORITY_MAX + 1], uint32_t gpus,
	unsigned low, unsigned high)
{
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		for (unsigned p = low; (gpus >> gpu & 1) != 0 && p <= high; p++) {
			if (who[gpu][p] > 0) {
				return true;
			}
		}
	}
	return false;
}

static unsigned lowest_of_class(unsigned priority)
{
	while (priority > 0 && rbt_class_of(priority - 1) == rbt_class_of(priority)) {
		priority--;
	}
	return priority;
}

static enum top_state state_of(const struct crowd *c, const struct top_row *r)
{
	unsigned own = priority_of(r);

	if (r->now.unseen) {
		return TOP_STATE_UNKNOWN;
	}
	if (r->now.parked) {
		return TOP_STATE_PARKED;
	}
	if (r->now.suspended) {
		return TOP_STATE_SUSPENDED;
	}
	if (r->now.waiting) {
		return TOP_STATE_WAITING;
	}
	if (!r->now.has_turns || !is_anybody(c->waiting, r->now.gpus, 0, own)) {
		return TOP_STATE_RUNNING;
	}
	/* It had a reserve, and at this moment no lower program may run beside it. */
	if ((r->valid & TOP_HAS_RESERVED) != 0 && r->reserved > 0 &&
		(own == 0 || !is_anybody(c->running, r->now.gpus, 0, own - 1))) {
		return TOP_STATE_RESERVES;
	}
	/* It takes turns now, not only in the past: another program waits for the same GPU, or it
	 * has just had a turn. */
	bool takes_turns = r->now.turns.n_turns > 0 &&
			   (r->turns_per_s > 0 ||
				   is_anybody(c->waiting, r->now.gpus, lowest_of_class(own), own));
	return takes_turns ? TOP_STATE_TURN : TOP_STATE_RUNNING;
}

int top_model_update(struct top_model *m, const struct top_sample *s)
{
	struct top_row *rows = calloc(s->n_readings + 1, sizeof(*rows));
	struct crowd crowd;

	if (rows == NULL) {
		return -ENOMEM;
	}
	m->interval_ns = m->last_ns > 0 && s->now_ns > m->last_ns ? s->now_ns - m->last_ns : 0;
	m->last_ns = s->now_ns;
	for (size_t i = 0; i < s->n_readings; i++) {
		const struct top_row *old = find_row(m, &s->readings[i], i);
		make_row(old, &s->readings[i], &rows[i]);
	}
	free(m->rows);
	m->rows = rows;
	m->n_rows = s->n_readings;
	m->daemon = s->daemon;
	m->table = s->table;
	m->n_gpus = s->n_gpus;
	memcpy(m->gpus, s->gpus, sizeof(m->gpus));
	count_crowd(m, &crowd);
	for (size_t i = 0; i < m->n_rows; i++) {
		rows[i].state = state_of(&crowd, &rows[i]);
	}
	return 0;
}

/* Whether `a` has kept others off for longer than `b`. If both times are about equal, the higher
 * priority counts, because it kept the lower one off as well. */
static bool reserves_more(const struct top_row *a, const struct top_row *b)
{
	double more = a->reserved - b->reserved;

	if (more > -SAME_RESERVE && more < SAME_RESERVE && a->now.priority != b->now.priority) {
		return a->now.priority > b->now.priority;
	}
	return more > 0;
}

static void add_use(struct top_use *u, const struct top_row *r)
{
	u->n_programs++;
	if (r->now.has_memory && __builtin_popcount(r->now.gpus) == 1) {
		u->memory_bytes += r->now.memory_bytes;
		u->has_memory = true;
	}
	if (r->now.managed && (r->valid & TOP_HAS_SHARE) != 0) {
		enum rbt_class cls = rbt_class_of(r->now.priority);
		u->share[cls] += r->share;
		u->has_share[cls] = true;
		u->is_allowed |= (r->valid & TOP_SHARE_IS_ALLOWED) != 0 && r->share > 0;
	}
	if (r->state == TOP_STATE_TURN) {
		u->turn = r;
	}
	/* The program that has kept the others off for longest. */
	if ((r->valid & TOP_HAS_RESERVED) != 0 && r->reserved > 0 &&
		(u->reserve == NULL || reserves_more(r, u->reserve))) {
		u->reserve = r;
	}
}

void top_model_use(const struct top_model *m, uint32_t gpu, struct top_use *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < m->n_rows; i++) {
		if (gpu < RBT_MAX_GPUS && (m->rows[i].now.gpus >> gpu & 1) != 0) {
			add_use(ret, &m->rows[i]);
		}
	}
}

size_t top_model_count(const struct top_model *m, enum top_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_rows; i++) {
		n += m->rows[i].state == state;
	}
	return n;
}

const char *top_model_policy(const struct top_model *m)
{
	for (size_t i = 0; i < m->n_rows; i++) {
		if (m->rows[i].now.has_turns && m->rows[i].now.turns.policy[0] != '\0') {
			return m->rows[i].now.turns.policy;
		}
	}
	return NULL;
}

bool top_row_has_pending(const struct top_row *r)
{
	return r->now.has_account && (r->now.account.valid & RBT_ACCOUNT_HAS_PENDING) != 0;
}

const char *top_row_place(const struct top_row *r, const char **ret_kind)
{
	const struct rbt_place *p = &r->now.place;

	if (r->now.guest.vm[0] != '\0') {
		*ret_kind = "vm";
		return r->now.guest.vm;
	}
	*ret_kind = p->slurm_job[0] != '\0' ? "job" : p->pod_uid[0] != '\0' ? "pod" : "ctr";
	return p->slurm_job[0] != '\0'      ? p->slurm_job
	       : p->pod_uid[0] != '\0'      ? p->pod_uid
	       : p->container_id[0] != '\0' ? p->container_id
					    : NULL;
}

const char *top_short_command(const char *command)
{
	const char *name = command;

	for (const char *p = command; *p != '\0' && *p != ' '; p++) {
		name = *p == '/' ? p + 1 : name;
	}
	return *name != '\0' && *name != ' ' ? name : command;
}
