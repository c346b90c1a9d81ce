/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand: one small process that carries actions out on the device and nothing else. It belongs
 * to one owner (the daemon), which sends it requests (proto/hand.h).
 *
 * Every suspend has a deadline. The owner renews it while it means it; when the owner stops, the
 * hand resumes by itself. Programs that take turns are off at short slices, and would meet: when
 * one of their deadlines passes, all default slices are restored first. When the owner dies, the
 * hand restores default slices, then resumes everything, and exits.
 */
#ifndef RBT_HAND_HAND_H
#define RBT_HAND_HAND_H

/* Runs the hand on `sock` until the owner is gone; then restores and returns 0, or -errno when
 * the driver refused some of it. */
int rbt_hand_run(int sock);

#endif
