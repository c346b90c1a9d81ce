/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs: their edges, what they do, and how that is changed in a graph and in an
 * executable one, in the old and in the new forms of the calls. usage: cuda_nodes
 */
#include <stdbool.h>

#include "cuda_api.h"
#include "cuda_kernels.h"

enum { INVALID_VALUE = 1, UPDATE_FAILURE = 910 };
#define N 8 /* words of data */

static void *affine, *stream;
static uint64_t data;

/* What the program of a test is: fill with `start`, then x * mul + add, then copy to out, then
 * call. */
struct line {
	void *graph, *fill, *kernel, *copy, *call;
	struct memset_node fill_params;
	struct kernel_node kernel_params;
	struct memcpy3d copy_params;
	struct host_node call_params;
	uint64_t at;
	uint32_t mul, add, turns;
	void *params[4];
	uint32_t out[N], other_out[N];
	unsigned n_calls, n_other_calls;
};

static void count_up(void *user)
{
	++*(unsigned *)user;
}

static void make_line(struct line *l, void *context)
{
	*l = (struct line){.at = data, .mul = 3, .add = 4};
	l->params[0] = &l->at;
	l->params[1] = &l->mul;
	l->params[2] = &l->add;
	l->params[3] = &l->turns;
	l->fill_params =
		(struct memset_node){.to = data, .value = 6, .element = 4, .width = N, .height = 1};
	l->kernel_params = (struct kernel_node){
		.function = affine, .grid = {1, 1, 1}, .block = {N, 1, 1}, .params = l->params};
	l->copy_params = (struct memcpy3d){.src_type = 2,
		.src_device = data,
		.src_pitch = sizeof(l->out),
		.src_height = 1,
		.dst_type = 1,
		.dst_host = l->out,
		.dst_pitch = sizeof(l->out),
		.dst_height = 1,
		.width = sizeof(l->out),
		.height = 1,
		.depth = 1};
	l->call_params = (struct host_node){count_up, &l->n_calls};
	OK(cu.cuGraphCreate(&l->graph, 0));
	OK(cu.cuGraphAddMemsetNode(&l->fill, l->graph, NULL, 0, &l->fill_params, context));
	/* The form until CUDA 12. */
	OK(cu.cuGraphAddKernelNode(&l->kernel, l->graph, &l->fill, 1, &l->kernel_params));
	OK(cu.cuGraphAddMemcpyNode(&l->copy, l->graph, &l->kernel, 1, &l->copy_params, context));
	OK(cu.cuGraphAddHostNode(&l->call, l->graph, &l->copy, 1, &l->call_params));
}

static void run(void *exec)
{
	OK(cu.cuGraphLaunch(exec, stream));
	OK(cu.cuStreamSynchronize(stream));
}

static void run_once(void *graph)
{
	void *exec = NULL;

	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	run(exec);
	OK(cu.cuGraphExecDestroy(exec));
}

static bool has_edge(void *graph, void *from, void *to)
{
	void *froms[8] = {0}, *tos[8] = {0};
	size_t n = 8;
	bool found = false;

	OK(cu.cuGraphGetEdges(graph, froms, tos, &n));
	for (size_t i = 0; i < n && i < 8; i++) {
		found = found || (froms[i] == from && tos[i] == to);
	}
	return found;
}

