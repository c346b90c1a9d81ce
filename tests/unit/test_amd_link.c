/* SPDX-License-Identifier: Apache-2.0 */
/* The way to an agent: one that does not answer is waited for once, until it has said something. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/amd/link.h"
#include "check.h"
#include "util/time.h"

static uint32_t ops[64], n_ops;

/* Answers what is there. */
static void answer_all(int fd)
{
	struct rbt_agent_request req;

	while (recv(fd, &req, sizeof(req), MSG_DONTWAIT) == sizeof(req)) {
		struct rbt_agent_reply reply = {.magic = RBT_AGENT_MAGIC, .seq = req.seq};
		ops[n_ops++ % 64] = req.magic == RBT_AGENT_MAGIC ? req.op : 0;
		(void)!send(fd, &reply, sizeof(reply), MSG_DONTWAIT);
	}
}

static void *agent(void *data)
{
	int fd = *(int *)data;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (poll(&p, 1, -1) == 1 && (p.revents & POLLHUP) == 0) {
		answer_all(fd);
	}
	return NULL;
}

static uint64_t ms_since(uint64_t start_ns)
{
	return (rbt_now_ns() - start_ns) / RBT_NS_PER_MS;
}

/* On a slow machine an agent that does answer may be late. */
static int suspend_at_last(const struct rbt_record *rec)
{
	int r = -ETIMEDOUT;

	for (int i = 0; r == -ETIMEDOUT && i < 300; i++) {
		r = rbt_amd_link_suspend(rec, RBT_AGENT_COMPUTE);
		(void)poll(NULL, 0, 10);
	}
	return r;
}

/* A record whose agent is whoever has the other end. */
static void make_link(struct rbt_record *ret, int ret_pair[2])
{
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_pair), 0);
	*ret = RBT_RECORD_INIT;
	ret->fd = ret_pair[0];
}

/* From now on there is an agent that answers: it suspends. The end of both. */
static void expect_waited_for(const struct rbt_record *rec, int pair[2])
{
	pthread_t thread;

	CHECK_INT(pthread_create(&thread, NULL, agent, &pair[1]), 0);
	CHECK_INT(suspend_at_last(rec), 0);
	shutdown(pair[0], SHUT_RDWR);
	pthread_join(thread, NULL);
	close(pair[0]);
	close(pair[1]);
}

static void test_silent(void)
{
	struct rbt_record rec;
	int pair[2];

	make_link(&rec, pair);
	CHECK_INT(rbt_amd_link_check(&rec), 0);
	uint64_t start_ns = rbt_now_ns();
	CHECK_INT(rbt_amd_link_suspend(&rec, RBT_AGENT_COMPUTE), -ETIMEDOUT);
	CHECK(ms_since(start_ns) >= 250);
	/* Ten more cost less than one. */
	start_ns = rbt_now_ns();
	for (int i = 0; i < 10; i++) {
		CHECK_INT(rbt_amd_link_suspend(&rec, RBT_AGENT_COMPUTE), -ETIMEDOUT);
		CHECK_INT(rbt_amd_link_resume(&rec, RBT_AGENT_COMPUTE), -ETIMEDOUT);
	}
	CHECK(ms_since(start_ns) < 250);
	/* It was told to suspend once, and last to resume. */
	answer_all(pair[1]);
	CHECK_INT(ops[0], RBT_AGENT_SUSPEND);
	CHECK(n_ops >= 2);
	for (uint32_t i = 1; i < n_ops; i++) {
		CHECK_INT(ops[i], RBT_AGENT_RESUME);
	}
	/* It has spoken: it is waited for again. */
	expect_waited_for(&rec, pair);
}

/* Its answers went to somebody else: it is asked again, without being waited for. */
static void test_probed(void)
{
	struct rbt_record rec;
	struct rbt_agent_reply reply;
	int pair[2];

	make_link(&rec, pair);
	CHECK_INT(rbt_amd_link_suspend(&rec, RBT_AGENT_COMPUTE), -ETIMEDOUT);
	answer_all(pair[1]);
	while (recv(pair[0], &reply, sizeof(reply), MSG_DONTWAIT) > 0) {
	}
	CHECK_INT(rbt_amd_link_suspend(&rec, RBT_AGENT_COMPUTE), -ETIMEDOUT);
	expect_waited_for(&rec, pair);
}

/* A job is stopped: the others do not wait for each of its programs. */
static void test_silent_together(void)
{
	struct rbt_record recs[8];
	int ends[8];

	/* What was before is forgotten. */
	(void)poll(NULL, 0, 1100);
	for (int i = 0; i < 8; i++) {
		int pair[2];
		CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		recs[i] = RBT_RECORD_INIT;
		recs[i].fd = pair[0];
		recs[i].client = (uint32_t)getpid();
		ends[i] = pair[1];
	}
	for (int i = 0; i < 8; i++) {
		uint64_t start_ns = rbt_now_ns();
		CHECK_INT(rbt_amd_link_suspend(&recs[i], RBT_AGENT_COMPUTE), -ETIMEDOUT);
		CHECK(i == 0 ? ms_since(start_ns) >= 250 : ms_since(start_ns) < 250);
	}
	for (int i = 0; i < 8; i++) {
		close(recs[i].fd);
		close(ends[i]);
	}
}

/* Nobody is there at all. */
static void test_gone(void)
{
	struct rbt_record rec;
	int pair[2];

	make_link(&rec, pair);
	close(pair[1]);
	CHECK_INT(rbt_amd_link_suspend(&rec, RBT_AGENT_COMPUTE), -ENOENT);
	close(pair[0]);
}

int main(void)
{
	test_silent();
	test_probed();
	test_silent_together();
	test_gone();
	return check_result();
}
