/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies inside the daemon: contexts from events, strikes, refusals, the log's lines, and the
 * file for the next daemon. The engine is the test's own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "daemon/daemon.h"
#include "daemon/policy/hooks.h"
#include "daemon/policy/keep.h"
#include "daemon/policy/lines.h"
#include "daemon/policy/manager.h"
#include "policy/engine_ops.h"
#include "util/time.h"

static struct daemon d;
static struct program prog;
static struct rbt_object object;
static struct policy policy;

/* What the engine does, and what it was asked. */
static struct {
	unsigned n[RBT_N_HOOKS];
	union {
		struct bpf_gpu_task_ctx task;
		struct bpf_gpu_schedule_ctx schedule;
		struct bpf_gpu_work_ctx work;
		struct bpf_gpu_task_destroy_ctx destroy;
	} last;
	bool fails, refuses, changes;
	uint64_t burn_ns, sleep_us;
	uint32_t priority;
} engine_does;

static int run(struct rbt_engine *e, enum rbt_hook hook, void *ctx, struct rbt_fault *fault)
{
	engine_does.n[hook]++;
	memcpy(&engine_does.last, ctx, rbt_hook_ctx_size(hook));
	for (uint64_t began = rbt_cpu_ns(); rbt_cpu_ns() - began < engine_does.burn_ns;) {
	}
	usleep((useconds_t)engine_does.sleep_us);
	if (hook == RBT_HOOK_SCHEDULE) {
		((struct bpf_gpu_schedule_ctx *)ctx)->allow_schedule = !engine_does.refuses;
		((struct bpf_gpu_schedule_ctx *)ctx)->priority = engine_does.priority;
	}
	if (hook == RBT_HOOK_TASK_INIT) {
		((struct bpf_gpu_task_ctx *)ctx)->timeslice = 500;
	}
	*fault = (struct rbt_fault){
		.kind = RBT_FAULT_RETURNED, .section = "gpu_sched/x", .value = -1};
	return engine_does.fails ? -EFAULT : 0;
}

static const struct rbt_engine_ops fake_ops = {.kind = RBT_ENGINE_VM, .run = run};
static struct rbt_engine fake = {.ops = &fake_ops, .object = &object};

static void begin(uint32_t timeout_ms)
{
	static struct rbt_object_function function;

	memset(&d, 0, sizeof(d));
	memset(&prog, 0, sizeof(prog));
	memset(&policy, 0, sizeof(policy));
	memset(&engine_does, 0, sizeof(engine_does));
	engine_does.priority = GPU_SCHED_KEEP;
	object = (struct rbt_object){.functions = &function, .n_functions = 1};
	object.ops.timeout_ms = timeout_ms;
	policy.daemon = &d;
	policy.object = &object;
	policy.engine = &fake;
	policy_call_init(&policy);
	d.policy.current = &policy;
	prog.pid = getpid();
}

static struct rbt_event event_of(enum rbt_moment moment, uint64_t time_ns)
{
	return (struct rbt_event){
		.moment = moment,
		.time_ns = time_ns,
		.owner = &prog,
		.pid = prog.pid,
		.uid = 1000,
		.priority = 9,
		.task = {.id = 7,
			.valid = RBT_EVENT_HAS_GPU | RBT_EVENT_HAS_RUNLIST | RBT_EVENT_HAS_TSG |
				 RBT_EVENT_HAS_TIMESLICE,
			.gpu = 1,
			.runlist = 8,
			.tsg = 3,
			.n_channels = 4,
			.timeslice_us = 2048,
			.created_ns = 55},
	};
}

static bool tell(const struct rbt_event *event, struct rbt_policy_output *ret)
{
	*ret = RBT_POLICY_OUTPUT_INIT;
	return policy.reader.read(policy.reader.ctx, event, ret);
}

