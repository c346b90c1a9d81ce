/* SPDX-License-Identifier: Apache-2.0 */
/* rubato/kfd.h: handles, sessions, snapshots. */
#include "rubato/kfd.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/device.h"
#include "backend/amd/session.h"
#include "backend/amd/sysfs.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/time.h"

#define MAX_IOVECS 1024
/* A ring may be moved without notice, so lists expire. */
#define LIST_NS RBT_NS_PER_S
/* The longest time that is counted: 100 years. */
#define MAX_S 3155760000u

struct entry {
	struct entry *next;
	struct rbt_amd_session *session;
	/* The kernel's last list, and the number of changes of queues by then. */
	struct kfd_queue_entry *list;
	uint32_t n_list;
	uint64_t n_changes, listed_ns;
};

struct rubato_kfd {
	struct rubato_kfd *next;
	int fd; /* -1: not open yet */
	struct entry *entries;
	struct rbt_amd_follow follow; /* of sysfs */
	struct rubato_kfd_latency latency;
};

static struct rubato_kfd *handles;
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

/* Written so that an analyser does not take each for a comparison with itself. */
static_assert(((RUBATO_KFD_ID_ERROR | RUBATO_KFD_ID_INVALID) & KFD_QUEUE_ID_MASK) == 0 &&
		      (RUBATO_KFD_ID_INVALID ^ RUBATO_KFD_ID_ERROR) == 3u << 30,
	"they are the kernel's");
static_assert(RUBATO_KFD_MAX_QUEUES == KFD_MAX_QUEUES, "it is the kernel's");

static int no_process(pid_t pid, void *data)
{
	return 0;
}

int rubato_kfd_open(struct rubato_kfd **ret)
{
	int r = rbt_amd_each_process(KFD_SYSFS_PATH, no_process, NULL);

	if (r < 0) {
		return r;
	}
	struct rubato_kfd *kfd = calloc(1, sizeof(*kfd));
	if (kfd == NULL) {
		return -ENOMEM;
	}
	kfd->fd = -1;
	pthread_mutex_lock(&handles_lock);
	kfd->next = handles;
	handles = kfd;
	pthread_mutex_unlock(&handles_lock);
	*ret = kfd;
	return 0;
}

static void entry_free(struct entry *e)
{
	rbt_amd_session_close(e->session);
	free(e->list);
	free(e);
}

void rubato_kfd_close(struct rubato_kfd *kfd)
{
	struct entry *next;

	if (kfd == NULL) {
		return;
	}
	pthread_mutex_lock(&handles_lock);
	struct rubato_kfd **at = &handles;
	while (*at != kfd) {
		at = &(*at)->next;
	}
	*at = kfd->next;
	pthread_mutex_unlock(&handles_lock);
	for (struct entry *e = kfd->entries; e != NULL; e = next) {
		next = e->next;
		entry_free(e);
	}
	rbt_close(&kfd->fd);
	rbt_amd_follow_finish(&kfd->follow);
	free(kfd);
}

int rubato_kfd_fd(struct rubato_kfd *kfd)
{
	if (kfd->fd < 0) {
		uint64_t start_ns = rbt_now_ns();
		int fd = rbt_amd_open();
		if (fd < 0) {
			return fd;
		}
		kfd->fd = fd;
		kfd->latency.open_ns = rbt_now_ns() - start_ns;
	}
	return kfd->fd;
}

struct rubato_kfd *rubato_kfd_by_fd(int fd)
{
	struct rubato_kfd *kfd;

	pthread_mutex_lock(&handles_lock);
	for (kfd = handles; kfd != NULL && (fd < 0 || kfd->fd != fd); kfd = kfd->next) {
	}
	pthread_mutex_unlock(&handles_lock);
	return kfd;
}

static bool is_attached(const struct rubato_kfd *kfd, pid_t pid)
{
	const struct entry *e = kfd->entries;

	while (e != NULL && rbt_amd_session_pid(e->session) != pid) {
		e = e->next;
	}
	return e != NULL;
}

