/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to believe who listens on a socket: programs send it their devices, and tools what they
 * want done. Built into the preloaded library, too: see shim/sys.h on system calls.
 */
#ifndef RBT_UTIL_TRUST_H
#define RBT_UTIL_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * `uid` is whom SO_PEERCRED names, `own` who is trusted besides root. Inside a user namespace root
 * is not to be seen: it has the same number there as everybody else who has none. Then the path
 * decides: if only the owners of its directories can write to them, nobody else can have put a
 * socket there.
 */
bool rbt_is_trustworthy(const char *path, uid_t uid, uid_t own);

#endif
