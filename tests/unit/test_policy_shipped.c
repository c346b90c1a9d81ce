/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policies that come with Rubato (policies/), on both engines at once: what each one promises,
 * and then thousands of random events, after which outputs, maps and records must be equal.
 */
#include "test_policy_pair.h"

#define S   1000000000ull
#define MS  1000000ull
#define ALL (~0u) /* every field is known */

static const char *const names[] = {
	"lc_be", "admission", "adaptive", "lifecycle", "cgroup_weights"};
#define N_NAMES (sizeof(names) / sizeof(*names))

static void open_with(struct pair *p, const char *name, const char *setting)
{
	struct rbt_why why = {""};

	p->o = open_object(name);
	CHECK(strcmp(p->o->ops.name, name) == 0);
	CHECK(setting == NULL || rbt_object_set(p->o, setting, &why) == 0);
	pair_load(p, NULL);
}

static void put(struct pair *p, const char *map, const void *key, const void *value)
{
	const unsigned m = (unsigned)rbt_object_find_map(p->o, map);

	for (int k = 0; k < RBT_N_ENGINES; k++) {
		if (p->e[k] != NULL) {
			CHECK_INT(rbt_engine_update(p->e[k], m, key, value, BPF_ANY), 0);
		}
	}
}

static unsigned entries(struct pair *p, const char *map)
{
	return count_entries(p->e[RBT_ENGINE_VM], (unsigned)rbt_object_find_map(p->o, map));
}

static struct bpf_gpu_task_ctx made(struct pair *p, uint64_t task, uint32_t pid)
{
	struct bpf_gpu_task_ctx ctx = {.task = task,
		.pid = pid,
		.valid = ALL,
		.cgroup_id = 9000 + pid,
		.default_timeslice = 2048,
		.timeslice = GPU_SCHED_KEEP,
		.interleave_level = GPU_SCHED_KEEP,
		.priority = GPU_SCHED_KEEP,
		.weight = GPU_SCHED_KEEP};

	snprintf(ctx.comm, sizeof(ctx.comm), "prog%u", pid);
	CHECK_INT(pair_run(p, RBT_HOOK_TASK_INIT, &ctx), 0);
	return ctx;
}

static void gone(struct pair *p, uint64_t task, uint32_t pid)
{
	struct bpf_gpu_task_destroy_ctx ctx = {.task = task, .pid = pid, .total_runtime = 5};

	CHECK_INT(pair_run(p, RBT_HOOK_TASK_DESTROY, &ctx), 0);
}

/* Work of `pid`, whose task has the same number; the fields that matter, and outputs to keep. */
static struct bpf_gpu_work_ctx worked(struct pair *p, uint32_t pid, struct bpf_gpu_work_ctx ctx)
{
	ctx.task = ctx.pid = pid;
	ctx.valid = ctx.valid != 0 ? ctx.valid : ALL;
	ctx.timeslice = ctx.interleave_level = ctx.priority = ctx.weight = GPU_SCHED_KEEP;
	CHECK_INT(pair_run(p, RBT_HOOK_WORK_SUBMIT, &ctx), 0);
	return ctx;
}

static void tick(struct pair *p, uint64_t now)
{
	struct bpf_gpu_policy_ctx ctx = {.timestamp = now, .n_gpus = 1};

	CHECK_INT(pair_run(p, RBT_HOOK_TICK, &ctx), 0);
}

