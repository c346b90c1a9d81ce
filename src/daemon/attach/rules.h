/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach rules: how programs are treated that were started without `rubato run`. Each rule is a
 * section of the configuration file. The first rule that matches a program decides. This module is
 * pure: facts about a program go in, a rule comes out.
 */
#ifndef RBT_DAEMON_ATTACH_RULES_H
#define RBT_DAEMON_ATTACH_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/treatment.h"

#define RULE_NAME_MAX    32
#define RULE_PATTERN_MAX 256
#define RULES_MAX        256

/* Which programs of a rule have their turns together. */
enum rule_group {
	RULE_GROUP_JOB,    /* ranks of one job of one user, according to their environment */
	RULE_GROUP_NONE,   /* none: each program has its own turns */
	RULE_GROUP_CGROUP, /* programs in the same cgroup */
	RULE_GROUP_NAMED,  /* all programs with the group that the rule names */
};

struct rule {
	char name[RULE_NAME_MAX];
	unsigned line; /* of the file, where the rule begins */
	/* Conditions: lists of patterns with commas. An empty list matches anything. */
	char user[RULE_PATTERN_MAX];
	char command[RULE_PATTERN_MAX];
	char args[RULE_PATTERN_MAX];
	char cgroup[RULE_PATTERN_MAX];
	/* What happens to a program that matches. */
	bool is_ignored, has_group;
	struct rbt_treatment treat; /* its group is used with RULE_GROUP_NAMED */
	enum rule_group group;
};

struct rules {
	struct rule *list; /* owned */
	size_t n;
};

/* Facts about a program. Strings may be empty, but not NULL. */
struct rule_facts {
	uid_t uid;
	const char *user;    /* the user's name */
	const char *groups;  /* names of the user's groups, with a blank before and after each */
	const char *exe;     /* path of the executable */
	const char *argv0;   /* the first argument */
	const char *args;    /* all arguments, separated by blanks */
	const char *cgroups; /* paths of its cgroups, with a newline after each */
};

void rules_finish(struct rules *rules);

/* Begins a rule. Rules are added in the order of their lines. Returns NULL, or what is wrong (a
 * static string). */
const char *rules_begin(struct rules *rules, const char *name, unsigned line);
/* Sets a key of the last rule. Returns 0, or -EINVAL with the reason in `why`. */
int rules_set(struct rules *rules, const char *key, const char *value, char *why, size_t why_size);
/* Ends the last rule, after all its keys. Returns as rules_begin() does. */
const char *rules_end(struct rules *rules);

/* Returns the first rule that matches, or NULL. */
const struct rule *rules_match(const struct rules *rules, const struct rule_facts *facts);

#endif
