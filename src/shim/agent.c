/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: takes the program's queues off the GPU by setting their percentage to 0, which makes
 * the driver save what runs exactly as it is (CWSR), and puts them back with what the program
 * itself has set.
 *
 * It is a thread of the C library's, on which no handler of the program's runs. It ends when there
 * have been no queues for a while: a program whose main thread has left by pthread_exit() lives as
 * long as any thread. (With queues there are threads of ROCm's runtime, too.)
 *
 * Queues that should be off and run, because they are new or the program has set them anew, are
 * found when it looks at them; what should run and does not is tried again until it does.
 */
#include <errno.h>
#include <stddef.h>

#include "shim/config.h"
#include "shim/kfd.h"
#include "shim/shim.h"
#include "shim/submit.h"

#define PERCENTAGE_MASK 0xffu /* the byte above it chooses a partition */
/* The driver's 16 priorities are three of the hardware's; up to here, and from here on. */
#define LOW_PRIORITY  6u
#define HIGH_PRIORITY 11u
/* While queues are off, new ones are looked for this often even if nobody wants to know more. */
#define OFF_LOOK_NS 5000000ull
/* What did not obey is told again after this. */
#define RETRY_NS 20000000ull
/* A program that is at its queues for so long without a break is not taken off. */
#define OWED_NS 100000000ull
/* Another thread is in: the table is theirs for a moment. */
#define BUSY_NS 50000ull
/* With a daemon, whether it has been told everything is looked at this often; without one, it is
 * looked for less and less often. */
#define LINKED_NS    250000000ull
#define ALONE_NS     500000000ull
#define ALONE_MAX_NS 8000000000ull
#define MAX_MESSAGES 16
/* Without queues, the agent stays this long. */
#define EMPTY_NS 500000000ull
/* Where the program's sandbox refuses poll(), what is said is looked for this often. */
#define UNPOLLED_NS 5000000ull
/* Where it refuses all ways to wait, so often is it tried to put everything back. */
#define MAX_END_TRIES 1000

/* The process that the agent belongs to: a forked child has none. */
static _Atomic int32_t owner_pid;
/* A futex: changes when it has a way to the hand again. */
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
	s->kfd.can_look = shim_kfd_can_look();
	if (s->kfd.can_look) {
		shim_submit_enable();
	}
}

/* b_ns 0: never. */
static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return b_ns != 0 && b_ns < a_ns ? b_ns : a_ns;
}

/* Within the band, the program's own order among its queues stays. */
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
 * Unless the program is about to change the queue itself, or has done so and its news are not taken
 * in: then -EAGAIN. (News are put down before the call ends: in this order none is missed.) -ESTALE
 * if it is not known what would have to be put back. 0 or -errno.
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

/* Brings one queue to what it should be. */
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

static bool differs(const struct shim_kfd *k, const struct shim_queue *q)
{
	bool off = (shim_kfd_kind(q->type) & k->off_kinds) != 0;

	return q->off != off || q->stale ||
	       q->leveled != (wanted_priority(k, q) != q->own.queue_priority);
}

/* Whether there is a file to call the driver by. The program may have closed our copy and its own;
 * its queues live on, and any file of this process will do. 0 or -errno. */
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
	/* A low number has to do, as long as it is needed. */
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

/* Brings all queues to what they should be. The first error, among those that are to be taken off
 * -ESTALE as well; else -EAGAIN if one of these is in the program's hands. */