static void test_lc_be(void)
{
	struct pair p;
	struct bpf_gpu_work_ctx none = {.count = 1}, ctx;
	const char name[GPU_SCHED_COMM_SIZE] = "prog5"; /* of pid 5 */
	static const struct {
		uint32_t type, timeslice, priority;
	} cases[] = {{1, 10000000, 13}, {2, 300, 2}, {0, 2048, 8}, {77, 2048, 8}};

	open_with(&p, "lc_be", "best_effort_us=300");
	struct bpf_gpu_task_ctx task = made(&p, 5, 5);
	CHECK(task.timeslice == GPU_SCHED_KEEP && task.priority == GPU_SCHED_KEEP);
	CHECK_INT(worked(&p, 5, none).priority, GPU_SCHED_KEEP);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		put(&p, "task_type_map", name, &cases[i].type);
		ctx = worked(&p, 5, none);
		CHECK_INT(ctx.timeslice, cases[i].timeslice);
		CHECK_INT(ctx.priority, cases[i].priority);
		task = made(&p, 6, 5);
		CHECK_INT(task.timeslice, cases[i].timeslice);
		CHECK_INT(task.priority, cases[i].priority);
		CHECK_INT(task.weight, GPU_SCHED_KEEP);
	}
	CHECK_INT(made(&p, 4, 4).priority, GPU_SCHED_KEEP); /* another program */
	CHECK_INT(worked(&p, 4, none).priority, GPU_SCHED_KEEP);
	struct bpf_gpu_task_ctx nameless = {.task = 9, .valid = ~GPU_SCHED_HAS_COMM, .priority = 1};
	CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &nameless), 0);
	CHECK_INT(nameless.priority, 1);
	for (uint64_t t = 4; t <= 6; t++) {
		gone(&p, t, 5);
	}
	CHECK_INT(entries(&p, "names"), 0);
	CHECK_INT(entries(&p, "task_type_map"), 1); /* the user's, for the next program */
	compare_maps(&p);
	pair_close(&p);
}

/* Whether the program may run. */
static bool may(struct pair *p, uint32_t pid, uint32_t priority, uint32_t load, uint32_t n_latency)
{
	struct bpf_gpu_schedule_ctx ctx = {.task = pid,
		.pid = pid,
		.valid = ALL,
		.user_priority = priority,
		.load = load,
		.n_latency = n_latency,
		.allow_schedule = 1,
		.priority = GPU_SCHED_KEEP};

	CHECK_INT(pair_run(p, RBT_HOOK_SCHEDULE, &ctx), 0);
	CHECK_INT(ctx.priority, GPU_SCHED_KEEP);
	CHECK(ctx.allow_schedule <= 1);
	return ctx.allow_schedule == 1;
}

static void test_admission_load(void)
{
	struct pair p;

	open_with(&p, "admission", NULL);
	made(&p, 1, 1);
	made(&p, 2, 2);
	made(&p, 3, 3);
	CHECK(may(&p, 1, 8, 1000, 0));  /* no latency program to protect */
	CHECK(!may(&p, 2, 8, 951, 1));  /* its first run, and the GPU is full */
	CHECK(may(&p, 1, 8, 1000, 1));  /* runs already */
	CHECK(may(&p, 3, 13, 1000, 1)); /* a latency program needs no free GPU */
	CHECK(may(&p, 2, 8, 950, 1));   /* there is room now */
	CHECK(may(&p, 2, 8, 1000, 1));
	made(&p, 4, 4);
	made(&p, 5, 5);
	CHECK(!may(&p, 4, 11, 0, 5)); /* one latency program too many */
	CHECK(may(&p, 5, 10, 0, 5));  /* not one of them */
	CHECK(may(&p, 4, 11, 0, 4));
	made(&p, 6, 6);
	CHECK(!may(&p, 6, 8, 1000, 1));
	worked(&p, 6, (struct bpf_gpu_work_ctx){.timestamp = S, .interval = MS, .count = 1});
	CHECK(may(&p, 6, 8, 1000, 1)); /* it has run, so it was there before the policy */
	made(&p, 60, 6);               /* another task of it */
	made(&p, 6, 6);                /* as after a reload: the same task */
	gone(&p, 60, 6);
	CHECK_INT(entries(&p, "programs"), 6);
	CHECK(may(&p, 6, 8, 1000, 1)); /* still admitted */
	for (uint32_t pid = 1; pid <= 6; pid++) {
		gone(&p, pid, pid);
	}
	CHECK_INT(entries(&p, "programs") + entries(&p, "tasks"), 0);
	made(&p, 7, 1);
	CHECK(!may(&p, 1, 8, 1000, 1)); /* another program with this process id */
	compare_maps(&p);
	pair_close(&p);
	open_with(&p, "admission", "always=true");
	made(&p, 1, 1);
	CHECK(!may(&p, 1, 8, 1000, 0));
	pair_close(&p);
}