/* Whether it is a file of /dev/kfd that serves this process: another's answers with EBADF. */
static bool is_device(int fd)
{
	struct kfd_version version;

	return ioctl(fd, KFD_IOC_GET_VERSION, &version) == 0;
}

int rubato_kfd_by_session(int fd, pid_t pid, struct rubato_kfd **ret)
{
	struct rubato_kfd *kfd = rubato_kfd_by_fd(fd);

	if (kfd == NULL && (fd < 0 || !is_device(fd))) {
		return -EBADF;
	}
	if (kfd == NULL) {
		pthread_mutex_lock(&handles_lock);
		for (kfd = handles; kfd != NULL && !is_attached(kfd, pid); kfd = kfd->next) {
		}
		pthread_mutex_unlock(&handles_lock);
	}
	if (kfd == NULL) {
		return -ENOTCONN;
	}
	*ret = kfd;
	return 0;
}

struct walk {
	int (*fn)(pid_t pid, void *data);
	void *data;
};

static int with_queues(pid_t pid, void *data)
{
	const struct walk *w = data;
	struct rbt_amd_queue *queues = NULL;
	size_t n = 0;

	if (rbt_amd_queues_read(KFD_SYSFS_PATH, pid, &queues, &n) < 0) {
		return 0;
	}
	free(queues);
	return n > 0 ? w->fn(pid, w->data) : 0;
}

int rubato_kfd_each_process(struct rubato_kfd *kfd, int (*fn)(pid_t pid, void *data), void *data)
{
	return rbt_amd_each_process(
		KFD_SYSFS_PATH, with_queues, &(struct walk){.fn = fn, .data = data});
}

static struct entry **find(struct rubato_kfd *kfd, pid_t pid)
{
	struct entry **at = &kfd->entries;

	while (*at != NULL && rbt_amd_session_pid((*at)->session) != pid) {
		at = &(*at)->next;
	}
	return at;
}

int rubato_kfd_attach(struct rubato_kfd *kfd, pid_t pid)
{
	if (*find(kfd, pid) != NULL) {
		return 0;
	}
	struct entry *e = calloc(1, sizeof(*e));
	uint64_t start_ns = rbt_now_ns();
	int r = e == NULL ? -ENOMEM : rbt_amd_session_open(pid, &e->session);
	if (r < 0) {
		free(e);
		return r;
	}
	kfd->latency.enable_ns = rbt_now_ns() - start_ns;
	e->next = kfd->entries;
	kfd->entries = e;
	return 0;
}

int rubato_kfd_detach(struct rubato_kfd *kfd, pid_t pid)
{
	struct entry **at = find(kfd, pid), *e = *at;

	if (e != NULL) {
		*at = e->next;
		entry_free(e);
	}
	return 0;
}

static int make_snapshot(pid_t pid, uint32_t n, struct rubato_kfd_snapshot **ret)
{
	struct rubato_kfd_snapshot *snap =
		calloc(1, sizeof(*snap) + n * sizeof(struct rubato_kfd_queue));

	if (snap == NULL) {
		return -ENOMEM;
	}
	snap->time_ns = rbt_now_ns();
	snap->pid = pid;
	snap->n_queues = n;
	snap->queues = (struct rubato_kfd_queue *)(snap + 1);
	*ret = snap;
	return 0;
}

/* Reads two words per queue, in as few calls as possible. A call ends at the first word that cannot
 * be read: the next call begins behind it. */
