/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/daemon.h"
#include "daemon/park/park.h"
#include "daemon/program.h"
#include "util/fd.h"
#include "util/time.h"

/* Eight seconds of 1,000 events each; a tool asks ten times per second. */
#define RING_SIZE 8192u

static uint32_t flags_of(const struct daemon *d, const struct program *p, uint32_t gpus)
{
	const struct rbt_sched_prog *prog = p->sched.prog;
	const struct client *h;
	bool is_off = false, is_suspended = false;

	LIST_FOREACH (h, &p->clients, entries) {
		is_off = is_off || rbt_applied_is_in_turns(&h->mine->applied);
		is_suspended = is_suspended || rbt_applied_is_by_command(&h->mine->applied);
	}
	return (prog != NULL && gpus != 0 && rbt_sched_is_wanting(prog) ? RBT_TRACE_WANTS : 0) |
	       (p->sched.params.is_known ? RBT_TRACE_SEEN : 0) | (is_off ? RBT_TRACE_OFF : 0) |
	       (is_suspended ? RBT_TRACE_SUSPENDED : 0) |
	       (park_find(d, p) != NULL ? RBT_TRACE_PARKED : 0) |
	       (p->request.is_hinted ? RBT_TRACE_REQUEST : 0) |
	       (prog != NULL && rbt_sched_is_reserving(prog) ? RBT_TRACE_RESERVES : 0);
}

static void describe(
	const struct daemon *d, struct program *p, uint64_t now_ns, struct rbt_trace_event *ret)
{
	const char *name = program_name(p, now_ns);
	uint32_t gpus = 0;

	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		gpus |= (uint32_t)(p->sched.params.tasks[gpu].n_compute > 0) << gpu;
	}
	*ret = (struct rbt_trace_event){
		.time_ns = now_ns,
		.start_time = p->start_time,
		.pid = p->pid,
		.flags = flags_of(d, p, gpus),
		.gpus = gpus,
		.priority = p->treat.priority,
	};
	memcpy(ret->name, name, strnlen(name, sizeof(ret->name)));
}

/* Whether both are the same, except for their times. */
static bool is_same(const struct rbt_trace_event *a, const struct rbt_trace_event *b)
{
	return a->flags == b->flags && a->gpus == b->gpus && a->priority == b->priority &&
	       memcmp(a->name, b->name, sizeof(a->name)) == 0;
}

static void record(struct daemon *d, struct program *p, const struct rbt_trace_event *event)
{
	d->trace.ring[d->trace.n++ % RING_SIZE] = *event;
	p->trace.last = *event;
	p->trace.is_told = true;
}

void trace_program(struct daemon *d, struct program *p)
{
	struct rbt_trace_event now;

	if (d->trace.ring == NULL || p->awaited) {
		return;
	}
	describe(d, p, rbt_now_ns(), &now);
	if (!p->trace.is_told || !is_same(&now, &p->trace.last)) {
		record(d, p, &now);
	}
}

void trace_look(struct daemon *d)
{
	struct program *p;

	if (d->trace.ring == NULL) {
		return;
	}
	LIST_FOREACH (p, &d->programs, entries) {
		trace_program(d, p);
	}
}

void trace_end(struct daemon *d, struct program *p)
{
	struct rbt_trace_event now;

	if (d->trace.ring != NULL && p->trace.is_told) {
		now = p->trace.last;
		now.time_ns = rbt_now_ns();
		now.flags = RBT_TRACE_GONE;
		record(d, p, &now);
	}
}

/* 0 or -ENOMEM. */
static int begin(struct daemon *d, struct peer *peer)
{
	if (peer->is_tracing) {
		return 0;
	}
	if (d->trace.ring == NULL) {
		d->trace.ring = calloc(RING_SIZE, sizeof(d->trace.ring[0]));
	}
	if (d->trace.ring == NULL) {
		return -ENOMEM;
	}
	peer->is_tracing = true;
	d->trace.n_readers++;
	return 0;
}

static void tell_all(struct daemon *d)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		p->trace.is_told = false;
	}
	trace_look(d);
}

/* Returns the number of the first event that is still there. */
static uint64_t oldest(const struct trace *t)
{
	return t->n > RING_SIZE ? t->n - RING_SIZE : 0;
}

void trace_answer(struct daemon *d, struct peer *peer, const struct rbt_msg_trace *msg)
{
	static char buf[RBT_MSG_MAX];
	struct rbt_msg_trace_events head = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_TRACE_EVENTS}};
	struct rbt_msg_result refusal = {.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESULT},
		.error = begin(d, peer)};

	if (refusal.error < 0) {
		rbt_send(peer->source.fd, &refusal, sizeof(refusal), NULL, 0, MSG_DONTWAIT);
		return;
	}
	head.first = msg->next < d->trace.n ? msg->next : d->trace.n;
	if ((msg->flags & RBT_TRACE_AFRESH) != 0) {
		head.first = d->trace.n;
		tell_all(d);
	}
	/* The ring of an earlier reader may have had the events before. */
	head.first = head.first > oldest(&d->trace) ? head.first : oldest(&d->trace);
	head.now_ns = rbt_now_ns();
	memcpy(head.gpus, d->gpu_table.gpus, sizeof(head.gpus));
	size_t at = sizeof(head);
	for (uint64_t i = head.first; i < d->trace.n && head.n < RBT_TRACE_MAX; i++, head.n++) {
		memcpy(buf + at, &d->trace.ring[i % RING_SIZE], sizeof(d->trace.ring[0]));
		at += sizeof(d->trace.ring[0]);
	}
	memcpy(buf, &head, sizeof(head));
	rbt_send(peer->source.fd, buf, at, NULL, 0, MSG_DONTWAIT);
}

void trace_forget_peer(struct daemon *d, struct peer *peer)
{
	if (!peer->is_tracing) {
		return;
	}
	peer->is_tracing = false;
	if (--d->trace.n_readers == 0) {
		free(d->trace.ring);
		d->trace.ring = NULL;
	}
}
