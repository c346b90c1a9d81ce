/* SPDX-License-Identifier: Apache-2.0 */
/* The other calls of fuzz_front. */
#include "../progs/cuda_kernels.h"
#include "fuzz_front.h"

static void no_function(void *user)
{
}

static void no_callback(CUstream s, CUresult status, void *user)
{
}

static void load(unsigned n, const char *name)
{
	static const char bad[] = ".version 7.0\n.target sm_70\n.address_size 64\n.entry x(";
	void *p = NULL;
	CUdeviceptr a;
	size_t size;
	int options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	char log[16];
	void *values[2] = {log, (void *)sizeof(log)};

	switch (n) {
	case 0:
		keep(have.modules,
			cuModuleLoadDataEx(out(&p), byte() < 40 ? NULL : bad, 2, options, values),
			p);
		break;
	case 1:
		if (byte() % 4 == 0) { /* slow */
			keep(have.modules, cuModuleLoadData(out(&p), test_ptx), p);
		}
		break;
	case 2:
		(void)cuModuleUnload(HANDLE(CUmodule, modules));
		break;
	case 3:
		keep(have.functions, cuModuleGetFunction(out(&p), HANDLE(CUmodule, modules), name),
			p);
		break;
	default:
		(void)cuModuleGetGlobal_v2(out(&a), out(&size), HANDLE(CUmodule, modules), name);
		break;
	}
}

static void ask_function(unsigned n, const char *name)
{
	void *p = NULL;
	size_t size;
	int value;

	switch (n) {
	case 0:
		(void)cuFuncGetAttribute(out(&value), (int)small(), HANDLE(CUfunction, functions));
		(void)cuFuncSetAttribute(
			HANDLE(CUfunction, functions), (int)small(), (int)number());
		break;
	case 1:
		if (byte() % 4 == 0) {
			keep(have.libraries,
				cuLibraryLoadData(out(&p), test_ptx, NULL, NULL, 0, NULL, NULL, 0),
				p);
		} else {
			(void)cuLibraryUnload(HANDLE(CUlibrary, libraries));
		}
		break;
	case 2:
		keep(have.kernels, cuLibraryGetKernel(out(&p), HANDLE(CUlibrary, libraries), name),
			p);
		break;
	case 3:
		(void)cuKernelGetAttribute(out(&value), (int)small(), HANDLE(CUkernel, kernels), 0);
		(void)cuFuncGetParamInfo(
			HANDLE(CUfunction, functions), small(), out(&size), out(&size));
		break;
	default:
		(void)cuOccupancyMaxActiveBlocksPerMultiprocessor(
			out(&value), HANDLE(CUfunction, functions), (int)number(), number());
		(void)cuOccupancyMaxPotentialBlockSize(out(&value), out(&value),
			HANDLE(CUfunction, functions), NULL, number(), (int)number());
		break;
	}
}

void fuzz_module(unsigned n)
{
	static const char *const names[] = {"affine", "nothing", "table", "", "nobody"};
	const char *name = byte() < 30 ? NULL : names[byte() % 5];

	/* Two numbers that the corpus has here. */
	(void)small();
	(void)small();
	if (n % 10 < 5) {
		load(n % 10, name);
	} else {
		ask_function(n % 10 - 5, name);
	}
}

