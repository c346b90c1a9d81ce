/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/list.h"

#include <stdio.h>
#include <string.h>

#include "daemon/apply.h"
#include "daemon/daemon.h"
#include "daemon/metrics/accounting.h"
#include "daemon/peers/allowed.h"
#include "daemon/peers/rights.h"
#include "daemon/program.h"
#include "util/time.h"

const char *list_raising_text(uint32_t keys)
{
	return (keys & RBT_TREAT_BIT(PRIORITY)) != 0 ? "raising above normal"
	       : (keys & RBT_TREAT_BIT(WEIGHT)) != 0 ? "raising a weight"
						     : "raising a limit";
}

static const char *denial_text(enum rbt_denial denial)
{
	switch (denial) {
	case RBT_DENIED_LOCK:
		return "default slice: another scheduler holds this GPU";
	case RBT_DENIED_TASKS:
		return "default slice: has several compute tasks on the GPU";
	case RBT_DENIED_COMPANY:
		return "default slice: others with short slices run beside it on the GPU";
	case RBT_DENIED_RIVAL:
		return "default slice: another scheduler has a best-effort task on the GPU";
	case RBT_DENIED_ADMISSION:
		return "treated as normal: too many latency programs on the GPU";
	case RBT_DENIED_POLICY:
		return "kept off: the policy refuses it";
	case RBT_DENIED_IN_VAIN:
		return "runs though the policy refuses it: it cannot be suspended";
	default:
		return "";
	}
}

bool list_has_no_slices(const struct program *p)
{
	const struct client *h;
	bool any = false;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_record *rec = &h->mine->rec;
		any = any || rec->n_tasks > 0;
		for (uint32_t i = 0; i < rec->n_tasks; i++) {
			if ((rec->tasks[i].valid & RBT_TASK_HAS_OWN_TIMESLICE) != 0) {
				return false;
			}
		}
	}
	return any;
}

/* Whether the program's device has no slices at all, rather than tasks whose slices are not known
 * yet. */
static bool is_without_slices(const struct program *p)
{
	const struct client *h = LIST_FIRST(&p->clients);
	const struct rbt_backend *b = h != NULL ? rbt_backend_by_id(h->backend) : NULL;

	return b != NULL && !b->has_slices;
}

/* Whether one of the program's limits is not in force. */
static bool has_too_high_limits(struct daemon *d, const struct program *p)
{
	struct rbt_limits now = limits_in_force(d, p);

	return memcmp(&now, &p->treat.limits, sizeof(now)) != 0;
}

const char *list_note(struct daemon *d, const struct program *p)
{
	static char text[sizeof(((struct rbt_msg_program *)0)->note)];

	uint32_t missing = program_missing_cap(p);

	if (park_find(d, p) != NULL) {
		return park_note(d, p);
	}
	if (p->sched.denial == RBT_DENIED_IN_VAIN) {
		return denial_text(p->sched.denial);
	}
	if (missing != 0) {
		program_why_not(p, missing, text, sizeof(text));
		return text;
	}
	if (gate_holds_any(p)) {
		return "the policy refuses its first run";
	}
	if (p->error < 0) {
		return strerror(-p->error);
	}
	if (program_is_beyond(p)) {
		snprintf(text, sizeof(text), "left alone: Rubato schedules %d other GPUs already",
			RBT_MAX_GPUS);
		return text;
	}
	if (p->sched.denial == RBT_DENIED_NOTHING && program_is_partial(p)) {
		return "has more tasks than are known: not all of them obey";
	}
	if (p->sched.denial == RBT_DENIED_NOTHING && p->treat.timeslice_us != 0 &&
		p->treat.timeslice_us < RBT_TURN_MIN_US && is_without_slices(p) &&
		list_has_no_slices(p)) {
		return LIST_NO_SLICES;
	}
	if (p->sched.denial == RBT_DENIED_NOTHING &&
		(p->rights.refused != 0 || has_too_high_limits(d, p))) {
		snprintf(text, sizeof(text), "%s " LIST_RAISING,
			list_raising_text(p->rights.refused), d->admins.group);
		return text;
	}
	if (p->sched.denial == RBT_DENIED_NOTHING && p->treat.memory != 0 && !run_is_bound(p)) {
		return "the memory limit is not enforced: the program lacks Rubato's library";
	}
	return denial_text(p->sched.denial);
}

