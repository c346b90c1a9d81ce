/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
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

static void note_work(struct program *p)
{
	account_sum(&p->account, &p->work.counts);
	p->work.at_ns = p->account.sampled_ns;
	p->work.used_ns = p->account.used_ns;
}

/* A program can decrease the numbers on its own board. */
static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* What the program has done since the last event. False: nothing. */
static bool count_work(const struct program *p, struct rbt_event_work *ret)
{
	const struct account_counts *before = &p->work.counts;
	struct account_counts now;
	uint64_t from_ns = p->work.at_ns != 0 ? p->work.at_ns : p->account.since_ns;

	account_sum(&p->account, &now);
	*ret = (struct rbt_event_work){
		.interval_ns = since(p->account.sampled_ns, from_ns),
		.busy_ns = since(p->account.used_ns, p->work.used_ns),
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

void events_take_work(struct daemon *d, struct program *p)
{
	struct rbt_event event = {.moment = RBT_MOMENT_WORK, .time_ns = p->account.sampled_ns};
	struct known_task *k;
	struct client *h;

	if (d->events.policy == NULL || !count_work(p, &event.work) || !find_oldest(p, &h, &k)) {
		return;
	}
	describe(d, p, h, k, &event);
	note_work(p);
	(void)tell(d, p, &event);
}

bool events_admit(void *ctx, void *owner)
{
	struct daemon *d = ctx;
	struct program *p = owner;
	struct client *h;
	bool yes = true;

	if (d->events.policy == NULL) {
		return true;
	}
	LIST_FOREACH (h, &p->clients, entries) {
		for (uint32_t i = 0; i < h->tasks.n && yes; i++) {
			struct rbt_event event = {
				.moment = RBT_MOMENT_SCHEDULE, .time_ns = rbt_now_ns()};

			describe(d, p, h, &h->tasks.list[i], &event);
			if (event.task.engine == RBT_EVENT_COMPUTE &&
				(event.task.valid & RBT_EVENT_HAS_GPU) != 0) {
				rbt_sched_load(d->sched.core, event.task.gpu, &event.load);
				yes = tell(d, p, &event);
			}
		}
	}
	return yes;
}

void events_set_policy(struct daemon *d, const struct rbt_event_reader *policy)
{
	struct program *p;
	struct client *h;

	d->events.policy = policy;
	d->dirty = true;
	LIST_FOREACH (p, &d->programs, entries) {
		p->sched.output = RBT_POLICY_OUTPUT_INIT;
		note_work(p);
		LIST_FOREACH (h, &p->clients, entries) {
			for (uint32_t i = 0; i < h->tasks.n && policy != NULL; i++) {
				tell_init(d, p, h, &h->tasks.list[i]);
			}
		}
	}
}
