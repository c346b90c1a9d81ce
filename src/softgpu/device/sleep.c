/* SPDX-License-Identifier: Apache-2.0 */
/* The bell: an idle device sleeps on it, and programs ring it. */
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

static bool grow(struct rbt_device *dev)
{
	size_t room = dev->watches_room ? dev->watches_room * 2 : 64;
	struct dev_watch *grown;

	if (dev->n_watches < dev->watches_room) {
		return true;
	}
	grown = realloc(dev->watches, room * sizeof(grown[0]));
	if (!grown) {
		return false;
	}
	dev->watches = grown;
	dev->watches_room = room;
	return true;
}

static void watch(struct rbt_device *dev, struct rbt_context *ctx, const struct dev_channel *ch)
{
	struct dev_watch w = {.ctx = ctx, .wptr = &ch->shared->wptr, .seen = ch->wptr};

	if (ch->state == DEV_FETCHED) {
		/* Commands behind a wait can wait, too. */
		w.wptr = NULL;
		if (ch->head.command == GPU_CMD_HOST) {
			w.host_done = &ch->shared->host_done;
			w.until = ch->host.until;
		}
	}
	if ((w.wptr || w.host_done) && grow(dev)) {
		dev->watches[dev->n_watches++] = w;
	}
}

void dev_watch_all(struct rbt_device *dev)
{
	pthread_mutex_lock(&dev->watch_lock);
	dev->n_watches = 0;
	for (struct rbt_context *ctx = dev->contexts; ctx; ctx = ctx->next) {
		for (uint32_t k = 0; k < ctx->n_channels; k++) {
			if (dev_channel_enabled(ctx, k)) {
				watch(dev, ctx, &ctx->channels[k]);
			}
		}
	}
	pthread_mutex_unlock(&dev->watch_lock);
}

void dev_watch_forget(struct rbt_device *dev, const struct rbt_context *ctx)
{
	size_t kept = 0;

	pthread_mutex_lock(&dev->watch_lock);
	for (size_t k = 0; k < dev->n_watches; k++) {
		if (dev->watches[k].ctx != ctx) {
			dev->watches[kept++] = dev->watches[k];
		}
	}
	dev->n_watches = kept;
	pthread_mutex_unlock(&dev->watch_lock);
}

/* The lock keeps a room from being unmapped meanwhile. */
static bool something_new(struct rbt_device *dev)
{
	bool found = __atomic_load_n(&dev->wakes, __ATOMIC_ACQUIRE) !=
		     __atomic_load_n(&dev->wakes_seen, __ATOMIC_RELAXED);

	pthread_mutex_lock(&dev->watch_lock);
	for (size_t k = 0; k < dev->n_watches && !found; k++) {
		const struct dev_watch *w = &dev->watches[k];

		found = (w->wptr && __atomic_load_n(w->wptr, __ATOMIC_RELAXED) != w->seen) ||
			(w->host_done &&
				__atomic_load_n(w->host_done, __ATOMIC_RELAXED) >= w->until);
	}
	pthread_mutex_unlock(&dev->watch_lock);
	return found;
}

void rbt_device_sleep(struct rbt_device *dev, int timeout_ms)
{
	uint32_t rung = __atomic_load_n(&dev->bell->rung, __ATOMIC_ACQUIRE);
	struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

	if (timeout_ms <= 0) {
		return;
	}
	__atomic_store_n(&dev->bell->asleep, 1, __ATOMIC_RELAXED);
	/* Either the device sees what a program wrote, or the program sees that the device
	 * sleeps. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!something_new(dev)) {
		syscall(SYS_futex, &dev->bell->rung, FUTEX_WAIT, rung, &timeout, NULL, 0);
	}
	__atomic_store_n(&dev->bell->asleep, 0, __ATOMIC_RELAXED);
}

void rbt_device_wake(struct rbt_device *dev)
{
	__atomic_add_fetch(&dev->wakes, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&dev->bell->rung, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &dev->bell->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
