/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the guest that run between commands of a stream. The driver calls a function here;
 * it puts the guest's function into a list and waits. A thread of the guest waits for the list
 * (RBT_WIRE_CALLBACK), calls the function, and comes back to say so.
 */
#include <pthread.h>
#include <stdlib.h>

#include "remote/worker/hand.h"
#include "remote/worker/worker.h"

/* One function, for as long as a stream or a graph may call it. */
struct record {
	struct worker *worker;
	uint64_t function, user;
	bool once;
};

/* One call of it, on the stack of the driver's thread. */
struct due {
	struct due *next;
	struct rbt_wire_callback callback;
	bool taken, done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct due *list, **last = &list;
static uint64_t next_id = 1;

static void wait_for_guest(struct due *d)
{
	pthread_mutex_lock(&lock);
	d->callback.id = next_id++;
	*last = d;
	last = &d->next;
	pthread_cond_broadcast(&changed);
	while (!d->done) {
		pthread_cond_wait(&changed, &lock);
	}
	for (struct due **p = &list; *p != NULL; p = &(*p)->next) {
		if (*p == d) {
			*p = d->next;
			break;
		}
	}
	last = &list;
	while (*last != NULL) {
		last = &(*last)->next;
	}
	pthread_mutex_unlock(&lock);
}

static void on_function(void *data)
{
	struct record *r = data;
	struct due d = {.callback = {.function = r->function, .user = r->user}};

	wait_for_guest(&d);
	if (r->once) {
		free(r);
	}
}

static void on_stream(CUstream stream, CUresult status, void *data)
{
	struct record *r = data;
	struct due d = {.callback = {.function = r->function,
				.user = r->user,
				.stream = worker_handle(r->worker, RBT_HANDLE_STREAM, stream),
				.status = (int32_t)status,
				.is_stream_callback = 1}};

	wait_for_guest(&d);
	free(r);
}

/* With the lock. */
static struct due *find(uint64_t id)
{
	for (struct due *d = list; d != NULL; d = d->next) {
		if (id != 0 ? d->callback.id == id && d->taken : !d->taken) {
			return d;
		}
	}
	return NULL;
}

CUresult hand_callback(struct served *s)
{
	uint64_t before = served_get(s);
	struct rbt_wire_callback *out = served_room(s, sizeof(*out));
	struct due *d;

	if (!served_is_good(s, out != NULL)) {
		return s->refusal;
	}
	pthread_mutex_lock(&lock);
	d = before != 0 ? find(before) : NULL;
	if (d != NULL) {
		d->done = true;
		pthread_cond_broadcast(&changed);
	}
	while ((d = find(0)) == NULL) {
		pthread_cond_wait(&changed, &lock);
	}
	d->taken = true;
	*out = d->callback;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static struct record *make(struct served *s, uint64_t function, uint64_t user, bool once)
{
	struct record *r = malloc(sizeof(*r));

	if (r != NULL) {
		*r = (struct record){s->worker, function, user, once};
	}
	return r;
}

CUresult serve_cuLaunchHostFunc(struct served *s)
{
	CUresult (*fn)(CUstream, CUhostFn, void *) = SERVED_FN(s, cuLaunchHostFunc);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));
	uint64_t function = served_get(s), user = served_get(s);

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	/* A stream that captures makes a node of it, which can run often. */
	int status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (s->driver->cuStreamIsCapturing != NULL) {
		(void)SERVED_FN(s, cuStreamIsCapturing)(stream, &status);
	}
	struct record *r = make(s, function, user, status == CU_STREAM_CAPTURE_STATUS_NONE);

