/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "remote/worker/worker.h"

/* As much as a kernel can print before the program synchronises, by default. */
#define PIPE_BYTES (1 << 20)
#define MAX_TEXT   (RBT_WIRE_MAX_CALL / 4)

void worker_print_open(struct worker *w)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		return;
	}
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
	if (dup2(fds[1], STDOUT_FILENO) >= 0) {
		w->printed = fds[0];
	}
	close(fds[1]);
}

/* The rest comes with the next answer. */
size_t worker_take_print(struct worker *w, struct rbt_wire_writer *answer)
{
	static char buf[MAX_TEXT];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	size_t size = 0;

	if (w->printed < 0) {
		return 0;
	}
	pthread_mutex_lock(&lock);
	ssize_t n = read(w->printed, buf, sizeof(buf));

	if (n > 0 && !answer->bad) {
		size = (size_t)n;
		rbt_wire_put_block(answer, buf, size);
	}
	pthread_mutex_unlock(&lock);
	return size;
}