static void read_pointers(struct rubato_kfd_snapshot *snap)
{
	uint64_t words[MAX_IOVECS] = {0};
	struct iovec local[MAX_IOVECS], remote[MAX_IOVECS];
	uint32_t at = 0, total = 2 * snap->n_queues;

	while (at < total) {
		uint32_t n = total - at < MAX_IOVECS ? total - at : MAX_IOVECS;
		for (uint32_t i = 0; i < n; i++) {
			const struct rubato_kfd_queue *q = &snap->queues[(at + i) / 2];
			uint64_t addr = (at + i) % 2 == 0 ? q->write_pointer_address
							  : q->read_pointer_address;
			local[i] =
				(struct iovec){.iov_base = &words[i], .iov_len = sizeof(words[i])};
			remote[i] = (struct iovec){
				.iov_base = (void *)(uintptr_t)addr, .iov_len = sizeof(words[i])};
		}
		ssize_t got = process_vm_readv(snap->pid, local, n, remote, n, 0);
		if (got < 0 && errno != EFAULT) {
			return;
		}
		uint32_t whole = got > 0 ? (uint32_t)got / sizeof(words[0]) : 0;
		for (uint32_t i = 0; i < whole; i++) {
			struct rubato_kfd_queue *q = &snap->queues[(at + i) / 2];
			if ((at + i) % 2 == 0) {
				q->write_pointer = words[i];
				q->has_pointers = 2; /* only one of the two so far */
			} else {
				q->read_pointer = words[i];
				q->has_pointers = q->has_pointers == 2;
			}
		}
		at += whole < n ? whole + 1 : n;
	}
	for (uint32_t i = 0; i < snap->n_queues; i++) {
		snap->queues[i].has_pointers = snap->queues[i].has_pointers == 1;
	}
}

/* The kernel is asked again only if queues have come or gone: the pointers are in the target. */
static int list_attached(struct entry *e)
{
	uint64_t n_changes = rbt_amd_session_changes(e->session);

	uint64_t now_ns = rbt_now_ns();

	if (e->list != NULL && e->n_changes == n_changes && now_ns - e->listed_ns < LIST_NS) {
		return 0;
	}
	struct kfd_queue_entry *list = NULL;
	uint32_t n = 0;
	int r = rbt_amd_session_snapshot(e->session, &list, &n);
	if (r == 0) {
		free(e->list);
		e->list = list;
		e->n_list = n;
		e->n_changes = n_changes;
		e->listed_ns = now_ns;
	}
	return r;
}

static int snapshot_attached(struct entry *e, struct rubato_kfd_snapshot **ret)
{
	struct rubato_kfd_snapshot *snap;
	int r = list_attached(e);

	if (r < 0) {
		return r;
	}
	struct kfd_queue_entry *list = e->list;
	r = make_snapshot(rbt_amd_session_pid(e->session), e->n_list, &snap);
	for (uint32_t i = 0; r == 0 && i < e->n_list; i++) {
		snap->queues[i] = (struct rubato_kfd_queue){
			.id = list[i].queue_id,
			.gpu_id = list[i].gpu_id,
			.type = list[i].queue_type,
			.ring_size = list[i].ring_size,
			.has_addresses = 1,
			.ring_address = list[i].ring_base_address,
			.write_pointer_address = list[i].write_pointer_address,
			.read_pointer_address = list[i].read_pointer_address,
			.save_address = list[i].ctx_save_restore_address,
			.save_size = list[i].ctx_save_restore_area_size,
			.is_new = (list[i].exception_status & KFD_EC_QUEUE_NEW) != 0,
		};
		/* The list may serve for the next snapshot, too. */
		list[i].exception_status &= ~KFD_EC_QUEUE_NEW;
	}
	if (r < 0) {
		return r;
	}
	read_pointers(snap);
	*ret = snap;
	return 0;
}

