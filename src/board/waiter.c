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
/* A program may wake us for nothing as often as it likes: after so many times it is looked at now
 * and then instead, for a while. That is its own loss; the others are waited for as before. */
#define MAX_FALSE     4
#define MUTE_NS       (100 * RBT_NS_PER_MS)
#define MUTED_LOOK_NS (10 * RBT_NS_PER_MS)
/* Whatever else may make the call return at once: no more than so many rounds in a moment. */
#define MAX_ROUNDS 64
#define ROUNDS_NS  (10 * RBT_NS_PER_MS)

struct waitv {
	uint64_t value, address;
	uint32_t flags, reserved;
};

struct entry {
	struct rbt_board *board;
	uint32_t asleep;  /* the word's value while it is */
	unsigned n_false; /* woken for nothing, since false_ns */
	uint64_t false_ns;
	uint64_t muted_ns; /* not waited for before this */
};

struct rbt_board_waiter {
	pthread_mutex_t lock;
	pthread_t thread;
	bool started, stop;
	_Atomic uint32_t changed; /* a futex: the thread looks anew when it changes */
	int fd;
	struct entry *boards;    /* waited for, then woken */
	size_t n, n_woken, size; /* boards[0 .. n), of which the last n_woken are woken */
	/* The thread's own. */
	struct waitv waits[MAX_WAITV];
	const struct rbt_board *waited[MAX_WAITV];
	unsigned n_rounds; /* that came to nothing, since rounds_ns */
	uint64_t rounds_ns;
};

static bool is_woken(const struct entry *e)
{
	return atomic_load_explicit(&e->board->asleep, memory_order_acquire) != e->asleep;
}

/* Under the lock. Boards that have woken go to the end. Whether there were any. */
static bool sort_woken(struct rbt_board_waiter *w)
{
	uint64_t one = 1;
	bool any = false;

	for (size_t i = 0; i < w->n - w->n_woken;) {
		if (!is_woken(&w->boards[i])) {
			i++;
			continue;
		}
		size_t last = w->n - w->n_woken - 1;
		struct entry e = w->boards[i];
		w->boards[i] = w->boards[last];
		w->boards[last] = e;
		w->n_woken++;
		any = true;
	}
	if (any && write(w->fd, &one, sizeof(one)) < 0) {
		/* It is readable already. */
	}
	return any;
}

/* Under the lock. How many there are to wait for, our own first, and until when; the addresses are
 * for the kernel alone, which does not mind if they are gone by then. */
static unsigned prepare(struct rbt_board_waiter *w, uint64_t now_ns, uint64_t *ret_until_ns)
{
	unsigned n = 1;

	*ret_until_ns = UINT64_MAX;
	w->waits[0] = (struct waitv){
		.value = w->changed, .address = (uintptr_t)&w->changed, .flags = FUTEX_IS_32};
	w->waited[0] = NULL;
	for (size_t i = 0; i < w->n - w->n_woken; i++) {
		const struct entry *e = &w->boards[i];
		uint64_t look_ns = now_ns + (e->muted_ns > now_ns ? MUTED_LOOK_NS : POLL_NS);
		if (e->muted_ns <= now_ns && n < MAX_WAITV) {
			w->waited[n] = e->board;
			w->waits[n++] = (struct waitv){.value = e->asleep,
				.address = (uintptr_t)&e->board->asleep,
				.flags = FUTEX_IS_32};
		} else if (look_ns < *ret_until_ns) {
			*ret_until_ns = look_ns;
		}
	}
	return n;
}

/* Until something changes, or for a moment if there are boards to look at. */
static void pause_for(struct rbt_board_waiter *w, bool has_boards)
{
	struct timespec pause = {.tv_nsec = (long)POLL_NS};

	syscall(SYS_futex, &w->changed, FUTEX_WAIT, (uint32_t)w->waits[0].value,
		has_boards ? &pause : NULL, NULL, 0);
}

/* The board that was woken, if that is known. */
static const struct rbt_board *wait_for(struct rbt_board_waiter *w, unsigned n, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / RBT_NS_PER_S),
		.tv_nsec = (long)(until_ns % RBT_NS_PER_S)};
	long i = syscall(SYS_futex_waitv, w->waits, n, 0, until_ns == UINT64_MAX ? NULL : &until,
		CLOCK_MONOTONIC);

	if (i >= 0) {
		return i < n ? w->waited[i] : NULL;
	}
	/* It is not there before 5.16, sandboxes refuse it, a board may have gone by now: whatever
	 * it is, it must not be asked again at once. */
	if (errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR) {
		pause_for(w, n > 1 || until_ns != UINT64_MAX);
	}
	return NULL;
}

/* Under the lock. It was woken and has not become busy. */
static void note_false(struct rbt_board_waiter *w, const struct rbt_board *b, uint64_t now_ns)
{
	for (size_t i = 0; i < w->n - w->n_woken; i++) {
		struct entry *e = &w->boards[i];
		if (e->board != b) {
			continue;
		}
		if (now_ns - e->false_ns >= MUTE_NS) {
			e->false_ns = now_ns;
			e->n_false = 0;
		}
		if (++e->n_false >= MAX_FALSE) {
			e->muted_ns = now_ns + MUTE_NS;
		}
	}
}

static bool is_spinning(struct rbt_board_waiter *w, uint64_t now_ns)
{
	if (now_ns - w->rounds_ns >= ROUNDS_NS) {
		w->rounds_ns = now_ns;
		w->n_rounds = 0;
	}
	return ++w->n_rounds > MAX_ROUNDS;
}

static void *run(void *data)
{
	struct rbt_board_waiter *w = data;
	const struct rbt_board *woken = NULL;
	uint64_t until_ns;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		uint64_t now_ns = rbt_now_ns();
		bool is_idle = !sort_woken(w) && w->waits[0].value == w->changed;
		if (woken != NULL) {
			note_false(w, woken, now_ns);
		}
		unsigned n = prepare(w, now_ns, &until_ns);
		pthread_mutex_unlock(&w->lock);
		if (is_idle && is_spinning(w, now_ns)) {
			pause_for(w, true);
		}
		woken = wait_for(w, n, until_ns);
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
		if (w->boards[i].board == b) {
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
		struct entry *more = realloc(w->boards, size * sizeof(*more));
		if (more == NULL) {
			return -ENOMEM;
		}
		w->boards = more;
		w->size = size;
	}
	size_t first_woken = w->n - w->n_woken;
	w->boards[w->n++] = w->boards[first_woken];
	uint32_t asleep = atomic_load_explicit(&b->asleep, memory_order_relaxed);
	w->boards[first_woken] = (struct entry){
		.board = b,
		.asleep = asleep == RBT_BOARD_AWAITS_END ? asleep : RBT_BOARD_ASLEEP,
	};
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
		b = w->boards[--w->n].board;
		w->n_woken--;
	}
	/* Emptied together with the list, under the same lock. */
	if (w->n_woken == 0 && read(w->fd, &ignored, sizeof(ignored)) < 0) {
		/* It was empty. */
	}
	pthread_mutex_unlock(&w->lock);
	return b;
}
