/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RBT_DAEMON_INHERIT_H
#define RBT_DAEMON_INHERIT_H

/* Resets the limits and ignored signals that the process that started the daemon has left it. */
void inherit_nothing(void);

#endif
