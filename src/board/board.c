/* SPDX-License-Identifier: Apache-2.0 */
#include "board/board.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util/time.h"

#define STORES_NS (2 * RBT_NS_PER_US)

static uint64_t get64(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

static uint32_t get32(const _Atomic uint32_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

static int check_fd(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	/* Only memfds have seals (and files in a tmpfs, which cannot get these). */
	if (seals < 0) {
		return -EBADF;
	}
	/* With these seals the file keeps its size for ever, so no access can be beyond its end;
	 * and no seal can be added that would take the page away. */
	if ((seals & (F_SEAL_SHRINK | F_SEAL_SEAL)) != (F_SEAL_SHRINK | F_SEAL_SEAL)) {
		return -EPERM;
	}
	/* A file of huge pages, which may run out and then kill the daemon, cannot be this
	 * small. */
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	return st.st_size == RBT_BOARD_SIZE ? 0 : -EBADMSG;
}

static int check_identity(const struct rbt_board *b)
{
	uint32_t id[4]; /* magic, version, size, n_slots: read once */

	for (size_t i = 0; i < 4; i++) {
		id[i] = ((const volatile uint32_t *)b)[i];
	}
	if (id[0] != RBT_BOARD_MAGIC) {
		return -EBADMSG;
	}
	if (id[1] != RBT_BOARD_VERSION) {
		return -EPROTONOSUPPORT;
	}
	return id[2] == RBT_BOARD_SIZE && id[3] == RBT_BOARD_SLOTS ? 0 : -EBADMSG;
}

int rbt_board_map(int fd, struct rbt_board **ret)
{
	int r = check_fd(fd);

	if (r < 0) {
		return r;
	}
	void *p = mmap(NULL, RBT_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		return errno == EACCES ? -EPERM : -errno;
	}
	r = check_identity(p);
	if (r < 0) {
		munmap(p, RBT_BOARD_SIZE);
		return r;
	}
	*ret = p;
	return 0;
}

void rbt_board_unmap(struct rbt_board *b)
{
	if (b != NULL) {
		munmap(b, RBT_BOARD_SIZE);
	}
}

static bool is_waiting(const struct rbt_board_slot *s)
{
	uint32_t n = atomic_load_explicit(&s->in_sync, memory_order_acquire);

	/* A number larger than any number of threads is forged, or has gone below zero. */
	return n > 0 && n < (1u << 22);
}

static bool has_lengths(const struct rbt_board *b)
{
	return (*(const volatile uint32_t *)&b->features & RBT_BOARD_HAS_LENGTHS) != 0;
}

static uint32_t slots_used(const struct rbt_board *b)
{
	uint32_t n = get32(&b->n_used), most = has_lengths(b) ? RBT_BOARD_THREADS : RBT_BOARD_SLOTS;

	return n < most ? n : most;
}

/* An older library has only one bucket per power of two. Its requests count in the middle of their
 * bucket. */
static void read_coarse_lengths(const struct rbt_board *b, struct rbt_hist *ret)
{
	for (uint32_t i = 0; i < RBT_BOARD_TIMES; i++) {
		uint64_t end_ns = (uint64_t)RBT_BOARD_TIME_UNIT_NS << i;
		uint32_t n = get32(&b->request_times[i]);

		ret->n[rbt_hist_bucket(i == 0 ? 0 : end_ns / 4 * 3)] += n;
		ret->max_ns = n > 0 ? end_ns : ret->max_ns;
	}
}

void rbt_board_read_lengths(const struct rbt_board *b, struct rbt_hist *ret)
{
	*ret = (struct rbt_hist){.sum_ns = get64(&b->request_ns)};
	if (!has_lengths(b)) {
		read_coarse_lengths(b, ret);
		return;
	}
	for (uint32_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		ret->n[i] = get32(&b->lengths.n[i]);
	}
	ret->max_ns = get64(&b->lengths.max_ns);
}

struct rbt_board_progress rbt_board_progress(const struct rbt_board *b)
{
	struct rbt_board_progress sum = {0};

	for (uint32_t i = 0, n = slots_used(b); i < n; i++) {
		const struct rbt_board_slot *slot = &b->slots[i];

		/* Polls and copies do not count: a thread that waits in vain may poll for ever, and
		 * another thread may copy meanwhile. */
		uint64_t n_launches =
			get64(&slot->n[RBT_BOARD_LAUNCH]) + get64(&slot->n[RBT_BOARD_GRAPH]);
		sum.n_launches += n_launches;
		sum.n += n_launches + get64(&slot->n[RBT_BOARD_MEMSET]);
	}
	return sum;
}

uint64_t rbt_board_count(const struct rbt_board *b)
{
	uint64_t sum = 0;

	for (uint32_t i = 0, n = slots_used(b); i < n; i++) {
		sum += get64(&b->slots[i].n_syncs);
		for (size_t kind = 0; kind < RBT_BOARD_KINDS; kind++) {
			sum += get64(&b->slots[i].n[kind]);
		}
	}
	return sum;
}

/* A request ends at its deadline at the latest: the program may never report its end. */
static bool is_overdue(uint64_t deadline_ns, uint64_t now_ns)
{
	return deadline_ns != 0 && deadline_ns <= now_ns;
}

/* When synchronisations last returned; and when the latest submission can have been made, in slots
 * with submissions after their last synchronisation. */
struct ends {
	uint64_t synced_ns, submitted_ns;
};

static void note_end(struct ends *ends, bool is_synced, uint64_t ns)
{
	uint64_t *end_ns = is_synced ? &ends->synced_ns : &ends->submitted_ns;

	*end_ns = ns > *end_ns ? ns : *end_ns;
}

/*
 * Adds one slot to the sums, and remembers it in w.
 *
 * When a synchronisation returns, the program writes last_ns, n_synced, in_sync and n_syncs, in
 * this order, each with release (shim_sync_end()). This function reads them in the opposite order,
 * each with acquire, and the submission counters last. So a value that it reads comes with
 * everything that the program wrote before that value:
 *
 * - If n_syncs counts a synchronisation, in_sync does not include it any more. Otherwise the daemon
 *   would wait for the return of a synchronisation that has returned already.
 * - If in_sync is 0, the last synchronisation has left its last_ns and n_synced.
 * - last_ns belongs to the synchronisation that wrote n_synced, or was written after it. If a
 *   submission wrote it, then the counters, which a submission writes before its time, are above
 *   n_synced, and the time is not taken for exact. If another synchronisation wrote it without a
 *   submission in between, the time is exact: it is when the last synchronisation returned.
 */
static void read_slot(const struct rbt_board_slot *s, struct rbt_board_reader *w, uint32_t i,
	uint64_t now_ns, struct rbt_board_reading *ret, struct ends *ends)
{
	ret->n_syncs += atomic_load_explicit(&s->n_syncs, memory_order_acquire);
	bool in_sync = is_waiting(s);
	uint32_t n_synced = atomic_load_explicit(&s->n_synced, memory_order_acquire);
	uint64_t last_ns = atomic_load_explicit(&s->last_ns, memory_order_acquire);
	uint64_t total = get32(&s->n_polls);

	ret->n_polls += total;
	for (size_t kind = 0; kind < RBT_BOARD_KINDS; kind++) {
		uint64_t n = get64(&s->n[kind]);
		ret->n[kind] += n;
		total += n;
	}
	ret->in_sync = ret->in_sync || in_sync;
	last_ns = last_ns < now_ns ? last_ns : now_ns;
	bool is_synced = n_synced == (uint32_t)total;
	if (!is_synced && w->seen && total != w->n[i]) {
		last_ns = now_ns;
	}
	if (last_ns > w->active_ns[i]) {
		w->active_ns[i] = last_ns;
	}
	w->n[i] = total;
	note_end(ends, is_synced, w->active_ns[i]);
	if (w->active_ns[i] > ret->active_ns) {
		ret->active_ns = w->active_ns[i];
	}
}

static void next_tick(struct rbt_board *b)
{
	uint32_t tick = get32(&b->tick) + 1;

	atomic_store_explicit(&b->tick, tick != 0 ? tick : 1, memory_order_release);
}

void rbt_board_read(struct rbt_board *b, struct rbt_board_reader *w, uint64_t now_ns,
	struct rbt_board_reading *ret)
{
	uint32_t n_used = slots_used(b);
	struct rbt_board_reading r = {
		.requests_open = get32(&b->requests_open),
		.n_requests = get64(&b->n_requests),
		.n_late = get64(&b->n_late),
		.deadline_ns = get64(&b->deadline_ns),
		.n_pending = get64(&b->n_pending),
		/* An older library counts announced requests only. */
		.announces = has_lengths(b) ? get32(&b->announces) != 0 : get64(&b->n_requests) > 0,
	};

	struct ends ends = {0};

	for (uint32_t i = 0; i < n_used; i++) {
		read_slot(&b->slots[i], w, i, now_ns, &r, &ends);
	}
	r.in_flight = ends.submitted_ns > ends.synced_ns;
	for (size_t i = 0; i < RBT_BOARD_GAPS; i++) {
		r.gaps[i] = get32(&b->gaps[i]);
	}
	/* Below zero: more requests have ended than begun. */
	if (r.requests_open > INT32_MAX) {
		r.requests_open = 0;
	}
	r.in_request = r.requests_open > 0 && !is_overdue(r.deadline_ns, now_ns);
	if (r.in_sync || r.in_request) {
		r.active_ns = now_ns;
	}
	w->seen = true;
	w->n_syncs = r.n_syncs;
	next_tick(b);
	*ret = r;
}

uint64_t rbt_board_last_seen(const struct rbt_board_reader *w)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < RBT_BOARD_SLOTS; i++) {
		last_ns = w->active_ns[i] > last_ns ? w->active_ns[i] : last_ns;
	}
	return last_ns;
}

