/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board stays at one address for the life of the process, so that a thread's slot stays valid;
 * its memory is replaced instead. It is private memory at first, a memfd for each connection to a
 * daemon, and private memory again in a forked child, whose submissions are not its parent's. (A
 * child that was made without libc counts on its parent's board until it connects.)
 */
#include "shim/submit.h"

#include <errno.h>
#include <stddef.h>

#include "shim/clock.h"
#include "shim/sys.h"

/* Start times of this thread's open requests; deeper nested ones are not timed. */
#define MAX_NESTED 8
static __thread struct {
	uint64_t began_ns, deadline_ns;
} requests[MAX_NESTED] __attribute__((tls_model("initial-exec")));
static __thread uint32_t n_requests __attribute__((tls_model("initial-exec")));
static __thread bool shares __attribute__((tls_model("initial-exec"))); /* uses slot 0, for good */

static _Atomic(struct rbt_board *) board;
static atomic_bool enabled;
static void (*_Atomic also)(uint64_t now_ns);
static atomic_bool fork_watched;
static _Atomic uint32_t owners[RBT_BOARD_THREADS]; /* thread ids; slot 0 belongs to no thread */
static _Atomic uint32_t next_victim = 1;

/*
 * State that must survive a change of boards. While a board is replaced, other threads may write to
 * the old one, and such writes are lost. For counters that does not matter, but these values would
 * stay wrong. So they are kept here, and the board has copies. shim_in_sync[i] belongs to the owner
 * of slot i; slot 0's is shared.
 */
_Atomic uint32_t shim_in_sync[RBT_BOARD_THREADS];
static struct {
	_Atomic uint32_t requests_open;
	_Atomic uint64_t deadline_ns;
} ongoing;

extern int __register_atfork(
	void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso_handle);
extern void *__dso_handle __attribute__((visibility("hidden")));

/*
 * Copies until both agree. A thread that changes the original does so before it writes its copy. A
 * full barrier is between our copy and the second read: either we see its change, or its copy comes
 * after ours.
 */
static void publish32(_Atomic uint32_t *to, const _Atomic uint32_t *truth)
{
	uint32_t value;

	do {
		value = atomic_load(truth);
		atomic_exchange(to, value);
	} while (atomic_load(truth) != value);
}

static void publish64(_Atomic uint64_t *to, const _Atomic uint64_t *truth)
{
	uint64_t value;

	do {
		value = atomic_load(truth);
		atomic_exchange(to, value);
	} while (atomic_load(truth) != value);
}

static void publish_requests(struct rbt_board *b)
{
	publish64(&b->deadline_ns, &ongoing.deadline_ns);
	publish32(&b->requests_open, &ongoing.requests_open);
}

static void forget_ongoing(void)
{
	for (uint32_t i = 0; i < RBT_BOARD_THREADS; i++) {
		shim_in_sync[i] = 0;
	}
	ongoing.requests_open = 0;
	ongoing.deadline_ns = 0;
	shim_own.sync_depth = 0;
	shim_own.also_ns = 0;
}

static void after_fork_in_child(void)
{
	struct rbt_board *b = atomic_load_explicit(&board, memory_order_acquire);
	uint32_t features = b != NULL ? b->features : 0;
	uint32_t mine =
		b != NULL && shim_own.slot != NULL ? (uint32_t)(shim_own.slot - b->slots) : 0;

	for (uint32_t i = 1; i < RBT_BOARD_THREADS; i++) {
		owners[i] = i == mine ? shim_sys_gettid() : 0;
	}
	if (b != NULL && shim_sys_map_private(b, RBT_BOARD_SIZE) == 0) {
		rbt_board_init(b);
		b->features = features;
		atomic_store_explicit(&b->n_used, mine + 1, memory_order_relaxed);
	}
	n_requests = 0;
	forget_ongoing();
}

struct rbt_board *shim_board_obtain(void)
{
	struct rbt_board *b = atomic_load_explicit(&board, memory_order_acquire);
	bool no = false;

	if (b != NULL) {
		return b;
	}
	struct rbt_board *fresh = shim_sys_mmap(RBT_BOARD_SIZE);
	if (fresh == NULL) {
		return NULL;
	}
	rbt_board_init(fresh);
	atomic_store_explicit(&fresh->n_used, 1, memory_order_relaxed);
	if (!atomic_compare_exchange_strong(&board, &b, fresh)) {
		shim_sys_munmap(fresh, RBT_BOARD_SIZE);
		return b;
	}
	if (atomic_compare_exchange_strong(&fork_watched, &no, true)) {
		__register_atfork(NULL, NULL, after_fork_in_child, __dso_handle);
	}
	return fresh;
}

