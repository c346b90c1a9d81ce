/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the hand. Calls are synchronous and bounded: no program waits for the
 * daemon, and a hand that does not answer in time is taken for dead. When the hand is lost, the
 * daemon restores every program through its own copies of the fds and marks the model dirty;
 * reconcile() then starts a new hand and applies everything again.
 */
#include "daemon/handlink.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/activity.h"
#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/loop.h"
#include "daemon/survive/handlock.h"
#include "daemon/survive/state.h"
#include "hand/hand.h"
#include "proto/hand.h"
#include "proto/message.h"
#include "util/fd.h"
#include "util/fork.h"
#include "util/log.h"
#include "util/time.h"

/* The longest call measured on an H200 takes about 1 ms; a GPU in trouble takes the driver's own
 * timeouts. */
#define REPLY_TIMEOUT_S 2
/* A hand that ends within this time is taken to die of its requests. After a few such hands, the
 * programs are left unmanaged for as long. */
#define QUICK_DEATH_NS   (5 * RBT_NS_PER_S)
#define MAX_QUICK_DEATHS 3
/* A killed hand ends at once, unless it hangs inside the driver. Then there is no hand for a while;
 * after that, another one is started beside it. */
#define REAP_NS      (20 * RBT_NS_PER_MS)
#define REAP_STEP_US 200
#define DYING_NS     (10 * RBT_NS_PER_S)
/* The hand of a killed daemon needs a few milliseconds for each program. */
#define OLD_HAND_NS RBT_NS_PER_S
#define OLD_STEP_US 1000

static void forget_one(struct client *h)
{
	h->in_hand = false;
	activity_forget(h);
	/* What the driver refused to restore is still changed; the next hand goes on with it. */
	h->stale = h->stale || rbt_applied_has_any_off(&h->mine->applied) ||
		   h->mine->applied.slices_changed || h->mine->applied.interleave_changed;
}

/* Everything is back at its default, or nearly: decisions are to be applied again. */
static void forget_applied(struct daemon *d)
{
	struct program *p;
	struct client *h;

	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			forget_one(h);
		}
	}
}

/* Whether the process has ended within that time; it is not waited for any longer. */
static bool reap(pid_t pid, uint64_t wait_ns)
{
	uint64_t until_ns = rbt_now_ns() + wait_ns;

	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (rbt_now_ns() >= until_ns) {
			return false;
		}
		usleep(REAP_STEP_US);
	}
	return true;
}

static void hand_lost(struct daemon *d, const char *why)
{
	pid_t pid = d->hand.pid;

	if (pid <= 0) {
		return;
	}
	rbt_warn("the hand is lost (%s): restoring every program", why);
	kill(pid, SIGKILL);
	d->hand.pid = 0;
	unwatch(d, &d->hand.socket);
	uint64_t now_ns = rbt_now_ns();
	if (!reap(pid, REAP_NS)) {
		rbt_warn("it hangs in the driver");
		d->hand.dying_pid = pid;
		d->hand.awaited_ns = now_ns;
	}
	rbt_holdings_restore(&d->mine);
	forget_applied(d);
	state_write(d); /* no hand knows what could not be restored */
	d->hand.n_deaths = now_ns - d->hand.started_ns < QUICK_DEATH_NS ? d->hand.n_deaths + 1 : 1;
	if (d->hand.n_deaths >= MAX_QUICK_DEATHS) {
		d->hand.n_deaths = 0;
		d->hand.retry_ns = now_ns + QUICK_DEATH_NS;
	}
	d->dirty = true;
}

/* The last action of a killed hand may have been done after everything was restored: undoes it. */
static void undo_last_deed(struct daemon *d)
{
	struct program *p;
	struct client *h;

	/* The hand beside it may have done the same: then two resumes are needed. */
	hand_lost(d, "the one before it was still at work");
	for (size_t i = 0; i < d->mine.n; i++) {
		rbt_holding_assume_changed(d->mine.list[i]);
	}
	rbt_holdings_restore(&d->mine);
	forget_applied(d);
	LIST_FOREACH (p, &d->programs, entries) {
		LIST_FOREACH (h, &p->clients, entries) {
			h->stale = true;
		}
	}
	d->dirty = true;
}

bool hand_is_awaited(const struct daemon *d)
{
	return d->hand.dying_pid > 0 || d->hand.old_fd >= 0;
}

