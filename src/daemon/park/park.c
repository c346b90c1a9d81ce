/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a parked program gets from where it is to where its user wants it. One pass of park_tick()
 * looks at each program that has no job, and starts the next one. What a job has reached is decided
 * by the state that the driver told last (settle()).
 */
#include "daemon/park/park.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board/park.h"
#include "cuda/abi.h"
#include "daemon/daemon.h"
#include "daemon/park/check.h"
#include "daemon/park/order.h"
#include "daemon/peers/crowd.h"
#include "daemon/program.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/time.h"

/* A driver may lose a program whose restore finds too little memory: so much stays free. */
#define MARGIN_BYTES (1ull << 30)
#define LOOK_NS      RBT_NS_PER_S
#define RETRY_NS     (5 * RBT_NS_PER_S)
/* For so long a tool can read how its order ended. */
#define KEPT_NS    (30 * RBT_NS_PER_S)
#define MAX_LOST   3
#define MAX_MINORS 32
#define GB         1e9

struct parked *park_find(const struct daemon *d, const struct program *p)
{
	struct parked *k = park_find_pid(d, p->pid, p->start_time);

	return k != NULL && k->phase != RBT_PARK_RUNNING ? k : NULL;
}

struct parked *park_find_pid(const struct daemon *d, pid_t pid, uint64_t start_time)
{
	struct parked *k;

	LIST_FOREACH (k, &d->parking.list, entries) {
		if (k->pid == pid && k->start_time == start_time) {
			return k;
		}
	}
	return NULL;
}

void park_drop(struct parked *k)
{
	LIST_REMOVE(k, entries);
	free(k);
}

uint64_t park_bytes(const struct parked *k)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < k->n_gpus; i++) {
		sum += k->gpus[i].bytes;
	}
	return sum;
}

size_t park_group(struct daemon *d, struct parked *k, struct parked **list, size_t max)
{
	struct parked *other;
	size_t n = 0;

	list[n++] = k;
	LIST_FOREACH (other, &d->parking.list, entries) {
		if (other != k && k->group != 0 && other->group == k->group && n < max) {
			list[n++] = other;
		}
	}
	return n;
}

__attribute__((format(printf, 3, 4))) static void fail(
	struct parked *k, int error, const char *fmt, ...)
{
	va_list ap;

	k->error = error;
	va_start(ap, fmt);
	vsnprintf(k->text, sizeof(k->text), fmt, ap);
	va_end(ap);
}

/* The only place where a result of the driver's checkpoint calls becomes words. */
static void fail_by_result(struct parked *k, int result)
{
	switch (result) {
	case -ENOENT:
		fail(k, -ENODEV, "there is no libcuda.so.1 here");
		break;
	case -ENOSYS:
		fail(k, -EOPNOTSUPP, "the driver has no checkpoint calls; they came with 570");
		break;
	case CUDA_ERROR_NOT_READY:
		fail(k, -EBUSY,
			"its work on the GPU did not end within 10 s; it goes on as before");
		break;
	case CUDA_ERROR_OPERATING_SYSTEM:
		fail(k, -EIO, "the driver refused it (304)");
		break;
	case CUDA_ERROR_OUT_OF_MEMORY:
		fail(k, -ENOMEM, "the driver found too little memory");
		break;
	case CUDA_ERROR_INVALID_VALUE:
		fail(k, -ENXIO, "the driver does not know it as a CUDA program");
		break;
	default:
		if (result < 0) {
			fail(k, result, "the helper could not begin: %s", strerror(-result));
		} else {
			fail(k, -EIO, "the driver answered with CUDA error %d", result);
		}
	}
}

/* The program runs as without parking; its treatment is applied again, because the driver has
 * forgotten its slices. */
static void come_back(struct daemon *d, struct parked *k)
{
	struct program *p = program_find(d, k->pid);
	struct client *h;

	k->phase = RBT_PARK_RUNNING;
	k->retry_ns = rbt_now_ns() + KEPT_NS;
	d->dirty = true;
	if (p == NULL || p->start_time != k->start_time) {
		return;
	}
	if (p->reader.board != NULL) {
		rbt_park_moves(p->reader.board, false);
	}
	park_idle_came_back(d, p, k->is_idle && k->error != 0);
	program_drop_closed(d, p);
	LIST_FOREACH (h, &p->clients, entries) {
		park_keep_slices(p, &h->mine->rec);
		rbt_holding_assume_slices(h->mine);
		h->stale = true;
		h->in_hand = false;
	}
}

