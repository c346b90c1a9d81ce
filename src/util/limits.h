/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_UTIL_LIMITS_H
#define RBT_UTIL_LIMITS_H

/* The most GPUs that are scheduled, of all vendors together. Sets of GPUs are 32 bits wide. */
#define RBT_MAX_GPUS 32

#endif