/* The old hand has ended, or is not waited for any longer. The daemon restores the rest. */
static void take_over(struct daemon *d)
{
	state_heal(d, handlock_finish(&d->hand.old_fd, d->hand.lock_path));
}

void hand_await_old(struct daemon *d)
{
	uint64_t end_ns = rbt_now_ns() + OLD_HAND_NS;

	d->hand.old_fd = handlock_open(d->hand.lock_path);
	if (d->hand.old_fd >= 0 && !handlock_is_free(d->hand.old_fd)) {
		handlock_wake(d->hand.old_fd);
	}
	while (d->hand.old_fd >= 0 && !handlock_is_free(d->hand.old_fd) && rbt_now_ns() < end_ns) {
		usleep(OLD_STEP_US);
	}
	d->hand.awaited_ns = rbt_now_ns();
	if (d->hand.old_fd < 0 || handlock_is_free(d->hand.old_fd)) {
		take_over(d);
	}
}

void hand_tick(struct daemon *d)
{
	bool is_over = rbt_now_ns() >= d->hand.awaited_ns + DYING_NS;

	if (d->hand.dying_pid > 0 && reap(d->hand.dying_pid, 0)) {
		d->hand.dying_pid = 0;
		undo_last_deed(d);
	}
	if (d->hand.old_fd >= 0 && (handlock_is_free(d->hand.old_fd) || is_over)) {
		take_over(d);
		d->dirty = true;
	}
}

static void on_hand(struct daemon *d, struct source *s, uint32_t events)
{
	/* Replies are read by call(): only the end of the hand arrives here. */
	hand_lost(d, "it ended");
}

static void child(const struct daemon *d, int sock)
{
	/* The hand needs its socket and standard error. It must not keep the listener, or a dead
	 * daemon would seem alive. */
	if (dup2(sock, 3) < 0) {
		_exit(1);
	}
	close_range(4, ~0u, 0);
	rbt_fork_is_apart();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int lock_fd = handlock_take(d->hand.lock_path);
	if (rbt_hand_run(3) == 0) {
		handlock_note_restored(lock_fd);
	}
	_exit(0);
}

int hand_ensure(struct daemon *d)
{
	int pair[2];

	if (d->hand.pid > 0) {
		return 0;
	}
	hand_tick(d);
	if (rbt_now_ns() < d->hand.retry_ns ||
		(hand_is_awaited(d) && rbt_now_ns() < d->hand.awaited_ns + DYING_NS)) {
		return -EAGAIN;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	pid_t pid = rbt_fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return pid;
	}
	if (pid == 0) {
		child(d, pair[1]);
	}
	close(pair[1]);
	struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_S};
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	d->hand.socket = (struct source){.fd = pair[0], .ready = on_hand};
	d->hand.pid = pid;
	d->hand.started_ns = rbt_now_ns();
	d->hand.cpu = -1;
	watch(d, &d->hand.socket);
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		if (d->locks.fds[gpu] >= 0) {
			hand_lock(d, gpu, true);
		}
	}
	return 0;
}

/* Brings the hand to the daemon's CPU. The two never run at the same time: on one CPU the change
 * takes a switch, on two CPUs a wake-up, which takes 90 us in a virtual machine. A failure does no
 * harm. */
static void bring_near(struct daemon *d)
{
	int cpu = sched_getcpu();
	cpu_set_t here;

	if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == d->hand.cpu) {
		return;
	}
	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	(void)sched_setaffinity(d->hand.pid, sizeof(here), &here);
	d->hand.cpu = cpu;
}

static int call(struct daemon *d, struct rbt_hand_request *req, size_t size, int fd,
	struct rbt_hand_reply *ret)
{
	struct rbt_hand_reply reply;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds;

	if (d->hand.pid <= 0) {
		return -ENOTCONN;
	}
	bring_near(d);
	req->seq = ++d->hand.seq;
	int r = rbt_send(d->hand.socket.fd, req, size, &fd, fd >= 0 ? 1 : 0, 0);
	if (r < 0) {
		hand_lost(d, strerror(-r));
		return -ENOTCONN;
	}
	ssize_t n = rbt_recv(d->hand.socket.fd, &reply, sizeof(reply), fds, &n_fds, 0);
	if (n != sizeof(reply) || reply.seq != req->seq) {
		hand_lost(d, n == -EAGAIN ? "it does not answer" : "it ended");
		return -ENOTCONN;
	}
	if (ret != NULL) {
		*ret = reply;
	}
	return reply.error;
}