/* Where the program is now, and what that means for the order. */
static void settle(struct daemon *d, struct parked *k, enum rbt_park_goal goal, int result)
{
	bool has_failed =
		goal != RBT_PARK_GOAL_STATE && result != CUDA_SUCCESS && result != -ECANCELED;
	struct program *p = program_find(d, k->pid);

	k->is_read = true;
	k->retry_ns = 0;
	if (has_failed) {
		fail_by_result(k, result);
	}
	switch (k->state) {
	case CU_PROCESS_STATE_RUNNING:
		if (goal == RBT_PARK_GOAL_STATE && k->is_wanted_off) {
			k->phase = RBT_PARK_LEAVING;
			return;
		}
		if (goal == RBT_PARK_GOAL_STATE && k->is_asked) {
			fail(k, -EALREADY, "is not parked");
		}
		k->is_wanted_off = false;
		come_back(d, k);
		break;
	case CU_PROCESS_STATE_LOCKED:
		/* A failed job has tried to unlock it. */
		k->is_wanted_off = k->is_wanted_off && !has_failed;
		k->phase = k->is_wanted_off ? RBT_PARK_LEAVING : RBT_PARK_COMING_BACK;
		k->retry_ns = has_failed ? rbt_now_ns() + RETRY_NS : 0;
		break;
	case CU_PROCESS_STATE_CHECKPOINTED:
		k->phase = RBT_PARK_PARKED;
		/* Our copies of files that the driver has closed would keep their memory. */
		if (p != NULL) {
			program_drop_closed(d, p);
		}
		/* No second attempt by itself: the next order makes one. */
		k->is_wanted_off = k->is_wanted_off || has_failed;
		break;
	case CU_PROCESS_STATE_FAILED:
		k->phase = RBT_PARK_LOST;
		fail(k, -EIO,
			"is lost: the driver could not restore it, and cannot try again; end it to "
			"free its memory");
		break;
	default:
		if (result == CUDA_ERROR_INVALID_VALUE || result < 0) {
			fail_by_result(k, result);
			come_back(d, k);
			return;
		}
		fail_by_result(k, result);
		k->is_read = false;
		k->retry_ns = rbt_now_ns() + RETRY_NS;
	}
	k->is_asked = false;
}

void park_reported(struct daemon *d, struct parked *k, const struct rbt_park_report *r)
{
	if (r->call == RBT_PARK_CALL_STATE) {
		k->state = r->result == CUDA_SUCCESS ? r->state : -1;
	}
}

static void lose_helper(struct parked *k)
{
	k->n_lost++;
	k->is_read = false; /* the driver is asked where the program is now */
	k->retry_ns = k->n_lost > MAX_LOST ? rbt_now_ns() + RETRY_NS : 0;
	if (k->n_lost > MAX_LOST) {
		fail(k, -EIO, "its helper was killed %u times", k->n_lost);
	}
}

void park_job_ended(struct daemon *d, struct park_job *job, bool is_lost)
{
	struct parked *k;

	if (is_lost) {
		rbt_warn("a park helper was killed: the driver is asked where its program is");
	}
	LIST_FOREACH (k, &d->parking.list, entries) {
		if (k->job != job) {
			continue;
		}
		k->job = NULL;
		if (is_lost) {
			lose_helper(k);
		} else {
			k->n_lost = 0;
			settle(d, k, job->goal, job->result);
		}
	}
	park_write(d);
}

static void start_job(struct daemon *d, struct parked *k, enum rbt_park_goal goal)
{
	struct parked *list[RBT_PARK_MAX];
	size_t n = goal == RBT_PARK_GOAL_STATE ? 1 : park_group(d, k, list, RBT_PARK_MAX);

	list[0] = k;
	for (size_t i = 0; i < n; i++) {
		const struct program *p = program_find(d, list[i]->pid);

		if (goal != RBT_PARK_GOAL_STATE && p != NULL && p->reader.board != NULL) {
			rbt_park_moves(p->reader.board, true);
		}
		list[i]->rss_bytes = check_resident_bytes(list[i]->pid);
		if (goal != RBT_PARK_GOAL_STATE) {
			list[i]->phase =
				goal == RBT_PARK_GOAL_OFF ? RBT_PARK_LEAVING : RBT_PARK_COMING_BACK;
		}
	}
	int r = job_start(d, goal, list, n);
	if (r < 0) {
		fail(k, r, "its helper could not be started: %s", strerror(-r));
		k->retry_ns = rbt_now_ns() + RETRY_NS;
	}
}

