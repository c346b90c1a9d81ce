/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules: how programs that nobody has spoken for are to be treated. Each is a section of the
 * configuration file; the first that matches a program decides. Pure: facts about a program in, a
 * rule out.
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
	RULE_GROUP_JOB,    /* ranks of one job of one user, as far as their environment tells */
	RULE_GROUP_NONE,   /* each for itself */
	RULE_GROUP_CGROUP, /* those in the same cgroup */
	RULE_GROUP_NAMED,  /* all that have the group that the rule names */
};

struct rule {
	char name[RULE_NAME_MAX];
	unsigned line; /* where it begins */
	/* What a program must be: lists of patterns with commas; empty: anything. */
	char user[RULE_PATTERN_MAX];
	char command[RULE_PATTERN_MAX];
	char args[RULE_PATTERN_MAX];
	char cgroup[RULE_PATTERN_MAX];
	/* What becomes of it. */
	bool is_ignored, has_group;
	struct rbt_treatment treat; /* its group is that of RULE_GROUP_NAMED */
	enum rule_group group;
};

struct rules {
	struct rule *list; /* owned */
	size_t n;
};

/* What is known of a program. Strings may be empty, none is NULL. */
struct rule_facts {
	uid_t uid;
	const char *user;    /* name */
	const char *groups;  /* of the user, by name, a blank before and after each */
	const char *exe;     /* path of the file it runs */
	const char *argv0;   /* what it calls itself */
	const char *args;    /* all of its arguments, with blanks */
	const char *cgroups; /* paths, a newline after each */
};

void rules_finish(struct rules *rules);

/* Begins a rule; the ones after it are of later lines. NULL, or what is wrong with it (static). */
const char *rules_begin(struct rules *rules, const char *name, unsigned line);
/* A key of the rule that was begun last: 0, or -EINVAL with what is wrong in `why`. */
int rules_set(struct rules *rules, const char *key, const char *value, char *why, size_t why_size);
/* When all keys of the rule that was begun last have been given. The same. */
const char *rules_end(struct rules *rules);

/* The first that matches, or NULL. */
const struct rule *rules_match(const struct rules *rules, const struct rule_facts *facts);

#endif