static void submit(struct pair *p, uint32_t pid, uint64_t *now, uint64_t count)
{
	*now += 100 * MS;
	worked(p, pid,
		(struct bpf_gpu_work_ctx){.timestamp = *now, .interval = 100 * MS, .count = count});
}

/* Loads the policy again, as the daemon does: with the entries, and calls init. */
static void reload(struct pair *p, uint64_t now)
{
	struct bpf_gpu_policy_ctx ctx = {.timestamp = now, .n_gpus = 1};
	struct pair next = {.o = open_object(p->o->ops.name)};

	pair_load(&next, p);
	pair_close(p);
	*p = next;
	int r = pair_run(p, RBT_HOOK_INIT, &ctx);
	CHECK(r == 0 || r == -ENOENT);
}

static void test_admission_rate(void)
{
	struct pair p;
	const uint32_t pid = 7;
	const uint64_t limit = 500;
	uint64_t now = 100 * S;

	open_with(&p, "admission", NULL);
	made(&p, pid, pid);
	put(&p, "rate_limit_map", &pid, &limit);
	for (unsigned i = 0; i < 30; i++) { /* 490 per second, then 750 */
		CHECK(may(&p, pid, 8, 0, 0));
		submit(&p, pid, &now, i < 20 ? 49 : 75);
	}
	CHECK(!may(&p, pid, 8, 0, 0)); /* for half a second */
	for (unsigned i = 0; i < 4; i++) {
		submit(&p, pid, &now, 900); /* changes nothing */
		CHECK(!may(&p, pid, 8, 0, 0));
	}
	tick(&p, now += 101 * MS);
	CHECK(may(&p, pid, 8, 0, 0));
	for (unsigned i = 0; i < 10; i++) { /* nothing is left of what was before */
		submit(&p, pid, &now, 50);
		CHECK(may(&p, pid, 8, 0, 0));
	}
	for (unsigned i = 0; i < 10; i++) {
		submit(&p, pid, &now, 100000);
	}
	tick(&p, now + 1999 * MS); /* the longest pause */
	CHECK(!may(&p, pid, 8, 0, 0));
	tick(&p, now + 2000 * MS);
	CHECK(may(&p, pid, 8, 0, 0));
	reload(&p, now + 2100 * MS);
	CHECK(may(&p, pid, 8, 0, 0)); /* its pause is over */
	gone(&p, pid, pid);
	CHECK_INT(entries(&p, "rate_limit_map"), 0);
	compare_maps(&p);
	pair_close(&p);
}

/* A program's behaviour for some seconds; returns the priority that was last said. */
struct habit {
	uint64_t per_second, bursts, permille;
};

static uint32_t watch(
	struct pair *p, uint32_t pid, uint64_t *now, struct habit habit, unsigned seconds)
{
	struct bpf_gpu_work_ctx ctx = {0};

	for (unsigned i = 0; i < seconds * 4; i++) {
		*now += 250 * MS;
		ctx = worked(p, pid,
			(struct bpf_gpu_work_ctx){.timestamp = *now,
				.interval = 250 * MS,
				.count = habit.per_second / 4,
				.bursts = habit.bursts / 4,
				.busy = habit.permille * 250000});
	}
	return ctx.priority;
}

