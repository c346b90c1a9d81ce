/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/listing.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/inspect.h"
#include "util/deaths.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/runtime.h"
#include "util/time.h"

struct walk {
	int (*fn)(const struct listed *l, void *data);
	void *data;
	pid_t *seen; /* listed already */
	size_t n_seen, capacity;
	uid_t asked[256]; /* users whose daemons were asked */
	size_t n_asked;
};

static bool was_seen(const struct walk *w, pid_t pid)
{
	for (size_t i = 0; i < w->n_seen; i++) {
		if (w->seen[i] == pid) {
			return true;
		}
	}
	return false;
}

static void mark_seen(struct walk *w, pid_t pid)
{
	if (w->n_seen == w->capacity) {
		size_t capacity = w->capacity > 0 ? w->capacity * 2 : 64;
		pid_t *seen = realloc(w->seen, capacity * sizeof(*seen));
		if (seen == NULL) {
			return;
		}
		w->seen = seen;
		w->capacity = capacity;
	}
	w->seen[w->n_seen++] = pid;
}

struct tail {
	const char *at;
	size_t left;
	uint32_t flags; /* the parts that were asked for */
};

/* Reads the next part, if it was asked for and the daemon has sent it. */
static bool read_part(struct tail *t, uint32_t flag, void *ret, size_t size)
{
	if ((t->flags & flag) == 0 || t->left < size) {
		return false;
	}
	memcpy(ret, t->at, size);
	t->at += size;
	t->left -= size;
	return true;
}

/* The same for the treatment, whose size depends on the daemon's version. */
static bool read_treatment(struct tail *t, struct rbt_treatment *ret)
{
	uint32_t size;

	if ((t->flags & RBT_LIST_TREAT) == 0 || t->left < sizeof(size)) {
		return false;
	}
	memcpy(&size, t->at, sizeof(size));
	if (size > t->left || rbt_treatment_decode(t->at, size, ret) < 0) {
		return false;
	}
	t->at += size;
	t->left -= size;
	return true;
}

/* Reads the parts behind the tasks. */
static void read_tail(struct listed *l, struct tail t)
{
	l->has_turns = read_part(&t, RBT_LIST_TURNS, &l->turns, sizeof(l->turns));
	l->turns.policy[sizeof(l->turns.policy) - 1] = '\0';
	l->has_account = read_part(&t, RBT_LIST_ACCOUNT, &l->account, sizeof(l->account));
	read_part(&t, RBT_LIST_ORIGIN, &l->origin, sizeof(l->origin));
	l->origin.rule[sizeof(l->origin.rule) - 1] = '\0';
	l->origin.group[sizeof(l->origin.group) - 1] = '\0';
	l->has_reserve = read_part(&t, RBT_LIST_RESERVE, &l->reserve, sizeof(l->reserve));
	l->has_treat = read_treatment(&t, &l->treat);
	l->has_limits = read_part(&t, RBT_LIST_MEMORY, &l->memory, sizeof(l->memory));
	read_part(&t, RBT_LIST_PLACE, &l->place, sizeof(l->place));
	l->place.container_id[sizeof(l->place.container_id) - 1] = '\0';
	l->place.pod_uid[sizeof(l->place.pod_uid) - 1] = '\0';
	l->place.slurm_job[sizeof(l->place.slurm_job) - 1] = '\0';
}

