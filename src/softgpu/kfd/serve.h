/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device server's AMD side: the KFD model, the processes behind it, and its sysfs tree.
 *
 * Queues run on the programs' own memory. The server may not access that (Yama), but the supervisor
 * may: with each open of /dev/kfd it sends an fd of the program's /proc/PID/mem, which works as
 * long as that address space lives.
 */
#ifndef RBT_SOFTGPU_KFD_SERVE_H
#define RBT_SOFTGPU_KFD_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/kfd/kfd.h"
#include "util/json.h"

struct kfd_serve;
struct server;

/* NULL with errno. The server is borrowed, and must have its directory and its log. */
struct kfd_serve *kfd_serve_create(struct server *server, const struct rbt_kfd_config *config);
void kfd_serve_destroy(struct kfd_serve *k); /* accepts NULL */

/* All of the following accept NULL: there are no AMD GPUs. */
struct rbt_kfd *kfd_serve_model(struct kfd_serve *k);

/* Readable when a process has ended; -1. */
int kfd_serve_fd(const struct kfd_serve *k);
/* Removes processes that have ended, and runs queues. Returns when it must be called next
 * (UINT64_MAX: not before an event). */
uint64_t kfd_serve_run(struct kfd_serve *k, uint64_t now_ns);

/* To be called before a call of that process: removes processes that have ended from the model.
 * `blocked` says which accesses to the argument are impossible (LINK_CANNOT_…). */
void kfd_serve_prepare(struct kfd_serve *k, int pid, uint64_t arg, uint32_t blocked);

/* Whether waiting calls should be made again, because something changed since the last query. */
bool kfd_serve_take_change(struct kfd_serve *k);
void kfd_serve_touch(struct kfd_serve *k);

/* Whether a path is answered here, and the answer: an fd for the program, or -errno. `mem` is
 * borrowed; -1: the supervisor could not get it. */
bool kfd_serve_has(const char *path);
int kfd_serve_open(struct kfd_serve *k, const char *path, int flags, int pid, int mem);

#endif
