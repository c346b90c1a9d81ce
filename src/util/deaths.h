/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a daemon was killed lately: a small text file in its runtime directory, one time per
 * line. A daemon that dies of what it finds must not be started for ever; the file outlives the
 * daemon and whoever starts it again. Times are of the monotonic clock.
 */
#ifndef RBT_UTIL_DEATHS_H
#define RBT_UTIL_DEATHS_H

#include <stdint.h>

/* After this many deaths within this time, the daemon stays down for a minute. */
#define RBT_DEATHS_MAX       3
#define RBT_DEATHS_WITHIN_NS UINT64_C(10000000000)
#define RBT_DEATHS_PAUSE_NS  UINT64_C(60000000000)

/* Adds a death at now_ns. 0, or -errno when the file cannot be written. */
int rbt_deaths_note(const char *dir, uint64_t now_ns);

/* Until when the daemon stays down because of its last deaths; 0 when it does not. */
uint64_t rbt_deaths_pause_end(const char *dir, uint64_t now_ns);

#endif
