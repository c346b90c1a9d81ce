/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/source.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/gpus.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/listing.h"
#include "util/fd.h"
#include "util/proc.h"
#include "util/runtime.h"
#include "util/time.h"

#define LIST_FLAGS (RBT_LIST_TURNS | RBT_LIST_ACCOUNT | RBT_LIST_MEMORY | RBT_LIST_PLACE)
/* A daemon that does not answer costs seconds each time. */
#define MUTE_RETRY_NS (10 * RBT_NS_PER_S)
/* The cost of inspections stays below a third of a percent of a core, for going through /proc and
 * for reading programs' memory each. */
#define COST_FACTOR         300u
#define INSPECT_AGAIN_NS    (2 * RBT_NS_PER_S)
#define INSPECT_AGAIN_MAX_S 64u
#define MAX_DAEMONS         64u

struct peer {
	uid_t uid;
	int sock; /* -1: not connected */
	uint64_t retry_ns;
	enum top_daemon state;
};

/* A process with a GPU's control node open. */
struct user {
	struct top_reading reading; /* pid, uid and start time from the first on */
	bool is_program;            /* tasks were found: it is shown */
	uint64_t inspect_ns,
		interval_ns; /* time of the next inspection, and the interval after it */
};

struct top_source {
	struct peer peers[MAX_DAEMONS];
	size_t n_peers, n_own; /* the first n_own are our own; the others, for root, other users' */
	struct user *users;
	size_t n_users, users_capacity;
	uint64_t walk_ns; /* time of the next walk through all processes */
	struct {
		uid_t uid;
		char name[32];
	} names[32];
	size_t n_names;
	struct rbt_gpu_table table;
	size_t n_gpus;
	struct top_gpu gpus[RBT_MAX_GPUS];
	struct top_sample *sample; /* being filled */
	pid_t *listed;             /* programs that the daemons have named */
	size_t n_listed, listed_capacity;
};

static void add_gpu(struct top_source *s, const struct rbt_gpu_info *g, const struct rbt_backend *b,
	const char *driver)
{
	int index = rbt_gpu_index(&s->table, b->id, g->gpu);

	if (index < 0) {
		return;
	}
	struct top_gpu *gpu = &s->gpus[s->n_gpus++];
	*gpu = (struct top_gpu){.index = (uint32_t)index,
		.has_memory = (g->valid & RBT_GPU_HAS_MEMORY) != 0,
		.memory_bytes = g->memory_bytes};
	snprintf(gpu->name, sizeof(gpu->name), "%s",
		(g->valid & RBT_GPU_HAS_NAME) != 0 ? g->name : "a GPU");
	snprintf(gpu->driver, sizeof(gpu->driver), "%.7s %.31s", b->name, driver);
}

static int probe(struct top_source *s)
{
	struct rbt_device_info info;
	int r = -ENODEV;

	for (const struct rbt_backend *const *b = rbt_backends; *b != NULL; b++) {
		int one = device_probe(*b, &info);
		if (one < 0) {
			r = r == 0 || one == -ENODEV ? r : one;
			continue;
		}
		r = 0;
		for (uint32_t i = 0; i < info.n_gpus; i++) {
			add_gpu(s, &info.gpus[i], *b, info.driver_version);
		}
	}
	return r;
}

static void add_peer(struct top_source *s, uid_t uid)
{
	for (size_t i = 0; i < s->n_peers; i++) {
		if (s->peers[i].uid == uid) {
			return;
		}
	}
	if (s->n_peers < MAX_DAEMONS) {
		s->peers[s->n_peers++] = (struct peer){.uid = uid, .sock = -1};
	}
}

