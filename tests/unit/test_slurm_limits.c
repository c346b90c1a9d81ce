/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of Slurm's plugin: what is taken, what is refused, and what a job gets. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "limits.h"

static struct slurm_rules rules;

static void take(const char *const *args)
{
	char why[SLURM_WHY_MAX];

	memset(&rules, 0, sizeof(rules));
	for (; *args != NULL; args++) {
		CHECK_INT(slurm_rules_add(&rules, *args, why), 0);
	}
}

/* What a job gets in this partition, as text; "!" before it: something was lowered. */
static const char *job(const char *partition, const char *cls, const char *memory)
{
	struct rbt_treatment asked = RBT_TREATMENT_INIT, t;
	static char text[RBT_TREAT_TEXT_MAX + 1];
	char why[RBT_TREAT_WHY_MAX];

	CHECK_INT(cls == NULL ? 0 : rbt_treatment_set(&asked, RBT_TREAT_CLASS, cls, why), 0);
	CHECK_INT(memory == NULL ? 0 : rbt_treatment_set(&asked, RBT_TREAT_MEMORY, memory, why), 0);
	text[0] = '!';
	uint32_t lowered = slurm_rules_apply(&rules, partition, &asked, &t);
	rbt_treatment_print(&t, text + 1, sizeof(text) - 1);
	return lowered != 0 ? text : text + 1;
}

#define CHECK_TEXT(actual, expected)                                                               \
	do {                                                                                       \
		const char *actual_ = (actual);                                                    \
		CHECK(strcmp(actual_, expected) == 0);                                             \
		if (strcmp(actual_, expected) != 0) {                                              \
			fprintf(stderr, "'%s', not '%s'\n", actual_, expected);                    \
		}                                                                                  \
	} while (0)

static void test_nothing_is_said(void)
{
	take((const char *const[]){NULL});
	CHECK_TEXT(job("", NULL, NULL), "");
	CHECK_TEXT(job("any", "latency", "2G"), "priority=13,memory=2G");
}

static void test_defaults(void)
{
	take((const char *const[]){
		"memory=4G", "batch:class=best-effort", "batch:memory=1G", NULL});
	CHECK_TEXT(job("", NULL, NULL), "memory=4G");
	CHECK_TEXT(job("other", "normal", NULL), "priority=8,memory=4G");
	CHECK_TEXT(job("batch", NULL, NULL), "priority=2,memory=1G");
	CHECK_TEXT(job("batch", "latency", "8G"), "priority=13,memory=8G");
}

static void test_limits(void)
{
	take((const char *const[]){"max-class=normal", "max-memory=4G", "fast:max-class=latency",
		"batch:max-class=best-effort", NULL});
	CHECK_TEXT(job("", NULL, NULL), "memory=4G");
	CHECK_TEXT(job("", "latency", NULL), "!priority=8,memory=4G");
	CHECK_TEXT(job("fast", "latency", "1G"), "priority=13,memory=1G");
	CHECK_TEXT(job("fast", "best-effort", "5G"), "!priority=2,memory=4G");
	/* No limit at all is more than a limit. */
	CHECK_TEXT(job("fast", "normal", "default"), "!priority=8,memory=4G");
	/* A job that says nothing counts as normal. */
	CHECK_TEXT(job("batch", NULL, NULL), "priority=2,memory=4G");
	CHECK_TEXT(job("batch", "normal", NULL), "!priority=2,memory=4G");
}

static void test_the_last_one_counts(void)
{
	take((const char *const[]){"a:class=latency", "class=normal", "a:class=best-effort",
		"rubato=/a", "rubato=/b", NULL});
	CHECK_TEXT(job("a", NULL, NULL), "priority=2");
	CHECK(strcmp(rules.rubato, "/b") == 0);
}

static void test_wrong_arguments(void)
{
	static const char *const wrong[] = {"", "=", ":", ":=", "class", "class=", "class=best",
		"max-class=13", "memory=20X", "memory=0", ":class=normal", "a:b:class=normal",
		"a:", "a:priority=3", "rubato=relative", "rubato=",
		"a-partition-with-a-name-that-is-longer-than-any-that-slurm-would-take:class=normal"};
	char why[SLURM_WHY_MAX];

	memset(&rules, 0, sizeof(rules));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		why[0] = '\0';
		CHECK(slurm_rules_add(&rules, wrong[i], why) < 0);
		CHECK(strlen(why) > 10);
	}
	CHECK_INT(rules.n, 0);
	for (int i = 0; i < SLURM_RULES_MAX; i++) {
		CHECK_INT(slurm_rules_add(&rules, "class=normal", why), 0);
	}
	CHECK(slurm_rules_add(&rules, "class=normal", why) < 0);
}

int main(void)
{
	test_nothing_is_said();
	test_defaults();
	test_limits();
	test_the_last_one_counts();
	test_wrong_arguments();
	return check_result();
}
