/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/own.h"

__thread struct shim_own shim_own __attribute__((tls_model("initial-exec"), aligned(64)));
