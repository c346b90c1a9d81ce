/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread keeps to itself, and needs at every launch or wait: one line of cache. Between two
 * of our calls the driver has had microseconds to itself, and has left little of ours in the caches
 * next to the processor: what we touch costs more than what we do.
 */
#ifndef RBT_SHIM_OWN_H
#define RBT_SHIM_OWN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "board/layout.h"

struct shim_own {
	/* NULL until it has one, and for those that share. First: thunks.S looks here. */
	struct rbt_board_slot *slot;
	uint32_t sync_depth; /* synchronisations that have not returned, one within the other */
	uint32_t random;     /* 0: all gaps are asked for; see submit.h */
	uint64_t also_ns;    /* when shim_sync_also()'s function was last called */

	/* clock.c's. span 0: the counter is not to be relied on, nor read. */
	struct {
		uint64_t span; /* in counts */
		uint64_t base_ns, base_count, rate;
		uint64_t last_ns; /* what was answered */
	} clock;
};

static_assert(sizeof(struct shim_own) == 64, "a line");
static_assert(offsetof(struct shim_own, slot) == 0, "thunks");

/* In the library that is loaded with the program, so that there is room for it: one that comes
 * later might find none. */
extern __thread struct shim_own shim_own
	__attribute__((tls_model("initial-exec"), visibility("hidden"), aligned(64)));

#endif
