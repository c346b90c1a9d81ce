/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/amd/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/proc.h"
#include "util/time.h"

/* The agent needs a processor, and one call per queue. */
#define REPLY_NS (300 * RBT_NS_PER_MS)
/* The time until a suspend must be renewed. */
#define LEASE_NS (2 * RBT_NS_PER_S)
/* How much later than the hand the agent ends a suspend that was not renewed. */
#define LATER_NS (500 * RBT_NS_PER_MS)

/* An agent that has not answered is not waited for again until it has sent something. Otherwise all
 * other programs would wait with us each time (a stopped program that takes turns with others,
 * say). */
#define MAX_SILENT 64
#define PROBE_NS   RBT_NS_PER_S

struct silent {
	ino_t ino; /* of the socket; 0: unused */
	uint64_t probe_ns;
};
static struct silent silent[MAX_SILENT];
static pthread_mutex_t silent_lock = PTHREAD_MUTEX_INITIALIZER; /* protects all of these */

/* Programs often fall silent together (a job is stopped). After the first, other programs of the
 * same user are waited for less. Other users are not affected. */
#define IMPATIENT_NS (50 * RBT_NS_PER_MS)
#define IMPATIENT_S  1
#define MAX_USERS    16

static struct {
	uid_t uid;
	uint64_t until_ns; /* 0: unused */
} impatient[MAX_USERS];

/* Daemon and hand may use the same socket, one after the other. The number tells which of them an
 * answer is for. */
static uint32_t next_seq(void)
{
	static _Atomic uint32_t n;

	return ((uint32_t)getpid() << 16) ^ ++n;
}

static int translate(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == EBADF
		       ? -ENOENT
		       : -error;
}

