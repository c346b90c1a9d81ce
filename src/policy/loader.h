/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of its own that loads or tries an object, because libbpf crashes on some damaged
 * objects and hooks may be slow. It sends files with their numbers, pieces of its log, and at last
 * its result. The sender may have been damaged by the object, so nothing that it sends is trusted.
 */
#ifndef RBT_POLICY_LOADER_H
#define RBT_POLICY_LOADER_H

#include <sys/types.h>

#include "policy/object.h"

/* Files of the kernel, which belong to the holder of this struct; -1: none. */
struct rbt_kernel_files {
	int programs[RBT_N_HOOKS];
	int maps[RBT_OBJECT_MAX_MAPS];
};

void rbt_kernel_files_init(struct rbt_kernel_files *files);
/* Closes the files. */
void rbt_kernel_files_finish(struct rbt_kernel_files *files);

/* The process, and what has come from it. */
struct rbt_loader {
	pid_t pid;
	int sock; /* readable when there is something to take */
	uint64_t until_ns;
	struct rbt_kernel_files files;
	char *log;
	size_t log_size;
	bool is_done;
	int error;
};

/* Starts the process, which calls fn (util/aside.h). 0 or -errno and `why`. */
int rbt_loader_start(struct rbt_loader *l, void (*fn)(int sock, void *data), void *data, int *keep,
	size_t n_keep, uint64_t timeout_ns, struct rbt_why *why);
/*
 * Takes what has come, without waiting. -EAGAIN: the process is still at work. Otherwise its
 * result: 0, or -errno with `why`. A process that crashed, or took too long, is an -EINVAL.
 */
int rbt_loader_step(struct rbt_loader *l, struct rbt_why *why);
/* The same, and waits for the end. */
int rbt_loader_wait(struct rbt_loader *l, struct rbt_why *why);
/* Ends the process; closes and frees what has come and was not taken out. Returns 0, or the pid of
 * a process that hangs in the kernel and must still be reaped. */
pid_t rbt_loader_finish(struct rbt_loader *l);

/* For the process. */
enum rbt_load_kind { RBT_LOAD_PROGRAM, RBT_LOAD_MAP, RBT_LOAD_LOG, RBT_LOAD_DONE };
#define RBT_LOAD_TEXT 4096
/* Sends a message; `index` is of a hook or map, and `error` of RBT_LOAD_DONE. At most RBT_LOAD_TEXT
 * bytes. */
void rbt_loader_send(int sock, enum rbt_load_kind kind, uint32_t index, int error, const char *text,
	size_t size, int fd);

#endif
