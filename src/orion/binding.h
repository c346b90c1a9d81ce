/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from what is launched (a handle and a shape) to its kernel. Any thread may look up at any
 * time without a lock; threads that change the map hold a lock of the caller's.
 */
#ifndef RBT_ORION_BINDING_H
#define RBT_ORION_BINDING_H

#include <stdatomic.h>

#include "orion/profile.h"

#define RBT_BINDINGS_MAX 65536u

struct rbt_kernel;

enum rbt_binding_type {
	RBT_BINDING_FUNCTION, /* CUfunction; the owner is its module */
	RBT_BINDING_KERNEL,   /* CUkernel; the owner is its library */
	RBT_BINDING_GRAPH,    /* CUgraphExec; no owner */
};

struct rbt_bindings {
	_Atomic(struct slots *) slots;
	/* Odd while bindings are removed. A look-up is valid only if the version was even and did
	 * not change. */
	_Atomic uint64_t version;
	size_t n;
};

int rbt_bindings_init(struct rbt_bindings *b);
void rbt_bindings_finish(struct rbt_bindings *b);

/* `shape` is NULL for a graph. Returns NULL if there is no such binding, and sometimes also while
 * another thread removes bindings; with the lock held, the answer is exact. */
struct rbt_kernel *rbt_bindings_find(
	const struct rbt_bindings *b, const void *handle, const struct rbt_shape *shape);

/* The caller of the following three functions holds the lock. */

/* Adds a binding that does not exist yet. `owner` is NULL if it is unknown. If the map is full, the
 * bindings of all functions are removed first. Returns 0 or -ENOMEM. */
int rbt_bindings_add(struct rbt_bindings *b, enum rbt_binding_type type, void *handle,
	const struct rbt_shape *shape, void *owner, struct rbt_kernel *kernel);
/* Removes the functions of this module or library, or all functions (NULL). Graphs stay. */
void rbt_bindings_forget(struct rbt_bindings *b, const void *owner);
void rbt_bindings_forget_graph(struct rbt_bindings *b, const void *exec);

#endif
