/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device may overlook a program that was resumed: such a program is kicked.
 */
#ifndef RBT_DAEMON_KICK_H
#define RBT_DAEMON_KICK_H

#include <stdint.h>

struct daemon;
struct edge;
struct program;

/* After decisions for the program have been carried out. */
void kick_applied(struct daemon *d, struct program *p, const struct edge *edge, uint64_t now_ns);
/* Looks at the programs whose time has come: d->kick_ns. */
void kick_run(struct daemon *d);

#endif
