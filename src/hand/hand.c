/* SPDX-License-Identifier: Apache-2.0 */
#include "hand/hand.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "act/holding.h"
#include "proto/hand.h"
#include "proto/message.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

/* How long after a failed resume the hand tries again. */
#define RETRY_NS RBT_NS_PER_S

struct hand {
	int sock;
	uint32_t lapsed, failed;
	struct rbt_holdings holdings;
	int locks[RBT_MAX_GPUS];
};

/* One received packet. */
struct parcel {
	char buf[sizeof(struct rbt_hand_request) + RBT_RECORD_MSG_MAX];
	size_t size;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds;
};

static int take_fd(struct parcel *p)
{
	int fd = p->fds[0];

	p->fds[0] = -1;
	return fd;
}

/* Sets when the hand ends a suspend by itself. The device is not told. */
static void set_deadline(struct rbt_holding *h, uint64_t deadline_ns)
{
	struct rbt_action action = {.op = RBT_ACT_RENEW, .value = deadline_ns};

	rbt_holding_apply(h, &action, 0);
}

static int hold(struct hand *hand, const struct rbt_hand_request *req, struct parcel *p)
{
	struct rbt_record rec;
	int r = rbt_record_decode(p->buf + sizeof(*req), p->size - sizeof(*req), &rec);

	if (r < 0) {
		return r;
	}
	rec.fd = take_fd(p);
	bool is_known = rbt_holdings_find(&hand->holdings, req->id) != NULL;
	r = rbt_holdings_put(&hand->holdings, req->id, req->force != 0, &rec);
	if (r < 0) {
		return r;
	}
	struct rbt_holding *h = rbt_holdings_find(&hand->holdings, req->id);
	if ((req->value & RBT_HAND_SLICES_CHANGED) != 0) {
		rbt_holding_assume_slices(h);
	}
	if ((req->value & RBT_HAND_INTERLEAVED) != 0) {
		rbt_holding_assume_interleave(h);
	}
	/* A former hand suspended some of the tasks, and nobody knows which. A task must not be
	 * suspended twice, so all of them are resumed first. If this hand has had the holding from
	 * the start, it knows the state better than the sender. */
	if ((req->value & RBT_HAND_SUSPENDED) != 0 && !is_known) {
		rbt_holding_assume_off(h);
		set_deadline(h, rbt_now_ns() + RETRY_NS);
		r = rbt_holding_mark_channels(h);
		(void)rbt_holding_resume(h, RBT_SCOPE_ALL);
	}
	return r;
}

static void renew(struct hand *hand, uint64_t deadline_ns)
{
	struct rbt_action action = {.op = RBT_ACT_RENEW, .value = deadline_ns};

	for (size_t i = 0; i < hand->holdings.n; i++) {
		if (rbt_applied_has_any_off(&hand->holdings.list[i]->applied)) {
			(void)rbt_holding_act(hand->holdings.list[i], &action);
		}
	}
}

static int keep_lock(struct hand *hand, uint64_t gpu, int fd)
{
	if (gpu >= RBT_MAX_GPUS) {
		rbt_close(&fd);
		return -EINVAL;
	}
	rbt_close(&hand->locks[gpu]);
	hand->locks[gpu] = fd;
	return 0;
}

static int watch(struct rbt_holding *h, const struct rbt_action *action, const struct parcel *p)
{
	const struct rbt_backend *b = rbt_backend_by_id(h->rec.backend);
	int fd = p->n_fds > 0 ? p->fds[0] : -1;
	int r = b == NULL || b->poll == NULL ? -EOPNOTSUPP
					     : b->poll(&h->rec, fd, (uint32_t)action->value);

	rbt_holding_apply(h, action, r);
	return r;
}

static int act(struct hand *hand, const struct rbt_hand_request *req, const struct parcel *p)
{
	struct rbt_holding *h = rbt_holdings_find(&hand->holdings, req->id);

	if (h == NULL) {
		return -ENOENT;
	}
	switch (req->action.op) {
	case RBT_ACT_KICK: /* expire() kicks after the reply */
		rbt_holding_apply(h, &req->action, RBT_UNDERWAY);
		return 0;
	case RBT_ACT_POLL:
		return watch(h, &req->action, p);
	default:
		return rbt_holding_act(h, &req->action);
	}
}

static int execute(struct hand *hand, const struct rbt_hand_request *req, struct parcel *p)
{
	switch (req->op) {
	case RBT_HAND_PUT:
		return hold(hand, req, p);
	case RBT_HAND_DROP:
		rbt_holdings_let_go(&hand->holdings, req->id);
		return 0;
	case RBT_HAND_ACT:
		return act(hand, req, p);
	case RBT_HAND_RENEW:
		renew(hand, req->value);
		return 0;
	case RBT_HAND_KEEP_LOCK:
	case RBT_HAND_DROP_LOCK:
		return keep_lock(hand, req->value, take_fd(p));
	default:
		return -EINVAL;
	}
}

static bool is_late(const struct rbt_applied *a, uint64_t now_ns)
{
	return a->is_off && a->deadline_ns <= now_ns;
}

static bool are_tasks_late(const struct rbt_applied *a, uint64_t now_ns)
{
	return a->n_tasks_off > 0 && a->tasks_deadline_ns <= now_ns;
}

/* If the owner stops in the middle of turns, nobody ends the running turn, and resumed programs
 * must not run side by side at short slices. So all slices are restored before programs are
 * resumed. */
