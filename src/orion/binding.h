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
	/* Odd while slots are taken away. Whoever finds another value afterwards than before has
	 * found nothing. */
	_Atomic uint64_t version;
	size_t n;
};

int rbt_bindings_init(struct rbt_bindings *b);
void rbt_bindings_finish(struct rbt_bindings *b);

/* NULL for `shape` if it is a graph. NULL: not found; it may be there all the same while another
 * thread changes the map. */
struct rbt_kernel *rbt_bindings_find(
	const struct rbt_bindings *b, const void *handle, const struct rbt_shape *shape);

/* The three below need the lock. */

/* Adds what is not there yet. `owner` may be NULL: not known. If the map is full, functions are
 * taken away first: they can be bound again. Returns 0 or -ENOMEM. */
int rbt_bindings_add(struct rbt_bindings *b, enum rbt_binding_type type, void *handle,
	const struct rbt_shape *shape, void *owner, struct rbt_kernel *kernel);
/* Takes away the functions of this module or library, of all if `owner` is NULL; graphs stay. */
void rbt_bindings_forget(struct rbt_bindings *b, const void *owner);
void rbt_bindings_forget_graph(struct rbt_bindings *b, const void *exec);

#endif
