/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submission, and waiting. A command's number is its position in its channel, from 1; it is done
 * when the channel's `done` has reached it. Every dependency refers to a number that was assigned
 * before, so no circle of waits can arise.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/cuda/front.h"
#include "util/time.h"

#define SPIN_NS   (20 * RBT_NS_PER_US)
#define SLEEP_NS  (50 * RBT_NS_PER_MS) /* how long a dead server may go unnoticed */
#define MAX_SLOTS (1 + GPU_MAX_PARAMS / GPU_SLOT_BYTES)
#define FULL_NS   RBT_NS_PER_MS

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(timeout_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(timeout_ns % RBT_NS_PER_S)};

	/* Not private: the device wakes us from its own process. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

void front_ring_bell(struct front_device *dev)
{
	/* The published commands must be visible to a device that goes to sleep before we read
	 * `asleep`: it checks the rings once more after setting it. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&dev->bell->asleep, __ATOMIC_RELAXED) != 0) {
		__atomic_fetch_add(&dev->bell->rung, 1, __ATOMIC_RELEASE);
		(void)syscall(SYS_futex, &dev->bell->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

static uint64_t load_done(const struct gpu_channel *ring)
{
	/* Acquire: the effects of commands are visible once they are seen to be done. */
	return __atomic_load_n(&ring->done, __ATOMIC_ACQUIRE);
}

static CUresult room_error(struct front_context *ctx)
{
	return (CUresult)__atomic_load_n(&ctx->room->error, __ATOMIC_ACQUIRE);
}

bool front_is_done(struct front_context *ctx, unsigned channel, uint64_t number)
{
	return load_done(ctx->channels[channel].ring) >= number;
}

/* Sleeps until `done` differs from `seen`, or for that long. */
static void sleep_on(struct gpu_channel *ring, uint64_t seen, uint64_t timeout_ns)
{
	__atomic_fetch_add(&ring->waiting, 1, __ATOMIC_SEQ_CST);
	/* The device reads `waiting` after it has stored `done`; the futex compares again. */
	if (__atomic_load_n(&ring->done, __ATOMIC_SEQ_CST) == seen) {
		futex_wait((uint32_t *)&ring->done, (uint32_t)seen, timeout_ns);
	}
	__atomic_fetch_sub(&ring->waiting, 1, __ATOMIC_SEQ_CST);
}

CUresult front_wait(struct front_context *ctx, unsigned channel, uint64_t number)
{
	struct gpu_channel *ring = ctx->channels[channel].ring;
	uint64_t done = load_done(ring), spin_until_ns = 0;

	while (done < number) {
		CUresult r = room_error(ctx);

		if (r != CUDA_SUCCESS) {
			return r;
		}
		uint64_t now_ns = rbt_now_ns();

		if (spin_until_ns == 0) {
			spin_until_ns = now_ns + SPIN_NS;
		}
		if (now_ns < spin_until_ns) {
			relax();
		} else {
			sleep_on(ring, done, SLEEP_NS);
			if (load_done(ring) == done && front_link_check_now(ctx->dev)) {
				return CUDA_ERROR_DEVICE_UNAVAILABLE;
			}
		}
		done = load_done(ring);
	}
	return room_error(ctx);
}

/* Under the channel's lock: waits until n slots are free. */
static CUresult wait_for_slots(struct front_context *ctx, struct front_channel *ch, unsigned n)
{
	struct gpu_channel *ring = ch->ring;

	for (;;) {
		uint64_t used = ch->wptr - __atomic_load_n(&ring->rptr, __ATOMIC_ACQUIRE);
		CUresult r = room_error(ctx);

		if (r != CUDA_SUCCESS) {
			return r;
		}
		if (used + n <= GPU_RING_SLOTS) {
			return CUDA_SUCCESS;
		}
		/* rptr has no futex of its own; if `done` does not move, check again soon. */
		sleep_on(ring, load_done(ring), FULL_NS);
		if (front_link_is_lost(ctx->dev)) {
			return CUDA_ERROR_DEVICE_UNAVAILABLE;
		}
	}
}

