/* SPDX-License-Identifier: Apache-2.0 */
/* Policies that use all of the language, on both engines: the same outputs, the same maps. */
#include <poll.h>

#include "test_policy_pair.h"

static void test_hooks(void)
{
	struct pair p;
	struct bpf_gpu_task_ctx task = {
		.task = 7, .uid = 100, .comm = "python", .weight = GPU_SCHED_KEEP};
	struct bpf_gpu_schedule_ctx schedule = {.channel_count = 7, .timeslice = GPU_SCHED_KEEP};
	struct bpf_gpu_task_destroy_ctx gone = {.task = 7};
	unsigned char record[512];
	char text[128];

	pair_open(&p, "hooks");
	CHECK(strcmp(p.o->ops.name, "hooks") == 0 && strcmp(p.o->ops.base, "turns") == 0);
	CHECK_INT(p.o->ops.timeout_ms, 5000);
	CHECK(strcmp(p.o->license, "GPL") == 0);
	CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &task), 0);
	CHECK_INT(task.timeslice, 600);
	CHECK_INT(task.interleave_level, 2);
	CHECK_INT(task.priority, 5);
	CHECK_INT(task.weight, 97);
	CHECK_INT(pair_run(&p, RBT_HOOK_SCHEDULE, &schedule), 0);
	CHECK_INT(schedule.allow_schedule, 1);
	CHECK_INT(schedule.timeslice, GPU_SCHED_KEEP);
	for (uint64_t i = 0; i < 300; i++) {
		struct bpf_gpu_work_ctx work = {
			.task = 7 + i % 3, .count = i, .timestamp = 5000 + i * i, .tsg_id = 9};
		CHECK_INT(pair_run(&p, RBT_HOOK_WORK_SUBMIT, &work), 0);
	}
	compare_maps(&p);
	CHECK(drain(&p, RBT_OBJECT_LOG_RING, record, 8) > 100);
	rbt_log_format(record, sizeof(struct gpu_sched_log_record), text, sizeof(text));
	CHECK(strcmp(text, "task 9 is not known, 9") == 0);
	CHECK_INT(pair_run(&p, RBT_HOOK_TASK_DESTROY, &gone), 0);
	CHECK_INT(
		count_entries(p.e[RBT_ENGINE_VM], (unsigned)rbt_object_find_map(p.o, "stats")), 0);
	compare_maps(&p);
	pair_close(&p);
}

static void test_plain(void)
{
	struct pair p;
	struct bpf_gpu_task_ctx task = {.default_timeslice = 2048, .user_priority = 4};
	struct bpf_gpu_schedule_ctx schedule = {.load = 951, .allow_schedule = 1};
	struct bpf_gpu_policy_ctx tick = {.n_gpus = 1};

	pair_open(&p, "plain");
	CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &task), 0);
	CHECK_INT(task.timeslice, 1024);
	CHECK_INT(task.priority, 5);
	CHECK_INT(pair_run(&p, RBT_HOOK_SCHEDULE, &schedule), -11);
	schedule.load = 0;
	schedule.n_latency = 2;
	CHECK_INT(pair_run(&p, RBT_HOOK_SCHEDULE, &schedule), 0);
	CHECK_INT(schedule.allow_schedule, 0);
	CHECK_INT(pair_run(&p, RBT_HOOK_TICK, &tick), 0);
	tick.n_gpus = 2;
	CHECK_INT(pair_run(&p, RBT_HOOK_TICK, &tick), 3);
	CHECK(!rbt_engine_has_hook(p.e[RBT_ENGINE_VM], RBT_HOOK_WORK_SUBMIT));
	pair_close(&p);
}

