/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent suspends the program's queues by setting their percentage to 0. The driver then saves
 * the running state exactly as it is (CWSR). To resume, it restores the values that the program
 * itself has set.
 *
 * It is an ordinary thread of the C library, with all of the program's signals blocked. It ends if
 * there have been no queues for a while, because a program whose main thread has called
 * pthread_exit() lives as long as any thread does. (While there are queues, ROCm's runtime has
 * threads, too.)
 *
 * The agent polls the queues. A queue that should be off may run, because it is new or because the
 * program has set its values again; the agent suspends it. A queue that should run and does not is
 * tried again until it does.
 */
#include <errno.h>
#include <stddef.h>

#include "shim/config.h"
#include "shim/kfd.h"
#include "shim/shim.h"
#include "shim/submit.h"

#define PERCENTAGE_MASK 0xffu /* the byte above the percentage chooses a partition */
/* The hardware has three priorities for the driver's 16. The lowest one ends at LOW_PRIORITY, the
 * highest one begins at HIGH_PRIORITY. */
#define LOW_PRIORITY  6u
#define HIGH_PRIORITY 11u
/* While queues are off, the agent polls for new ones at least this often. */
#define OFF_LOOK_NS 5000000ull
/* When a queue that did not obey is tried again. */
#define RETRY_NS 20000000ull
/* A suspend fails if the program calls the driver for its queues for this long without a break. */
#define OWED_NS 100000000ull
/* How long the agent waits if another thread is using the table. */
#define BUSY_NS 50000ull
/* LINKED_NS: how often the agent checks that the daemon has all news. ALONE_NS to ALONE_MAX_NS: how
 * often it looks for a daemon if there is none, less and less often. */
#define LINKED_NS    250000000ull
#define ALONE_NS     500000000ull
#define ALONE_MAX_NS 8000000000ull
#define MAX_MESSAGES 16
/* How long the agent stays without queues. */
#define EMPTY_NS 500000000ull
/* How often the agent reads its socket if the program's sandbox refuses poll(). */
#define UNPOLLED_NS 5000000ull
/* How often the agent tries to restore everything if the sandbox refuses every way to wait. */
#define MAX_END_TRIES 1000

/* The process of the agent. A forked child has no agent. */
static _Atomic int32_t owner_pid;
/* A futex word, which changes when there is a new link to the hand. */
static _Atomic uint32_t poked;

void shim_agent_poke(void)
{
	poked++;
	shim_sys_futex_wake(&poked);
}

bool shim_agent_is_up(void)
{
	return owner_pid == shim_sys_getpid();
}

void shim_agent_ensure(struct shim *s)
{
	int32_t none = owner_pid;

	if (s->kfd.n_queues == 0 || shim_config.no_daemon || shim_config.socket[0] == '\0' ||
		none == s->pid || !atomic_compare_exchange_strong(&owner_pid, &none, s->pid)) {
		return;
	}
	if (shim_raw_start_thread(shim_agent_run) < 0) {
		owner_pid = 0;
		return;
	}
	s->kfd.can_poll = shim_kfd_can_poll();
	if (s->kfd.can_poll) {
		shim_submit_enable();
	}
}

/* Returns the earlier time. b_ns may be 0, which means never. */
static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return b_ns != 0 && b_ns < a_ns ? b_ns : a_ns;
}

/* Within a level, the program's own order among its queues stays. */
static uint32_t wanted_priority(const struct shim_kfd *k, const struct shim_queue *q)
{
	uint32_t own =
		q->own.queue_priority < KFD_MAX_PRIORITY ? q->own.queue_priority : KFD_MAX_PRIORITY;

	switch (k->level) {
	case RBT_AGENT_LEVEL_LOW:
		return own * LOW_PRIORITY / KFD_MAX_PRIORITY;
	case RBT_AGENT_LEVEL_HIGH:
		return HIGH_PRIORITY + own * (KFD_MAX_PRIORITY - HIGH_PRIORITY) / KFD_MAX_PRIORITY;
	default:
		return q->own.queue_priority;
	}
}

