/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_TESTS_SCHED_VERIFY_H
#define RBT_TESTS_SCHED_VERIFY_H

#include "sched/core.h"

/* NULL, or which promise of the decision core is broken at this moment. */
const char *sched_verify(const struct rbt_sched *s);

#endif