void fuzz_launch(unsigned n)
{
	CUdeviceptr a = address();
	uint32_t one = small(), turns = byte();
	void *params[] = {out(&a), out(&one), out(&one), out(&turns)};
	size_t size = number() % 25;
	uint8_t packed[24] = {0};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, out(packed), CU_LAUNCH_PARAM_BUFFER_SIZE,
		out(&size), CU_LAUNCH_PARAM_END};
	CUfunction f = byte() < 220 ? HANDLE(CUfunction, functions)
				    : (CUfunction)(void *)HANDLE(CUkernel, kernels);
	struct CUlaunchAttribute attribute = {.id = (int)small(), .value.cooperative = 1};
	struct CUlaunchConfig config = {small(), small(), 1, small(), 1, small(), small(), stream(),
		out(&attribute), small() % 2};
	void **which = byte() < 200 ? out(params) : NULL;
	void **more = which == NULL || byte() < 20 ? out(extra) : NULL;

	/* Few enough blocks to end soon. */
	if (n % 3 == 0) {
		(void)cuLaunchKernelEx(out(&config), f, which, more);
	} else if (n % 3 == 1) {
		(void)cuLaunchKernel(f, small() % 3, 1, 1, (unsigned)number() % 2048, small() % 3,
			1, (unsigned)number(), stream(), which, more);
	} else {
		(void)cuLaunchCooperativeKernel(
			f, small(), 1, 1, small(), 1, 1, small(), stream(), which);
	}
}

void fuzz_stream(unsigned n)
{
	void *p = NULL;
	unsigned flags;
	int value;
	float ms;

	switch (n % 12) {
	case 0:
		keep(have.streams,
			cuStreamCreateWithPriority((CUstream *)out(&p), small() % 4, (int)small()),
			p);
		break;
	case 1:
		(void)cuStreamDestroy_v2(HANDLE(CUstream, streams));
		break;
	case 2:
		(void)cuStreamQuery(stream());
		(void)cuStreamSynchronize(stream());
		break;
	case 3:
		keep(have.events, cuEventCreate((CUevent *)out(&p), small()), p);
		break;
	case 4:
		(void)cuEventDestroy_v2(HANDLE(CUevent, events));
		break;
	case 5:
	case 6:
		(void)cuEventRecordWithFlags(HANDLE(CUevent, events), stream(), small() % 3);
		break;
	case 7:
	case 8:
		(void)cuStreamWaitEvent(stream(), HANDLE(CUevent, events), small() % 3);
		break;
	case 9:
		(void)cuEventElapsedTime(
			out(&ms), HANDLE(CUevent, events), HANDLE(CUevent, events));
		(void)cuEventQuery(HANDLE(CUevent, events));
		break;
	case 10:
		(void)cuLaunchHostFunc(stream(), byte() < 30 ? NULL : no_function, NULL);
		(void)cuStreamAddCallback(
			stream(), byte() < 30 ? NULL : no_callback, NULL, small() % 2);
		break;
	default:
		(void)cuStreamGetFlags(stream(), out(&flags));
		(void)cuStreamGetPriority(stream(), out(&value));
		break;
	}
}

struct graph_args {
	CUgraphNode deps[2], node;
	CUgraph graph;
	CUgraphExec exec;
	struct CUDA_MEMSET_NODE_PARAMS fill;
	struct CUDA_HOST_NODE_PARAMS host;
	struct CUDA_KERNEL_NODE_PARAMS kernel;
};

static void make_graph(unsigned n, struct graph_args *g)
{
	void *p = NULL;

	switch (n) {
	case 0:
		keep(have.graphs, cuGraphCreate((CUgraph *)out(&p), small() / 16), p);
		break;
	case 1:
		(void)cuGraphDestroy(g->graph);
		break;
	case 2:
		keep(have.nodes,
			cuGraphAddEmptyNode((CUgraphNode *)out(&p), g->graph, g->deps, small() % 3),
			p);
		break;
	case 3:
		keep(have.nodes,
			cuGraphAddMemsetNode((CUgraphNode *)out(&p), g->graph, g->deps, small() % 3,
				out(&g->fill), NULL),
			p);
		break;
	case 4:
		keep(have.nodes,
			cuGraphAddHostNode((CUgraphNode *)out(&p), g->graph, g->deps, small() % 3,
				out(&g->host)),
			p);
		break;
	case 5:
		keep(have.nodes,
			cuGraphAddKernelNode_v2((CUgraphNode *)out(&p), g->graph, g->deps,
				small() % 3, out(&g->kernel)),
			p);
		break;
	case 6:
		if (g->graph == NULL || !front_is(g->graph, FRONT_GRAPH) ||
			byte() % 4 == 0) { /* of itself, it doubles */
			keep(have.nodes,
				cuGraphAddChildGraphNode((CUgraphNode *)out(&p), g->graph, NULL, 0,
					HANDLE(CUgraph, graphs)),
				p);
		}
		break;
	case 7:
		(void)cuGraphDestroyNode(g->node);
		break;
	case 8:
		(void)cuGraphAddDependencies(g->graph, &g->deps[0], &g->deps[1], small() % 2);
		break;
	case 9:
		(void)cuGraphRemoveDependencies(g->graph, &g->deps[0], &g->deps[1], small() % 2);
		break;
	default:
		keep(have.graphs, cuGraphClone((CUgraph *)out(&p), g->graph), p);
		break;
	}
}

