/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: captured from streams, made by hand, changed and launched again. */
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

#define THREADS 32

static void *affine;
static bool soft;

static void launch(void *stream, uint64_t data, uint32_t mul, uint32_t add)
{
	uint32_t turns = 50;
	void *params[] = {&data, &mul, &add, &turns};

	OK(cu.cuLaunchKernel(affine, 1, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
}

static uint32_t read_first(uint64_t data)
{
	uint32_t got;

	OK(cu.cuMemcpyDtoH_v2(&got, data, 4));
	return got;
}

static void test_capture(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	uint32_t expected = 0;
	void *s, *graph, *exec, *nodes[64];
	size_t n = 0;
	int status = -1, type = -1;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	OK(cu.cuStreamIsCapturing(s, &status));
	CHECK_INT(status, 0);
	OK(cu.cuStreamBeginCapture_v2(s, 1));
	CHECK_INT(cu.cuStreamBeginCapture_v2(s, 1), 401);
	OK(cu.cuStreamIsCapturing(s, &status));
	CHECK_INT(status, 1);
	for (uint32_t i = 0; i < 50; i++) {
		launch(s, data, 3, i);
	}
	OK(cu.cuStreamEndCapture(s, &graph));
	CHECK_INT(read_first(data), 0); /* captured, not run */
	OK(cu.cuGraphGetNodes(graph, NULL, &n));
	CHECK_INT(n, 50);
	n = 64;
	OK(cu.cuGraphGetRootNodes(graph, nodes, &n));
	CHECK_INT(n, 1);
	OK(cu.cuGraphNodeGetType(nodes[0], &type));
	CHECK_INT(type, 0);
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cu.cuGraphDestroy(graph));
	OK(cu.cuGraphUpload(exec, s));
	for (int round = 0; round < 40; round++) {
		OK(cu.cuGraphLaunch(exec, s));
		for (uint32_t i = 0; i < 50; i++) {
			expected = expected * 3 + i;
		}
	}
	OK(cu.cuStreamSynchronize(s));
	CHECK_INT(read_first(data), expected);
	OK(cu.cuGraphExecDestroy(exec));
	if (soft) { /* hardware's driver may crash on a destroyed graph */
		CHECK_INT(cu.cuGraphLaunch(exec, s), 1);
	}
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

/* s forks to t, and t joins s: one graph. */
static void test_fork_and_join(void)
{
	uint64_t left = cuda_api_zeros(THREADS), right = cuda_api_zeros(THREADS);
	void *s, *t, *fork, *join, *graph, *exec;
	size_t n = 0;
	int status = -1;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	MUST(cu.cuStreamCreate(&t, NON_BLOCKING));
	MUST(cu.cuEventCreate(&fork, DISABLE_TIMING));
	MUST(cu.cuEventCreate(&join, DISABLE_TIMING));
	OK(cu.cuStreamBeginCapture_v2(s, 0));
	launch(s, left, 1, 5);
	OK(cu.cuEventRecord(fork, s));
	OK(cu.cuStreamWaitEvent(t, fork, 0));
	OK(cu.cuStreamIsCapturing(t, &status));
	CHECK_INT(status, 1);
	launch(t, right, 1, 7);
	launch(s, left, 2, 0);
	OK(cu.cuEventRecord(join, t));
	OK(cu.cuStreamWaitEvent(s, join, 0));
	OK(cu.cuMemcpyDtoDAsync_v2(left, right, 4, s));
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuStreamIsCapturing(t, &status));
	CHECK_INT(status, 0);
	OK(cu.cuGraphGetNodes(graph, NULL, &n));
	CHECK_INT(n, 4);
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cu.cuGraphLaunch(exec, s));
	OK(cu.cuStreamSynchronize(s));
	CHECK_INT(read_first(right), 7);
	CHECK_INT(read_first(left), 7);
	CHECK_INT(read_first(left + 4), 10);
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(graph));
	OK(cu.cuEventDestroy_v2(fork));
	OK(cu.cuEventDestroy_v2(join));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuStreamDestroy_v2(t));
	OK(cu.cuMemFree_v2(left));
	OK(cu.cuMemFree_v2(right));
}

