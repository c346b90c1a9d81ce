/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a session to the kernel. Comments mark the rules that are easily broken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/amd/device.h"
#include "backend/amd/session_impl.h"
#include "util/log.h"

#define WATCHED (KFD_EC_QUEUE_NEW | KFD_EC_DEVICE_QUEUE_DELETE | KFD_EC_PROCESS_RUNTIME)
/* Queues come and go while they are being suspended. More rounds than this are an error. */
#define HOLD_TRIES    32
#define HOLD_PAUSE_NS 200000L
#define FIRST_ROOM    32u

static struct kfd_dbg_trap operation(const struct rbt_amd_session *s, uint32_t op)
{
	return (struct kfd_dbg_trap){.pid = (uint32_t)s->pid, .op = op};
}

/* If the target has ended meanwhile, its end is the error. */
static int judge(struct rbt_amd_session *s, int r)
{
	if (r == -ESRCH || (r < 0 && s->gone)) {
		return -ESRCH;
	}
	return r;
}

static void send_runtime_event(struct rbt_amd_session *s)
{
	struct kfd_dbg_trap a = operation(s, KFD_DBG_SEND_RUNTIME_EVENT);

	a.event.exception_mask = KFD_EC_PROCESS_RUNTIME;
	int r = rbt_amd_dbg(s->kfd, &a);
	if (r < 0) {
		rbt_debug("process %d: its runtime could not be answered: %s", (int)s->pid,
			strerror(-r));
	}
}

/*
 * The target may be waiting already, for the answer of a debugger that died in the middle of the
 * handshake. The kernel keeps no event of that, and no other process will ever answer. So every
 * session begins with an answer. If the target is not waiting, the kernel keeps the answer for the
 * next handshake.
 */
static int enable(struct rbt_amd_session *s, uint64_t watched)
{
	struct kfd_dbg_trap a = operation(s, KFD_DBG_ENABLE);
	struct kfd_runtime_info info = {0};

	a.enable.exception_mask = watched;
	a.enable.rinfo_ptr = (uintptr_t)&info;
	a.enable.rinfo_size = sizeof(info);
	a.enable.dbg_fd = (uint32_t)s->events[1];
	int r = rbt_amd_dbg(s->kfd, &a);
	if (r < 0) {
		return r == -EALREADY ? -EBUSY : judge(s, r);
	}
	s->enabled = true;
	send_runtime_event(s);
	/* Success says nothing about the GPUs: their result is in the state. */
	s->runtime_state = info.state;
	return info.state == KFD_RUNTIME_BUSY ? -EBUSY : info.state == KFD_RUNTIME_ERROR ? -EIO : 0;
}

int dbg_enable(struct rbt_amd_session *s)
{
	return enable(s, WATCHED);
}

static void disable(struct rbt_amd_session *s)
{
	struct kfd_dbg_trap a = operation(s, KFD_DBG_DISABLE);

	(void)rbt_amd_dbg(s->kfd, &a);
	s->enabled = false;
}

/*
 * A target that waits for an answer would wait for ever. Its event is in the pipe before it waits,
 * and none comes after DISABLE. So an event that is in the pipe then came in between, and is
 * answered in a session for that purpose. The next handshake may begin during that session: so this
 * is repeated until no event came.
 */
void dbg_disable(struct rbt_amd_session *s)
{
	char bytes[64];

	if (!s->enabled) {
		return;
	}
	s->held = 0;
	memset(s->held_queue, 0, sizeof(s->held_queue));
	s->n_held_queues = 0;
	if (!s->gone) {
		dbg_take_events(s);
	}
	disable(s);
	while (!s->gone && read(s->events[0], bytes, sizeof(bytes)) > 0) {
		(void)enable(s, KFD_EC_PROCESS_RUNTIME);
		if (!s->enabled) {
			break;
		}
		disable(s);
	}
}

static int snapshot_into(
	struct rbt_amd_session *s, struct kfd_queue_entry *list, uint32_t room, uint32_t *ret_n)
{
	struct kfd_dbg_trap a = operation(s, KFD_DBG_QUEUE_SNAPSHOT);

	/* A queue that is still "new" cannot be suspended: listing it clears that. */
	a.snapshot.exception_mask = KFD_EC_QUEUE_NEW;
	a.snapshot.buf_ptr = (uintptr_t)list;
	a.snapshot.n_entries = room;
	a.snapshot.entry_size = sizeof(*list);
	int r = judge(s, rbt_amd_dbg(s->kfd, &a));
	if (r == 0) {
		*ret_n = a.snapshot.n_entries;
	}
	return r;
}

static void unhold(struct rbt_amd_session *s, uint32_t id)
{
	if (id < KFD_MAX_QUEUES && s->held_queue[id]) {
		s->held_queue[id] = false;
		s->n_held_queues--;
	}
}

