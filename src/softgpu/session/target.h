/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that waits for the supervisor: its memory, its paths, its fds. All is read while the
 * program stands in a system call; the caller checks afterwards that it still does.
 */
#ifndef RBT_SOFTGPU_SESSION_TARGET_H
#define RBT_SOFTGPU_SESSION_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/serve/link.h"

/* Before all else: which memfds are fake nodes. */
void target_init(uint64_t server_id);

/* 0 or -EFAULT: all or nothing. */
int target_read(int tid, uint64_t addr, void *buf, size_t size);
int target_write(int tid, uint64_t addr, const void *buf, size_t size);

/* A NUL-terminated string shorter than LINK_MAX_PATH. 0 or -errno. */
int target_read_path(int tid, uint64_t addr, char path[LINK_MAX_PATH]);

/* Makes a path absolute (against dirfd or the working directory) and takes ".", ".." and "//" out
 * of it. */
int target_resolve(int tid, int dirfd, char path[LINK_MAX_PATH]);

/*
 * When `path` is that of a fd in /proc and the fd is a fake node: the node's path in ret. `self` in
 * the path means tid. False otherwise, and when tid's user may not look there.
 */
bool target_link(int tid, const char *path, char ret[LINK_MAX_PATH]);

/* When tid's fd is a fake node: its inode. */
bool target_node(int tid, int fd, uint64_t *ret_inode);

/* Whether an absolute path is one that the fake driver answers for. */
bool target_is_ours(const char *path);

#endif