int hand_put(struct daemon *d, struct client *h)
{
	static union {
		struct rbt_hand_request req;
		char bytes[sizeof(struct rbt_hand_request) + RBT_RECORD_MSG_MAX];
	} buf;
	const struct rbt_holding *mine = h->mine;

	buf.req = (struct rbt_hand_request){
		.op = RBT_HAND_PUT,
		.id = h->id,
		.force = mine->force,
		.value = (mine->applied.slices_changed ? RBT_HAND_SLICES_CHANGED : 0u) |
			 (mine->applied.is_off ? RBT_HAND_SUSPENDED : 0u) |
			 (mine->applied.interleave_changed ? RBT_HAND_INTERLEAVED : 0u),
	};
	ssize_t n = rbt_record_encode(&mine->rec, RBT_MSG_RECORD, buf.bytes + sizeof(buf.req),
		sizeof(buf.bytes) - sizeof(buf.req));
	if (n < 0) {
		return (int)n;
	}
	int r = call(d, &buf.req, sizeof(buf.req) + (size_t)n, mine->rec.fd, NULL);
	h->in_hand = r == 0;
	return r;
}

int hand_drop(struct daemon *d, uint32_t id)
{
	struct rbt_hand_request req = {.op = RBT_HAND_DROP, .id = id};

	return call(d, &req, sizeof(req), -1, NULL);
}

/*
 * Has the hand carry out an action, and notes it in our own copy of the holding, as the hand does
 * in its own. If the hand dies on the way (-ENOTCONN), hand_lost() has put everything back, as far
 * as the driver let it. How long the device took is added to hist, unless that is NULL.
 */
static int act(struct daemon *d, struct client *h, const struct rbt_action *action, int fd,
	struct rbt_hist *hist)
{
	struct rbt_hand_request req = {.op = RBT_HAND_ACT, .id = h->id, .action = *action};
	struct rbt_hand_reply reply;

	if (d->hand.pid <= 0) {
		return -ENOTCONN;
	}
	rbt_holding_apply(h->mine, action, RBT_UNDERWAY);
	int r = call(d, &req, sizeof(req), fd, &reply);
	if (r == -ENOTCONN) {
		return r;
	}
	rbt_holding_apply(h->mine, action, r);
	if (r == 0 && hist != NULL) {
		rbt_hist_add(hist, reply.took_ns);
	}
	return r;
}

/* The same; a refused action is tried again with the next change. */
static int act_again(
	struct daemon *d, struct client *h, const struct rbt_action *action, struct rbt_hist *hist)
{
	int r = act(d, h, action, -1, hist);

	h->refused = h->refused || (r < 0 && r != -ENOTCONN);
	return r;
}

/* Plans another try of what the driver refused to restore. */
static void plan_retry(struct daemon *d, int r)
{
	if (r < 0 && r != -ENOTCONN) {
		d->retry_ns = rbt_now_ns() + RETRY_NS;
	}
}

int hand_set_slice(struct daemon *d, struct client *h, uint32_t gpu, uint64_t runlists, uint64_t us)
{
	struct rbt_action action = {
		.op = RBT_ACT_SET_SLICE,
		.gpu = gpu,
		.minor = rbt_gpu_of_index(&d->gpu_table, gpu).minor,
		.runlists = runlists,
		.value = us,
	};
	int r = act_again(d, h, &action, NULL);

	/* A process that may not write has not changed anything before, either. */
	if (us == 0 && r != -EPERM && r != -EACCES) {
		plan_retry(d, r);
	}
	return r;
}

int hand_suspend(struct daemon *d, struct client *h, enum rbt_off how, uint64_t deadline_ns)
{
	struct rbt_action action = {
		.op = RBT_ACT_SUSPEND,
		.scope = how == RBT_OFF_COMMAND ? RBT_SCOPE_ALL : RBT_SCOPE_COMPUTE,
		.mode = how == RBT_OFF_SCHEDULING ? RBT_SUSPEND_SCHEDULING_ONLY : RBT_SUSPEND_FULL,
		.value = deadline_ns,
	};
	int r = act_again(d, h, &action, &h->program->account.suspend);

	d->hand.any_off = d->hand.any_off || r != -ENOTCONN;
	return r;
}