/* A new queue may have the number of one that was held and is gone. */
static void forget_replaced(
	struct rbt_amd_session *s, const struct kfd_queue_entry *list, uint32_t n)
{
	for (uint32_t i = 0; i < n && s->n_held_queues > 0; i++) {
		if (list[i].exception_status & KFD_EC_QUEUE_NEW) {
			unhold(s, list[i].queue_id);
		}
	}
}

/* The kernel returns the number of queues, and fills as many entries as there is room for. */
int dbg_snapshot(struct rbt_amd_session *s, struct kfd_queue_entry **ret, uint32_t *ret_n)
{
	struct kfd_queue_entry *list = NULL;
	uint32_t n = 0, room = s->room != 0 ? s->room : FIRST_ROOM;

	for (;;) {
		list = calloc(room, sizeof(*list));
		int r = list == NULL ? -ENOMEM : snapshot_into(s, list, room, &n);
		if (r < 0) {
			free(list);
			return r;
		}
		if (n <= room || room == KFD_MAX_QUEUES) {
			break;
		}
		free(list);
		room = n + FIRST_ROOM < KFD_MAX_QUEUES ? n + FIRST_ROOM : KFD_MAX_QUEUES;
	}
	s->room = room;
	*ret = list;
	*ret_n = n < room ? n : room;
	forget_replaced(s, list, *ret_n);
	return 0;
}

static uint32_t clamp_grace(uint32_t grace)
{
	return grace < KFD_GRACE_MIN   ? KFD_GRACE_MIN
	       : grace > KFD_GRACE_MAX ? KFD_GRACE_MAX
				       : grace;
}

/* 1 if the call can be made with these ids, 0 if there is nothing to do, or -errno. */
static int check_ids(const struct rbt_amd_session *s, const uint32_t *ids, uint32_t n)
{
	/* Without an array kernels crash (6.12.43); they refuse more ids than this. */
	if (n == 0 || ids == NULL) {
		return 0;
	}
	if (n > KFD_MAX_QUEUES) {
		return -EINVAL;
	}
	return s->runtime_state == KFD_RUNTIME_ENABLED ? 1 : -ENOTCONN;
}

int dbg_suspend(struct rbt_amd_session *s, uint32_t *ids, uint32_t n, uint32_t grace)
{
	struct kfd_dbg_trap a = operation(s, KFD_DBG_SUSPEND_QUEUES);
	int r = check_ids(s, ids, n);

	if (r <= 0) {
		return r;
	}
	a.suspend.queue_array_ptr = (uintptr_t)ids;
	a.suspend.n_queues = n;
	a.suspend.grace_period = clamp_grace(grace);
	return judge(s, rbt_amd_dbg(s->kfd, &a));
}

int dbg_resume(struct rbt_amd_session *s, uint32_t *ids, uint32_t n)
{
	struct kfd_dbg_trap a = operation(s, KFD_DBG_RESUME_QUEUES);
	int r = check_ids(s, ids, n);

	if (r <= 0) {
		return r;
	}
	a.resume.queue_array_ptr = (uintptr_t)ids;
	a.resume.n_queues = n;
	return judge(s, rbt_amd_dbg(s->kfd, &a));
}

uint32_t rbt_amd_kind(uint32_t queue_type)
{
	return queue_type == KFD_QUEUE_COMPUTE || queue_type == KFD_QUEUE_COMPUTE_AQL
		       ? RBT_AMD_COMPUTE
		       : RBT_AMD_SDMA;
}

/* The ids of these kinds, as the kernel has them now, with or without queues that are held alone.
 * The array is new for every call, because the kernel leaves its bits in it. */
static int list_ids(
	struct rbt_amd_session *s, uint32_t kinds, bool with_held, uint32_t *ids, uint32_t *ret_n)
{
	struct kfd_queue_entry *list;
	uint32_t n = 0;
	int r = dbg_snapshot(s, &list, &n);

	if (r < 0) {
		return r;
	}
	*ret_n = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = list[i].queue_id;
		bool is_held = id < KFD_MAX_QUEUES && s->held_queue[id];
		if ((rbt_amd_kind(list[i].queue_type) & kinds) != 0 && (with_held || !is_held)) {
			ids[(*ret_n)++] = list[i].queue_id;
		}
	}
	free(list);
	return 0;
}

/* The result for n ids: 0, -EIO, or -EAGAIN if queues were new or being destroyed. */
static int judge_ids(const uint32_t *ids, uint32_t n)
{
	int r = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (ids[i] & KFD_QUEUE_ID_ERROR) {
			return -EIO;
		}
		r = ids[i] & KFD_QUEUE_ID_INVALID ? -EAGAIN : r;
	}
	return r;
}

static int hold_now(struct rbt_amd_session *s, uint32_t kinds, uint32_t grace)
{
	uint32_t ids[KFD_MAX_QUEUES], n = 0;
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < HOLD_TRIES; i++) {
		if (i > 0) {
			nanosleep(&(struct timespec){.tv_nsec = HOLD_PAUSE_NS}, NULL);
		}
		r = list_ids(s, kinds, true, ids, &n);
		if (r == 0) {
			r = dbg_suspend(s, ids, n, grace);
		}
		/* A smaller count is no error; the ids say which did not obey. */
		r = r < 0 ? r : judge_ids(ids, n);
	}
	return r;
}

