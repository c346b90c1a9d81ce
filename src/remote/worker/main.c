/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rubato-worker SOCKET [ACCOUNT SLOT LIMIT]: does the calls of one guest process. `rubato serve`
 * starts it, with the connection as file descriptor SOCKET. If device memory is limited, ACCOUNT is
 * the file of all workers' sums, SLOT is this worker's, and LIMIT is in bytes.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "remote/worker/worker.h"
#include "util/log.h"
#include "util/parse.h"

int worker_init(struct worker *w, int sock, const struct worker_driver *driver)
{
	w->sock = sock;
	w->printed = -1;
	w->driver = driver;
	pthread_mutex_init(&w->lock, NULL);
	return rbt_handles_init(&w->handles, WORKER_MAX_HANDLES);
}

static bool parse(const char *text, uint64_t max, uint64_t *ret)
{
	return rbt_parse_u64(text, 0, max, ret) == 0;
}

/* Each map has a file, and each channel has two. */
static void allow_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(int argc, char **argv)
{
	static struct worker worker;
	uint64_t sock, account, slot, limit;
	bool limited = argc == 5;

	if ((argc != 2 && !limited) || !parse(argv[1], 1 << 20, &sock) ||
		(limited && (!parse(argv[2], 1 << 20, &account) ||
				    !parse(argv[3], RBT_ACCOUNT_SLOTS - 1, &slot) ||
				    !parse(argv[4], UINT64_MAX, &limit)))) {
		fprintf(stderr, "rubato-worker is started by rubato serve\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	allow_files();
	if (worker_init(&worker, (int)sock, worker_driver_load()) < 0 ||
		(limited && worker_account_open(
				    &worker.account, (int)account, (uint32_t)slot, limit) < 0)) {
		rbt_error("worker: out of memory");
		return 1;
	}
	worker_print_open(&worker);
	worker_run(&worker);
	/* The driver releases what the guest has left, as for every program that ends. Threads may
	 * be inside driver calls, so that nothing else is cleaned up. */
	_exit(0);
}
