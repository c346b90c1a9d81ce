/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/manager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/events.h"
#include "daemon/peers/server.h"
#include "daemon/policy/keep.h"
#include "daemon/policy/loading.h"
#include "daemon/program.h"
#include "daemon/schedule.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

/* Turns wait while entries are copied from one engine to the other. This is as long as a turn. */
#define INHERIT_NS (100 * RBT_NS_PER_MS)

bool policy_is_loaded(const struct daemon *d)
{
	return d->policy.current != NULL && d->policy.current->engine != NULL;
}

bool policy_is_users(const struct daemon *d)
{
	return policy_is_loaded(d) && d->policy.current->origin == POLICY_BY_USER;
}

/* The built-in policy under a policy, or the one in force without a policy (NULL). */
static const struct rbt_sched_policy *base_of(const struct daemon *d, const struct policy *p)
{
	const char *name = p != NULL ? p->object->ops.base : "";
	size_t n;

	if (name[0] != '\0') {
		return rbt_sched_policy_find(name);
	}
	return d->policy.configured != NULL ? d->policy.configured : rbt_sched_policies(&n);
}

/* Puts a configuration in force, with the policy (or NULL) on top of its base. */
static int configure(struct daemon *d, struct policy *p, const struct rbt_sched_config *config)
{
	struct rbt_sched_config now = *config;

	now.policy = base_of(d, p);
	if (p != NULL) {
		struct rbt_sched_policy *next = &p->sched[!p->at];

		*next = *now.policy;
		next->name = p->name;
		next->asks = p->object->hooks[RBT_HOOK_SCHEDULE] >= 0;
		now.policy = next;
	}
	int r = schedule_configure(d, &now);
	if (r == 0 && p != NULL) {
		p->at = !p->at;
	}
	return r;
}

static void on_timer(struct daemon *d, struct source *s, uint32_t events)
{
	uint64_t expirations;
	ssize_t ignored = read(s->fd, &expirations, sizeof(expirations));

	(void)ignored;
	loading_tick(d);
	struct policy *p = d->policy.current;
	if (p != NULL && p->engine != NULL && !p->is_condemned) {
		(void)policy_call_plain(p, RBT_HOOK_TICK);
		policy_drain(p);
	}
}

static bool is_timer_needed(const struct daemon *d)
{
	const struct policy *p = d->policy.current;

	return d->policy.loading != NULL ||
	       (p != NULL && p->engine != NULL &&
		       (p->object->hooks[RBT_HOOK_TICK] >= 0 || p->log_map >= 0));
}

void policy_arm(struct daemon *d)
{
	const struct itimerspec spec = {.it_value.tv_sec = 1, .it_interval.tv_sec = 1};
	struct source *s = &d->policy.timer;

	if (!is_timer_needed(d)) {
		unwatch(d, s);
		return;
	}
	if (s->fd >= 0) {
		return;
	}
	*s = (struct source){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = on_timer};
	if (s->fd < 0 || timerfd_settime(s->fd, 0, &spec, NULL) < 0 || watch(d, s) < 0) {
		rbt_warn("policies have no clock: %s", strerror(errno));
		rbt_close(&s->fd);
	}
}

/* Another policy begins with none of the refusals of the one before it. */
static void forget_refusals(struct daemon *d)
{
	struct program *p;

	LIST_FOREACH (p, &d->programs, entries) {
		memset(p->policy.refusals, 0, sizeof(p->policy.refusals));
		p->policy.output_ns = 0;
	}
}

static void say_goodbye(struct policy *p)
{
	(void)policy_call_plain(p, RBT_HOOK_EXIT);
	policy_drain(p);
}

static void keep_or_not(struct daemon *d, const struct policy *p)
{
	if (p->origin == POLICY_BY_USER && (p->flags & RBT_POLICY_FOREGROUND) == 0) {
		keep_write(d, p);
	} else {
		keep_remove(d);
	}
}

void policy_keep_again(struct daemon *d)
{
	if (policy_is_loaded(d)) {
		keep_or_not(d, d->policy.current);
	}
}

/* The old policy says goodbye before its entries are taken over: what it wrote then is not lost,
 * and what it cleans up does not harm the new one. If the new policy cannot begin after all, the
 * old one begins again. */
static int replace(struct daemon *d, struct policy *old, struct policy *p, struct rbt_why *why)
{
	if (old != NULL) {
		say_goodbye(old);
	}
	int r = rbt_engine_inherit(p->engine, old != NULL ? old->engine : NULL, INHERIT_NS, why);
	if (r == 0 && (r = policy_call_plain(p, RBT_HOOK_INIT)) < 0) {
		rbt_why_set(why, r, "its hook init failed");
	}
	if (r == 0 && (r = configure(d, p, &d->sched.config)) < 0) {
		rbt_why_set(why, r, "the scheduler refuses it: %s", strerror(-r));
	}
	if (r < 0 && old != NULL) {
		(void)policy_call_plain(old, RBT_HOOK_INIT);
	}
	return r;
}

