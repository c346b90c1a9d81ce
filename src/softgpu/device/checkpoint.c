/* SPDX-License-Identifier: Apache-2.0 */
/* A context's memory leaves the device and comes back, at the same addresses. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softgpu/device/device_impl.h"

void rbt_context_hold(struct rbt_context *ctx, bool held)
{
	__atomic_store_n(&ctx->room->held, held ? 1 : 0, __ATOMIC_SEQ_CST);
	if (!held) {
		(void)syscall(SYS_futex, &ctx->room->held, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

bool rbt_context_is_quiet(const struct rbt_context *ctx)
{
	for (uint32_t k = 0; k < ctx->n_channels && ctx->error == 0; k++) {
		const struct dev_channel *ch = &ctx->channels[k];

		if (ch->state != DEV_EMPTY || ch->n_todo > 0 ||
			__atomic_load_n(&ch->shared->wptr, __ATOMIC_SEQ_CST) != ch->rptr) {
			return false;
		}
	}
	return __atomic_load_n(&ctx->room->touching, __ATOMIC_SEQ_CST) == 0;
}

static int save(struct rbt_context *ctx, struct dev_alloc *a)
{
	void *p = mmap(NULL, a->size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		return -ENOMEM;
	}
	memcpy(p, a->host, a->size);
	a->saved = p;
	dev_arena_evict(&ctx->dev->arena, a->va - GPU_MEMORY_VA, a->reserved);
	return 0;
}

int rbt_context_save(struct rbt_context *ctx, uint64_t max)
{
	uint64_t done = 0;

	for (size_t k = 0; k < ctx->n_allocs; k++) {
		struct dev_alloc *a = &ctx->allocs[k];

		if (a->reserved == 0 || a->saved != NULL) {
			continue;
		}
		if (done >= max) {
			return 1;
		}
		int r = save(ctx, a);
		if (r < 0) {
			return r;
		}
		done += a->size;
	}
	return 0;
}

uint64_t rbt_context_saved_bytes(const struct rbt_context *ctx)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < ctx->n_allocs; k++) {
		sum += ctx->allocs[k].saved != NULL ? ctx->allocs[k].reserved : 0;
	}
	return sum;
}

int rbt_context_restore(struct rbt_context *ctx, uint64_t max)
{
	uint64_t done = 0;

	for (size_t k = 0; k < ctx->n_allocs; k++) {
		struct dev_alloc *a = &ctx->allocs[k];

		if (a->saved == NULL) {
			continue;
		}
		if (done >= max) {
			return 1;
		}
		if (dev_arena_admit(&ctx->dev->arena, a->reserved) < 0) {
			return -ENOMEM;
		}
		memcpy(a->host, a->saved, a->size);
		munmap(a->saved, a->size);
		a->saved = NULL;
		done += a->size;
	}
	return 0;
}
