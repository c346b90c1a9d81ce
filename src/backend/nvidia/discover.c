/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach: finds the tasks of a program that was started without us.
 *
 * A client obeys the open file description on which it was made, so the program's own
 * /dev/nvidiactl files are borrowed. RM does not tell which client belongs to a file. So client
 * handles are searched for in the program's memory, and the best candidates are tried. Every wrong
 * one writes a line to the kernel log; therefore candidates are ranked with care.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nvidia/classify.h"
#include "backend/nvidia/memory.h"
#include "backend/nvidia/ops.h"
#include "backend/nvidia/rm.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

#define REFUSED_WAIT_MS 50
#define MAX_FILES       32
#define MAX_CANDIDATES  32

/* The most wrong clients tried, per file and in all: each is a line in the kernel log. */
#define MAX_WRONG_PER_FILE 8
#define MAX_WRONG          16

/* libcuda's data and the heap are read first, within the time that an attach may take minus that of
 * RM's answers (2.5 GB/s and more: at least 100 MiB). The scan takes longer only if that found
 * nothing. The limit is processor time, so that a busy machine does not make attaching fail. */
#define FIRST_SCAN_NS  (40 * RBT_NS_PER_MS)
#define MAX_SCAN_NS    RBT_NS_PER_S
#define MAX_SCAN_BYTES ((uint64_t)4 << 30)

/* One open description of /dev/nvidiactl, borrowed from the program. */
struct file {
	int target_fd;
	int fd; /* owned, until a record takes it */
	unsigned wrong;
	bool has_client;
};

struct attach {
	pid_t pid;
	int pidfd; /* borrowed */
	struct file files[MAX_FILES];
	size_t n_files;
	unsigned wrong;
	uint32_t top;
	uint32_t best_neighbours; /* of the first client with tasks; 0: none yet */
	bool any_client;          /* a client was found, with tasks or without */
	struct nv_card_info cards[NV_MAX_GPUS];
	struct rbt_nv_memory memory;
	struct rbt_nv_scan *scan;
	uint32_t tried[MAX_WRONG + MAX_FILES];
	size_t n_tried;
	struct rbt_record *records; /* owned */
	size_t n_records;
};

/*
 * A worker that was forked without exec (such as a PyTorch data loader) inherits its parent's
 * files, and the handles in its memory. But the client is the parent's, and is found there:
 * contexts do not survive a fork.
 */
static bool is_inherited(pid_t pid, int target_fd)
{
	char path[64], text[4096], exe[2][4096];
	pid_t pids[2] = {pid, 0};

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (rbt_read_file(path, text, sizeof(text)) <= 0) {
		return false;
	}
	const char *line = strstr(text, "\nPPid:");
	pids[1] = line != NULL ? (pid_t)strtol(line + 6, NULL, 10) : 0;
	if (pids[1] <= 1 || rbt_same_file(pid, target_fd, pids[1], target_fd) != 1) {
		return false;
	}
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/exe", (int)pids[i]);
		ssize_t n = readlink(path, exe[i], sizeof(exe[i]) - 1);
		if (n <= 0) {
			return false;
		}
		exe[i][n] = '\0';
	}
	return strcmp(exe[0], exe[1]) == 0;
}

static bool is_known(const struct attach *at, int fd)
{
	for (size_t i = 0; i < at->n_files; i++) {
		if (rbt_same_file(getpid(), at->files[i].fd, getpid(), fd) == 1) {
			return true;
		}
	}
	return false;
}

static int borrow_file(pid_t pid, int target_fd, void *data)
{
	struct attach *at = data;

	if (at->n_files == MAX_FILES || is_inherited(pid, target_fd)) {
		return 0;
	}
	int fd = rbt_pidfd_getfd(at->pidfd, target_fd);
	if (fd == -EBADF) {
		return 0; /* closed meanwhile */
	}
	if (fd < 0) {
		return fd;
	}
	if (is_known(at, fd)) {
		close(fd);
		return 0;
	}
	at->files[at->n_files++] = (struct file){.target_fd = target_fd, .fd = fd};
	return 0;
}

static int compare_files(const void *pa, const void *pb)
{
	const struct file *a = pa, *b = pb;

	return a->target_fd - b->target_fd;
}

