/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/cli.h"
#include "sched/class.h"
#include "util/parse.h"

/* A limit, or `default`: the configured one. */
static int parse_limit(const struct command *cmd, bool is_share, const char *arg, uint32_t *ret)
{
	uint64_t v = RBT_LIMIT_DEFAULT;
	int r = strcmp(arg, "default") == 0 ? 0
		: is_share                  ? rbt_parse_permille(arg, RBT_SHARE_MAX_PERMILLE, &v)
					    : rbt_parse_u64(arg, 1, RBT_RESERVE_MAX_MS, &v);

	if (r < 0 && is_share) {
		return usage_error(cmd, "min-share is a share from 0 to %d %%, or default, not %s",
			RBT_SHARE_MAX_PERMILLE / 10, arg);
	}
	if (r < 0) {
		return usage_error(cmd,
			"max-reserve-ms is a whole number from 1 to %d, or default, not %s",
			RBT_RESERVE_MAX_MS, arg);
	}
	*ret = v == 0 ? RBT_SHARE_NONE : (uint32_t)v;
	return 0;
}

int niceness_parse(const struct command *cmd, struct niceness *n, int option, const char *arg)
{
	enum rbt_class cls;

	switch (option) {
	case 'c':
		if (rbt_class_parse(arg, &cls) < 0) {
			return usage_error(cmd,
				"no such class: %s; there are latency, normal, best-effort", arg);
		}
		n->class_index = cls;
		n->has_class = true;
		return 0;
	case 'p':
		if (rbt_parse_u64(arg, 0, RBT_PRIORITY_MAX, &n->priority) < 0) {
			return usage_error(cmd, "priority is a whole number from 0 to %d, not %s",
				RBT_PRIORITY_MAX, arg);
		}
		n->has_priority = true;
		return 0;
	case 'M':
		return parse_limit(cmd, false, arg, &n->limits.max_reserve_ms);
	case 'S':
		return parse_limit(cmd, true, arg, &n->limits.min_share_permille);
	case 'w':
		if (rbt_parse_u64(arg, 1, RBT_WEIGHT_MAX, &n->weight) < 0) {
			return usage_error(cmd, "weight is a whole number from 1 to %d, not %s",
				RBT_WEIGHT_MAX, arg);
		}
		n->has_weight = true;
		return 0;
	default:
		if (rbt_parse_u64(arg, 1, RBT_TIMESLICE_MAX_US, &n->timeslice_us) < 0) {
			return usage_error(cmd,
				"timeslice is a whole number of microseconds from 1 to %d, not %s",
				RBT_TIMESLICE_MAX_US, arg);
		}
		n->has_timeslice = true;
		return 0;
	}
}

int niceness_settle(const struct command *cmd, struct niceness *n)
{
	if (n->has_class && n->has_priority &&
		rbt_class_of((unsigned)n->priority) != n->class_index) {
		return usage_error(cmd, "priority %u is %s, which contradicts --class %s",
			(unsigned)n->priority, rbt_class_name(rbt_class_of((unsigned)n->priority)),
			rbt_class_name(n->class_index));
	}
	if (n->has_priority) {
		return 0;
	}
	n->priority = n->has_class ? rbt_class_priority(n->class_index) : RBT_PRIORITY_NORMAL;
	return 0;
}
