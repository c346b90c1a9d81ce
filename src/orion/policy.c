/* SPDX-License-Identifier: Apache-2.0 */
#include "orion/policy.h"

#include <stddef.h>
#include <string.h>

/* Two kernels go well together if one of them computes, the other one waits for memory, and both
 * find room. Kernels of unknown kinds do not: measured on an H200, running them together cost the
 * requests more than it gave the others. */
static bool are_opposite(const struct orion_view *view, const struct rbt_kernel_facts *launch)
{
	return view->hp.kind != RBT_KERNEL_UNKNOWN && launch->kind != RBT_KERNEL_UNKNOWN &&
	       view->hp.kind != launch->kind && view->hp.sms != 0 && launch->sms != 0 &&
	       (uint64_t)view->hp.sms + launch->sms <= view->n_sms;
}

/* A launch that is made when so little is left reaches the GPU in time: it does not idle. */
#define ALMOST_NS 30000u

static bool hold_lets(const struct orion_view *view, const struct rbt_kernel_facts *launch)
{
	if (view->hp_is_busy && !are_opposite(view, launch)) {
		return false;
	}
	/* Of what is not known, one launch at a time. */
	const uint64_t ns = launch->duration_ns != 0 ? launch->duration_ns : view->budget_ns;
	return view->be_ns <= ALMOST_NS || view->be_ns + ns <= view->budget_ns;
}

static const struct orion_policy policies[] = {
	{.name = "hold", .lets = hold_lets}, {.name = "priority"}, /* of streams alone */
};

const struct orion_policy *orion_policy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (strcmp(policies[i].name, name) == 0) {
			return &policies[i];
		}
	}
	return NULL;
}