/* Every operation with every flag, over few keys, so that maps are full and keys return. */
static void test_maps(void)
{
	struct pair p;
	uint32_t seed = 1;

	pair_open(&p, "maps");
	for (int i = 0; i < 5000; i++) {
		seed = seed * 1103515245 + 12345;
		struct bpf_gpu_work_ctx work = {.channel_id = (seed >> 16) % 11,
			.token = (seed >> 10) % 4,
			.task = (seed >> 20) % 5,
			.gpu = (seed >> 24) % 6,
			.count = seed,
			.pid = seed >> 3};
		CHECK_INT(pair_run(&p, RBT_HOOK_WORK_SUBMIT, &work), 0);
		if (i % 500 == 0) {
			compare_maps(&p);
		}
	}
	compare_maps(&p);
	pair_close(&p);
}

static void test_calculations(void)
{
	static const char *const names[] = {"calls", "globals", "atomics"};

	for (size_t n = 0; n < 3; n++) {
		struct pair p;
		uint64_t seed = 1;
		pair_open(&p, names[n]);
		for (int i = 0; i < 200; i++) {
			struct bpf_gpu_task_ctx task = {
				.task = seed, .cgroup_id = seed >> 7, .comm = "trainer"};
			task.uid = (uint32_t)(seed >> 20);
			task.pid = (uint32_t)(seed >> 30);
			task.gpu = (uint32_t)i;
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &task), 0);
		}
		compare_maps(&p);
		pair_close(&p);
	}
}

static void test_rings(void)
{
	struct pair p;
	struct bpf_gpu_task_ctx task = {.task = 3}, discarded = {.task = 4, .uid = 1};
	struct bpf_gpu_task_destroy_ctx gone = {.task = 5};
	struct bpf_gpu_work_ctx work = {.task = 6};
	unsigned char record[512];
	char text[128];
	unsigned n = 0;

	pair_open(&p, "rings");
	for (int round = 0; round < 5; round++) {
		CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &task), 0);
		CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &discarded), 0);
		CHECK_INT(pair_run(&p, RBT_HOOK_TASK_DESTROY, &gone), 0);
		CHECK_INT(pair_run(&p, RBT_HOOK_WORK_SUBMIT, &work), 0);
		CHECK_INT(drain(&p, "events", record, 0), 3);
		CHECK_INT(record[0], 6);
	}
	for (task.priority = 1; task.priority == 1; n++) {
		CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &task), 0);
	}
	CHECK(n > 40);
	CHECK_INT(pair_run(&p, RBT_HOOK_WORK_SUBMIT, &work), 0);
	CHECK_INT(work.timeslice, 0); /* there is still room for a shorter one */
	drain(&p, "events", record, 0);
	work.token = 8; /* no such flag */
	CHECK_INT(pair_run(&p, RBT_HOOK_WORK_SUBMIT, &work), 0);
	CHECK_INT(work.timeslice, -EINVAL);
	drain(&p, RBT_OBJECT_LOG_RING, record, 8);
	rbt_log_format(record, sizeof(struct gpu_sched_log_record), text, sizeof(text));
	CHECK(strcmp(text, "-1 6 z ffffffffffffffff %") == 0);
	CHECK_INT(rbt_engine_lookup(p.e[RBT_ENGINE_VM],
			  (unsigned)rbt_object_find_map(p.o, "events"), record, record),
		-EINVAL);
	pair_close(&p);
}

