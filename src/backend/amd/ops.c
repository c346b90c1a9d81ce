/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend's table. A record's client is the process (its pid), a task is a queue: handle and
 * channel are the queue's id, the subdevice is KFD's id of the GPU. Records are made from sysfs;
 * their file is the program's /dev/kfd, which serves only to know the program again: the kernel
 * refuses it to everybody else. What is done is done through a debug session, which lives from the
 * first suspend of a program to a while after its last resume.
 *
 * Records of programs under `rubato run` come from the program itself, with a way to the agent in
 * it, who does it there without a debugger (link.h).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/device.h"
#include "backend/amd/discover.h"
#include "backend/amd/link.h"
#include "backend/amd/session.h"
#include "backend/amd/sysfs.h"
#include "backend/backend.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

/* Enabling a debug session costs milliseconds, and turns take a program off many times a second:
 * one that is not used any more stays for a while. */
#define LINGER_NS (1 * RBT_NS_PER_S)

struct entry {
	struct entry *next;
	struct rbt_amd_session *session;
	uint64_t unused_ns; /* since when; 0: it is used */
};

static struct entry *entries;
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER; /* over all that follows */
static bool has_reaper;

static int check_driver(void)
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
		return -EPROTONOSUPPORT;
	}
	__atomic_store_n(&known, true, __ATOMIC_RELAXED);
	return 0;
}

