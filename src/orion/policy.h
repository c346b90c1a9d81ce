/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a best-effort launch may go to the GPU now. Pure: no calls to the driver, no clock.
 * High-priority launches are never asked about.
 */
#ifndef RBT_ORION_POLICY_H
#define RBT_ORION_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "orion/profile.h"

struct orion_view {
	bool hp_is_busy;            /* a high-priority client has work on the GPU */
	struct rbt_kernel_facts hp; /* of its newest kernel */
	uint32_t n_sms;             /* of the GPU; 0: not known */
	uint64_t be_ns;             /* how long best-effort work on the GPU still takes */
	uint64_t budget_ns;         /* how long that may be */
};

struct orion_policy {
	const char *name;
	/* NULL: nothing is held, and launches need not be followed. */
	bool (*lets)(const struct orion_view *view, const struct rbt_kernel_facts *launch);
};

/* The default policy has the name "hold". NULL: there is no such policy. */
const struct orion_policy *orion_policy_find(const char *name);

#endif