int policy_install(struct daemon *d, struct policy *p, struct rbt_why *why)
{
	struct policy *old = d->policy.current;

	p->number = d->policy.n_loads + 1;
	int r = replace(d, policy_is_loaded(d) ? old : NULL, p, why);
	if (r < 0) {
		rbt_warn("policy %s is refused: %s", p->label, why->text);
		policy_destroy(p);
		policy_arm(d);
		return r;
	}
	d->policy.n_loads++;
	p->loaded_ns = rbt_now_ns();
	p->engine_used = rbt_engine_kind(p->engine);
	d->policy.current = p;
	d->policy.is_unwanted = d->policy.is_own_due = false;
	forget_refusals(d);
	events_set_policy(d, &p->reader);
	policy_destroy(old);
	keep_or_not(d, p);
	policy_arm(d);
	rbt_warn("policy %s (%s) is loaded, engine %s", p->name, p->label,
		rbt_engine_kind_name(p->engine_used));
	return 0;
}

/* The base is in force alone. The policy stays as the current one. */
static void remove_from_force(struct daemon *d)
{
	struct policy *p = d->policy.current;

	if (p->engine != NULL) {
		(void)configure(d, NULL, &d->sched.config);
		events_set_policy(d, NULL);
		say_goodbye(p);
		rbt_engine_close(p->engine);
		p->engine = NULL;
		forget_refusals(d);
	}
	policy_arm(d);
}

static void eject(struct daemon *d)
{
	struct policy *p = d->policy.current;

	d->policy.n_ejections++;
	remove_from_force(d);
	keep_remove(d);
	rbt_warn("policy %s is ejected: %s", p->name, p->reason);
}

static void unload(struct daemon *d)
{
	struct policy *p = d->policy.current;
	bool was_loaded = p->engine != NULL;

	remove_from_force(d);
	keep_remove(d);
	d->policy.current = NULL;
	d->policy.is_unwanted = false;
	if (was_loaded) {
		rbt_warn("policy %s is unloaded", p->name);
	}
	policy_destroy(p);
}

static void take_config(struct daemon *d, const struct config *config)
{
	d->policy.configured = config->sched.policy;
	snprintf(d->policy.file, sizeof(d->policy.file), "%s", config->policy_file);
}

void policy_start(struct daemon *d, const struct config *config)
{
	take_config(d, config);
	policy_load_own(d);
}

int policy_configure(struct daemon *d, const struct config *config)
{
	struct policy *p = policy_is_loaded(d) ? d->policy.current : NULL;
	const struct rbt_sched_policy *before = d->policy.configured;

	d->policy.configured = config->sched.policy;
	int r = configure(d, p, &config->sched);
	if (r < 0) {
		d->policy.configured = before;
		return r;
	}
	take_config(d, config);
	if (d->policy.loading != NULL && d->policy.loading->candidate->origin == POLICY_BY_CONFIG) {
		loading_cancel(d, -ECANCELED, "the configuration has changed");
	}
	if (p != NULL && p->origin == POLICY_BY_USER) {
		return 0;
	}
	if (p != NULL && d->policy.file[0] == '\0') {
		unload(d);
	}
	policy_load_file(d);
	return 0;
}

void policy_stop(struct daemon *d)
{
	loading_cancel(d, -ECANCELED, "rubatod ends");
	if (d->policy.current != NULL) {
		remove_from_force(d);
		policy_destroy(d->policy.current);
		d->policy.current = NULL;
	}
	policy_arm(d);
	lines_finish(&d->policy.lines);
}

/* Whether the loaded policy, or the one that is being loaded, is the wanted one. A request
 * for the background then takes it out of the foreground. */
static bool join(struct daemon *d, const struct policy_request *request)
{
	struct policy *p = d->policy.loading != NULL ? d->policy.loading->candidate
			   : policy_is_loaded(d)     ? d->policy.current
						     : NULL;

	if (p == NULL || p->is_condemned || !policy_is_same(p, request)) {
		return false;
	}
	if ((request->load.flags & RBT_POLICY_FOREGROUND) == 0 &&
		(p->flags & RBT_POLICY_FOREGROUND) != 0) {
		p->flags &= ~RBT_POLICY_FOREGROUND;
		if (p->engine != NULL) {
			keep_or_not(d, p);
		}
	}
	if (p == d->policy.current) {
		d->policy.is_unwanted = false;
	}
	return true;
}

/* A user's load goes before that of the configuration's or of the last daemon's policy. If it
 * fails, that one is loaded after all. */
static void give_way(struct daemon *d, const struct policy_request *request, bool joins)
{
	const struct policy *p = d->policy.loading != NULL ? d->policy.loading->candidate : NULL;

	if (p != NULL && request->peer != NULL &&
		(p->origin == POLICY_BY_CONFIG || (p->is_kept && !joins))) {
		d->policy.is_own_due = true;
		loading_cancel(d, -ECANCELED, "another one is loaded instead");
	}
}