struct rbt_board *shim_board_peek(void)
{
	return atomic_load_explicit(&board, memory_order_acquire);
}

/* Takes over the slot of a thread that has ended; the search starts where the last one stopped. */
static bool take_over(uint32_t i, uint32_t tid)
{
	uint32_t owner = owners[i];

	return (owner == 0 || !shim_sys_thread_alive(owner)) &&
	       atomic_compare_exchange_strong(&owners[i], &owner, tid);
}

static struct rbt_board_slot *find_slot(struct rbt_board *b, uint32_t tid)
{
	for (uint32_t n = 1; n < RBT_BOARD_THREADS; n++) {
		uint32_t i = 1 + (next_victim++ - 1) % (RBT_BOARD_THREADS - 1);
		if (!take_over(i, tid)) {
			continue;
		}
		/* Its counters continue; only the wait of its last owner has ended. */
		atomic_store_explicit(&shim_in_sync[i], 0, memory_order_relaxed);
		atomic_store_explicit(&b->slots[i].in_sync, 0, memory_order_release);
		uint32_t used = atomic_load_explicit(&b->n_used, memory_order_relaxed);
		while (used <= i && !atomic_compare_exchange_weak(&b->n_used, &used, i + 1)) {
		}
		return &b->slots[i];
	}
	return NULL;
}

static __attribute__((noinline)) struct rbt_board_slot *obtain_first_slot(void)
{
	int saved_errno = errno;
	struct rbt_board *b = shim_board_obtain();

	if (b == NULL) {
		errno = saved_errno;
		return NULL;
	}
	if (!shares) {
		shim_own.slot = find_slot(b, shim_sys_gettid());
		shares = shim_own.slot == NULL;
	}
	errno = saved_errno;
	return shares ? &b->slots[0] : shim_own.slot;
}

/* This thread's slot: its own, or the shared one; NULL: there is no board. */
static inline struct rbt_board_slot *obtain_slot(void)
{
	return __builtin_expect(shim_own.slot != NULL, 1) ? shim_own.slot : obtain_first_slot();
}

struct rbt_board_slot *shim_board_claim(uint32_t tid)
{
	struct rbt_board *b = shim_board_obtain();

	return b != NULL ? find_slot(b, tid) : NULL;
}

void shim_wake(struct rbt_board *b, uint32_t way)
{
	uint32_t expected = way;

	if (!atomic_compare_exchange_strong(&b->asleep, &expected, 0)) {
		return;
	}
	int saved_errno = errno;
	shim_sys_futex_wake(&b->asleep);
	errno = saved_errno;
}

/* Wakes the daemon if it sleeps in this way. */
static inline void wake_from(struct rbt_board *b, uint32_t way)
{
	uint32_t asleep = atomic_load_explicit(&b->asleep, memory_order_relaxed);

	if (__builtin_expect(asleep == way, 0)) {
		shim_wake(b, way);
	}
}

static uint64_t last_activity_ns(struct rbt_board *b)
{
	uint32_t n = atomic_load_explicit(&b->n_used, memory_order_relaxed);
	uint64_t last_ns = 0;

	for (uint32_t i = 0; i < n && i < RBT_BOARD_SLOTS; i++) {
		uint64_t ns = atomic_load_explicit(&b->slots[i].last_ns, memory_order_relaxed);
		last_ns = ns > last_ns ? ns : last_ns;
	}
	return last_ns;
}

/* When the program was last active. If this slot's own time makes a gap of the shortest class, it
 * is used as it is, because other slots could only make the gap shorter. */
static uint64_t before_gap_ns(struct rbt_board_slot *s, uint64_t now_ns)
{
	uint64_t own_ns = atomic_load_explicit(&s->last_ns, memory_order_relaxed);

	return own_ns != 0 && now_ns - own_ns < RBT_BOARD_GAP_UNIT_NS
		       ? own_ns
		       : last_activity_ns(shim_board_of(s));
}

/* For how many gaps a measured one counts; and whether all are measured from now on. In the shared
 * slot they always are. */
static uint32_t weigh_gap(struct rbt_board_slot *s, uint64_t gap_ns, uint64_t now_ns)
{
	uint32_t random = shim_own.random;

	if (s != shim_own.slot) {
		return 1;
	}
	if (gap_ns >= RBT_BOARD_GAP_UNIT_NS) {
		shim_own.random = 0;
	} else if (random == 0) {
		shim_own.random = (uint32_t)now_ns | 1;
	}
	return random == 0 ? 1 : RBT_BOARD_GAP_SAMPLE;
}

