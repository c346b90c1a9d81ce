/* SPDX-License-Identifier: Apache-2.0 */
/* /dev/kfd: opened, and asked. The one place where its results become ours. */
#ifndef RBT_BACKEND_AMD_DEVICE_H
#define RBT_BACKEND_AMD_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/kfd_abi.h"

/* An fd (CLOEXEC), or -errno: -ENODEV when there is no such device. Makes the calling process one
 * of KFD's until it ends. */
int rbt_amd_open(void);

/* 0 or -errno. */
int rbt_amd_version(int kfd, struct kfd_version *ret);

/* Whether that version's debugger interface is the one known here. */
bool rbt_amd_can_debug(const struct kfd_version *version);

/* One operation of DBG_TRAP. What the ioctl returned (from 0 on: SUSPEND and RESUME count), or
 * -errno; -EOPNOTSUPP when the kernel is too old. */
int rbt_amd_dbg(int kfd, struct kfd_dbg_trap *arg);

#endif
