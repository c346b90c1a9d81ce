/* SPDX-License-Identifier: Apache-2.0 */
/* Classes and the table from priorities to timeslices. */
#include "sched/class.h"

#include <errno.h>
#include <string.h>

#include "check.h"

static void test_ranges(void)
{
	for (unsigned p = 0; p <= RBT_PRIORITY_MAX; p++) {
		enum rbt_class expected = p >= 11  ? RBT_CLASS_LATENCY
					  : p >= 6 ? RBT_CLASS_NORMAL
						   : RBT_CLASS_BEST_EFFORT;
		CHECK_INT(rbt_class_of(p), expected);
	}
	CHECK_INT(rbt_class_priority(RBT_CLASS_LATENCY), 13);
	CHECK_INT(rbt_class_priority(RBT_CLASS_NORMAL), 8);
	CHECK_INT(rbt_class_priority(RBT_CLASS_BEST_EFFORT), 2);
}

static void test_names(void)
{
	enum rbt_class cls = RBT_CLASS_NORMAL;

	for (unsigned i = RBT_CLASS_BEST_EFFORT; i <= RBT_CLASS_LATENCY; i++) {
		CHECK_INT(rbt_class_parse(rbt_class_name((enum rbt_class)i), &cls), 0);
		CHECK_INT(cls, i);
	}
	CHECK_INT(rbt_class_parse("besteffort", &cls), -EINVAL);
	CHECK_INT(rbt_class_parse("", &cls), -EINVAL);
	CHECK_INT(cls, RBT_CLASS_LATENCY); /* untouched by failure */
}

/* A higher priority never gets a shorter slice; the driver's own (0) counts as the longest. */
static void test_monotone(void)
{
	uint64_t last_us = 1;

	for (unsigned p = 0; p <= RBT_PRIORITY_MAX; p++) {
		uint64_t us = rbt_priority_timeslice_us(p);
		us = us == RBT_TIMESLICE_OWN ? UINT64_MAX : us;
		CHECK(us >= last_us);
		last_us = us;
	}
	CHECK_INT(rbt_priority_timeslice_us(2), 1);
	CHECK_INT(rbt_priority_timeslice_us(RBT_PRIORITY_NORMAL), RBT_TIMESLICE_OWN);
}

int main(void)
{
	test_ranges();
	test_names();
	test_monotone();
	return check_result();
}
