/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of AMD compute programs (KFD), from outside: see them, take them off the GPU exactly
 * (CWSR), put them back. Link with -lrubato-kfd.
 *
 *     struct rubato_kfd *kfd;
 *     struct rubato_kfd_snapshot *snap;
 *     if (rubato_kfd_open(&kfd) == 0 && rubato_kfd_snapshot_take(kfd, pid, &snap) == 0) {
 *             rubato_kfd_print_snapshot(stdout, snap);
 *             rubato_kfd_snapshot_free(snap);
 *     }
 *     rubato_kfd_close(kfd);
 *
 * Functions return 0 (or a count) or a negative errno, and leave what they would fill untouched on
 * failure; rubato_kfd_strerror() puts the errno into a sentence:
 *   -ENODEV      no AMD compute driver here
 *   -EOPNOTSUPP  its interface is older than 1.13 (Linux 6.5): queues can be listed, no more
 *   -ESRCH       no such process, or it has ended
 *   -ENXIO       the process has nothing to do with KFD
 *   -EPERM       it may not be debugged by the caller
 *   -EACCES      the caller may not open /dev/kfd
 *   -EBUSY       another debugger has it, or its GPU
 *   -ENOTCONN    the process is not attached to
 *   -EAGAIN      its ROCm runtime has not started
 *   -EIO         the GPU failed
 *
 * A handle may be used from any thread, by one at a time.
 */
#ifndef RUBATO_KFD_H
#define RUBATO_KFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUBATO_KFD_API        __attribute__((visibility("default")))
#define RUBATO_KFD_MAX_QUEUES 1024

/* In the ids that suspend and resume give back. */
#define RUBATO_KFD_ID_ERROR   (UINT32_C(1) << 30) /* the GPU failed */
#define RUBATO_KFD_ID_INVALID (UINT32_C(1) << 31) /* no such queue, or one on its way out */

enum rubato_kfd_type {
	RUBATO_KFD_COMPUTE = 0,
	RUBATO_KFD_SDMA = 1,
	RUBATO_KFD_AQL = 2, /* compute, too; told apart only while attached */
	RUBATO_KFD_XGMI = 3,
};

struct rubato_kfd;

struct rubato_kfd_queue {
	uint32_t id; /* within the process */
	uint32_t gpu_id;
	uint32_t type; /* enum rubato_kfd_type */
	uint32_t ring_size;
	/* The following while attached only. */
	uint32_t has_addresses;
	uint32_t has_pointers; /* their values could be read */
	uint64_t ring_address, write_pointer_address, read_pointer_address, save_address;
	uint64_t write_pointer, read_pointer; /* see rubato_kfd_pending() */
	uint32_t save_size;                   /* of the CWSR area */
	uint32_t is_new;                      /* since the last snapshot */
};

struct rubato_kfd_snapshot {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	int32_t pid;
	uint32_t n_queues;
	struct rubato_kfd_queue *queues; /* by id */
};

/* How often something was seen. */
struct rubato_kfd_count {
	uint32_t key, n;
};

struct rubato_kfd_stats {
	uint32_t n_samples, min_queues, max_queues;
	double mean_queues;
	bool stable;     /* every sample has the same queues */
	uint32_t n_ids;  /* ids: in how many samples each was there */
	uint32_t n_gpus; /* gpus, types: sightings of queues */
	uint32_t n_types;
	struct rubato_kfd_count *ids, *gpus, *types; /* by key */
};

/* How long the last call of each kind took that succeeded, in ns; 0: there was none. */
struct rubato_kfd_latency {
	uint64_t open_ns;     /* rubato_kfd_fd() that opened the device */
	uint64_t enable_ns;   /* rubato_kfd_attach() that began a session */
	uint64_t snapshot_ns; /* rubato_kfd_snapshot_take() */
};

/* Opens the driver's list; nothing is opened on the device before attach() or fd(). */
RUBATO_KFD_API int rubato_kfd_open(struct rubato_kfd **ret);
/* Detaches from everything: all queues run. Accepts NULL. */
RUBATO_KFD_API void rubato_kfd_close(struct rubato_kfd *kfd);
/* An fd of /dev/kfd, which stands for the handle (rubato_kfd_by_fd) and stays its own; or -errno.
 * Makes the caller a KFD process. */
RUBATO_KFD_API int rubato_kfd_fd(struct rubato_kfd *kfd);
/* NULL when no handle has this fd. */
RUBATO_KFD_API struct rubato_kfd *rubato_kfd_by_fd(int fd);
/* The handle that has this fd; for another fd of /dev/kfd that the caller has opened, the handle of
 * this process that is attached to `pid`. 0; -EBADF: the fd is not one of /dev/kfd that works here;
 * -ENOTCONN: no handle is attached. No other thread may attach or detach meanwhile. */
