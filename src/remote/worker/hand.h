/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers that are written by hand share. */
#ifndef RBT_REMOTE_WORKER_HAND_H
#define RBT_REMOTE_WORKER_HAND_H

#include "remote/worker/served.h"

#define HAND_MAX_PARAMS 1024

/* A kernel's parameters in one buffer, as `extra` of a launch. It points into itself. */
struct hand_params {
	void *buffer; /* NULL: the guest passes none */
	size_t size;
	void *extra[5];
};
void hand_params(struct served *s, struct hand_params *p);

/* Whether the host memory of a copy is as large as the copy needs: in the call (from_size) or
 * answer (to_size), or, if these are 0, shared. */
bool hand_copy_is_good(
	struct served *s, const struct CUDA_MEMCPY3D *p, size_t from_size, size_t to_size);

/* The call RBT_WIRE_CALLBACK: waits until a function of the guest is due. */
CUresult hand_callback(struct served *s);

#endif
