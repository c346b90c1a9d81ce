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
#include <string.h>

#include "shim/config.h"
#include "shim/kfd.h"
#include "shim/shim.h"
#include "shim/submit.h"

/* While queues are off, the agent polls for new ones at least this often. */
#define OFF_LOOK_NS 5000000ull
/* A suspend fails if the program calls the driver for its queues for this long without a break. */
#define OWED_NS 100000000ull
/* From ALONE_NS to ALONE_MAX_NS: how often the agent looks for a daemon if there is none, less and
 * less often. */
#define ALONE_NS     500000000ull
#define ALONE_MAX_NS 8000000000ull
#define MAX_MESSAGES 16
/* How long the agent stays without queues. */
#define EMPTY_NS 500000000ull
/* How often the agent reads its socket if the program's sandbox refuses poll(). */
#define UNPOLLED_NS 5000000ull
/* How often the agent tries to restore everything if the sandbox refuses every way to wait. */
#define MAX_END_TRIES 1000
/* How long the agent tries to resume queues that are not followed any more: some may be gone. */
#define LEAVE_NS 1000000000ull

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

static bool is_queue(const struct shim_kfd *k, uint32_t id)
{
	return id < k->n_used && k->queues[id].used;
}

/* Whether there is such a queue, and it is not a later one with the same number. */
static bool is_meant(const struct shim_kfd *k, uint32_t queue)
{
	uint32_t id = RBT_AGENT_NUMBER(queue), serial = RBT_AGENT_SERIAL(queue);

	return is_queue(k, id) && (serial == 0 || serial == shim_kfd_serial(&k->queues[id]));
}

/* Undoes the last suspend. */
static void undo(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;

	k->off_kinds = k->owed_before;
	if (k->owed_queue != 0) {
		shim_kfd_release(k, k->owed_queue - 1);
	}
	(void)shim_kfd_settle(s, now_ns, ret_n_off);
}

/* Notes what a request wants off, and how to undo that. Returns 0 or -errno. */
static int want_off(struct shim_kfd *k, const struct rbt_agent_request *req, uint64_t now_ns)
{
	bool is_one = req->op == RBT_AGENT_HOLD_QUEUE;

	/* The request is old: the program was stopped meanwhile. */
	if (req->value <= now_ns) {
		return -ETIMEDOUT;
	}
	if (is_one && !is_meant(k, req->kinds)) {
		return -ENOENT;
	}
	uint32_t id = RBT_AGENT_NUMBER(req->kinds);
	k->owed_before = k->off_kinds;
	k->owed_queue = is_one && !k->queues[id].held ? id + 1 : 0;
	if (k->owed_queue != 0) {
		k->queues[id].held = true;
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
	r = shim_kfd_settle(s, now_ns, ret_n_off);
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
	int r = shim_kfd_settle(s, now_ns, ret_n_off);
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
		if (is_meant(k, req->kinds)) {
			shim_kfd_release(k, RBT_AGENT_NUMBER(req->kinds));
		}
		ret->error = resume(s, now_ns, &ret->n);
		return true;
	case RBT_AGENT_PREEMPT:
		ret->error =
			is_queue(&s->kfd, req->kinds) ? shim_kfd_preempt(s, req->kinds) : -ENOENT;
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
		(void)shim_kfd_settle(s, now_ns, &ret->n);
		return false;
	default:
		ret->error = -EINVAL;
		return true;
	}
}

/* Carries out the hand's requests. Returns false if the other end is closed. *ret_more: more
 * requests may wait. */
static bool listen(struct shim *s, uint64_t now_ns, bool *ret_more)
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
	*ret_more = true;
	return true;
}

/* All queues get what the program has set. */
static void let_go(struct shim_kfd *k)
{
	k->off_kinds = 0;
	for (uint32_t id = 0; id < k->n_used && k->n_held > 0; id++) {
		shim_kfd_release(k, id);
	}
	k->owes = false;
	k->level = RBT_AGENT_LEVEL_OWN;
	k->poll_us = 0;
	k->poll_ns = 0;
}

