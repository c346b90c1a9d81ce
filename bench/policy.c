/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hook of a policy costs: in the vm, in the kernel, and as C that was compiled into this
 * program. All in one run, in alternating batches; medians of the batches. The policy is
 * tests/policies/bench.bpf.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "median.h"
#include "policy/engine.h"
#include "policy/vm_map.h"
#include "util/time.h"

#define BATCH  500
#define ROUNDS 201
#define TASKS  64

enum { NATIVE = RBT_N_ENGINES, N_WAYS };
static const char *const way_names[N_WAYS] = {
	[RBT_ENGINE_VM] = "vm", [RBT_ENGINE_KERNEL] = "kernel", [NATIVE] = "native"};

static struct rbt_engine *engines[RBT_N_ENGINES];

/* The same hooks in C, on a map of the same kind. */
struct stat_value {
	uint64_t submits, last_ns, interval_ewma;
};
static struct vm_map *stats;
static uint64_t n_submits;
static volatile uint64_t slice_us = 200;
static volatile uint32_t max_channels = 8;

static void native_task_init(struct bpf_gpu_task_ctx *ctx)
{
	struct stat_value s = {.last_ns = rbt_now_ns()};

	vm_map_update(stats, &ctx->task, &s, BPF_ANY);
	ctx->timeslice = slice_us;
	ctx->interleave_level = ctx->engine_type == GPU_SCHED_ENGINE_COMPUTE ? 2 : 0;
	ctx->priority = 10;
}

static void native_schedule(struct bpf_gpu_schedule_ctx *ctx)
{
	ctx->allow_schedule = ctx->channel_count < max_channels;
}

static void native_work_submit(struct bpf_gpu_work_ctx *ctx)
{
	uint32_t slot = vm_map_find(stats, &ctx->task, true);

	if (slot == VM_NO_SLOT) {
		return;
	}
	struct stat_value *s = (void *)vm_map_value(stats, slot);
	__sync_fetch_and_add(&s->submits, ctx->count);
	s->interval_ewma = (s->interval_ewma * 7 + (ctx->timestamp - s->last_ns)) >> 3;
	s->last_ns = ctx->timestamp;
	__sync_fetch_and_add(&n_submits, 1);
}

static void native_task_destroy(struct bpf_gpu_task_destroy_ctx *ctx)
{
	vm_map_delete(stats, &ctx->task);
}

union any_ctx {
	struct bpf_gpu_task_ctx task;
	struct bpf_gpu_schedule_ctx schedule;
	struct bpf_gpu_work_ctx work;
	struct bpf_gpu_task_destroy_ctx destroy;
};

static void run_native(enum rbt_hook hook, union any_ctx *ctx)
{
	switch (hook) {
	case RBT_HOOK_TASK_INIT:
		native_task_init(&ctx->task);
		break;
	case RBT_HOOK_SCHEDULE:
		native_schedule(&ctx->schedule);
		break;
	case RBT_HOOK_WORK_SUBMIT:
		native_work_submit(&ctx->work);
		break;
	default:
		native_task_destroy(&ctx->destroy);
	}
}

static void run(int way, enum rbt_hook hook, uint64_t task, uint64_t now_ns)
{
	union any_ctx ctx;
	struct rbt_fault fault;

	memset(&ctx, 0, sizeof(ctx));
	ctx.task.task = task; /* the first field of each */
	if (hook == RBT_HOOK_WORK_SUBMIT) {
		ctx.work.timestamp = now_ns;
		ctx.work.count = 1;
	}
	if (way == NATIVE) {
		run_native(hook, &ctx);
	} else if (rbt_engine_run(engines[way], hook, &ctx, &fault) < 0) {
		fprintf(stderr, "policy: %s fails in %s\n", rbt_hook_name(hook), way_names[way]);
		exit(1);
	}
}

static double batch_ns(int way, enum rbt_hook hook)
{
	/* Entries are there for all hooks but task_init, which makes them. */
	for (uint64_t i = 0; i < TASKS; i++) {
		run(way, RBT_HOOK_TASK_INIT, i, 0);
	}
	uint64_t began = rbt_cpu_ns(); /* another program may run in between */
	for (uint64_t i = 0; i < BATCH; i++) {
		run(way, hook, i % TASKS, began + i);
	}
	return (double)(rbt_cpu_ns() - began) / BATCH;
}

static void measure(enum rbt_hook hook)
{
	static double ns[N_WAYS][ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int way = 0; way < N_WAYS; way++) {
			if (way == NATIVE || engines[way] != NULL) {
				ns[way][round] = batch_ns(way, hook);
			}
		}
	}
	printf("%-14s", rbt_hook_name(hook));
	for (int way = N_WAYS - 1; way >= 0; way--) {
		if (way == NATIVE || engines[way] != NULL) {
			printf(" %8.0f", median(ns[way], ROUNDS));
		} else {
			printf(" %8s", "-");
		}
	}
	printf("\n");
}

static struct rbt_object *read_object(const char *path)
{
	static unsigned char bytes[1 << 20];
	struct rbt_object *o = NULL;
	struct rbt_why why;
	FILE *f = fopen(path, "re");

	if (f == NULL) {
		perror(path);
		exit(1);
	}
	size_t n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	if (rbt_object_open(bytes, n, &o, &why) < 0) {
		fprintf(stderr, "policy: %s: %s\n", path, why.text);
		exit(1);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct rbt_why why;

	if (argc != 2) {
		fprintf(stderr, "Usage: policy OBJECT\n");
		return 2;
	}
	struct rbt_object *o = read_object(argv[1]);
	const char *why_not = rbt_engine_why_not(RBT_ENGINE_KERNEL);
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		const bool is_left_out = k == RBT_ENGINE_KERNEL && why_not != NULL;
		if (!is_left_out && rbt_engine_open(k, o, NULL, &engines[k], &why, NULL) < 0) {
			fprintf(stderr, "policy: %s\n", why.text);
			return 1;
		}
	}
	stats = vm_map_create(&o->maps[rbt_object_find_map(o, "stats")]);
	if (stats == NULL) {
		return 1;
	}
	printf("%-14s %8s %8s %8s\n", "ns per hook", "native", "vm", "kernel");
	for (enum rbt_hook hook = RBT_HOOK_TASK_INIT; hook <= RBT_HOOK_TASK_DESTROY; hook++) {
		measure(hook);
	}
	if (why_not != NULL) {
		printf("kernel: left out, %s\n", why_not);
	}
	vm_map_unref(stats);
	for (int k = 0; k < RBT_N_ENGINES; k++) {
		rbt_engine_close(engines[k]);
	}
	rbt_object_close(o);
	return 0;
}