static void test_edges(void *context)
{
	struct edge edges[8];
	void *nodes[8], *others[8];
	struct line l;
	size_t n = 0;

	make_line(&l, context);
	OK(cu.cuGraphGetEdges(l.graph, NULL, NULL, &n));
	CHECK_INT(n, 3);
	CHECK(has_edge(l.graph, l.fill, l.kernel) && has_edge(l.graph, l.kernel, l.copy));
	CHECK(has_edge(l.graph, l.copy, l.call) && !has_edge(l.graph, l.fill, l.copy));
	memset(edges, 0xff, sizeof(edges));
	n = 8;
	OK(cu.cuGraphGetEdges_v2(l.graph, nodes, others, edges, &n));
	CHECK_INT(n, 3);
	CHECK(edges[0].type == 0 && edges[2].from_port == 0 && nodes[3] == NULL);
	/* Before and behind one node. */
	n = 8;
	OK(cu.cuGraphNodeGetDependencies(l.copy, nodes, &n));
	CHECK(n == 1 && nodes[0] == l.kernel && nodes[1] == NULL);
	n = 8;
	memset(edges, 0xff, sizeof(edges));
	OK(cu.cuGraphNodeGetDependencies_v2(l.copy, nodes, edges, &n));
	CHECK(n == 1 && nodes[0] == l.kernel && edges[0].type == 0);
	n = 8;
	OK(cu.cuGraphNodeGetDependentNodes(l.fill, nodes, &n));
	CHECK(n == 1 && nodes[0] == l.kernel);
	n = 8;
	OK(cu.cuGraphNodeGetDependentNodes_v2(l.fill, nodes, edges, &n));
	CHECK(n == 1 && nodes[0] == l.kernel);
	n = 7;
	OK(cu.cuGraphNodeGetDependentNodes(l.call, NULL, &n));
	CHECK_INT(n, 0);
	/* The kernel after the copy instead of before it: what is copied is the fill. */
	OK(cu.cuGraphRemoveDependencies(l.graph, &l.kernel, &l.copy, 1));
	CHECK_INT(cu.cuGraphRemoveDependencies(l.graph, &l.kernel, &l.copy, 1), INVALID_VALUE);
	OK(cu.cuGraphAddDependencies(l.graph, &l.fill, &l.copy, 1));
	OK(cu.cuGraphRemoveDependencies_v2(l.graph, &l.fill, &l.kernel, NULL, 1));
	OK(cu.cuGraphAddDependencies_v2(l.graph, &l.copy, &l.kernel, NULL, 1));
	CHECK(has_edge(l.graph, l.copy, l.kernel) && !has_edge(l.graph, l.kernel, l.copy));
	CHECK_INT(cu.cuGraphAddDependencies(l.graph, &l.copy, &l.copy, 1), INVALID_VALUE);
	run_once(l.graph);
	CHECK(l.out[0] == 6 && l.n_calls == 1);
	/* Without the call. */
	OK(cu.cuGraphDestroyNode(l.call));
	OK(cu.cuGraphGetEdges(l.graph, NULL, NULL, &n));
	CHECK_INT(n, 2);
	run_once(l.graph);
	CHECK_INT(l.n_calls, 1);
	CHECK_INT(cu.cuGraphGetEdges(l.graph, NULL, NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphGetEdges_v2(NULL, NULL, NULL, NULL, &n), INVALID_VALUE);
	CHECK_INT(cu.cuGraphNodeGetDependencies_v2(l.copy, NULL, NULL, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphNodeGetDependentNodes(NULL, NULL, &n), INVALID_VALUE);
	OK(cu.cuGraphDestroy(l.graph));
}

/* In the graph, for all that is made of it later. */
static void test_change_nodes(void *context)
{
	struct memset_node fill = {0};
	struct kernel_node kernel;
	struct host_node call = {0};
	struct line l;

	make_line(&l, context);
	OK(cu.cuGraphMemsetNodeGetParams(l.fill, &fill));
	CHECK(fill.to == data && fill.value == 6 && fill.element == 4 && fill.width == N);
	fill.value = 10;
	OK(cu.cuGraphMemsetNodeSetParams(l.fill, &fill));
	memset(&kernel, 0xff, sizeof(kernel));
	OK(cu.cuGraphKernelNodeGetParams(l.kernel, &kernel));
	CHECK(kernel.function == affine && kernel.block[0] == N && kernel.grid[0] == 1);
	CHECK(*(uint32_t *)kernel.params[1] == 3 && *(uint32_t *)kernel.params[2] == 4);
	/* The members that came with CUDA 12 are not its own. */
	CHECK(kernel.kernel == (void *)-1 && kernel.context == (void *)-1);
	l.add = 5;
	OK(cu.cuGraphKernelNodeSetParams(l.kernel, &l.kernel_params));
	OK(cu.cuGraphHostNodeGetParams(l.call, &call));
	CHECK(call.fn == count_up && call.user == &l.n_calls);
	call.user = &l.n_other_calls;
	OK(cu.cuGraphHostNodeSetParams(l.call, &call));
	l.copy_params.dst_host = l.other_out;
	OK(cu.cuGraphMemcpyNodeSetParams(l.copy, &l.copy_params));
	run_once(l.graph);
	CHECK(l.other_out[0] == 35 && l.out[0] == 0 && l.n_other_calls == 1 && l.n_calls == 0);
	l.mul = 2;
	OK(cu.cuGraphKernelNodeSetParams_v2(l.kernel, &l.kernel_params));
	run_once(l.graph);
	CHECK_INT(l.other_out[N - 1], 25);
	/* Of another kind, or nothing. */
	CHECK_INT(cu.cuGraphMemsetNodeGetParams(l.kernel, &fill), INVALID_VALUE);
	CHECK_INT(cu.cuGraphMemsetNodeGetParams(l.fill, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphKernelNodeGetParams(l.fill, &kernel), INVALID_VALUE);
	CHECK_INT(cu.cuGraphKernelNodeSetParams(l.fill, &l.kernel_params), INVALID_VALUE);
	CHECK_INT(cu.cuGraphKernelNodeSetParams(l.kernel, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphHostNodeGetParams(l.copy, &call), INVALID_VALUE);
	CHECK_INT(cu.cuGraphHostNodeSetParams(l.call, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphMemcpyNodeSetParams(l.call, &l.copy_params), INVALID_VALUE);
	CHECK_INT(cu.cuGraphMemcpyNodeSetParams(l.copy, NULL), INVALID_VALUE);
	OK(cu.cuGraphDestroy(l.graph));
}

/* In the executable graph alone. */
static void test_change_exec(void *context)
{
	void *exec = NULL;
	unsigned is_enabled = 7;
	struct line l;

	make_line(&l, context);
	OK(cu.cuGraphInstantiate_v2(&exec, l.graph, NULL, NULL, 0));
	l.fill_params.value = 1;
	OK(cu.cuGraphExecMemsetNodeSetParams(exec, l.fill, &l.fill_params, context));
	l.mul = 7;
	OK(cu.cuGraphExecKernelNodeSetParams(exec, l.kernel, &l.kernel_params));
	l.copy_params.dst_host = l.other_out;
	OK(cu.cuGraphExecMemcpyNodeSetParams(exec, l.copy, &l.copy_params, context));
	OK(cu.cuGraphExecHostNodeSetParams(
		exec, l.call, &(struct host_node){count_up, &l.n_other_calls}));
	run(exec);
	CHECK(l.other_out[0] == 11 && l.n_other_calls == 1 && l.n_calls == 0 && l.out[0] == 0);
	/* What is disabled is left out, until it is enabled. */
	OK(cu.cuGraphNodeGetEnabled(exec, l.kernel, &is_enabled));
	CHECK_INT(is_enabled, 1);
	OK(cu.cuGraphNodeSetEnabled(exec, l.kernel, 0));
	OK(cu.cuGraphNodeGetEnabled(exec, l.kernel, &is_enabled));
	CHECK_INT(is_enabled, 0);
	run(exec);
	CHECK_INT(l.other_out[0], 1);
	OK(cu.cuGraphNodeSetEnabled(exec, l.kernel, 1));
	run(exec);
	CHECK_INT(l.other_out[0], 11);
	/* Only kernels, fills and copies can be. */
	CHECK_INT(cu.cuGraphNodeSetEnabled(exec, l.call, 0), INVALID_VALUE);
	CHECK_INT(cu.cuGraphNodeGetEnabled(exec, l.call, &is_enabled), INVALID_VALUE);
	CHECK_INT(cu.cuGraphNodeGetEnabled(exec, l.kernel, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphExecKernelNodeSetParams(exec, l.fill, &l.kernel_params), INVALID_VALUE);
	CHECK_INT(cu.cuGraphExecMemcpyNodeSetParams(exec, l.fill, &l.copy_params, context),
		INVALID_VALUE);
	CHECK_INT(cu.cuGraphExecHostNodeSetParams(exec, l.call, NULL), INVALID_VALUE);
	/* The graph is as it was. */
	run_once(l.graph);
	CHECK(l.out[0] == 22 && l.n_calls == 1);
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(l.graph));
}

/* The whole of an executable graph, from another graph of the same shape. */
static void test_update(void *context)
{
	void *exec = NULL, *wrong = &wrong;
	int result = -1;
	struct line l, m;

	make_line(&l, context);
	make_line(&m, context);
	m.mul = 10;
	OK(cu.cuGraphKernelNodeSetParams(m.kernel, &m.kernel_params));
	OK(cu.cuGraphInstantiateWithFlags(&exec, l.graph, 0));
	OK(cu.cuGraphExecUpdate(exec, m.graph, &wrong, &result));
	CHECK(result == 0 && wrong == NULL);
	run(exec);
	CHECK(m.out[0] == 64 && m.n_calls == 1 && l.n_calls == 0);
	OK(cu.cuGraphDestroyNode(m.call));
	CHECK_INT(cu.cuGraphExecUpdate(exec, m.graph, &wrong, &result), UPDATE_FAILURE);
	CHECK(result != 0);
	run(exec);
	CHECK_INT(m.n_calls, 2);
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(l.graph));
	OK(cu.cuGraphDestroy(m.graph));
}

static void test_instantiate(void *context)
{
	struct instantiate_params params = {.flags = 2, .upload_stream = stream, .result = -1};
	unsigned long long flags = 99;
	void *exec = NULL, *wrong = &wrong;
	char log[16] = "before";
	struct line l;

	make_line(&l, context);
	OK(cu.cuGraphInstantiateWithParams(&exec, l.graph, &params));
	CHECK(params.result == 0 && params.error_node == NULL);
	OK(cu.cuGraphExecGetFlags(exec, &flags));
	CHECK_INT(flags, 0); /* to upload is no property of the graph */
	run(exec);
	CHECK_INT(l.out[0], 22);
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphInstantiateWithFlags(&exec, l.graph, 8));
	OK(cu.cuGraphExecGetFlags(exec, &flags));
	CHECK_INT(flags, 0);
	CHECK_INT(cu.cuGraphExecGetFlags(exec, NULL), INVALID_VALUE);
	OK(cu.cuGraphExecDestroy(exec));
	CHECK_INT(cu.cuGraphInstantiateWithParams(&exec, l.graph, NULL), INVALID_VALUE);
	OK(cu.cuGraphInstantiate_v2(&exec, l.graph, &wrong, log, sizeof(log)));
	CHECK(wrong == NULL);
	run(exec);
	CHECK_INT(l.n_calls, 2);
	OK(cu.cuGraphExecDestroy(exec));
	/* Round in a circle. */
	OK(cu.cuGraphAddDependencies(l.graph, &l.call, &l.fill, 1));
	CHECK_INT(
		cu.cuGraphInstantiate_v2(&exec, l.graph, &wrong, log, sizeof(log)), INVALID_VALUE);
	CHECK_INT(cu.cuGraphInstantiateWithParams(&exec, l.graph, &params), INVALID_VALUE);
	CHECK(params.result != 0);
	OK(cu.cuGraphDestroy(l.graph));
}

static void test_clones_and_children(void *context)
{
	void *clone = NULL, *twin = NULL, *parent, *child = NULL, *inside = NULL, *nodes[8];
	struct host_node call;
	struct line l;
	size_t n = 8;
	int type = -1;

	make_line(&l, context);
	OK(cu.cuGraphClone(&clone, l.graph));
	OK(cu.cuGraphNodeFindInClone(&twin, l.call, clone));
	CHECK(twin != l.call);
	OK(cu.cuGraphHostNodeGetParams(twin, &call));
	CHECK(call.user == &l.n_calls);
	OK(cu.cuGraphHostNodeSetParams(twin, &(struct host_node){count_up, &l.n_other_calls}));
	run_once(clone);
	CHECK(l.n_other_calls == 1 && l.n_calls == 0);
	CHECK_INT(cu.cuGraphNodeFindInClone(&twin, twin, l.graph), INVALID_VALUE);
	CHECK_INT(cu.cuGraphNodeFindInClone(NULL, l.call, clone), INVALID_VALUE);
	/* The graph of a child node is a copy, owned by it. */
	OK(cu.cuGraphCreate(&parent, 0));
	OK(cu.cuGraphAddChildGraphNode(&child, parent, NULL, 0, clone));
	OK(cu.cuGraphChildGraphNodeGetGraph(child, &inside));
	CHECK(inside != clone && inside != parent);
	OK(cu.cuGraphGetNodes(inside, nodes, &n));
	CHECK_INT(n, 4);
	OK(cu.cuGraphNodeGetType(nodes[0], &type));
	CHECK_INT(type, 2);
	CHECK_INT(cu.cuGraphChildGraphNodeGetGraph(l.call, &inside), INVALID_VALUE);
	CHECK_INT(cu.cuGraphChildGraphNodeGetGraph(child, NULL), INVALID_VALUE);
	run_once(parent);
	CHECK_INT(l.n_other_calls, 2);
	OK(cu.cuGraphDestroy(parent));
	OK(cu.cuGraphDestroy(clone));
	OK(cu.cuGraphDestroy(l.graph));
}

/* One graph records an event, another waits for it. */
static void test_events(void)
{
	void *first, *second, *record = NULL, *wait = NULL, *event;
	int type = -1;

	MUST(cu.cuEventCreate(&event, DISABLE_TIMING));
	OK(cu.cuGraphCreate(&first, 0));
	OK(cu.cuGraphCreate(&second, 0));
	OK(cu.cuGraphAddEventRecordNode(&record, first, NULL, 0, event));
	OK(cu.cuGraphNodeGetType(record, &type));
	CHECK_INT(type, 7);
	OK(cu.cuGraphAddEventWaitNode(&wait, second, NULL, 0, event));
	OK(cu.cuGraphNodeGetType(wait, &type));
	CHECK_INT(type, 6);
	CHECK_INT(cu.cuGraphAddEventWaitNode(&wait, second, NULL, 0, NULL), INVALID_VALUE);
	CHECK_INT(cu.cuGraphAddEventWaitNode(NULL, second, NULL, 0, event), INVALID_VALUE);
	run_once(first);
	OK(cu.cuEventQuery(event));
	run_once(second);
	OK(cu.cuGraphDestroy(first));
	OK(cu.cuGraphDestroy(second));
	OK(cu.cuEventDestroy_v2(event));
}

int main(void)
{
	void *context, *module;

	cuda_api_start(&context);
	MUST(cu.cuModuleLoadData(&module, test_ptx));
	affine = cuda_api_function(module, "affine");
	MUST(cu.cuStreamCreate(&stream, NON_BLOCKING));
	data = cuda_api_zeros(N);
	TEST(test_edges(context));
	TEST(test_change_nodes(context));
	TEST(test_change_exec(context));
	TEST(test_update(context));
	TEST(test_instantiate(context));
	TEST(test_clones_and_children(context));
	TEST(test_events());
	OK(cu.cuCtxDestroy_v2(context));
	return check_result();
}
