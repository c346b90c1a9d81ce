/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_RECONCILE_H
#define RBT_DAEMON_RECONCILE_H

struct daemon;

/* Tells the decision core about the model, and carries out its decisions. 0, or -errno when nothing
 * could be done at all; it is tried again then. */
int reconcile(struct daemon *d);

#endif
