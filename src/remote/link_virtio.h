/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_REMOTE_LINK_VIRTIO_H
#define RBT_REMOTE_LINK_VIRTIO_H

#include "remote/link.h"

/* The link of programs in a virtual machine. `path` is a device of kernel/rubato.ko, such as
 * /dev/rubato0. The driver itself tells the host who the program is. */
extern const struct rbt_link_ops rbt_link_virtio;

#endif
