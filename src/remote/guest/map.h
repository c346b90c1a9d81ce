/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of memory that guest and worker share (remote/link.h). */
#ifndef RBT_REMOTE_GUEST_MAP_H
#define RBT_REMOTE_GUEST_MAP_H

#include <stddef.h>

/* New shared memory of at least this size; its real size is rounded up to blocks. 0 or -errno. */
int guest_map(size_t size, void **ret);
void guest_unmap(void *at, size_t size);
size_t guest_map_size(size_t size);

#endif
