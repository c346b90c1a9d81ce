/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of stream capture. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/cuda/capture.h"

static CUresult enter_capturable(CUstream handle, int mode, struct front_stream **ret)
{
	CUresult r = front_enter_stream(handle, ret);

	if (r == CUDA_SUCCESS &&
		(mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && (*ret)->is_legacy) {
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return r;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
	struct front_stream *s;
	CUresult r = enter_capturable(handle, mode, &s);

	return r != CUDA_SUCCESS ? r : front_capture_begin(s, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream handle)
{
	return cuStreamBeginCapture_v2(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n_deps, int mode)
{
	struct front_stream *s;
	CUresult r = enter_capturable(handle, mode, &s);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	if (!front_is(graph, FRONT_GRAPH) || (n_deps > 0 && deps == NULL)) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < n_deps; i++) {
		if (!front_is(deps[i], FRONT_NODE) || deps[i]->graph != graph) {
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return front_capture_begin(s, graph, deps, n_deps, mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *ret_graph)
{
	struct front_stream *s;
	struct front_graph *graph;
	CUresult r = front_enter_stream(handle, &s);

	/* The state comes first: without a capture, any call is refused for that. */
	if (r == CUDA_SUCCESS && ret_graph == NULL) {
		r = atomic_load(&s->capture) == NULL ? CUDA_ERROR_ILLEGAL_STATE
						     : CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	r = front_capture_end(s, &graph);
	/* NULL if the capture failed, as documented. */
	*ret_graph = graph;
	return r;
}

static int status_of(const struct front_capture *c)
{
	if (c == NULL) {
		return CU_STREAM_CAPTURE_STATUS_NONE;
	}
	return c->group->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

struct info {
	int status;
	unsigned long long id;
	struct front_graph *graph;
	const CUgraphNode *deps;
	const struct CUgraphEdgeData *edges;
	size_t n_deps;
};

/* The edges of the next node: one per dependency, and all of them plain. Under front.lock. */
static CUresult read_edges(struct front_capture *c, struct info *ret)
{
	free(c->edges);
	c->edges = calloc(c->n_tail + 1, sizeof(*c->edges));
	ret->edges = c->edges;
	return c->edges == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult read_info(CUstream handle, bool with_edges, struct info *ret)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&front.lock);
	struct front_capture *c = atomic_load(&s->capture);

	*ret = (struct info){.status = status_of(c)};
	if (c != NULL) {
		ret->id = c->group->id;
		ret->graph = c->group->graph;
		ret->deps = c->tail;
		ret->n_deps = c->n_tail;
		r = with_edges ? read_edges(c, ret) : CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&front.lock);
	return r;
}

CUresult cuStreamIsCapturing(CUstream handle, int *ret_status)
{
	struct info info;
	CUresult r = read_info(handle, false, &info);

	if (r == CUDA_SUCCESS && ret_status == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS) {
		*ret_status = info.status;
	}
	return r;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int *ret_status, unsigned long long *ret_id,
	CUgraph *ret_graph, const CUgraphNode **ret_deps, const struct CUgraphEdgeData **ret_edges,
	size_t *ret_n_deps)
{
	struct info info;
	CUresult r = read_info(handle, ret_edges != NULL, &info);

	if (r == CUDA_SUCCESS && ret_status == NULL) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	*ret_status = info.status;
	if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		return CUDA_SUCCESS;
	}
	if (ret_id != NULL) {
		*ret_id = info.id;
	}
	if (ret_graph != NULL) {
		*ret_graph = info.graph;
	}
	if (ret_deps != NULL) {
		*ret_deps = info.deps;
	}
	if (ret_edges != NULL) {
		*ret_edges = info.edges;
	}
	if (ret_n_deps != NULL) {
		*ret_n_deps = info.n_deps;
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int *ret_status, unsigned long long *ret_id,
	CUgraph *ret_graph, const CUgraphNode **ret_deps, size_t *ret_n_deps)
{
	return cuStreamGetCaptureInfo_v3(
		handle, ret_status, ret_id, ret_graph, ret_deps, NULL, ret_n_deps);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, int *ret_status, unsigned long long *ret_id)
{
	return cuStreamGetCaptureInfo_v2(handle, ret_status, ret_id, NULL, NULL, NULL);
}

/* Under front.lock. flags: 0 adds to the dependencies of the next node, 1 replaces them. */
static CUresult update(
	struct front_capture *c, const CUgraphNode *deps, size_t n_deps, unsigned flags)
{
	size_t keep = flags == 0 ? c->n_tail : 0;
	struct front_node **tail = calloc(keep + n_deps + 1, sizeof(struct front_node *));

	if (tail == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(tail, c->tail, keep * sizeof(struct front_node *));
	for (size_t i = 0; i < n_deps; i++) {
		if (!front_is(deps[i], FRONT_NODE) || deps[i]->graph != c->group->graph) {
			free(tail);
			return CUDA_ERROR_INVALID_VALUE;
		}
		tail[keep + i] = deps[i];
	}
	free(c->tail);
	c->tail = tail;
	c->n_tail = keep + n_deps;
	return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(
	CUstream handle, CUgraphNode *deps, size_t n_deps, unsigned flags)
{
	struct front_stream *s;
	CUresult r = front_enter_stream(handle, &s);

	if (r == CUDA_SUCCESS && (flags > 1 || (n_deps > 0 && deps == NULL))) {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	pthread_mutex_lock(&front.lock);
	struct front_capture *c = atomic_load(&s->capture);

	r = c == NULL ? CUDA_ERROR_ILLEGAL_STATE : update(c, deps, n_deps, flags);
	pthread_mutex_unlock(&front.lock);
	return r;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *deps,
	const struct CUgraphEdgeData *edges, size_t n_deps, unsigned flags)
{
	return cuStreamUpdateCaptureDependencies(handle, deps, n_deps, flags);
}
