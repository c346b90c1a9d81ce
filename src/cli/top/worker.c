/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/time.h"

#define PATIENCE_NS (500 * RBT_NS_PER_MS)

struct top_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wanted; /* for the worker: there is work; for us: it has ended */
	int event_fd;
	struct top_source *source; /* only for the thread */
	/* under the lock */
	bool stop, has_ended, wants_sample, wants_action, has_answer;
	struct top_action action;
	struct top_answer answer;
	struct top_sample *sample;
};

static void announce(struct top_worker *w)
{
	uint64_t one = 1;
	ssize_t ignored = write(w->event_fd, &one, sizeof(one));

	(void)ignored;
}

/* Called with the lock held, and releases it meanwhile. */
static void carry_out(struct top_worker *w)
{
	struct top_action action = w->action;
	struct top_answer answer;

	pthread_mutex_unlock(&w->lock);
	answer.is_good = top_source_act(&action, answer.text, sizeof(answer.text));
	pthread_mutex_lock(&w->lock);
	w->answer = answer;
	w->has_answer = true;
	w->wants_action = false;
	w->wants_sample = true;
}

static void take_sample(struct top_worker *w)
{
	struct top_sample *sample = NULL;

	pthread_mutex_unlock(&w->lock);
	top_source_sample(w->source, &sample);
	pthread_mutex_lock(&w->lock);
	top_sample_destroy(w->sample);
	w->sample = sample;
	w->wants_sample = false;
}

static void *work(void *data)
{
	struct top_worker *w = data;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		if (w->wants_action) {
			carry_out(w);
		} else if (w->wants_sample) {
			take_sample(w);
		} else {
			pthread_cond_wait(&w->wanted, &w->lock);
			continue;
		}
		announce(w);
	}
	w->has_ended = true;
	pthread_cond_signal(&w->wanted);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void release(struct top_worker *w)
{
	top_source_destroy(w->source);
	top_sample_destroy(w->sample);
	rbt_close(&w->event_fd);
	pthread_cond_destroy(&w->wanted);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int top_worker_create(struct top_source *source, struct top_worker **ret)
{
	struct top_worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t monotonic;
	sigset_t all, before;

	if (w == NULL) {
		top_source_destroy(source);
		return -ENOMEM;
	}
	w->source = source;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wanted, &monotonic);
	pthread_condattr_destroy(&monotonic);
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	/* Signals are for the other thread, which has the terminal. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = w->event_fd < 0 ? errno : pthread_create(&w->thread, NULL, work, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		release(w);
		return -r;
	}
	*ret = w;
	return 0;
}

void top_worker_destroy(struct top_worker *w)
{
	uint64_t until_ns = rbt_now_ns() + PATIENCE_NS;
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(until_ns % RBT_NS_PER_S),
	};
	int r = 0;

	if (w == NULL) {
		return;
	}
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wanted);
	while (!w->has_ended && r == 0) {
		r = pthread_cond_timedwait(&w->wanted, &w->lock, &until);
	}
	bool has_ended = w->has_ended;
	pthread_mutex_unlock(&w->lock);
	if (has_ended) {
		pthread_join(w->thread, NULL);
		release(w);
	}
}

int top_worker_fd(const struct top_worker *w)
{
	return w->event_fd;
}

void top_worker_sample(struct top_worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->wants_sample = true;
	pthread_cond_signal(&w->wanted);
	pthread_mutex_unlock(&w->lock);
}

bool top_worker_act(struct top_worker *w, const struct top_action *a)
{
	pthread_mutex_lock(&w->lock);
	bool is_free = !w->wants_action;
	if (is_free) {
		w->action = *a;
		w->wants_action = true;
		pthread_cond_signal(&w->wanted);
	}
	pthread_mutex_unlock(&w->lock);
	return is_free;
}

struct top_sample *top_worker_take(struct top_worker *w, struct top_answer *ret, bool *ret_answer)
{
	uint64_t n;
	ssize_t ignored = read(w->event_fd, &n, sizeof(n));

	(void)ignored;
	pthread_mutex_lock(&w->lock);
	struct top_sample *sample = w->sample;
	w->sample = NULL;
	*ret_answer = w->has_answer;
	if (w->has_answer) {
		*ret = w->answer;
		w->has_answer = false;
	}
	pthread_mutex_unlock(&w->lock);
	return sample;
}
