/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's current streams.
 *
 * PyTorch's allocator gives memory that one thread has freed to another thread at once if both use
 * the same stream, because work in one stream is in order. If two clients used PyTorch's default
 * stream, their memory would be the same, but not their order: on an H200, a training step read
 * what a request had written. So a client's thread that uses PyTorch's default stream gets the
 * stream in place of its default stream as its current stream in PyTorch, too. PyTorch then keeps
 * the clients' memory apart, and its backward passes stay in the client's stream.
 */
#ifndef RBT_ORION_TORCH_H
#define RBT_ORION_TORCH_H

#include <stdbool.h>

#include "cuda/abi.h"

/*
 * The calling thread makes a call on the default stream, which `stream` has taken the place of.
 * Returns whether `stream` has become the thread's current stream in PyTorch. The thread may then
 * already have memory that another client has just freed, so `stream` must be put behind all
 * clients' work.
 */
bool orion_torch_adopt(CUstream stream);

/* The calling thread gets another client, or none: it goes back to PyTorch's default stream. */
void orion_torch_leave(void);

#endif
