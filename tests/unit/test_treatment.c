/* SPDX-License-Identifier: Apache-2.0 */
/* Treatments: text there and back, one over another, what arrives from other versions. */
#include "proto/treatment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static char why[RBT_TREAT_WHY_MAX];

static struct rbt_treatment parse(const char *text)
{
	struct rbt_treatment t = RBT_TREATMENT_INIT;

	why[0] = '\0';
	rbt_treatment_parse(&t, text, why);
	return t;
}

static void check_text(const struct rbt_treatment *t, const char *expected)
{
	char text[RBT_TREAT_TEXT_MAX];

	CHECK_INT(rbt_treatment_print(t, text, sizeof(text)), strlen(expected));
	if (strcmp(text, expected) != 0) {
		fprintf(stderr, "%s, not %s\n", text, expected);
		CHECK(false);
	}
}

static void test_text(void)
{
	static const char all[] = "priority=3,timeslice_us=50,weight=7,max_reserve_ms=100,"
				  "min_share=2.5,group=job-1,force=1,memory=20G,park_idle_s=0.250";
	struct rbt_treatment t = parse(all);

	CHECK(why[0] == '\0');
	CHECK_INT(t.said, RBT_TREAT_ALL & ~RBT_TREAT_BIT(CLASS));
	CHECK(t.priority == 3 && t.timeslice_us == 50 && t.weight == 7 && t.force == 1);
	CHECK(t.limits.max_reserve_ms == 100 && t.limits.min_share_permille == 25);
	CHECK(strcmp(t.group, "job-1") == 0 && t.memory == UINT64_C(20) << 30);
	CHECK_INT(t.park_idle_ms, 250);
	check_text(&t, all);
	t = parse("");
	CHECK(t.said == 0 && t.priority == RBT_PRIORITY_NORMAL && t.weight == 1);
	check_text(&t, "");
	/* As options are spelt; and none of a kind is said, too. */
	t = parse("class=best-effort,,max-reserve-ms=default,min-share=0,group=none,");
	CHECK(why[0] == '\0' && t.priority == 2 && t.group[0] == '\0');
	CHECK_INT(t.limits.min_share_permille, RBT_SHARE_NONE);
	CHECK_INT(t.reset, RBT_TREAT_BIT(MAX_RESERVE));
	check_text(&t, "class=best-effort,max_reserve_ms=default,min_share=0.0,group=none");
	rbt_treatment_settle(&t);
	check_text(&t, "priority=2,max_reserve_ms=default,min_share=0.0,group=none");
	/* Sizes are printed exactly. */
	t = parse("memory=3g,memory=1536MiB");
	check_text(&t, "memory=1536M");
	t = parse("memory=1048577");
	check_text(&t, "memory=1048577");
	t = parse("memory=3g,memory=default");
	CHECK(t.memory == 0 && t.reset == RBT_TREAT_BIT(MEMORY));
	check_text(&t, "memory=default");
	t = parse("park-idle-s=10m");
	check_text(&t, "park_idle_s=600");
	t = parse("park_idle_s=0.05");
	CHECK(t.said == 0 && strstr(why, "from 0.1 to 604800") != NULL);
	why[0] = '\0';
	/* Said again, and taken back. */
	t = parse("weight=2,weight=3,min_share=1,min_share=default");
	CHECK(t.weight == 3 && t.said == RBT_TREAT_BIT(WEIGHT) &&
		t.reset == RBT_TREAT_BIT(MIN_SHARE) && t.limits.min_share_permille == 0);
	t = parse("min_share=default,min_share=1");
	CHECK(t.reset == 0 && t.said == RBT_TREAT_BIT(MIN_SHARE));
}

static void test_no_room(void)
{
	struct rbt_treatment t = parse("weight=7,group=abc");
	char text[12];

	CHECK_INT(rbt_treatment_print(&t, text, sizeof(text)), strlen("weight=7,group=abc"));
	CHECK(strcmp(text, "weight=7,gr") == 0);
	CHECK_INT(rbt_treatment_print(&t, NULL, 0), strlen("weight=7,group=abc"));
}

