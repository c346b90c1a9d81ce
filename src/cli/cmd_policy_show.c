/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato policy show`, `stats` and `log`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd_policy.h"
#include "policy/hook.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

#define FOLLOW_MS 100

/* Asks the daemon; without one, nothing is loaded. An exit code, with the error printed. */
static int ask(const char *what, struct rbt_msg_policy *ret)
{
	int sock = policy_connect();
	int r = sock < 0 ? sock : policy_ask(sock, ret);

	rbt_close(&sock);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		policy_ask_nobody(ret);
		return EXIT_OK;
	}
	return r < 0 ? policy_failed(&cmd_policy, what, r, NULL) : EXIT_OK;
}

static void json_show(const struct rbt_msg_policy *p)
{
	struct rbt_json j;

	rbt_json_init(&j, stdout);
	rbt_json_object(&j, NULL);
	rbt_json_string(&j, "state", rbt_policy_state_name(p->state));
	rbt_json_string(&j, "name", p->name);
	rbt_json_string(&j, "file", p->label);
	rbt_json_string(&j, "engine", rbt_policy_engine_name(p->engine));
	rbt_json_string(&j, "why_not_other", p->other);
	rbt_json_string(&j, "base", p->base);
	rbt_json_string(&j, "reason", p->reason);
	rbt_json_u64(&j, "overruled", p->n_overruled);
	rbt_json_u64(&j, "timeout_ms", p->timeout_ms);
	rbt_json_u64(&j, "loads", p->n_loads);
	rbt_json_bool(&j, "foreground", (p->flags & RBT_POLICY_FOREGROUND) != 0);
	rbt_json_array(&j, "hooks");
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		if (p->hooks[hook].is_present != 0) {
			rbt_json_string(&j, NULL, rbt_hook_name(hook));
		}
	}
	rbt_json_end(&j, ']');
	rbt_json_end(&j, '}');
}

static void print_engine(const struct rbt_msg_policy *p)
{
	const uint32_t other = p->engine == RBT_POLICY_VM ? RBT_POLICY_KERNEL : RBT_POLICY_VM;

	printf("engine     %s", rbt_policy_engine_name(p->engine));
	if (p->other[0] != '\0') {
		printf("; not %s: %s", rbt_policy_engine_name(other), p->other);
	}
	putchar('\n');
}

static void print_show(const struct rbt_msg_policy *p)
{
	if (p->state == RBT_POLICY_NONE) {
		printf("state      none: the built-in policy decides alone\n");
		print_engine(p);
		return;
	}
	printf("state      %s%s\n", rbt_policy_state_name(p->state),
		(p->flags & RBT_POLICY_FOREGROUND) != 0 ? ", in the foreground" : "");
	if (p->reason[0] != '\0') {
		printf("reason     %s\n", p->reason);
	}
	printf("name       %s\n", p->name);
	printf("file       %s\n", p->label);
	printf("base       %s\n", p->base);
	print_engine(p);
	printf("timeout    %u ms\n", p->timeout_ms);
	printf("overruled  %u\n", p->n_overruled);
	printf("hooks     ");
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		if (p->hooks[hook].is_present != 0) {
			printf(" %s", rbt_hook_name(hook));
		}
	}
	putchar('\n');
}

int policy_show(const struct policy_args *a)
{
	struct rbt_msg_policy p;
	int code = ask("show", &p);

	if (code == EXIT_OK && a->json) {
		json_show(&p);
	} else if (code == EXIT_OK) {
		print_show(&p);
	}
	return code;
}

/* The mean time of a call. */
static uint64_t mean_ns(const struct rbt_policy_hook *h)
{
	return h->n_calls > 0 ? h->ns / h->n_calls : 0;
}

static void json_stats(const struct rbt_msg_policy *p, bool one_line)
{
	struct rbt_json j;

	rbt_json_init(&j, stdout);
	j.one_line = one_line;
	rbt_json_object(&j, NULL);
	rbt_json_string(&j, "state", rbt_policy_state_name(p->state));
	rbt_json_string(&j, "name", p->name);
	rbt_json_object(&j, "hooks");
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		const struct rbt_policy_hook *h = &p->hooks[hook];
		if (h->is_present == 0) {
			continue;
		}
		rbt_json_object(&j, rbt_hook_name(hook));
		rbt_json_u64(&j, "calls", h->n_calls);
		rbt_json_u64(&j, "errors", h->n_errors);
		rbt_json_u64(&j, "late", h->n_late);
		rbt_json_u64(&j, "ns", mean_ns(h));
		rbt_json_u64(&j, "total_ns", h->ns);
		rbt_json_u64(&j, "max_ns", h->max_ns);
		rbt_json_end(&j, '}');
	}
	rbt_json_end(&j, '}');
	rbt_json_end(&j, '}');
}

static void print_stats(const struct rbt_msg_policy *p)
{
	if (p->state == RBT_POLICY_NONE) {
		printf("no policy is loaded\n");
		return;
	}
	printf("%-13s %12s %8s %8s %8s %10s\n", "HOOK", "CALLS", "ERRORS", "LATE", "NS", "MAX NS");
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		const struct rbt_policy_hook *h = &p->hooks[hook];
		if (h->is_present != 0) {
			printf("%-13s %12" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64
			       " %10" PRIu64 "\n",
				rbt_hook_name(hook), h->n_calls, h->n_errors, h->n_late, mean_ns(h),
				h->max_ns);
		}
	}
}

/* What has happened since `before`. The longest call is of the whole time. */
static struct rbt_msg_policy difference(
	const struct rbt_msg_policy *now, const struct rbt_msg_policy *before)
{
	struct rbt_msg_policy d = *now;

	for (int i = 0; now->n_loads == before->n_loads && i < RBT_POLICY_N_HOOKS; i++) {
		d.hooks[i].n_calls -= before->hooks[i].n_calls;
		d.hooks[i].n_errors -= before->hooks[i].n_errors;
		d.hooks[i].n_late -= before->hooks[i].n_late;
		d.hooks[i].ns -= before->hooks[i].ns;
	}
	return d;
}

int policy_stats(const struct policy_args *a)
{
	struct rbt_msg_policy now, before = {0};
	int code;

	policy_catch_signals();
	while ((code = ask("stats", &now)) == EXIT_OK) {
		struct rbt_msg_policy shown = difference(&now, &before);
		if (a->json) {
			json_stats(&shown, a->interval_ms != 0);
		} else {
			print_stats(&shown);
		}
		before = now;
		if (a->interval_ms == 0 || fflush(stdout) != 0) {
			break;
		}
		policy_pause(a->interval_ms);
		if (policy_stop) {
			break;
		}
	}
	return code;
}

/* Prints lines from *number on. 0 when there are no more, or -errno. */
static int print_lines(int sock, uint64_t *number, struct rbt_json *json)
{
	struct rbt_msg_policy_line line;
	int r;

	while ((r = policy_next_line(sock, *number, &line)) == 1) {
		if (line.number > *number && *number > 1) {
			rbt_warn("policy: %llu lines of the log are lost",
				(unsigned long long)(line.number - *number));
		}
		*number = line.number + 1;
		policy_print_line(&line, json);
	}
	return r;
}

int policy_log(const struct policy_args *a)
{
	struct rbt_json json;
	uint64_t number = 1;
	int sock = policy_connect();
	int r = sock < 0 ? sock : print_lines(sock, &number, a->json ? &json : NULL);

	policy_catch_signals();
	while (r == 0 && a->is_follow && !policy_stop && fflush(stdout) == 0) {
		policy_pause(FOLLOW_MS);
		r = print_lines(sock, &number, a->json ? &json : NULL);
	}
	rbt_close(&sock);
	if (r < 0 && policy_stop) {
		return EXIT_OK;
	}
	if (r == -EPERM) {
		rbt_error("policy: log: only root, rubatod's own user and members of its group may "
			  "read it");
		return EXIT_NO_PERMISSION;
	}
	return r < 0 ? policy_failed(&cmd_policy, "log", r, NULL) : EXIT_OK;
}
