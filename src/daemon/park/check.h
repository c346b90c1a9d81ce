/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons not to park a program, found outside of the driver. */
#ifndef RBT_DAEMON_PARK_CHECK_H
#define RBT_DAEMON_PARK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the process is stopped, or its cgroup is frozen: a lock would hang. */
bool check_is_stopped(pid_t pid);
/* The memory of the host that the process could still have; its cgroups' limits count. UINT64_MAX:
 * not known. */
uint64_t check_host_memory(pid_t pid);
/* Bytes of managed memory, as far as the process's mappings show it. */
uint64_t check_managed_bytes(pid_t pid);
/* What the process has of the host's memory, swapped or not; 0: not known. */
uint64_t check_resident_bytes(pid_t pid);

#endif