int top_source_create(struct top_source **ret)
{
	struct top_source *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		return -ENOMEM;
	}
	add_peer(s, RBT_UID_SYSTEM);
	add_peer(s, geteuid());
	s->n_own = s->n_peers;
	int r = probe(s);
	if (r < 0) {
		top_source_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

void top_source_destroy(struct top_source *s)
{
	if (s == NULL) {
		return;
	}
	for (size_t i = 0; i < s->n_peers; i++) {
		rbt_close(&s->peers[i].sock);
	}
	free(s->users);
	free(s->listed);
	free(s);
}

/* Looked up once: user names may come over a network. */
static void fill_user_name(struct top_source *s, uid_t uid, char *buf, size_t size)
{
	for (size_t i = 0; i < s->n_names; i++) {
		if (s->names[i].uid == uid) {
			snprintf(buf, size, "%s", s->names[i].name);
			return;
		}
	}
	struct passwd *pw = getpwuid(uid);
	if (pw != NULL) {
		snprintf(buf, size, "%s", pw->pw_name);
	} else {
		snprintf(buf, size, "%u", (unsigned)uid);
	}
	if (s->n_names < sizeof(s->names) / sizeof(s->names[0])) {
		s->names[s->n_names].uid = uid;
		snprintf(s->names[s->n_names++].name, sizeof(s->names[0].name), "%s", buf);
	}
}

static void fill(struct top_source *s, const struct listed *l, struct top_reading *r)
{
	*r = (struct top_reading){
		.at_ns = rbt_now_ns(),
		.pid = l->pid,
		.uid = l->uid,
		.managed = l->managed,
		.attached = l->attached,
		.held_back = l->held_back,
		.suspended = l->suspended,
		.waiting = l->waiting,
		.parked = l->parked,
		.unseen = l->error != 0,
		.has_memory = l->has_memory,
		.has_turns = l->has_turns,
		.has_account = l->has_account,
		.priority = l->priority,
		.suspended_left_ms = l->suspended_left_ms,
		.memory_bytes = l->memory_bytes,
		.limit_bytes = l->has_limits ? l->memory.limit_bytes : 0,
		.is_bound = (l->memory.flags & RBT_MEMORY_IS_BOUND) != 0,
		.turns = l->turns,
		.account = l->account,
		.place = l->place,
		.guest = l->guest,
	};
	for (size_t i = 0; i < l->n_tasks; i++) {
		const struct rbt_task *t = &l->tasks[i].task;
		int index = (t->valid & RBT_TASK_HAS_GPU) != 0
				    ? rbt_gpu_index(&s->table, l->tasks[i].backend, t->gpu)
				    : -1;
		if (index >= 0) {
			r->gpus |= UINT32_C(1) << index;
		}
	}
	fill_user_name(s, l->uid, r->user, sizeof(r->user));
	snprintf(r->note, sizeof(r->note), "%s", l->note);
	snprintf(r->command, sizeof(r->command), "%s", l->command);
	if (l->is_outside || rbt_proc_start_time(l->pid, &r->start_time) < 0) {
		r->start_time = 0;
	}
}

static bool is_listed(const struct top_source *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_listed; i++) {
		if (s->listed[i] == pid) {
			return true;
		}
	}
	return false;
}

static int mark_listed(struct top_source *s, pid_t pid)
{
	if (s->n_listed == s->listed_capacity) {
		size_t capacity = s->listed_capacity > 0 ? s->listed_capacity * 2 : 64;
		pid_t *listed = realloc(s->listed, capacity * sizeof(*listed));
		if (listed == NULL) {
			return -ENOMEM;
		}
		s->listed = listed;
		s->listed_capacity = capacity;
	}
	s->listed[s->n_listed++] = pid;
	return 0;
}

static int take_managed(const struct listed *l, void *data)
{
	struct top_source *s = data;

	if (is_listed(s, l->pid)) {
		return 0;
	}
	struct top_reading *r = mark_listed(s, l->pid) < 0 ? NULL : top_sample_add(s->sample);
	if (r == NULL) {
		return -ENOMEM;
	}
	fill(s, l, r);
	return 0;
}

static void ask_daemon(struct top_source *s, struct peer *peer, uint64_t now_ns)
{
	if (peer->sock < 0 && now_ns < peer->retry_ns) {
		return;
	}
	peer->state = TOP_DAEMON_NONE;
	if (peer->sock < 0) {
		(void)(peer->uid == geteuid() ? daemon_heal(false) : 0);
		peer->sock = daemon_connect(peer->uid);
	}
	int r = peer->sock < 0 ? peer->sock
			       : listing_daemon(peer->sock, peer->uid, LIST_FLAGS, take_managed, s);
	if (r == 0) {
		peer->state = TOP_DAEMON_RUNS;
		return;
	}
	rbt_close(&peer->sock);
	peer->sock = -1;
	if (r == -ETIMEDOUT) {
		peer->state = TOP_DAEMON_MUTE;
		peer->retry_ns = now_ns + MUTE_RETRY_NS;
	}
}

/* A daemon that runs, if there is one; otherwise one that does not answer. */
static enum top_daemon own_daemon(const struct top_source *s)
{
	enum top_daemon best = TOP_DAEMON_NONE;

	for (size_t i = 0; i < s->n_own && best != TOP_DAEMON_RUNS; i++) {
		best = s->peers[i].state != TOP_DAEMON_NONE ? s->peers[i].state : best;
	}
	return best;
}

