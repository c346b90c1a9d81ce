/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "daemon/gate.h"
#include "daemon/program.h"
#include "util/log.h"
#include "util/time.h"

static void describe(struct daemon *d, struct program *p, const struct client *h,
	const struct known_task *k, struct rbt_event *ret)
{
	static const enum rbt_event_engine engines[] = {
		[RBT_TASK_COMPUTE] = RBT_EVENT_COMPUTE,
		[RBT_TASK_COPY] = RBT_EVENT_COPY,
		[RBT_TASK_OTHER] = RBT_EVENT_OTHER,
	};
	const struct rbt_task *t = &k->task;
	int gpu = rbt_gpu_find(&d->gpu_table, h->backend, t->gpu);

	ret->owner = p;
	ret->pid = p->pid;
	ret->uid = p->uid;
	ret->priority = p->treat.priority;
	ret->task = (struct rbt_event_task){
		.id = k->id,
		.created_ns = k->created_ns,
		.gpu = gpu >= 0 ? (uint32_t)gpu : 0,
		.engine = engines[t->kind],
		.runlist = t->runlist,
		.tsg = t->id,
		.n_channels = t->n_channels,
		.timeslice_us = t->own_timeslice_us,
		.valid = (gpu >= 0 ? RBT_EVENT_HAS_GPU : 0) |
			 (t->valid & RBT_TASK_HAS_RUNLIST ? RBT_EVENT_HAS_RUNLIST : 0) |
			 (t->valid & RBT_TASK_HAS_ID ? RBT_EVENT_HAS_TSG : 0) |
			 (t->valid & RBT_TASK_HAS_OWN_TIMESLICE ? RBT_EVENT_HAS_TIMESLICE : 0),
	};
}

/* Returns the policy's answer. */
static bool tell(struct daemon *d, struct program *p, const struct rbt_event *event)
{
	struct rbt_policy_output said = RBT_POLICY_OUTPUT_INIT;

	if (event->moment == RBT_MOMENT_INIT || event->moment == RBT_MOMENT_DESTROY) {
		rbt_debug("process %d: task %" PRIu64 " %s", (int)p->pid, event->task.id,
			event->moment == RBT_MOMENT_INIT ? "is made" : "is gone");
	}
	if (d->events.policy == NULL) {
		return true;
	}
	bool yes = d->events.policy->read(d->events.policy->ctx, event, &said);
	if (event->moment != RBT_MOMENT_DESTROY &&
		rbt_policy_output_take(&p->sched.output, &said)) {
		d->dirty = true;
	}
	return yes;
}

static void tell_init(
	struct daemon *d, struct program *p, struct client *h, const struct known_task *k)
{
	struct rbt_event event = {.moment = RBT_MOMENT_INIT, .time_ns = rbt_now_ns()};

	describe(d, p, h, k, &event);
	(void)tell(d, p, &event);
}

static void tell_destroy(
	struct daemon *d, struct program *p, struct client *h, const struct known_task *k)
{
	struct rbt_event event = {.moment = RBT_MOMENT_DESTROY, .time_ns = rbt_now_ns()};

	describe(d, p, h, k, &event);
	event.used_ns = p->account.used_ns - k->used_ns;
	(void)tell(d, p, &event);
}

static struct known_task *find_known(
	struct client_tasks *tasks, const struct rbt_task *task, uint32_t at)
{
	if (at < tasks->n && rbt_task_is_same(&tasks->list[at].task, task)) {
		return &tasks->list[at];
	}
	for (uint32_t i = 0; i < tasks->n; i++) {
		if (rbt_task_is_same(&tasks->list[i].task, task)) {
			return &tasks->list[i];
		}
	}
	return NULL;
}

/* Ends the tasks that the client's record does not name, and notes what it says of the others. */
static void end_tasks(struct daemon *d, struct program *p, struct client *h)
{
	const struct rbt_record *rec = &h->mine->rec;
	struct client_tasks *tasks = &h->tasks;
	uint32_t n = 0;

	for (uint32_t i = 0; i < tasks->n; i++) {
		tasks->list[i].is_named = false;
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		struct known_task *k = find_known(tasks, &rec->tasks[i], i);

		if (k != NULL) {
			k->is_named = true;
			k->task = rec->tasks[i];
		}
	}
	for (uint32_t i = 0; i < tasks->n; i++) {
		if (tasks->list[i].is_named) {
			tasks->list[n++] = tasks->list[i];
		} else {
			tell_destroy(d, p, h, &tasks->list[i]);
		}
	}
	tasks->n = n;
}

/* 0 or -ENOMEM. */
static int make_room(struct client_tasks *tasks, uint32_t n)
{
	struct known_task *list =
		n > 0 ? realloc(tasks->list, n * sizeof(struct known_task)) : tasks->list;

	if (n > 0 && list == NULL) {
		return -ENOMEM;
	}
	tasks->list = list;
	return 0;
}

