/* SPDX-License-Identifier: Apache-2.0 */
/* Actions that must wait for a command that may still be under way: freeing memory in stream order,
 * releasing the slots of events' time stamps. */
#include <stdlib.h>

#include "softgpu/cuda/front.h"

static void give_slot(struct front_context *ctx, uint32_t slot)
{
	ctx->slots_used[slot / 64] &= ~(1ull << slot % 64);
}

CUresult front_defer(struct front_context *ctx, struct front_deferred *d)
{
	struct front_deferred *copy = malloc(sizeof(*copy));

	if (copy == NULL) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*copy = *d;
	pthread_mutex_lock(&ctx->lock);
	LIST_INSERT_HEAD(&ctx->deferred, copy, next);
	pthread_mutex_unlock(&ctx->lock);
	return CUDA_SUCCESS;
}

/* Under the lock: takes an action whose command is done off the list; or NULL. */
static struct front_deferred *take_ready(struct front_context *ctx)
{
	struct front_deferred *d;

	LIST_FOREACH (d, &ctx->deferred, next) {
		if (front_is_done(ctx, d->channel, d->number)) {
			LIST_REMOVE(d, next);
			return d;
		}
	}
	return NULL;
}

void front_defer_reap(struct front_context *ctx)
{
	struct front_deferred *d;

	if (LIST_EMPTY(&ctx->deferred)) {
		return;
	}
	pthread_mutex_lock(&ctx->lock);
	while ((d = take_ready(ctx)) != NULL) {
		if (d->free == 0) {
			give_slot(ctx, d->slot);
			free(d);
			continue;
		}
		/* Freeing makes a request to the server, so not with the lock held. */
		pthread_mutex_unlock(&ctx->lock);
		(void)front_memory_free(ctx, d->free);
		free(d);
		pthread_mutex_lock(&ctx->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
}