/* Adds a process that has a GPU open and is not known yet. */
static int meet(pid_t pid, void *data)
{
	struct top_source *s = data;
	struct user u = {.reading = {.pid = pid}};

	for (size_t i = 0; i < s->n_users; i++) {
		if (s->users[i].reading.pid == pid) {
			return 0;
		}
	}
	if (!listing_uses_gpu(pid) || rbt_proc_uid(pid, &u.reading.uid) < 0 ||
		rbt_proc_start_time(pid, &u.reading.start_time) < 0) {
		return 0;
	}
	if (s->n_users == s->users_capacity) {
		size_t capacity = s->users_capacity > 0 ? s->users_capacity * 2 : 16;
		struct user *users = realloc(s->users, capacity * sizeof(*users));
		if (users == NULL) {
			return 0;
		}
		s->users = users;
		s->users_capacity = capacity;
	}
	s->users[s->n_users++] = u;
	return 0;
}

/* The processor time that we have used so far. */
static uint64_t cpu_now_ns(void)
{
	return rbt_cpu_ns() + inspect_cpu_ns();
}

static void forget_the_dead(struct top_source *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n_users; i++) {
		const struct top_reading *r = &s->users[i].reading;
		uint64_t start_time;
		if (rbt_proc_start_time(r->pid, &start_time) == 0 && start_time == r->start_time) {
			s->users[kept++] = s->users[i];
		}
	}
	s->n_users = kept;
}

static void find_users(struct top_source *s, uint64_t now_ns)
{
	forget_the_dead(s);
	if (now_ns < s->walk_ns) {
		return;
	}
	uint64_t cpu_ns = cpu_now_ns();
	rbt_proc_each(meet, s);
	s->walk_ns = now_ns + (cpu_now_ns() - cpu_ns) * COST_FACTOR;
}

struct outside {
	struct top_source *s;
	struct user *u;
};

static int take_outside(const struct listed *l, void *data)
{
	struct outside *outside = data;

	fill(outside->s, l, &outside->u->reading);
	outside->u->is_program = true;
	return 0;
}

static void inspect(struct top_source *s, struct user *u, uint64_t now_ns)
{
	struct outside outside = {.s = s, .u = u};
	struct top_reading before = u->reading;

	uint64_t cpu_ns = cpu_now_ns();

	u->is_program = false;
	listing_outside(before.pid, take_outside, &outside);
	if (u->reading.start_time != before.start_time) {
		/* The pid belongs to another process by now, which is handled as a new one. */
		u->is_program = false;
		u->reading = before;
	}
	cpu_ns = cpu_now_ns() - cpu_ns;
	u->interval_ns = u->interval_ns == 0 ? INSPECT_AGAIN_NS : u->interval_ns * 2;
	if (u->interval_ns > INSPECT_AGAIN_MAX_S * RBT_NS_PER_S) {
		u->interval_ns = INSPECT_AGAIN_MAX_S * RBT_NS_PER_S;
	}
	u->inspect_ns = now_ns + u->interval_ns + cpu_ns * COST_FACTOR * s->n_users;
}

static void add_outsiders(struct top_source *s)
{
	for (size_t i = 0; i < s->n_users; i++) {
		struct user *u = &s->users[i];
		uint64_t now_ns = rbt_now_ns();
		if (is_listed(s, u->reading.pid)) {
			/* If its daemon lets it go later, the earlier inspection is out of date. */
			u->inspect_ns = u->interval_ns = 0;
			continue;
		}
		if (now_ns >= u->inspect_ns) {
			inspect(s, u, now_ns);
		}
		struct top_reading *r = u->is_program ? top_sample_add(s->sample) : NULL;
		if (r != NULL) {
			*r = u->reading;
		}
	}
}

int top_source_sample(struct top_source *s, struct top_sample **ret)
{
	s->n_listed = 0;
	s->sample = top_sample_create();
	if (s->sample == NULL) {
		return -ENOMEM;
	}
	find_users(s, rbt_now_ns());
	for (size_t i = 0; geteuid() == 0 && i < s->n_users; i++) {
		add_peer(s, s->users[i].reading.uid);
	}
	s->sample->now_ns = rbt_now_ns();
	for (size_t i = 0; i < s->n_peers; i++) {
		ask_daemon(s, &s->peers[i], rbt_now_ns());
	}
	s->sample->daemon = own_daemon(s);
	add_outsiders(s);
	s->sample->table = s->table;
	s->sample->n_gpus = s->n_gpus;
	memcpy(s->sample->gpus, s->gpus, sizeof(s->gpus));
	*ret = s->sample;
	s->sample = NULL;
	return 0;
}