void events_take_record(struct daemon *d, struct program *p, struct client *h)
{
	const struct rbt_record *rec = &h->mine->rec;
	struct client_tasks *tasks = &h->tasks;

	end_tasks(d, p, h);
	/* Without memory, new tasks have neither event. The next record tries again. */
	if (make_room(tasks, tasks->n + rec->n_tasks) < 0) {
		return;
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		/* A record may name a task twice. */
		if (find_known(tasks, &rec->tasks[i], i) != NULL) {
			continue;
		}
		struct known_task *k = &tasks->list[tasks->n++];
		*k = (struct known_task){.id = ++d->events.last_task,
			.created_ns = rbt_now_ns(),
			.used_ns = p->account.used_ns,
			.task = rec->tasks[i]};
		tell_init(d, p, h, k);
	}
}

void events_end_client(struct daemon *d, struct program *p, struct client *h)
{
	for (uint32_t i = 0; i < h->tasks.n; i++) {
		tell_destroy(d, p, h, &h->tasks.list[i]);
	}
	free(h->tasks.list);
	h->tasks = (struct client_tasks){0};
}

/* A program that waits for its turn has work, too: otherwise trainers that take turns would look
 * like programs with pauses. */
static uint64_t busy_of(const struct program *p)
{
	return p->account.used_ns + p->account.waited_ns;
}

/* A program can decrease the numbers on its own board. */
static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* As account_sum(), which also adds up times of requests. */
static void sum_work(const struct account *a, struct work_counts *ret)
{
	for (size_t i = 0; i < RBT_BOARD_KINDS; i++) {
		ret->n[i] = a->past.n[i] + since(a->last.n[i], a->first.n[i]);
	}
	ret->n_syncs = a->past.n_syncs + since(a->last.n_syncs, a->first.n_syncs);
	ret->n_gaps = a->past.n_gaps + since(a->last.n_gaps, a->first.n_gaps);
}

static void note_work(struct program *p)
{
	sum_work(&p->account, &p->work.counts);
	p->work.at_ns = p->account.sampled_ns;
	p->work.busy_ns = busy_of(p);
}

/* What the program has done since the last event. False: nothing. */
static bool count_work(const struct program *p, struct rbt_event_work *ret)
{
	const struct work_counts *before = &p->work.counts;
	struct work_counts now;
	uint64_t from_ns = p->work.at_ns != 0 ? p->work.at_ns : p->account.since_ns;

	sum_work(&p->account, &now);
	*ret = (struct rbt_event_work){
		.interval_ns = since(p->account.sampled_ns, from_ns),
		.busy_ns = since(busy_of(p), p->work.busy_ns),
		.n_launches = since(now.n[RBT_BOARD_LAUNCH], before->n[RBT_BOARD_LAUNCH]),
		.n_graphs = since(now.n[RBT_BOARD_GRAPH], before->n[RBT_BOARD_GRAPH]),
		.n_copies = since(now.n[RBT_BOARD_COPY], before->n[RBT_BOARD_COPY]),
		.n_memsets = since(now.n[RBT_BOARD_MEMSET], before->n[RBT_BOARD_MEMSET]),
		.n_syncs = since(now.n_syncs, before->n_syncs),
		.n_bursts = since(now.n_gaps, before->n_gaps),
	};
	return ret->interval_ns > 0 && (ret->n_launches | ret->n_graphs | ret->n_copies |
					       ret->n_memsets | ret->n_syncs) != 0;
}

/* The oldest compute task of the program. False: it has none. */
static bool find_oldest(const struct program *p, struct client **ret_h, struct known_task **ret_k)
{
	struct client *h;

	*ret_k = NULL;
	LIST_FOREACH (h, &p->clients, entries) {
		for (uint32_t i = 0; i < h->tasks.n; i++) {
			struct known_task *k = &h->tasks.list[i];

			if (k->task.kind == RBT_TASK_COMPUTE &&
				(*ret_k == NULL || k->id < (*ret_k)->id)) {
				*ret_k = k;
				*ret_h = h;
			}
		}
	}
	return *ret_k != NULL;
}

bool events_want_work(const struct daemon *d)
{
	return d->events.policy != NULL && d->events.policy->wants_work;
}

bool events_are_too_soon(const struct program *p, uint64_t now_ns)
{
	return p->work.at_ns != 0 && now_ns < p->work.at_ns + PACE_MIN_NS;
}

