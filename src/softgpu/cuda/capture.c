/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: the work of streams becomes nodes of a graph. A capture begins at one stream;
 * others join by waiting for an event that was recorded in it, and must be joined again in the same
 * way before it ends. All under front.lock, except for the check whether a stream captures at all.
 */
#include "softgpu/cuda/capture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static LIST_HEAD(, front_capture_group) groups = LIST_HEAD_INITIALIZER(groups);
static _Atomic int n_groups;
static uint64_t last_id;
static __thread int thread_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL */

static struct front_capture_group *find_group(uint64_t id)
{
	struct front_capture_group *g;

	LIST_FOREACH (g, &groups, next) {
		if (g->id == id) {
			return g;
		}
	}
	return NULL;
}

/* The stream joins the capture, after these nodes. */
static CUresult join(struct front_stream *s, struct front_capture_group *g,
	struct front_node *const *nodes, size_t n)
{
	struct front_capture *c = calloc(1, sizeof(*c));
	struct front_node **tail = calloc(n + 1, sizeof(struct front_node *));

	if (c == NULL || tail == NULL) {
		free(c);
		free(tail);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (n > 0) {
		memcpy(tail, nodes, n * sizeof(struct front_node *));
	}
	*c = (struct front_capture){.group = g, .stream = s, .tail = tail, .n_tail = n};
	LIST_INSERT_HEAD(&g->streams, c, next);
	atomic_store(&s->capture, c);
	return CUDA_SUCCESS;
}

static void leave(struct front_capture *c)
{
	atomic_store(&c->stream->capture, NULL);
	LIST_REMOVE(c, next);
	free(c->tail);
	free(c->edges);
	free(c);
}

static void end_group(struct front_capture_group *g)
{
	struct front_capture *c = LIST_FIRST(&g->streams);

	while (c != NULL) {
		struct front_capture *next = LIST_NEXT(c, next);

		leave(c);
		c = next;
	}
	LIST_REMOVE(g, next);
	atomic_fetch_sub(&n_groups, 1);
	if (g->owns_graph) {
		front_graph_destroy(g->graph);
	}
	free(g);
}

CUresult front_capture_begin(struct front_stream *s, struct front_graph *graph,
	struct front_node *const *deps, size_t n_deps, int mode)
{
	struct front_capture_group *g = calloc(1, sizeof(*g));
	CUresult r = CUDA_SUCCESS;

