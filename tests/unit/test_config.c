/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: what it says is what comes out, and what is wrong is said with its line.
 * Rules: the first that matches decides. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "daemon/config.h"
#include "sched/class.h"
#include "util/rankgroup.h"

static struct config config;
static char why[512];

static int parse(const char *text)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");

	config_finish(&config);
	config_default(&config);
	why[0] = '\0';
	int r = config_parse(f, "file", &config, why, sizeof(why));
	fclose(f);
	return r;
}

/* Wrong, for this reason. */
static void check_wrong(const char *text, const char *reason)
{
	CHECK_INT(parse(text), -EINVAL);
	if (strstr(why, reason) != why) {
		fprintf(stderr, "%s: not %s\n", why, reason);
		CHECK(false);
	}
	CHECK(config.rules.n == 0); /* untouched */
}

static void test_keys(void)
{
	CHECK_INT(parse("# nothing\n"), 0);
	CHECK_INT(config.scan_ms, 0);
	CHECK(strcmp(config.admin_group, "rubato") == 0);
	CHECK_INT(parse("turn_ms = 70\nmin_share=2.5 %\n scan_s = 1.5 # often\nadmin_group=wheel\n"
			"max_latency = 0\npolicy = fair"),
		0);
	CHECK_INT(config.sched.turn_ms, 70);
	CHECK_INT(config.sched.min_share_permille, 25);
	CHECK_INT(config.sched.max_latency, RBT_SCHED_NEVER);
	CHECK_INT(config.scan_ms, 1500);
	CHECK(strcmp(config.admin_group, "wheel") == 0);
	CHECK(strcmp(config.sched.policy->name, "fair") == 0);
	CHECK(config.policy_file[0] == '\0');
	CHECK_INT(parse("policy = /a/b.o\n"), 0);
	CHECK(config.sched.policy == NULL && strcmp(config.policy_file, "/a/b.o") == 0);
	check_wrong("policy = a/b.o\n", "file:1: policy is turns, priority, fair, fifo or an "
					"absolute path, not: a/b.o");
	check_wrong("policy = /a\npolicy = fair\n", "file:2: given twice: policy");
	check_wrong("\nturn_ms = 7\n", "file:2: turn_ms is a whole number from 60 to 100, not 7");
	check_wrong("scan_s = 0\n", "file:1: scan_s is a time in seconds");
	check_wrong("scan_s = 1\nscan_s = 1\n", "file:2: given twice: scan_s");
	check_wrong("admin_group =\n", "file:1: not the name of a group");
	check_wrong("turn = 70\n", "file:1: no such key: turn");
	check_wrong("turn_ms\n", "file:1: not of the form key = value");
}

/* Each with its line, and once: a key of a section that is wrong is not another mistake. */
static void test_all_mistakes(void)
{
	CHECK_INT(parse("turn_ms = 1\nnonsense\n[rule a]\nclass = fast\n[rool b]\nclass = fast\n"
			"[rule c]\nuser = *\n[rule d]\nclass = normal\n[rule d]\ncolour = red\n"),
		-EINVAL);
	CHECK(strcmp(why, "file:1: turn_ms is a whole number from 60 to 100, not 1\n"
			  "file:2: not of the form key = value: nonsense\n"
			  "file:4: class is latency, normal, best-effort or ignore: class\n"
			  "file:5: sections are of the form [rule NAME], not: rool b\n"
			  "file:7: the rule has no class: c\n"
			  "file:11: there is a rule of this name already: d") == 0);
	char text[4096] = "";
	for (unsigned i = 0; i < 100; i++) {
		strcat(text, "no = key\n");
	}
	CHECK_INT(parse(text), -EINVAL); /* nor does it need room for all of them */
}