static void test_adaptive_rules(void)
{
	static const struct {
		const char *by;
		struct habit habit;
		uint32_t priority;
	} cases[] = {
		{"by=rate", {1200, 0, 300}, 13},
		{"by=rate", {80, 0, 300}, 2},
		{"by=rate", {400, 0, 300}, GPU_SCHED_KEEP},
		{"by=rate", {8000, 4, 1000}, 13}, /* a trainer with small kernels, which fools it */
		{"by=bursts", {8000, 4, 1000}, 2},
		{"by=bursts", {80, 40, 300}, 13},
		{"by=bursts", {80, 12, 300}, GPU_SCHED_KEEP},
		{"by=duty", {8000, 4, 1000}, 2}, /* the same trainer */
		{"by=duty", {80, 4, 1000}, 2},
		{"by=duty", {80, 40, 300}, 13},
		{"by=duty", {8000, 40, 300}, 13},
		{"by=duty", {80, 40, 800}, GPU_SCHED_KEEP},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct pair p;
		uint64_t now = 1000 * S;
		open_with(&p, "adaptive", cases[i].by);
		CHECK_INT(watch(&p, 3, &now, cases[i].habit, 3), GPU_SCHED_KEEP); /* warms up */
		CHECK_INT(watch(&p, 3, &now, cases[i].habit, 4), cases[i].priority);
		compare_maps(&p);
		gone(&p, 3, 3);
		CHECK_INT(entries(&p, "programs"), 0);
		pair_close(&p);
	}
}

static void test_adaptive_is_steady(void)
{
	const struct habit server = {100, 50, 300}, trainer = {100, 1, 1000},
			   between = {100, 9, 800};
	unsigned char record[512];
	uint64_t now = 50 * S;
	struct pair p;
	char text[128];

	open_with(&p, "adaptive", "by=duty");
	watch(&p, 3, &now, trainer, 4);
	for (int i = 0; i < 20; i++) { /* never two windows alike: no judgement */
		CHECK_INT(watch(&p, 3, &now, i % 2 == 0 ? server : trainer, 1), GPU_SCHED_KEEP);
	}
	CHECK_INT(watch(&p, 3, &now, trainer, 3), 2);
	CHECK_INT(watch(&p, 3, &now, between, 9), 2);
	for (int i = 0; i < 20; i++) { /* one pause does not make a server */
		CHECK_INT(watch(&p, 3, &now, i % 2 == 0 ? server : trainer, 1), 2);
	}
	CHECK_INT(watch(&p, 3, &now, server, 3), 13);
	CHECK_INT(watch(&p, 3, &now, between, 9), 13);
	CHECK_INT(drain(&p, RBT_OBJECT_LOG_RING, record, 8), 2); /* as many as changes */
	rbt_log_format(record, sizeof(struct gpu_sched_log_record), text, sizeof(text));
	CHECK(strcmp(text, "pid 3 is a latency program") == 0);
	/* A field without its bit in `valid` is unknown, and its value 0 says nothing. */
	struct bpf_gpu_work_ctx unknown = {.valid = ~GPU_SCHED_HAS_BUSY, .interval = 5 * S};
	for (int i = 0; i < 5; i++) {
		unknown.timestamp = now += 5 * S;
		worked(&p, 4, unknown);
		CHECK_INT(worked(&p, 4, unknown).priority, GPU_SCHED_KEEP);
	}
	compare_maps(&p);
	pair_close(&p);
}

struct lifecycle_stats {
	uint64_t made, gone, submissions, bursts, busy_ns, runtime_ns, n_silent;
};

static struct lifecycle_stats stats_of(struct pair *p)
{
	struct lifecycle_stats s;
	const uint32_t zero = 0;
	const unsigned m = (unsigned)rbt_object_find_map(p->o, "global_stats");

	compare_maps(p);
	CHECK_INT(p->o->maps[m].value_size, sizeof(s));
	CHECK_INT(rbt_engine_lookup(p->e[RBT_ENGINE_VM], m, &zero, &s), 0);
	return s;
}

