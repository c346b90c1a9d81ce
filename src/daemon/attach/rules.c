/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/attach/rules.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"

void rules_finish(struct rules *rules)
{
	free(rules->list);
	*rules = (struct rules){0};
}

static bool is_name(const char *s, size_t max)
{
	size_t n = strlen(s);

	for (const char *c = s; *c != '\0'; c++) {
		if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL) {
			return false;
		}
	}
	return n > 0 && n < max;
}

const char *rules_begin(struct rules *rules, const char *name, unsigned line)
{
	if (!is_name(name, RULE_NAME_MAX)) {
		return "a rule is named by up to 31 letters, digits, dots, dashes and underscores";
	}
	for (size_t i = 0; i < rules->n; i++) {
		if (strcmp(rules->list[i].name, name) == 0) {
			return "there is a rule of this name already";
		}
	}
	if (rules->n == RULES_MAX) {
		return "too many rules";
	}
	struct rule *list = realloc(rules->list, (rules->n + 1) * sizeof(*list));
	if (list == NULL) {
		return "no memory";
	}
	rules->list = list;
	struct rule *rule = &list[rules->n++];
	*rule = (struct rule){.line = line, .treat = RBT_TREATMENT_INIT};
	snprintf(rule->name, sizeof(rule->name), "%s", name);
	return NULL;
}

static const char *set_pattern(char *to, const char *value)
{
	if (to[0] != '\0') {
		return "given twice";
	}
	if (value[0] == '\0') {
		return "without a value";
	}
	if (strlen(value) >= RULE_PATTERN_MAX) {
		return "too long";
	}
	strcpy(to, value);
	return NULL;
}

/* Returns NULL, or what is wrong. */
static const char *set_group(struct rule *rule, const char *value)
{
	static const char *const words[] = {
		[RULE_GROUP_JOB] = "job",
		[RULE_GROUP_NONE] = "none",
		[RULE_GROUP_CGROUP] = "cgroup",
	};
	char why[RBT_TREAT_WHY_MAX];

	rule->has_group = true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(value, words[i]) == 0) {
			rule->group = (enum rule_group)i;
			return NULL;
		}
	}
	if (rbt_treatment_set(&rule->treat, RBT_TREAT_GROUP, value, why) < 0) {
		return "group is job, cgroup, none or a name of letters, digits, ., - and _";
	}
	rule->group = RULE_GROUP_NAMED;
	return NULL;
}

/* Sets a key of the rule's treatment. Returns 0, or -EINVAL with the reason in `why`. */
static int set_treatment(
	struct rule *rule, enum rbt_treat_key key, const char *value, char why[RBT_TREAT_WHY_MAX])
{
	const char *what = NULL;

	if ((rule->treat.said & (UINT32_C(1) << key)) != 0 ||
		(key == RBT_TREAT_GROUP && rule->has_group) ||
		(key == RBT_TREAT_CLASS && rule->is_ignored)) {
		snprintf(why, RBT_TREAT_WHY_MAX, "given twice: %s", rbt_treat_key_name(key));
		return -EINVAL;
	}
	if (key == RBT_TREAT_GROUP) {
		what = set_group(rule, value);
	} else if (key == RBT_TREAT_CLASS && strcmp(value, "ignore") == 0) {
		rule->is_ignored = true;
	} else if (rbt_treatment_set(&rule->treat, key, value, why) < 0) {
		enum rbt_class cls;
		what = key == RBT_TREAT_CLASS && rbt_class_parse(value, &cls) < 0
			       ? "class is latency, normal, best-effort or ignore"
			       : "";
	}
	if (what != NULL && what[0] != '\0') {
		snprintf(why, RBT_TREAT_WHY_MAX, "%s: %s", what, rbt_treat_key_name(key));
	}
	return what == NULL ? 0 : -EINVAL;
}

