/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock that hands hold while they live, in the runtime directory. A hand whose daemon was
 * killed restores every program; should the next daemon act before that is done, the hand would
 * undo it. The lock's file names the hand, and says whether it has restored everything.
 */
#ifndef RBT_DAEMON_SURVIVE_HANDLOCK_H
#define RBT_DAEMON_SURVIVE_HANDLOCK_H

#include <stdbool.h>

/* In a new hand: holds the lock, beside other hands. An fd, or -errno. */
int handlock_hold(const char *path);
/* In the hand, before it ends: everything is back. */
void handlock_note_restored(int fd);

/* In a new daemon: the lock of hands before it, or -errno if there is none. */
int handlock_open(const char *path);
/* Whether no hand holds it any more. */
bool handlock_is_free(int fd);
/* Lets a hand that was stopped go on: it would never be done otherwise. */
void handlock_wake(int fd);
/* Closes *fd, if it is open; whether the last hand had restored everything. That is told once: the
 * file is removed, and the next hand makes another. */
bool handlock_finish(int *fd, const char *path);

#endif