int dbg_release(struct rbt_amd_session *s, uint32_t kinds)
{
	uint32_t ids[KFD_MAX_QUEUES], n = 0;
	int r = list_ids(s, kinds, false, ids, &n);

	s->held &= ~kinds;
	r = r < 0 ? r : dbg_resume(s, ids, n);
	r = r < 0 ? r : judge_ids(ids, n);
	/* Gone since they were listed. */
	return r == -EAGAIN ? 0 : r;
}

int dbg_hold(struct rbt_amd_session *s, uint32_t kinds, uint32_t grace)
{
	uint32_t before = s->held;
	int r = hold_now(s, kinds, grace);

	if (r < 0) {
		/* Kinds that were not held before must not stay off. */
		if ((kinds & ~before) != 0) {
			(void)dbg_release(s, kinds & ~before);
		}
		s->held = before;
		return r;
	}
	s->held |= kinds;
	s->grace = grace;
	return 0;
}

/* The queue's kind, RBT_AMD_*; -ENOENT: there is no such queue. Lists all queues, because a new one
 * cannot be suspended before that. */
static int find_queue(struct rbt_amd_session *s, uint32_t id)
{
	struct kfd_queue_entry *list;
	uint32_t n = 0;
	int r = dbg_snapshot(s, &list, &n);

	if (r < 0) {
		return r;
	}
	r = -ENOENT;
	for (uint32_t i = 0; i < n; i++) {
		r = list[i].queue_id == id ? (int)rbt_amd_kind(list[i].queue_type) : r;
	}
	free(list);
	return r;
}

int dbg_hold_queue(struct rbt_amd_session *s, uint32_t id)
{
	uint32_t ids[1] = {id};
	int r = id < KFD_MAX_QUEUES ? find_queue(s, id) : -ENOENT;

	r = r < 0 ? r : dbg_suspend(s, ids, 1, KFD_GRACE_MIN);
	r = r < 0 ? r : judge_ids(ids, 1);
	if (r == 0 && !s->held_queue[id]) {
		s->held_queue[id] = true;
		s->n_held_queues++;
	}
	/* It is being destroyed. */
	return r == -EAGAIN ? -ENOENT : r;
}

int dbg_release_queue(struct rbt_amd_session *s, uint32_t id)
{
	uint32_t ids[1] = {id};

	unhold(s, id);
	int r = find_queue(s, id);
	if (r < 0 || ((uint32_t)r & s->held) != 0) {
		return r == -ENOENT || r >= 0 ? 0 : r;
	}
	r = dbg_resume(s, ids, 1);
	r = r < 0 ? r : judge_ids(ids, 1);
	return r == -EAGAIN ? 0 : r;
}

/* The target waits in its start, or end, for this answer. Returns whether the event could be read:
 * otherwise the kernel reports it again. */
static bool answer_runtime(struct rbt_amd_session *s)
{
	struct kfd_dbg_trap info = operation(s, KFD_DBG_QUERY_EXCEPTION_INFO);
	struct kfd_runtime_info runtime = {.state = s->runtime_state};

	info.info.info_ptr = (uintptr_t)&runtime;
	info.info.info_size = sizeof(runtime);
	info.info.code = KFD_EC_CODE_PROCESS_RUNTIME;
	info.info.clear = 1;
	bool is_read = rbt_amd_dbg(s->kfd, &info) >= 0;
	if (is_read) {
		s->runtime_state = runtime.state;
	}
	send_runtime_event(s);
	return is_read;
}

void dbg_take_events(struct rbt_amd_session *s)
{
	char bytes[64];
	bool new_queues = false, is_read = true;

	while (read(s->events[0], bytes, sizeof(bytes)) > 0) {
	}
	while (is_read) {
		struct kfd_dbg_trap a = operation(s, KFD_DBG_QUERY_EVENT);
		/* The runtime's event stays until it has been read. */
		a.event.exception_mask = ~KFD_EC_PROCESS_RUNTIME;
		if (rbt_amd_dbg(s->kfd, &a) < 0) {
			break;
		}
		if (a.event.exception_mask & KFD_EC_PROCESS_RUNTIME) {
			is_read = answer_runtime(s);
		}
		new_queues |= (a.event.exception_mask & KFD_EC_QUEUE_NEW) != 0;
		s->n_changes++;
		poller_changed(s);
	}
	/* A queue that is made after a suspend runs, and must be suspended, too. */
	if (new_queues && s->held != 0) {
		int r = hold_now(s, s->held, s->grace);
		if (r < 0) {
			rbt_debug("process %d: a new queue runs on: %s", (int)s->pid, strerror(-r));
		}
	}
}
