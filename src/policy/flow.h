/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_POLICY_FLOW_H
#define RBT_POLICY_FLOW_H

#include "policy/object.h"

/*
 * Refuses a function that reads a register which it may not have written: the verifier does so too,
 * and in the vm such a value would depend on what ran before. The function's instructions and jumps
 * have been checked already.
 */
int rbt_flow_check(
	const struct rbt_object *o, const struct rbt_object_function *f, struct rbt_why *why);

#endif
