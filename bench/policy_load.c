/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a policy costs the daemon while 64 programs are busy on a GPU: events, questions, hooks and
 * wake-ups together, in per cent of a core. The daemon's own code makes the events and runs the
 * decision core; the software GPU, the driver and the hand are left out. Half of the programs take
 * turns. Another process counts their submissions on their boards.
 *
 * "steady": each program submits at one rate. "changing": each changes its rate every 15 ms, which
 * is the most that programs can do to be heard of often.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../tests/unit/test_follow_world.h"
#include "median.h"
#include "policy/engine.h"
#include "util/time.h"

#define N_PROGS   64
#define ROUNDS    3
#define TICK_NS   (250 * RBT_NS_PER_MS)
#define CHANGE_MS 15

static struct world w;
static struct rbt_engine *engine;
static struct rbt_object *object; /* of the engine */

struct result {
	double percent, work, asked, wakes; /* per second */
};
static uint64_t n_work, n_asked;

static void run_hook(enum rbt_hook hook, void *ctx)
{
	struct rbt_fault fault;

	if (rbt_engine_run(engine, hook, ctx, &fault) < 0) {
		fprintf(stderr, "policy_load: %s fails\n", rbt_hook_name(hook));
		exit(1);
	}
}

static bool ask(const struct rbt_event *event)
{
	struct bpf_gpu_schedule_ctx ctx = {
		.task = event->task.id,
		.pid = (uint32_t)event->pid,
		.channel_count = event->task.n_channels,
		.load = event->load.permille,
		.n_latency = event->load.n[RBT_CLASS_LATENCY],
		.n_normal = event->load.n[RBT_CLASS_NORMAL],
		.n_best_effort = event->load.n[RBT_CLASS_BEST_EFFORT],
		.allow_schedule = 1,
	};

	run_hook(RBT_HOOK_SCHEDULE, &ctx);
	n_asked++;
	return ctx.allow_schedule != 0;
}

static void tell_work(const struct rbt_event *event)
{
	const struct rbt_event_work *work = &event->work;
	struct bpf_gpu_work_ctx ctx = {
		.task = event->task.id,
		.pid = (uint32_t)event->pid,
		.timestamp = event->time_ns,
		.interval = work->interval_ns,
		.busy = work->busy_ns,
		.count = work->n_launches,
		.launches = work->n_launches,
		.syncs = work->n_syncs,
	};

	run_hook(RBT_HOOK_WORK_SUBMIT, &ctx);
	n_work++;
}

static bool hear(void *unused, const struct rbt_event *event, struct rbt_policy_output *ret_said)
{
	struct bpf_gpu_task_ctx made = {.task = event->task.id};

	switch (event->moment) {
	case RBT_MOMENT_INIT:
		run_hook(RBT_HOOK_TASK_INIT, &made);
		return true;
	case RBT_MOMENT_SCHEDULE:
		return ask(event);
	case RBT_MOMENT_WORK:
		tell_work(event);
		return true;
	default:
		return true;
	}
}

static const struct rbt_event_reader reader = {.wants_work = true, .read = hear};

static unsigned priority_of(unsigned i)
{
	return i % 2 == 0 ? RBT_PRIORITY_NORMAL : 2;
}