/* What is wrong is left out, and the first of it named; the rest holds. */
static void test_mistakes(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"colour=red,weight=2", "no such key: colour"},
		{"weight=2,fast", "not of the form key=value: fast"},
		{"class=urgent,weight=2",
			"no such class: urgent; there are latency, normal, best-effort"},
		{"priority=16,weight=2", "priority is a whole number from 0 to 15, not 16"},
		{"timeslice_us=0,weight=2",
			"timeslice is a whole number of microseconds from 1 to 1000000, not 0"},
		{"weight=2,weight=0", "weight is a whole number from 1 to 1000, not 0"},
		{"weight=2,weight=default", "weight is a whole number from 1 to 1000, not default"},
		{"max_reserve_ms=0,weight=2",
			"max-reserve-ms is a whole number from 1 to 3600000, or default, not 0"},
		{"min_share=11,weight=2,colour=red",
			"min-share is a share from 0 to 10 %, or default, not 11"},
		{"group=a b,weight=2",
			"group is up to 63 letters, digits, dots, dashes and underscores, not a b"},
		{"force=yes,weight=2", "force is 0 or 1, not yes"},
		{"memory=20X,weight=2",
			"memory is a size from 1M to 1024T such as 20G, or default, not 20X"},
		{"memory=-5,memory=0,memory=20,weight=2",
			"memory is a size from 1M to 1024T such as 20G, or default, not -5"},
		{"weight=-1,weight=2", "weight is a whole number from 1 to 1000, not -1"},
		{"=,weight=2", "no such key: "},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rbt_treatment t = parse(cases[i].text);
		check_text(&t, "weight=2");
		if (strcmp(why, cases[i].why) != 0) {
			fprintf(stderr, "%s: %s\n", cases[i].text, why);
			CHECK(false);
		}
	}
	/* Of any length. */
	char text[4096];
	memset(text, 'x', sizeof(text));
	memcpy(text, "weight=2,group=", 15);
	text[sizeof(text) - 1] = '\0';
	struct rbt_treatment t = parse(text);
	check_text(&t, "weight=2");
	CHECK(strlen(why) > 0 && strlen(why) < sizeof(why));
}

static void test_class_and_priority(void)
{
	struct rbt_treatment t = parse("class=latency,priority=11");

	CHECK(why[0] == '\0' && t.priority == 11);
	t = parse("priority=11,class=latency");
	CHECK(why[0] == '\0' && t.priority == 11);
	t = parse("priority=9,class=latency");
	CHECK(t.priority == 9);
	CHECK(strcmp(why, "priority 9 is normal, which contradicts class latency") == 0);
	t = parse("class=best-effort,priority=12");
	CHECK(t.priority == 2);
	CHECK(strcmp(why, "priority 12 is latency, which contradicts class best-effort") == 0);
	t = parse("class=best-effort,class=latency");
	CHECK(why[0] == '\0' && t.priority == 13);
}

static void check_merged(const char *below, const char *over, const char *expected)
{
	struct rbt_treatment t = parse(below), o = parse(over);

	rbt_treatment_merge(&t, &o);
	check_text(&t, expected);
}

static void test_merge(void)
{
	check_merged("weight=2", "", "weight=2");
	check_merged("", "weight=2", "weight=2");
	check_merged("weight=2,group=a", "weight=3", "weight=3,group=a");
	check_merged("class=latency,weight=2", "class=best-effort", "priority=2,weight=2");
	check_merged("priority=12", "class=best-effort", "priority=2");
	check_merged("group=long-name", "group=a", "group=a");
	check_merged("group=a", "group=none", "group=none");
	check_merged("max_reserve_ms=5,weight=2", "max_reserve_ms=default",
		"weight=2,max_reserve_ms=default");
	check_merged("max_reserve_ms=default", "max_reserve_ms=5", "max_reserve_ms=5");

	/* What is reset has its default, and is no news to those who compare. */
	struct rbt_treatment t = parse("priority=3,timeslice_us=50,group=abc"), plain;
	struct rbt_treatment over = RBT_TREATMENT_INIT;
	over.reset = RBT_TREAT_ALL & ~RBT_TREAT_BIT(CLASS);
	rbt_treatment_merge(&t, &over);
	CHECK_INT(t.reset, over.reset);
	t.reset = 0;
	plain = RBT_TREATMENT_INIT;
	CHECK(memcmp(&t, &plain, sizeof(t)) == 0);
}

static void test_describe(void)
{
	struct rbt_treatment t = parse("priority=3,timeslice_us=50,weight=7,max_reserve_ms=default,"
				       "min_share=0,force=1");
	char text[RBT_TREAT_TEXT_MAX];

	rbt_treatment_describe(&t, RBT_TREAT_ALL & ~RBT_TREAT_BIT(PRIORITY) & ~RBT_TREAT_BIT(FORCE),
		text, sizeof(text));
	CHECK(strcmp(text,
		      ", timeslice 50 us, weight 7, default max-reserve-ms, min-share 0.0 %") == 0);
}