static void note_gap(struct rbt_board_slot *s, uint64_t now_ns)
{
	struct rbt_board *b = shim_board_of(s);
	uint64_t last_ns = before_gap_ns(s, now_ns);

	if (last_ns == 0 || last_ns >= now_ns) {
		return;
	}
	uint64_t gap_ns = now_ns - last_ns;
	uint32_t n = weigh_gap(s, gap_ns, now_ns);
	atomic_fetch_add_explicit(
		&b->gaps[rbt_board_bucket(gap_ns, RBT_BOARD_GAP_UNIT_NS, RBT_BOARD_GAPS)], n,
		memory_order_relaxed);
}

/* A gap that was not to be measured. It is not counted: long gaps, in which a daemon is more likely
 * to have looked, would be counted more often than short ones. But after a long one all are
 * measured. */
static void see_gap(struct rbt_board_slot *s, uint64_t now_ns)
{
	uint32_t n_synced = atomic_load_explicit(&s->n_synced, memory_order_relaxed);
	uint64_t last_ns = atomic_load_explicit(&s->last_ns, memory_order_relaxed);

	/* This submission is counted already. */
	if (s == shim_own.slot && n_synced + 1 == (uint32_t)rbt_board_total(s) &&
		now_ns - last_ns >= RBT_BOARD_GAP_UNIT_NS) {
		shim_own.random = 0;
	}
}

/* The first submission after the daemon has looked, or one whose gap is to be measured. */
static void note(struct rbt_board_slot *s)
{
	struct rbt_board *b = shim_board_of(s);

	/* First of all: the daemon sleeps until this. */
	wake_from(b, RBT_BOARD_ASLEEP);
	uint64_t now_ns = shim_clock_now_ns();
	if (atomic_load_explicit(&s->tick, memory_order_relaxed) == 0) {
		note_gap(s, now_ns);
	} else {
		see_gap(s, now_ns);
	}
	/* A release: a reader that sees this time also sees the submission after the
	 * synchronisation. */
	atomic_store_explicit(&s->last_ns, now_ns, memory_order_release);
	/* Read again: the board may have been replaced. */
	atomic_store_explicit(&s->tick, atomic_load_explicit(&b->tick, memory_order_relaxed),
		memory_order_release);
}

void shim_count_slow(uint32_t kind)
{
	struct rbt_board_slot *s = shim_own.slot;

	if (s != NULL) {
		note(s);
		return;
	}
	s = obtain_slot();
	if (s == NULL) {
		return;
	}
	atomic_fetch_add_explicit(&s->n[kind], 1, memory_order_relaxed);
	if (atomic_load_explicit(&s->tick, memory_order_relaxed) !=
		atomic_load_explicit(&shim_board_of(s)->tick, memory_order_acquire)) {
		note(s);
	}
}

/* Additions and subtractions are modulo 2^32. */
static __attribute__((noinline)) void add_in_sync(struct rbt_board_slot *s, uint32_t change)
{
	atomic_fetch_add(&shim_in_sync[0], change);
	publish32(&s->in_sync, &shim_in_sync[0]);
}

static inline void set_in_sync(struct rbt_board_slot *s, uint32_t depth)
{
	if (__builtin_expect(shares, 0)) {
		add_in_sync(s, depth - shim_own.sync_depth);
	} else {
		struct rbt_board *b = shim_board_of(s);
		atomic_store_explicit(&shim_in_sync[s - b->slots], depth, memory_order_relaxed);
		atomic_store_explicit(&s->in_sync, depth, memory_order_release);
	}
	shim_own.sync_depth = depth;
}

uint32_t shim_sync_begin(void)
{
	struct rbt_board_slot *s = obtain_slot();
	uint32_t depth = shim_own.sync_depth;

	if (s == NULL) {
		return 0;
	}
	set_in_sync(s, depth + 1);
	/* A program that was silent for a while counts as idle, and may be kept off the GPU with
	 * work on it that this call waits for. As with submissions, the daemon looks once more. */
	wake_from(shim_board_of(s), RBT_BOARD_ASLEEP);
	return depth;
}

void shim_sync_also_now(uint64_t now_ns)
{
	void (*then)(uint64_t) = atomic_load_explicit(&also, memory_order_relaxed);

	shim_own.also_ns = now_ns;
	if (then != NULL) {
		then(now_ns);
	}
}