static int list_message(int sock, const char *buf, size_t size, uint32_t flags,
	int (*fn)(const struct listed *l, void *data), void *data)
{
	struct rbt_msg_program msg;

	memcpy(&msg, buf, sizeof(msg));
	struct rbt_task_state *tasks = calloc(msg.n_tasks + 1, sizeof(*tasks));
	if (tasks == NULL) {
		return -ENOMEM;
	}
	memcpy(tasks, buf + sizeof(msg), msg.n_tasks * sizeof(*tasks));
	struct listed l = {
		.pid = msg.pid,
		.uid = msg.uid,
		.managed = true,
		.is_outside = daemon_is_outside(sock),
		.attached = (msg.flags & RBT_PROGRAM_ATTACHED) != 0,
		.held_back = (msg.flags & RBT_PROGRAM_HELD_BACK) != 0,
		.suspended = (msg.flags & RBT_PROGRAM_SUSPENDED) != 0,
		.parked = (msg.flags & RBT_PROGRAM_PARKED) != 0,
		.waiting = (msg.flags & RBT_PROGRAM_WAITING) != 0,
		.is_older = (msg.flags & RBT_PROGRAM_OLDER) != 0,
		.has_memory = msg.has_memory != 0,
		.priority = msg.priority,
		.wanted_us = msg.wanted_us,
		.suspended_left_ms = msg.suspended_left_ms,
		.memory_bytes = msg.memory_bytes,
		.n_tasks = msg.n_tasks,
		.tasks = tasks,
	};
	size_t tasks_end = sizeof(msg) + msg.n_tasks * sizeof(*tasks);

	if ((msg.flags & RBT_PROGRAM_GUEST) != 0) { /* the client has checked that it is there */
		memcpy(&l.guest, buf + tasks_end, sizeof(l.guest));
		l.guest.vm[sizeof(l.guest.vm) - 1] = '\0';
		l.guest.command[sizeof(l.guest.command) - 1] = '\0';
		tasks_end += sizeof(l.guest);
	}
	read_tail(&l, (struct tail){buf + tasks_end, size - tasks_end, flags});
	snprintf(l.note, sizeof(l.note), "%.*s", (int)sizeof(msg.note), msg.note);
	if (l.is_outside || inspect_command(l.pid, l.command, sizeof(l.command)) < 0) {
		snprintf(l.command, sizeof(l.command), "-");
	}
	int r = fn(&l, data);
	free(tasks);
	return r;
}

int listing_daemon(int sock, uid_t uid, uint32_t flags,
	int (*fn)(const struct listed *l, void *data), void *data)
{
	static char buf[RBT_MSG_MAX];
	pid_t after = 0;
	ssize_t n;
	int r = 0;

	while (r == 0 &&
		(n = daemon_list(sock, after, flags, LIST_TIMEOUT_S, buf, sizeof(buf))) != 0) {
		struct rbt_msg_program msg;
		if (n < 0) {
			return (int)n;
		}
		memcpy(&msg, buf, sizeof(msg));
		if (msg.pid <= after) {
			return -EBADMSG;
		}
		after = msg.pid;
		uid_t owner;
		/* Another user's daemon may report that user's programs only. */
		if (uid != geteuid() && uid != RBT_UID_SYSTEM &&
			(rbt_proc_uid(msg.pid, &owner) < 0 || owner != uid)) {
			continue;
		}
		r = list_message(sock, buf, (size_t)n, flags, fn, data);
	}
	return r;
}

static int list_once(const struct listed *l, void *data)
{
	struct walk *w = data;

	if (was_seen(w, l->pid)) {
		return 0;
	}
	mark_seen(w, l->pid);
	return w->fn(l, w->data);
}

static int list_daemon(struct walk *w, uid_t uid)
{
	for (size_t i = 0; i < w->n_asked; i++) {
		if (w->asked[i] == uid) {
			return 0;
		}
	}
	if (w->n_asked < sizeof(w->asked) / sizeof(w->asked[0])) {
		w->asked[w->n_asked++] = uid;
	}
	int sock = daemon_connect(uid);
	if (sock < 0) {
		return 0;
	}
	int r = listing_daemon(sock, uid,
		RBT_LIST_TURNS | RBT_LIST_ACCOUNT | RBT_LIST_ORIGIN | RBT_LIST_RESERVE |
			RBT_LIST_TREAT | RBT_LIST_MEMORY | RBT_LIST_PLACE | RBT_LIST_GUEST,
		list_once, w);
	close(sock);
	if (r == -ETIMEDOUT) {
		char dir[128] = "";
		rbt_runtime_dir(uid, dir, sizeof(dir));
		rbt_warn("the rubatod of %s does not answer: its programs are missing here", dir);
	}
	/* A daemon that stops answering is as good as one that has ended. */
	return r > 0 ? r : 0;
}

