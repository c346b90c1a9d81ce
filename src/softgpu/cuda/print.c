/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "softgpu/cuda/front.h"

void front_print_drain(struct front_context *ctx)
{
	struct gpu_room *room = ctx->room;

	if (__atomic_load_n(&room->print_head, __ATOMIC_ACQUIRE) ==
		__atomic_load_n(&room->print_tail, __ATOMIC_RELAXED)) {
		return;
	}
	pthread_mutex_lock(&ctx->print_lock);
	uint64_t head = __atomic_load_n(&room->print_head, __ATOMIC_ACQUIRE);
	uint64_t tail = room->print_tail;

	if (head - tail > GPU_PRINT_BYTES) {
		tail = head; /* not what this side wrote; better nothing than anything */
	}
	while (tail != head) {
		size_t at = tail % GPU_PRINT_BYTES, n = GPU_PRINT_BYTES - at;

		n = n < head - tail ? n : head - tail;
		(void)fwrite(room->print + at, 1, n, stdout);
		tail += n;
	}
	fflush(stdout);
	/* Release: the bytes were read before the device may write there again. */
	__atomic_store_n(&room->print_tail, tail, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&ctx->print_lock);
}
