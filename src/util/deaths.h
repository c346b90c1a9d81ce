/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts recent deaths of a daemon, in a small text file in its runtime directory, one time per
 * line. A daemon that crashes on what it finds must not be restarted for ever. The file outlives
 * the daemon and the keeper. Times are of the monotonic clock.
 */
#ifndef RBT_UTIL_DEATHS_H
#define RBT_UTIL_DEATHS_H

#include <stdint.h>

/* After this many deaths within this time, the daemon stays down for a minute. */
#define RBT_DEATHS_MAX       3
#define RBT_DEATHS_WITHIN_NS UINT64_C(10000000000)
#define RBT_DEATHS_PAUSE_NS  UINT64_C(60000000000)

/* Adds a death at now_ns. 0, or -errno if the file cannot be written. */
int rbt_deaths_note(const char *dir, uint64_t now_ns);

/* Until when the daemon stays down because of recent deaths; 0: it does not. */
uint64_t rbt_deaths_pause_end(const char *dir, uint64_t now_ns);

#endif
