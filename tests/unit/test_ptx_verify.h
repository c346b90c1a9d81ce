/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_TESTS_PTX_VERIFY_H
#define RBT_TESTS_PTX_VERIFY_H

#include "softgpu/ptx/ptx.h"

/* NULL, or which promise of ir.h a module breaks. */
const char *ptx_verify(const struct rbt_ptx_module *module);

#endif