/* Lowest first: libcuda opens the file of its client before those for events. */
static int borrow_files(struct attach *at)
{
	int r = rbt_proc_each_fd(at->pid, NV_CTL_PATH, borrow_file, at);

	if (r < 0) {
		return r;
	}
	if (at->n_files == 0) {
		return -ENXIO;
	}
	qsort(at->files, at->n_files, sizeof(at->files[0]), compare_files);
	return 0;
}

/* Queries the cards, and finds the newest client handle by making a client. */
static int ask_driver(struct attach *at)
{
	uint32_t client;
	int fd = rbt_nv_open_control();

	if (fd < 0) {
		return fd;
	}
	int r = rbt_nv_card_info(fd, at->cards);
	at->top = NV_CLIENT_HANDLE_BASE | ~NV_CLIENT_HANDLE_MASK;
	if (r == 0 && rbt_nv_alloc_client(fd, &client) == 0) {
		at->top = client;
		rbt_nv_free(fd, client, client, client);
	}
	rbt_close(&fd);
	return r;
}

/* The record gets a copy of the file: one file may carry several clients. */
static int add_record(struct attach *at, struct file *file, uint32_t client)
{
	struct rbt_record rec;
	int r = rbt_nv_classify(file->fd, client, at->scan, at->cards, &rec);

	if (r == -ENXIO) {
		return 0; /* such as NVML: a client without tasks */
	}
	if (r < 0) {
		return r;
	}
	struct rbt_record *grown = realloc(at->records, (at->n_records + 1) * sizeof(*at->records));
	if (grown == NULL) {
		rbt_record_finish(&rec);
		return -ENOMEM;
	}
	at->records = grown;
	rec.target_fd = file->target_fd;
	rec.fd = rbt_pidfd_getfd(at->pidfd, file->target_fd);
	if (rec.fd < 0) {
		r = rec.fd == -EBADF ? -ENXIO : rec.fd;
		rbt_record_finish(&rec);
		return r;
	}
	at->records[at->n_records++] = rec;
	return 0;
}

/* 1 if the candidate is a client of this file and was handled, 0 if not, or -errno. */
static int try_on(struct attach *at, struct file *file, const struct rbt_nv_candidate *c)
{
	if (file->wrong >= MAX_WRONG_PER_FILE || at->wrong >= MAX_WRONG) {
		return 0;
	}
	int r = rbt_nv_client_is_here(file->fd, c->handle);
	if (r < 0) {
		return r;
	}
	if (r == 0) {
		rbt_debug("pid %d fd %d: not client 0x%x (seen %u times, %u in company)",
			(int)at->pid, file->target_fd, c->handle, c->count, c->neighbours);
		file->wrong++;
		at->wrong++;
		return 0;
	}
	rbt_debug("pid %d fd %d: client 0x%x (seen %u times, %u in company)", (int)at->pid,
		file->target_fd, c->handle, c->count, c->neighbours);
	file->has_client = true;
	at->any_client = true;
	r = add_record(at, file, c->handle);
	if (r < 0) {
		return r;
	}
	if (at->best_neighbours == 0 && at->n_records > 0) {
		at->best_neighbours = c->neighbours;
	}
	return 1;
}

/* A file rarely has two clients: files without one are tried first. */
static int try_candidate(struct attach *at, const struct rbt_nv_candidate *c)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < at->n_files; i++) {
			if (at->files[i].has_client != (pass == 1)) {
				continue;
			}
			int r = try_on(at, &at->files[i], c);
			if (r != 0) {
				return r < 0 ? r : 0;
			}
		}
	}
	return 0;
}

static bool was_tried(const struct attach *at, uint32_t handle)
{
	for (size_t i = 0; i < at->n_tried; i++) {
		if (at->tried[i] == handle) {
			return true;
		}
	}
	return false;
}

/* After a client was found, only candidates in similar company are worth a line in the kernel
 * log. */
static bool is_worth_trying(
	const struct attach *at, const struct rbt_nv_candidate *c, bool without_company)
{
	if (at->n_records > 0) {
		return c->neighbours > 0 && c->neighbours >= at->best_neighbours / 4;
	}
	return c->neighbours > 0 || without_company;
}

