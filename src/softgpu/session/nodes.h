/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake device nodes: memfds, which programs get as the result of their open().
 *
 * Every open of /dev/nvidiactl is a memfd of its own, identified by its inode: copies of the fd act
 * as its owner wherever they travel, as with the real driver. A GPU's node is one memfd, of which
 * every open gets a new description, so that flock() on it works between programs.
 *
 * The kernel does not report when the last copy of an fd is closed. So each description carries an
 * open-file-description lock (not flock, which is left to the programs), which is set before it is
 * given out. The kernel drops it with the last copy, and nodes_sweep() checks whether it still
 * exists.
 */
#ifndef RBT_SOFTGPU_SESSION_NODES_H
#define RBT_SOFTGPU_SESSION_NODES_H

#include <stdint.h>

#include "softgpu/kfd/kfd.h"
#include "softgpu/rm/rm.h"

struct nodes;

/* NULL with errno. `rm` is borrowed and must outlive the nodes. Without has_nvidia there are no
 * nodes and no files of NVIDIA's driver. */
struct nodes *nodes_create(struct rbt_rm *rm, uint64_t server_id, bool has_nvidia);
void nodes_destroy(struct nodes *nodes);

/* Opens `path` for a process. Returns an fd for the process, or -errno. */
int nodes_open(struct nodes *nodes, const char *path, int pid, uint32_t uid);

/* The same for /dev/kfd of the model, which must outlive the nodes. */
int nodes_open_kfd(struct nodes *nodes, struct rbt_kfd *kfd, int pid);
/* The sum over its opens of what a process has written to a doorbell: it changes with each. */
uint64_t nodes_doorbell(const struct nodes *nodes, int pid, uint32_t gpu, uint32_t queue);
/* NULL unless the inode is that of an open /dev/kfd. */
struct rbt_kfd_open *nodes_find_kfd(struct nodes *nodes, uint64_t inode);

/* The open file behind an inode; any of them for a GPU's node. NULL: there is none. */
struct rbt_rm_open *nodes_find(struct nodes *nodes, uint64_t inode);

/* Closes files that no program holds any more. Returns how many are left. */
size_t nodes_sweep(struct nodes *nodes);

#endif
