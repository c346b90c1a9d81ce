/* SPDX-License-Identifier: Apache-2.0 */
/* Opens /dev/kfd and makes its calls. The only place where its results become an errno. */
#ifndef RBT_BACKEND_AMD_DEVICE_H
#define RBT_BACKEND_AMD_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/kfd_abi.h"

/* An fd (CLOEXEC), or -errno: -ENODEV if there is no such device. The calling process is a KFD
 * process until it ends. */
int rbt_amd_open(void);

/* 0 or -errno. */
int rbt_amd_version(int kfd, struct kfd_version *ret);

/* Whether this version's debugger interface is known here. */
bool rbt_amd_can_debug(const struct kfd_version *version);

/* One operation of DBG_TRAP. Returns the ioctl's result (0 or more: SUSPEND and RESUME return a
 * count), or -errno; -EOPNOTSUPP: the kernel is too old. */
int rbt_amd_dbg(int kfd, struct kfd_dbg_trap *arg);

#endif
