/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/amd/link.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/time.h"

/* The agent needs a turn on a processor, and a call a queue. */
#define REPLY_NS (300 * RBT_NS_PER_MS)
/* Until it is renewed. */
#define LEASE_NS (2 * RBT_NS_PER_S)

/* Daemon and hand may speak on the same socket, one after the other: each knows its own answers. */
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

/* Others' answers, which nobody has waited for, are passed over. */
static int await(const struct rbt_record *rec, uint32_t seq)
{
	uint64_t until_ns = rbt_now_ns() + REPLY_NS;

	for (;;) {
		struct pollfd p = {.fd = rec->fd, .events = POLLIN};
		struct rbt_agent_reply reply;
		uint64_t now_ns = rbt_now_ns();
		int wait_ms = (int)((until_ns - now_ns + RBT_NS_PER_MS - 1) / RBT_NS_PER_MS);
		if (now_ns >= until_ns || poll(&p, 1, wait_ms) == 0) {
			return -ETIMEDOUT;
		}
		ssize_t n = recv(rec->fd, &reply, sizeof(reply), MSG_DONTWAIT);
		if (n == 0) {
			return -ENOENT;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return translate(errno);
		}
		if (n == sizeof(reply) && reply.magic == RBT_AGENT_MAGIC && reply.seq == seq) {
			/* Whatever it says, an errno. */
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
	int r = put(rec, &req);

	return r < 0 ? r : await(rec, req.seq);
}

int rbt_amd_link_suspend(const struct rbt_record *rec, uint32_t kinds)
{
	struct rbt_agent_request undo = {
		.magic = RBT_AGENT_MAGIC, .op = RBT_AGENT_RESUME, .kinds = kinds};
	int r = ask(rec, RBT_AGENT_SUSPEND, kinds, rbt_now_ns() + LEASE_NS);

	/* It may still come to it: then it is to be undone at once. */
	if (r == -ETIMEDOUT) {
		(void)put(rec, &undo);
	}
	return r;
}

int rbt_amd_link_resume(const struct rbt_record *rec, uint32_t kinds)
{
	return ask(rec, RBT_AGENT_RESUME, kinds, 0);
}

int rbt_amd_link_preempt(const struct rbt_record *rec, uint32_t queue)
{
	return ask(rec, RBT_AGENT_PREEMPT, queue, 0);
}

int rbt_amd_link_tell(const struct rbt_record *rec, enum rbt_agent_op op, uint64_t value)
{
	struct rbt_agent_request req = {
		.magic = RBT_AGENT_MAGIC, .op = op, .seq = next_seq(), .value = value};

	return put(rec, &req);
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
