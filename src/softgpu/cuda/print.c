/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "softgpu/cuda/front.h"

static bool is_empty(const struct gpu_text *text)
{
	return __atomic_load_n(&text->head, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&text->tail, __ATOMIC_RELAXED);
}

/* Called with the context's lock for it. */
static void drain(struct gpu_text *text, const uint8_t *bytes, size_t room, FILE *out)
{
	uint64_t head = __atomic_load_n(&text->head, __ATOMIC_ACQUIRE);
	uint64_t tail = text->tail;

	if (head - tail > room) {
		tail = head; /* not what this side wrote; better nothing than anything */
	}
	while (tail != head) {
		size_t at = tail % room, n = room - at;

		n = n < head - tail ? n : head - tail;
		(void)fwrite(bytes + at, 1, n, out);
		tail += n;
	}
	fflush(out);
	/* Release: the bytes were read before the device may write there again. */
	__atomic_store_n(&text->tail, tail, __ATOMIC_RELEASE);
}

void front_print_drain(struct front_context *ctx)
{
	struct gpu_room *room = ctx->room;

	if (is_empty(&room->print) && is_empty(&room->complain)) {
		return;
	}
	pthread_mutex_lock(&ctx->print_lock);
	drain(&room->print, room->print_bytes, GPU_PRINT_BYTES, stdout);
	drain(&room->complain, room->complain_bytes, GPU_COMPLAIN_BYTES, stderr);
	pthread_mutex_unlock(&ctx->print_lock);
}
