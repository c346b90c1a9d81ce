/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SCHED_COUNT_H
#define RBT_SCHED_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* Counts `by` more when something begins, and as many fewer when it ends. */
static inline void rbt_count(uint32_t *n, uint32_t by, bool begins)
{
	if (begins) {
		*n += by;
	} else {
		*n -= by;
	}
}

#endif
