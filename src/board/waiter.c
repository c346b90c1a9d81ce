/* SPDX-License-Identifier: Apache-2.0 */
#include "board/waiter.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/time.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
/* Of older headers, and on kernels before 5.16, which do not have the call. */
#define MAX_WAITV     128
#define FUTEX_IS_32   2
#define POLL_NS       RBT_NS_PER_MS
#define SMALLEST_SIZE 16

struct waitv {
	uint64_t value, address;
	uint32_t flags, reserved;
};

struct rbt_board_waiter {
	pthread_mutex_t lock;
	pthread_t thread;
	bool started, stop;
	_Atomic uint32_t changed; /* a futex: the thread looks anew when it changes */
	int fd;
	struct rbt_board **boards; /* waited for, then woken */
	size_t n, n_woken, size;   /* boards[0 .. n), of which the last n_woken are woken */
	struct waitv waits[MAX_WAITV];
};

static bool is_woken(const struct rbt_board *b)
{
	return atomic_load_explicit(&b->asleep, memory_order_acquire) != 1;
}

/* Under the lock. Boards that have woken go to the end. */
static void sort_woken(struct rbt_board_waiter *w)
{
	uint64_t one = 1;
	bool any = false;

	for (size_t i = 0; i < w->n - w->n_woken;) {
		if (!is_woken(w->boards[i])) {
			i++;
			continue;
		}
		size_t last = w->n - w->n_woken - 1;
		struct rbt_board *b = w->boards[i];
		w->boards[i] = w->boards[last];
		w->boards[last] = b;
		w->n_woken++;
		any = true;
	}
	/* It can only fail when it is readable already. */
	if (any && write(w->fd, &one, sizeof(one)) < 0) {
		return;
	}
}

/* Under the lock. How many there are to wait for, our own first; the addresses are for the kernel
 * alone, which does not mind if they are gone by then. */
static unsigned prepare(struct rbt_board_waiter *w)
{
	unsigned n = 1;

	w->waits[0] = (struct waitv){
		.value = w->changed, .address = (uintptr_t)&w->changed, .flags = FUTEX_IS_32};
	for (size_t i = 0; i < w->n - w->n_woken && n < MAX_WAITV; i++) {
		w->waits[n++] = (struct waitv){.value = 1,
			.address = (uintptr_t)&w->boards[i]->asleep,
			.flags = FUTEX_IS_32};
	}
	return n;
}

static void wait_for(struct rbt_board_waiter *w, unsigned n, bool complete)
{
	uint64_t until_ns = rbt_now_ns() + POLL_NS;
	struct timespec until = {.tv_sec = (time_t)(until_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(until_ns % RBT_NS_PER_S)};
	struct timespec pause = {.tv_nsec = (long)POLL_NS};

	if (syscall(SYS_futex_waitv, w->waits, n, 0, complete ? NULL : &until, CLOCK_MONOTONIC) >=
			0 ||
		errno != ENOSYS) {
		return;
	}
	/* Without boards until there are some, else for a moment. */
	syscall(SYS_futex, &w->changed, FUTEX_WAIT, (uint32_t)w->waits[0].value,
		n > 1 ? &pause : NULL, NULL, 0);
}

static void *run(void *data)
{
	struct rbt_board_waiter *w = data;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		sort_woken(w);
		unsigned n = prepare(w);
		bool complete = n - 1 == w->n - w->n_woken;
		pthread_mutex_unlock(&w->lock);
		wait_for(w, n, complete);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Under the lock: the thread sees the change before it sleeps, or is woken. */
static void kick(struct rbt_board_waiter *w)
{
	w->changed++;
	syscall(SYS_futex, &w->changed, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int rbt_board_waiter_create(struct rbt_board_waiter **ret)
{
	struct rbt_board_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		return -ENOMEM;
	}
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		int r = -errno;
		free(w);
		return r;
	}
	pthread_mutex_init(&w->lock, NULL);
	*ret = w;
	return 0;
}

void rbt_board_waiter_destroy(struct rbt_board_waiter *w)
{
	if (w == NULL) {
		return;
	}
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	kick(w);
	pthread_mutex_unlock(&w->lock);
	if (w->started) {
		pthread_join(w->thread, NULL);
	}
	pthread_mutex_destroy(&w->lock);
	close(w->fd);
	free(w->boards);
	free(w);
}

int rbt_board_waiter_fd(const struct rbt_board_waiter *w)
{
	return w->fd;
}

/* Under the lock. */
static int start(struct rbt_board_waiter *w)
{
	sigset_t all, old;

	if (w->started) {
		return 0;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->started = r == 0;
	return -r;
}

/* Under the lock. SIZE_MAX: it is not there. */
static size_t find(const struct rbt_board_waiter *w, const struct rbt_board *b)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->boards[i] == b) {
			return i;
		}
	}
	return SIZE_MAX;
}

/* Under the lock. */
static int insert(struct rbt_board_waiter *w, struct rbt_board *b)
{
	if (w->n == w->size) {
		size_t size = w->size > 0 ? 2 * w->size : SMALLEST_SIZE;
		struct rbt_board **more = realloc(w->boards, size * sizeof(*more));
		if (more == NULL) {
			return -ENOMEM;
		}
		w->boards = more;
		w->size = size;
	}
	size_t first_woken = w->n - w->n_woken;
	w->boards[w->n++] = w->boards[first_woken];
	w->boards[first_woken] = b;
	return 0;
}

int rbt_board_waiter_add(struct rbt_board_waiter *w, struct rbt_board *b)
{
	int r = 0;

	pthread_mutex_lock(&w->lock);
	if (find(w, b) == SIZE_MAX) {
		r = start(w);
		r = r == 0 ? insert(w, b) : r;
		kick(w);
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}

void rbt_board_waiter_remove(struct rbt_board_waiter *w, struct rbt_board *b)
{
	pthread_mutex_lock(&w->lock);
	size_t i = find(w, b);
	if (i != SIZE_MAX) {
		size_t first_woken = w->n - w->n_woken;
		if (i < first_woken) {
			w->boards[i] = w->boards[first_woken - 1];
			i = first_woken - 1;
		} else {
			w->n_woken--;
		}
		w->boards[i] = w->boards[--w->n];
		kick(w);
	}
	pthread_mutex_unlock(&w->lock);
}

struct rbt_board *rbt_board_waiter_next(struct rbt_board_waiter *w)
{
	struct rbt_board *b = NULL;
	uint64_t ignored;

	pthread_mutex_lock(&w->lock);
	if (w->n_woken > 0) {
		b = w->boards[--w->n];
		w->n_woken--;
	}
	/* Emptied together with the list, under the same lock. */
	if (w->n_woken == 0 && read(w->fd, &ignored, sizeof(ignored)) < 0) {
		/* It was empty. */
	}
	pthread_mutex_unlock(&w->lock);
	return b;
}