int hand_resume(struct daemon *d, struct client *h)
{
	/* Copy tasks that were never suspended need no resume, which would take half as long
	 * again. */
	struct rbt_action action = {
		.op = RBT_ACT_RESUME,
		.scope = h->mine->applied.others_are_off ? RBT_SCOPE_ALL : RBT_SCOPE_COMPUTE,
		.at_ns = rbt_now_ns(),
	};
	int r = act_again(d, h, &action, &h->program->account.resume);

	plan_retry(d, r);
	return r;
}

int hand_resume_others(struct daemon *d, struct client *h)
{
	struct rbt_action action = {
		.op = RBT_ACT_RESUME, .scope = RBT_SCOPE_OTHERS, .at_ns = rbt_now_ns()};

	return act_again(d, h, &action, NULL);
}

int hand_suspend_task(struct daemon *d, struct client *h, uint32_t handle, uint64_t deadline_ns)
{
	struct rbt_action action = {
		.op = RBT_ACT_SUSPEND_TASK, .task = handle, .value = deadline_ns};
	int r = act_again(d, h, &action, NULL);

	d->hand.any_off = d->hand.any_off || r != -ENOTCONN;
	return r;
}

int hand_resume_task(struct daemon *d, struct client *h, uint32_t handle)
{
	struct rbt_action action = {.op = RBT_ACT_RESUME_TASK, .task = handle};
	int r = act_again(d, h, &action, NULL);

	plan_retry(d, r);
	return r;
}

int hand_kick(struct daemon *d, struct client *h)
{
	struct rbt_hand_request req = {.op = RBT_HAND_ACT,
		.id = h->id,
		.action = {.op = RBT_ACT_KICK, .scope = RBT_SCOPE_COMPUTE}};
	int r = call(d, &req, sizeof(req), -1, NULL);

	/* The hand kicks after its answer, and does not say when it has. */
	if (r == 0) {
		rbt_holding_apply(h->mine, &req.action, RBT_UNDERWAY);
	}
	return r;
}

int hand_set_level(struct daemon *d, struct client *h, uint32_t level)
{
	struct rbt_action action = {.op = RBT_ACT_LEVEL, .value = level};

	return act(d, h, &action, -1, NULL);
}

int hand_set_interleave(struct daemon *d, struct client *h, uint32_t level)
{
	struct rbt_action action = {.op = RBT_ACT_INTERLEAVE, .value = level};
	int r = act(d, h, &action, -1, NULL);

	if (level == RBT_INTERLEAVE_OWN && h->mine->applied.interleave_changed) {
		plan_retry(d, r);
	}
	return r;
}

int hand_poll(struct daemon *d, struct client *h, uint32_t interval_us)
{
	struct rbt_action action = {.op = RBT_ACT_POLL, .value = interval_us};

	return act(d, h, &action, interval_us != 0 ? h->board_fd : -1, NULL);
}

int hand_lock(struct daemon *d, uint32_t gpu, bool keep)
{
	struct rbt_hand_request req = {
		.op = keep ? RBT_HAND_KEEP_LOCK : RBT_HAND_DROP_LOCK, .value = gpu};

	return call(d, &req, sizeof(req), keep ? d->locks.fds[gpu] : -1, NULL);
}

int hand_renew(struct daemon *d, uint64_t deadline_ns, bool *ret_failed)
{
	struct rbt_hand_request req = {.op = RBT_HAND_RENEW, .value = deadline_ns};
	struct rbt_action renewal = {.op = RBT_ACT_RENEW, .value = deadline_ns};
	struct rbt_hand_reply reply;
	int r = call(d, &req, sizeof(req), -1, &reply);

	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < d->mine.n; i++) {
		if (rbt_applied_has_any_off(&d->mine.list[i]->applied)) {
			rbt_holding_apply(d->mine.list[i], &renewal, 0);
		}
	}
	*ret_failed = reply.failed > 0;
	return (int)reply.lapsed;
}

void hand_stop(struct daemon *d)
{
	if (d->hand.pid <= 0) {
		return;
	}
	/* The end of the socket tells the hand to restore everything and end; the daemon does what
	 * the hand cannot do in time. */
	unwatch(d, &d->hand.socket);
	if (!reap(d->hand.pid, REPLY_TIMEOUT_S * RBT_NS_PER_S)) {
		kill(d->hand.pid, SIGKILL);
		reap(d->hand.pid, REAP_NS);
	}
	d->hand.pid = 0;
	rbt_holdings_restore(&d->mine);
}
