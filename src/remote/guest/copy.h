/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is that a copy uses. */
#ifndef RBT_REMOTE_GUEST_COPY_H
#define RBT_REMOTE_GUEST_COPY_H

#include "remote/guest/guest.h"

/* Whether the address is the device's or shared memory, so that the worker's driver knows it.
 * Otherwise it is memory of the program alone. Makes calls. */
bool guest_is_device(CUdeviceptr address);

/* Whether all of these bytes are the device's. Makes calls. */
bool guest_is_on_device(CUdeviceptr address, size_t size);

/* Whether a copy to or from memory of the program alone would become part of a graph. The graph
 * would use that memory later, when nothing carries its contents. Makes calls. */
bool guest_is_capturing(unsigned form, CUstream stream);

#endif