static void sleep_until(uint64_t at_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(at_ns / RBT_NS_PER_S), .tv_nsec = (long)(at_ns % RBT_NS_PER_S)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* The programs: a process of its own. */
static pid_t start_programs(bool are_changing)
{
	uint64_t rates[N_PROGS], now_ns = rbt_now_ns();
	pid_t pid = fork();

	if (pid != 0) {
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned ms = 0;; ms++) {
		for (unsigned i = 0; i < N_PROGS; i++) {
			if (ms == 0 || (are_changing && (ms + i) % CHANGE_MS == 0)) {
				rates[i] = are_changing ? (uint64_t)random() % 2 * 1000 : 10 + i;
			}
			world_submit(&w, i, RBT_BOARD_LAUNCH, rates[i]);
		}
		now_ns += RBT_NS_PER_MS;
		sleep_until(now_ns);
	}
}

/* The daemon's loop for so long. */
static struct result measure(bool has_policy, bool are_changing, uint64_t for_ns)
{
	uint64_t n_wakes = 0;

	world_init(&w, N_PROGS, priority_of, has_policy);
	events_set_policy(&w.d, has_policy ? &reader : NULL);
	pid_t programs = start_programs(are_changing);
	n_work = n_asked = 0;
	uint64_t end_ns = rbt_now_ns() + for_ns, tick_ns = rbt_now_ns() + TICK_NS;
	uint64_t began_ns = rbt_cpu_ns();
	while (rbt_now_ns() < end_ns) {
		uint64_t next_ns = world_next(&w) < tick_ns ? world_next(&w) : tick_ns;

		if (next_ns > rbt_now_ns()) {
			sleep_until(next_ns);
			n_wakes++;
		}
		world_run(&w);
		if (rbt_now_ns() >= tick_ns) {
			world_tick(&w);
			tick_ns += TICK_NS;
		}
	}
	double seconds = (double)for_ns / 1e9;
	struct result r = {
		.percent = (double)(rbt_cpu_ns() - began_ns) / (double)for_ns * 100,
		.work = (double)n_work / seconds,
		.asked = (double)n_asked / seconds,
		.wakes = (double)n_wakes / seconds,
	};
	kill(programs, SIGKILL);
	waitpid(programs, NULL, 0);
	world_finish(&w);
	return r;
}

/* The medians of some rounds of each way, in turn. Returns the policy's cost, in per cent. */
static double compare(const char *name, bool are_changing, uint64_t for_ns)
{
	double percent[2][ROUNDS];
	struct result last[2];

	for (int round = 0; round < ROUNDS; round++) {
		for (int way = 0; way < 2; way++) {
			last[way] = measure(way == 1, are_changing, for_ns);
			percent[way][round] = last[way].percent;
		}
	}
	double without = median(percent[0], ROUNDS), with = median(percent[1], ROUNDS);
	printf("%-10s %9.3f %9.3f %9.3f %9.0f %9.0f %9.0f\n", name, without, with, with - without,
		last[1].work, last[1].asked, last[1].wakes - last[0].wakes);
	return with - without;
}

static void open_engine(const char *path, enum rbt_engine_kind kind)
{
	static unsigned char bytes[1 << 20];
	struct rbt_why why;
	FILE *f = fopen(path, "re");
	size_t n = f != NULL ? fread(bytes, 1, sizeof(bytes), f) : 0;

	if (f == NULL || rbt_object_open(bytes, n, &object, &why) < 0 ||
		rbt_engine_open(kind, object, NULL, &engine, &why, NULL) < 0) {
		fprintf(stderr, "policy_load: cannot load %s\n", path);
		exit(1);
	}
	fclose(f);
}

int main(int argc, char **argv)
{
	double seconds = argc == 3 ? strtod(argv[2], NULL) : 3, worst = 0;

	if (argc < 2 || argc > 3 || seconds <= 0) {
		fprintf(stderr, "Usage: policy_load OBJECT [SECONDS]\n");
		return 2;
	}
	open_engine(argv[1], RBT_ENGINE_VM);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	printf("%d programs, vm: per cent of a core, and per second\n", N_PROGS);
	printf("%-10s %9s %9s %9s %9s %9s %9s\n", "", "no policy", "policy", "cost", "work",
		"schedule", "wake-ups");
	for (int i = 0; i < 2; i++) {
		double cost =
			compare(i == 0 ? "steady" : "changing", i == 1, (uint64_t)(seconds * 1e9));
		worst = cost > worst ? cost : worst;
	}
	rbt_engine_close(engine);
	rbt_object_close(object);
	/* The goal is one per cent. */
	return worst <= 1 ? 0 : 1;
}
