/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What KFD tells without being opened: its GPUs, its processes and their queues. Every function
 * takes the tree's root (KFD_SYSFS_PATH but in tests), and reads by opening alone.
 */
#ifndef RBT_BACKEND_AMD_SYSFS_H
#define RBT_BACKEND_AMD_SYSFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/amd/kfd_abi.h"

#define RBT_AMD_MAX_GPUS 64

struct rbt_amd_gpu {
	uint32_t node;   /* in the topology */
	uint32_t gpu_id; /* KFD's name for it */
	uint32_t number; /* ours: that of its render node, counted from 0 */
	uint32_t gfx_target_version, simd_count, capability, cwsr_size;
	uint64_t memory_bytes; /* 0: unknown */
	char pci[16];          /* 0000:1d:00.0 */
	char name[64];
};

struct rbt_amd_topology {
	uint32_t n;
	struct rbt_amd_gpu gpus[RBT_AMD_MAX_GPUS];
};

/* 0, -ENODEV when there is no such tree, or -errno. */
int rbt_amd_topology_read(const char *root, struct rbt_amd_topology *ret);
/* NULL when there is none with this id. */
const struct rbt_amd_gpu *rbt_amd_topology_find(
	const struct rbt_amd_topology *topology, uint32_t gpu_id);

/* Takes a properties file apart: "name value" lines. What is not there stays as it is. Pure. */
void rbt_amd_parse_properties(const char *text, struct rbt_amd_gpu *gpu);

struct rbt_amd_queue {
	uint32_t id, gpu_id, size;
	uint32_t type;  /* COMPUTE also for AQL: sysfs does not tell them apart */
	uint64_t inode; /* of its directory: with the id, names it for good */
};

/* A process's queues, sorted by id; the caller frees the array. 0, -ENXIO when KFD does not know
 * the process, or -errno. */
int rbt_amd_queues_read(const char *root, pid_t pid, struct rbt_amd_queue **ret, size_t *ret_n);

/* For who looks often: the directory stays open, and queues that are known are not read again.
 * Zeroed at first. */
struct rbt_amd_follow {
	pid_t pid;
	DIR *dir;                    /* owned */
	struct rbt_amd_queue *known; /* owned: the last list, sorted by id */
	size_t n_known;
};
/* Brings f->known up to date. 0, or as above, and the list is what it was. */
int rbt_amd_follow(const char *root, pid_t pid, struct rbt_amd_follow *f);
void rbt_amd_follow_finish(struct rbt_amd_follow *f);

/* Whether KFD knows the process. */
bool rbt_amd_process_exists(const char *root, pid_t pid);

/* Calls fn for every process that KFD knows. Stops at a non-zero return and returns it; 0 when
 * through, -errno when the list cannot be read. */
int rbt_amd_each_process(const char *root, int (*fn)(pid_t pid, void *data), void *data);

/* Bytes of a GPU's memory that a process has. 0, -ENOENT, or -errno. */
int rbt_amd_vram_read(const char *root, pid_t pid, uint32_t gpu_id, uint64_t *ret);

#endif
