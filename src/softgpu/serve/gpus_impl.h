/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the device server: its GPUs' devices, and the contexts on them. */
#ifndef RBT_SOFTGPU_SERVE_GPUS_IMPL_H
#define RBT_SOFTGPU_SERVE_GPUS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/nvidia/rm_abi.h"
#include "softgpu/device/device.h"
#include "softgpu/serve/gpu_link.h"
#include "softgpu/serve/gpus.h"
#include "softgpu/serve/server_impl.h"

/* One GPU. The device is only used under the lock. */
struct card {
	struct rbt_device *dev;
	pthread_mutex_t lock;
	atomic_uint wanted; /* threads that wait for the lock beside the device's own */
};

/* A context, and the RM objects that represent it. */
struct bound {
	struct bound *next;
	struct card *card;
	const struct conn *conn;
	struct rbt_context *ctx;
	uint32_t id, gpu;
	uint32_t client, tsg, n_channels, channels[GPU_MAX_CHANNELS];
	struct rbt_rm_group seen; /* the state that the device was last told */
	bool is_frozen;           /* its process is locked: it is off the runlist */
};

struct gpus {
	struct server *server;
	struct card cards[NV_MAX_GPUS];
	struct bound *contexts;
	uint32_t next_id;
	struct target *targets; /* checkpoint.c */
	uint64_t delay_us
		[GPU_N_PROCESS_ACTIONS]; /* faults: how long a checkpoint call takes at least */
};

/* gpus.c. Freezes or thaws a context, which then follows RM's objects again. */
void bound_freeze(struct bound *b, bool is_frozen);
/* Answers a request with one packet. */
void gpus_reply(
	struct conn *c, const struct gpu_reply *answer, size_t size, const int *fds, size_t n_fds);

/* checkpoint.c */
void checkpoint_handle(struct gpus *g, struct conn *c, const uint8_t *msg);
void checkpoint_forget(struct gpus *g, const struct conn *c);

/* card.c. Starts the device and its thread: 0 or -errno. */
int card_start(struct card *card, struct server *server);
/* Must be held for every use of the device. */
void card_lock(struct card *card);
void card_unlock(struct card *card);

#endif