static void put(struct front_channel *ch, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	while (size > 0) {
		struct gpu_slot *slot = &ch->ring->ring[ch->wptr % GPU_RING_SLOTS];
		size_t n = size < GPU_SLOT_BYTES ? size : GPU_SLOT_BYTES;

		memcpy(slot->bytes, from, n);
		ch->wptr++;
		from += n;
		size -= n;
	}
}

/* Under the lock: the device may see all commands that were put. */
static void publish(struct front_channel *ch, uint64_t n_commands)
{
	__atomic_store_n(&ch->ring->wptr, ch->wptr, __ATOMIC_RELEASE);
	atomic_store_explicit(&ch->n_commands, ch->n_commands + n_commands, memory_order_release);
}

/* Under the lock: puts a wait for another channel, unless it is over or was waited for before. */
static CUresult put_wait(struct front_stream *s, unsigned channel, uint64_t number)
{
	struct front_context *ctx = s->ctx;
	struct front_channel *ch = &ctx->channels[s->channel];
	struct gpu_wait wait = {
		.h = {.command = GPU_CMD_WAIT, .slots = 1}, .done = number, .channel = channel};

	if (channel == s->channel || number <= s->seen[channel] ||
		front_is_done(ctx, channel, number)) {
		return CUDA_SUCCESS;
	}
	CUresult r = wait_for_slots(ctx, ch, 1);

	if (r != CUDA_SUCCESS) {
		return r;
	}
	put(ch, &wait, sizeof(wait));
	publish(ch, 1);
	s->seen[channel] = number;
	return CUDA_SUCCESS;
}

/*
 * Under the lock. The legacy stream begins after all earlier work of blocking streams, and they
 * begin after its work.
 */
static CUresult put_order(struct front_stream *s)
{
	struct front_context *ctx = s->ctx;
	CUresult r = CUDA_SUCCESS;

	if (s->is_legacy) {
		for (unsigned c = 0; c < GPU_MAX_CHANNELS && r == CUDA_SUCCESS; c++) {
			r = put_wait(s, c, atomic_load(&ctx->channels[c].n_blocking));
		}
	} else if ((s->flags & CU_STREAM_NON_BLOCKING) == 0) {
		r = put_wait(s, ctx->legacy.channel, atomic_load(&ctx->legacy.last));
	}
	return r;
}

/* Under the lock: all that is ordered behind the stream comes after this command of its channel. */
static void note(struct front_stream *s, uint64_t number)
{
	struct front_channel *ch = &s->ctx->channels[s->channel];

	if (number > atomic_load(&s->last)) {
		atomic_store(&s->last, number);
	}
	if (!s->is_legacy && (s->flags & CU_STREAM_NON_BLOCKING) == 0 &&
		number > atomic_load(&ch->n_blocking)) {
		atomic_store(&ch->n_blocking, number);
	}
}

/* Under the lock: the stream's last command is the channel's. */
static uint64_t note_last(struct front_stream *s)
{
	struct front_channel *ch = &s->ctx->channels[s->channel];
	uint64_t number = atomic_load_explicit(&ch->n_commands, memory_order_relaxed);

	note(s, number);
	return number;
}

static CUresult submit_locked(struct front_stream *s, const void *slot, const void *more,
	size_t size, uint64_t *ret_number)
{
	struct front_context *ctx = s->ctx;
	struct front_channel *ch = &ctx->channels[s->channel];
	unsigned slots = 1 + (unsigned)((size + GPU_SLOT_BYTES - 1) / GPU_SLOT_BYTES);
	CUresult r = put_order(s);

	if (r == CUDA_SUCCESS) {
		r = wait_for_slots(ctx, ch, slots);
	}
	if (r != CUDA_SUCCESS) {
		return r;
	}
	put(ch, slot, GPU_SLOT_BYTES);
	put(ch, more, size);
	publish(ch, 1);
	*ret_number = note_last(s);
	return CUDA_SUCCESS;
}

