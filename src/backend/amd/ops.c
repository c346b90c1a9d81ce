/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend's table. A record's client is the process (its pid), a task is a queue: handle and
 * channel are the queue's id, the subdevice is KFD's id of the GPU. Records are made from sysfs;
 * their file is the program's /dev/kfd, which serves only to know the program again: the kernel
 * refuses it to everybody else. What is done is done through a debug session, which lives from the
 * first suspend of a program to its last resume.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/amd/device.h"
#include "backend/amd/discover.h"
#include "backend/amd/session.h"
#include "backend/amd/sysfs.h"
#include "backend/backend.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"

struct entry {
	struct entry *next;
	struct rbt_amd_session *session;
};

static struct entry *entries;
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER; /* over all that follows */

static int may_write(bool force)
{
	static bool known;
	struct kfd_version version;

	if (__atomic_load_n(&known, __ATOMIC_RELAXED)) {
		return 0;
	}
	int fd = rbt_amd_open();
	if (fd < 0) {
		return fd;
	}
	int r = rbt_amd_version(fd, &version);
	rbt_close(&fd);
	if (r < 0) {
		return r;
	}
	if (!rbt_amd_can_debug(&version)) {
		return force ? 0 : -EPROTONOSUPPORT;
	}
	__atomic_store_n(&known, true, __ATOMIC_RELAXED);
	return 0;
}

/* Not the render node: opening that wakes a GPU that sleeps. */
static int lock_path(uint32_t gpu, char *buf, size_t size)
{
	struct rbt_amd_topology t;
	int r = rbt_amd_topology_read(KFD_SYSFS_PATH, &t);

	for (uint32_t i = 0; r == 0 && i < t.n; i++) {
		if (t.gpus[i].number == gpu) {
			int n = snprintf(buf, size, KFD_SYSFS_PATH "/topology/nodes/%u/properties",
				t.gpus[i].node);
			return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
		}
	}
	return r < 0 ? r : -ENODEV;
}

/* Queues have no timeslice that could be set from outside; but whether a task is there is said. */
static int no_timeslice(const struct rbt_record *rec, const struct rbt_task *task)
{
	int r = rbt_amd_find_task(rec, task);

	return r < 0 ? r : -EOPNOTSUPP;
}

static int get_timeslice(
	const struct rbt_record *rec, const struct rbt_task *task, uint64_t *ret_us)
{
	return no_timeslice(rec, task);
}

static int set_timeslice(const struct rbt_record *rec, const struct rbt_task *task, uint64_t us)
{
	return us == 0 ? -EINVAL : no_timeslice(rec, task);
}

static uint32_t kinds_of(enum rbt_scope scope)
{
	switch (scope) {
	case RBT_SCOPE_COMPUTE:
		return RBT_AMD_COMPUTE;
	case RBT_SCOPE_REST:
		return RBT_AMD_SDMA;
	default:
		return RBT_AMD_COMPUTE | RBT_AMD_SDMA;
	}
}

/* Whether the record's process is still the one it was made of: a pid may be another's by now. The
 * file is compared where the kernel lets us. */
static int check_process(const struct rbt_record *rec)
{
	int same = rec->target_fd >= 0
			   ? rbt_same_file(getpid(), rec->fd, (pid_t)rec->client, rec->target_fd)
			   : 1;

	return same == 0 || same == -EBADF || same == -ESRCH ? -ENOENT : 0;
}

/* 0 when at least one of the record's tasks in scope is there. */
static int check_tasks(const struct rbt_record *rec, enum rbt_scope scope)
{
	struct rbt_amd_queue *queues = NULL;
	size_t n = 0;
	int r = rbt_amd_queues_read(KFD_SYSFS_PATH, (pid_t)rec->client, &queues, &n);
	bool found = false, any = false;

	if (r < 0) {
		return r == -ENXIO ? -ENOENT : r;
	}
	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		const struct rbt_task *task = &rec->tasks[i];
		bool is_compute = task->kind == RBT_TASK_COMPUTE;
		if (scope != RBT_SCOPE_ALL && is_compute != (scope == RBT_SCOPE_COMPUTE)) {
			continue;
		}
		any = true;
		found |= rbt_amd_task_is_in(rec, task, queues, n);
	}
	free(queues);
	return found || !any ? 0 : -ENOENT;
}

static struct entry *find_entry(pid_t pid)
{
	for (struct entry *e = entries; e != NULL; e = e->next) {
		if (rbt_amd_session_pid(e->session) == pid) {
			return e;
		}
	}
	return NULL;
}

static int get_entry(pid_t pid, struct entry **ret)
{
	struct entry *e = find_entry(pid);

	if (e == NULL) {
		e = calloc(1, sizeof(*e));
		int r = e == NULL ? -ENOMEM : rbt_amd_session_open(pid, &e->session);
		if (r < 0) {
			free(e);
			return r;
		}
		e->next = entries;
		entries = e;
	}
	*ret = e;
	return 0;
}

