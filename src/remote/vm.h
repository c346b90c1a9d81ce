/* SPDX-License-Identifier: Apache-2.0 */
/* Names of virtual machines, and the sockets that `rubato serve` and QEMU find each other by. */
#ifndef RBT_REMOTE_VM_H
#define RBT_REMOTE_VM_H

#include <stdbool.h>
#include <stddef.h>

#define RBT_VM_NAME_MAX 32

/* A name has 1 to RBT_VM_NAME_MAX letters, digits, dots, dashes and underscores; the first is a
 * letter or a digit. */
bool rbt_vm_name_is_valid(const char *name);

/* The socket at which QEMU listens for its device unless the user names one: vm-NAME.qemu in the
 * user's runtime directory. 0, or -errno if there is no such directory or the path is too long. */
int rbt_vm_qemu_path(const char *name, char *buf, size_t size);

#endif
