/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock that a hand holds while it lives, on a file in the runtime directory. If a daemon is
 * killed, its hand restores every program. A new daemon that acted before that is done would see
 * its actions undone, so it waits for the lock. The file names the hand, and says whether it has
 * restored everything.
 */
#ifndef RBT_DAEMON_SURVIVE_HANDLOCK_H
#define RBT_DAEMON_SURVIVE_HANDLOCK_H

#include <stdbool.h>

/* In a new hand: takes the lock, which several hands can share. Returns an fd, or -errno. */
int handlock_take(const char *path);
/* In the hand, before it ends: notes that everything is restored. */
void handlock_note_restored(int fd);

/* In a new daemon: opens the lock of earlier hands. Returns -errno if there is none. */
int handlock_open(const char *path);
/* Whether no hand holds the lock any more. */
bool handlock_is_free(int fd);
/* Continues a hand that was stopped by a signal. Otherwise it would never finish. */
void handlock_wake(int fd);
/* Closes *fd, if it is open, and removes the file; the next hand makes another one. Returns whether
 * the last hand had restored everything. */
bool handlock_finish(int *fd, const char *path);

#endif
