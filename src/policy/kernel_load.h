/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads an object into the kernel. libbpf does that, in a process of its own, because it crashes on
 * some damaged objects. The files of programs and maps come back over a socket.
 */
#ifndef RBT_POLICY_KERNEL_LOAD_H
#define RBT_POLICY_KERNEL_LOAD_H

#include "policy/object.h"

/* Files of the kernel, which belong to the caller; -1: none. */
struct rbt_kernel_files {
	int programs[RBT_N_HOOKS];
	int maps[RBT_OBJECT_MAX_MAPS];
};

/*
 * shared: for each map of the object, the file of a map to be used instead of a new one, or -1;
 * borrowed. On failure `why` has one line, and *ret_log what libbpf and the verifier said, or NULL.
 */
int rbt_kernel_load(const struct rbt_object *o, const int shared[RBT_OBJECT_MAX_MAPS],
	struct rbt_kernel_files *ret, struct rbt_why *why, char **ret_log);

/* Closes the files. */
void rbt_kernel_files_finish(struct rbt_kernel_files *files);

/*
 * For kernel_load.c. What the loading process sends: files with their numbers, pieces of the log,
 * and at last its result.
 */
enum rbt_load_kind { RBT_LOAD_PROGRAM, RBT_LOAD_MAP, RBT_LOAD_LOG, RBT_LOAD_DONE };
#define RBT_LOAD_TEXT 4096
struct rbt_load_message {
	uint32_t kind;
	uint32_t index; /* of a hook or map */
	int32_t error;  /* of RBT_LOAD_DONE */
	uint32_t size;  /* of the text */
	char text[RBT_LOAD_TEXT];
};

/* kernel_libbpf.c: the loading process. `files` has the maps to be shared, or -1. */
void rbt_libbpf_load(int sock, const struct rbt_object *o, const int files[RBT_OBJECT_MAX_MAPS]);

#endif