/* A query of an event that is a place in a capture, in any mode: it ends the capture. */
static void test_captured_event(void *s, void *event)
{
	void *graph = &graph;
	int status = -1;

	for (int mode = 0; mode <= 2; mode++) {
		OK(cu.cuStreamBeginCapture_v2(s, mode));
		OK(cu.cuEventRecord(event, s));
		CHECK_INT(cu.cuEventQuery(event), 907);
		OK(cu.cuStreamIsCapturing(s, &status));
		CHECK_INT(status, 2);
		CHECK_INT(cu.cuEventRecord(event, s), 901);
		CHECK_INT(cu.cuStreamEndCapture(s, &graph), 901);
		CHECK(graph == NULL);
	}
	OK(cu.cuEventRecord(event, s));
	OK(cu.cuEventSynchronize(event));
}

/* What a capture must refuse, and that streams work afterwards. */
static void test_capture_errors(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	void *s, *t, *event, *outside, *graph = &graph;

	MUST(cu.cuStreamCreate(&s, 0));
	MUST(cu.cuStreamCreate(&t, NON_BLOCKING));
	MUST(cu.cuEventCreate(&event, DISABLE_TIMING));
	MUST(cu.cuEventCreate(&outside, DISABLE_TIMING));
	CHECK_INT(cu.cuStreamBeginCapture_v2(NULL, 0), 900);
	CHECK_INT(cu.cuStreamEndCapture(s, &graph), 401);
	/* A synchronisation. */
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	CHECK_INT(cu.cuStreamSynchronize(s), 900);
	CHECK_INT(cu.cuStreamEndCapture(s, &graph), 901);
	CHECK(graph == NULL);
	/* The default stream, of which s takes part. */
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	CHECK_INT(cu.cuMemsetD8_v2(data, 0, 4), 906);
	CHECK_INT(cu.cuStreamEndCapture(s, &graph), 901);
	/* An event from outside. */
	OK(cu.cuEventRecord(outside, t));
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	CHECK_INT(cu.cuStreamWaitEvent(s, outside, 0), 905);
	CHECK_INT(cu.cuStreamEndCapture(s, &graph), 901);
	/* A stream that is not joined again. */
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	OK(cu.cuEventRecord(event, s));
	OK(cu.cuStreamWaitEvent(t, event, 0));
	launch(t, data, 1, 1);
	CHECK_INT(cu.cuStreamEndCapture(s, &graph), 904);
	/* The stream that did not begin it. */
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	OK(cu.cuEventRecord(event, s));
	OK(cu.cuStreamWaitEvent(t, event, 0));
	CHECK_INT(cu.cuStreamEndCapture(t, &graph), 903);
	CHECK_INT(cu.cuStreamEndCapture(s, &graph), 901);
	test_captured_event(s, event);
	launch(s, data, 1, 1);
	launch(t, data, 1, 1);
	OK(cu.cuCtxSynchronize());
	OK(cu.cuEventDestroy_v2(event));
	OK(cu.cuEventDestroy_v2(outside));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuStreamDestroy_v2(t));
	OK(cu.cuMemFree_v2(data));
}

static _Atomic int n_calls;

static void count_call(void *user)
{
	*(uint32_t *)user += 1;
	n_calls++;
}

/* As a child of another graph, twice. */
static void test_children(void *graph, void *s, const uint32_t *out)
{
	void *clone, *parent, *child, *exec;
	struct update_info info;

	OK(cu.cuGraphClone(&clone, graph));
	OK(cu.cuGraphCreate(&parent, 0));
	OK(cu.cuGraphAddChildGraphNode(&child, parent, NULL, 0, clone));
	OK(cu.cuGraphAddChildGraphNode(&child, parent, &child, 1, clone));
	OK(cu.cuGraphDestroy(clone));
	OK(cu.cuGraphInstantiateWithFlags(&exec, parent, 0));
	CHECK_INT(cu.cuGraphExecUpdate_v2(exec, graph, &info), 910);
	n_calls = 0;
	OK(cu.cuGraphLaunch(exec, s));
	OK(cu.cuStreamSynchronize(s));
	CHECK(out[0] == 22 && out[1] == 23);
	CHECK_INT(n_calls, 2);
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(parent));
}