/* n_synced never goes back: other threads may share the slot. */
static void note_synced(struct rbt_board_slot *s)
{
	uint32_t total = (uint32_t)rbt_board_total(s);
	uint32_t old = atomic_load_explicit(&s->n_synced, memory_order_relaxed);

	while ((int32_t)(total - old) > 0 &&
		!atomic_compare_exchange_weak_explicit(
			&s->n_synced, &old, total, memory_order_release, memory_order_relaxed)) {
	}
}

void shim_sync_end_slow(uint32_t depth)
{
	struct rbt_board_slot *s = obtain_slot();

	if (s == NULL) {
		return;
	}
	/* The time is needed only if a daemon looks. */
	bool is_watched = atomic_load_explicit(&shim_board_of(s)->tick, memory_order_relaxed) != 0;
	bool has_more = atomic_load_explicit(&also, memory_order_relaxed) != NULL;
	uint64_t now_ns = is_watched || has_more ? shim_clock_now_ns() : 0;
	if (is_watched) {
		atomic_store_explicit(&s->last_ns, now_ns, memory_order_release);
		note_synced(s);
	}
	atomic_store_explicit(&s->tick, 0, memory_order_relaxed);
	/* In a child that was forked during the call, the wait is over already. */
	if (depth < shim_own.sync_depth) {
		set_in_sync(s, depth);
	}
	if (shares) {
		atomic_fetch_add_explicit(&s->n_syncs, 1, memory_order_release);
	} else {
		uint64_t n = atomic_load_explicit(&s->n_syncs, memory_order_relaxed);
		atomic_store_explicit(&s->n_syncs, n + 1, memory_order_release);
	}
	wake_from(shim_board_of(s), RBT_BOARD_AWAITS_SYNC);
	if (has_more && now_ns - shim_own.also_ns >= SHIM_ALSO_NS) {
		shim_sync_also_now(now_ns);
	}
}

void shim_sync_also(void (*fn)(uint64_t now_ns))
{
	atomic_store_explicit(&also, fn, memory_order_relaxed);
}

void shim_count_poll(void)
{
	struct rbt_board_slot *s = obtain_slot();

	if (s == NULL) {
		return;
	}
	atomic_fetch_add_explicit(&s->n_polls, 1, memory_order_relaxed);
	if (atomic_load_explicit(&s->tick, memory_order_relaxed) !=
		atomic_load_explicit(&shim_board_of(s)->tick, memory_order_acquire)) {
		note(s);
	}
}

/* The earliest deadline of all open requests, or slightly earlier. It is cleared when all have
 * ended. */
static void note_deadline(uint64_t deadline_ns)
{
	uint64_t old_ns = ongoing.deadline_ns;

	while ((old_ns == 0 || deadline_ns < old_ns) &&
		!atomic_compare_exchange_weak(&ongoing.deadline_ns, &old_ns, deadline_ns)) {
	}
}

void shim_request_begin(uint64_t deadline_ns)
{
	struct rbt_board_slot *s = obtain_slot();

	if (s == NULL) {
		return;
	}
	struct rbt_board *b = shim_board_of(s);
	uint64_t now_ns = shim_raw_now_ns();
	if (deadline_ns != 0) {
		deadline_ns = deadline_ns < UINT64_MAX - now_ns ? now_ns + deadline_ns : UINT64_MAX;
		note_deadline(deadline_ns);
	}
	if (n_requests < MAX_NESTED) {
		requests[n_requests].began_ns = now_ns;
		requests[n_requests].deadline_ns = deadline_ns;
	}
	n_requests++;
	atomic_store_explicit(&b->announces, 1, memory_order_relaxed);
	ongoing.requests_open++;
	/* A full barrier: the change is on the board before we check whether the daemon sleeps. */
	publish_requests(b);
	wake_from(b, RBT_BOARD_ASLEEP);
	wake_from(b, RBT_BOARD_AWAITS_SYNC);
}

static void request_timed(struct rbt_board *b, uint64_t began_ns, uint64_t deadline_ns)
{
	uint64_t now_ns = shim_raw_now_ns();
	uint64_t took_ns = now_ns - began_ns;

	rbt_board_add_length(b, took_ns);
	if (deadline_ns != 0 && now_ns > deadline_ns) {
		atomic_fetch_add_explicit(&b->n_late, 1, memory_order_relaxed);
	}
}