int rules_set(struct rules *rules, const char *key, const char *value, char *why, size_t why_size)
{
	struct rule *rule = &rules->list[rules->n - 1];
	char reason[RBT_TREAT_WHY_MAX];
	const struct {
		const char *name;
		char *to;
	} patterns[] = {{"user", rule->user}, {"command", rule->command}, {"args", rule->args},
		{"cgroup", rule->cgroup}};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (strcmp(key, patterns[i].name) == 0) {
			const char *what = set_pattern(patterns[i].to, value);
			snprintf(why, why_size, "%s: %s", what != NULL ? what : "", key);
			return what == NULL ? 0 : -EINVAL;
		}
	}
	int k = rbt_treat_key_find(key);
	/* Unknown drivers are forced only for single programs, by their users. */
	if (k < 0 || k == RBT_TREAT_FORCE) {
		snprintf(why, why_size, "no such key of a rule: %s", key);
		return -EINVAL;
	}
	int r = set_treatment(rule, (enum rbt_treat_key)k, value, reason);
	if (r < 0) {
		snprintf(why, why_size, "%s", reason);
	}
	return r;
}

/* Whether the rule raises programs. Such a rule must not depend on names alone, because users
 * choose those themselves. A key that is not listed here counts as raising. */
static bool raises(const struct rbt_treatment *t)
{
	const uint32_t harmless = RBT_TREAT_BIT(CLASS) | RBT_TREAT_BIT(PRIORITY) |
				  RBT_TREAT_BIT(WEIGHT) | RBT_TREAT_BIT(GROUP) |
				  RBT_TREAT_BIT(MEMORY) | RBT_TREAT_BIT(PARK_IDLE);

	return rbt_class_of(t->priority) == RBT_CLASS_LATENCY || t->weight > 1 ||
	       (t->said & ~harmless) != 0;
}

const char *rules_end(struct rules *rules)
{
	struct rule *rule = &rules->list[rules->n - 1];

	if (rule->is_ignored) {
		return rule->treat.said != 0 || rule->has_group
			       ? "an ignored program has no priority, weight or group"
			       : NULL;
	}
	rbt_treatment_settle(&rule->treat);
	if ((rule->treat.said & RBT_TREAT_BIT(PRIORITY)) == 0) {
		return "the rule has no class";
	}
	if (raises(&rule->treat) && rule->user[0] == '\0' && rule->cgroup[0] == '\0') {
		return "a rule that raises programs needs a user or a cgroup (user = * for anybody)";
	}
	return NULL;
}

/* Whether `text` matches one of the patterns in a list with commas. A * also matches slashes. */
static bool matches(const char *list, const char *text)
{
	char pattern[RULE_PATTERN_MAX];

	for (const char *at = list; *at != '\0';) {
		at += strspn(at, ", \t");
		size_t n = strcspn(at, ",");
		size_t len = n;
		while (len > 0 && isspace((unsigned char)at[len - 1])) {
			len--;
		}
		memcpy(pattern, at, len);
		pattern[len] = '\0';
		if (len > 0 && fnmatch(pattern, text, 0) == 0) {
			return true;
		}
		at += n;
	}
	return false;
}

/* Whether one of the words from `words` to `end` matches. Groups are matched as "@name". */
static bool matches_any_of(const char *list, const char *words, const char *end, bool are_groups)
{
	/* Room for the longest path that the kernel shows, so that a deep cgroup cannot evade a
	 * rule. */
	char word[PATH_MAX + 2];

	while (*words != '\0') {
		words += strspn(words, end);
		size_t n = strcspn(words, end);
		int len = snprintf(
			word, sizeof(word), "%s%.*s", are_groups ? "@" : "", (int)n, words);
		if (n > 0 && len > 0 && (size_t)len < sizeof(word) && matches(list, word)) {
			return true;
		}
		words += n;
	}
	return false;
}

static bool matches_user(const char *list, const struct rule_facts *facts)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", (unsigned)facts->uid);
	return matches(list, number) || (facts->user[0] != '\0' && matches(list, facts->user)) ||
	       matches_any_of(list, facts->groups, " ", true);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static bool matches_command(const char *list, const struct rule_facts *facts)
{
	return matches(list, base_name(facts->exe)) || matches(list, base_name(facts->argv0)) ||
	       matches(list, facts->exe);
}

const struct rule *rules_match(const struct rules *rules, const struct rule_facts *facts)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *r = &rules->list[i];
		if ((r->user[0] == '\0' || matches_user(r->user, facts)) &&
			(r->command[0] == '\0' || matches_command(r->command, facts)) &&
			(r->args[0] == '\0' || matches(r->args, facts->args)) &&
			(r->cgroup[0] == '\0' ||
				matches_any_of(r->cgroup, facts->cgroups, "\n", false))) {
			return r;
		}
	}
	return NULL;
}
