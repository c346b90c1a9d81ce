/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/loading.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/daemon.h"
#include "daemon/peers/porter.h"
#include "daemon/policy/keep.h"
#include "util/log.h"
#include "util/owner.h"

void policy_destroy(struct policy *p)
{
	if (p != NULL) {
		rbt_engine_close(p->engine);
		rbt_object_close(p->object);
		free(p->settings);
		free(p);
	}
}

/* Puts the settings one behind the other. 0 or -ENOMEM. */
static int pack_settings(struct policy *p, const struct rbt_policy_load *load)
{
	size_t size = 0;

	for (size_t i = 0; i < load->n_settings; i++) {
		size += strlen(load->settings[i]) + 1;
	}
	p->settings = malloc(size + 1);
	if (p->settings == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < load->n_settings; i++) {
		size_t n = strlen(load->settings[i]) + 1;

		memcpy(p->settings + p->settings_size, load->settings[i], n);
		p->settings_size += n;
	}
	return 0;
}

/* Whether the policy has the engine that was asked for, or will have it. */
static bool is_of_engine(const struct policy *p, enum rbt_policy_engine engine)
{
	if (engine == RBT_POLICY_AUTO || engine == p->engine_asked) {
		return true;
	}
	return p->engine != NULL &&
	       engine == (p->engine_used == RBT_ENGINE_KERNEL ? RBT_POLICY_KERNEL : RBT_POLICY_VM);
}

bool policy_is_same(const struct policy *p, const struct policy_request *request)
{
	size_t at = 0;

	if (!is_of_engine(p, request->load.engine) || p->object->size != request->size ||
		memcmp(p->object->file, request->bytes, request->size) != 0) {
		return false;
	}
	for (size_t i = 0; i < request->load.n_settings; i++) {
		const char *setting = request->load.settings[i];

		if (at == p->settings_size || strcmp(p->settings + at, setting) != 0) {
			return false;
		}
		at += strlen(setting) + 1;
	}
	return at == p->settings_size;
}

/* Names are shown to people, and come from a file that is not trusted. */
static void copy_name(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
	for (char *c = to; *c != '\0'; c++) {
		*c = *c >= ' ' && *c <= '~' ? *c : '?';
	}
}

static int prepare(struct policy *p, const struct policy_request *request, struct rbt_why *why)
{
	const struct rbt_policy_load *load = &request->load;
	int r = rbt_object_open(request->bytes, request->size, &p->object, why);

	for (size_t i = 0; r == 0 && i < load->n_settings; i++) {
		r = rbt_object_set(p->object, load->settings[i], why);
	}
	if (r < 0) {
		return r;
	}
	const char *base = p->object->ops.base;
	if (base[0] != '\0' && rbt_sched_policy_find(base) == NULL) {
		return rbt_why_set(why, -EINVAL, "its base is no built-in policy: %s", base);
	}
	copy_name(p->label, sizeof(p->label), load->label);
	copy_name(p->name, sizeof(p->name),
		p->object->ops.name[0] != '\0' ? p->object->ops.name : "unnamed");
	p->origin = request->origin;
	p->is_kept = request->is_kept;
	p->flags = load->flags & RBT_POLICY_FOREGROUND;
	p->engine_asked = load->engine;
	policy_call_init(p);
	return pack_settings(p, load) == 0 ? 0 : rbt_why_set(why, -ENOMEM, "out of memory");
}

static void on_loaded(struct daemon *d, struct source *s, uint32_t events);

/* Starts the process for an engine. */
static int start_engine(
	struct daemon *d, struct policy_loading *l, enum rbt_engine_kind kind, struct rbt_why *why)
{
	struct rbt_engine *old = d->policy.current != NULL ? d->policy.current->engine : NULL;
	int r = rbt_engine_load_start(kind, l->candidate->object, old, &l->load, why);

	if (r < 0) {
		return r;
	}
	l->kind = kind;
	l->source = (struct source){.fd = rbt_engine_load_fd(l->load), .ready = on_loaded};
	r = watch(d, &l->source);
	return r < 0 ? rbt_why_set(why, r, "its loading cannot be watched: %s", strerror(-r)) : 0;
}

/* Ends the process, if there is one. */
static void end_engine(struct daemon *d, struct policy_loading *l)
{
	if (l->load != NULL) {
		/* The file is the load's. */
		epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, l->source.fd, NULL);
		pid_t lost = rbt_engine_load_end(l->load);
		if (lost != 0) {
			porter_lose(d, lost);
		}
		l->load = NULL;
	}
}

