/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend's table. A record's client is the process (its pid). A task is a queue: handle and
 * channel are the queue's id, the subdevice is KFD's id of the GPU. Records are made from sysfs.
 * Their file is the program's /dev/kfd, which only serves to recognise the program: the kernel
 * refuses it to every other process. Actions go through a debug session, which lives from the first
 * suspend of a program until a while after its last resume.
 *
 * Records of programs under `rubato run` come from the program itself, with a socket to its agent,
 * which acts inside the program without a debugger (link.h).
 */
#include <errno.h>
#include <inttypes.h>
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

/* Starting a debug session costs milliseconds, and turns take a program off many times a second. So
 * an unused session is kept for a while. */
#define LINGER_NS (1 * RBT_NS_PER_S)

struct entry {
	struct entry *next;
	struct rbt_amd_session *session;
	uint64_t unused_ns; /* 0: it is in use */
};

static struct entry *entries;
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER; /* protects everything below */
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

static bool has_agent(const struct rbt_record *rec)
{
	return (rec->flags & RBT_RECORD_AGENT) != 0;
}

/* Queues have no timeslice that can be set from outside; but the result says whether the task
 * exists. */
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
	case RBT_SCOPE_OTHERS:
		return RBT_AMD_SDMA;
	default:
		return RBT_AMD_COMPUTE | RBT_AMD_SDMA;
	}
}

/* Whether the record's process is still the same: the pid may be another's by now. The file is
 * compared if the kernel permits it. */
static int check_process(const struct rbt_record *rec)
{
	int same = rec->target_fd >= 0
			   ? rbt_same_file(getpid(), rec->fd, (pid_t)rec->client, rec->target_fd)
			   : 1;

	return same == 0 || same == -EBADF || same == -ESRCH ? -ENOENT : 0;
}

/* 0 if at least one of the record's tasks in scope exists. */
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

/* Ends sessions that have been unused for long enough; returns the time of the next check, 0: none
 * is left. */
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

/* An unused session ends after a while; the session of a target that is gone ends at once. */
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

/* Finds the process's session, or opens one. After success the caller has the lock, until
 * leave(). */
static int enter(pid_t pid, struct entry **ret)
{
	pthread_mutex_lock(&entries_lock);
	int r = get_entry(pid, ret);
	if (r < 0) {
		pthread_mutex_unlock(&entries_lock);
	}
	return r;
}

/* The same, if there is a session; otherwise NULL, and the caller does not have the lock. */
static struct entry *enter_open(pid_t pid)
{
	pthread_mutex_lock(&entries_lock);
	struct entry *e = find_entry(pid);
	if (e == NULL) {
		pthread_mutex_unlock(&entries_lock);
	}
	return e;
}

/* Returns the result of what was done in the session. */
static int leave(struct entry *e, int result)
{
	put_entry(e, result);
	pthread_mutex_unlock(&entries_lock);
	return result;
}

/* Translates the kernel's errors to those of backend.h. */
static int translate(int r)
{
	switch (r) {
	case -ENXIO:
		return -ENOENT;
	case -ENOTCONN: /* without the runtime nothing runs that could be suspended */
		return -EAGAIN;
	default:
		return r;
	}
}

static_assert(
	(uint32_t)RBT_AMD_COMPUTE == RBT_AGENT_COMPUTE && (uint32_t)RBT_AMD_SDMA == RBT_AGENT_REST,
	"kinds are the same for both");

/* KFD does not count: is_off is not needed. */
static int suspend(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope,
	enum rbt_suspend_mode mode)
{
	if (has_agent(rec)) {
		return rbt_amd_link_suspend(rec, kinds_of(scope));
	}
	/* Running work gets as much time as the device can wait: this comes nearest to the end of a
	 * slice. */
	uint32_t grace = mode == RBT_SUSPEND_SCHEDULING_ONLY ? KFD_GRACE_MAX : KFD_GRACE_MIN;
	struct entry *e;
	int r = check_process(rec);

	r = r < 0 ? r : check_tasks(rec, scope);
	if (r < 0) {
		return r;
	}
	r = enter((pid_t)rec->client, &e);
	if (r == 0) {
		r = leave(e, rbt_amd_session_hold(e->session, kinds_of(scope), grace));
	}
	return translate(r);
}

/* Resumes everything that a session of ours holds in a process. */
static int release_session(pid_t pid, uint32_t kinds)
{
	struct entry *e = enter_open(pid);

	return e != NULL ? leave(e, rbt_amd_session_release(e->session, kinds)) : 0;
}

static int resume(const struct rbt_record *rec, bool *is_off, enum rbt_scope scope)
{
	/* Also with an agent, which may have come after we attached from outside. */
	int r = release_session((pid_t)rec->client, kinds_of(scope));

	if (has_agent(rec)) {
		return rbt_amd_link_resume(rec, kinds_of(scope));
	}
	/* Queues that we did not suspend are running, or belong to another debugger. */
	int there = check_tasks(rec, scope);
	return r < 0 && r != -ESRCH ? translate(r) : there;
}

