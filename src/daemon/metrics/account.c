/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/account.h"

#include <string.h>

#include "daemon/loop.h"
#include "util/time.h"

/* A program without activity for this long is idle. This is also the core's default. */
#define IDLE_NS (5 * RBT_NS_PER_MS)
/* A shorter time is not judged by a sample. The core's clock may also be behind ours by this
 * much. */
#define SHORT_NS RBT_NS_PER_MS

static void take_counts(
	const struct rbt_board *b, const struct rbt_board_reading *r, struct account_counts *ret)
{
	ret->n_submissions = rbt_board_submissions(r);
	memcpy(ret->n, r->n, sizeof(ret->n));
	ret->n_syncs = r->n_syncs;
	ret->n_gaps = 0;
	for (size_t i = 0; i < RBT_BOARD_GAPS; i++) {
		ret->n_gaps += r->gaps[i];
	}
	ret->n_requests = r->n_requests;
	ret->n_late = r->n_late;
	ret->announces = r->announces;
	rbt_board_read_lengths(b, &ret->request);
}

/* A program can decrease the numbers on its own board. That spoils only its own sums. */
static uint64_t since(uint64_t now, uint64_t first)
{
	return now > first ? now - first : 0;
}

/* Adds the counts of earlier boards and those of this board since its first reading. */
void account_sum(const struct account *a, struct account_counts *ret)
{
	*ret = a->past;
	ret->n_submissions += since(a->last.n_submissions, a->first.n_submissions);
	for (size_t i = 0; i < RBT_BOARD_KINDS; i++) {
		ret->n[i] += since(a->last.n[i], a->first.n[i]);
	}
	ret->n_syncs += since(a->last.n_syncs, a->first.n_syncs);
	ret->n_gaps += since(a->last.n_gaps, a->first.n_gaps);
	ret->n_requests += since(a->last.n_requests, a->first.n_requests);
	ret->n_late += since(a->last.n_late, a->first.n_late);
	ret->announces = ret->announces || a->last.announces;
	ret->request.sum_ns += since(a->last.request.sum_ns, a->first.request.sum_ns);
	for (size_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		ret->request.n[i] += a->last.request.n[i] - a->first.request.n[i];
	}
	if (a->last.request.max_ns > ret->request.max_ns) {
		ret->request.max_ns = a->last.request.max_ns;
	}
}

void account_start(struct account *a, uint64_t now_ns)
{
	*a = (struct account){.since_ns = now_ns, .sampled_ns = now_ns};
}

void account_begin_board(struct account *a, struct rbt_board *board, uint64_t now_ns)
{
	struct account_counts past;
	struct rbt_board_reading reading;

	account_sum(a, &past);
	a->past = past;
	memset(&a->watch, 0, sizeof(a->watch));
	rbt_board_read(board, &a->watch, now_ns, &reading);
	take_counts(board, &reading, &a->first);
	a->last = a->first;
	a->cleared_ns = 0;
	a->has_board = true;
}

void account_seen(struct account *a, const struct rbt_sched_stats *stats, uint64_t seen_ns)
{
	a->seen_ns = seen_ns;
	a->n_displaced = stats->displaced;
	a->n_let_on = stats->turns + stats->reserves;
}

/* The program's word: it can only spoil its own times. */
static void take_done(struct account *a, const struct rbt_board *board, uint64_t now_ns)
{
	if (a->cleared_ns == 0 ||
		atomic_load_explicit(&board->done_for_ns, memory_order_acquire) != a->cleared_ns) {
		return;
	}
	uint64_t done_ns = atomic_load_explicit(&board->done_ns, memory_order_relaxed);
	done_ns = done_ns < now_ns ? done_ns : now_ns;
	rbt_hist_add(&a->off_to_done, since(done_ns, a->cleared_ns));
	a->cleared_ns = 0;
}

void account_cleared(struct account *a, const struct rbt_sched_stats *stats,
	struct rbt_board *board, uint64_t now_ns)
{
	bool has_taken_off = stats->displaced > a->n_displaced;