/* The hand has gone, or has not renewed its suspends (the program was stopped, say). The daemon may
 * still be there. It is told everything again, with another link, and repeats its orders. */
static void cut_off(struct shim *s)
{
	shim_fd_close(&shim_owned.link);
	let_go(&s->kfd);
	s->kfd.told = false;
	s->kfd.dirty = s->kfd.n_queues > 0;
	s->touched = true;
}

bool shim_agent_end(struct shim *s, uint64_t now_ns)
{
	uint32_t n_off;

	let_go(&s->kfd);
	(void)shim_kfd_settle(s, now_ns, &n_off);
	if (n_off > 0) {
		return false;
	}
	shim_kfd_stop_polling(s, now_ns);
	shim_fd_close(&shim_owned.link);
	shim_kfd_withdraw(s);
	owner_pid = 0;
	return true;
}

/* Resumes all queues, and then forgets them. */
static void leave_queues(struct shim *s, uint64_t now_ns)
{
	struct shim_kfd *k = &s->kfd;
	uint32_t n_off;

	let_go(k);
	(void)shim_kfd_settle(s, now_ns, &n_off);
	if (n_off == 0 || now_ns >= k->left_ns + LEAVE_NS) {
		memset(k->queues, 0, sizeof(k->queues));
		k->n_queues = 0;
		k->dirty = s->touched = true;
	}
}

static uint64_t next_step(const struct shim_kfd *k, uint64_t now_ns)
{
	uint64_t at_ns = shim_earlier(UINT64_MAX, k->retry_ns);

	at_ns = shim_earlier(at_ns, k->poll_ns);
	if (k->off_kinds != 0 || k->n_held > 0) {
		at_ns = shim_earlier(at_ns, k->deadline_ns);
		at_ns = shim_earlier(at_ns, now_ns + OFF_LOOK_NS);
	}
	return at_ns;
}

uint64_t shim_agent_step(struct shim *s, uint64_t now_ns)
{
	struct shim_kfd *k = &s->kfd;
	uint32_t n_off;
	bool has_more = false;

	if (shim_fd_get(&shim_owned.link) >= 0 && !listen(s, now_ns, &has_more)) {
		cut_off(s);
	}
	if (k->lossy && !k->partial) {
		k->partial = k->dirty = s->touched = true;
	}
	if (k->left_ns != 0 && k->n_queues > 0) {
		leave_queues(s, now_ns);
	}
	if (k->off_kinds != 0 || k->n_held > 0) {
		uint64_t lease_ns = now_ns + RBT_AGENT_LEASE_NS;
		k->deadline_ns = k->deadline_ns < lease_ns ? k->deadline_ns : lease_ns;
		/* A renewal may be among the requests that wait. */
		if (now_ns >= k->deadline_ns && !has_more) {
			cut_off(s);
		}
	}
	int r = shim_kfd_settle(s, now_ns, &n_off);
	answer_owed(s, r, n_off, now_ns);
	if (k->poll_ns != 0 && now_ns >= k->poll_ns) {
		shim_kfd_poll(s, now_ns);
		k->poll_ns = now_ns + k->poll_us * 1000ull;
	}
	return has_more ? now_ns : next_step(k, now_ns);
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
	l->next_ns = shim_earlier(l->next_ns, l->empty_ns + EMPTY_NS);
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
		l->next_ns = now_ns + SHIM_AGENT_BUSY_NS;
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
		l->next_ns = shim_earlier(l->next_ns,
			now_ns + (g.s->kfd.dirty ? SHIM_AGENT_RETRY_NS : SHIM_AGENT_LINKED_NS));
	} else if (g.s->touched) {
		l->next_ns = now_ns + SHIM_AGENT_BUSY_NS;
	} else if (g.s->kfd.n_queues > 0) {
		if (shim_heal_is_under_way(g.s, now_ns)) {
			l->alone_ns = ALONE_NS;
		}
		l->next_ns = shim_earlier(l->next_ns, now_ns + l->alone_ns);
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
			r = shim_sys_wait_word(&poked, seen,
				link >= 0 ? shim_earlier(wait_ns, UNPOLLED_NS) : wait_ns);
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
