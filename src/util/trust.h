/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to trust the process that listens on a socket: programs send it their device files, and
 * tools send it orders. Also built into the preloaded library: see shim/sys.h about system calls.
 */
#ifndef RBT_UTIL_TRUST_H
#define RBT_UTIL_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * `uid` is the peer by SO_PEERCRED; `own` is the user that is trusted besides root. Inside a user
 * namespace root cannot be recognised: it has the same number as every other unmapped user. Then
 * the path decides: if only the owners of its directories can write to them, no other user can have
 * put a socket there.
 */
bool rbt_is_trustworthy(const char *path, uid_t uid, uid_t own);

#endif