	if (r == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = fn(stream, function != 0 ? on_function : NULL, r);

	if (result != CUDA_SUCCESS) {
		free(r);
	}
	return result;
}

CUresult serve_cuStreamAddCallback(struct served *s)
{
	CUresult (*fn)(CUstream, CUstreamCallback, void *, unsigned) =
		SERVED_FN(s, cuStreamAddCallback);
	CUstream stream = served_find(s, RBT_HANDLE_STREAM, served_get(s));
	uint64_t function = served_get(s), user = served_get(s);
	unsigned flags = (unsigned)served_get(s);

	if (!served_is_good(s, fn != NULL)) {
		return s->refusal;
	}
	struct record *r = make(s, function, user, true);

	if (r == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = fn(stream, function != 0 ? on_stream : NULL, r, flags);

	if (result != CUDA_SUCCESS) {
		free(r);
	}
	return result;
}

/* Parameters of a host node: {function, user}, or none. Their record stays for as long as the
 * process does, since graphs and their copies share it. */
static bool take_node(struct served *s, struct CUDA_HOST_NODE_PARAMS *ret)
{
	const struct CUDA_HOST_NODE_PARAMS *given = served_in(s, sizeof(*given), 1);

	if (given == NULL || s->malformed) {
		return false;
	}
	ret->fn = given->fn != NULL ? on_function : NULL;
	ret->userData = make(s, (uintptr_t)given->fn, (uintptr_t)given->userData, false);
	if (ret->userData == NULL) {
		s->refusal = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return true;
}

/* The driver has not taken the record. */
static CUresult end_node(CUresult r, struct CUDA_HOST_NODE_PARAMS *p)
{
	if (r != CUDA_SUCCESS) {
		free(p->userData);
	}
	return r;
}

CUresult serve_cuGraphAddHostNode(struct served *s)
{
	struct CUDA_HOST_NODE_PARAMS p = {0};
	CUgraphNode *ret = served_handles_out(s, RBT_HANDLE_NODE, 1);
	CUgraph graph = served_find(s, RBT_HANDLE_GRAPH, served_get(s));
	const CUgraphNode *deps = served_handles(s, RBT_HANDLE_NODE, SERVED_MANY);
	size_t n_deps = served_get(s);
	bool given = take_node(s, &p);

	served_check_count(s, deps, sizeof(CUgraphNode), n_deps);
	bool good = served_is_good(s, s->driver->cuGraphAddHostNode != NULL);

	return end_node(
		good ? s->driver->cuGraphAddHostNode(ret, graph, deps, n_deps, given ? &p : NULL)
		     : s->refusal,
		&p);
}

CUresult serve_cuGraphHostNodeSetParams(struct served *s)
{
	struct CUDA_HOST_NODE_PARAMS p = {0};
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));
	bool given = take_node(s, &p);
	bool good = served_is_good(s, s->driver->cuGraphHostNodeSetParams != NULL);

	return end_node(
		good ? s->driver->cuGraphHostNodeSetParams(node, given ? &p : NULL) : s->refusal,
		&p);
}

CUresult serve_cuGraphExecHostNodeSetParams(struct served *s)
{
	struct CUDA_HOST_NODE_PARAMS p = {0};
	CUgraphExec exec = served_find(s, RBT_HANDLE_EXEC, served_get(s));
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));
	bool given = take_node(s, &p);
	bool good = served_is_good(s, s->driver->cuGraphExecHostNodeSetParams != NULL);

	return end_node(
		good ? s->driver->cuGraphExecHostNodeSetParams(exec, node, given ? &p : NULL)
		     : s->refusal,
		&p);
}

CUresult serve_cuGraphHostNodeGetParams(struct served *s)
{
	CUgraphNode node = served_find(s, RBT_HANDLE_NODE, served_get(s));
	struct CUDA_HOST_NODE_PARAMS p = {0}, *out = served_out(s, sizeof(*out), 1);

	if (!served_is_good(s, s->driver->cuGraphHostNodeGetParams != NULL)) {
		return s->refusal;
	}
	CUresult r = s->driver->cuGraphHostNodeGetParams(node, out != NULL ? &p : NULL);
	const struct record *record = p.userData;

	if (r == CUDA_SUCCESS && out != NULL && p.fn == on_function) {
		out->fn = (CUhostFn)(uintptr_t)record->function; /* the guest's, not ours */
		out->userData = (void *)(uintptr_t)record->user;
	}
	return r;
}
