/* SPDX-License-Identifier: Apache-2.0 */
/* Another process's memory, in the order in which RM handles are likely to be found there. */
#ifndef RBT_BACKEND_NVIDIA_MEMORY_H
#define RBT_BACKEND_NVIDIA_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "backend/nvidia/scan.h"

enum rbt_nv_place {
	RBT_NV_PLACE_LIBCUDA, /* its data, and the region right behind it */
	RBT_NV_PLACE_PROGRAM, /* the executable's data, likewise */
	RBT_NV_PLACE_HEAP,
	RBT_NV_PLACE_OTHER, /* other anonymous memory: thread heaps, and tensors of any size */
};

struct rbt_nv_region {
	uint64_t start, end;
	enum rbt_nv_place place;
};

struct rbt_nv_memory {
	pid_t pid;
	size_t n_regions, at;          /* `at`: the first region that is not read completely */
	struct rbt_nv_region *regions; /* owned; by place, then from small to large */
	uint32_t *buf;                 /* owned */
};

/*
 * Parses the writable private regions in the text of a maps file; `exe` is the path of the
 * executable. A region of a file is used only if the text of a mountinfo file (NULL: none) shows
 * that reading it does not depend on another process: a file system in user space may make its
 * readers wait for ever, and unkillable. 0 or -ENOMEM; malformed lines are left out. The caller
 * frees *ret.
 */
int rbt_nv_regions_parse(
	FILE *maps, FILE *mounts, const char *exe, struct rbt_nv_region **ret, size_t *ret_n);

/* 0 or -errno; -ESRCH: the process is gone. */
int rbt_nv_memory_init(struct rbt_nv_memory *mem, pid_t pid);
void rbt_nv_memory_finish(struct rbt_nv_memory *mem);

/*
 * Feeds the scan from where the last call stopped, through regions up to `last` place, at most
 * max_bytes, and until this thread has used until_cpu_ns of processor time. Returns 0 (also if a
 * limit stopped it) or -errno: -ESRCH, -EPERM.
 */
int rbt_nv_memory_scan(struct rbt_nv_memory *mem, enum rbt_nv_place last, uint64_t max_bytes,
	uint64_t until_cpu_ns, struct rbt_nv_scan *scan);

#endif