int policy_load(struct daemon *d, const struct policy_request *request, struct rbt_why *why)
{
	const bool joins = (request->load.flags & RBT_POLICY_JOIN) != 0;
	int r = 0;

	if (joins && join(d, request)) {
		if (request->peer != NULL) {
			request->peer->policy_waits = true;
		}
		if (d->policy.loading == NULL) {
			policy_answer_all(d, 0, "", NULL);
		}
		return 0;
	}
	give_way(d, request, joins);
	if (d->policy.loading != NULL && request->peer == NULL) {
		d->policy.is_own_due = true;
		return 0; /* a user's load goes first */
	}
	if (d->policy.loading != NULL) {
		r = rbt_why_set(why, -EBUSY, "another policy is being loaded; try again");
	} else if (joins && policy_is_loaded(d)) {
		r = rbt_why_set(why, -EBUSY,
			"another policy is loaded, or this one with other options: %s",
			d->policy.current->name);
	} else {
		r = loading_start(d, request, why);
	}
	if (r == 0 && request->peer != NULL) {
		request->peer->policy_waits = true;
	}
	return r;
}

int policy_unload(struct daemon *d)
{
	const bool is_loading = d->policy.loading != NULL, is_own_due = d->policy.is_own_due;

	d->policy.is_own_due = false;
	if (is_loading) {
		loading_cancel(d, -ECANCELED, "it was unloaded meanwhile");
		keep_remove(d); /* it may be the last daemon's */
	}
	if (d->policy.current == NULL && !is_loading) {
		return -ENOENT;
	}
	const bool was_users = d->policy.current != NULL
				       ? d->policy.current->origin == POLICY_BY_USER
				       : is_own_due;
	if (d->policy.current != NULL) {
		unload(d);
	}
	/* What a user has loaded was in the place of the configuration's policy. */
	if (was_users) {
		policy_load_file(d);
	}
	return 0;
}

void policy_forget_peer(struct daemon *d, struct peer *peer)
{
	const struct policy *p = d->policy.current;
	const struct peer *other;
	bool is_held = false, is_awaited = false;

	if (!peer->policy_waits && peer->policy_load == 0) {
		return;
	}
	LIST_FOREACH (other, &d->server.peers, entries) {
		is_awaited = is_awaited || (other != peer && other->policy_waits);
		is_held = is_held || (other != peer && other->policy_load == peer->policy_load);
	}
	if (peer->policy_waits && !is_awaited && d->policy.loading != NULL &&
		(d->policy.loading->candidate->flags & RBT_POLICY_FOREGROUND) != 0) {
		peer->policy_waits = false;
		loading_cancel(d, -ECANCELED, "");
	}
	if (p != NULL && peer->policy_load == p->number && !is_held &&
		(p->flags & RBT_POLICY_FOREGROUND) != 0) {
		d->policy.is_unwanted = true;
	}
}

bool policy_run(struct daemon *d)
{
	struct policy *p = d->policy.current;

	if (p != NULL && p->engine != NULL && p->is_condemned) {
		eject(d);
		return true;
	}
	/* A load that is under way is somebody else's. It replaces this policy, or fails; then this
	 * policy is unloaded. */
	if (d->policy.is_unwanted && d->policy.loading == NULL) {
		d->policy.is_unwanted = false;
		(void)policy_unload(d);
		return true;
	}
	if (d->policy.is_own_due && d->policy.loading == NULL) {
		d->policy.is_own_due = false;
		policy_load_own(d);
	}
	return false;
}

void policy_fill(const struct daemon *d, struct rbt_msg_policy *ret)
{
	const struct policy *p = d->policy.current;
	const char *why_not = rbt_engine_why_not(RBT_ENGINE_KERNEL);

	*ret = (struct rbt_msg_policy){
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_POLICY},
		.state = RBT_POLICY_NONE,
		.engine = why_not == NULL ? RBT_POLICY_KERNEL : RBT_POLICY_VM,
		.n_loads = d->policy.n_loads,
		.timeout_ms = POLICY_TIMEOUT_MS,
	};
	snprintf(ret->base, sizeof(ret->base), "%s", base_of(d, p)->name);
	snprintf(ret->other, sizeof(ret->other), "%s", why_not != NULL ? why_not : "");
	if (p == NULL) {
		return;
	}
	ret->state = p->engine != NULL ? RBT_POLICY_LOADED : RBT_POLICY_EJECTED;
	ret->engine = p->engine_used == RBT_ENGINE_KERNEL ? RBT_POLICY_KERNEL : RBT_POLICY_VM;
	ret->flags = p->flags;
	ret->timeout_ms = (uint32_t)(p->timeout_ns / RBT_NS_PER_MS);
	ret->n_overruled = p->n_overruled;
	ret->loaded_ns = p->loaded_ns;
	snprintf(ret->name, sizeof(ret->name), "%s", p->name);
	snprintf(ret->label, sizeof(ret->label), "%s", p->label);
	snprintf(ret->reason, sizeof(ret->reason), "%s", p->reason);
	snprintf(ret->other, sizeof(ret->other), "%s", p->other);
	memcpy(ret->hooks, p->stats, sizeof(ret->hooks));
}