static int may_write(uint32_t cap, bool force)
{
	int r = check_driver();

	return r == -EPROTONOSUPPORT && force ? 0 : r;
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

static bool has_agent(const struct rbt_record *rec)
{
	return (rec->flags & RBT_RECORD_AGENT) != 0;
}

/* Queues have no timeslice that could be set from outside; but whether a task is there is said. */
static int no_timeslice(const struct rbt_record *rec, const struct rbt_task *task)
{
	int r = has_agent(rec) ? 0 : rbt_amd_find_task(rec, task);

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

static void remove_entry(struct entry *e)
{
	struct entry **at = &entries;

	while (*at != e) {
		at = &(*at)->next;
	}
	*at = e->next;
	rbt_amd_session_close(e->session);
	free(e);
}

/* Ends what has not been used for long enough; returns when to look again, 0: nothing is left. */
static uint64_t reap(uint64_t now_ns)
{
	struct entry *next;
	uint64_t at_ns = 0;

	for (struct entry *e = entries; e != NULL; e = next) {
		uint64_t end_ns = e->unused_ns + LINGER_NS;
		next = e->next;
		if (e->unused_ns == 0) {
			continue;
		}
		if (now_ns >= end_ns) {
			remove_entry(e);
		} else if (at_ns == 0 || end_ns < at_ns) {
			at_ns = end_ns;
		}
	}
	return at_ns;
}

static void *run_reaper(void *data)
{
	uint64_t next_ns;

	for (;;) {
		pthread_mutex_lock(&entries_lock);
		uint64_t now_ns = rbt_now_ns();
		next_ns = reap(now_ns);
		has_reaper = next_ns != 0;
		pthread_mutex_unlock(&entries_lock);
		if (next_ns == 0) {
			return NULL;
		}
		uint64_t wait_ns = next_ns - now_ns;
		nanosleep(&(struct timespec){.tv_sec = (time_t)(wait_ns / RBT_NS_PER_S),
				  .tv_nsec = (long)(wait_ns % RBT_NS_PER_S)},
			NULL);
	}
}

static bool start_reaper(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool ok = pthread_create(&thread, NULL, run_reaper, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ok) {
		pthread_detach(thread);
	}
	return ok;
}

/* A session that is not used any more ends, after a while; one whose target has gone, at once. */
static void put_entry(struct entry *e, int result)
{
	if (result != -ESRCH && rbt_amd_session_is_used(e->session)) {
		e->unused_ns = 0;
		return;
	}
	e->unused_ns = rbt_now_ns();
	has_reaper = has_reaper || (result != -ESRCH && start_reaper());
	if (result == -ESRCH || !has_reaper) {
		remove_entry(e);
	}
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

static_assert(
	(uint32_t)RBT_AMD_COMPUTE == RBT_AGENT_COMPUTE && (uint32_t)RBT_AMD_SDMA == RBT_AGENT_REST,
	"kinds are the same for both");

static int suspend(struct rbt_record *rec, enum rbt_scope scope, enum rbt_suspend_mode mode)
{
	if (has_agent(rec)) {
		return rbt_amd_link_suspend(rec, kinds_of(scope));
	}
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
		put_entry(e, r);
	}
	pthread_mutex_unlock(&entries_lock);
	return translate(r);
}

/* What a session of ours holds of a process. */
static int release_session(pid_t pid, uint32_t kinds)
{
	int r = 0;

	pthread_mutex_lock(&entries_lock);
	struct entry *e = find_entry(pid);
	if (e != NULL) {
		r = rbt_amd_session_release(e->session, kinds);
		put_entry(e, r);
	}
	pthread_mutex_unlock(&entries_lock);
	return r;
}

static int resume(struct rbt_record *rec, enum rbt_scope scope)
{
	/* Also where there is an agent: it may have come after we attached from outside. */
	int r = release_session((pid_t)rec->client, kinds_of(scope));

	if (has_agent(rec)) {
		return rbt_amd_link_resume(rec, kinds_of(scope));
	}
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

	if (has_agent(rec)) {
		return rbt_amd_link_preempt(rec, task->handle);
	}
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
		put_entry(e, r);
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

static int check_file(const struct rbt_record *rec)
{
	return has_agent(rec) ? rbt_amd_link_check(rec) : -EBADF;
}

static int renew(const struct rbt_record *rec, uint64_t deadline_ns)
{
	/* A session lives as long as we do. */
	return has_agent(rec) ? rbt_amd_link_tell(rec, RBT_AGENT_RENEW, deadline_ns) : 0;
}

static int set_level(const struct rbt_record *rec, uint32_t level)
{
	static const enum rbt_agent_level levels[] = {
		RBT_AGENT_LEVEL_LOW, RBT_AGENT_LEVEL_OWN, RBT_AGENT_LEVEL_HIGH};

	if (level >= sizeof(levels) / sizeof(levels[0])) {
		return -EINVAL;
	}
	/* From outside, there is no way to. */
	return has_agent(rec) ? rbt_amd_link_tell(rec, RBT_AGENT_LEVEL, levels[level])
			      : -EOPNOTSUPP;
}

static int unwatch(pid_t pid)
{
	int r = 0;

	pthread_mutex_lock(&entries_lock);
	struct entry *e = find_entry(pid);
	if (e != NULL) {
		r = rbt_amd_session_watch(e->session, -1, 0);
		put_entry(e, r);
	}
	pthread_mutex_unlock(&entries_lock);
	return r == -ESRCH ? 0 : r;
}

static int watch(const struct rbt_record *rec, int board_fd, uint32_t interval_us)
{
	struct entry *e;

	/* One from before the agent came is not needed any more. */
	if (has_agent(rec) || interval_us == 0) {
		int r = unwatch((pid_t)rec->client);
		return has_agent(rec) ? rbt_amd_link_tell(rec, RBT_AGENT_WATCH, interval_us) : r;
	}
	int r = check_process(rec);
	if (r < 0) {
		return r;
	}
	pthread_mutex_lock(&entries_lock);
	r = get_entry((pid_t)rec->client, &e);
	if (r == 0) {
		r = rbt_amd_session_watch(e->session, board_fd, interval_us);
		put_entry(e, r);
	}
	pthread_mutex_unlock(&entries_lock);
	return translate(r);
}

const struct rbt_backend rbt_backend_amd = {
	.name = "amd",
	.id = RBT_BACKEND_AMD,
	.control_node = KFD_PATH,
	.is_experimental = true,
	.probe = rbt_amd_probe,
	.discover = rbt_amd_discover,
	.check_driver = check_driver,
	.may_write = may_write,
	.lock_path = lock_path,
	.get_timeslice = get_timeslice,
	.set_timeslice = set_timeslice,
	.suspend = suspend,
	.resume = resume,
	.preempt = preempt,
	.set_level = set_level,
	.check_file = check_file,
	.complete = rbt_amd_complete,
	.renew = renew,
	.watch = watch,
	.stats = stats,
};