/* fill → kernel → copy to the host → function, made by hand, with an empty node in between. */
static void test_by_hand(void *context)
{
	uint64_t data = cuda_api_zeros(THREADS);
	static uint32_t out[THREADS];
	uint32_t mul = 3, add = 4, turns = 10;
	void *params[] = {&data, &mul, &add, &turns};
	void *graph, *exec, *s, *fill, *kernel, *empty, *copy, *host;
	struct memset_node memset_params = {
		.to = data, .value = 6, .element = 4, .width = THREADS, .height = 1};
	struct kernel_node kernel_params = {
		.function = affine, .grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = params};
	struct kernel_node got;
	struct memcpy3d copy_params = {.src_type = 2,
		.src_device = data,
		.src_pitch = sizeof(out),
		.src_height = 1,
		.dst_type = 1,
		.dst_host = out,
		.dst_pitch = sizeof(out),
		.dst_height = 1,
		.width = sizeof(out),
		.height = 1,
		.depth = 1};
	struct host_node host_params = {count_call, &out[1]};
	struct update_info info;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	OK(cu.cuGraphCreate(&graph, 0));
	/* Not in the order in which they run. */
	OK(cu.cuGraphAddEmptyNode(&empty, graph, NULL, 0));
	OK(cu.cuGraphAddMemsetNode(&fill, graph, NULL, 0, &memset_params, context));
	void *before[] = {fill, empty};
	OK(cu.cuGraphAddKernelNode_v2(&kernel, graph, before, 2, &kernel_params));
	OK(cu.cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &copy_params, context));
	OK(cu.cuGraphAddHostNode(&host, graph, &copy, 1, &host_params));
	OK(cu.cuGraphKernelNodeGetParams_v2(kernel, &got));
	CHECK(got.function == affine && got.block[0] == THREADS);
	CHECK(*(uint32_t *)got.params[2] == 4);
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cu.cuGraphLaunch(exec, s));
	OK(cu.cuStreamSynchronize(s));
	CHECK(out[0] == 22 && out[1] == 23 && n_calls == 1);
	/* Another number to add, in the executable graph alone. */
	add = 100;
	OK(cu.cuGraphExecKernelNodeSetParams_v2(exec, kernel, &kernel_params));
	OK(cu.cuGraphLaunch(exec, s));
	OK(cu.cuStreamSynchronize(s));
	CHECK(out[0] == 118 && out[1] == 119);
	/* The graph itself has the old one: updating goes back to it. */
	OK(cu.cuGraphExecUpdate_v2(exec, graph, &info));
	OK(cu.cuGraphLaunch(exec, s));
	OK(cu.cuStreamSynchronize(s));
	CHECK(out[0] == 22 && info.result == 0);
	OK(cu.cuGraphExecDestroy(exec));
	test_children(graph, s, out);
	OK(cu.cuGraphDestroy(graph));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

/* Copies of ordinary memory happen when the graph runs, not when it is launched. */
static void test_pageable_copies(void)
{
	uint64_t data = cuda_api_zeros(THREADS);
	static uint32_t in[THREADS], out[THREADS];
	void *s, *graph, *exec;

	MUST(cu.cuStreamCreate(&s, NON_BLOCKING));
	OK(cu.cuStreamBeginCapture_v2(s, 2));
	OK(cu.cuMemcpyHtoDAsync_v2(data, in, sizeof(in), s));
	launch(s, data, 2, 1);
	OK(cu.cuMemcpyDtoHAsync_v2(out, data, sizeof(out), s));
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t round = 0; round < 5; round++) {
		in[5] = round;
		OK(cu.cuGraphLaunch(exec, s));
		OK(cu.cuStreamSynchronize(s));
		CHECK_INT(out[5], 2 * round + 1);
	}
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(graph));
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuMemFree_v2(data));
}

int main(void)
{
	void *context, *module;

	soft = cuda_api_start(&context) != 0;
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
	TEST(test_capture());
	TEST(test_fork_and_join());
	TEST(test_capture_errors());
	TEST(test_by_hand(context));
	TEST(test_pageable_copies());
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