/* Another version's struct is shorter or longer, and says so. */
static void test_versions(void)
{
	struct {
		struct rbt_treatment t;
		uint32_t more[2];
	} newer = {.t = parse("priority=3,weight=7,group=abc"), .more = {1, 2}};
	struct rbt_treatment t;

	CHECK_INT(rbt_treatment_decode(&newer.t, sizeof(newer.t), &t), 0);
	CHECK(memcmp(&t, &newer.t, sizeof(t)) == 0);
	CHECK_INT(rbt_treatment_decode(&newer, sizeof(newer), &t), -EBADMSG); /* size lies */
	newer.t.size = sizeof(newer);
	newer.t.said |= 0xff000000u;
	CHECK_INT(rbt_treatment_decode(&newer, sizeof(newer), &t), 0);
	CHECK_INT(t.size, sizeof(t));
	check_text(&t, "priority=3,weight=7,group=abc");
	/* One that ends in the midst of a name has none. */
	const uint32_t group_end = offsetof(struct rbt_treatment, group) + sizeof(t.group);
	for (uint32_t size = offsetof(struct rbt_treatment, priority); size < group_end; size++) {
		newer.t.size = size;
		CHECK_INT(rbt_treatment_decode(&newer, size, &t), 0);
		check_text(&t, size < 16 ? "" : size < 20 ? "priority=3" : "priority=3,weight=7");
		CHECK(t.size == sizeof(t) && t.timeslice_us == 0 && t.group[0] == '\0');
	}
	/* Version 0.2.0 knew no memory limit. */
	newer.t.memory = 5;
	newer.t.said |= RBT_TREAT_BIT(MEMORY);
	newer.t.size = group_end;
	CHECK_INT(rbt_treatment_decode(&newer, group_end, &t), 0);
	check_text(&t, "priority=3,weight=7,group=abc");
	CHECK(t.memory == 0);
	newer.t.size = 8;
	CHECK_INT(rbt_treatment_decode(&newer, 8, &t), -EBADMSG);
	CHECK_INT(rbt_treatment_decode(&newer, 0, &t), -EBADMSG);
}

/* Fields without a bit in `said` are ignored. Fields with one are checked. */
static void test_decode(void)
{
	struct rbt_treatment bad = RBT_TREATMENT_INIT, t, plain = RBT_TREATMENT_INIT;

	memset((char *)&bad + offsetof(struct rbt_treatment, priority), 0xff,
		sizeof(bad) - offsetof(struct rbt_treatment, priority));
	CHECK_INT(rbt_treatment_decode(&bad, sizeof(bad), &t), 0);
	CHECK(memcmp(&t, &plain, sizeof(t)) == 0);
	for (int i = RBT_TREAT_CLASS + 1; i < RBT_TREAT_KEYS; i++) {
		bad.said = UINT32_C(1) << i;
		/* All bits of a share: none. */
		CHECK_INT(rbt_treatment_decode(&bad, sizeof(bad), &t),
			i == RBT_TREAT_MIN_SHARE ? 0 : -EINVAL);
	}
	bad = RBT_TREATMENT_INIT;
	bad.said = RBT_TREAT_BIT(CLASS) | RBT_TREAT_BIT(GROUP);
	bad.reset = UINT32_MAX;
	strcpy(bad.group, "torch:1");
	bad.group[20] = 'x'; /* behind its end */
	CHECK_INT(rbt_treatment_decode(&bad, sizeof(bad), &t), 0);
	CHECK(t.said == RBT_TREAT_BIT(GROUP) && t.group[20] == '\0');
	CHECK_INT(t.reset, RBT_TREAT_ALL & ~RBT_TREAT_BIT(CLASS) & ~RBT_TREAT_BIT(GROUP));
	bad.group[3] = '\n';
	CHECK_INT(rbt_treatment_decode(&bad, sizeof(bad), &t), -EINVAL);
}

static const char *get(void *ctx, const char *name)
{
	/* "NAME=value" each, NULL at the end. */
	for (char *const *v = ctx; *v != NULL; v++) {
		if (strncmp(*v, name, strlen(name)) == 0 && (*v)[strlen(name)] == '=') {
			return *v + strlen(name) + 1;
		}
	}
	return NULL;
}

/* NULL: none of the variables is there. */
static void check_env(const char *a, const char *b, const char *c, const char *expected)
{
	char *env[] = {(char *)a, (char *)b, (char *)c, NULL};
	struct rbt_treatment t;

	bool is_there = rbt_treatment_read_env(get, env, &t, why);
	CHECK(is_there == (expected != NULL));
	rbt_treatment_find_strays(env, why);
	rbt_treatment_find_group(get, env, &t);
	if (expected != NULL) {
		check_text(&t, expected);
	}
}