/* A session that holds nothing any more ends. */
static void put_entry(struct entry *e)
{
	if (rbt_amd_session_held(e->session) != 0) {
		return;
	}
	struct entry **at = &entries;
	while (*at != e) {
		at = &(*at)->next;
	}
	*at = e->next;
	rbt_amd_session_close(e->session);
	free(e);
}

/* The kernel's own words, as the contract has them. */
static int translate(int r)
{
	switch (r) {
	case -ENXIO:
		return -ENOENT;
	case -ENOTCONN: /* the runtime is not there: nothing runs that could be suspended */
		return -EAGAIN;
	default:
		return r;
	}
}

static int suspend(const struct rbt_record *rec, enum rbt_scope scope, enum rbt_suspend_mode mode)
{
	/* What runs gets as long as the device can wait: that is what comes nearest to the end of
	 * a slice. */
	uint32_t grace = mode == RBT_SUSPEND_SCHEDULING_ONLY ? KFD_GRACE_MAX : KFD_GRACE_MIN;
	struct entry *e;
	int r = check_process(rec);

	r = r < 0 ? r : check_tasks(rec, scope);
	if (r < 0) {
		return r;
	}
	pthread_mutex_lock(&entries_lock);
	r = get_entry((pid_t)rec->client, &e);
	if (r == 0) {
		r = rbt_amd_session_hold(e->session, kinds_of(scope), grace);
		put_entry(e);
	}
	pthread_mutex_unlock(&entries_lock);
	return translate(r);
}

static int resume(const struct rbt_record *rec, enum rbt_scope scope)
{
	int r = 0;

	pthread_mutex_lock(&entries_lock);
	struct entry *e = find_entry((pid_t)rec->client);
	if (e != NULL) {
		r = rbt_amd_session_release(e->session, kinds_of(scope));
		put_entry(e);
	}
	pthread_mutex_unlock(&entries_lock);
	/* Whatever was not suspended by us is running, or another debugger's business. */
	int there = check_tasks(rec, scope);
	return r < 0 && r != -ESRCH ? translate(r) : there;
}

static int preempt_one(struct rbt_amd_session *s, uint32_t id)
{
	uint32_t ids[1] = {id};
	struct kfd_queue_entry *list;
	uint32_t n;
	/* Listed first: a queue that is new cannot be taken off. */
	int r = rbt_amd_session_snapshot(s, &list, &n);

	if (r < 0) {
		return r;
	}
	free(list);
	r = rbt_amd_session_suspend(s, ids, 1, KFD_GRACE_MIN);
	if (r == 0) {
		r = ids[0] & KFD_QUEUE_ID_ERROR ? -EIO : -ENOENT;
	}
	ids[0] = id;
	int back = rbt_amd_session_resume(s, ids, 1);
	return r < 0 ? r : back < 0 ? back : 0;
}

static int preempt(const struct rbt_record *rec, const struct rbt_task *task, uint32_t timeout_us)
{
	struct entry *e;
	int r = check_process(rec);

	r = r < 0 ? r : rbt_amd_find_task(rec, task);
	if (r < 0) {
		return r;
	}
	pthread_mutex_lock(&entries_lock);
	r = get_entry((pid_t)rec->client, &e);
	if (r == 0) {
		/* One that is held is off already. */
		uint32_t kind = task->kind == RBT_TASK_COMPUTE ? RBT_AMD_COMPUTE : RBT_AMD_SDMA;
		if ((rbt_amd_session_held(e->session) & kind) == 0) {
			r = preempt_one(e->session, task->handle);
		}
		put_entry(e);
	}
	pthread_mutex_unlock(&entries_lock);
	return translate(r);
}

static int stats(const struct rbt_record *rec, pid_t pid, struct rbt_program_stats *ret)
{
	struct rbt_program_stats sum = {0};

	for (uint32_t i = 0; i < rec->n_tasks; i++) {
		uint64_t bytes = 0;
		bool seen = false;
		for (uint32_t k = 0; k < i; k++) {
			seen |= rec->tasks[k].subdevice == rec->tasks[i].subdevice;
		}
		if (seen) {
			continue;
		}
		int r = rbt_amd_vram_read(KFD_SYSFS_PATH, pid, rec->tasks[i].subdevice, &bytes);
		if (r < 0) {
			return r;
		}
		sum.memory_bytes += bytes;
		sum.valid |= RBT_STATS_HAS_MEMORY;
	}
	*ret = sum;
	return 0;
}

const struct rbt_backend rbt_backend_amd = {
	.name = "amd",
	.id = RBT_BACKEND_AMD,
	.control_node = KFD_PATH,
	.probe = rbt_amd_probe,
	.discover = rbt_amd_discover,
	.may_write = may_write,
	.lock_path = lock_path,
	.get_timeslice = get_timeslice,
	.set_timeslice = set_timeslice,
	.suspend = suspend,
	.resume = resume,
	.preempt = preempt,
	.stats = stats,
};
