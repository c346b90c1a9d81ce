/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the engine "kernel", if libbpf was missing when Rubato was built. */
#include <errno.h>

#include "policy/engine_ops.h"

const char *rbt_kernel_why_not(void)
{
	return "built without libbpf (libbpf-dev)";
}

int rbt_kernel_open(const struct rbt_object *o, const struct rbt_heritage *heritage,
	struct rbt_engine **ret, struct rbt_why *why, char **ret_log)
{
	return rbt_why_set(why, -ENOTSUP, "kernel: %s", rbt_kernel_why_not());
}

int rbt_kernel_start(struct rbt_loader *l, const struct rbt_object *o,
	const struct rbt_heritage *heritage, bool is_tried, struct rbt_why *why)
{
	return rbt_why_set(why, -ENOTSUP, "kernel: %s", rbt_kernel_why_not());
}

int rbt_kernel_end(struct rbt_loader *l, const struct rbt_object *o, int r, struct rbt_engine **ret,
	struct rbt_why *why)
{
	return rbt_why_set(why, -ENOTSUP, "kernel: %s", rbt_kernel_why_not());
}
