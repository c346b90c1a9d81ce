/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of kernels and graphs: the calls that may have to wait. */
#include <stdint.h>

#include "orion/call.h"
#include "orion/client.h"
#include "orion/known.h"
#include "orion/partition.h"
#include "orion/record.h"
#include "orion/stream.h"

#define MEASURE_EVERY 16

struct launch {
	struct orion_call call;
	CUstream stream; /* to launch on */
	bool is_partitioned;
	struct rbt_kernel *kernel;
	struct orion_flight flight;
	struct orion_recording recording;
};

/* Which launches a partition may have. Blocks that wait for each other need all the SMs that the
 * program has counted, and a graph's kernels run in the context that the graph was made for. */
enum divisible { ALL_SMS, ANY_SMS };

static void enter_partition(struct launch *l)
{
	struct orion_stream *s = l->call.stream;
	CUstream stream = s != NULL && s->is_default ? orion_partition_enter(s) : NULL;

	if (stream != NULL) {
		l->is_partitioned = true;
		l->stream = stream;
		orion_client_partitioned(l->call.client);
	}
}

/* `function` and `shape` as for rbt_kernels_get(). Waits if it must. */
static void begin(struct launch *l, CUstream stream, bool is_own, void *function,
	const struct rbt_shape *shape, enum divisible divisible)
{
	const bool is_recorded = orion_record_is_on();
	struct rbt_kernel_facts facts = {0};

	l->stream = orion_call_begin(&l->call, stream, is_own, true);
	l->is_partitioned = false;
	l->kernel = NULL;
	l->flight.generation = 0;
	l->recording.start = NULL;
	if (l->call.is_captured || (l->call.client < 0 && !is_recorded)) {
		return;
	}
	const bool is_be = l->call.client >= 0 && !l->call.is_hp;
	if (is_be || is_recorded || orion_known_has_profile()) {
		l->kernel = rbt_kernels_get(orion_known(), function, shape);
		rbt_kernel_facts(l->kernel, &facts);
	}
	if (is_be) {
		l->flight = orion_flight_begin(l->call.client, &facts);
		if (divisible == ANY_SMS) {
			enter_partition(l);
		}
		/* Another event costs a microsecond or two: a known duration is checked now and
		 * then, and not on an idle GPU, where the time of the call would be counted. */
		bool is_due = facts.is_rough || l->flight.slot % MEASURE_EVERY == 0;
		bool is_measured =
			!is_recorded && (facts.duration_ns == 0 || (l->flight.is_behind && is_due));
		orion_flight_start(&l->flight, l->stream, is_measured ? l->kernel : NULL);
	} else if (l->call.client >= 0) {
		orion_hp_launch(l->call.client, l->kernel != NULL ? &facts : NULL);
	}
	if (is_recorded) {
		orion_record_start(&l->recording, l->stream, l->kernel);
	}
}

static CUresult end(struct launch *l, CUresult result)
{
	if (l->recording.start != NULL) {
		orion_record_end(&l->recording, l->stream);
	}
	if (l->flight.generation != 0) {
		orion_flight_end(&l->flight, l->stream, result);
	}
	if (l->is_partitioned) {
		orion_partition_leave(l->call.stream);
	}
	orion_call_end(&l->call);
	return result;
}

#define KERNEL_PARAMETERS                                                                          \
	(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
		unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,              \
		void **params, void **extra)
#define COOPERATIVE_PARAMETERS                                                                     \
	(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
		unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,              \
		void **params)
#define EX_PARAMETERS                                                                              \
	(const struct CUlaunchConfig *config, CUfunction function, void **params, void **extra)

#define KERNEL_HOOK(symbol, is_own)                                                                \
	static CUresult(*next_##symbol) KERNEL_PARAMETERS;                                         \
	static CUresult hook_##symbol KERNEL_PARAMETERS                                            \
	{                                                                                          \
		const struct rbt_shape shape = {                                                   \
			{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};            \
		struct launch l;                                                                   \
		begin(&l, stream, is_own, function, &shape, ANY_SMS);                              \
		return end(&l, next_##symbol(function, grid_x, grid_y, grid_z, block_x, block_y,   \
				       block_z, shared, l.stream, params, extra));                 \
	}

#define COOPERATIVE_HOOK(symbol, is_own)                                                           \
	static CUresult(*next_##symbol) COOPERATIVE_PARAMETERS;                                    \
	static CUresult hook_##symbol COOPERATIVE_PARAMETERS                                       \
	{                                                                                          \
		const struct rbt_shape shape = {                                                   \
			{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};            \
		struct launch l;                                                                   \
		begin(&l, stream, is_own, function, &shape, ALL_SMS);                              \
		return end(&l, next_##symbol(function, grid_x, grid_y, grid_z, block_x, block_y,   \
				       block_z, shared, l.stream, params));                        \
	}

static enum divisible divisible(const struct CUlaunchConfig *config)
{
	for (unsigned i = 0; i < config->numAttrs; i++) {
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
			config->attrs[i].value.cooperative != 0) {
			return ALL_SMS;
		}
	}
	return ANY_SMS;
}

/* The configuration is the program's, so the stream goes into a copy. */
#define EX_HOOK(symbol, is_own)                                                                    \
	static CUresult(*next_##symbol) EX_PARAMETERS;                                             \
	static CUresult hook_##symbol EX_PARAMETERS                                                \
	{                                                                                          \
		if (config == NULL) {                                                              \
			return next_##symbol(config, function, params, extra);                     \
		}                                                                                  \
		const struct rbt_shape shape = {                                                   \
			{config->gridDimX, config->gridDimY, config->gridDimZ},                    \
			{config->blockDimX, config->blockDimY, config->blockDimZ},                 \
			config->sharedMemBytes};                                                   \
		struct CUlaunchConfig copy = *config;                                              \
		struct launch l;                                                                   \
		begin(&l, config->hStream, is_own, function, &shape, divisible(config));           \
		copy.hStream = l.stream;                                                           \
		return end(&l, next_##symbol(&copy, function, params, extra));                     \
	}

#define GRAPH_HOOK(symbol, is_own)                                                                 \
	static CUresult (*next_##symbol)(CUgraphExec exec, CUstream stream);                       \
	static CUresult hook_##symbol(CUgraphExec exec, CUstream stream)                           \
	{                                                                                          \
		struct launch l;                                                                   \
		begin(&l, stream, is_own, exec, NULL, ALL_SMS);                                    \
		return end(&l, next_##symbol(exec, l.stream));                                     \
	}

KERNEL_HOOK(cuLaunchKernel, false)
KERNEL_HOOK(cuLaunchKernel_ptsz, true)
COOPERATIVE_HOOK(cuLaunchCooperativeKernel, false)
COOPERATIVE_HOOK(cuLaunchCooperativeKernel_ptsz, true)
EX_HOOK(cuLaunchKernelEx, false)
EX_HOOK(cuLaunchKernelEx_ptsz, true)
GRAPH_HOOK(cuGraphLaunch, false)
GRAPH_HOOK(cuGraphLaunch_ptsz, true)

const struct orion_hook orion_launch_hooks[] = {
	ORION_HOOK(cuLaunchKernel),
	ORION_HOOK(cuLaunchKernel_ptsz),
	ORION_HOOK(cuLaunchCooperativeKernel),
	ORION_HOOK(cuLaunchCooperativeKernel_ptsz),
	ORION_HOOK(cuLaunchKernelEx),
	ORION_HOOK(cuLaunchKernelEx_ptsz),
	ORION_HOOK(cuGraphLaunch),
	ORION_HOOK(cuGraphLaunch_ptsz),
	{0},
};
