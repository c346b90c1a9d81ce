/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a daemon's socket, lock and state file, and the paths of our own binaries. */
#ifndef RBT_UTIL_RUNTIME_H
#define RBT_UTIL_RUNTIME_H

#include <stddef.h>
#include <sys/types.h>

/* Stands for the system daemon wherever a daemon is named by its user. */
#define RBT_UID_SYSTEM ((uid_t)-1)

/*
 * The runtime directory of `uid`: $RUBATO_RUNTIME_DIR (own uid only), /run/rubato-root for root,
 * $XDG_RUNTIME_DIR/rubato (own uid only, and if $XDG_RUNTIME_DIR exists), /run/user/UID/rubato, or
 * /tmp/rubato-UID. 0 or -errno.
 *
 * For RBT_UID_SYSTEM: $RUBATO_SYSTEM_DIR, or /run/rubato. -ENOENT if that variable is not a path,
 * or if only $RUBATO_RUNTIME_DIR is set: then there is no system daemon for us.
 */
int rbt_runtime_dir(uid_t uid, char *buf, size_t size);

/* The same, created if missing (mode 0700); -EPERM unless it is a directory of our own. */
int rbt_runtime_dir_create(char *buf, size_t size);
/* The same for the system daemon: mode 0755, because every user may connect. */
int rbt_system_dir_create(char *buf, size_t size);

/* The path of another binary or library of ours: beside the running executable, else in
 * installed_dir. */
int rbt_sibling_path(const char *name, const char *installed_dir, char *buf, size_t size);

#endif
