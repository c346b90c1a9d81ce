/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's recorder: what readers get, what a slow reader loses, and that nothing is recorded
 * for nobody. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "daemon/daemon.h"
#include "daemon/park/park.h"
#include "daemon/program.h"
#include "daemon/trace.h"

static struct daemon d;
static struct program p;
static struct parked parked;
static bool is_parked;

const char *program_name(struct program *of, uint64_t now_ns)
{
	return "program";
}

struct parked *park_find(const struct daemon *in, const struct program *of)
{
	return is_parked ? &parked : NULL;
}
static struct peer peers[2];
static int ends[2];

static char buf[RBT_MSG_MAX];

static struct rbt_msg_trace_events ask(int reader, uint64_t next, uint32_t flags)
{
	const struct rbt_msg_trace msg = {.next = next, .flags = flags};
	struct rbt_msg_trace_events head;

	trace_answer(&d, &peers[reader], &msg);
	ssize_t n = recv(ends[reader], buf, sizeof(buf), MSG_DONTWAIT);
	CHECK(n >= (ssize_t)sizeof(head));
	memcpy(&head, buf, sizeof(head));
	CHECK_INT(n, sizeof(head) + head.n * sizeof(struct rbt_trace_event));
	return head;
}

static struct rbt_trace_event event(uint32_t i)
{
	struct rbt_trace_event e;

	memcpy(&e, buf + sizeof(struct rbt_msg_trace_events) + i * sizeof(e), sizeof(e));
	return e;
}

/* The program changes n times. */
static void change(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		p.treat.priority = (p.treat.priority + 1) % 16;
		trace_look(&d);
	}
}

static void test_readers(void)
{
	change(3);
	CHECK(d.trace.ring == NULL && d.trace.n == 0);
	struct rbt_msg_trace_events got = ask(0, 0, RBT_TRACE_AFRESH);
	CHECK(got.n == 1 && event(0).pid == getpid() && event(0).priority == 3);
	trace_look(&d); /* nothing has changed */
	CHECK_INT(ask(0, got.first + got.n, 0).n, 0);
	change(2);
	got = ask(0, got.first + got.n, 0);
	CHECK(got.n == 2 && event(0).priority == 4 && event(1).priority == 5);
	CHECK(event(0).time_ns <= event(1).time_ns && event(1).time_ns <= got.now_ns);
	/* Another reader begins with the state of today, and the first one misses nothing. */
	struct rbt_msg_trace_events other = ask(1, 0, RBT_TRACE_AFRESH);
	CHECK(other.n == 1 && other.first == got.first + 2 && event(0).priority == 5);
	CHECK_INT(ask(0, got.first + got.n, 0).n, 1);
	trace_forget_peer(&d, &peers[1]);
	trace_forget_peer(&d, &peers[1]);
	CHECK(d.trace.ring != NULL);
}

static void test_slow_reader(void)
{
	uint64_t next = d.trace.n, seen = 0;

	change(20000);
	struct rbt_msg_trace_events got = ask(0, next, 0);
	CHECK(got.first > next && got.n == RBT_TRACE_MAX);
	while (got.n > 0) {
		seen += got.n;
		next = got.first + got.n;
		got = ask(0, next, 0);
		CHECK(got.first == next);
	}
	CHECK(seen == 8192 && next == d.trace.n);
	CHECK_INT(ask(0, UINT64_MAX, 0).n, 0);
}

static void test_parked(void)
{
	uint64_t next = d.trace.n;

	is_parked = true;
	trace_look(&d);
	CHECK_INT(ask(0, next, 0).n, 1);
	CHECK((event(0).flags & RBT_TRACE_PARKED) != 0);
	is_parked = false;
	trace_look(&d);
	CHECK_INT(ask(0, next + 1, 0).n, 1);
	CHECK((event(0).flags & RBT_TRACE_PARKED) == 0);
}

static void test_end(void)
{
	uint64_t next = d.trace.n;

	trace_end(&d, &p);
	CHECK_INT(ask(0, next, 0).n, 1);
	CHECK(event(0).flags == RBT_TRACE_GONE);
	trace_forget_peer(&d, &peers[0]);
	CHECK(d.trace.ring == NULL);
	change(1);
	trace_end(&d, &p);
	CHECK(d.trace.n == next + 1);
	/* Events of earlier readers are gone. */
	struct rbt_msg_trace_events got = ask(0, 0, RBT_TRACE_AFRESH);
	CHECK(got.n == 1 && got.first == next + 1);
	trace_forget_peer(&d, &peers[0]);
}

int main(void)
{
	for (int i = 0; i < 2; i++) {
		int fds[2], size = 1 << 20;

		CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
		setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		peers[i].source.fd = fds[0];
		ends[i] = fds[1];
	}
	p.pid = getpid();
	LIST_INIT(&p.clients);
	LIST_INSERT_HEAD(&d.programs, &p, entries);
	test_readers();
	test_slow_reader();
	test_parked();
	test_end();
	return check_result();
}