/* The programs that have most of a GPU's memory, for the user to read. */
static void name_holders(struct daemon *d, uint32_t backend, uint32_t minor, char *buf, size_t size)
{
	const struct rbt_backend *b = rbt_backend_by_id(backend);
	struct program *p;
	size_t at = 0, named = 0;

	buf[0] = '\0';
	LIST_FOREACH (p, &d->programs, entries) {
		struct rbt_gpu_usage list[PARKED_GPUS];
		const struct client *h = LIST_FIRST(&p->clients);
		int n = h != NULL && h->backend == backend && park_find(d, p) == NULL
				? b->usage(&h->mine->rec, p->pid, list, PARKED_GPUS)
				: 0;
		for (int i = 0; i < n; i++) {
			if (list[i].minor == minor && list[i].bytes > 0 && at < size && named < 4) {
				at += (size_t)snprintf(buf + at, size - at, "%s%d",
					named++ > 0 ? ", " : "; held by ", (int)p->pid);
			}
		}
	}
}

/* Without a record of what it had: all its memory of the host, on the GPU with most memory. */
static bool has_room_somewhere(const struct rbt_backend *b, struct parked *k)
{
	uint64_t needed = check_resident_bytes(k->pid) + MARGIN_BYTES, most = 0;

	for (uint32_t minor = 0; minor < MAX_MINORS; minor++) {
		uint64_t bytes = 0;
		if (b->free_memory(minor, &bytes) == 0 && bytes > most) {
			most = bytes;
		}
	}
	fail(k, -ENOMEM, "waits for %.1f GB on a GPU: %.1f GB are free", (double)needed / GB,
		(double)most / GB);
	return most >= needed;
}

static uint64_t bytes_on(const struct parked *k, uint32_t backend, uint32_t minor)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < k->n_gpus && k->backend == backend; i++) {
		sum += k->gpus[i].minor == minor ? k->gpus[i].bytes : 0;
	}
	return sum;
}

/* The free memory that the group needs on a GPU. Programs that are coming back may not have taken
 * theirs yet. */
static uint64_t needed_on(struct daemon *d, struct parked *const *list, size_t n, uint32_t minor)
{
	uint64_t needed = MARGIN_BYTES;
	const struct parked *other;

	for (size_t i = 0; i < n; i++) {
		needed += bytes_on(list[i], list[0]->backend, minor);
	}
	LIST_FOREACH (other, &d->parking.list, entries) {
		if (other->job != NULL && other->job->goal == RBT_PARK_GOAL_ON) {
			needed += bytes_on(other, list[0]->backend, minor);
		}
	}
	return needed;
}

/* Whether all programs of the group fit on their GPUs, with the margin. If not, k says why. */
static bool has_room(struct daemon *d, struct parked *k, struct parked **list, size_t n)
{
	const struct rbt_backend *b = rbt_backend_by_id(k->backend);

	if (b == NULL || b->free_memory == NULL) {
		return true;
	}
	if (k->n_gpus == 0) {
		return has_room_somewhere(b, k);
	}
	for (uint32_t i = 0; i < k->n_gpus; i++) {
		uint64_t needed = needed_on(d, list, n, k->gpus[i].minor), bytes = 0;
		char holders[48];

		int r = b->free_memory(k->gpus[i].minor, &bytes);
		if (r < 0) {
			fail(k, r, "the free memory of GPU %u is not known (%s); --force tries it",
				k->gpus[i].minor, strerror(-r));
			return false;
		}
		if (bytes < needed) {
			name_holders(d, k->backend, k->gpus[i].minor, holders, sizeof(holders));
			fail(k, -ENOMEM, "waits for %.1f GB on GPU %u: %.1f GB are free%s",
				(double)needed / GB, k->gpus[i].minor, (double)bytes / GB, holders);
			return false;
		}
	}
	return true;
}

static void try_back(struct daemon *d, struct parked *k, uint64_t now_ns)
{
	struct parked *list[RBT_PARK_MAX];
	size_t n = park_group(d, k, list, RBT_PARK_MAX);

	for (size_t i = 0; i < n; i++) {
		/* Of a group, each must be known to be off, and free for a job. */
		if (list[i]->job != NULL || !list[i]->is_read) {
			return;
		}
	}
	for (size_t i = 0; i < n && !k->is_forced; i++) {
		if (has_room(d, list[i], list, n)) {
			continue;
		}
		if (list[i] != k) {
			fail(k, list[i]->error, "%s", list[i]->text);
		}
		k->phase = k->is_no_wait ? RBT_PARK_PARKED : RBT_PARK_WAITING;
		k->is_wanted_off = k->is_no_wait;
		k->retry_ns = now_ns + LOOK_NS;
		return;
	}
	k->error = 0;
	k->text[0] = '\0';
	start_job(d, k, RBT_PARK_GOAL_ON);
}

