/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single queues that users have suspended (`rubato suspend PID --queue ID`). Such a queue is off
 * until it is resumed or destroyed, whatever turns and reserves do to its program.
 */
#ifndef RBT_DAEMON_QUEUES_H
#define RBT_DAEMON_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/record.h"

struct daemon;
struct program;
struct client;

struct queue_order {
	uint32_t handle;
	uint32_t serial;   /* of the queue in its record; 0: unknown */
	uint64_t until_ns; /* 0: until it is resumed */
};

/* The orders for one program. No handle is in it twice. */
struct queue_orders {
	uint32_t n;
	struct queue_order list[RBT_RECORD_MAX_TASKS];
};

/* Adds an order, or replaces the one for the same queue. -ENOSPC: there is no room. */
int queues_add(struct queue_orders *orders, struct queue_order order);
/* Returns whether there was an order. */
bool queues_remove(struct queue_orders *orders, uint32_t handle);
bool queues_has(const struct queue_orders *orders, uint32_t handle);
/* Removes the orders whose time is over. Returns whether there were any. */
bool queues_expire(struct queue_orders *orders, uint64_t now_ns);

/* Whether the program is on a device whose queues can be suspended alone. */
bool queues_are_possible(const struct program *p);
/* Whether the program has such a queue, as far as its records say. */
bool queues_exist(const struct program *p, uint32_t handle);
/* Whether all of these queues were suspended one by one. */
bool queues_are_off(const struct program *p, const uint32_t *handles, uint32_t n);

/* A client has a new record: orders for queues that are gone are forgotten, also if another queue
 * has the number now. */
void queues_take_up(struct daemon *d, struct program *p, const struct client *h);
/* Carries out the orders, and resumes queues without an order. Returns 0 or the first error. */
int queues_apply(struct daemon *d, struct program *p);

#endif
