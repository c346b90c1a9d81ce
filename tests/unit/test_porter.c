/* SPDX-License-Identifier: Apache-2.0 */
/* The porter's own process, between a program, its agent and a daemon that does not read. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "daemon/peers/parcel.h"
#include "util/aside.h"
#include "util/fd.h"

#define LONG_MS 10000
/* A connection that takes nothing for this long is full. */
#define FULL_MS 300

struct world {
	pid_t porter;
	int sock;       /* the daemon's end */
	int connection; /* the program's end */
	int agent;      /* the agent's end of its link */
	int link;       /* what the daemon got in place of the other end */
};

static bool is_ready(int fd, short events, int wait_ms)
{
	struct pollfd pfd = {.fd = fd, .events = events};

	return poll(&pfd, 1, wait_ms) == 1;
}

/* Receives a message that the porter has passed on. Returns its first byte, or -1. */
static int take(const struct world *w, int *ret_fd)
{
	static struct parcel parcel;
	int fds[RBT_MAX_FDS_PER_MSG];
	size_t n_fds = 0;

	if (!is_ready(w->sock, POLLIN, LONG_MS)) {
		return -1;
	}
	ssize_t n = rbt_recv(w->sock, &parcel, sizeof(parcel), fds, &n_fds, MSG_DONTWAIT);
	if (ret_fd != NULL) {
		*ret_fd = fds[0];
	}
	return n > (ssize_t)PARCEL_HEAD ? parcel.bytes[0] : -1;
}

/* The first message brings the link to the agent. */
static void start(struct world *w)
{
	int type = SOCK_SEQPACKET | SOCK_CLOEXEC, pair[2], link[2];

	CHECK(socketpair(AF_UNIX, type, 0, pair) == 0 && socketpair(AF_UNIX, type, 0, link) == 0);
	w->porter = rbt_aside_start_with(porter_run, NULL, &pair[1], 1, &w->sock);
	CHECK(w->porter > 0);
	close(pair[1]);
	w->connection = pair[0];
	w->agent = link[0];
	CHECK(rbt_send(w->connection, "r", 1, &link[1], 1, 0) == 0);
	close(link[1]);
	CHECK_INT(take(w, &w->link), 'r');
	CHECK(w->link >= 0);
}

static void end(struct world *w)
{
	CHECK(rbt_aside_end(w->porter));
	rbt_close(&w->sock);
	rbt_close(&w->connection);
	rbt_close(&w->agent);
	rbt_close(&w->link);
}

/* Sends messages until there is no room in either direction. Returns how many. */
static unsigned fill(const struct world *w)
{
	char record[1024] = "m";
	unsigned n = 0;

	while (is_ready(w->connection, POLLOUT, FULL_MS)) {
		n += rbt_send(w->connection, record, sizeof(record), NULL, 0, MSG_DONTWAIT) == 0;
	}
	return n;
}

/* The daemon pauses a program that sends too much. It may then wait for the program's agent. */
static void test_the_agent_hears_a_daemon_that_does_not_read(void)
{
	struct world w;
	char buf[8];

	start(&w);
	unsigned n = fill(&w);
	CHECK(n > 0);
	for (int i = 0; i < 3; i++) {
		CHECK(send(w.link, "ask", 3, 0) == 3);
		CHECK(is_ready(w.agent, POLLIN, LONG_MS));
		CHECK(recv(w.agent, buf, sizeof(buf), MSG_DONTWAIT) == 3);
		CHECK(send(w.agent, "answer", 6, 0) == 6);
		CHECK(is_ready(w.link, POLLIN, LONG_MS));
		CHECK(recv(w.link, buf, sizeof(buf), MSG_DONTWAIT) == 6);
	}
	/* Nothing is lost. */
	for (unsigned i = 0; i < n; i++) {
		if (take(&w, NULL) != 'm') {
			CHECK_INT(i, n);
			break;
		}
	}
	CHECK(rbt_send(w.connection, "z", 1, NULL, 0, 0) == 0);
	CHECK_INT(take(&w, NULL), 'z');
	end(&w);
}

static void test_it_ends_with_the_daemon(void)
{
	struct world w;

	start(&w);
	CHECK(fill(&w) > 0);
	rbt_close(&w.sock);
	/* Its copy of the connection was the last one. */
	CHECK(is_ready(w.connection, POLLIN, LONG_MS));
	end(&w);
}

int main(void)
{
	test_the_agent_hears_a_daemon_that_does_not_read();
	test_it_ends_with_the_daemon();
	return check_result();
}