void shim_request_end(void)
{
	struct rbt_board_slot *s = obtain_slot();

	if (s == NULL) {
		return;
	}
	struct rbt_board *b = shim_board_of(s);
	uint32_t open = ongoing.requests_open;
	do {
		if (open == 0) {
			return; /* more requests have ended than begun */
		}
	} while (!atomic_compare_exchange_weak(&ongoing.requests_open, &open, open - 1));
	if (open == 1) {
		ongoing.deadline_ns = 0;
	}
	publish_requests(b);
	atomic_fetch_add_explicit(&b->n_requests, 1, memory_order_relaxed);
	if (open == 1) {
		wake_from(b, RBT_BOARD_AWAITS_END);
	}
	/* If another thread began it, its length is unknown. */
	if (n_requests > 0 && --n_requests < MAX_NESTED) {
		request_timed(b, requests[n_requests].began_ns, requests[n_requests].deadline_ns);
	}
}

void shim_submit_enable(void)
{
	if (!atomic_load_explicit(&enabled, memory_order_relaxed)) {
		shim_clock_start();
		atomic_store_explicit(&enabled, true, memory_order_relaxed);
	}
}

bool shim_submit_enabled(void)
{
	return atomic_load_explicit(&enabled, memory_order_relaxed);
}

static void copy64(_Atomic uint64_t *to, const _Atomic uint64_t *from)
{
	atomic_store_explicit(
		to, atomic_load_explicit(from, memory_order_relaxed), memory_order_relaxed);
}

static void copy32(_Atomic uint32_t *to, const _Atomic uint32_t *from)
{
	atomic_store_explicit(
		to, atomic_load_explicit(from, memory_order_relaxed), memory_order_relaxed);
}

/* Copies the counters; not the daemon's fields, times, or the state above. */
static void copy_board(struct rbt_board *to, const struct rbt_board *from)
{
	rbt_board_init(to);
	to->features = from->features;
	copy32(&to->n_used, &from->n_used);
	copy64(&to->n_calls, &from->n_calls);
	copy64(&to->n_requests, &from->n_requests);
	copy64(&to->n_late, &from->n_late);
	copy64(&to->request_ns, &from->request_ns);
	for (uint32_t i = 0; i < RBT_BOARD_GAPS; i++) {
		copy32(&to->gaps[i], &from->gaps[i]);
	}
	copy32(&to->announces, &from->announces);
	for (uint32_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		copy32(&to->lengths.n[i], &from->lengths.n[i]);
	}
	copy64(&to->lengths.max_ns, &from->lengths.max_ns);
	for (uint32_t i = 0; i < RBT_BOARD_THREADS; i++) {
		/* First: it must never exceed the counters. */
		to->slots[i].n_synced =
			atomic_load_explicit(&from->slots[i].n_synced, memory_order_acquire);
		for (uint32_t kind = 0; kind < RBT_BOARD_KINDS; kind++) {
			copy64(&to->slots[i].n[kind], &from->slots[i].n[kind]);
		}
		copy64(&to->slots[i].n_syncs, &from->slots[i].n_syncs);
		copy32(&to->slots[i].n_polls, &from->slots[i].n_polls);
	}
}

int shim_board_share(void)
{
	struct rbt_board *b = shim_board_obtain();
	int fd = b != NULL ? rbt_board_create_fd() : -ENOMEM;

	if (fd < 0) {
		return fd;
	}
	struct rbt_board *fresh = shim_sys_map_shared(NULL, RBT_BOARD_SIZE, fd);
	if (fresh == NULL) {
		shim_sys_close(fd);
		return -ENOMEM;
	}
	/* Other threads go on counting: what they count at this moment is lost. */
	copy_board(fresh, b);
	shim_sys_munmap(fresh, RBT_BOARD_SIZE);
	if (shim_sys_map_shared(b, RBT_BOARD_SIZE, fd) == NULL) {
		shim_sys_close(fd);
		return -ENOMEM;
	}
	/* No thread writes to the old board any more. */
	for (uint32_t i = 0; i < RBT_BOARD_THREADS; i++) {
		publish32(&b->slots[i].in_sync, &shim_in_sync[i]);
	}
	publish_requests(b);
	return fd;
}

void shim_board_unshare(void)
{
	struct rbt_board *b = atomic_load_explicit(&board, memory_order_acquire);

	if (b != NULL) {
		atomic_store_explicit(&b->asleep, 0, memory_order_relaxed);
		atomic_store_explicit(&b->tick, 0, memory_order_relaxed);
	}
}