static void check_task(uint64_t task, uint32_t gpu, uint32_t runlist, uint32_t tsg, uint32_t pid)
{
	CHECK_INT(task, 7);
	CHECK_INT(gpu, 1);
	CHECK_INT(runlist, 8);
	CHECK_INT(tsg, 3);
	CHECK_INT(pid, (uint32_t)getpid());
}
#define CHECK_TASK(c) check_task((c)->task, (c)->gpu, (c)->runlist_id, (c)->tsg_id, (c)->pid)

static void test_context_of_init(void)
{
	const struct bpf_gpu_task_ctx *c = &engine_does.last.task;
	struct rbt_event event = event_of(RBT_MOMENT_INIT, 1);
	struct rbt_policy_output said;

	begin(0);
	prog.treat.said = RBT_TREAT_BIT(PRIORITY);
	event.pid = prog.pid;
	CHECK(tell(&event, &said));
	CHECK_INT(engine_does.n[RBT_HOOK_TASK_INIT], 1);
	CHECK_TASK(c);
	const uint32_t always = GPU_SCHED_HAS_RUNLIST | GPU_SCHED_HAS_TSG |
				GPU_SCHED_HAS_USER_PRIORITY | GPU_SCHED_HAS_ENGINE |
				GPU_SCHED_HAS_UID | GPU_SCHED_HAS_COMM | GPU_SCHED_HAS_DEFAULTS;
	/* Whether there are cgroups depends on the machine. */
	CHECK_INT(c->valid & ~GPU_SCHED_HAS_CGROUP, always);
	CHECK_INT((c->valid & GPU_SCHED_HAS_CGROUP) != 0, c->cgroup_id != 0);
	CHECK_INT(c->user_priority, 9);
	CHECK_INT(c->uid, 1000);
	CHECK_INT(c->engine_type, GPU_SCHED_ENGINE_COMPUTE);
	CHECK_INT(c->default_timeslice, 2048);
	CHECK_INT(c->default_interleave, 1);
	CHECK(strcmp(c->comm, "test_daemon_pol") == 0);
	CHECK_INT(c->timeslice, GPU_SCHED_KEEP);
	CHECK_INT(said.timeslice_us, 500);
	CHECK_INT(said.priority, RBT_POLICY_KEEP);

	/* Unknown is not zero; outputs of copy tasks are not the program's. */
	event.task.valid = 0;
	event.task.engine = RBT_EVENT_COPY;
	prog.treat.said = 0;
	CHECK(tell(&event, &said));
	CHECK_INT(c->valid & ~GPU_SCHED_HAS_CGROUP,
		GPU_SCHED_HAS_ENGINE | GPU_SCHED_HAS_UID | GPU_SCHED_HAS_COMM);
	CHECK_INT(c->runlist_id, 0);
	CHECK_INT(c->tsg_id, 0);
	CHECK_INT(c->default_timeslice, 0);
	CHECK_INT(said.timeslice_us, RBT_POLICY_KEEP);
}

static void test_context_of_schedule(void)
{
	const struct bpf_gpu_schedule_ctx *c = &engine_does.last.schedule;
	struct rbt_event event = event_of(RBT_MOMENT_SCHEDULE, RBT_NS_PER_S);
	struct rbt_policy_output said;

	begin(0);
	event.pid = prog.pid;
	event.load = (struct rbt_sched_load){.n = {3, 2, 1}, .permille = 900};
	engine_does.priority = 4;
	CHECK(tell(&event, &said));
	CHECK_TASK(c);
	CHECK_INT(c->valid, GPU_SCHED_HAS_RUNLIST | GPU_SCHED_HAS_TSG | GPU_SCHED_HAS_LOAD |
				    GPU_SCHED_HAS_CHANNELS);
	CHECK_INT(c->channel_count, 4);
	CHECK_INT(c->load, 900);
	CHECK_INT(c->n_best_effort, event.load.n[RBT_CLASS_BEST_EFFORT]);
	CHECK_INT(c->n_normal, event.load.n[RBT_CLASS_NORMAL]);
	CHECK_INT(c->n_latency, event.load.n[RBT_CLASS_LATENCY]);
	CHECK_INT(c->allow_schedule, 1);
	CHECK_INT(said.priority, 4);
	/* The core may ask again at once, because the priority is another now. */
	event.time_ns += RBT_NS_PER_MS;
	CHECK(tell(&event, &said));
	CHECK_INT(said.priority, RBT_POLICY_KEEP);
	event.time_ns += 10 * RBT_NS_PER_MS;
	CHECK(tell(&event, &said));
	CHECK_INT(said.priority, 4);
}

