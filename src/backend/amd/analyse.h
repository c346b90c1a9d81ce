/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the library's printing that the tools share.
 */
#ifndef RBT_BACKEND_AMD_ANALYSE_H
#define RBT_BACKEND_AMD_ANALYSE_H

#include <stdio.h>

#include "rubato/kfd.h"

/* Further columns between a queue's ring and its addresses. */
struct rbt_amd_columns {
	const char *heading;
	void (*print)(FILE *out, const struct rubato_kfd_queue *q, const void *data);
	const void *data;
};

/* The table of rubato_kfd_print_snapshot(). more: NULL, or further columns. */
void rbt_amd_print_queues(
	FILE *out, const struct rubato_kfd_snapshot *snap, const struct rbt_amd_columns *more);

#endif