static void test_environment(void)
{
	check_env("HOME=/", NULL, NULL, NULL);
	check_env("RUBATO_TREAT=", NULL, NULL, "");
	check_env("RUBATO_TREAT=class=best-effort,weight=2", NULL, NULL, "priority=2,weight=2");
	check_env("RUBATO_TREAT=class=best-effort,weight=2", "RUBATO_TREAT_WEIGHT=3",
		"RUBATO_TREAT_MAX_RESERVE_MS=9", "priority=2,weight=3,max_reserve_ms=9");
	check_env("RUBATO_TREAT_CLASS=latency", "RUBATO_TREAT_MIN_SHARE=2", NULL,
		"priority=13,min_share=2.0");
	check_env("RUBATO_TREAT=priority=3", "RUBATO_TREAT_CLASS=latency", NULL, "priority=13");
	check_env("RUBATO_TREAT_WEIGHT=", NULL, NULL, NULL);
	CHECK(why[0] == '\0');
	check_env("RUBATO_TREAT_WEIGHT=x", "RUBATO_TREAT_CLASS=latency", NULL, "priority=13");
	CHECK(strcmp(why, "weight is a whole number from 1 to 1000, not x") == 0);
	check_env("RUBATO_TREAT=a=b", "RUBATO_TREAT_WEIGHT=x", NULL, "");
	CHECK(strcmp(why, "no such key: a") == 0);
	check_env("RUBATO_TREAT=", "RUBATO_TREAT_COLOUR=red", NULL, "");
	CHECK(strcmp(why, "no such key: colour") == 0);
	char name[RBT_TREAT_ENV_MAX];
	rbt_treat_key_env(RBT_TREAT_TIMESLICE, name);
	CHECK(strcmp(name, "RUBATO_TREAT_TIMESLICE_US") == 0);
}

/* Version 0.1.0 had a variable for each. */
static void test_old_environment(void)
{
	check_env("RUBATO_PRIORITY=13", NULL, NULL, "priority=13");
	check_env("RUBATO_PRIORITY=2", "RUBATO_WEIGHT=5", "RUBATO_MIN_SHARE_PERMILLE=25",
		"priority=2,weight=5,min_share=2.5");
	check_env("RUBATO_PRIORITY=2", "RUBATO_MIN_SHARE_PERMILLE=0", "RUBATO_FORCE=1",
		"priority=2,min_share=0.0,force=1");
	check_env("RUBATO_PRIORITY=2", "RUBATO_MIN_SHARE_PERMILLE=5", "RUBATO_WEIGHT=nonsense",
		"priority=2,min_share=0.5");
	CHECK(why[0] == '\0');
	check_env("RUBATO_PRIORITY=16", "RUBATO_WEIGHT=5", NULL, NULL);
	check_env("RUBATO_WEIGHT=5", NULL, NULL, NULL);
	check_env("RUBATO_PRIORITY=13", "RUBATO_TREAT=weight=2", "RUBATO_GROUP=a",
		"weight=2,group=a");
	check_env("RUBATO_PRIORITY=13", "RUBATO_TREAT_WEIGHT=2", NULL, "priority=13,weight=2");
}

static void test_groups(void)
{
	check_env("RUBATO_TREAT=", "PMIX_NAMESPACE=x", NULL, "group=pmix:x");
	check_env("RUBATO_TREAT=group=mine", "PMIX_NAMESPACE=x", NULL, "group=mine");
	check_env("RUBATO_TREAT=group=none", "PMIX_NAMESPACE=x", NULL, "group=none");
	check_env("RUBATO_TREAT=group=none", "PMIX_NAMESPACE=x", "RUBATO_TREAT_GROUP=a", "group=a");
	check_env("RUBATO_GROUP=mine", "PMIX_NAMESPACE=x", "RUBATO_TREAT=", "group=mine");
	check_env("RUBATO_GROUP=none", "PMIX_NAMESPACE=x", "RUBATO_TREAT=", "group=none");
	check_env("RUBATO_GROUP=a b", "PMIX_NAMESPACE=x", "RUBATO_TREAT=", "group=pmix:x");
}

int main(void)
{
	test_text();
	test_no_room();
	test_mistakes();
	test_class_and_priority();
	test_merge();
	test_describe();
	test_versions();
	test_decode();
	test_environment();
	test_old_environment();
	test_groups();
	return check_result();
}
