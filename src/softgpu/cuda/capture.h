/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SOFTGPU_CUDA_CAPTURE_H
#define RBT_SOFTGPU_CUDA_CAPTURE_H

#include "softgpu/cuda/graph.h"

/* A stream's part in a capture. */
struct front_capture {
	LIST_ENTRY(front_capture) next;
	struct front_capture_group *group;
	struct front_stream *stream;
	struct front_node **tail; /* what its next node comes after; room for one more */
	size_t n_tail;
	struct CUgraphEdgeData *edges; /* what a query returned last; zeros */
};

struct front_capture_group {
	LIST_ENTRY(front_capture_group) next;
	uint64_t id;
	int mode, thread;
	bool invalid, owns_graph;
	struct front_graph *graph;
	struct front_stream *origin;
	LIST_HEAD(, front_capture) streams;
};

/* Captures into the program's graph, or into a new one (NULL). */
CUresult front_capture_begin(struct front_stream *s, struct front_graph *graph,
	struct front_node *const *deps, size_t n_deps, int mode);
CUresult front_capture_end(struct front_stream *s, struct front_graph **ret);

#endif
