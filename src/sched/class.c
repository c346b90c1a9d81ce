/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/class.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned lowest, middle;
} classes[] = {
	[RBT_CLASS_BEST_EFFORT] = {"best-effort", 0, 2},
	[RBT_CLASS_NORMAL] = {"normal", 6, 8},
	[RBT_CLASS_LATENCY] = {"latency", 11, 13},
};

/*
 * Measured on an H200 against a full-chip neighbour: p99 of a latency program's kernel is 1295 µs
 * beside a slice of 1000 µs, 491 at 200, 338 at 50 and 290 at 1. Slices longer than the driver's
 * own gained nothing there (293), and two latency programs with long slices would wait for each
 * other. So only a GPU's sole latency program gets a long slice (decide.c), for bursts that are
 * longer than the driver's slice.
 */
static const uint64_t timeslices_us[RBT_PRIORITY_MAX + 1] = {
	/* best-effort */
	[0] = 1,
	[1] = 1,
	[2] = 1,
	[3] = 50,
	[4] = 200,
	[5] = 1000,
	/* normal and latency: RBT_TIMESLICE_OWN */
};
static_assert(RBT_TIMESLICE_OWN == 0, "what the table does not name is the driver's own");

enum rbt_class rbt_class_of(unsigned priority)
{
	if (priority >= classes[RBT_CLASS_LATENCY].lowest) {
		return RBT_CLASS_LATENCY;
	}
	return priority >= classes[RBT_CLASS_NORMAL].lowest ? RBT_CLASS_NORMAL
							    : RBT_CLASS_BEST_EFFORT;
}

unsigned rbt_class_lowest(enum rbt_class cls)
{
	return classes[cls].lowest;
}

const char *rbt_class_name(enum rbt_class cls)
{
	return classes[cls].name;
}

unsigned rbt_class_priority(enum rbt_class cls)
{
	return classes[cls].middle;
}

int rbt_class_parse(const char *name, enum rbt_class *ret)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strcmp(name, classes[i].name) == 0) {
			*ret = (enum rbt_class)i;
			return 0;
		}
	}
	return -EINVAL;
}

uint64_t rbt_priority_timeslice_us(unsigned priority)
{
	return timeslices_us[priority > RBT_PRIORITY_MAX ? RBT_PRIORITY_MAX : priority];
}

bool rbt_limits_are_right(const struct rbt_limits *limits)
{
	return limits->max_reserve_ms <= RBT_RESERVE_MAX_MS &&
	       (limits->min_share_permille <= RBT_SHARE_MAX_PERMILLE ||
		       limits->min_share_permille == RBT_SHARE_NONE);
}
