/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a daemon keeps its socket, lock and state file, and where our own binaries are.
 */
#ifndef RBT_UTIL_RUNTIME_H
#define RBT_UTIL_RUNTIME_H

#include <stddef.h>
#include <sys/types.h>

/* Stands for the daemon of the whole machine wherever a daemon is named by its user. */
#define RBT_UID_SYSTEM ((uid_t)-1)

/*
 * The runtime directory of `uid`: $RUBATO_RUNTIME_DIR (own uid only), /run/rubato-root for root,
 * $XDG_RUNTIME_DIR/rubato (own uid only), /run/user/UID/rubato, or /tmp/rubato-UID. 0 or -errno.
 *
 * Of RBT_UID_SYSTEM: $RUBATO_SYSTEM_DIR, or /run/rubato. -ENOENT where that variable is no path,
 * and where $RUBATO_RUNTIME_DIR alone is set: then there is no such daemon for us.
 */
int rbt_runtime_dir(uid_t uid, char *buf, size_t size);

/* As above, made if missing (mode 0700) and refused (-EPERM)
 * unless it is a directory of our own. */
int rbt_runtime_dir_create(char *buf, size_t size);
/* The same for the machine's daemon: mode 0755, for everybody may ask it. */
int rbt_system_dir_create(char *buf, size_t size);

/* Path of another binary or library of ours: beside the running
 * executable, else where it is installed. */
int rbt_sibling_path(const char *name, const char *installed_dir, char *buf, size_t size);

#endif