/*
 * Updates a queue. Returns 0 or -errno: -EAGAIN if the program is about to change the queue itself,
 * or has just done so and the shim has not taken this in yet; -ESTALE if the values to restore are
 * unknown. (A call's news are noted before the call ends, so checking in this order misses none.)
 */
static int update(struct shim *s, uint32_t id, struct kfd_update_queue *arg)
{
	struct shim_kfd *k = &s->kfd;
	int r = 0;

	k->acting_on = id + 1;
	if (k->in_call[id] != 0 || s->n_late > 0) {
		r = -EAGAIN;
	} else if (k->unknown[id]) {
		r = -ESTALE;
	} else if (shim_raw_ioctl(shim_fd_get(&shim_owned.kfd), KFD_IOC_UPDATE_QUEUE, arg) < 0) {
		r = -errno;
	}
	k->acting_on = 0;
	return r;
}

/* Gives one queue the state that it should have. */
static int settle_queue(struct shim *s, uint32_t id, bool off)
{
	struct shim_kfd *k = &s->kfd;
	struct shim_queue *q = &k->queues[id];
	struct kfd_update_queue arg = q->own;

	if (off) {
		arg.queue_percentage &= ~PERCENTAGE_MASK;
	}
	arg.queue_priority = wanted_priority(k, q);
	int r = update(s, id, &arg);
	if (r == 0) {
		q->off = off;
		q->leveled = arg.queue_priority != q->own.queue_priority;
		q->stale = false;
	}
	return r;
}

static bool shall_be_off(const struct shim_kfd *k, const struct shim_queue *q)
{
	return q->held || (shim_kfd_kind(q->type) & k->off_kinds) != 0;
}

static bool differs(const struct shim_kfd *k, const struct shim_queue *q)
{
	return q->off != shall_be_off(k, q) || q->stale ||
	       q->leveled != (wanted_priority(k, q) != q->own.queue_priority);
}

/* Makes sure that there is a file to call the driver with. The program may have closed our copy and
 * its own file. Its queues live on, and any KFD file of this process works. Returns 0 or -errno. */
static int obtain_file(void)
{
	if (shim_fd_valid(&shim_owned.kfd)) {
		return 0;
	}
	int fd = shim_raw_open_kfd();
	if (fd < 0) {
		return fd;
	}
	shim_owned.any = true;
	shim_fd_close(&shim_owned.kfd);
	if (shim_fd_dup(&shim_owned.kfd, fd) == 0) {
		shim_sys_close(fd);
		return 0;
	}
	/* There is no room above: a low number has to do, and is closed again soon. */
	int r = shim_fd_set(&shim_owned.kfd, fd);
	shim_owned.kfd_is_low = r == 0;
	return r;
}

static void release_file(void)
{
	if (shim_owned.kfd_is_low) {
		shim_fd_close(&shim_owned.kfd);
		shim_owned.kfd_is_low = false;
	}
}

/* Gives all queues the state that they should have. Returns the first error. -EAGAIN, if a queue
 * that should be off is in use by the program, counts last. -ESTALE counts only for queues that
 * should be off. */
static int settle_all(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;
	int file = 1; /* 1: not tried yet */
	uint32_t n_off = 0, n_waiting = 0;
	int first = 0;

	k->retry_ns = 0;
	for (uint32_t id = 0; id < k->n_used; id++) {
		struct shim_queue *q = &k->queues[id];
		if (q->used && differs(k, q)) {
			bool off = shall_be_off(k, q);
			file = file == 1 ? obtain_file() : file;
			int r = file == 0 ? settle_queue(s, id, off) : file;
			if (r < 0) {
				/* A queue that stays as it is needs no quick retry. */
				uint64_t wait_ns = k->unknown[id] ? LINKED_NS
						   : r != -EAGAIN ? RETRY_NS
								  : BUSY_NS;
				k->retry_ns = earlier(now_ns + wait_ns, k->retry_ns);
				n_waiting += off && r == -EAGAIN;
			}
			first = first == 0 && r != -EAGAIN && (off || r != -ESTALE) ? r : first;
		}
		n_off += q->off;
	}
	release_file();
	*ret_n_off = n_off;
	return first < 0 ? first : n_waiting > 0 ? -EAGAIN : 0;
}

static bool is_queue(const struct shim_kfd *k, uint32_t id)
{
	return id < k->n_used && k->queues[id].used;
}