static void test_contexts_of_work_and_end(void)
{
	const struct bpf_gpu_work_ctx *w = &engine_does.last.work;
	const struct bpf_gpu_task_destroy_ctx *e = &engine_does.last.destroy;
	struct rbt_event event = event_of(RBT_MOMENT_WORK, 4444);
	struct rbt_policy_output said;

	begin(0);
	event.pid = prog.pid;
	event.work = (struct rbt_event_work){.interval_ns = 100,
		.busy_ns = 40,
		.n_launches = 1,
		.n_graphs = 2,
		.n_copies = 4,
		.n_memsets = 8,
		.n_syncs = 16,
		.n_bursts = 32};
	CHECK(tell(&event, &said));
	CHECK_TASK(w);
	CHECK_INT(w->valid, GPU_SCHED_HAS_RUNLIST | GPU_SCHED_HAS_TSG | GPU_SCHED_HAS_WORK);
	CHECK_INT(w->busy, 0);
	CHECK_INT(w->count, 15);
	CHECK_INT(w->launches + w->graphs * 2 + w->copies * 4 + w->memsets * 8, 1 + 4 + 16 + 64);
	CHECK_INT(w->syncs, 16);
	CHECK_INT(w->bursts, 32);
	CHECK_INT(w->timestamp, 4444);
	CHECK_INT(w->interval, 100);
	prog.sched.params.is_known = true;
	CHECK(tell(&event, &said));
	CHECK((w->valid & GPU_SCHED_HAS_BUSY) != 0 && w->busy == 40);

	event = event_of(RBT_MOMENT_DESTROY, 5555);
	event.pid = prog.pid;
	event.used_ns = 66;
	CHECK(tell(&event, &said));
	CHECK_TASK(e);
	CHECK((e->valid & GPU_SCHED_HAS_RUNTIME) != 0 && e->total_runtime == 66);
	CHECK_INT(e->created, 55);
	prog.sched.params.is_known = false;
	CHECK(tell(&event, &said));
	CHECK((e->valid & GPU_SCHED_HAS_RUNTIME) == 0 && e->total_runtime == 0);
}

static void test_outputs(void)
{
	struct rbt_policy_output o = hooks_output(GPU_SCHED_KEEP, 1, 2, 3);

	CHECK_INT(o.timeslice_us, RBT_POLICY_KEEP);
	CHECK_INT(o.interleave, 1);
	CHECK_INT(o.priority, 2);
	CHECK_INT(o.weight, 3);
	CHECK_INT(hooks_output(0, 0, 0, 0).timeslice_us, 0);
	CHECK_INT(hooks_output(500, 0, 0, 0).timeslice_us, 500);
	/* A long slice does not become "keep", nor a short one. */
	CHECK_INT(hooks_output(UINT64_MAX, 0, 0, 0).timeslice_us, UINT32_MAX - 1);
	CHECK_INT(hooks_output(UINT64_C(1) << 32, 0, 0, 0).timeslice_us, UINT32_MAX - 1);
}