uint64_t rbt_board_submissions(const struct rbt_board_reading *r)
{
	uint64_t n = 0;

	for (size_t kind = 0; kind < RBT_BOARD_KINDS; kind++) {
		n += r->n[kind];
	}
	return n;
}

bool rbt_board_is_busy(const struct rbt_board_reading *r, uint64_t now_ns, uint64_t window_ns)
{
	if (r->in_sync || r->in_request) {
		return true;
	}
	return r->active_ns != 0 && now_ns - r->active_ns < window_ns;
}

void rbt_board_sleep(struct rbt_board *b)
{
	atomic_store_explicit(&b->asleep, RBT_BOARD_ASLEEP, memory_order_relaxed);
	/* Released last: a program that sees the new tick also sees that the daemon sleeps. */
	next_tick(b);
}

static bool has_request(const struct rbt_board *b, uint64_t now_ns)
{
	return get32(&b->requests_open) - 1 < INT32_MAX &&
	       !is_overdue(get64(&b->deadline_ns), now_ns);
}

bool rbt_board_is_in_use(const struct rbt_board *b, uint64_t now_ns)
{
	for (uint32_t i = 0, n = slots_used(b); i < n; i++) {
		if (is_waiting(&b->slots[i])) {
			return true;
		}
	}
	return has_request(b, now_ns);
}

