/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads an object into the kernel. libbpf does that, in a process of its own, because it crashes on
 * some damaged objects. The files of programs and maps come back over a socket.
 */
#ifndef RBT_POLICY_KERNEL_LOAD_H
#define RBT_POLICY_KERNEL_LOAD_H

#include "policy/loader.h"

/*
 * Starts to load. shared: for each map of the object, the file of a map to be used instead of a new
 * one, or -1; borrowed until this returns. is_tried: the process first loads the object with maps
 * of its own, and runs every hook once (trial.h). 0 or -errno and `why`.
 */
int rbt_kernel_load_start(struct rbt_loader *l, const struct rbt_object *o,
	const int shared[RBT_OBJECT_MAX_MAPS], bool is_tried, struct rbt_why *why);
/* After a step or a wait that returned r. On success, *ret has the files. Otherwise returns -errno;
 * the loader has the log. */
int rbt_kernel_load_end(struct rbt_loader *l, const struct rbt_object *o, int r,
	struct rbt_kernel_files *ret, struct rbt_why *why);

/* kernel_libbpf.c: the loading process. `files` has the maps to be shared, or -1. */
void rbt_libbpf_load(
	int sock, const struct rbt_object *o, const int files[RBT_OBJECT_MAX_MAPS], bool is_tried);

#endif
