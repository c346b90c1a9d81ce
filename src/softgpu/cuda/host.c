/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program that run between commands. A channel waits at GPU_CMD_HOST until
 * host_done says that the function has returned. Each channel that ever had such a function has a
 * thread for them. (One thread for all could wait for a channel that waits for another's function.)
 */
#include <signal.h>
#include <stdlib.h>

#include "softgpu/cuda/front.h"

struct worker {
	struct front_context *ctx;
	unsigned channel;
};

void front_host_queue(struct front_channel *ch, struct front_host_part *part)
{
	pthread_mutex_lock(&ch->host_lock);
	*ch->last = part;
	ch->last = &part->next;
	pthread_cond_broadcast(&ch->changed);
	pthread_mutex_unlock(&ch->host_lock);
}

/* Waits for the commands before it, then runs the callback, the function or the copy. */
static void run_part(struct front_context *ctx, unsigned channel, struct front_host_part *part)
{
	CUresult r = front_wait(ctx, channel, part->number - 1);

	if (part->callback != NULL) {
		part->callback(part->stream, r, part->user);
	} else if (part->fn != NULL && r == CUDA_SUCCESS) {
		/* A host function is not called on a context that has failed, as documented. */
		part->fn(part->user);
	} else if (part->copy != NULL && r == CUDA_SUCCESS) {
		(void)front_copy_now(ctx, part->copy);
	}
}

static struct front_host_part *next_part(struct front_channel *ch)
{
	while (ch->first == NULL && !ch->stop) {
		pthread_cond_wait(&ch->changed, &ch->host_lock);
	}
	return ch->first;
}

static void *work(void *data)
{
	struct worker w = *(struct worker *)data;
	struct front_channel *ch = &w.ctx->channels[w.channel];
	struct front_host_part *part;

	free(data);
	pthread_mutex_lock(&ch->host_lock);
	while ((part = next_part(ch)) != NULL) {
		pthread_mutex_unlock(&ch->host_lock);
		run_part(w.ctx, w.channel, part);
		/* Release: what the function wrote is visible to the commands after it. */
		__atomic_fetch_add(&ch->ring->host_done, 1, __ATOMIC_RELEASE);
		front_ring_bell(w.ctx->dev);
		pthread_mutex_lock(&ch->host_lock);
		ch->first = part->next;
		if (ch->first == NULL) {
			ch->last = &ch->first;
		}
		free(part->copy);
		free(part);
	}
	pthread_mutex_unlock(&ch->host_lock);
	return NULL;
}

/* The program's signals are for its own threads. */
static int start_thread(struct front_channel *ch, struct worker *w)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&ch->thread, NULL, work, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

CUresult front_host_start(struct front_context *ctx, unsigned channel)
{
	struct front_channel *ch = &ctx->channels[channel];
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&ch->host_lock);
	if (!ch->has_thread) {
		struct worker *w = malloc(sizeof(*w));

		if (w == NULL) {
			r = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			*w = (struct worker){ctx, channel};
			if (start_thread(ch, w) != 0) {
				free(w);
				r = CUDA_ERROR_OPERATING_SYSTEM;
			}
		}
		ch->has_thread = r == CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&ch->host_lock);
	return r;
}

void front_host_stop(struct front_context *ctx)
{
	for (unsigned i = 0; i < GPU_MAX_CHANNELS; i++) {
		struct front_channel *ch = &ctx->channels[i];

		if (!ch->has_thread) {
			continue;
		}
		pthread_mutex_lock(&ch->host_lock);
		ch->stop = true;
		pthread_cond_broadcast(&ch->changed);
		pthread_mutex_unlock(&ch->host_lock);
		pthread_join(ch->thread, NULL);
		ch->has_thread = ch->stop = false;
	}
}
