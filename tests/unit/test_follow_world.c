/* SPDX-License-Identifier: Apache-2.0 */
#include "test_follow_world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/activity.h"
#include "daemon/metrics/accounting.h"
#include "daemon/peers/rights.h"
#include "daemon/schedule.h"
#include "util/time.h"

/* What the accounts need of the rest of the daemon. */
void schedule_tick(struct daemon *d)
{
	rbt_sched_tick(d->sched.core, rbt_now_ns());
}

const char *schedule_policy(const struct daemon *d)
{
	return "turns";
}

struct rbt_limits limits_in_force(const struct daemon *d, const struct program *p)
{
	return p->treat.limits;
}

void activity_account(const struct program *p, struct rbt_program_account *account)
{
}

static bool poll_board(void *ctx, void *owner, struct rbt_activity *ret)
{
	*ret = (struct rbt_activity){.last_ns = rbt_now_ns()};
	return true;
}

static void add(struct world *w, unsigned i, unsigned priority)
{
	struct world_prog *one = &w->progs[i];
	struct program *p = &one->p;
	struct rbt_sched_params params = {.priority = priority, .weight = 1, .is_known = true};
	uint64_t now_ns = rbt_now_ns();

	p->pid = (pid_t)(1000 + i);
	p->treat.priority = priority;
	p->sched.output = RBT_POLICY_OUTPUT_INIT;
	one->client.mine = &one->mine;
	one->client.backend = RBT_BACKEND_NVIDIA;
	one->mine.rec.tasks = one->tasks;
	one->mine.rec.n_tasks = 4;
	for (uint32_t t = 0; t < 4; t++) {
		one->tasks[t] = (struct rbt_task){.handle = 100 + t,
			.kind = t == 3 ? RBT_TASK_COMPUTE : RBT_TASK_COPY,
			.n_channels = 2 + t,
			.runlist = t,
			.valid = RBT_TASK_HAS_RUNLIST};
	}
	LIST_INSERT_HEAD(&w->d.programs, p, entries);
	LIST_INSERT_HEAD(&p->clients, &one->client, entries);
	account_start(&p->account, now_ns);
	params.tasks[0] = (struct rbt_sched_tasks){.n_compute = 1, .own_us = 2048};
	if (rbt_sched_add(w->d.sched.core, now_ns, &params, p, &p->sched.prog) < 0) {
		abort();
	}
	p->sched.params = params;
	p->reader.board = (void *)((char *)w->boards + (size_t)i * RBT_BOARD_SIZE);
	rbt_board_init(p->reader.board);
	atomic_store(&p->reader.board->n_used, 2);
	accounting_begin_board(&w->d, p, p->reader.board);
	events_take_record(&w->d, p, &one->client);
	rbt_sched_busy(w->d.sched.core, now_ns, p->sched.prog);
}

void world_init(struct world *w, unsigned n, unsigned (*priority_of)(unsigned i), bool asks)
{
	static const struct rbt_sched_ops ops = {.poll = poll_board, .admit = events_admit};
	size_t n_policies;

	memset(w, 0, sizeof(*w));
	w->n = n;
	w->policy = *rbt_sched_policies(&n_policies);
	w->policy.asks = asks;
	w->boards = mmap(NULL, (size_t)n * RBT_BOARD_SIZE, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rbt_sched_config config = {.policy = &w->policy};
	if (w->boards == MAP_FAILED || rbt_gpu_index(&w->d.gpu_table, RBT_BACKEND_NVIDIA, 0) != 0 ||
		rbt_sched_create(&config, &ops, &w->d, &w->d.sched.core) < 0) {
		abort();
	}
	rbt_sched_set_gpus(w->d.sched.core, rbt_now_ns(), &(struct rbt_sched_gpus){.locked = 1});
	for (unsigned i = 0; i < n; i++) {
		add(w, i, priority_of(i));
	}
}

void world_finish(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		struct world_prog *one = &w->progs[i];

		accounting_end(&w->d, &one->p);
		events_end_client(&w->d, &one->p, &one->client);
	}
	rbt_sched_destroy(w->d.sched.core);
	munmap(w->boards, (size_t)w->n * RBT_BOARD_SIZE);
}

void world_submit(struct world *w, unsigned i, enum rbt_board_kind kind, uint64_t n)
{
	atomic_fetch_add(&w->progs[i].p.reader.board->slots[1].n[kind], n);
}

uint64_t world_next(const struct world *w)
{
	uint64_t core_ns = rbt_sched_next_tick(w->d.sched.core), events_ns = events_next(&w->d);

	return core_ns < events_ns ? core_ns : events_ns;
}

void world_run(struct world *w)
{
	const struct rbt_decision *ignored;

	if (rbt_now_ns() >= world_next(w)) {
		schedule_tick(&w->d);
	}
	accounting_follow(&w->d);
	while (rbt_sched_next_change(w->d.sched.core, &ignored) != NULL) {
	}
}

void world_tick(struct world *w)
{
	accounting_tick(&w->d);
}