	/* Without slices a reserve begins at once; with them, shortly before a slice ends. */
	if (a->seen_ns == 0 || (!has_taken_off && stats->turns + stats->reserves == a->n_let_on)) {
		return;
	}
	if (has_taken_off) {
		rbt_hist_add(&a->seen_to_off, since(now_ns, a->seen_ns));
	}
	if (has_taken_off && board != NULL) {
		take_done(a, board, now_ns); /* of the request before */
		a->cleared_ns = now_ns;
		atomic_store_explicit(&board->cleared_ns, now_ns, memory_order_relaxed);
	}
	a->seen_ns = 0;
}

struct account_step account_sample(struct account *a, const struct rbt_sched_stats *stats,
	bool is_known, struct rbt_board *board, uint64_t now_ns)
{
	struct account_step step = {.reserved_ns = stats->reserved_ns - a->reserved_ns};
	uint64_t on_ns = stats->on_ns - a->on_ns, passed_ns = since(now_ns, a->sampled_ns);
	bool is_busy = true;

	if (board != NULL) {
		struct rbt_board_reading reading;

		rbt_board_read(board, &a->watch, now_ns, &reading);
		take_counts(board, &reading, &a->last);
		take_done(a, board, now_ns);
		is_busy = rbt_board_is_busy(&reading, now_ns, IDLE_NS);
	}
	/* Too short to judge: the next call counts this time. */
	if (passed_ns < SHORT_NS) {
		return (struct account_step){0};
	}
	if (is_known && (is_busy || on_ns + SHORT_NS < passed_ns)) {
		step.used_ns = on_ns < passed_ns ? on_ns : passed_ns;
	}
	a->used_ns += step.used_ns;
	a->on_ns = stats->on_ns;
	a->waited_ns = stats->kept_off_ns;
	a->reserved_ns = stats->reserved_ns;
	a->sampled_ns = now_ns;
	return step;
}

bool account_set_off(struct account *a, bool was_off, bool is_off, bool is_wanting, uint64_t now_ns)
{
	bool is_back = was_off && !is_off;

	if (is_back && a->off_ns != 0) {
		rbt_hist_add(&a->off, since(now_ns, a->off_ns));
		a->off_ns = 0;
	}
	if (is_off && !was_off && is_wanting) {
		a->n_preemptions++;
		a->off_ns = now_ns;
	}
	return is_back;
}

/* The board's longest request may be from before our time. Ours is at most as long as the limit of
 * the last bucket in use, and as the sum of all requests. */
static void fill_requests(const struct account_counts *c, struct rbt_hist *ret)
{
	uint32_t end = RBT_HIST_BUCKETS;

	*ret = c->request;
	while (end > 0 && ret->n[end - 1] == 0) {
		end--;
	}
	if (end < RBT_HIST_BUCKETS && ret->max_ns > rbt_hist_begin_ns(end)) {
		ret->max_ns = rbt_hist_begin_ns(end);
	}
	ret->max_ns = ret->max_ns < ret->sum_ns ? ret->max_ns : ret->sum_ns;
}

void account_fill(
	const struct account *a, bool is_known, uint64_t now_ns, struct rbt_program_account *ret)
{
	struct account_counts counts;

	account_sum(a, &counts);
	*ret = (struct rbt_program_account){
		.valid = (is_known ? RBT_ACCOUNT_HAS_USED : 0) |
			 (a->has_board ? RBT_ACCOUNT_HAS_SUBMISSIONS : 0) |
			 (counts.n_requests > 0 ? RBT_ACCOUNT_HAS_REQUESTS : 0) |
			 (counts.n_requests > 0 && counts.announces ? RBT_ACCOUNT_HAS_LATE : 0),
		.n_requests_late =
			counts.n_late < UINT32_MAX ? (uint32_t)counts.n_late : UINT32_MAX,
		.known_ns = since(now_ns, a->since_ns),
		.used_ns = a->used_ns,
		.n_submissions = counts.n_submissions,
		.n_preemptions = a->n_preemptions,
		.n_suspends = a->n_suspends,
		.off = a->off,
		.suspend = a->suspend,
		.resume = a->resume,
		.seen_to_off = a->seen_to_off,
		.off_to_done = a->off_to_done,
	};
	ret->valid |= rbt_hist_count(&a->off_to_done) > 0 ? RBT_ACCOUNT_HAS_DONE : 0;
	fill_requests(&counts, &ret->request);
}
