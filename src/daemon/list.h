/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tools are told of a program: its listing, and the reason why it does not have what it asked
 * for.
 */
#ifndef RBT_DAEMON_LIST_H
#define RBT_DAEMON_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct program;

#define LIST_NO_SLICES "this GPU has no timeslices, only turns of 5000 us and more"
#define LIST_RAISING   "needs root or membership of group %s"

/* The subject of LIST_RAISING, from keys of a treatment. */
const char *list_raising_text(uint32_t keys);
/* One line that says how the program fares, valid until the next call; empty if the program has
 * what it asked for. */
const char *list_note(struct daemon *d, const struct program *p);
/* Whether none of its tasks has a slice that could be set: such a program can only take turns. */
bool list_has_no_slices(const struct program *p);
/* The program's GPU memory, which the driver is asked for; false: not known. */
bool list_memory(const struct program *p, uint64_t *ret_bytes);
/* Fills in a PROGRAM message with what `flags` (RBT_LIST_*) ask for. Returns its size; buf has room
 * for RBT_MSG_MAX. */
size_t list_fill(struct daemon *d, struct program *p, uint32_t flags, char *buf, size_t size);

#endif
