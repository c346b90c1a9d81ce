/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand: a small process that carries actions out on the device and does nothing else. It has
 * one owner (the daemon), which sends it requests (proto/hand.h).
 *
 * Every suspend has a deadline, which the owner renews for as long as the suspend is to last. If
 * the owner stops, the hand resumes the program at the deadline. Programs that take turns may have
 * short slices and must not run side by side, so when the deadline of one of them passes, the hand
 * restores all own slices first. When the owner dies, the hand restores all slices, resumes all
 * programs, and exits.
 */
#ifndef RBT_HAND_HAND_H
#define RBT_HAND_HAND_H

/* Runs the hand on `sock` until the owner is gone, then restores everything. Returns 0, or -errno
 * if the driver refused to restore something. */
int rbt_hand_run(int sock);

#endif
