/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_SOFTGPU_SESSION_FILTER_H
#define RBT_SOFTGPU_SESSION_FILTER_H

/*
 * Puts this process and all its descendants under the filter: opens, readlinks and the drivers'
 * ioctls wait for the process that listens on the returned fd (CLOEXEC). Returns the fd or -errno;
 * -EBUSY: there is such a listener above us already.
 */
int filter_install(void);

/*
 * Limits: the following differs from a real device, or bypasses the supervisor: stat() and access()
 * of the nodes and the listing of /dev (the nodes can only be opened), mmap() of a node, io_uring,
 * programs of another instruction set, and programs that need such a listener for themselves.
 */

#endif
