/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_POLICY_VM_RUN_H
#define RBT_POLICY_VM_RUN_H

#include "policy/vm.h"

/* Runs the code from instruction `entry` on, with the context's address in r1. 0 and what it
 * returned, or -EFAULT and *fault. */
int vm_run(struct vm *vm, uint32_t entry, uint64_t *ret_value, struct rbt_fault *fault);

#endif