static void test_tunables(void)
{
	struct pair p = {.o = open_object("globals")};
	struct bpf_gpu_task_ctx task = {0};
	struct rbt_why why = {""};
	const uint32_t zero = 0;
	unsigned char value[256];
	static const struct {
		const char *assignment;
		int r;
	} cases[] = {{"a_byte=0xff", 0}, {"a_byte=256", -ERANGE}, {"a_byte=-1", -ERANGE},
		{"a_byte=", -EINVAL}, {"a_byte=1x", -EINVAL}, {"a_byte", -EINVAL},
		{"a_long=-9223372036854775808", 0}, {"a_long=-9223372036854775809", -ERANGE},
		{"a_long=9223372036854775808", -ERANGE}, {"a_long=-4", 0}, {"by=BURSTS", 0},
		{"by=NONE", -EINVAL}, {"by=DUTY", 0}, {"is_strict=true", 0},
		{"is_strict=2", -ERANGE}, {"is_strict=0", 0}, {"is_strict=1", 0},
		{"counts=1", -ENOENT}, {"own=1", -ENOENT}, {"table=1", -ENOENT}, {"=1", -ENOENT},
		{"gpu_sched_ops=1", -ENOENT}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		why.text[0] = '\0';
		CHECK_INT(rbt_object_set(p.o, cases[i].assignment, &why), cases[i].r);
		CHECK((why.text[0] == '\0') == (cases[i].r == 0));
	}
	pair_load(&p, NULL);
	CHECK_INT(pair_run(&p, RBT_HOOK_TASK_INIT, &task), 0);
	CHECK_INT(task.priority, 42 + 255);
	CHECK_INT(task.weight, 8 - 4 + 1);
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		unsigned rodata = (unsigned)rbt_object_find_map(p.o, ".rodata");
		if (p.e[k] != NULL) {
			CHECK_INT(rbt_engine_lookup(p.e[k], rodata, &zero, value), 0);
			CHECK_INT(rbt_engine_update(p.e[k], rodata, &zero, value, 0), -EPERM);
			CHECK_INT(rbt_engine_update(p.e[k], 999, &zero, value, 0), -EINVAL);
		}
	}
	pair_close(&p);
}

static uint64_t submits_of(struct rbt_engine *e, const struct rbt_object *o, uint64_t task)
{
	uint64_t stat[3] = {0};

	return rbt_engine_lookup(e, (unsigned)rbt_object_find_map(o, "stats"), &task, stat) == 0
		       ? stat[0]
		       : UINT64_MAX;
}

static void submit(struct pair *p, uint64_t task, uint64_t count)
{
	struct bpf_gpu_work_ctx work = {.task = task, .count = count};

	CHECK_INT(pair_run(p, RBT_HOOK_WORK_SUBMIT, &work), 0);
}

/* A successor has the entries, and both see each other's until the old one is closed. */
static void test_heritage(void)
{
	struct pair old, new = {.o = open_object("hooks")};
	struct bpf_gpu_task_ctx task = {.task = 7};

	pair_open(&old, "hooks");
	CHECK_INT(pair_run(&old, RBT_HOOK_TASK_INIT, &task), 0);
	submit(&old, 7, 5);
	submit(&old, 8, 1); /* unknown: a line of the log */
	pair_load(&new, &old);
	submit(&new, 7, 10);
	submit(&old, 7, 100);
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		if (new.e[k] != NULL) {
			uint64_t n_submits = 0;
			const uint32_t zero = 0;
			CHECK_INT(submits_of(new.e[k], new.o, 7), 115);
			rbt_engine_lookup(new.e[k], (unsigned)rbt_object_find_map(new.o, ".bss"),
				&zero, &n_submits);
			CHECK_INT(n_submits, 1); /* global data began anew */
		}
	}
	pair_close(&old);
	unsigned char record[512];
	submit(&new, 7, 1000);
	CHECK_INT(submits_of(new.e[RBT_ENGINE_VM], new.o, 7), 1115);
	CHECK_INT(drain(&new, RBT_OBJECT_LOG_RING, record, 8), 1);
	compare_maps(&new);
	/* A policy with other maps takes nothing over. */
	struct pair other = {.o = open_object("maps")};
	pair_load(&other, &new);
	CHECK_INT(count_entries(
			  other.e[RBT_ENGINE_VM], (unsigned)rbt_object_find_map(other.o, "hash")),
		0);
	pair_close(&other);
	pair_close(&new);
}

/* From one kind of engine to the other, the entries are copied. */
static void test_change_of_engine(void)
{
	struct pair old;
	struct bpf_gpu_task_ctx task = {.task = 7};
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};

	if (!has_kernel) {
		return;
	}
	pair_open(&old, "hooks");
	CHECK_INT(pair_run(&old, RBT_HOOK_TASK_INIT, &task), 0);
	submit(&old, 7, 5);
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		CHECK_INT(rbt_engine_open(k, old.o, old.e[1 - k], &e, &why, NULL), 0);
		CHECK_INT(submits_of(e, old.o, 7), 5);
		rbt_engine_close(e);
	}
	submit(&old, 7, 1);
	CHECK_INT(submits_of(old.e[RBT_ENGINE_VM], old.o, 7), 6);
	pair_close(&old);
}