static void end_turns(struct hand *hand, uint64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; i < hand->holdings.n; i++) {
		const struct rbt_applied *a = &hand->holdings.list[i]->applied;
		any = any || (rbt_applied_is_in_turns(a) && is_late(a, now_ns));
	}
	for (size_t i = 0; any && i < hand->holdings.n; i++) {
		struct rbt_holding *h = hand->holdings.list[i];
		hand->failed += rbt_holding_restore_slices(h) < 0;
		if (rbt_applied_is_in_turns(&h->applied)) {
			set_deadline(h, now_ns);
		}
	}
}

/* Resumes what is late about one holding. Returns when the next suspend of it ends. */
static uint64_t expire_one(struct hand *hand, struct rbt_holding *h, uint64_t now_ns)
{
	const struct rbt_applied *a = &h->applied;
	bool is_late_now = is_late(a, now_ns), are_late = are_tasks_late(a, now_ns);
	uint64_t next_ns = UINT64_MAX;
	int r = 0;

	if (is_late_now || are_late) {
		rbt_debug("suspend of client %#x ran out", h->rec.client);
		hand->lapsed++;
	}
	if (is_late_now) {
		r = rbt_holding_resume(h, RBT_SCOPE_ALL);
	}
	if (are_late) {
		int r_tasks = rbt_holding_resume_tasks(h);
		r = r < 0 ? r : r_tasks;
	}
	if (r < 0) {
		hand->failed++;
		set_deadline(h, now_ns + RETRY_NS);
	}
	if (a->is_off && a->deadline_ns < next_ns) {
		next_ns = a->deadline_ns;
	}
	if (a->n_tasks_off > 0 && a->tasks_deadline_ns < next_ns) {
		next_ns = a->tasks_deadline_ns;
	}
	return next_ns;
}

/* Resumes suspends whose deadline has passed, and kicks tasks that are due. Returns how many ms
 * poll() may wait until the next of these is due, or -1 if none is. */
static int expire(struct hand *hand)
{
	uint64_t now_ns = rbt_now_ns(), next_ns = UINT64_MAX;

	end_turns(hand, now_ns);
	for (size_t i = 0; i < hand->holdings.n; i++) {
		uint64_t end_ns = expire_one(hand, hand->holdings.list[i], now_ns);
		next_ns = end_ns < next_ns ? end_ns : next_ns;
	}
	/* These include tasks that a request has just resumed: its reply has been sent already. */
	uint64_t kick_ns = rbt_holdings_kick(&hand->holdings, now_ns);
	next_ns = kick_ns < next_ns ? kick_ns : next_ns;
	if (next_ns == UINT64_MAX) {
		return -1;
	}
	uint64_t wait_ms = (next_ns - now_ns) / RBT_NS_PER_MS + 1;
	return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

/* Serves one request. Returns false if the owner has gone. */
static bool serve_one(struct hand *hand)
{
	static struct parcel p; /* too large for the stack of a small process */
	struct rbt_hand_request req = {0};
	struct rbt_hand_reply reply = {0};

	ssize_t n = rbt_recv(hand->sock, p.buf, sizeof(p.buf), p.fds, &p.n_fds, 0);
	if (n <= 0) {
		return false;
	}
	p.size = (size_t)n;
	if (p.size < sizeof(req)) {
		reply.error = -EBADMSG;
	} else {
		memcpy(&req, p.buf, sizeof(req));
		uint64_t start_ns = rbt_now_ns();
		reply.error = execute(hand, &req, &p);
		reply.took_ns = rbt_now_ns() - start_ns;
		reply.seq = req.seq;
		rbt_debug("at %llu us: op %u on %u, action %u, scope %u, mode %u, value %llu: %d, "
			  "took %llu us",
			(unsigned long long)(start_ns / RBT_NS_PER_US), req.op, req.id,
			req.action.op, req.action.scope, req.action.mode,
			(unsigned long long)req.action.value, reply.error,
			(unsigned long long)(reply.took_ns / RBT_NS_PER_US));
	}
	if (req.op == RBT_HAND_RENEW) {
		reply.lapsed = hand->lapsed;
		reply.failed = hand->failed;
		hand->lapsed = hand->failed = 0;
	}
	for (size_t i = 0; i < RBT_MAX_FDS_PER_MSG; i++) {
		rbt_close(&p.fds[i]);
	}
	return rbt_send(hand->sock, &reply, sizeof(reply), NULL, 0, 0) == 0;
}

int rbt_hand_run(int sock)
{
	struct hand hand = {.sock = sock};
	struct pollfd pfd = {.fd = sock, .events = POLLIN};

	for (uint32_t i = 0; i < RBT_MAX_GPUS; i++) {
		hand.locks[i] = -1;
	}
	prctl(PR_SET_NAME, RBT_HAND_NAME);
	/* The owner decides when the hand ends. A ^C in its terminal must not end the hand
	 * first. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (;;) {
		int r = poll(&pfd, 1, expire(&hand));
		if (r < 0 && errno != EINTR) {
			break;
		}
		if (r > 0 && !serve_one(&hand)) {
			break;
		}
	}
	int r = rbt_holdings_restore(&hand.holdings);
	/* Another scheduler may take the GPUs only after everything is restored. */
	for (uint32_t i = 0; i < RBT_MAX_GPUS; i++) {
		rbt_close(&hand.locks[i]);
	}
	rbt_holdings_finish(&hand.holdings);
	rbt_close(&hand.sock);
	return r;
}
