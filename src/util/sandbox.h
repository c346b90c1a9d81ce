/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of a thread: its seccomp(2) filters, its namespaces, and whether it has given up new
 * privileges. A process that is started from inside a sandbox stays in it. So before the shim
 * starts one, it checks that its program is still in the sandbox in which `rubato run` was.
 */
#ifndef RBT_UTIL_SANDBOX_H
#define RBT_UTIL_SANDBOX_H

#define RBT_SANDBOX_MAX 128

/* Writes a short text without spaces, which is equal for two threads if they are in one sandbox.
 * Makes direct system calls only, all of which the shim makes anyway. Returns 0 or -errno. */
int rbt_sandbox_describe(char ret[RBT_SANDBOX_MAX]);

#endif
