/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program that run between commands of a stream, or as nodes of a graph. A thread
 * of the guest waits for them (RBT_WIRE_CALLBACK). It starts with the first such call.
 */
#include <signal.h>
#include <string.h>

#include "cuda/api.h"
#include "cuda/by_hand.h"
#include "remote/guest/guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;

static CUresult next(struct guest_thread *t, uint64_t before, struct rbt_wire_callback *ret)
{
	struct rbt_wire_writer w = {
		.buffer = (uint8_t *)(t->call + 1), .room = RBT_WIRE_MAX_CALL - sizeof(*t->call)};
	size_t size = 0;

	rbt_wire_put(&w, before);
	*t->call = (struct rbt_wire_call){
		.size = (uint32_t)(sizeof(*t->call) + w.size), .number = RBT_WIRE_CALLBACK};
	CUresult r = guest_ask(t, t->call);

	if (r != CUDA_SUCCESS || t->answer->result != CUDA_SUCCESS) {
		return r != CUDA_SUCCESS ? r : (CUresult)t->answer->result;
	}
	struct rbt_wire_reader reader = {.buffer = (const uint8_t *)(t->answer + 1),
		.size = t->answer->size - sizeof(*t->answer)};
	const struct rbt_wire_callback *got = rbt_wire_get_block(&reader, &size);

	if (got == NULL || size != sizeof(*got)) {
		return CUDA_ERROR_UNKNOWN;
	}
	*ret = *got;
	return CUDA_SUCCESS;
}

static void *call_back(void *data)
{
	struct rbt_wire_callback due = {0};
	struct guest_thread *t;
	CUresult r = guest_thread_get(&t);

	while (r == CUDA_SUCCESS) {
		r = next(t, due.id, &due);
		if (r != CUDA_SUCCESS) {
			break;
		}
		if (due.is_stream_callback) {
			((CUstreamCallback)(uintptr_t)due.function)((CUstream)(uintptr_t)due.stream,
				(CUresult)due.status, (void *)(uintptr_t)due.user);
		} else {
			((CUhostFn)(uintptr_t)due.function)((void *)(uintptr_t)due.user);
		}
	}
	return NULL;
}

/* The program's signals are for its own threads. */
static CUresult start(void)
{
	sigset_t all, before;
	pthread_t thread;
	int r = 0;

	pthread_mutex_lock(&lock);
	if (!started) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		r = pthread_create(&thread, NULL, call_back, NULL);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		started = r == 0;
		if (started) {
			pthread_detach(thread);
		}
	}
	pthread_mutex_unlock(&lock);
	return r == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult begin(struct guest_call *c, enum rbt_call_number number, unsigned how)
{
	CUresult r = guest_begin(c, number, how);

	return r != CUDA_SUCCESS ? r : start();
}

CUresult guest_cuLaunchHostFunc(unsigned form, CUstream handle, CUhostFn fn, void *user)
{
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuLaunchHostFunc, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_STREAM, handle);
	guest_put(&c, (uintptr_t)fn);
	guest_put(&c, (uintptr_t)user);
	return guest_end(&c);
}

CUresult guest_cuStreamAddCallback(
	unsigned form, CUstream handle, CUstreamCallback callback, void *user, unsigned flags)
{
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuStreamAddCallback, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_STREAM, handle);
	guest_put(&c, (uintptr_t)callback);
	guest_put(&c, (uintptr_t)user);
	guest_put(&c, flags);
	return guest_end(&c);
}

CUresult guest_cuGraphAddHostNode(unsigned form, CUgraphNode *ret_node, CUgraph graph,
	const CUgraphNode *deps, size_t n_deps, const struct CUDA_HOST_NODE_PARAMS *params)
{
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuGraphAddHostNode, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handles_out(&c, ret_node, 1);
	guest_put_handle(&c, RBT_HANDLE_GRAPH, graph);
	guest_put_handles(&c, RBT_HANDLE_NODE, deps, n_deps);
	guest_put(&c, n_deps);
	guest_put_in(&c, params, sizeof(*params), 1);
	return guest_end(&c);
}

CUresult guest_cuGraphHostNodeGetParams(
	unsigned form, CUgraphNode node, struct CUDA_HOST_NODE_PARAMS *ret_params)
{
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuGraphHostNodeGetParams, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	guest_put_out(&c, ret_params, sizeof(*ret_params), 1);
	return guest_end(&c);
}

CUresult guest_cuGraphHostNodeSetParams(
	unsigned form, CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS *params)
{
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuGraphHostNodeSetParams, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	guest_put_in(&c, params, sizeof(*params), 1);
	return guest_end(&c);
}

CUresult guest_cuGraphExecHostNodeSetParams(unsigned form, CUgraphExec exec, CUgraphNode node,
	const struct CUDA_HOST_NODE_PARAMS *params)
{
	struct guest_call c;
	CUresult r = begin(&c, RBT_CALL_cuGraphExecHostNodeSetParams, form);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	guest_put_handle(&c, RBT_HANDLE_EXEC, exec);
	guest_put_handle(&c, RBT_HANDLE_NODE, node);
	guest_put_in(&c, params, sizeof(*params), 1);
	return guest_end(&c);
}
