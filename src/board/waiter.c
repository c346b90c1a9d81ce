/* SPDX-License-Identifier: Apache-2.0 */
#include "board/waiter.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/time.h"

/* For older headers. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define MAX_WAITV     128
#define FUTEX_IS_32   2
#define POLL_NS       RBT_NS_PER_MS
#define SMALLEST_SIZE 16
/* A program may wake the daemon for nothing as often as it likes. After this many times it is
 * polled for a while instead. Only that program loses by it. */
#define MAX_FALSE     4
#define MUTE_NS       (100 * RBT_NS_PER_MS)
#define MUTED_POLL_NS (10 * RBT_NS_PER_MS)
/* Bounds the rounds per 10 ms, whatever else makes the call return at once. */
#define MAX_ROUNDS      64
#define THREAD_RETRY_MS 1000
#define ROUNDS_NS       (10 * RBT_NS_PER_MS)

/* The state of the files: being watched, readable, or the waiter ends. */
enum { FILES_WATCHED, FILES_READY, FILES_END };

struct waitv {
	uint64_t value, address;
	uint32_t flags, reserved;
};

struct entry {
	struct rbt_board *board;
	uint32_t asleep;  /* the futex's value while the daemon sleeps */
	bool is_new;      /* added since the last wait */
	unsigned n_false; /* times woken for nothing, since false_ns */
	uint64_t false_ns;
	uint64_t muted_ns; /* polled instead of waited for until then */
};

struct rbt_board_waiter {
	int epoll_fd; /* readable when the files are, or when the waiter ends */
	int end_fd;
	pthread_t thread;
	bool has_thread;
	uint64_t retry_ns;      /* no thread could be made; next attempt */
	_Atomic uint32_t files; /* a futex */
	struct entry *boards;
	size_t n, size;
	struct waitv waits[MAX_WAITV];
	unsigned n_rounds; /* rounds without a result, since rounds_ns */
	uint64_t rounds_ns;
};

static void wake_files(struct rbt_board_waiter *w)
{
	syscall(SYS_futex, &w->files, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void set_files(struct rbt_board_waiter *w, uint32_t value)
{
	atomic_store_explicit(&w->files, value, memory_order_release);
	wake_files(w);
}

/* As epoll_wait(). Not poll(): with a low RLIMIT_NOFILE, poll() refuses two files. */
static int wait_for_files(const struct rbt_board_waiter *w, int timeout_ms)
{
	struct epoll_event ignored;

	return epoll_wait(w->epoll_fd, &ignored, 1, timeout_ms);
}

/* The thread. It reports readable files once, until it is told to watch again. */
static void *watch_files(void *data)
{
	struct rbt_board_waiter *w = data;

	while (atomic_load_explicit(&w->files, memory_order_acquire) != FILES_END) {
		uint32_t was = FILES_WATCHED;
		if (wait_for_files(w, -1) <= 0) {
			usleep(POLL_NS / RBT_NS_PER_US);
			continue;
		}
		if (atomic_compare_exchange_strong(&w->files, &was, FILES_READY)) {
			wake_files(w);
		}
		while (atomic_load_explicit(&w->files, memory_order_acquire) == FILES_READY) {
			syscall(SYS_futex, &w->files, FUTEX_WAIT, FILES_READY, NULL, NULL, 0);
		}
	}
	return NULL;
}

/* If no thread can be made now, files are polled until it can. */
static void start_thread(struct rbt_board_waiter *w, uint64_t now_ns)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	w->has_thread = pthread_create(&w->thread, NULL, watch_files, w) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->retry_ns = now_ns + THREAD_RETRY_MS * RBT_NS_PER_MS;
}

static int watch_fd(struct rbt_board_waiter *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void close_fd(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

int rbt_board_waiter_create(int files_fd, struct rbt_board_waiter **ret)
{
	struct rbt_board_waiter *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		return -ENOMEM;
	}
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->epoll_fd < 0 || w->end_fd < 0 || watch_fd(w, files_fd) < 0 ||
		watch_fd(w, w->end_fd) < 0) {
		int r = -errno;
		rbt_board_waiter_destroy(w);
		return r;
	}
	*ret = w;
	return 0;
}

void rbt_board_waiter_destroy(struct rbt_board_waiter *w)
{
	uint64_t one = 1;

	if (w == NULL) {
		return;
	}
	if (w->has_thread) {
		set_files(w, FILES_END);
		ssize_t ignored = write(w->end_fd, &one, sizeof(one));
		(void)ignored;
		pthread_join(w->thread, NULL);
	}
	close_fd(w->end_fd);
	close_fd(w->epoll_fd);
	free(w->boards);
	free(w);
}

void rbt_board_waiter_rewatch(struct rbt_board_waiter *w)
{
	set_files(w, FILES_WATCHED);
}

static struct entry *find(struct rbt_board_waiter *w, const struct rbt_board *b)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->boards[i].board == b) {
			return &w->boards[i];
		}
	}
	return NULL;
}

