/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that waits for the supervisor: its memory, its paths, its fds. All is read while the
 * program is in a system call; the caller checks afterwards that it still is.
 */
#ifndef RBT_SOFTGPU_SESSION_TARGET_H
#define RBT_SOFTGPU_SESSION_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/serve/link.h"

/* To be called first: sets which memfds are fake nodes. */
void target_init(uint64_t server_id);

/* 0 or -EFAULT: all bytes or none. */
int target_read(int tid, uint64_t addr, void *buf, size_t size);
int target_write(int tid, uint64_t addr, const void *buf, size_t size);

/* A NUL-terminated string shorter than LINK_MAX_PATH. 0 or -errno. */
int target_read_path(int tid, uint64_t addr, char path[LINK_MAX_PATH]);

/* Makes a path absolute (against dirfd or the working directory) and removes ".", ".." and "//". */
int target_resolve(int tid, int dirfd, char path[LINK_MAX_PATH]);

/*
 * If `path` is that of a fd in /proc and the fd is a fake node: the node's path in ret. `self` in
 * the path means tid. False otherwise, and if tid's user may not access it.
 */
bool target_link(int tid, const char *path, char ret[LINK_MAX_PATH]);

/* If tid's fd is a fake node: its inode. */
bool target_node(int tid, int fd, uint64_t *ret_inode);

/* Whether the fake driver answers for an absolute path. */
bool target_is_ours(const char *path);

#endif
