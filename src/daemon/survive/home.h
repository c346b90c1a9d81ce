/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime directory.
 */
#ifndef RBT_DAEMON_SURVIVE_HOME_H
#define RBT_DAEMON_SURVIVE_HOME_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;

struct home {
	int lock_fd;
	char dir[128], socket_path[160], state_path[160], lock_path[160];
	bool is_lost; /* the directory was removed, or is another daemon's */
	uint64_t check_ns;
	uint64_t said_ns; /* for line_is_due(): files there could not be written */
};

/* 0, or -EBUSY when another daemon serves it, or -errno. */
int home_claim(struct daemon *d);
/* Whether the directory is still the one that this daemon has made. */
bool home_is_ours(const struct daemon *d);
/* Makes the directory again if it was removed. The daemon ends if another one serves it by now. */
void home_tick(struct daemon *d, uint64_t now_ns);

#endif
