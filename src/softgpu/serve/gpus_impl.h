/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the device server: its GPUs' devices, and the contexts on them. */
#ifndef RBT_SOFTGPU_SERVE_GPUS_IMPL_H
#define RBT_SOFTGPU_SERVE_GPUS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/nvidia/rm_abi.h"
#include "softgpu/device/device.h"
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
};

struct gpus {
	struct server *server;
	struct card cards[NV_MAX_GPUS];
	struct bound *contexts;
	uint32_t next_id;
};

/* card.c. Starts the device and its thread: 0 or -errno. */
int card_start(struct card *card, struct server *server);
/* Must be held for every use of the device. */
void card_lock(struct card *card);
void card_unlock(struct card *card);

#endif