static void test_faults_are_strikes(void)
{
	struct rbt_event event = event_of(RBT_MOMENT_SCHEDULE, RBT_NS_PER_S);
	struct rbt_policy_output said;

	begin(0);
	engine_does.fails = engine_does.refuses = true;
	for (int i = 0; i < 2; i++) {
		CHECK(tell(&event, &said));
		CHECK(!policy.is_condemned);
	}
	CHECK(tell(&event, &said));
	CHECK(policy.is_condemned);
	CHECK(strcmp(policy.reason,
		      "fault: section gpu_sched/x: the hook returned -1; 3 strikes in "
		      "10 s") == 0);
	CHECK_INT(policy.stats[RBT_HOOK_SCHEDULE].n_errors, 3);
	CHECK_INT(policy.stats[RBT_HOOK_SCHEDULE].n_calls, 3);
	/* No hook is called any more. */
	CHECK(tell(&event, &said));
	CHECK_INT(engine_does.n[RBT_HOOK_SCHEDULE], 3);
}

/* A daemon that was kept from running for a while blames nobody. */
static void test_late(void)
{
	struct rbt_event event = event_of(RBT_MOMENT_WORK, RBT_NS_PER_S);
	struct rbt_policy_output said;

	begin(0);
	engine_does.sleep_us = 2000;
	for (int i = 0; i < 5; i++) {
		CHECK(tell(&event, &said));
	}
	CHECK(!policy.is_condemned);
	CHECK_INT(policy.stats[RBT_HOOK_WORK_SUBMIT].n_late, 5);
	CHECK(policy.stats[RBT_HOOK_WORK_SUBMIT].max_ns > 2 * RBT_NS_PER_MS);

	begin(0);
	engine_does.burn_ns = 2 * RBT_NS_PER_MS;
	for (int i = 0; i < 4; i++) {
		CHECK(!policy.is_condemned);
		CHECK(tell(&event, &said));
	}
	CHECK(policy.is_condemned);
	CHECK(strncmp(policy.reason, "late: hook work_submit took ", 28) == 0);
}

/* What a hook says does not count if it used too much time. */
static void test_late_answers(void)
{
	struct rbt_event init = event_of(RBT_MOMENT_INIT, RBT_NS_PER_S),
			 schedule = event_of(RBT_MOMENT_SCHEDULE, RBT_NS_PER_S);
	struct rbt_policy_output said;

	begin(0);
	engine_does.refuses = true;
	engine_does.burn_ns = 2 * RBT_NS_PER_MS;
	CHECK(tell(&init, &said));
	CHECK_INT(said.timeslice_us, 500); /* from now on the time is measured */
	CHECK(tell(&init, &said));
	CHECK_INT(said.timeslice_us, RBT_POLICY_KEEP);
	CHECK(tell(&schedule, &said));
	CHECK(!policy.is_condemned);

	/* The daemon's thread did not run for a while, which is not the policy's fault. */
	begin(0);
	engine_does.refuses = true;
	engine_does.sleep_us = 2000;
	for (int i = 0; i < 3; i++) {
		CHECK(tell(&init, &said));
		CHECK_INT(said.timeslice_us, 500);
		CHECK(!tell(&schedule, &said));
	}
}

static void test_strikes(void)
{
	struct safety s = {0};
	const uint64_t t = 100 * RBT_NS_PER_S;

	CHECK(!safety_strike(&s, t));
	CHECK(!safety_strike(&s, t + POLICY_STRIKES_IN_NS));
	CHECK(!safety_strike(&s, t + POLICY_STRIKES_IN_NS + 1));
	CHECK(safety_strike(&s, t + POLICY_STRIKES_IN_NS + 2));
	s = (struct safety){0};
	CHECK(!safety_strike(&s, 1) && !safety_strike(&s, 2) && safety_strike(&s, 3));
	CHECK_INT(safety_timeout_ns(0), 5000 * RBT_NS_PER_MS);
	CHECK_INT(safety_timeout_ns(1), 100 * RBT_NS_PER_MS);
	CHECK_INT(safety_timeout_ns(700), 700 * RBT_NS_PER_MS);
	CHECK_INT(safety_timeout_ns(UINT32_MAX), 60000 * RBT_NS_PER_MS);
}

