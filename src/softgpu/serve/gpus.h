/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices behind the RM model, in the device server: a thread and a lock for each GPU that
 * programs run kernels on, and the contexts of the connections that made them (gpu_link.h). A
 * context is bound to the channel group and channels that its program made through RM;
 * gpus_refresh() applies changes of those to the device.
 */
#ifndef RBT_SOFTGPU_SERVE_GPUS_H
#define RBT_SOFTGPU_SERVE_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct conn;
struct gpus;
struct rbt_json;
struct server;

/* `s` is borrowed. NULL: no memory. A device starts with its first program. */
struct gpus *gpus_create(struct server *s);

/* Handles one message of a program; false: its type is not for us. `fd` (-1: none) is borrowed. */
bool gpus_handle(struct gpus *g, struct conn *c, const uint8_t *msg, size_t size, int fd);

/* The connection has ended, and with it its contexts. */
void gpus_forget(struct gpus *g, const struct conn *c);

/* RM's objects may have changed: slices, levels, disabled or freed groups. When this returns,
 * disabled or preempted groups are off the SMs. */
void gpus_refresh(struct gpus *g);

/* Checkpoint calls that are under way go on. Returns when to call this again; UINT64_MAX: not
 * before the next message. */
uint64_t gpus_run(struct gpus *g, uint64_t now_ns);
/* A fault: checkpoint calls of this kind (enum gpu_process_action) take at least so long; 0: as
 * long as they need. -EINVAL. */
int gpus_delay(struct gpus *g, uint32_t action, uint64_t delay_us);

/* A report of the devices, as an array "contexts" in an object that the caller has begun, or as
 * text. */
void gpus_write_json(struct gpus *g, struct rbt_json *j);
void gpus_write_text(struct gpus *g, FILE *out);

#endif
