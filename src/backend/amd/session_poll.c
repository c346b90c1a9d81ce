/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls the target's queues, and writes the result to a board. The kernel tells where the pointers
 * are (a snapshot, taken again if queues come or go). They are read from the target's memory, and
 * never written.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backend/amd/session_impl.h"
#include "board/board.h"
#include "board/gauge.h"
#include "util/time.h"

/* The slot of the board that was made for this. */
#define SLOT 1
/* The most words per call. */
#define MAX_WORDS 1024u
/* If listing fails, it is tried again after this time. */
#define RETRY_NS (100 * RBT_NS_PER_MS)

struct poller {
	struct rbt_board *board; /* owned */
	uint64_t interval_ns;
	bool is_stale; /* the list must be taken again */
	struct kfd_queue_entry *list;
	struct rbt_gauge_queue *gauges; /* one per queue */
	struct rbt_gauge_state state;
	uint32_t n;
};

static void forget_list(struct poller *w)
{
	free(w->list);
	free(w->gauges);
	w->list = NULL;
	w->gauges = NULL;
	w->n = 0;
	w->is_stale = true;
}

void poller_end(struct rbt_amd_session *s)
{
	if (s->poller != NULL) {
		forget_list(s->poller);
		rbt_board_unmap(s->poller->board);
		free(s->poller);
		s->poller = NULL;
		s->poll_ns = UINT64_MAX;
	}
}

int poller_begin(struct rbt_amd_session *s, int board_fd, uint32_t interval_us)
{
	struct rbt_board *board;
	int r = rbt_board_map(board_fd, &board);

	if (r < 0) {
		return r;
	}
	poller_end(s);
	s->poller = calloc(1, sizeof(*s->poller));
	if (s->poller == NULL) {
		rbt_board_unmap(board);
		return -ENOMEM;
	}
	*s->poller = (struct poller){
		.board = board,
		.interval_ns = interval_us * RBT_NS_PER_US,
		.is_stale = true,
	};
	s->poll_ns = 0;
	return 0;
}

void poller_changed(struct rbt_amd_session *s)
{
	if (s->poller != NULL) {
		s->poller->is_stale = true;
	}
}

static int refresh(struct rbt_amd_session *s, struct poller *w)
{
	forget_list(w);
	int r = dbg_snapshot(s, &w->list, &w->n);
	if (r < 0) {
		w->list = NULL;
		w->n = 0;
		return r;
	}
	w->gauges = calloc(w->n + 1, sizeof(*w->gauges));
	w->is_stale = w->gauges == NULL;
	return w->gauges == NULL ? -ENOMEM : 0;
}

static enum rbt_gauge_kind kind_of(uint32_t type)
{
	return type == KFD_QUEUE_COMPUTE_AQL ? RBT_GAUGE_PACKETS
	       : type == KFD_QUEUE_COMPUTE   ? RBT_GAUGE_WORDS
					     : RBT_GAUGE_COPIES;
}

/* Reads from queue `at` on; returns how many could be read. */
static size_t read_some(
	struct rbt_amd_session *s, struct poller *w, size_t at, size_t n, struct rbt_gauge *g)
{
	struct iovec from[MAX_WORDS];
	uint64_t values[MAX_WORDS];
	struct iovec to = {.iov_base = values, .iov_len = 2 * n * sizeof(values[0])};

	for (size_t i = 0; i < n; i++) {
		const struct kfd_queue_entry *q = &w->list[at + i];
		from[2 * i] = (struct iovec){(void *)(uintptr_t)q->write_pointer_address, 8};
		from[2 * i + 1] = (struct iovec){(void *)(uintptr_t)q->read_pointer_address, 8};
	}
	ssize_t got = process_vm_readv(s->pid, &to, 1, from, 2 * n, 0);
	size_t n_read = got < 0 ? 0 : (size_t)got / (2 * sizeof(values[0]));
	for (size_t i = 0; i < n_read; i++) {
		const struct kfd_queue_entry *q = &w->list[at + i];
		/* The packets of a queue that is held do not make the program busy. */
		if (q->queue_id < KFD_MAX_QUEUES && s->held_queue[q->queue_id]) {
			continue;
		}
		rbt_gauge_add(g, &w->gauges[at + i], kind_of(q->queue_type), q->ring_size,
			values[2 * i], values[2 * i + 1]);
	}
	return n_read;
}

void poller_run(struct rbt_amd_session *s, uint64_t now_ns)
{
	struct poller *w = s->poller;
	struct rbt_gauge g = {0};

	if (w == NULL || now_ns < s->poll_ns) {
		return;
	}
	s->poll_ns = now_ns + w->interval_ns;
	if (w->is_stale && refresh(s, w) < 0) {
		s->poll_ns = now_ns + RETRY_NS;
		return;
	}
	for (size_t at = 0; at < w->n;) {
		size_t n = w->n - at < MAX_WORDS / 2 ? w->n - at : MAX_WORDS / 2;
		size_t n_read = read_some(s, w, at, n, &g);
		/* A pointer that cannot be read ends the call: that queue is skipped. */
		at += n_read + (n_read < n);
	}
	if (rbt_gauge_put(w->board, &w->board->slots[SLOT], &w->state, &g, now_ns)) {
		syscall(SYS_futex, &w->board->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}