static void use_graph(unsigned n, struct graph_args *g)
{
	struct CUgraphExecUpdateResultInfo info;
	CUgraphNode some[2];
	size_t room = 2;
	void *p = NULL;
	int value;

	switch (n) {
	case 10:
		keep(have.execs,
			cuGraphInstantiateWithFlags((CUgraphExec *)out(&p), g->graph, small() / 8),
			p);
		break;
	case 11:
		(void)cuGraphExecDestroy(g->exec);
		break;
	case 12:
		(void)cuGraphLaunch(g->exec, stream());
		break;
	case 13:
		(void)cuGraphExecUpdate_v2(g->exec, g->graph, out(&info));
		break;
	case 14:
		(void)cuGraphExecKernelNodeSetParams_v2(g->exec, g->node, out(&g->kernel));
		(void)cuGraphExecMemsetNodeSetParams(g->exec, g->node, out(&g->fill), NULL);
		break;
	case 15:
		(void)cuGraphGetNodes(g->graph, out(some), out(&room));
		room = 2;
		(void)cuGraphNodeGetDependencies(g->node, out(some), out(&room));
		(void)cuGraphNodeGetType(g->node, out(&value));
		break;
	case 16:
		(void)cuStreamBeginCapture_v2(stream(), (int)small() % 4);
		break;
	case 17:
		keep(have.graphs, cuStreamEndCapture(stream(), (CUgraph *)out(&p)), p);
		break;
	default:
		(void)cuGraphKernelNodeSetParams_v2(g->node, out(&g->kernel));
		(void)cuGraphKernelNodeGetParams_v2(g->node, out(&g->kernel));
		break;
	}
}

void fuzz_graph(unsigned n)
{
	struct graph_args g = {.deps = {HANDLE(CUgraphNode, nodes), HANDLE(CUgraphNode, nodes)},
		.graph = HANDLE(CUgraph, graphs),
		.node = HANDLE(CUgraphNode, nodes),
		.exec = HANDLE(CUgraphExec, execs)};
	CUdeviceptr a;
	uint32_t one = 1;
	void *params[] = {&a, &one, &one, &one};

	g.fill = (struct CUDA_MEMSET_NODE_PARAMS){
		address(), number(), 7, small(), number(), number()};
	g.host.fn = byte() < 20 ? NULL : no_function;
	a = address();
	g.kernel = (struct CUDA_KERNEL_NODE_PARAMS){HANDLE(CUfunction, functions), small(), 1, 1,
		small(), 1, 1, small(), out(params), NULL, NULL, NULL};
	n %= 20;
	if (n < 10 || n == 19) {
		make_graph(n, &g);
	} else {
		use_graph(n, &g);
	}
}

void fuzz_name(void)
{
	static const char *const names[] = {
		"cuMemAlloc", "cuGraphLaunch", "cuTexObjectCreate", "", "x"};
	void *fn;
	int status;

	(void)cuGetProcAddress_v2(byte() < 30 ? NULL : names[byte() % 5], out(&fn),
		(int)(small() * 1000u), small() % 5, out(&status));
	(void)cuGetErrorName((int)number(), out(&fn));
}