RUBATO_KFD_API int rubato_kfd_by_session(int fd, pid_t pid, struct rubato_kfd **ret);

/* Calls fn for every process that has queues; stops at a non-zero return, and returns it. */
RUBATO_KFD_API int rubato_kfd_each_process(
	struct rubato_kfd *kfd, int (*fn)(pid_t pid, void *data), void *data);

/* Begins, ends a debug session: costs milliseconds, does not stop the process. Both are 0 when
 * it is so already. Detaching resumes what was suspended. */
RUBATO_KFD_API int rubato_kfd_attach(struct rubato_kfd *kfd, pid_t pid);
RUBATO_KFD_API int rubato_kfd_detach(struct rubato_kfd *kfd, pid_t pid);

/* The process's queues: with addresses and pointers while attached, from sysfs otherwise. */
RUBATO_KFD_API int rubato_kfd_snapshot_take(
	struct rubato_kfd *kfd, pid_t pid, struct rubato_kfd_snapshot **ret);
RUBATO_KFD_API void rubato_kfd_snapshot_free(struct rubato_kfd_snapshot *snap); /* accepts NULL */

RUBATO_KFD_API void rubato_kfd_get_latency(
	const struct rubato_kfd *kfd, struct rubato_kfd_latency *ret);

/*
 * Takes a snapshot every interval_s until duration_s is over (0: for ever) or the process has
 * ended, and gives each to fn, which may keep it (then frees it) by returning 1, goes on with 0 and
 * ends with a negative errno. Returns 0, or that errno, or the first snapshot's. A signal that is
 * handled ends a pause early, so that fn is asked.
 */
RUBATO_KFD_API int rubato_kfd_monitor(struct rubato_kfd *kfd, pid_t pid, double duration_s,
	double interval_s, int (*fn)(struct rubato_kfd_snapshot *snap, void *data), void *data);

/* What a series of snapshots comes to. 0, -EINVAL for none, -ENOMEM. */
RUBATO_KFD_API int rubato_kfd_analyse(
	const struct rubato_kfd_snapshot *const *snaps, size_t n, struct rubato_kfd_stats **ret);
RUBATO_KFD_API void rubato_kfd_stats_free(struct rubato_kfd_stats *stats); /* accepts NULL */
/* The same, snapshot by snapshot, none of which is kept: 0, or -ENOMEM with nothing changed. The
 * lists may move. */
RUBATO_KFD_API int rubato_kfd_stats_create(struct rubato_kfd_stats **ret);
RUBATO_KFD_API int rubato_kfd_stats_add(
	struct rubato_kfd_stats *stats, const struct rubato_kfd_snapshot *snap);

/*
 * What is in a queue's ring and not done: packets (AQL), words (COMPUTE), or bytes (SDMA, XGMI).
 * False, and *ret as it was, when that is not known: not attached, or the pointers, which are the
 * program's own to write, make no sense.
 */
RUBATO_KFD_API bool rubato_kfd_pending(const struct rubato_kfd_queue *q, uint64_t *ret);

/*
 * Suspends, resumes queues of a process that is attached to. Returns how many obeyed; ids[i] comes
 * back with RUBATO_KFD_ID_* set where one did not. Suspending saves the waves that run: nothing is
 * lost, resubmitted or run twice. grace: how long they may go on first, in units of 1024 GPU
 * clocks, 1 to 255; other values are taken for the nearest of these. A suspended queue stays so
 * until resumed or detached from, or until either process ends.
 */
RUBATO_KFD_API int rubato_kfd_suspend(
	struct rubato_kfd *kfd, pid_t pid, uint32_t *ids, uint32_t n, uint32_t grace);
RUBATO_KFD_API int rubato_kfd_resume(struct rubato_kfd *kfd, pid_t pid, uint32_t *ids, uint32_t n);

/* Words for people. */
RUBATO_KFD_API void rubato_kfd_print_snapshot(FILE *out, const struct rubato_kfd_snapshot *snap);
RUBATO_KFD_API void rubato_kfd_print_stats(FILE *out, const struct rubato_kfd_stats *stats);
/* One line with the latencies that are known; none if none is. */
RUBATO_KFD_API void rubato_kfd_print_latency(FILE *out, const struct rubato_kfd_latency *latency);
/* A snippet in C: an array with the ids of the compute queues that every sample had (all queues of
 * the last one, if there are none), for a program that suspends them. */
RUBATO_KFD_API void rubato_kfd_print_ids(
	FILE *out, const struct rubato_kfd_snapshot *last, const struct rubato_kfd_stats *stats);
RUBATO_KFD_API const char *rubato_kfd_type_name(uint32_t type);
RUBATO_KFD_API const char *rubato_kfd_strerror(int error);

#ifdef __cplusplus
}
#endif

#endif
