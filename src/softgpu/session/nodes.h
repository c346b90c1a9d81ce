/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake device nodes: memfds, given to programs as the result of their open().
 *
 * Every open of /dev/nvidiactl is a memfd of its own, known by its inode: copies of the fd,
 * wherever they travel, act as its owner, as with the real driver. A GPU's node is one memfd that
 * every open opens anew, so that flock() on it works between programs.
 *
 * The kernel does not tell when the last copy of an fd goes. So each description carries an
 * open-file- description lock (not flock, which is the programs' own), set here before it is handed
 * out: the kernel drops it with the last copy, and nodes_sweep() asks whether it is still there.
 */
#ifndef RBT_SOFTGPU_SESSION_NODES_H
#define RBT_SOFTGPU_SESSION_NODES_H

#include <stdint.h>

#include "softgpu/kfd/kfd.h"
#include "softgpu/rm/rm.h"

struct nodes;

/* NULL with errno. `rm` is borrowed and must outlive the nodes. */
struct nodes *nodes_create(struct rbt_rm *rm, uint64_t server_id);
void nodes_destroy(struct nodes *nodes);

/* Opens `path` for a process. Returns an fd for it to have, or -errno. */
int nodes_open(struct nodes *nodes, const char *path, int pid, uint32_t uid);

/* The same for /dev/kfd of the model, which must outlive the nodes. */
int nodes_open_kfd(struct nodes *nodes, struct rbt_kfd *kfd, int pid);
/* The sum over its opens of what a process has written to a doorbell: it changes with each. */
uint64_t nodes_doorbell(const struct nodes *nodes, int pid, uint32_t gpu, uint32_t queue);
/* NULL unless the inode is that of an open /dev/kfd. */
struct rbt_kfd_open *nodes_find_kfd(struct nodes *nodes, uint64_t inode);

/* The open behind an inode; any of them for a GPU's node. NULL when there is none. */
struct rbt_rm_open *nodes_find(struct nodes *nodes, uint64_t inode);

/* Closes what no program holds any more. Returns how many opens are left. */
size_t nodes_sweep(struct nodes *nodes);

#endif