static int settle_all(struct shim *s, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;
	int file = 1; /* 1: not yet asked for */
	uint32_t n_off = 0, n_waiting = 0;
	int first = 0;

	k->retry_ns = 0;
	for (uint32_t id = 0; id < k->n_used; id++) {
		struct shim_queue *q = &k->queues[id];
		if (q->used && differs(k, q)) {
			bool off = (shim_kfd_kind(q->type) & k->off_kinds) != 0;
			file = file == 1 ? obtain_file() : file;
			int r = file == 0 ? settle_queue(s, id, off) : file;
			if (r < 0) {
				/* What is left alone is not waited for. */
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

/* All or nothing: what was on before and cannot be taken off altogether is left on. */
static int suspend(
	struct shim *s, const struct rbt_agent_request *req, uint64_t now_ns, uint32_t *ret_n_off)
{
	struct shim_kfd *k = &s->kfd;
	uint32_t before = k->off_kinds;

	/* Told long ago, while the program was stopped. */
	if (req->value <= now_ns) {
		return -ETIMEDOUT;
	}
	k->off_kinds |= req->kinds;
	k->deadline_ns = req->value;
	int r = settle_all(s, now_ns, ret_n_off);
	k->owes = r == -EAGAIN;
	if (k->owes) {
		k->owed_seq = req->seq;
		k->owed_before = before;
		k->owed_until_ns = now_ns + OWED_NS;
	} else if (r < 0) {
		k->off_kinds = before;
		(void)settle_all(s, now_ns, ret_n_off);
	}
	return r == -ESTALE ? -EBUSY : r;
}

/* Whoever does not wait for it any more has no room for it. */
static void answer(const struct rbt_agent_reply *reply)
{
	(void)shim_sys_send(shim_fd_get(&shim_owned.link), reply, sizeof(*reply), -1);
}

/* r: what became of it in this round. */
static void answer_owed(struct shim *s, int r, uint32_t n_off, uint64_t now_ns)
{
	struct shim_kfd *k = &s->kfd;

	if (!k->owes || (r == -EAGAIN && now_ns < k->owed_until_ns)) {
		return;
	}
	if (r < 0) {
		k->off_kinds = k->owed_before;
		(void)settle_all(s, now_ns, &n_off);
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

	if (id >= k->n_used || !k->queues[id].used) {
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
		ret->error = suspend(s, req, now_ns, &ret->n);
		return ret->error != -EAGAIN;
	case RBT_AGENT_RESUME:
		k->owes = false;
		k->off_kinds &= ~req->kinds;
		ret->error = settle_all(s, now_ns, &ret->n);
		/* Of what is off still. */
		if (ret->error == -EAGAIN || ret->error == -ESTALE) {
			ret->error = 0;
		}
		return true;
	case RBT_AGENT_PREEMPT:
		ret->error = preempt(s, req->kinds);
		return true;
	case RBT_AGENT_RENEW:
		k->deadline_ns = req->value;
		return false;
	case RBT_AGENT_WATCH:
		k->watch_us = (uint32_t)req->value;
		k->look_ns = k->watch_us != 0 ? now_ns : 0;
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

/* Takes what the hand has said. False when nobody is at the other end any more. */
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

/* Nobody means it any more: everything is as the program has set it. */
static void let_go(struct shim_kfd *k)
{
	k->off_kinds = 0;
	k->owes = false;
	k->level = RBT_AGENT_LEVEL_OWN;
	k->watch_us = 0;
	k->look_ns = 0;
}

bool shim_agent_end(struct shim *s, uint64_t now_ns)
{
	uint32_t n_off;

	let_go(&s->kfd);
	(void)settle_all(s, now_ns, &n_off);
	if (n_off > 0) {
		return false;
	}
	shim_kfd_stop_looking(s, now_ns);
	shim_fd_close(&shim_owned.link);
	shim_kfd_withdraw(s);
	owner_pid = 0;
	return true;
}

static uint64_t next_step(const struct shim_kfd *k, uint64_t now_ns)
{
	uint64_t at_ns = earlier(UINT64_MAX, k->retry_ns);

	at_ns = earlier(at_ns, k->look_ns);
	if (k->off_kinds != 0) {
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
		/* It has dropped us without a word: if it is there, it is told again. */
		k->told = false;
		k->dirty = k->n_queues > 0;
		s->touched = true;
	}
	if (k->lossy && !k->partial) {
		k->partial = k->dirty = s->touched = true;
	}
	if (k->off_kinds != 0) {
		uint64_t lease_ns = now_ns + RBT_AGENT_LEASE_NS;
		k->deadline_ns = k->deadline_ns < lease_ns ? k->deadline_ns : lease_ns;
		k->off_kinds = now_ns < k->deadline_ns ? k->off_kinds : 0;
	}
	int r = settle_all(s, now_ns, &n_off);
	answer_owed(s, r, n_off, now_ns);
	if (k->look_ns != 0 && now_ns >= k->look_ns) {
		shim_kfd_look(s, now_ns);
		k->look_ns = now_ns + k->watch_us * 1000ull;
	}
	return next_step(k, now_ns);
}

struct life {
	uint64_t next_ns;  /* when the next round is due */
	uint64_t alone_ns; /* how long until a daemon is looked for again */
	uint64_t empty_ns; /* since when there are no queues; 0: there are */
};

/* Whether there have been no queues for long enough; and that the daemon knows. */
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

/* One round: what other threads have left, what the hand says, and, without a daemon, the look for
 * one. False at the end: the process is another by now, or has no queues any more. */
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
		/* What the daemon had no room for goes later, also if the program makes no further
		 * call; and nobody would tell. */
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

/* Until the next round is due, or somebody says something. False when there is no way to wait. */
static bool rest(uint64_t next_ns, uint32_t seen)
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
		if (!rest(life.next_ns, seen)) {
			give_up();
			return;
		}
		seen = poked;
	}
}
