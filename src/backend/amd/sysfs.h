/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KFD's facts that need no open /dev/kfd: its GPUs, its processes and their queues. Every function
 * takes the tree's root (KFD_SYSFS_PATH, except in tests), and only opens and reads files.
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
	uint32_t number; /* our number: that of its render node, counted from 0 */
	uint32_t gfx_target_version, simd_count, capability, cwsr_size;
	uint64_t memory_bytes; /* 0: unknown */
	uint64_t unique_id;    /* 0: it has none */
	char pci[16];          /* 0000:1d:00.0 */
	char name[64];
};

struct rbt_amd_topology {
	uint32_t n;
	struct rbt_amd_gpu gpus[RBT_AMD_MAX_GPUS];
};

/* 0, -ENODEV if there is no such tree, or -errno. */
int rbt_amd_topology_read(const char *root, struct rbt_amd_topology *ret);
/* NULL if there is none with this id. */
const struct rbt_amd_gpu *rbt_amd_topology_find(
	const struct rbt_amd_topology *topology, uint32_t gpu_id);

/* Parses a properties file: "name value" lines. Missing values stay unchanged. Pure. */
void rbt_amd_parse_properties(const char *text, struct rbt_amd_gpu *gpu);

struct rbt_amd_queue {
	uint32_t id, gpu_id, size;
	uint32_t type;  /* COMPUTE also for AQL: sysfs does not tell them apart */
	uint64_t inode; /* of its directory: with the id, it identifies the queue for good */
};

/* A process's queues, sorted by id; the caller frees the array. 0, -ENXIO if KFD does not know the
 * process, or -errno. */
int rbt_amd_queues_read(const char *root, pid_t pid, struct rbt_amd_queue **ret, size_t *ret_n);

/* For repeated reads: the directory stays open, and known queues are not read again. Zeroed at
 * first. */
struct rbt_amd_follow {
	pid_t pid;
	DIR *dir;                    /* owned */
	struct rbt_amd_queue *known; /* owned: the last list, sorted by id */
	size_t n_known;
};
/* Updates f->known. 0, or as above with the list unchanged. */
int rbt_amd_follow(const char *root, pid_t pid, struct rbt_amd_follow *f);
void rbt_amd_follow_finish(struct rbt_amd_follow *f);

/* Whether KFD knows the process. */
bool rbt_amd_process_exists(const char *root, pid_t pid);

/* Calls fn for every process that KFD knows. Stops at a non-zero return value and returns it; 0 at
 * the end, -errno if the list cannot be read. */
int rbt_amd_each_process(const char *root, int (*fn)(pid_t pid, void *data), void *data);

/* Bytes of a GPU's memory that a process has. 0, -ENOENT, or -errno. */
int rbt_amd_vram_read(const char *root, pid_t pid, uint32_t gpu_id, uint64_t *ret);

#endif
