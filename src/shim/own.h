/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a thread that every launch or wait needs: one cache line. Between two of our calls
 * the driver has run for microseconds, and has left little of our data in the nearest caches. So
 * memory accesses cost more than instructions here.
 */
#ifndef RBT_SHIM_OWN_H
#define RBT_SHIM_OWN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "board/layout.h"

struct shim_own {
	/* NULL: it has none yet, or it shares slot 0. First member: thunks.S reads it. */
	struct rbt_board_slot *slot;
	uint32_t sync_depth; /* synchronisations under way, one within the other */
	uint32_t random;     /* 0: all gaps are measured; see submit.h */
	uint64_t also_ns;    /* when shim_sync_also()'s function was last called */

	/* For clock.c. span 0: the counter must not be used or read. */
	struct {
		uint64_t span; /* in counts */
		uint64_t base_ns, base_count, rate;
		uint64_t last_ns; /* the last time returned */
	} clock;
};

static_assert(sizeof(struct shim_own) == 64, "a line");
static_assert(offsetof(struct shim_own, slot) == 0, "thunks");

/* In the library that is loaded with the program, so that there is room for it in static TLS: a
 * library that is loaded later may find none. */
extern __thread struct shim_own shim_own
	__attribute__((tls_model("initial-exec"), visibility("hidden"), aligned(64)));

#endif