static void test_lifecycle(void)
{
	struct bpf_gpu_work_ctx work = {.timestamp = 10 * S, .count = 4, .bursts = 2, .busy = 7};
	unsigned char record[512];
	struct pair p;
	char text[128];

	open_with(&p, "lifecycle", "silence_s=3");
	made(&p, 1, 1);
	made(&p, 1, 1); /* as after a reload */
	made(&p, 2, 2); /* never submits: nothing is known about it, so it is not silent */
	worked(&p, 1, work);
	worked(&p, 99, work); /* not known */
	tick(&p, 13 * S);
	CHECK_INT(stats_of(&p).n_silent, 0);
	tick(&p, 14 * S);
	tick(&p, 15 * S);
	CHECK_INT(stats_of(&p).n_silent, 1);
	CHECK_INT(drain(&p, RBT_OBJECT_LOG_RING, record, 8), 1); /* once */
	rbt_log_format(record, sizeof(struct gpu_sched_log_record), text, sizeof(text));
	CHECK(strcmp(text, "task 1 of pid 1: no work for 4 s") == 0);
	work.timestamp = 16 * S;
	worked(&p, 1, work);
	tick(&p, 17 * S);
	CHECK_INT(stats_of(&p).n_silent, 0);
	tick(&p, 30 * S);
	CHECK_INT(stats_of(&p).n_silent, 1);
	gone(&p, 1, 1);
	gone(&p, 2, 2);
	gone(&p, 2, 2);
	struct lifecycle_stats s = stats_of(&p);
	CHECK(s.made == 2 && s.gone == 2 && s.submissions == 8 && s.bursts == 4 && s.busy_ns == 14);
	CHECK(s.runtime_ns == 10 && s.n_silent == 0 && entries(&p, "tasks") == 0);
	/* made, made, silent, back, silent, gone, gone */
	CHECK_INT(drain(&p, "events", record, 8), 7);
	tick(&p, 60 * S);
	CHECK_INT(drain(&p, "events", record, 8), 0);
	pair_close(&p);
}

static void test_cgroup_weights(void)
{
	struct bpf_gpu_task_ctx unknown = {.task = 9, .valid = ~GPU_SCHED_HAS_CGROUP, .weight = 1};
	const uint64_t group = 9001; /* of pid 1 */
	uint32_t weight = 300;
	struct pair p;

	open_with(&p, "cgroup_weights", NULL);
	put(&p, "weights", &group, &weight);
	CHECK_INT(made(&p, 1, 1).weight, 300);
	CHECK_INT(made(&p, 2, 2).weight, GPU_SCHED_KEEP);
	CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &unknown), 0);
	CHECK_INT(unknown.weight, 1);
	weight = 50;
	put(&p, "weights", &group, &weight);
	CHECK_INT(worked(&p, 1, (struct bpf_gpu_work_ctx){0}).weight, 50);
	CHECK_INT(worked(&p, 9, (struct bpf_gpu_work_ctx){0}).weight, GPU_SCHED_KEEP);
	gone(&p, 1, 1);
	gone(&p, 2, 2);
	CHECK_INT(entries(&p, "cgroups"), 0);
	CHECK_INT(entries(&p, "weights"), 1); /* the user's */
	compare_maps(&p);
	pair_close(&p);
	open_with(&p, "cgroup_weights", "default_weight=70");
	CHECK_INT(made(&p, 2, 2).weight, 70);
	pair_close(&p);
}

static uint64_t seed;

static uint64_t random_number(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 24;
}

/* Mostly small numbers, so that keys return and rules apply; sometimes anything. */
static void fill_randomly(void *bytes, size_t size)
{
	for (size_t at = 0; at + 4 <= size; at += 4) {
		uint64_t kind = random_number() % 16;
		uint32_t word = kind == 0   ? (uint32_t)random_number()
				: kind == 1 ? GPU_SCHED_KEEP
				: kind < 8  ? 0
					    : (uint32_t)(random_number() % 8);
		memcpy((unsigned char *)bytes + at, &word, 4);
	}
}