static bool is_news(const struct rbt_board *b, const struct rbt_board_reader *w)
{
	uint32_t n_used = slots_used(b);

	for (uint32_t i = 0; i < n_used; i++) {
		if (is_waiting(&b->slots[i]) || rbt_board_total(&b->slots[i]) != w->n[i]) {
			return true;
		}
	}
	return has_request(b, rbt_now_ns());
}

/* Waits until the stores that a program made before it read the tick are visible. */
static void wait_for_stores(void)
{
	uint64_t end_ns = rbt_now_ns() + STORES_NS;

	while (rbt_now_ns() < end_ns) {
	}
	atomic_thread_fence(memory_order_seq_cst);
}

bool rbt_board_doze(struct rbt_board *b, const struct rbt_board_reader *w)
{
	rbt_board_sleep(b);
	wait_for_stores();
	if (!is_news(b, w)) {
		return true;
	}
	rbt_board_awake(b);
	return false;
}

bool rbt_board_await_end(struct rbt_board *b)
{
	atomic_store_explicit(&b->asleep, RBT_BOARD_AWAITS_END, memory_order_relaxed);
	/* Either the daemon sees that the request has ended, or the program that ends it sees
	 * AWAITS_END. */
	atomic_thread_fence(memory_order_seq_cst);
	if (get32(&b->requests_open) - 1 < INT32_MAX) {
		return true;
	}
	rbt_board_awake(b);
	return false;
}

bool rbt_board_await_sync(struct rbt_board *b, const struct rbt_board_reader *w)
{
	uint64_t n_syncs = 0;

	atomic_store_explicit(&b->asleep, RBT_BOARD_AWAITS_SYNC, memory_order_seq_cst);
	wait_for_stores();
	for (uint32_t i = 0, n = slots_used(b); i < n; i++) {
		n_syncs += get64(&b->slots[i].n_syncs);
	}
	if (n_syncs == w->n_syncs) {
		return true;
	}
	rbt_board_awake(b);
	return false;
}

bool rbt_board_awake(struct rbt_board *b)
{
	return atomic_exchange_explicit(&b->asleep, 0, memory_order_acq_rel) == 0;
}