static bool is_held_back(enum rbt_denial denial)
{
	return denial != RBT_DENIED_NOTHING && denial != RBT_DENIED_SUSPENDED;
}

static void fill_task(const struct rbt_holding *mine, uint32_t i, struct rbt_task_state *ret)
{
	const struct rbt_backend *b = rbt_backend_by_id(mine->rec.backend);
	const struct rbt_task *t = &mine->rec.tasks[i];

	uint16_t suspended = rbt_applied_is_off(&mine->applied, t->kind) ? RBT_TASK_OFF : 0;
	if (rbt_applied_has_task_off(&mine->applied, t->handle)) {
		suspended |= RBT_TASK_OFF | RBT_TASK_OFF_ALONE;
	}
	*ret = (struct rbt_task_state){
		.task = *t, .suspended = suspended, .backend = (uint16_t)mine->rec.backend};
	ret->has_timeslice = b != NULL && b->get_timeslice(&mine->rec, t, &ret->timeslice_us) == 0;
}

/* The driver counts per process and GPU: one client's answer is the program's. */
bool list_memory(const struct program *p, uint64_t *ret_bytes)
{
	const struct client *h;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_backend *b = rbt_backend_by_id(h->mine->rec.backend);
		struct rbt_program_stats stats = {0};

		if (b != NULL && b->stats != NULL && b->stats(&h->mine->rec, p->pid, &stats) == 0 &&
			(stats.valid & RBT_STATS_HAS_MEMORY) != 0) {
			*ret_bytes = stats.memory_bytes;
			return true;
		}
	}
	return false;
}

/* The class and priority of the list are what users said. */
static const char *policy_note(const struct program *p)
{
	static char text[48];
	uint32_t now = p->sched.output.priority;

	if (now == RBT_POLICY_KEEP || now == p->treat.priority) {
		return "";
	}
	snprintf(text, sizeof(text), "the policy gives it priority %u", now);
	return text;
}

/* Single suspended queues are named beside any other note. */
static void fill_note(struct daemon *d, struct program *p, char *buf, size_t size)
{
	const char *note = list_note(d, p);
	uint32_t n = p->suspend.queues.n;

	note = note[0] != '\0' ? note : accounting_reserve_note(d, p);
	note = note[0] != '\0' ? note : policy_note(p);
	if (n == 0) {
		snprintf(buf, size, "%s", note);
	} else {
		snprintf(buf, size, "%u queue%s suspended%s%s", n, n == 1 ? "" : "s",
			note[0] != '\0' ? "; " : "", note);
	}
}

static size_t describe(struct daemon *d, struct program *p, char *buf, size_t size)
{
	struct rbt_msg_program msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_PROGRAM},
		.pid = p->pid,
		.uid = program_owner(p),
		.priority = p->treat.priority,
		.flags = (p->peer == NULL ? RBT_PROGRAM_ATTACHED : 0) |
			 (p->suspend.is_ordered ? RBT_PROGRAM_SUSPENDED : 0) |
			 (park_find(d, p) != NULL ? RBT_PROGRAM_PARKED : 0) |
			 (program_is_waiting(p) ? RBT_PROGRAM_WAITING : 0) |
			 (p->peer != NULL && p->peer->is_older ? RBT_PROGRAM_OLDER : 0) |
			 (is_held_back(p->sched.denial) || program_missing_cap(p) != 0
					 ? RBT_PROGRAM_HELD_BACK
					 : 0),
		/* Without slices, a class wants none; but a user may have set a turn's length. */
		.wanted_us = is_without_slices(p) ? p->treat.timeslice_us : program_wanted_us(p),
	};
	uint64_t now_ns = rbt_now_ns();
	size_t at = sizeof(msg);
	struct client *h;

	if (p->suspend.until_ns > now_ns) {
		msg.suspended_left_ms = (p->suspend.until_ns - now_ns) / RBT_NS_PER_MS + 1;
	}
	fill_note(d, p, msg.note, sizeof(msg.note));
	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_holding *mine = h->mine;
		for (uint32_t i = 0;
			i < mine->rec.n_tasks && at + sizeof(struct rbt_task_state) <= size; i++) {
			struct rbt_task_state state;
			fill_task(mine, i, &state);
			memcpy(buf + at, &state, sizeof(state));
			at += sizeof(state);
			msg.n_tasks++;
		}
	}
	msg.has_memory = list_memory(p, &msg.memory_bytes);
	memcpy(buf, &msg, sizeof(msg));
	return at;
}