static void look_at(struct daemon *d, struct parked *k, uint64_t now_ns)
{
	if (k->until_ns != 0 && now_ns >= k->until_ns && k->is_wanted_off) {
		k->until_ns = 0;
		k->is_wanted_off = false;
		park_write(d);
	}
	if (k->job != NULL || now_ns < k->retry_ns) {
		return;
	}
	/* Its own thread would do the work: a call would hang. */
	if (check_is_stopped(k->pid)) {
		fail(k, -EBUSY, PARKED_STOPPED);
		k->retry_ns = now_ns + LOOK_NS;
		return;
	}
	if (!k->is_read) {
		start_job(d, k, RBT_PARK_GOAL_STATE);
		return;
	}
	switch (k->phase) {
	case RBT_PARK_LEAVING:
		start_job(d, k, k->is_wanted_off ? RBT_PARK_GOAL_OFF : RBT_PARK_GOAL_ON);
		break;
	case RBT_PARK_COMING_BACK: /* it is only locked */
		start_job(d, k, RBT_PARK_GOAL_ON);
		break;
	case RBT_PARK_PARKED:
	case RBT_PARK_WAITING:
		if (!k->is_wanted_off) {
			try_back(d, k, now_ns);
		}
		break;
	default:
		break;
	}
}

static bool has_ended(const struct parked *k)
{
	uint64_t start_time;

	return rbt_proc_start_time(k->pid, &start_time) < 0 || start_time != k->start_time;
}

void park_tick(struct daemon *d, uint64_t now_ns)
{
	struct parked *k, *next;

	for (k = LIST_FIRST(&d->parking.list); k != NULL; k = next) {
		next = LIST_NEXT(k, entries);
		if (has_ended(k) || (k->phase == RBT_PARK_RUNNING && now_ns >= k->retry_ns)) {
			park_drop(k);
			park_write(d);
			d->dirty = true;
			continue;
		}
		if (k->phase != RBT_PARK_RUNNING) {
			look_at(d, k, now_ns);
		}
	}
}

bool park_needs_tick(const struct daemon *d)
{
	return !LIST_EMPTY(&d->parking.list);
}

const char *park_note(const struct daemon *d, const struct program *p)
{
	static char text[96];
	const struct parked *k = park_find(d, p);

	if (k == NULL) {
		return "";
	}
	if (k->error != 0) {
		return k->text;
	}
	snprintf(text, sizeof(text), "%s%.1f GB%s",
		k->phase == RBT_PARK_LEAVING       ? "leaves the GPU with "
		: k->phase == RBT_PARK_COMING_BACK ? "comes back with "
						   : "off the GPU with ",
		(double)park_bytes(k) / GB,
		!k->is_idle        ? ""
		: k->is_wanted_off ? ", because it was idle"
				   : ", because it is not idle any more");
	return text;
}

/* A parked program makes no calls, so its shim does not find the new daemon; and the driver may
 * have closed its files, so a scan does not find it either. */
static void meet(struct daemon *d, const struct parked *k)
{
	uid_t uid = 0;
	int error = 0, pidfd = rbt_pidfd_open(k->pid);
	struct user *user = rbt_proc_uid(k->pid, &uid) == 0 ? user_obtain(d, uid) : NULL;

	if (pidfd >= 0 && user != NULL) {
		(void)program_obtain(d, k->pid, pidfd, user, &error);
	}
	rbt_close(&pidfd);
}

void park_start(struct daemon *d)
{
	struct parked *k;

	park_read(d);
	LIST_FOREACH (k, &d->parking.list, entries) {
		meet(d, k);
	}
	park_tick(d, rbt_now_ns());
}

void park_stop(struct daemon *d)
{
	while (!LIST_EMPTY(&d->parking.jobs)) {
		job_destroy(d, LIST_FIRST(&d->parking.jobs));
	}
	while (!LIST_EMPTY(&d->parking.list)) {
		park_drop(LIST_FIRST(&d->parking.list));
	}
}