/* Undoes the last suspend. */
static void undo(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;

	k->off_kinds = k->owed_before;
	if (k->owed_queue != 0) {
		shim_kfd_release(k, k->owed_queue - 1);
	}
	(void)settle_all(s, now_ns, ret_n_off);
}

/* Notes what a request wants off, and how to undo that. Returns 0 or -errno. */
static int want_off(struct shim_kfd *k, const struct rbt_agent_request *req, uint64_t now_ns)
{
	bool is_one = req->op == RBT_AGENT_HOLD_QUEUE;

	/* The request is old: the program was stopped meanwhile. */
	if (req->value <= now_ns) {
		return -ETIMEDOUT;
	}
	if (is_one && !is_queue(k, req->kinds)) {
		return -ENOENT;
	}
	k->owed_before = k->off_kinds;
	k->owed_queue = is_one && !k->queues[req->kinds].held ? req->kinds + 1 : 0;
	if (k->owed_queue != 0) {
		k->queues[req->kinds].held = true;
		k->n_held++;
	} else if (!is_one) {
		k->off_kinds |= req->kinds;
	}
	k->deadline_ns = req->value;
	return 0;
}

/* Suspends all queues or none: if one cannot be suspended, those that ran before are resumed. */
static int suspend(
	struct shim *s, const struct rbt_agent_request *req, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;
	int r = want_off(k, req, now_ns);

	if (r < 0) {
		return r;
	}
	r = settle_all(s, now_ns, ret_n_off);
	k->owes = r == -EAGAIN;
	if (k->owes) {
		k->owed_seq = req->seq;
		k->owed_until_ns = now_ns + OWED_NS;
	} else if (r < 0) {
		undo(s, now_ns, ret_n_off);
	}
	return r == -ESTALE ? -EBUSY : r;
}

static int resume(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off)
{
	s->kfd.owes = false;
	int r = settle_all(s, now_ns, ret_n_off);
	/* These are about queues that are still to be off. */
	return r == -EAGAIN || r == -ESTALE ? 0 : r;
}

/* If there is no room for the reply, the hand has stopped waiting for it. */
static void answer(const struct rbt_agent_reply *reply)
{
	(void)shim_sys_send(shim_fd_get(&shim_owned.link), reply, sizeof(*reply), -1);
}

/* Answers a suspend that could not be finished at once. r: the result of this round. */
static void answer_owed(struct shim *s, int r, uint32_t n_off, uint64_t now_ns)
{
	struct shim_kfd *k = &s->kfd;

	if (!k->owes || (r == -EAGAIN && now_ns < k->owed_until_ns)) {
		return;
	}
	if (r < 0) {
		undo(s, now_ns, &n_off);
	}
	k->owes = false;
	if (shim_fd_valid(&shim_owned.link)) {
		answer(&(struct rbt_agent_reply){.magic = RBT_AGENT_MAGIC,
			.seq = k->owed_seq,
			.error = r == -EAGAIN || r == -ESTALE ? -EBUSY : r,
			.n = n_off});
	}
}

static int preempt(struct shim *s, uint32_t id)
{
	const struct shim_kfd *k = &s->kfd;

	if (!is_queue(k, id)) {
		return -ENOENT;
	}
	if (k->queues[id].off) {
		return 0;
	}
	int r = obtain_file();
	if (r < 0) {
		return r;
	}
	r = settle_queue(s, id, true);
	int back = settle_queue(s, id, false);
	release_file();
	r = r < 0 ? r : back;
	return r == -ESTALE ? -EBUSY : r;
}

bool shim_agent_obey(struct shim *s, const struct rbt_agent_request *req, uint64_t now_ns,
	struct rbt_agent_reply *ret)
{
	struct shim_kfd *k = &s->kfd;