static void fill_origin(const struct program *p, struct rbt_program_origin *ret)
{
	*ret = (struct rbt_program_origin){0};
	snprintf(ret->rule, sizeof(ret->rule), "%s", p->rule);
	snprintf(ret->group, sizeof(ret->group), "%s", p->treat.group);
}

/* The memory of the smallest GPU that the program uses; 0: unknown. */
static uint64_t smallest_gpu(const struct program *p)
{
	const struct client *h;
	uint64_t smallest = 0;

	LIST_FOREACH (h, &p->clients, entries) {
		const struct rbt_backend *b = rbt_backend_by_id(h->mine->rec.backend);
		struct rbt_program_stats stats = {0};

		if (b != NULL && b->stats != NULL && b->stats(&h->mine->rec, p->pid, &stats) == 0 &&
			(stats.valid & RBT_STATS_HAS_GPU) != 0 &&
			(smallest == 0 || stats.gpu_bytes < smallest)) {
			smallest = stats.gpu_bytes;
		}
	}
	return smallest;
}

size_t list_fill(struct daemon *d, struct program *p, uint32_t flags, char *buf, size_t size)
{
	struct rbt_program_turns turns;
	struct rbt_program_account account;
	struct rbt_program_origin origin;
	struct rbt_program_reserve reserve;
	struct rbt_program_memory memory;
	size_t n = describe(d, p, buf,
		size - sizeof(turns) - sizeof(account) - sizeof(origin) - sizeof(reserve) -
			sizeof(p->treat) - sizeof(memory) - sizeof(struct rbt_place) -
			sizeof(p->guest));

	if ((flags & RBT_LIST_GUEST) != 0 && p->guest.vm[0] != '\0') {
		struct rbt_msg_program msg;

		memcpy(&msg, buf, sizeof(msg));
		msg.flags |= RBT_PROGRAM_GUEST;
		memcpy(buf, &msg, sizeof(msg));
		memcpy(buf + n, &p->guest, sizeof(p->guest));
		n += sizeof(p->guest);
	}

	if (flags != 0) {
		accounting_fill(d, p, &account); /* first: it brings the turns up to date too */
	}
	if ((flags & RBT_LIST_TURNS) != 0) {
		accounting_fill_turns(d, p, &turns);
		memcpy(buf + n, &turns, sizeof(turns));
		n += sizeof(turns);
	}
	if ((flags & RBT_LIST_ACCOUNT) != 0) {
		memcpy(buf + n, &account, sizeof(account));
		n += sizeof(account);
	}
	if ((flags & RBT_LIST_ORIGIN) != 0) {
		fill_origin(p, &origin);
		memcpy(buf + n, &origin, sizeof(origin));
		n += sizeof(origin);
	}
	if ((flags & RBT_LIST_RESERVE) != 0) {
		accounting_fill_reserve(d, p, &reserve);
		memcpy(buf + n, &reserve, sizeof(reserve));
		n += sizeof(reserve);
	}
	if ((flags & RBT_LIST_TREAT) != 0) {
		memcpy(buf + n, &p->treat, sizeof(p->treat));
		n += sizeof(p->treat);
	}
	if ((flags & RBT_LIST_MEMORY) != 0) {
		run_fill(p, &memory);
		/* Driver calls, which a list without limits does without. */
		memory.gpu_bytes = memory.limit_bytes != 0 ? smallest_gpu(p) : 0;
		memcpy(buf + n, &memory, sizeof(memory));
		n += sizeof(memory);
	}
	if ((flags & RBT_LIST_PLACE) != 0) {
		memcpy(buf + n, program_place(p, rbt_now_ns()), sizeof(struct rbt_place));
		n += sizeof(struct rbt_place);
	}
	return n;
}