/* An infinite loop and bad pointers are refused by the verifier, whose log comes along. */
static void test_faults(void)
{
	struct rbt_object *o = open_object("faults");
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};
	struct rbt_fault fault = {0};
	char *log = NULL;
	static const uint64_t addresses[] = {0, 1, 8, 0x400000, 0x7ffffffff000, UINT64_MAX,
		UINT64_MAX - 7, 0x100000000, 0x1000001f9, 0x90000009f, 0x1200000000,
		0x10000ffffffff};

	if (has_kernel) {
		CHECK(rbt_engine_open(RBT_ENGINE_KERNEL, o, NULL, &e, &why, &log) < 0);
		CHECK(log != NULL && strstr(log, "BEGIN PROG LOAD LOG") != NULL);
		CHECK(strstr(why.text, "section gpu_sched/task_init") != NULL);
		free(log);
	}
	CHECK_INT(rbt_engine_open(RBT_ENGINE_VM, o, NULL, &e, &why, NULL), 0);
	for (uint32_t i = 0; i < 18; i++) {
		struct bpf_gpu_task_ctx task = {.uid = i, .pid = 100};
		int r = rbt_engine_run(e, RBT_HOOK_TASK_INIT, &task, &fault);
		if (i == 0) {
			CHECK_INT(r, 0);
			CHECK_INT(task.priority, 99);
			continue;
		}
		CHECK_INT(r, -EFAULT);
		CHECK_INT(fault.kind, i == 5    ? RBT_FAULT_FUEL
				      : i == 17 ? RBT_FAULT_RETURNED
						: RBT_FAULT_ACCESS);
		CHECK_INT(task.priority, 0);
	}
	for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
		for (uint32_t uid = 13; uid < 17; uid++) {
			struct bpf_gpu_task_ctx task = {.uid = uid, .task = addresses[i]};
			/* Either a fault, or an access to memory that is the policy's own. */
			rbt_engine_run(e, RBT_HOOK_TASK_INIT, &task, &fault);
		}
	}
	rbt_engine_close(e);
	rbt_object_close(o);
}

static int load_in_background(enum rbt_engine_kind kind, const struct rbt_object *o,
	struct rbt_engine *old, struct rbt_engine **ret, struct rbt_why *why)
{
	struct rbt_engine_load *load = NULL;
	char *log = NULL;
	int r = rbt_engine_load_start(kind, o, old, &load, why);

	CHECK_INT(r, 0);
	do {
		struct pollfd p = {.fd = rbt_engine_load_fd(load), .events = POLLIN};

		CHECK(poll(&p, 1, 30000) == 1);
		r = rbt_engine_load_step(load, old, ret, why, &log);
	} while (r == -EAGAIN);
	CHECK_INT(rbt_engine_load_end(load), 0);
	free(log);
	return r;
}

/* The dry run has maps of its own, so the predecessor's entries are as they were. */
static void test_background(enum rbt_engine_kind kind)
{
	struct rbt_object *o = open_object("hooks"), *bad = open_object("plain");
	struct rbt_engine *first = NULL, *second = NULL;
	const unsigned map = (unsigned)rbt_object_find_map(o, "stats");
	uint64_t key = 77, value[3] = {1, 2, 3}, found[3] = {0};
	struct rbt_why why = {""};

	CHECK_INT(load_in_background(kind, o, NULL, &first, &why), 0);
	CHECK_INT(count_entries(first, map), 0);
	CHECK_INT(rbt_engine_update(first, map, &key, value, BPF_ANY), 0);
	CHECK_INT(load_in_background(kind, o, first, &second, &why), 0);
	CHECK_INT(rbt_engine_inherit(second, first, 0, &why), 0);
	CHECK_INT(count_entries(second, map), 1);
	CHECK_INT(rbt_engine_lookup(second, map, &key, found), 0);
	CHECK(memcmp(value, found, sizeof(value)) == 0);
	rbt_engine_close(first);
	rbt_engine_close(second);
	/* A load that is given up. */
	struct rbt_engine_load *load = NULL;
	CHECK_INT(rbt_engine_load_start(kind, o, NULL, &load, &why), 0);
	CHECK_INT(rbt_engine_load_end(load), 0);
	CHECK_INT(load_in_background(kind, bad, NULL, &first, &why), 0);
	rbt_engine_close(first);
	rbt_object_close(o);
	rbt_object_close(bad);
}