static int suspend_task(const struct rbt_record *rec, uint32_t handle)
{
	struct entry *e;

	if (has_agent(rec)) {
		return rbt_amd_link_hold(rec, handle);
	}
	int r = check_process(rec);
	if (r < 0) {
		return r;
	}
	r = enter((pid_t)rec->client, &e);
	if (r == 0) {
		r = leave(e, rbt_amd_session_hold_queue(e->session, handle));
	}
	return translate(r);
}

static int resume_task(const struct rbt_record *rec, uint32_t handle)
{
	struct entry *e = enter_open((pid_t)rec->client);
	int r = e != NULL ? leave(e, rbt_amd_session_release_queue(e->session, handle)) : 0;

	if (has_agent(rec)) {
		return rbt_amd_link_release(rec, handle);
	}
	return r == -ESRCH ? -ENOENT : translate(r);
}

static int preempt_one(struct rbt_amd_session *s, uint32_t id)
{
	uint32_t ids[1] = {id};
	struct kfd_queue_entry *list;
	uint32_t n;
	/* Listed first: a new queue cannot be taken off before that. */
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
	r = enter((pid_t)rec->client, &e);
	if (r == 0) {
		/* A queue that is held is off already. */
		uint32_t kind = task->kind == RBT_TASK_COMPUTE ? RBT_AMD_COMPUTE : RBT_AMD_SDMA;
		if (!rbt_amd_session_holds(e->session, kind, task->handle)) {
			r = preempt_one(e->session, task->handle);
		}
		leave(e, r);
	}
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

/* As ROCm's tools write it. */
static int uuid(const struct rbt_record *rec, uint32_t gpu, char ret[RBT_GPU_UUID_MAX])
{
	struct rbt_amd_topology topology;
	int r = rbt_amd_topology_read(KFD_SYSFS_PATH, &topology);

	if (r < 0) {
		return r;
	}
	for (uint32_t i = 0; i < topology.n; i++) {
		if (topology.gpus[i].number == gpu && topology.gpus[i].unique_id != 0) {
			snprintf(ret, RBT_GPU_UUID_MAX, "GPU-%016" PRIx64,
				topology.gpus[i].unique_id);
			return 0;
		}
	}
	return -EOPNOTSUPP;
}

static int check_file(const struct rbt_record *rec)
{
	return has_agent(rec) ? rbt_amd_link_check(rec) : -EBADF;
}

static int renew(const struct rbt_record *rec, uint64_t deadline_ns)
{
	/* A session lasts as long as this process, so it needs no renewal. */
	return has_agent(rec) ? rbt_amd_link_renew(rec, deadline_ns) : 0;
}

static int set_level(const struct rbt_record *rec, uint32_t level)
{
	static const enum rbt_agent_level levels[] = {
		RBT_AGENT_LEVEL_LOW, RBT_AGENT_LEVEL_OWN, RBT_AGENT_LEVEL_HIGH};

	if (level >= sizeof(levels) / sizeof(levels[0])) {
		return -EINVAL;
	}
	/* This is impossible from outside. */
	return has_agent(rec) ? rbt_amd_link_tell(rec, RBT_AGENT_LEVEL, levels[level])
			      : -EOPNOTSUPP;
}

static int unwatch(pid_t pid)
{
	struct entry *e = enter_open(pid);
	int r = e != NULL ? leave(e, rbt_amd_session_poll(e->session, -1, 0)) : 0;

	return r == -ESRCH ? 0 : r;
}

static int poll_queues(const struct rbt_record *rec, int board_fd, uint32_t interval_us)
{
	struct entry *e;

	/* A session from before the agent came is not needed any more. */
	if (has_agent(rec) || interval_us == 0) {
		int r = unwatch((pid_t)rec->client);
		return has_agent(rec) ? rbt_amd_link_tell(rec, RBT_AGENT_WATCH, interval_us) : r;
	}
	int r = check_process(rec);
	if (r < 0) {
		return r;
	}
	r = enter((pid_t)rec->client, &e);
	if (r == 0) {
		r = leave(e, rbt_amd_session_poll(e->session, board_fd, interval_us));
	}
	return translate(r);
}

const struct rbt_backend rbt_backend_amd = {
	.name = "amd",
	.id = RBT_BACKEND_AMD,
	.control_node = KFD_PATH,
	.client_is_pid = true,
	.is_experimental = true,
	.probe = rbt_amd_probe,
	.discover = rbt_amd_discover,
	.check_driver = check_driver,
	.may_write = may_write,
	.get_timeslice = get_timeslice,
	.set_timeslice = set_timeslice,
	.suspend = suspend,
	.resume = resume,
	.suspend_task = suspend_task,
	.resume_task = resume_task,
	.preempt = preempt,
	.set_level = set_level,
	.check_file = check_file,
	.complete = rbt_amd_complete,
	.renew = renew,
	.poll = poll_queues,
	.stats = stats,
	.uuid = uuid,
};