	if (g == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	LIST_INIT(&g->streams);
	g->mode = mode;
	g->origin = s;
	g->thread = gettid();
	g->owns_graph = graph == NULL;
	g->graph = graph != NULL ? graph : front_graph_create();
	pthread_mutex_lock(&front.lock);
	if (g->graph == NULL) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else if (atomic_load(&s->capture) != NULL) {
		r = CUDA_ERROR_ILLEGAL_STATE;
	} else {
		r = join(s, g, deps, n_deps);
	}
	if (r == CUDA_SUCCESS) {
		g->id = ++last_id;
		LIST_INSERT_HEAD(&groups, g, next);
		atomic_fetch_add(&n_groups, 1);
	}
	pthread_mutex_unlock(&front.lock);
	if (r != CUDA_SUCCESS) {
		if (graph == NULL) {
			front_graph_destroy(g->graph);
		}
		free(g);
	}
	return r;
}

static void mark_before(struct front_node *node, bool *seen, struct front_node **stack)
{
	size_t n = 0;

	if (!seen[node->index]) {
		seen[node->index] = true;
		stack[n++] = node;
	}
	while (n > 0) {
		node = stack[--n];
		for (size_t i = 0; i < node->n_deps; i++) {
			if (!seen[node->deps[i]->index]) {
				seen[node->deps[i]->index] = true;
				stack[n++] = node->deps[i];
			}
		}
	}
}

/* Every stream that joined must come before the origin's current place. */
static CUresult check_joined(struct front_capture_group *g, const struct front_capture *origin)
{
	bool *seen = calloc(g->graph->n + 1, sizeof(bool));
	struct front_node **stack = calloc(g->graph->n + 1, sizeof(struct front_node *));
	struct front_capture *c;
	CUresult r = seen == NULL || stack == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;

	for (size_t i = 0; i < origin->n_tail && r == CUDA_SUCCESS; i++) {
		mark_before(origin->tail[i], seen, stack);
	}
	LIST_FOREACH (c, &g->streams, next) {
		for (size_t i = 0; i < c->n_tail && r == CUDA_SUCCESS; i++) {
			if (!seen[c->tail[i]->index]) {
				r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
			}
		}
	}
	free(seen);
	free(stack);
	return r;
}

CUresult front_capture_end(struct front_stream *s, struct front_graph **ret)
{
	pthread_mutex_lock(&front.lock);
	struct front_capture *c = atomic_load(&s->capture);
	struct front_capture_group *g = c == NULL ? NULL : c->group;
	CUresult r = CUDA_SUCCESS;

	*ret = NULL;
	if (g == NULL) {
		r = CUDA_ERROR_ILLEGAL_STATE;
	} else if (g->origin != s) {
		r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
		g->invalid = true;
		g = NULL; /* only the origin ends it */
	} else if (g->mode != CU_STREAM_CAPTURE_MODE_RELAXED && g->thread != gettid()) {
		r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
		g = NULL;
	} else if (g->invalid) {
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		r = check_joined(g, c);
	}
	if (r == CUDA_SUCCESS) {
		*ret = g->graph;
		g->owns_graph = false;
	}
	if (g != NULL) {
		end_group(g);
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

void front_capture_drop(struct front_stream *s)
{
	pthread_mutex_lock(&front.lock);
	struct front_capture *c = atomic_load(&s->capture);

	if (c != NULL && c->group->origin == s) {
		end_group(c->group);
	} else if (c != NULL) {
		c->group->invalid = true;
		leave(c);
	}
	pthread_mutex_unlock(&front.lock);
}

/* An event's place in a capture is added to the stream's own. */
static CUresult merge(struct front_capture *c, const struct front_event *event)
{
	size_t n = c->n_tail + event->n_nodes;
	struct front_node **tail = realloc(c->tail, (n + 1) * sizeof(struct front_node *));

	if (tail == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->tail = tail;
	for (size_t i = 0; i < event->n_nodes; i++) {
		size_t j = 0;

		while (j < c->n_tail && c->tail[j] != event->nodes[i]) {
			j++;
		}
		if (j == c->n_tail) {
			c->tail[c->n_tail++] = event->nodes[i];
		}
	}
	return CUDA_SUCCESS;
}

static CUresult wait_in_capture(struct front_capture *c, const struct front_event *event)
{
	if (event->capture_id == c->group->id) {
		return merge(c, event);
	}
	c->group->invalid = true;
	if (event->capture_id == 0) {
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION; /* of work outside */
	}
	struct front_capture_group *other = find_group(event->capture_id);

	if (other == NULL) {
		return CUDA_ERROR_CAPTURED_EVENT; /* of a capture that is over */
	}
	other->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

static CUresult record_in_capture(const struct front_capture *c, struct front_event *event)
{
	struct front_node **nodes = calloc(c->n_tail + 1, sizeof(struct front_node *));

	if (nodes == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(nodes, c->tail, c->n_tail * sizeof(struct front_node *));
	free(event->nodes);
	event->nodes = nodes;
	event->n_nodes = c->n_tail;
	event->capture_id = c->group->id;
	return CUDA_SUCCESS;
}

static CUresult add_node(struct front_capture *c, const struct front_op *op)
{
	struct front_node *node;
	CUresult r = front_node_add(c->group->graph, op, c->stream->ctx, c->tail, c->n_tail, &node);

	if (r == CUDA_SUCCESS) {
		/* The array has room for one more than it had nodes. */
		c->tail[0] = node;
		c->n_tail = 1;
	}
	return r;
}

/* The legacy stream would wait for a stream that captures, which a capture cannot represent. */
static CUresult check_implicit(const struct front_stream *s)
{
	struct front_capture_group *g;
	struct front_capture *c;
	CUresult r = CUDA_SUCCESS;

	LIST_FOREACH (g, &groups, next) {
		LIST_FOREACH (c, &g->streams, next) {
			if (c->stream->ctx == s->ctx &&
				(c->stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
				g->invalid = true;
				r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
			}
		}
	}
	return r;
}

static CUresult capture_op(struct front_capture *c, const struct front_op *op)
{
	if (c->group->invalid) {
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	switch (op->kind) {
	case FRONT_OP_RECORD:
		return record_in_capture(c, op->event);
	case FRONT_OP_WAIT:
		return wait_in_capture(c, op->event);
	default:
		return add_node(c, op);
	}
}

CUresult front_capture_op(struct front_stream *s, const struct front_op *op, bool *ret_captured)
{
	struct front_capture_group *g;
	CUresult r = CUDA_SUCCESS;

	if (atomic_load_explicit(&n_groups, memory_order_relaxed) == 0 &&
		(op->kind != FRONT_OP_WAIT || op->event->capture_id == 0)) {
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&front.lock);
	struct front_capture *c = atomic_load(&s->capture);

	if (c != NULL) {
		r = capture_op(c, op);
		*ret_captured = true;
	} else if (op->kind == FRONT_OP_WAIT && op->event->capture_id != 0) {
		g = find_group(op->event->capture_id);
		r = g == NULL ? CUDA_ERROR_CAPTURED_EVENT
			      : join(s, g, op->event->nodes, op->event->n_nodes);
		*ret_captured = true;
	} else if (s->is_legacy) {
		r = check_implicit(s);
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

CUresult front_capture_refuse(struct front_stream *s)
{
	CUresult r = CUDA_SUCCESS;

	if (atomic_load_explicit(&n_groups, memory_order_relaxed) == 0) {
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&front.lock);
	struct front_capture *c = atomic_load(&s->capture);

	if (c != NULL) {
		c->group->invalid = true;
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (s->is_legacy) {
		r = check_implicit(s);
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

CUresult front_capture_refuse_thread(void)
{
	struct front_capture_group *g;
	CUresult r = CUDA_SUCCESS;

	if (atomic_load_explicit(&n_groups, memory_order_relaxed) == 0 ||
		thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&front.lock);
	LIST_FOREACH (g, &groups, next) {
		bool ours = g->thread == gettid() && g->mode != CU_STREAM_CAPTURE_MODE_RELAXED;

		if (ours || (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
				    g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
			g->invalid = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

/* The query invalidates the capture, in any mode. An event of a capture that is over is refused,
 * too. */
CUresult front_capture_refuse_event(const struct front_event *event)
{
	if (event->capture_id == 0) {
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&front.lock);
	struct front_capture_group *g = find_group(event->capture_id);

	if (g != NULL) {
		g->invalid = true;
	}
	pthread_mutex_unlock(&front.lock);
	return CUDA_ERROR_CAPTURED_EVENT;
}

/* NVIDIA's driver does not check the number, and neither does this one. */
CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	CUresult r = front_check_init();

	if (r == CUDA_SUCCESS && mode == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		int before = thread_mode;

		thread_mode = *mode;
		*mode = before;
	}
	return r;
}
