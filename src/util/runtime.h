/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a user's daemon keeps its socket, lock and state file, and where our own binaries are.
 */
#ifndef RBT_UTIL_RUNTIME_H
#define RBT_UTIL_RUNTIME_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The runtime directory of `uid`: $RUBATO_RUNTIME_DIR (own uid only), /run/rubato for root,
 * $XDG_RUNTIME_DIR/rubato (own uid only), /run/user/UID/rubato, or /tmp/rubato-UID. 0 or -errno.
 */
int rbt_runtime_dir(uid_t uid, char *buf, size_t size);

/* As above, made if missing (mode 0700) and refused (-EPERM)
 * unless it is a directory of our own. */
int rbt_runtime_dir_create(char *buf, size_t size);

/* Path of another binary or library of ours: beside the running
 * executable, else where it is installed. */
int rbt_sibling_path(const char *name, const char *installed_dir, char *buf, size_t size);

#endif
