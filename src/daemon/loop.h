/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon's loop watches.
 */
#ifndef RBT_DAEMON_LOOP_H
#define RBT_DAEMON_LOOP_H

#include <stdint.h>

struct daemon;

/* Something the loop watches. */
struct source {
	int fd;
	void (*ready)(struct daemon *d, struct source *s, uint32_t events);
};

/* 0 or -errno. */
int watch(struct daemon *d, struct source *s);
void unwatch(struct daemon *d, struct source *s); /* closes it too */

#endif