	*ret = (struct rbt_agent_reply){.magic = RBT_AGENT_MAGIC, .seq = req->seq};
	switch (req->op) {
	case RBT_AGENT_SUSPEND:
	case RBT_AGENT_HOLD_QUEUE:
		ret->error = suspend(s, req, now_ns, &ret->n);
		return ret->error != -EAGAIN;
	case RBT_AGENT_RESUME:
		k->off_kinds &= ~req->kinds;
		ret->error = resume(s, now_ns, &ret->n);
		return true;
	case RBT_AGENT_RELEASE_QUEUE:
		if (is_queue(k, req->kinds)) {
			shim_kfd_release(k, req->kinds);
		}
		ret->error = resume(s, now_ns, &ret->n);
		return true;
	case RBT_AGENT_PREEMPT:
		ret->error = preempt(s, req->kinds);
		return true;
	case RBT_AGENT_RENEW:
		k->deadline_ns = req->value;
		return false;
	case RBT_AGENT_WATCH:
		k->poll_us = (uint32_t)req->value;
		k->poll_ns = k->poll_us != 0 ? now_ns : 0;
		return false;
	case RBT_AGENT_LEVEL:
		k->level = req->value <= RBT_AGENT_LEVEL_HIGH ? (uint32_t)req->value : k->level;
		(void)settle_all(s, now_ns, &ret->n);
		return false;
	default:
		ret->error = -EINVAL;
		return true;
	}
}

/* Carries out the hand's requests. Returns false if the other end is closed. */
static bool listen(struct shim *s, uint64_t now_ns)
{
	for (int i = 0; i < MAX_MESSAGES; i++) {
		struct rbt_agent_request req;
		struct rbt_agent_reply reply;
		if (!shim_fd_valid(&shim_owned.link)) {
			return false;
		}
		int n = shim_sys_recv(shim_fd_get(&shim_owned.link), &req, sizeof(req));
		if (n == -EAGAIN || n == -EINTR) {
			return true;
		}
		if (n != sizeof(req) || req.magic != RBT_AGENT_MAGIC) {
			return false;
		}
		if (shim_agent_obey(s, &req, now_ns, &reply)) {
			answer(&reply);
		}
	}
	return true;
}

static void want_all_on(struct shim_kfd *k)
{
	k->off_kinds = 0;
	for (uint32_t id = 0; id < k->n_used && k->n_held > 0; id++) {
		shim_kfd_release(k, id);
	}
}

/* The hand or daemon has gone: all queues get what the program has set. */
static void let_go(struct shim_kfd *k)
{
	want_all_on(k);
	k->owes = false;
	k->level = RBT_AGENT_LEVEL_OWN;
	k->poll_us = 0;
	k->poll_ns = 0;
}

bool shim_agent_end(struct shim *s, uint64_t now_ns)
{
	uint32_t n_off;

	let_go(&s->kfd);
	(void)settle_all(s, now_ns, &n_off);
	if (n_off > 0) {
		return false;
	}
	shim_kfd_stop_polling(s, now_ns);
	shim_fd_close(&shim_owned.link);
	shim_kfd_withdraw(s);
	owner_pid = 0;
	return true;
}

static uint64_t next_step(const struct shim_kfd *k, uint64_t now_ns)
{
	uint64_t at_ns = earlier(UINT64_MAX, k->retry_ns);

	at_ns = earlier(at_ns, k->poll_ns);
	if (k->off_kinds != 0 || k->n_held > 0) {
		at_ns = earlier(at_ns, k->deadline_ns);
		at_ns = earlier(at_ns, now_ns + OFF_LOOK_NS);
	}
	return at_ns;
}

uint64_t shim_agent_step(struct shim *s, uint64_t now_ns)
{
	struct shim_kfd *k = &s->kfd;
	uint32_t n_off;

	if (shim_fd_get(&shim_owned.link) >= 0 && !listen(s, now_ns)) {
		shim_fd_close(&shim_owned.link);
		let_go(k);
		/* The daemon may have closed the link and still be there, so it is told everything
		 * again. */
		k->told = false;
		k->dirty = k->n_queues > 0;
		s->touched = true;
	}
	if (k->lossy && !k->partial) {
		k->partial = k->dirty = s->touched = true;
	}
	if (k->off_kinds != 0 || k->n_held > 0) {
		uint64_t lease_ns = now_ns + RBT_AGENT_LEASE_NS;
		k->deadline_ns = k->deadline_ns < lease_ns ? k->deadline_ns : lease_ns;
		if (now_ns >= k->deadline_ns) {
			want_all_on(k);
		}
	}
	int r = settle_all(s, now_ns, &n_off);
	answer_owed(s, r, n_off, now_ns);
	if (k->poll_ns != 0 && now_ns >= k->poll_ns) {
		shim_kfd_poll(s, now_ns);
		k->poll_ns = now_ns + k->poll_us * 1000ull;
	}
	return next_step(k, now_ns);
}

