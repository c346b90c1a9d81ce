/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrows the device file of a program without a shim. The number that we remember may stand for
 * another file of the program by now. So another process inspects the file first, as with files
 * that peers send (porter.c).
 */
#include "daemon/attach/borrow.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "daemon/peers/devicefile.h"
#include "daemon/peers/porter.h"
#include "util/aside.h"
#include "util/fd.h"
#include "util/proc.h"

#define BORROW_S 2

struct loan {
	pid_t pid;
	uint64_t start_time;
	uint32_t backend;
	int target_fd;
};

/* Returns 0 and a file in *ret, which the caller closes whatever it is, or returns -errno. */
static int obtain(const struct loan *loan, int *ret)
{
	uint64_t start_time = 0;
	int pidfd = rbt_pidfd_open(loan->pid);

	if (pidfd < 0) {
		return pidfd;
	}
	/* The pid may have been reused since, but it cannot be reused once the pidfd is open. */
	int r = rbt_proc_start_time(loan->pid, &start_time);
	if (r == 0 && start_time != loan->start_time) {
		r = -ESRCH;
	}
	*ret = r == 0 ? rbt_pidfd_getfd(pidfd, loan->target_fd) : r;
	close(pidfd);
	return *ret < 0 ? *ret : 0;
}

static void lend(int sock, void *data)
{
	const struct loan *loan = data;
	int fd = -1;
	int32_t r = obtain(loan, &fd);

	if (r == 0) {
		struct rbt_record rec = {.fd = fd, .backend = loan->backend};
		/* The program has closed the device since, and opened another file under its
		 * number. */
		r = check_device_fd(&rec) < 0 ? -ESRCH : 0;
	}
	rbt_send(sock, &r, sizeof(r), &fd, r == 0 ? 1 : 0, 0);
	rbt_close(&fd); /* this may hang */
}

int borrow_device(struct daemon *d, pid_t pid, uint64_t start_time, const struct rbt_record *rec)
{
	struct loan loan = {pid, start_time, rec->backend, rec->target_fd};
	struct timeval timeout = {.tv_sec = BORROW_S};
	int fds[RBT_MAX_FDS_PER_MSG], sock;
	size_t n_fds = 0;
	int32_t r = 0;

	pid_t lender = rbt_aside_start(lend, &loan, &sock);
	if (lender < 0) {
		return lender;
	}
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	ssize_t n = rbt_recv(sock, &r, sizeof(r), fds, &n_fds, 0);
	close(sock);
	if (!rbt_aside_end(lender)) {
		porter_lose(d, lender);
	}
	if (n != sizeof(r) || (r == 0 && n_fds != 1)) {
		return -ETIMEDOUT;
	}
	return r < 0 ? r : fds[0];
}
