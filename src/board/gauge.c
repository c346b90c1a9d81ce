/* SPDX-License-Identifier: Apache-2.0 */
#include "board/gauge.h"

/* Between polls that are farther apart, the begin or end of a request is not known well enough. */
#define SHARP_NS UINT64_C(10000000)

static void add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_store_explicit(
		to, atomic_load_explicit(to, memory_order_relaxed) + n, memory_order_relaxed);
}

void rbt_gauge_add(struct rbt_gauge *g, struct rbt_gauge_queue *q, enum rbt_gauge_kind kind,
	uint64_t ring_bytes, uint64_t wptr, uint64_t rptr)
{
	uint64_t pending = wptr - rptr;
	/* Packets from before the first poll may have run long ago. */
	uint64_t fresh = q->is_known ? wptr - q->seen : 0;
	bool has_moved = q->is_known && rptr != q->read;

	q->seen = wptr;
	q->read = rptr;
	q->is_known = true;
	/* Pointers count packets of 64 bytes, words, or bytes: never more than bytes. */
	pending = pending <= ring_bytes ? pending : 0;
	g->is_active = g->is_active || pending > 0;
	if (kind == RBT_GAUGE_COPIES) {
		g->n_copies += fresh != 0;
		return;
	}
	g->n_pending += pending;
	g->has_moved = g->has_moved || has_moved;
	if (kind == RBT_GAUGE_WORDS || fresh > ring_bytes) {
		g->n_launches += fresh != 0;
	} else {
		g->n_launches += fresh;
	}
}

/* Counts the time without work as a gap, as the return of a synchronisation would. */
static void note_gap(struct rbt_board *b, uint64_t last_ns, uint64_t now_ns)
{
	uint64_t gap_ns = now_ns - last_ns;

	if (last_ns == 0 || last_ns >= now_ns) {
		return;
	}
	atomic_fetch_add_explicit(
		&b->gaps[rbt_board_bucket(gap_ns, RBT_BOARD_GAP_UNIT_NS, RBT_BOARD_GAPS)], 1,
		memory_order_relaxed);
}

static void add_request(struct rbt_board *b, uint64_t took_ns)
{
	if (atomic_load_explicit(&b->announces, memory_order_relaxed) == 0) {
		atomic_fetch_add_explicit(&b->n_requests, 1, memory_order_relaxed);
		rbt_board_add_length(b, took_ns);
	}
}

/* Begin and end are each seen up to one poll late, so the errors cancel out on average. A request
 * that has come and gone between two polls counts as half of that time. */
static void time_request(struct rbt_board *b, struct rbt_gauge_state *state,
	const struct rbt_gauge *g, uint64_t now_ns)
{
	bool is_sharp = state->polled_ns != 0 && now_ns - state->polled_ns <= SHARP_NS;

	if (g->is_active && !state->was_active) {
		state->since_ns = is_sharp ? now_ns : 0;
	} else if (!g->is_active && state->was_active && is_sharp && state->since_ns != 0) {
		add_request(b, now_ns - state->since_ns);
	} else if (!g->is_active && !state->was_active && is_sharp && g->n_launches > 0) {
		add_request(b, (now_ns - state->polled_ns) / 2);
	}
	state->was_active = g->is_active;
	state->polled_ns = now_ns;
}

/* Answers once per cleared_ns. Without packets there is nothing to wait for: the next packet
 * belongs to another request. */
static void note_done(struct rbt_board *b, struct rbt_gauge_state *state, const struct rbt_gauge *g,
	uint64_t now_ns)
{
	uint64_t cleared_ns = atomic_load_explicit(&b->cleared_ns, memory_order_relaxed);

	if (cleared_ns == 0 || cleared_ns == state->done_for_ns || cleared_ns >= now_ns ||
		(g->is_active && !g->has_moved)) {
		return;
	}
	state->done_for_ns = cleared_ns;
	if (g->has_moved) {
		atomic_store_explicit(&b->done_ns, now_ns, memory_order_relaxed);
		atomic_store_explicit(&b->done_for_ns, cleared_ns, memory_order_release);
	}
}

static bool wakes(struct rbt_board *b, uint32_t way)
{
	uint32_t expected = way;

	return atomic_compare_exchange_strong(&b->asleep, &expected, 0);
}

bool rbt_gauge_put(struct rbt_board *b, struct rbt_board_slot *slot, struct rbt_gauge_state *state,
	const struct rbt_gauge *g, uint64_t now_ns)
{
	bool was_active = atomic_load_explicit(&slot->in_sync, memory_order_relaxed) != 0;
	bool is_news = g->is_active || g->n_launches + g->n_copies > 0;

	time_request(b, state, g, now_ns);
	note_done(b, state, g, now_ns);
	atomic_store_explicit(&b->n_pending, g->n_pending, memory_order_relaxed);
	if (!is_news && !was_active) {
		return false;
	}
	if (!was_active) {
		note_gap(b, atomic_load_explicit(&slot->last_ns, memory_order_relaxed), now_ns);
	}
	add(&slot->n[RBT_BOARD_LAUNCH], g->n_launches);
	add(&slot->n[RBT_BOARD_COPY], g->n_copies);
	atomic_store_explicit(&slot->last_ns, now_ns, memory_order_release);
	/* Marks the time as exact, which it is to within one poll. */
	atomic_store_explicit(
		&slot->n_synced, (uint32_t)rbt_board_total(slot), memory_order_release);
	/* Sequentially consistent with rbt_board_doze(): either the daemon sees this store, or we
	 * see that it sleeps. */
	atomic_store(&slot->in_sync, g->is_active);
	/* n_syncs comes after in_sync, as in shim_sync_end(). */
	uint64_t n_syncs = atomic_load_explicit(&slot->n_syncs, memory_order_relaxed);
	atomic_store_explicit(&slot->n_syncs, n_syncs + !g->is_active, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	return (is_news && wakes(b, RBT_BOARD_ASLEEP)) ||
	       (!g->is_active && wakes(b, RBT_BOARD_AWAITS_SYNC));
}