static int snapshot_sysfs(struct rubato_kfd *kfd, pid_t pid, struct rubato_kfd_snapshot **ret)
{
	struct rubato_kfd_snapshot *snap;
	int r = rbt_amd_follow(KFD_SYSFS_PATH, pid, &kfd->follow);

	if (r == -ENXIO) {
		/* Distinguishes a missing process from one that does not use KFD. */
		int pidfd = rbt_pidfd_open(pid);
		rbt_close(&pidfd);
		return pidfd == -ESRCH || pidfd == -EINVAL ? -ESRCH : -ENXIO;
	}
	r = r < 0 ? r : make_snapshot(pid, (uint32_t)kfd->follow.n_known, &snap);
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < kfd->follow.n_known; i++) {
		const struct rbt_amd_queue *q = &kfd->follow.known[i];
		snap->queues[i] = (struct rubato_kfd_queue){
			.id = q->id, .gpu_id = q->gpu_id, .type = q->type, .ring_size = q->size};
	}
	*ret = snap;
	return 0;
}

int rubato_kfd_snapshot_take(struct rubato_kfd *kfd, pid_t pid, struct rubato_kfd_snapshot **ret)
{
	struct entry *e = *find(kfd, pid);
	uint64_t start_ns = rbt_now_ns();
	int r = e != NULL ? snapshot_attached(e, ret) : snapshot_sysfs(kfd, pid, ret);

	if (r == 0) {
		kfd->latency.snapshot_ns = rbt_now_ns() - start_ns;
	}
	return r;
}

void rubato_kfd_get_latency(const struct rubato_kfd *kfd, struct rubato_kfd_latency *ret)
{
	*ret = kfd->latency;
}

void rubato_kfd_snapshot_free(struct rubato_kfd_snapshot *snap)
{
	free(snap);
}

/* Cuts longer times: nobody waits for their end. */
static uint64_t to_ns(double s)
{
	return s < MAX_S ? (uint64_t)(s * 1e9) : MAX_S * RBT_NS_PER_S;
}

int rubato_kfd_monitor(struct rubato_kfd *kfd, pid_t pid, double duration_s, double interval_s,
	int (*fn)(struct rubato_kfd_snapshot *snap, void *data), void *data)
{
	if (!(interval_s > 0) || !(duration_s >= 0)) {
		return -EINVAL;
	}
	uint64_t start_ns = rbt_now_ns(), step_ns = to_ns(interval_s), next_ns = start_ns;
	uint64_t end_ns = duration_s > 0 ? start_ns + to_ns(duration_s) : UINT64_MAX;
	bool first = true;

	for (;;) {
		struct rubato_kfd_snapshot *snap;
		int r = rubato_kfd_snapshot_take(kfd, pid, &snap);
		if (r < 0) {
			/* The end of the process is a regular end of the samples. */
			return !first && (r == -ESRCH || r == -ENXIO) ? 0 : r;
		}
		first = false;
		r = fn(snap, data);
		if (r != 1) {
			rubato_kfd_snapshot_free(snap);
		}
		if (r < 0) {
			return r;
		}
		next_ns += step_ns;
		uint64_t now_ns = rbt_now_ns();
		if (next_ns >= end_ns || now_ns >= end_ns) {
			return 0;
		}
		/* Late samples are skipped, not made up for. */
		next_ns = next_ns < now_ns ? now_ns : next_ns;
		struct timespec until = {.tv_sec = (time_t)(next_ns / RBT_NS_PER_S),
			.tv_nsec = (long)(next_ns % RBT_NS_PER_S)};
		(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
}

/* For callers of the library, -ENOTCONN means that there is no session. */
static int translate(int r)
{
	return r == -ENOTCONN ? -EAGAIN : r;
}

int rubato_kfd_suspend(struct rubato_kfd *kfd, pid_t pid, uint32_t *ids, uint32_t n, uint32_t grace)
{
	struct entry *e = *find(kfd, pid);

	return e != NULL ? translate(rbt_amd_session_suspend(e->session, ids, n, grace))
			 : -ENOTCONN;
}

int rubato_kfd_resume(struct rubato_kfd *kfd, pid_t pid, uint32_t *ids, uint32_t n)
{
	struct entry *e = *find(kfd, pid);

	return e != NULL ? translate(rbt_amd_session_resume(e->session, ids, n)) : -ENOTCONN;
}