static int put(const struct rbt_record *rec, const struct rbt_agent_request *req)
{
	ssize_t n = send(rec->fd, req, sizeof(*req), MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? translate(errno) : 0;
}

/* 1 with an answer, 0 if there is none, or -errno. */
static int take(const struct rbt_record *rec, struct rbt_agent_reply *ret)
{
	struct rbt_agent_reply reply;
	ssize_t n = recv(rec->fd, &reply, sizeof(reply), MSG_DONTWAIT);

	if (n == 0) {
		return -ENOENT;
	}
	if (n < 0) {
		return errno == EAGAIN || errno == EINTR ? 0 : translate(errno);
	}
	if (n == sizeof(reply) && reply.magic == RBT_AGENT_MAGIC) {
		*ret = reply;
		return 1;
	}
	return 0;
}

static ino_t identity(const struct rbt_record *rec)
{
	struct stat st;

	return fstat(rec->fd, &st) == 0 ? st.st_ino : 0;
}

static struct silent *find_silent(ino_t ino)
{
	for (size_t i = 0; ino != 0 && i < MAX_SILENT; i++) {
		if (silent[i].ino == ino) {
			return &silent[i];
		}
	}
	return NULL;
}

/* The user of the program, whose pid is the client. The socket does not show the user, because a
 * porter may have made it. */
static bool find_user(const struct rbt_record *rec, uid_t *ret)
{
	return rbt_proc_uid((pid_t)rec->client, ret) == 0;
}

static uint64_t patience_ns(const struct rbt_record *rec)
{
	uint64_t ret = REPLY_NS, now_ns = rbt_now_ns();
	uid_t uid;

	if (!find_user(rec, &uid)) {
		return ret;
	}
	pthread_mutex_lock(&silent_lock);
	for (size_t i = 0; i < MAX_USERS; i++) {
		if (impatient[i].uid == uid && now_ns < impatient[i].until_ns) {
			ret = IMPATIENT_NS;
		}
	}
	pthread_mutex_unlock(&silent_lock);
	return ret;
}

/* With the lock held. */
static void lose_patience(uid_t uid)
{
	size_t at = 0;

	/* The user's own entry, or else the oldest one. */
	for (size_t i = 0; i < MAX_USERS; i++) {
		if (impatient[i].uid == uid && impatient[i].until_ns != 0) {
			at = i;
			break;
		}
		at = impatient[i].until_ns < impatient[at].until_ns ? i : at;
	}
	impatient[at].uid = uid;
	impatient[at].until_ns = rbt_now_ns() + IMPATIENT_S * RBT_NS_PER_S;
}

static void note_silence(const struct rbt_record *rec)
{
	static size_t next;
	ino_t ino = identity(rec);
	uid_t uid;
	bool has_user = find_user(rec, &uid);

	pthread_mutex_lock(&silent_lock);
	if (has_user) {
		lose_patience(uid);
	}
	if (ino != 0 && find_silent(ino) == NULL) {
		/* Replaces the oldest entry, which costs one more wait. */
		silent[next++ % MAX_SILENT] =
			(struct silent){.ino = ino, .probe_ns = rbt_now_ns() + PROBE_NS};
	}
	pthread_mutex_unlock(&silent_lock);
}

/* Whether the agent was waited for in vain, and has not answered since. Another process on the same
 * socket may have taken its answers: so it is asked for one now and then. */
static bool is_silent(const struct rbt_record *rec)
{
	struct rbt_agent_request probe = {.magic = RBT_AGENT_MAGIC, .op = RBT_AGENT_RESUME};
	struct rbt_agent_reply reply;
	uint64_t now_ns = rbt_now_ns();
	bool ret = false;

	pthread_mutex_lock(&silent_lock);
	struct silent *s = find_silent(identity(rec));
	if (s != NULL && take(rec, &reply) != 0) {
		/* It answers again, or is gone. */
		*s = (struct silent){0};
	} else if (s != NULL) {
		ret = true;
		if (now_ns >= s->probe_ns) {
			s->probe_ns = now_ns + PROBE_NS;
			(void)put(rec, &probe);
		}
	}
	pthread_mutex_unlock(&silent_lock);
	return ret;
}

/* Answers to earlier calls that were not waited for are skipped. */
static int await(const struct rbt_record *rec, uint32_t seq)
{
	uint64_t until_ns = rbt_now_ns() + patience_ns(rec);

	for (;;) {
		struct pollfd p = {.fd = rec->fd, .events = POLLIN};
		struct rbt_agent_reply reply = {0};
		uint64_t now_ns = rbt_now_ns();
		int wait_ms = (int)((until_ns - now_ns + RBT_NS_PER_MS - 1) / RBT_NS_PER_MS);
		if (now_ns >= until_ns || poll(&p, 1, wait_ms) == 0) {
			note_silence(rec);
			return -ETIMEDOUT;
		}
		int r = take(rec, &reply);
		if (r < 0) {
			return r;
		}
		if (r == 1 && reply.seq == seq) {
			/* The answer is untrusted: only an errno is accepted. */
			return reply.error > 0 || reply.error < -4095 ? -EBADMSG : reply.error;
		}
	}
}

static int ask(const struct rbt_record *rec, enum rbt_agent_op op, uint32_t kinds, uint64_t value)
{
	struct rbt_agent_request req = {
		.magic = RBT_AGENT_MAGIC,
		.op = op,
		.seq = next_seq(),
		.kinds = kinds,
		.value = value,
	};
	bool wait = !is_silent(rec);
	int r = put(rec, &req);

	return r < 0 ? r : wait ? await(rec, req.seq) : -ETIMEDOUT;
}

/* `what`: the kinds, or the queue. */
static int take_off(
	const struct rbt_record *rec, enum rbt_agent_op op, enum rbt_agent_op back, uint32_t what)
{
	struct rbt_agent_request undo = {.magic = RBT_AGENT_MAGIC, .op = back, .kinds = what};

	/* A resume is sent anyway, so that it is the last order that the agent gets. */
	if (is_silent(rec)) {
		return -ETIMEDOUT;
	}
	int r = ask(rec, op, what, rbt_now_ns() + LEASE_NS + LATER_NS);

	/* The agent may still carry it out: then it must be undone at once. */
	if (r == -ETIMEDOUT) {
		(void)put(rec, &undo);
	}
	return r;
}

int rbt_amd_link_suspend(const struct rbt_record *rec, uint32_t kinds)
{
	return take_off(rec, RBT_AGENT_SUSPEND, RBT_AGENT_RESUME, kinds);
}

int rbt_amd_link_hold(const struct rbt_record *rec, uint32_t queue)
{
	const struct rbt_task *task = rbt_record_find_task(rec, queue);
	uint32_t serial = task != NULL ? rbt_task_serial(task) : 0;

	return take_off(
		rec, RBT_AGENT_HOLD_QUEUE, RBT_AGENT_RELEASE_QUEUE, RBT_AGENT_QUEUE(queue, serial));
}

int rbt_amd_link_release(const struct rbt_record *rec, uint32_t queue)
{
	return ask(rec, RBT_AGENT_RELEASE_QUEUE, RBT_AGENT_QUEUE(queue, 0), 0);
}

int rbt_amd_link_resume(const struct rbt_record *rec, uint32_t kinds)
{
	return ask(rec, RBT_AGENT_RESUME, kinds, 0);
}

int rbt_amd_link_preempt(const struct rbt_record *rec, uint32_t queue)
{
	return is_silent(rec) ? -ETIMEDOUT : ask(rec, RBT_AGENT_PREEMPT, queue, 0);
}

int rbt_amd_link_tell(const struct rbt_record *rec, enum rbt_agent_op op, uint64_t value)
{
	struct rbt_agent_request req = {
		.magic = RBT_AGENT_MAGIC, .op = op, .seq = next_seq(), .value = value};

	return put(rec, &req);
}

int rbt_amd_link_renew(const struct rbt_record *rec, uint64_t deadline_ns)
{
	return rbt_amd_link_tell(rec, RBT_AGENT_RENEW, deadline_ns + LATER_NS);
}

int rbt_amd_link_check(const struct rbt_record *rec)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(rec->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
		getsockopt(rec->fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0) {
		return -EBADF;
	}
	return domain == AF_UNIX && type == SOCK_SEQPACKET ? 0 : -EBADF;
}
