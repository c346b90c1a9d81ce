/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato policy check`: needs no daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd_policy.h"
#include "policy/trial.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

/* The median of N_SAMPLES times of BATCH calls each. Reading the clock takes as long as some
 * instructions, so one call alone is not measured. */
#define BATCH       8
#define N_SAMPLES   301
#define MIN_SAMPLES 3
/* A slow hook is called less often. */
#define MAX_TIME_NS (200 * RBT_NS_PER_MS)
/* rubatod counts a hook as late from here on. */
#define LATE_NS RBT_NS_PER_MS

struct check {
	const struct policy_args *args;
	struct rbt_object *o;
	bool is_usable[RBT_N_ENGINES];
	const char *why_not[RBT_N_ENGINES]; /* NULL: usable, or not asked for */
	uint64_t ns[RBT_N_ENGINES][RBT_N_HOOKS];
};

static bool is_wanted(const struct policy_args *a, enum rbt_engine_kind kind)
{
	return a->choice.engine == RBT_POLICY_AUTO ||
	       a->choice.engine == (kind == RBT_ENGINE_KERNEL ? RBT_POLICY_KERNEL : RBT_POLICY_VM);
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The median time of a hook. Its task stays the same, so that maps do not fill up. */
static int measure(
	struct rbt_engine *e, enum rbt_hook hook, uint64_t *ret_ns, struct rbt_fault *fault)
{
	uint64_t samples[N_SAMPLES], begin_ns = rbt_now_ns();
	union rbt_any_ctx fresh, ctx;
	size_t n = 0;
	int r = 0;

	rbt_trial_fill(hook, &fresh);
	while (n < N_SAMPLES && (n < MIN_SAMPLES || rbt_now_ns() - begin_ns < MAX_TIME_NS)) {
		uint64_t start_ns = rbt_now_ns();
		for (int i = 0; r == 0 && i < BATCH; i++) {
			ctx = fresh;
			r = rbt_engine_run(e, hook, &ctx, fault);
		}
		if (r < 0) {
			return r;
		}
		samples[n++] = (rbt_now_ns() - start_ns) / BATCH;
	}
	qsort(samples, n, sizeof(samples[0]), compare);
	*ret_ns = samples[n / 2];
	return 0;
}

static int failed(const struct check *c, enum rbt_engine_kind kind, const char *text)
{
	const char *name = rbt_engine_kind_name(kind);
	const size_t len = strlen(name);

	/* The loader's lines begin with the engine's name already. */
	text += strncmp(text, name, len) == 0 && strncmp(text + len, ": ", 2) == 0 ? len + 2 : 0;
	rbt_error("policy: %s: %s: %s", c->args->choice.file, name, text);
	return EXIT_FAILED;
}

static int measure_hooks(struct check *c, enum rbt_engine_kind kind, struct rbt_engine *e)
{
	for (size_t i = 0; i < RBT_N_HOOKS; i++) {
		const enum rbt_hook hook = rbt_trial_order[i];
		struct rbt_fault fault = {0};
		char text[200];
		if (!rbt_engine_has_hook(e, hook)) {
			continue;
		}
		if (measure(e, hook, &c->ns[kind][hook], &fault) < 0) {
			rbt_fault_format(&fault, text, sizeof(text));
			return failed(c, kind, text);
		}
		if (c->ns[kind][hook] > LATE_NS) {
			rbt_warn("policy: %s: %s: hook %s takes %llu us; a hook is late "
				 "after 1000 us, and rubatod ejects a policy whose hooks are late",
				c->args->choice.file, rbt_engine_kind_name(kind),
				rbt_hook_name(hook), (unsigned long long)c->ns[kind][hook] / 1000);
		}
	}
	return EXIT_OK;
}

static int check_engine(struct check *c, enum rbt_engine_kind kind)
{
	struct rbt_engine *e = NULL;
	struct rbt_why why = {""};
	char *log = NULL;
	int code;

	c->why_not[kind] = rbt_engine_why_not(kind);
	if (c->why_not[kind] != NULL) {
		return EXIT_OK;
	}
	if (rbt_engine_open(kind, c->o, NULL, &e, &why, &log) < 0) {
		code = failed(c, kind, why.text);
		policy_print_log(log);
	} else {
		code = rbt_trial_run(e, &why) < 0 ? failed(c, kind, why.text)
						  : measure_hooks(c, kind, e);
	}
	c->is_usable[kind] = code == EXIT_OK;
	free(log);
	rbt_engine_close(e);
	return code;
}

/* The engine that a daemon with our rights would use. */
static enum rbt_engine_kind chosen(const struct check *c)
{
	return c->is_usable[RBT_ENGINE_KERNEL] ? RBT_ENGINE_KERNEL : RBT_ENGINE_VM;
}

static const char *section_of(const struct rbt_object *o, enum rbt_hook hook)
{
	return o->functions[o->hooks[hook]].section_name;
}

static void print_json_hook(struct rbt_json *j, const struct check *c, enum rbt_hook hook)
{
	char key[16];

	rbt_json_object(j, rbt_hook_name(hook));
	rbt_json_string(j, "section", section_of(c->o, hook));
	rbt_json_u64(j, "instructions", c->o->functions[c->o->hooks[hook]].n);
	rbt_json_u64(j, "ns", c->ns[chosen(c)][hook]);
	for (enum rbt_engine_kind k = 0; k < RBT_N_ENGINES; k++) {
		if (c->is_usable[k]) {
			snprintf(key, sizeof(key), "ns_%s", rbt_engine_kind_name(k));
			rbt_json_u64(j, key, c->ns[k][hook]);
		}
	}
	rbt_json_end(j, '}');
}

static void print_json(const struct check *c)
{
	struct rbt_json j;

	rbt_json_init(&j, stdout);
	rbt_json_object(&j, NULL);
	rbt_json_string(&j, "file", c->args->choice.file);
	rbt_json_string(&j, "name", c->o->ops.name);
	rbt_json_string(&j, "base", c->o->ops.base);
	rbt_json_u64(&j, "timeout_ms", c->o->ops.timeout_ms);
	rbt_json_string(&j, "engine", rbt_engine_kind_name(chosen(c)));
	rbt_json_object(&j, "why_not");
	for (enum rbt_engine_kind k = 0; k < RBT_N_ENGINES; k++) {
		if (c->why_not[k] != NULL) {
			rbt_json_string(&j, rbt_engine_kind_name(k), c->why_not[k]);
		}
	}
	rbt_json_end(&j, '}');
	rbt_json_object(&j, "hooks");
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		if (c->o->hooks[hook] >= 0) {
			print_json_hook(&j, c, hook);
		}
	}
	rbt_json_end(&j, '}');
	rbt_json_end(&j, '}');
}

static void print_table(const struct check *c)
{
	printf("%-13s %-24s", "HOOK", "SECTION");
	for (enum rbt_engine_kind k = 0; k < RBT_N_ENGINES; k++) {
		if (c->is_usable[k]) {
			printf(" %6s NS", k == RBT_ENGINE_KERNEL ? "KERNEL" : "VM");
		}
	}
	putchar('\n');
	for (enum rbt_hook hook = 0; hook < RBT_N_HOOKS; hook++) {
		if (c->o->hooks[hook] < 0) {
			continue;
		}
		printf("%-13s %-24s", rbt_hook_name(hook), section_of(c->o, hook));
		for (enum rbt_engine_kind k = 0; k < RBT_N_ENGINES; k++) {
			if (c->is_usable[k]) {
				printf(" %9llu", (unsigned long long)c->ns[k][hook]);
			}
		}
		putchar('\n');
	}
	for (enum rbt_engine_kind k = 0; k < RBT_N_ENGINES; k++) {
		if (c->why_not[k] != NULL) {
			printf("engine %s: not tried: %s\n", rbt_engine_kind_name(k),
				c->why_not[k]);
		}
	}
}

static int check_engines(struct check *c)
{
	int code = EXIT_OK;

	for (enum rbt_engine_kind k = 0; code == EXIT_OK && k < RBT_N_ENGINES; k++) {
		code = is_wanted(c->args, k) ? check_engine(c, k) : EXIT_OK;
	}
	if (code == EXIT_OK && c->args->choice.engine == RBT_POLICY_KERNEL &&
		c->why_not[RBT_ENGINE_KERNEL] != NULL) {
		failed(c, RBT_ENGINE_KERNEL, c->why_not[RBT_ENGINE_KERNEL]);
		return EXIT_NO_PERMISSION;
	}
	return code;
}

int policy_check(const struct policy_args *a)
{
	struct check c = {.args = a};
	int code = policy_open(&cmd_policy, &a->choice, &c.o);

	if (code != EXIT_OK) {
		return code;
	}
	code = check_engines(&c);
	if (code == EXIT_OK && a->json) {
		print_json(&c);
	} else if (code == EXIT_OK) {
		print_table(&c);
	}
	rbt_object_close(c.o);
	return code;
}
