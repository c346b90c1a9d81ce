/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile policy that the vm accepts (tests/policies/hostile.bpf.c). Each misuse ends with a
 * fault, changes no output, and leaves an engine that works. The verifier refuses the same object.
 */
#include "test_policy_pair.h"

#define N_MISUSES 18
#define ENDLESS   15

static void fail_once(struct rbt_engine *e, uint32_t misuse)
{
	struct bpf_gpu_task_ctx task = {.task = misuse, .uid = misuse}, before = task;
	struct rbt_fault fault = {0};
	char text[256];

	int r = rbt_engine_run(e, RBT_HOOK_TASK_INIT, &task, &fault);
	if (r != -EFAULT) {
		fprintf(stderr, "misuse %u: %d\n", misuse, r);
	}
	CHECK_INT(r, -EFAULT);
	CHECK_INT(fault.kind, misuse == ENDLESS ? RBT_FAULT_FUEL : RBT_FAULT_ACCESS);
	CHECK(memcmp(&task, &before, sizeof(task)) == 0);
	rbt_fault_format(&fault, text, sizeof(text));
	CHECK(strstr(text, ": instruction ") != NULL);
}

/* The engine does what it did before. */
static void check_works(struct rbt_engine *e)
{
	struct bpf_gpu_task_ctx task = {.uid = 0};
	struct bpf_gpu_schedule_ctx schedule = {.task = 5, .priority = 9};
	struct rbt_fault fault = {0};

	CHECK_INT(rbt_engine_run(e, RBT_HOOK_TASK_INIT, &task, &fault), 0);
	CHECK_INT(rbt_engine_run(e, RBT_HOOK_SCHEDULE, &schedule, &fault), 0);
	CHECK_INT(schedule.priority, 1);
}

int main(int argc, char **argv)
{
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};
	unsigned char record[64];
	char *log = NULL;

	pair_begin(argc, argv);
	struct rbt_object *o = open_object("hostile");
	const unsigned ring = (unsigned)rbt_object_find_map(o, "ring"),
		       lru = (unsigned)rbt_object_find_map(o, "lru");
	if (has_kernel) {
		CHECK(rbt_engine_open(RBT_ENGINE_KERNEL, o, NULL, &e, &why, &log) < 0);
		CHECK(log != NULL && strstr(why.text, "section gpu_sched/") != NULL);
		free(log);
	}
	CHECK_INT(rbt_engine_open(RBT_ENGINE_VM, o, NULL, &e, &why, NULL), 0);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t misuse = 1; misuse <= N_MISUSES; misuse++) {
			fail_once(e, misuse);
			check_works(e);
			CHECK(count_entries(e, lru) <= 16);
		}
		/* Reserved records did not stay reserved: the ring would be full. */
		while (rbt_engine_read_ring(e, ring, record, sizeof(record)) >= 0) {
		}
	}
	rbt_engine_close(e);
	rbt_object_close(o);
	return check_result();
}