static void fill_states(const struct rbt_record *recs, size_t n, pid_t pid, struct listed *l,
	struct rbt_task_state *tasks)
{
	for (size_t i = 0; i < n; i++) {
		const struct rbt_backend *b = rbt_backend_by_id(recs[i].backend);
		struct rbt_program_stats stats = {0};
		for (uint32_t k = 0; k < recs[i].n_tasks; k++) {
			struct rbt_task_state *t = &tasks[l->n_tasks++];
			t->task = recs[i].tasks[k];
			t->backend = (uint16_t)recs[i].backend;
			t->has_timeslice =
				b->get_timeslice(&recs[i], &t->task, &t->timeslice_us) == 0;
		}
		if (!l->has_memory && b->stats != NULL && b->stats(&recs[i], pid, &stats) == 0 &&
			(stats.valid & RBT_STATS_HAS_MEMORY) != 0) {
			l->has_memory = true;
			l->memory_bytes = stats.memory_bytes;
		}
	}
	l->tasks = tasks;
}

int listing_outside(pid_t pid, int (*fn)(const struct listed *l, void *data), void *data)
{
	struct listed l = {.pid = pid};
	struct rbt_record *recs = NULL;
	struct rbt_task_state *tasks = NULL;
	size_t n = 0, n_tasks = 0;
	int r = 0;

	l.error = inspect_tasks(pid, &recs, &n);
	if (l.error == -ESRCH || l.error == -ENXIO || rbt_proc_uid(pid, &l.uid) < 0 ||
		inspect_command(pid, l.command, sizeof(l.command)) < 0) {
		goto out;
	}
	(void)rbt_place_read(pid, &l.place);
	for (size_t i = 0; i < n; i++) {
		n_tasks += recs[i].n_tasks;
	}
	tasks = calloc(n_tasks + 1, sizeof(*tasks));
	if (tasks == NULL) {
		goto out;
	}
	if (l.error == 0) {
		fill_states(recs, n, pid, &l, tasks);
	} else {
		snprintf(l.note, sizeof(l.note), "its tasks cannot be seen: %s",
			l.error == -ETIME ? "inspecting its user's programs takes too long"
					  : strerror(-l.error));
	}
	r = fn(&l, data);
out:
	rbt_records_free(recs, n);
	free(tasks);
	return r;
}

static bool is_control_node(const char *path)
{
	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		if (strcmp(path, (*b)->control_node) == 0) {
			return true;
		}
	}
	return false;
}

/* Checks each file once, whatever the number of backends: this is most of the cost of a listing. */
static bool has_control_node(pid_t pid)
{
	char path[64], target[256];
	struct dirent *e;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	while (dir != NULL && !found && (e = readdir(dir)) != NULL) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = '\0';
			found = is_control_node(target);
		}
	}
	if (dir != NULL) {
		closedir(dir);
	}
	return found;
}

/* Daemons and hands hold copies of their programs' device files, so they look like programs. */
static bool is_ours(pid_t pid)
{
	char path[64], comm[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (rbt_read_file(path, comm, sizeof(comm)) < 0) {
		return false;
	}
	comm[strcspn(comm, "\n")] = '\0';
	return strcmp(comm, "rubatod") == 0 || strcmp(comm, RBT_HAND_NAME) == 0;
}

bool listing_uses_gpu(pid_t pid)
{
	return pid != getpid() && has_control_node(pid) && !is_ours(pid);
}

static int list_process(pid_t pid, void *data)
{
	struct walk *w = data;
	uid_t uid;

	if (rbt_proc_uid(pid, &uid) < 0 || !listing_uses_gpu(pid)) {
		return 0;
	}
	int r = geteuid() == 0 ? list_daemon(w, uid) : 0;
	return r != 0 || was_seen(w, pid) ? r : listing_outside(pid, w->fn, w->data);
}

int listing_each(int (*fn)(const struct listed *l, void *data), void *data)
{
	struct walk w = {.fn = fn, .data = data};

	uint64_t pause_s = daemon_heal(false);
	if (pause_s != 0) {
		rbt_warn("rubatod was killed %d times within %llu s: it is started again in "
			 "%" PRIu64 " s, or by `rubato run`",
			RBT_DEATHS_MAX, RBT_DEATHS_WITHIN_NS / RBT_NS_PER_S, pause_s);
	}
	int r = list_daemon(&w, RBT_UID_SYSTEM);

	if (r == 0) {
		r = list_daemon(&w, geteuid());
	}
	if (r == 0) {
		r = rbt_proc_each(list_process, &w);
	}
	free(w.seen);
	return r;
}
