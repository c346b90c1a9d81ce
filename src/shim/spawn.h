/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a process that has nothing to do with the program in which the shim is. */
#ifndef RBT_SHIM_SPAWN_H
#define RBT_SHIM_SPAWN_H

#include <stdatomic.h>
#include <stdint.h>

#define SHIM_SPAWN_STACK 8192u

/* Lives as long as the program: the new process uses it until it has executed its command. All
 * zeroes at first. Strings and lists are borrowed, and live as long. */
struct shim_spawn {
	const char *path;
	char *const *argv, *const *envp;
	_Atomic uint32_t is_under_way; /* this memory is still in use */
	_Alignas(16) unsigned char stacks[3][SHIM_SPAWN_STACK];
};

/*
 * Starts p->path in a session of its own, with no files but /dev/null, no signals blocked or
 * ignored, in directory /, on all processors. The program does not notice: it gets no SIGCHLD, has
 * no child, and none of its fork handlers run. The caller has blocked signals.
 *
 * Does not wait for any of this. Returns 0; -EBUSY if the last process has not executed its command
 * yet; or -errno if there can be no thread. Further failures are not reported.
 */
int shim_raw_spawn(struct shim_spawn *p);

#endif