int rbt_board_waiter_add(struct rbt_board_waiter *w, struct rbt_board *b)
{
	if (find(w, b) != NULL) {
		return 0;
	}
	if (w->n == w->size) {
		size_t size = w->size > 0 ? 2 * w->size : SMALLEST_SIZE;
		struct entry *more = realloc(w->boards, size * sizeof(*more));
		if (more == NULL) {
			return -ENOMEM;
		}
		w->boards = more;
		w->size = size;
	}
	uint32_t asleep = atomic_load_explicit(&b->asleep, memory_order_relaxed);
	w->boards[w->n++] = (struct entry){
		.board = b,
		.is_new = true,
		.asleep = asleep == RBT_BOARD_AWAITS_END || asleep == RBT_BOARD_AWAITS_SYNC
				  ? asleep
				  : RBT_BOARD_ASLEEP,
	};
	return 0;
}

void rbt_board_waiter_remove(struct rbt_board_waiter *w, struct rbt_board *b)
{
	struct entry *e = find(w, b);

	if (e != NULL) {
		*e = w->boards[--w->n];
	}
}

static bool is_woken(const struct entry *e)
{
	return atomic_load_explicit(&e->board->asleep, memory_order_acquire) != e->asleep;
}

static struct entry *find_woken(struct rbt_board_waiter *w)
{
	for (size_t i = 0; i < w->n; i++) {
		if (!w->boards[i].is_new && is_woken(&w->boards[i])) {
			return &w->boards[i];
		}
	}
	return NULL;
}

struct rbt_board *rbt_board_waiter_next(struct rbt_board_waiter *w)
{
	struct entry *e = find_woken(w);

	if (e == NULL) {
		return NULL;
	}
	struct rbt_board *b = e->board;
	*e = w->boards[--w->n];
	return b;
}

/* Fills in the futexes to wait for: the files' first, then boards in their order. Lowers *until_ns
 * to the next poll of boards that cannot be waited for. */
static unsigned prepare(struct rbt_board_waiter *w, uint64_t now_ns, uint64_t *until_ns)
{
	unsigned n = 0;

	w->waits[n++] = (struct waitv){
		.value = FILES_WATCHED, .address = (uintptr_t)&w->files, .flags = FUTEX_IS_32};
	for (size_t i = 0; i < w->n; i++) {
		const struct entry *e = &w->boards[i];
		bool is_muted = e->muted_ns > now_ns;
		uint64_t poll_ns = now_ns + (is_muted ? MUTED_POLL_NS : POLL_NS);
		if (!is_muted && n < MAX_WAITV) {
			w->waits[n++] = (struct waitv){.value = e->asleep,
				.address = (uintptr_t)&e->board->asleep,
				.flags = FUTEX_IS_32};
		} else if (poll_ns < *until_ns) {
			*until_ns = poll_ns;
		}
	}
	return n;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / RBT_NS_PER_S), .tv_nsec = (long)(ns % RBT_NS_PER_S)};
}

/* Without futexes: waits for files, for a millisecond if there are boards to poll. */
static void wait_without(struct rbt_board_waiter *w, uint64_t now_ns, uint64_t until_ns)
{
	uint64_t wait_ms = (until_ns - now_ns) / RBT_NS_PER_MS + 1;

	wait_ms = wait_ms < THREAD_RETRY_MS ? wait_ms : THREAD_RETRY_MS;
	if (wait_for_files(w, w->n > 0 ? 1 : (int)wait_ms) > 0) {
		atomic_store_explicit(&w->files, FILES_READY, memory_order_release);
	}
}

/* The board's futex was woken, but the program has not become busy. */
static void note_false(struct rbt_board_waiter *w, uint64_t address, uint64_t now_ns)
{
	struct entry *e = NULL;

	for (size_t i = 0; i < w->n && e == NULL; i++) {
		e = (uintptr_t)&w->boards[i].board->asleep == address ? &w->boards[i] : NULL;
	}
	if (e == NULL || is_woken(e)) {
		return;
	}
	if (now_ns - e->false_ns >= MUTE_NS) {
		e->false_ns = now_ns;
		e->n_false = 0;
	}
	if (++e->n_false >= MAX_FALSE) {
		e->muted_ns = now_ns + MUTE_NS;
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

static void wait_once(
	struct rbt_board_waiter *w, uint64_t now_ns, uint64_t until_ns, bool is_futile)
{
	uint64_t poll_ns = until_ns;
	unsigned n = prepare(w, now_ns, &poll_ns);
	struct timespec until = timespec_of(poll_ns);

	if (!w->has_thread && now_ns >= w->retry_ns) {
		start_thread(w, now_ns);
	}
	if (!w->has_thread || (is_futile && is_spinning(w, now_ns))) {
		wait_without(w, now_ns, until_ns);
		return;
	}
	long i = syscall(SYS_futex_waitv, w->waits, n, 0, poll_ns == UINT64_MAX ? NULL : &until,
		CLOCK_MONOTONIC);
	if (i > 0 && i < n) {
		note_false(w, w->waits[i].address, now_ns);
	} else if (i < 0 && errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR) {
		/* The call is missing or was refused: it must not be tried again at once. */
		wait_without(w, now_ns, until_ns);
	}
}

bool rbt_board_waiter_wait(struct rbt_board_waiter *w, uint64_t until_ns)
{
	for (size_t i = 0; i < w->n; i++) {
		w->boards[i].is_new = false;
	}
	for (bool is_futile = false;; is_futile = true) {
		uint64_t now_ns = rbt_now_ns();
		bool is_ready =
			atomic_load_explicit(&w->files, memory_order_acquire) == FILES_READY;
		if (is_ready || now_ns >= until_ns || find_woken(w) != NULL) {
			return is_ready;
		}
		wait_once(w, now_ns, until_ns, is_futile);
	}
}