static int try_candidates(struct attach *at, bool without_company)
{
	struct rbt_nv_candidate best[MAX_CANDIDATES];
	size_t n = rbt_nv_scan_clients(at->scan, at->top, best, MAX_CANDIDATES);

	for (size_t i = 0; i < n; i++) {
		if (was_tried(at, best[i].handle) ||
			!is_worth_trying(at, &best[i], without_company)) {
			continue;
		}
		if (at->wrong >= MAX_WRONG ||
			at->n_tried == sizeof(at->tried) / sizeof(at->tried[0])) {
			break;
		}
		at->tried[at->n_tried++] = best[i].handle;
		int r = try_candidate(at, &best[i]);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/*
 * Widens the search step by step until it finds a client with tasks. A client without tasks (a
 * monitor's, or one of a program that has no context yet) ends the search before the large mappings
 * are read.
 */
static int search(struct attach *at)
{
	static const struct {
		enum rbt_nv_place last;
		uint64_t max_bytes, max_ns;
		bool without_company;
	} steps[] = {
		{RBT_NV_PLACE_HEAP, MAX_SCAN_BYTES, FIRST_SCAN_NS, false},
		{RBT_NV_PLACE_HEAP, MAX_SCAN_BYTES, MAX_SCAN_NS, false},
		{RBT_NV_PLACE_OTHER, MAX_SCAN_BYTES, MAX_SCAN_NS, false},
		{RBT_NV_PLACE_OTHER, 0, 0, true},
	};
	uint64_t start_ns = rbt_cpu_ns();
	int r = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && at->n_records == 0; i++) {
		if (at->any_client && steps[i].last == RBT_NV_PLACE_OTHER) {
			break;
		}
		r = rbt_nv_memory_scan(&at->memory, steps[i].last, steps[i].max_bytes,
			start_ns + steps[i].max_ns, at->scan);
		rbt_debug("pid %d: memory read up to region %zu of %zu, in %llu us", (int)at->pid,
			at->memory.at, at->memory.n_regions,
			(unsigned long long)((rbt_cpu_ns() - start_ns) / RBT_NS_PER_US));
		if (r == 0) {
			r = try_candidates(at, steps[i].without_company);
		}
		if (r < 0) {
			return r;
		}
	}
	return at->n_records > 0 ? 0 : -ENXIO;
}

/* The program may have exited or called exec while it was searched. Then the result is invalid, and
 * the files must be closed: otherwise they keep a dead program's GPU memory alive. */
static int check_alive(const struct attach *at)
{
	struct pollfd p = {.fd = at->pidfd, .events = POLLIN};

	if (poll(&p, 1, 0) == 1) {
		return -ESRCH;
	}
	for (size_t i = 0; i < at->n_records; i++) {
		if (rbt_same_file(at->pid, at->records[i].target_fd, getpid(), at->records[i].fd) ==
			0) {
			return -ENXIO;
		}
	}
	return 0;
}

static void attach_finish(struct attach *at)
{
	for (size_t i = 0; i < at->n_files; i++) {
		rbt_close(&at->files[i].fd);
	}
	for (size_t i = 0; i < at->n_records; i++) {
		rbt_record_finish(&at->records[i]);
	}
	free(at->records);
	rbt_nv_memory_finish(&at->memory);
	rbt_nv_scan_destroy(at->scan);
}

static int run(struct attach *at)
{
	int r = rbt_pidfd_pid(at->pidfd);

	if (r < 0 || r != at->pid) {
		return r < 0 && r != -EBADF ? r : -ESRCH;
	}
	r = borrow_files(at);
	if (r == 0) {
		r = ask_driver(at);
	}
	if (r == 0) {
		r = rbt_nv_memory_init(&at->memory, at->pid);
	}
	if (r == 0) {
		r = rbt_nv_scan_create(&at->scan);
	}
	if (r == 0) {
		r = search(at);
	}
	/* Checked in any case: the files of a process that has just died are refused even to its
	 * owner, which looks like a lack of permission. */
	int alive = check_alive(at);
	return alive < 0 ? alive : r;
}

int rbt_nv_discover(pid_t pid, int pidfd, struct rbt_record **ret, size_t *ret_n)
{
	struct attach at = {.pid = pid, .pidfd = pidfd};
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r = run(&at);

	/* A process that is exiting, or in the middle of exec, is refused to its owner. A moment
	 * later it is either gone or accessible again. */
	if (r == -EPERM || r == -EACCES) {
		attach_finish(&at);
		at = (struct attach){.pid = pid, .pidfd = pidfd};
		r = poll(&p, 1, REFUSED_WAIT_MS) == 1 ? -ESRCH : run(&at);
	}

	if (r == 0) {
		*ret = at.records;
		*ret_n = at.n_records;
		at.records = NULL;
		at.n_records = 0;
	}
	attach_finish(&at);
	return r;
}