CUresult front_submit(struct front_stream *s, const void *slot, const void *more, size_t size,
	uint64_t *ret_number)
{
	struct front_channel *ch = &s->ctx->channels[s->channel];
	uint64_t number = 0;

	if (front_link_is_lost(s->ctx->dev)) {
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	pthread_mutex_lock(&ch->lock);
	CUresult r = submit_locked(s, slot, more, size, &number);
	pthread_mutex_unlock(&ch->lock);
	if (r == CUDA_SUCCESS && ret_number != NULL) {
		*ret_number = number;
	}
	front_ring_bell(s->ctx->dev);
	return r;
}

CUresult front_submit_host(struct front_stream *s, struct front_host_part *part)
{
	struct front_channel *ch = &s->ctx->channels[s->channel];
	struct gpu_host host = {.h = {.command = GPU_CMD_HOST, .slots = 1}};
	CUresult r = front_host_start(s->ctx, s->channel);

	if (r == CUDA_SUCCESS && front_link_is_lost(s->ctx->dev)) {
		r = CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	if (r == CUDA_SUCCESS) {
		pthread_mutex_lock(&ch->lock);
		host.until = ch->n_host + 1;
		r = submit_locked(s, &host, NULL, 0, &part->number);
		if (r == CUDA_SUCCESS) {
			ch->n_host++;
			front_host_queue(ch, part);
			part = NULL;
		}
		pthread_mutex_unlock(&ch->lock);
	}
	if (part != NULL) {
		free(part->copy);
		free(part);
	}
	front_ring_bell(s->ctx->dev);
	return r;
}

CUresult front_submit_wait(struct front_stream *s, unsigned channel, uint64_t number)
{
	struct front_channel *ch = &s->ctx->channels[s->channel];

	pthread_mutex_lock(&ch->lock);
	uint64_t before = atomic_load_explicit(&ch->n_commands, memory_order_relaxed);
	CUresult r = put_order(s);

	if (r == CUDA_SUCCESS) {
		r = put_wait(s, channel, number);
	}
	/* A command of the same channel, maybe another stream's, needs no wait. But what waits for
	 * this stream must wait for it. */
	if (r == CUDA_SUCCESS && channel == s->channel) {
		note(s, number);
	}
	/* Only if there is one: the channel's last command may belong to another stream. */
	if (atomic_load_explicit(&ch->n_commands, memory_order_relaxed) != before) {
		note_last(s);
	}
	pthread_mutex_unlock(&ch->lock);
	front_ring_bell(s->ctx->dev);
	return r;
}

CUresult front_submit_order(struct front_stream *s)
{
	return front_submit_wait(s, s->channel, 0);
}

/* Calls fn for each command that must precede the stream's next one, until it returns an error. */
static CUresult each_before(struct front_stream *s,
	CUresult (*fn)(struct front_context *ctx, unsigned channel, uint64_t number))
{
	struct front_context *ctx = s->ctx;
	CUresult r = fn(ctx, s->channel, atomic_load(&s->last));

	if (s->is_legacy) {
		for (unsigned c = 0; c < GPU_MAX_CHANNELS && r == CUDA_SUCCESS; c++) {
			r = fn(ctx, c, atomic_load(&ctx->channels[c].n_blocking));
		}
	} else if ((s->flags & CU_STREAM_NON_BLOCKING) == 0 && r == CUDA_SUCCESS) {
		r = fn(ctx, ctx->legacy.channel, atomic_load(&ctx->legacy.last));
	}
	return r;
}

static CUresult is_done(struct front_context *ctx, unsigned channel, uint64_t number)
{
	return front_is_done(ctx, channel, number) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult front_wait_stream(struct front_stream *s)
{
	return each_before(s, front_wait);
}

bool front_stream_is_idle(struct front_stream *s)
{
	return each_before(s, is_done) == CUDA_SUCCESS;
}

CUresult front_wait_context(struct front_context *ctx)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned c = 0; c < GPU_MAX_CHANNELS && r == CUDA_SUCCESS; c++) {
		r = front_wait(ctx, c, atomic_load(&ctx->channels[c].n_commands));
	}
	return r;
}