static void destroy(struct daemon *d, struct policy_loading *l)
{
	end_engine(d, l);
	policy_destroy(l->candidate);
	free(l);
}

/* The engine to begin with, and why it is not the other one. */
static enum rbt_engine_kind choose(struct policy *p)
{
	const char *why_not = rbt_engine_why_not(RBT_ENGINE_KERNEL);

	if (p->engine_asked == RBT_POLICY_VM) {
		snprintf(p->other, sizeof(p->other), "the vm was asked for");
		return RBT_ENGINE_VM;
	}
	if (p->engine_asked == RBT_POLICY_KERNEL || why_not == NULL) {
		snprintf(p->other, sizeof(p->other), "%s",
			p->engine_asked == RBT_POLICY_KERNEL ? "the kernel was asked for"
							     : "the kernel verifies the policy");
		return RBT_ENGINE_KERNEL;
	}
	snprintf(p->other, sizeof(p->other), "%s", why_not);
	return RBT_ENGINE_VM;
}

int loading_start(struct daemon *d, const struct policy_request *request, struct rbt_why *why)
{
	struct policy_loading *l = calloc(1, sizeof(*l));

	if (l == NULL || (l->candidate = calloc(1, sizeof(*l->candidate))) == NULL) {
		free(l);
		return rbt_why_set(why, -ENOMEM, "out of memory");
	}
	l->candidate->daemon = d;
	int r = prepare(l->candidate, request, why);
	r = r == 0 ? start_engine(d, l, choose(l->candidate), why) : r;
	if (r < 0) {
		destroy(d, l);
		return r;
	}
	d->policy.loading = l;
	policy_arm(d);
	return 0;
}

/* The policy is refused. What was in force stays in force. */
static void fail(struct daemon *d, int error, const char *why, const char *log)
{
	struct policy_loading *l = d->policy.loading;

	const bool was_kept = l->candidate->is_kept;

	rbt_warn("policy %s is refused: %s", l->candidate->label, why);
	d->policy.loading = NULL;
	destroy(d, l);
	policy_arm(d);
	policy_answer_all(d, error, why, log);
	if (was_kept) {
		keep_remove(d);
		policy_load_file(d);
	}
}

/* The kernel does not let this daemon load policies, although bpf(2) works: the vm runs them. */
static int fall_back(struct daemon *d, struct policy_loading *l, int error, struct rbt_why *why)
{
	if (error != -EPERM || l->kind != RBT_ENGINE_KERNEL ||
		l->candidate->engine_asked != RBT_POLICY_AUTO) {
		return error;
	}
	snprintf(l->candidate->other, sizeof(l->candidate->other), "%.230s", why->text);
	end_engine(d, l);
	return start_engine(d, l, RBT_ENGINE_VM, why);
}

static void on_loaded(struct daemon *d, struct source *s, uint32_t events)
{
	struct policy_loading *l = RBT_OWNER_OF(s, struct policy_loading, source);
	struct policy *p = l->candidate;
	struct rbt_engine *old = d->policy.current != NULL ? d->policy.current->engine : NULL;
	struct rbt_why why = {""};
	char *log = NULL;
	int r = rbt_engine_load_step(l->load, old, &p->engine, &why, &log);

	if (r == -EAGAIN) {
		return;
	}
	if (r < 0) {
		r = fall_back(d, l, r, &why);
		if (r < 0) {
			fail(d, r, why.text, log);
		}
		free(log);
		return;
	}
	free(log);
	l->candidate = NULL;
	d->policy.loading = NULL;
	destroy(d, l);
	r = policy_install(d, p, &why);
	/* A user who left the choice to us may want to know why it is not the better engine. */
	why.text[0] = r == 0 ? '\0' : why.text[0];
	if (r == 0 && p->engine_asked == RBT_POLICY_AUTO && p->engine_used == RBT_ENGINE_VM) {
		rbt_why_set(&why, 0, "engine vm: %.200s", p->other);
	}
	policy_answer_all(d, r, why.text, NULL);
}

void loading_tick(struct daemon *d)
{
	if (d->policy.loading != NULL) {
		on_loaded(d, &d->policy.loading->source, 0);
	}
}

void loading_cancel(struct daemon *d, int error, const char *why)
{
	struct policy_loading *l = d->policy.loading;

	if (l != NULL) {
		d->policy.loading = NULL;
		destroy(d, l);
		policy_arm(d);
		policy_answer_all(d, error, why, NULL);
	}
}
