/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/attach/rules.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/class.h"
#include "util/parse.h"

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
	*rule = (struct rule){.line = line, .priority = RBT_PRIORITY_NORMAL};
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

static const char *set_class(struct rule *rule, const char *value)
{
	enum rbt_class cls = RBT_CLASS_NORMAL;

	if (rule->has_class || rule->is_ignored) {
		return "given twice";
	}
	rule->is_ignored = strcmp(value, "ignore") == 0;
	rule->has_class = !rule->is_ignored;
	if (rule->has_class && rbt_class_parse(value, &cls) < 0) {
		return "class is latency, normal, best-effort or ignore";
	}
	rule->class_index = cls;
	return NULL;
}

static const char *set_group(struct rule *rule, const char *value)
{
	static const char *const words[] = {
		[RULE_GROUP_JOB] = "job",
		[RULE_GROUP_NONE] = "none",
		[RULE_GROUP_CGROUP] = "cgroup",
	};

	if (rule->has_group) {
		return "given twice";
	}
	rule->has_group = true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(value, words[i]) == 0) {
			rule->group = (enum rule_group)i;
			return NULL;
		}
	}
	if (!is_name(value, RULE_GROUP_MAX)) {
		return "group is job, cgroup, none or a name of letters, digits, ., - and _";
	}
	rule->group = RULE_GROUP_NAMED;
	strcpy(rule->group_name, value);
	return NULL;
}

static const char *set_number(struct rule *rule, bool is_weight, const char *value)
{
	uint64_t v;

	if (is_weight ? rule->weight != 0 : rule->has_priority) {
		return "given twice";
	}
	if (rbt_parse_u64(value, is_weight ? 1 : 0, is_weight ? RBT_WEIGHT_MAX : RBT_PRIORITY_MAX,
		    &v) < 0) {
		return is_weight ? "weight is a whole number from 1 to 1000"
				 : "priority is a whole number from 0 to 15";
	}
	if (is_weight) {
		rule->weight = (uint32_t)v;
	} else {
		rule->priority = (unsigned)v;
		rule->has_priority = true;
	}
	return NULL;
}

const char *rules_set(struct rules *rules, const char *key, const char *value)
{
	struct rule *rule = &rules->list[rules->n - 1];

	if (strcmp(key, "user") == 0) {
		return set_pattern(rule->user, value);
	}
	if (strcmp(key, "command") == 0) {
		return set_pattern(rule->command, value);
	}
	if (strcmp(key, "args") == 0) {
		return set_pattern(rule->args, value);
	}
	if (strcmp(key, "cgroup") == 0) {
		return set_pattern(rule->cgroup, value);
	}
	if (strcmp(key, "class") == 0) {
		return set_class(rule, value);
	}
	if (strcmp(key, "group") == 0) {
		return set_group(rule, value);
	}
	if (strcmp(key, "priority") == 0 || strcmp(key, "weight") == 0) {
		return set_number(rule, key[0] == 'w', value);
	}
	return "no such key of a rule";
}

const char *rules_end(struct rules *rules)
{
	struct rule *rule = &rules->list[rules->n - 1];

	if (rule->is_ignored) {
		return rule->has_priority || rule->weight != 0 || rule->has_group
			       ? "what is ignored has no priority, weight or group"
			       : NULL;
	}
	if (!rule->has_class && !rule->has_priority) {
		return "the rule has no class";
	}
	if (rule->has_class && !rule->has_priority) {
		rule->priority = rbt_class_priority(rule->class_index);
	} else if (rule->has_class && rbt_class_of(rule->priority) != rule->class_index) {
		return "the rule's class and priority contradict";
	}
	/* What a program calls itself is its user's choice: it must not be all it takes to be
	 * raised. */
	bool raises = rbt_class_of(rule->priority) == RBT_CLASS_LATENCY || rule->weight > 1;
	if (raises && rule->user[0] == '\0' && rule->cgroup[0] == '\0') {
		return "a rule that raises programs must say whose: user or cgroup (user = * for anybody)";
	}
	return NULL;
}

/* Whether `text` matches one of the patterns in a list with commas. A * matches slashes too. */
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

/* Each word of `list` up to `end`; in groups they stand for "@name" patterns. */
static bool matches_any_of(const char *list, const char *words, const char *end, bool are_groups)
{
	/* As much of a cgroup's path as the kernel shows: depth is no way round a rule. */
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