static void test_sections(void)
{
	CHECK_INT(parse("turn_ms = 80\n[rule a]\nclass = best-effort\nweight = 1\n"
			"[ rule  b-2.c_ ] # more\npriority = 12\nuser = ann, bob\ngroup = cgroup\n"
			"[rule c]\nclass=ignore\n"),
		0);
	CHECK_INT(config.rules.n, 3);
	const struct rule *r = config.rules.list;
	CHECK(strcmp(r[0].name, "a") == 0 && r[0].line == 2 && r[0].treat.priority == 2);
	CHECK(strcmp(r[1].name, "b-2.c_") == 0 && r[1].treat.priority == 12);
	CHECK(r[1].group == RULE_GROUP_CGROUP && r[0].group == RULE_GROUP_JOB);
	CHECK(r[2].is_ignored);
	/* A limit raises nobody, so it needs no user. */
	CHECK_INT(parse("[rule a]\nclass = normal\nmemory = 20G\n"), 0);
	CHECK(config.rules.list[0].treat.memory == UINT64_C(20) << 30);
	check_wrong("[rule a]\nclass = normal\nmemory = 20X\n",
		"file:3: memory is a size from 1M to 1024T such as 20G, or default, not 20X");
	CHECK_INT(parse("[rule a]\nclass = normal\ngroup = job-1\n"), 0);
	CHECK(config.rules.list[0].group == RULE_GROUP_NAMED);
	CHECK(strcmp(config.rules.list[0].treat.group, "job-1") == 0);
	check_wrong("[rule a\nclass = normal\n", "file:1: a section without its bracket");
	check_wrong("[\n", "file:1: a section without its bracket");
	check_wrong("[]\n", "file:1: sections are of the form");
	check_wrong("[rule]\n", "file:1: a rule is named by");
	check_wrong("[rules a]\n", "file:1: sections are of the form");
	check_wrong("[rule a b]\n", "file:1: a rule is named by");
	check_wrong("[rule a]\nclass = normal\n[rule a]\n", "file:3: there is a rule of this name");
	check_wrong("[rule a]\nclass = normal\nturn_ms = 80\n",
		"file:3: no such key of a rule: turn_ms");
}

static void test_mistakes_in_rules(void)
{
	check_wrong(
		"\n[rule a]\nuser = x\n[rule b]\nclass=normal\n", "file:2: the rule has no class");
	check_wrong("[rule a]\nclass = fast\n", "file:2: class is latency, normal, best-effort");
	check_wrong("[rule a]\nclass = normal\nclass = ignore\n", "file:3: given twice: class");
	check_wrong("[rule a]\npriority = 16\n", "file:2: priority is a whole number");
	check_wrong("[rule a]\nclass=normal\nweight = 0\n", "file:3: weight is a whole number");
	check_wrong("[rule a]\nclass=normal\nuser=\n", "file:3: without a value: user");
	check_wrong("[rule a]\nclass=normal\ngroup=a b\n", "file:3: group is job");
	check_wrong(
		"[rule a]\nclass=normal\npriority=2\n", "file:3: priority 2 is best-effort, which");
	check_wrong("[rule a]\nclass=ignore\nweight=2\n", "file:1: an ignored program has no");
	/* Whoever names a program decides nothing. */
	check_wrong("[rule a]\nclass=latency\ncommand=x\n", "file:1: a rule that raises");
	check_wrong(
		"[rule a]\nclass=best-effort\nweight=2\nargs=x\n", "file:1: a rule that raises");
	CHECK_INT(parse("[rule a]\nclass=latency\nuser=*\n"), 0);
	CHECK_INT(parse("[rule a]\nclass=latency\ncgroup=/a/*\n"), 0);
}

static const struct rule_facts base = {
	.uid = 1000,
	.user = "ann",
	.groups = " users  students ",
	.exe = "/usr/bin/python3.11",
	.argv0 = "python",
	.args = "python train.py --fast",
	.cgroups = "/\n/system.slice/slurm/job_42/step_0\n",
};

/* What the one rule with these lines says of `base`. */
static bool is_matched(const char *lines)
{
	char text[512];

	snprintf(text, sizeof(text), "[rule a]\nclass = best-effort\n%s", lines);
	CHECK_INT(parse(text), 0);
	return rules_match(&config.rules, &base) != NULL;
}