bool events_take_work(struct daemon *d, struct program *p, bool is_last)
{
	struct rbt_event event = {.moment = RBT_MOMENT_WORK, .time_ns = p->account.sampled_ns};
	const struct rbt_event_work *work = &event.work;
	struct known_task *k;
	struct client *h;

	if (!events_want_work(d)) {
		return true;
	}
	if (events_are_too_soon(p, p->account.sampled_ns) && !is_last) {
		return false;
	}
	if (!count_work(p, &event.work) || !find_oldest(p, &h, &k)) {
		return true;
	}
	describe(d, p, h, k, &event);
	note_work(p);
	pace_told(&p->work.pace, event.time_ns,
		work->n_launches + work->n_graphs + work->n_copies + work->n_memsets,
		work->interval_ns);
	(void)tell(d, p, &event);
	return true;
}

uint64_t events_next(const struct daemon *d)
{
	return events_want_work(d) ? d->events.next_ns : UINT64_MAX;
}

void events_woke(struct daemon *d, const struct program *p, uint64_t now_ns)
{
	/* A program that has told nothing for long changes its rate now. */
	if (now_ns - p->work.at_ns >= PACE_MAX_NS && d->events.next_ns > d->events.round_ns) {
		d->events.next_ns = d->events.round_ns;
	}
}

static bool log_work(void *ctx, const struct rbt_event *event, struct rbt_policy_output *ret_said)
{
	const struct rbt_event_work *work = &event->work;

	if (event->moment == RBT_MOMENT_WORK) {
		rbt_debug("process %d: task %" PRIu64 ": %" PRIu64 " launches, %" PRIu64
			  " graphs, %" PRIu64 " copies, %" PRIu64 " memsets in %" PRIu64 " us",
			(int)event->pid, event->task.id, work->n_launches, work->n_graphs,
			work->n_copies, work->n_memsets,
			(uint64_t)(work->interval_ns / RBT_NS_PER_US));
	}
	return true;
}

void events_debug(struct daemon *d)
{
	static const struct rbt_event_reader logger = {.wants_work = true, .read = log_work};
	const char *level = getenv("RUBATO_DEBUG");

	if (level != NULL && strcmp(level, "work") == 0) {
		events_set_policy(d, &logger);
	}
}

/* Returns the policy's answer; true also for a task that no policy is asked about. */
static bool ask(struct daemon *d, struct program *p, const struct client *h,
	const struct known_task *k, bool is_first_run, uint64_t now_ns)
{
	struct rbt_event event = {.moment = RBT_MOMENT_SCHEDULE,
		.time_ns = now_ns,
		.is_first_run = is_first_run,
		.cannot_suspend = p->sched.params.cannot_suspend};

	describe(d, p, h, k, &event);
	if (event.task.engine != RBT_EVENT_COMPUTE || (event.task.valid & RBT_EVENT_HAS_GPU) == 0) {
		return true;
	}
	rbt_sched_load(d->sched.core, event.task.gpu, &event.load);
	return tell(d, p, &event);
}

bool events_admit_first(
	struct daemon *d, struct program *p, uint32_t client, uint32_t handle, bool *ret_yes)
{
	struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		for (uint32_t i = 0; i < h->tasks.n; i++) {
			const struct known_task *k = &h->tasks.list[i];

			if (h->backend == RBT_BACKEND_NVIDIA && h->client == client &&
				k->task.handle == handle && k->task.kind == RBT_TASK_COMPUTE) {
				*ret_yes = ask(d, p, h, k, true, rbt_now_ns());
				return true;
			}
		}
	}
	return false;
}

bool events_admit(void *ctx, void *owner)
{
	struct daemon *d = ctx;
	struct program *p = owner;
	struct client *h;
	/* Answers of one time belong together: the program runs if all of them are yes. */
	const uint64_t now_ns = rbt_now_ns();
	bool yes = true;

	if (d->events.policy == NULL) {
		return true;
	}
	LIST_FOREACH (h, &p->clients, entries) {
		for (uint32_t i = 0; i < h->tasks.n && yes; i++) {
			const struct known_task *k = &h->tasks.list[i];

			/* A task that waits at the gate does not keep the others from running. */
			yes = gate_is_shut(p, h->client, k->task.handle) ||
			      ask(d, p, h, k, false, now_ns);
		}
	}
	return yes;
}

void events_set_policy(struct daemon *d, const struct rbt_event_reader *policy)
{
	struct program *p;
	struct client *h;

	d->events.policy = policy;
	d->events.round_ns = d->events.next_ns = 0;
	d->dirty = true;
	gate_policy_changed(d);
	LIST_FOREACH (p, &d->programs, entries) {
		p->sched.output = RBT_POLICY_OUTPUT_INIT;
		note_work(p);
		p->work.pace = (struct pace){0};
		LIST_FOREACH (h, &p->clients, entries) {
			for (uint32_t i = 0; i < h->tasks.n && policy != NULL; i++) {
				tell_init(d, p, h, &h->tasks.list[i]);
			}
		}
	}
}
