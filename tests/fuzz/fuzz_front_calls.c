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

void fuzz_module(unsigned n)
{
	static const char *const names[] = {"affine", "nothing", "table", "", "nobody"};
	static const char bad[] = ".version 7.0\n.target sm_70\n.address_size 64\n.entry x(";
	const char *name = byte() < 30 ? NULL : names[byte() % 5];
	void *p = NULL;
	CUdeviceptr a;
	size_t size;
	int value, options[2] = {(int)small(), (int)small()};
	char log[16];
	void *values[2] = {log, (void *)sizeof(log)};

	switch (n % 10) {
	case 0:
		options[0] = CU_JIT_ERROR_LOG_BUFFER;
		options[1] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
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
	case 4:
		(void)cuModuleGetGlobal_v2(out(&a), out(&size), HANDLE(CUmodule, modules), name);
		break;
	case 5:
		(void)cuFuncGetAttribute(out(&value), (int)small(), HANDLE(CUfunction, functions));
		(void)cuFuncSetAttribute(
			HANDLE(CUfunction, functions), (int)small(), (int)number());
		break;
	case 6:
		if (byte() % 4 == 0) {
			keep(have.libraries,
				cuLibraryLoadData(out(&p), test_ptx, NULL, NULL, 0, NULL, NULL, 0),
				p);
		} else {
			(void)cuLibraryUnload(HANDLE(CUlibrary, libraries));
		}
		break;
	case 7:
		keep(have.kernels, cuLibraryGetKernel(out(&p), HANDLE(CUlibrary, libraries), name),
			p);
		break;
	case 8:
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

void fuzz_graph(unsigned n)
{
	void *p = NULL, *deps[2] = {HANDLE(void *, nodes), HANDLE(void *, nodes)};
	CUgraph graph = HANDLE(CUgraph, graphs);
	CUgraphNode node = HANDLE(CUgraphNode, nodes);
	CUgraphExec exec = HANDLE(CUgraphExec, execs);
	struct CUDA_MEMSET_NODE_PARAMS fill = {address(), number(), 7, small(), number(), number()};
	struct CUDA_HOST_NODE_PARAMS host_params = {byte() < 20 ? NULL : no_function, NULL};
	CUdeviceptr a = address();
	uint32_t one = 1;
	void *params[] = {&a, &one, &one, &one};
	struct CUDA_KERNEL_NODE_PARAMS kernel = {HANDLE(CUfunction, functions), small(), 1, 1,
		small(), 1, 1, small(), out(params), NULL, NULL, NULL};
	struct CUgraphExecUpdateResultInfo info;
	size_t room = 2;
	int value;
	CUgraphNode some[2];

	switch (n % 20) {
	case 0:
		keep(have.graphs, cuGraphCreate((CUgraph *)out(&p), small() / 16), p);
		break;
	case 1:
		(void)cuGraphDestroy(graph);
		break;
	case 2:
		keep(have.nodes,
			cuGraphAddEmptyNode(
				(CUgraphNode *)out(&p), graph, (CUgraphNode *)deps, small() % 3),
			p);
		break;
	case 3:
		keep(have.nodes,
			cuGraphAddMemsetNode((CUgraphNode *)out(&p), graph, (CUgraphNode *)deps,
				small() % 3, out(&fill), NULL),
			p);
		break;
	case 4:
		keep(have.nodes,
			cuGraphAddHostNode((CUgraphNode *)out(&p), graph, (CUgraphNode *)deps,
				small() % 3, out(&host_params)),
			p);
		break;
	case 5:
		keep(have.nodes,
			cuGraphAddKernelNode_v2((CUgraphNode *)out(&p), graph, (CUgraphNode *)deps,
				small() % 3, out(&kernel)),
			p);
		break;
	case 6:
		if (graph == NULL || !front_is(graph, FRONT_GRAPH) ||
			byte() % 4 == 0) { /* of itself, it doubles */
			keep(have.nodes,
				cuGraphAddChildGraphNode((CUgraphNode *)out(&p), graph, NULL, 0,
					HANDLE(CUgraph, graphs)),
				p);
		}
		break;
	case 7:
		(void)cuGraphDestroyNode(node);
		break;
	case 8:
		(void)cuGraphAddDependencies(
			graph, (CUgraphNode *)&deps[0], (CUgraphNode *)&deps[1], small() % 2);
		break;
	case 9:
		(void)cuGraphRemoveDependencies(
			graph, (CUgraphNode *)&deps[0], (CUgraphNode *)&deps[1], small() % 2);
		break;
	case 10:
		keep(have.execs,
			cuGraphInstantiateWithFlags((CUgraphExec *)out(&p), graph, small() / 8), p);
		break;
	case 11:
		(void)cuGraphExecDestroy(exec);
		break;
	case 12:
		(void)cuGraphLaunch(exec, stream());
		break;
	case 13:
		(void)cuGraphExecUpdate_v2(exec, graph, out(&info));
		break;
	case 14:
		(void)cuGraphExecKernelNodeSetParams_v2(exec, node, out(&kernel));
		(void)cuGraphExecMemsetNodeSetParams(exec, node, out(&fill), NULL);
		break;
	case 15:
		(void)cuGraphGetNodes(graph, out(some), out(&room));
		room = 2;
		(void)cuGraphNodeGetDependencies(node, out(some), out(&room));
		(void)cuGraphNodeGetType(node, out(&value));
		break;
	case 16:
		(void)cuStreamBeginCapture_v2(stream(), (int)small() % 4);
		break;
	case 17:
		keep(have.graphs, cuStreamEndCapture(stream(), (CUgraph *)out(&p)), p);
		break;
	case 18:
		(void)cuGraphKernelNodeSetParams_v2(node, out(&kernel));
		(void)cuGraphKernelNodeGetParams_v2(node, out(&kernel));
		break;
	default:
		keep(have.graphs, cuGraphClone((CUgraph *)out(&p), graph), p);
		break;
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