static void test_matching(void)
{
	static const struct {
		const char *lines;
		bool expected;
	} cases[] = {
		{"", true},
		{"user = ann", true},
		{"user = bob", false},
		{"user = bob ,ann", true},
		{"user = a*", true},
		{"user = 1000", true},
		{"user = 100", false},
		{"user = @students", true},
		{"user = @student", false},
		{"user = students", false},
		{"user = @stud*, bob", true},
		{"user = *", true},
		{"command = python", true},
		{"command = python3.*", true},
		{"command = /usr/bin/*", true},
		{"command = thon", false},
		{"command = /bin/python", false},
		{"args = *train.py*", true},
		{"args = train.py", false},
		{"cgroup = /system.slice/slurm/job_*", true},
		{"cgroup = */job_42/*", true},
		{"cgroup = /job_42/*", false},
		{"cgroup = /", true},
		{"cgroup = /kubepods*, /system.slice*", true},
		{"user = ann\ncommand = bash", false},
		{"user = ann\ncommand = python*\nargs = * --fast\ncgroup = /system*", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool found = is_matched(cases[i].lines);
		if (found != cases[i].expected) {
			fprintf(stderr, "%s: %d\n", cases[i].lines, found);
		}
		CHECK(found == cases[i].expected);
	}
}

static void test_first_decides(void)
{
	struct rule_facts nobody = {
		.user = "", .groups = "", .exe = "", .argv0 = "", .args = "", .cgroups = ""};

	CHECK_INT(
		parse("[rule a]\nuser = bob\nclass = normal\n[rule b]\nuser = ann\nclass = ignore\n"
		      "[rule c]\nuser = *\nclass = best-effort\n"),
		0);
	CHECK(rules_match(&config.rules, &base) == &config.rules.list[1]);
	CHECK(rules_match(&config.rules, &nobody) == &config.rules.list[2]);
	CHECK_INT(parse(""), 0);
	CHECK(rules_match(&config.rules, &base) == NULL);
}

static const char *get(void *ctx, const char *name)
{
	/* "NAME=value" each, NULL at the end. */
	for (const char **v = ctx; *v != NULL; v++) {
		if (strncmp(*v, name, strlen(name)) == 0 && (*v)[strlen(name)] == '=') {
			return *v + strlen(name) + 1;
		}
	}
	return NULL;
}

static const char *group_in(const char *a, const char *b, const char *c)
{
	static char name[RBT_GROUP_NAME_MAX];
	const char *variables[] = {a, b, c, NULL};

	return rbt_rankgroup_find(get, variables, name) == 0 ? name : "";
}

static void test_rank_groups(void)
{
	char other[RBT_GROUP_NAME_MAX];
	static const char long_id[] = "TORCHELASTIC_RUN_ID=0123456789012345678901234567890123456789"
				      "0123456789012345678901234567890123456789";

	CHECK(strcmp(group_in("HOME=/", NULL, NULL), "") == 0);
	CHECK(strcmp(group_in("TORCHELASTIC_RUN_ID=none", "MASTER_PORT=29500", "SLURM_JOB_ID=7"),
		      "torch:none.29500") == 0);
	CHECK(strcmp(group_in("TORCHELASTIC_RUN_ID=none", NULL, NULL), "") == 0);
	CHECK(strcmp(group_in("SLURM_JOB_ID=7", "SLURM_STEP_ID=0", NULL), "slurm:7.0") == 0);
	CHECK(strcmp(group_in("SLURM_JOB_ID=7", NULL, NULL), "") == 0);
	CHECK(strcmp(group_in("OMPI_MCA_ess_base_jobid=4 2", NULL, NULL), "ompi:4_2") == 0);
	/* What is too long is told apart all the same. */
	strcpy(other, group_in(long_id, "MASTER_PORT=1", NULL));
	CHECK_INT(strlen(other), RBT_GROUP_NAME_MAX - 1);
	CHECK(strcmp(group_in(long_id, "MASTER_PORT=2", NULL), other) != 0);
	CHECK(strcmp(group_in(long_id, "MASTER_PORT=1", NULL), other) == 0);
	CHECK(rbt_rankgroup_is_name("a.b-c_9") && !rbt_rankgroup_is_name(""));
	CHECK(!rbt_rankgroup_is_name("a:b") && !rbt_rankgroup_is_name(long_id));
}

int main(void)
{
	config_default(&config);
	test_keys();
	test_all_mistakes();
	test_sections();
	test_mistakes_in_rules();
	test_matching();
	test_first_decides();
	test_rank_groups();
	config_finish(&config);
	return check_result();
}