/* From one engine to the other, entries are copied, but not for longer than allowed. */
static void test_inherit(enum rbt_engine_kind from, enum rbt_engine_kind to)
{
	struct rbt_object *o = open_object("hooks");
	struct rbt_engine *first = NULL, *second = NULL;
	const unsigned map = (unsigned)rbt_object_find_map(o, "stats");
	uint64_t value[3] = {1, 2, 3};
	struct rbt_why why = {""};

	CHECK_INT(load_in_background(from, o, NULL, &first, &why), 0);
	for (uint64_t key = 0; key < 100; key++) {
		CHECK_INT(rbt_engine_update(first, map, &key, value, BPF_ANY), 0);
	}
	CHECK_INT(load_in_background(to, o, first, &second, &why), 0);
	CHECK_INT(rbt_engine_inherit(second, first, 0, &why), -ETIMEDOUT);
	CHECK(strstr(why.text, "takes too long") != NULL);
	CHECK_INT(rbt_engine_inherit(second, first, UINT64_C(60000000000), &why), 0);
	CHECK_INT(count_entries(second, map), 100);
	rbt_engine_close(first);
	rbt_engine_close(second);
	rbt_object_close(o);
}

static void test_failing_dry_run(enum rbt_engine_kind kind)
{
	struct rbt_object *o = open_object("untried");
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};

	CHECK_INT(load_in_background(kind, o, NULL, &e, &why), -EINVAL);
	CHECK(strstr(why.text, "section gpu_sched/tick: the hook returned 3, in a dry run"));
	rbt_object_close(o);
}

static void test_log_format(void)
{
	struct gpu_sched_log_record r = {.args = {1, 2, 3, 4}};
	char text[32];
	static const struct {
		const char *format, *text;
	} cases[] = {{"", ""}, {"%s%n%p", "%s%n%p"}, {"%", "%"}, {"%l", "%l"}, {"%%%d", "%1"},
		{"%d%d%d%d%d", "1234%d"}, {"a\nb\033", "a?b?"}, {"%08d %*d", "%08d %*d"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(r.format, sizeof(r.format), "%s", cases[i].format);
		rbt_log_format(&r, sizeof(r), text, sizeof(text));
		CHECK(strcmp(text, cases[i].text) == 0);
	}
	memset(r.format, 'x', sizeof(r.format)); /* no end, and longer than the buffer */
	rbt_log_format(&r, sizeof(r), text, sizeof(text));
	CHECK_INT(strlen(text), sizeof(text) - 1);
	rbt_log_format(&r, 3, text, sizeof(text));
	CHECK(strcmp(text, "") == 0);
}

int main(int argc, char **argv)
{
	pair_begin(argc, argv);
	test_hooks();
	test_plain();
	test_maps();
	test_calculations();
	test_rings();
	test_tunables();
	test_heritage();
	test_change_of_engine();
	test_faults();
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		if (k == RBT_ENGINE_VM || has_kernel) {
			test_background(k);
			test_failing_dry_run(k);
		}
	}
	if (has_kernel) {
		test_inherit(RBT_ENGINE_VM, RBT_ENGINE_KERNEL);
		test_inherit(RBT_ENGINE_KERNEL, RBT_ENGINE_VM);
	}
	test_log_format();
	return check_result();
}