/* One event: its task, process and time are plausible, everything else is random. */
static void random_event(struct pair *p, uint64_t *now)
{
	union {
		struct bpf_gpu_task_ctx task;
		struct bpf_gpu_schedule_ctx schedule;
		struct bpf_gpu_work_ctx work;
		struct bpf_gpu_policy_ctx policy;
		unsigned char bytes[256];
	} ctx;
	static const enum rbt_hook hooks[16] = {RBT_HOOK_TASK_INIT, RBT_HOOK_TASK_INIT,
		RBT_HOOK_TASK_DESTROY, RBT_HOOK_SCHEDULE, RBT_HOOK_SCHEDULE, RBT_HOOK_SCHEDULE,
		RBT_HOOK_TICK, RBT_HOOK_WORK_SUBMIT, RBT_HOOK_WORK_SUBMIT, RBT_HOOK_WORK_SUBMIT,
		RBT_HOOK_WORK_SUBMIT, RBT_HOOK_WORK_SUBMIT, RBT_HOOK_WORK_SUBMIT,
		RBT_HOOK_WORK_SUBMIT, RBT_HOOK_WORK_SUBMIT, RBT_HOOK_WORK_SUBMIT};
	enum rbt_hook hook = hooks[random_number() % 16];
	const uint64_t step_ns = random_number() % (400 * MS);

	fill_randomly(ctx.bytes, sizeof(ctx.bytes));
	*now += step_ns;
	if (hook == RBT_HOOK_TICK) {
		ctx.policy.timestamp = *now;
	} else {
		ctx.task.task = 1 + random_number() % 300;
		ctx.task.pid = (uint32_t)ctx.task.task / 3;
		ctx.task.valid = random_number() % 8 == 0 ? ctx.task.valid : ALL;
	}
	if (hook == RBT_HOOK_WORK_SUBMIT && random_number() % 16 != 0) {
		ctx.work.timestamp = *now;
		ctx.work.interval = 1 + random_number() % (2 * S);
		ctx.work.busy = ctx.work.interval / (1 + random_number() % 3);
		ctx.work.count = random_number() % 5000;
		ctx.work.bursts = random_number() % 50;
	} else if (hook == RBT_HOOK_SCHEDULE && random_number() % 4 != 0) {
		ctx.schedule.user_priority = (uint32_t)(random_number() % 16);
		ctx.schedule.load = (uint32_t)(random_number() % 1001);
		ctx.schedule.n_latency = (uint32_t)(random_number() % 7);
		ctx.schedule.allow_schedule = 1;
	}
	int r = pair_run(p, hook, &ctx);
	CHECK(r == 0 || (r == -ENOENT && !rbt_engine_has_hook(p->e[RBT_ENGINE_VM], hook)));
}

/* As a user does, who changes the entries of maps meanwhile. */
static void random_entry(struct pair *p)
{
	static const struct {
		const char *policy, *map;
	} maps[] = {{"lc_be", "task_type_map"}, {"admission", "rate_limit_map"},
		{"cgroup_weights", "weights"}};

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		if (strcmp(p->o->ops.name, maps[i].policy) == 0) {
			uint64_t key[2] = {random_number() % 100}, value = random_number() % 1000;
			put(p, maps[i].map, key, &value);
		}
	}
}

static void test_random(void)
{
	static const char *const settings[] = {"by=duty", "by=bursts", "always=true", NULL};

	for (size_t n = 0; n < N_NAMES * 4; n++) {
		struct rbt_why why = {""};
		unsigned char record[512];
		struct pair p;
		uint64_t now = S;
		seed = n + 1;
		p.o = open_object(names[n / 4]);
		if (settings[n % 4] != NULL && rbt_object_set(p.o, settings[n % 4], &why) < 0) {
			rbt_object_close(p.o); /* another policy's */
			continue;
		}
		pair_load(&p, NULL);
		for (int i = 0; i < 6000; i++) {
			random_event(&p, &now);
			if (i % 50 == 0) {
				random_entry(&p);
			}
			if (i % 100 == 0) { /* before a ring is full */
				compare_maps(&p);
				if (rbt_object_find_map(p.o, RBT_OBJECT_LOG_RING) >= 0) {
					drain(&p, RBT_OBJECT_LOG_RING, record, 8);
				}
				if (rbt_object_find_map(p.o, "events") >= 0) {
					drain(&p, "events", record, 8);
				}
			}
		}
		compare_maps(&p);
		pair_close(&p);
	}
}

int main(int argc, char **argv)
{
	pair_begin(argc, argv);
	test_lc_be();
	test_admission_load();
	test_admission_rate();
	test_adaptive_rules();
	test_adaptive_is_steady();
	test_lifecycle();
	test_cgroup_weights();
	test_random();
	return check_result();
}
