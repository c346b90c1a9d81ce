/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a snapshot costs beyond the kernel's part: the tool's own (user) time, on average. Prints,
 * in µs: the kernel's list fetched, a snapshot made of it with the pointers, and one from sysfs.
 *
 * kfdcost PID COUNT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "backend/amd/session.h"
#include "rubato/kfd.h"

static double user_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)used.ru_utime.tv_sec * 1e6 + (double)used.ru_utime.tv_usec;
}

static void check(int r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "kfdcost: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

static double list_us(pid_t pid, int count)
{
	struct rbt_amd_session *session;
	struct kfd_queue_entry *list;
	uint32_t n;

	check(rbt_amd_session_open(pid, &session), "session");
	double start = user_us();
	for (int i = 0; i < count; i++) {
		check(rbt_amd_session_snapshot(session, &list, &n), "list");
		free(list);
	}
	double took = user_us() - start;
	rbt_amd_session_close(session);
	return took / count;
}

static double snapshot_us(pid_t pid, int count, bool attach, uint32_t *ret_n)
{
	struct rubato_kfd_snapshot *snap;
	struct rubato_kfd *kfd;

	check(rubato_kfd_open(&kfd), "open");
	check(attach ? rubato_kfd_attach(kfd, pid) : 0, "attach");
	double start = user_us();
	for (int i = 0; i < count; i++) {
		check(rubato_kfd_snapshot_take(kfd, pid, &snap), "snapshot");
		*ret_n = snap->n_queues;
		rubato_kfd_snapshot_free(snap);
	}
	double took = user_us() - start;
	rubato_kfd_close(kfd);
	return took / count;
}

int main(int argc, char **argv)
{
	uint32_t n = 0;

	if (argc != 3 || atoi(argv[2]) <= 0) {
		fputs("usage: kfdcost PID COUNT\n", stderr);
		return 2;
	}
	pid_t pid = atoi(argv[1]);
	int count = atoi(argv[2]);
	double list = list_us(pid, count), attached = snapshot_us(pid, count, true, &n);
	double sysfs = snapshot_us(pid, count, false, &n);
	printf("queues %u list %.0f snapshot %.0f sysfs %.0f\n", n, list, attached, sysfs);
	return 0;
}