struct life {
	uint64_t next_ns;  /* when the next round is due */
	uint64_t alone_ns; /* the interval for looking for a daemon */
	uint64_t empty_ns; /* since when there are no queues; 0: there are some */
};

/* Whether there have been no queues for long enough, and the daemon knows that. */
static bool is_over(struct life *l, const struct shim_kfd *k, uint64_t now_ns)
{
	if (k->n_queues > 0) {
		l->empty_ns = 0;
		return false;
	}
	l->empty_ns = l->empty_ns != 0 ? l->empty_ns : now_ns;
	l->next_ns = earlier(l->next_ns, l->empty_ns + EMPTY_NS);
	return !k->dirty && now_ns >= l->empty_ns + EMPTY_NS;
}

/* One round: takes in the news of other threads, carries out the hand's requests and, without a
 * daemon, looks for one. Returns false at the end: the process is a forked child, or has no queues
 * any more. */
static bool live_once(struct life *l)
{
	uint64_t now_ns = shim_raw_now_ns();
	struct shim_guard g;
	int r = shim_enter(&g);

	if (r == -EBUSY) {
		l->next_ns = now_ns + BUSY_NS;
		return true;
	}
	if (r < 0) {
		return false;
	}
	shim_take_in(g.s, now_ns);
	l->next_ns = shim_agent_step(g.s, now_ns);
	if (shim_fd_get(&shim_owned.link) >= 0) {
		l->alone_ns = ALONE_NS;
		/* A message that the daemon had no room for is sent later, even if the program
		 * makes no more calls. Nothing else would trigger that. */
		l->next_ns = earlier(l->next_ns, now_ns + (g.s->kfd.dirty ? RETRY_NS : LINKED_NS));
	} else if (g.s->touched) {
		l->next_ns = now_ns + BUSY_NS;
	} else if (g.s->kfd.n_queues > 0) {
		l->next_ns = earlier(l->next_ns, now_ns + l->alone_ns);
		l->alone_ns = l->alone_ns * 2 < ALONE_MAX_NS ? l->alone_ns * 2 : ALONE_MAX_NS;
	}
	bool has_ended = is_over(l, &g.s->kfd, now_ns) && shim_agent_end(g.s, now_ns);
	shim_leave(&g);
	return !has_ended;
}

/* Waits until the next round is due or a request arrives. Returns false if no way to wait works. */
static bool doze(uint64_t next_ns, uint32_t seen)
{
	for (;;) {
		int link = shim_fd_get(&shim_owned.link);
		uint64_t now_ns = shim_raw_now_ns();
		uint64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;
		int r = link >= 0 ? shim_sys_wait_readable(link, wait_ns) : -ENOTCONN;
		if (r < 0 && r != -EINTR) {
			r = shim_sys_wait_word(
				&poked, seen, link >= 0 ? earlier(wait_ns, UNPOLLED_NS) : wait_ns);
			if (r < 0) {
				return r == -EINTR;
			}
			r = r > 0 || link >= 0;
		}
		if (r != 0 || shim_raw_now_ns() >= next_ns) {
			return true;
		}
	}
}

static void give_up(void)
{
	struct shim_guard g;
	bool has_ended = false;

	for (int i = 0; i < MAX_END_TRIES && !has_ended; i++) {
		int r = shim_enter(&g);
		if (r == 0) {
			has_ended = shim_agent_end(g.s, shim_raw_now_ns());
			shim_leave(&g);
		} else if (r != -EBUSY) {
			return;
		}
		shim_sys_yield();
	}
}

void shim_agent_run(void)
{
	struct life life = {.alone_ns = ALONE_NS};
	uint32_t seen = poked;

	while (live_once(&life)) {
		if (!doze(life.next_ns, seen)) {
			give_up();
			return;
		}
		seen = poked;
	}
}