/* Asks every 100 ms, from `from` on, and returns how often the task was refused. */
static int ask_for(uint64_t *now_ns, uint64_t ms, uint64_t task, bool is_first_run)
{
	struct rbt_policy_output said;
	int n = 0;

	for (uint64_t end_ns = *now_ns + ms * RBT_NS_PER_MS; *now_ns < end_ns;) {
		struct rbt_event event = event_of(RBT_MOMENT_SCHEDULE, *now_ns);

		event.task.id = task;
		event.is_first_run = is_first_run;
		n += !tell(&event, &said);
		*now_ns += 100 * RBT_NS_PER_MS;
	}
	return n;
}

static void test_a_running_program_is_not_refused_for_ever(void)
{
	uint64_t now_ns = RBT_NS_PER_S;

	begin(1000);
	engine_does.refuses = true;
	CHECK_INT(ask_for(&now_ns, 1000, 7, false), 10);
	CHECK(!policy.is_condemned);
	CHECK_INT(ask_for(&now_ns, 100, 7, false), 0);
	CHECK(policy.is_condemned);
	CHECK(strstr(policy.reason, "was refused for 1000 ms") != NULL);

	/* While the program is idle it is not kept off. It is refused as a whole, whichever of its
	 * other tasks is admitted. */
	begin(1000);
	for (int i = 0; i < 4; i++) {
		engine_does.refuses = true;
		CHECK_INT(ask_for(&now_ns, 100, 7, false), 1);
		CHECK(!policy.is_condemned);
		engine_does.refuses = false;
		CHECK_INT(ask_for(&now_ns, 100, 6, false), 0);
		now_ns += 20 * RBT_NS_PER_S;
	}
	engine_does.refuses = true;
	CHECK_INT(ask_for(&now_ns, 100, 7, false), 0);
	CHECK(policy.is_condemned);

	begin(1000);
	engine_does.refuses = true;
	CHECK_INT(ask_for(&now_ns, 900, 7, false), 9);
	engine_does.refuses = false;
	CHECK_INT(ask_for(&now_ns, 100, 7, false), 0);
	engine_does.refuses = true;
	CHECK_INT(ask_for(&now_ns, 900, 7, false), 9);
	CHECK(!policy.is_condemned);
}

/* Asks about two tasks of a program, as before a turn; the first refusal is the answer. */
static bool ask_both(uint64_t now_ns, bool refuses_first, bool refuses_second)
{
	const bool refuses[] = {refuses_first, refuses_second};
	struct rbt_policy_output said;
	bool yes = true;

	for (int i = 0; i < 2 && yes; i++) {
		struct rbt_event event = event_of(RBT_MOMENT_SCHEDULE, now_ns);

		event.task.id = 7 + (uint64_t)i;
		engine_does.refuses = refuses[i];
		yes = tell(&event, &said);
	}
	return yes;
}

static void test_tasks_that_are_refused_by_turns(void)
{
	uint64_t now_ns = RBT_NS_PER_S;
	int n = 0;

	/* The program never runs, although each of its tasks is admitted now and then. */
	begin(1000);
	while (n < 20 && !ask_both(now_ns, n % 2 == 0, n % 2 != 0)) {
		now_ns += 100 * RBT_NS_PER_MS;
		n++;
	}
	CHECK_INT(n, 10);
	CHECK(policy.is_condemned);

	/* It has run meanwhile, once or several times. */
	for (int times = 1; times < 4; times++) {
		begin(1000);
		for (int i = 0; i < 10; i++, now_ns += 100 * RBT_NS_PER_MS) {
			CHECK(!ask_both(now_ns, true, false));
		}
		for (int i = 0; i < times; i++, now_ns += 100 * RBT_NS_PER_MS) {
			CHECK(ask_both(now_ns, false, false));
		}
		for (int i = 0; i < 10; i++, now_ns += 100 * RBT_NS_PER_MS) {
			CHECK(!ask_both(now_ns, false, true));
		}
		CHECK(!policy.is_condemned);
	}
}

