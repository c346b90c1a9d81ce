/* SPDX-License-Identifier: Apache-2.0 */
/* A library to preload into rubatod: while the file $NO_MEMORY exists, there is none for another
 * program in the scheduler's core. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sched/impl.h"

extern void *__libc_calloc(size_t n, size_t size);

void *calloc(size_t n, size_t size)
{
	const char *path = getenv("NO_MEMORY");

	if (n == 1 && size == sizeof(struct rbt_sched_prog) && path != NULL &&
		access(path, F_OK) == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(n, size);
}