static void test_first_runs_are_overruled(void)
{
	uint64_t now_ns = RBT_NS_PER_S;

	begin(1000);
	engine_does.refuses = true;
	CHECK_INT(ask_for(&now_ns, 3000, 7, true), 10);
	CHECK_INT(policy.n_overruled, 1);
	CHECK(!policy.is_condemned);
	/* Another task waits for its own time. */
	CHECK_INT(ask_for(&now_ns, 3000, 8, true), 10);
	CHECK_INT(policy.n_overruled, 2);
	CHECK_INT(d.policy.n_overruled, 2);
	CHECK(!policy.is_condemned);
}

static void test_lines(void)
{
	struct policy_lines l = {0};
	char text[32];

	CHECK(lines_find(&l, 0) == NULL);
	for (int i = 1; i <= 3 * POLICY_LINES_MAX / 2; i++) {
		snprintf(text, sizeof(text), "line %d", i);
		lines_add(&l, (uint64_t)i, 1, text);
		CHECK(lines_find(&l, (uint64_t)i + 1) == NULL);
		CHECK_INT(lines_find(&l, (uint64_t)i)->number, i);
	}
	const uint64_t first = POLICY_LINES_MAX / 2 + 1;
	for (uint64_t n = 0; n <= first; n++) {
		CHECK_INT(lines_find(&l, n)->number, first);
	}
	CHECK(strcmp(lines_find(&l, 1000)->text, "line 1000") == 0);
	lines_finish(&l);
}

/* The file of the next daemon: all of it, or nothing. */
static void test_keep(void)
{
	static char buf[4096];
	const struct rbt_policy_load load = {.engine = RBT_POLICY_VM,
		.flags = RBT_POLICY_FOREGROUND,
		.label = "x.o",
		.settings = {"a=1", "b=2"},
		.n_settings = 2};
	static const uint32_t magic = 0x31796c70;
	struct kept kept;
	ssize_t n = rbt_policy_load_encode(&load, buf + 16, sizeof(buf) - 16);
	const uint32_t load_size = (uint32_t)n;
	const uint64_t object_size = 100;
	const size_t size = 16 + (size_t)n + 100;

	memcpy(buf, &magic, 4);
	memcpy(buf + 4, &load_size, 4);
	memcpy(buf + 8, &object_size, 8);
	memset(buf + 16 + n, 'o', 100);
	for (size_t cut = 0; cut <= size; cut++) {
		char *bytes = malloc(cut + 1);

		memcpy(bytes, buf, cut);
		int r = keep_decode(bytes, cut, &kept);
		CHECK_INT(r, cut == size ? 0 : -EBADMSG);
	}
	CHECK_INT(kept.request.size, 100);
	CHECK_INT(((const char *)kept.request.bytes)[99], 'o');
	CHECK_INT(kept.request.load.n_settings, 2);
	CHECK(strcmp(kept.request.load.settings[1], "b=2") == 0);
	CHECK(strcmp(kept.request.load.label, "x.o") == 0);
	CHECK_INT(kept.request.load.engine, RBT_POLICY_VM);
	CHECK_INT(kept.request.load.flags, 0);
	keep_finish(&kept);
	/* Sizes that add up only if they overflow. */
	for (int at = 0; at < 16; at++) {
		char *bytes = malloc(size);

		memcpy(bytes, buf, size);
		bytes[at] ^= (char)0xff;
		CHECK_INT(keep_decode(bytes, size, &kept), -EBADMSG);
	}
}

/* Of keep.c's and manager.c's world, which is not here. */
bool home_is_ours(const struct daemon *daemon)
{
	return false;
}

int main(void)
{
	test_context_of_init();
	test_context_of_schedule();
	test_contexts_of_work_and_end();
	test_outputs();
	test_faults_are_strikes();
	test_late();
	test_late_answers();
	test_strikes();
	test_a_running_program_is_not_refused_for_ever();
	test_tasks_that_are_refused_by_turns();
	test_first_runs_are_overruled();
	test_lines();
	test_keep();
	return check_result();
}
