/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sched/class.h"

static const struct {
	const char *name;
	enum rbt_treat_key key;
	bool is_limit;
} keys[] = {
	{"class", RBT_TREAT_CLASS, false},
	{"memory", RBT_TREAT_MEMORY, false},
	{"max-class", RBT_TREAT_CLASS, true},
	{"max-memory", RBT_TREAT_MEMORY, true},
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static int add_rule(struct slurm_rules *r, const char *arg, const char *name, size_t name_len,
	const char *value, char why[SLURM_WHY_MAX])
{
	struct slurm_rule rule = {.treat = RBT_TREATMENT_INIT};
	char reason[RBT_TREAT_WHY_MAX];
	const char *colon = memchr(name, ':', name_len);
	size_t partition_len = colon != NULL ? (size_t)(colon - name) : 0, i = 0;

	if (colon != NULL) {
		name_len -= partition_len + 1;
		name = colon + 1;
	}
	while (i < N_KEYS &&
		(strlen(keys[i].name) != name_len || memcmp(keys[i].name, name, name_len) != 0)) {
		i++;
	}
	if (i == N_KEYS || partition_len >= sizeof(rule.partition) || (colon == arg)) {
		snprintf(why, SLURM_WHY_MAX,
			"%.100s: an argument is rubato=PATH, or [PARTITION:]KEY=VALUE with "
			"class, memory, max-class or max-memory as its key",
			arg);
		return -EINVAL;
	}
	if (rbt_treatment_set(&rule.treat, keys[i].key, value, reason) < 0) {
		snprintf(why, SLURM_WHY_MAX, "%.100s: %s", arg, reason);
		return -EINVAL;
	}
	if (r->n == SLURM_RULES_MAX) {
		snprintf(why, SLURM_WHY_MAX, "%.100s: there are more than %d arguments", arg,
			SLURM_RULES_MAX);
		return -EINVAL;
	}
	rbt_treatment_settle(&rule.treat);
	memcpy(rule.partition, arg, partition_len);
	rule.is_limit = keys[i].is_limit;
	r->list[r->n++] = rule;
	return 0;
}

int slurm_rules_add(struct slurm_rules *r, const char *arg, char why[SLURM_WHY_MAX])
{
	const char *equals = strchr(arg, '=');

	if (equals == NULL) {
		return add_rule(r, arg, "", 0, "", why);
	}
	if (strncmp(arg, "rubato=", 7) == 0) {
		if (equals[1] != '/') {
			snprintf(why, SLURM_WHY_MAX, "%.100s: the path must be absolute", arg);
			return -EINVAL;
		}
		r->rubato = equals + 1;
		return 0;
	}
	return add_rule(r, arg, arg, (size_t)(equals - arg), equals + 1, why);
}

/* The defaults or limits of a partition. */
static struct rbt_treatment collect(
	const struct slurm_rules *r, const char *partition, bool is_limit)
{
	struct rbt_treatment t = RBT_TREATMENT_INIT;

	for (int is_own = 0; is_own <= 1; is_own++) {
		const char *wanted = is_own ? partition : "";
		for (size_t i = 0; i < r->n && (!is_own || partition[0] != '\0'); i++) {
			if (r->list[i].is_limit == is_limit &&
				strcmp(r->list[i].partition, wanted) == 0) {
				rbt_treatment_merge(&t, &r->list[i].treat);
			}
		}
	}
	return t;
}

uint32_t slurm_rules_apply(const struct slurm_rules *r, const char *partition,
	const struct rbt_treatment *asked, struct rbt_treatment *ret)
{
	struct rbt_treatment t = collect(r, partition, false), max = collect(r, partition, true);
	struct rbt_treatment lower = RBT_TREATMENT_INIT, wanted = *asked;

	rbt_treatment_settle(&wanted);
	rbt_treatment_merge(&t, &wanted);
	/* A job that says nothing has the class normal and all memory. */
	if ((max.said & RBT_TREAT_BIT(PRIORITY)) != 0 &&
		rbt_class_of(t.priority) > rbt_class_of(max.priority)) {
		lower.priority = max.priority;
		lower.said |= RBT_TREAT_BIT(PRIORITY);
	}
	if ((max.said & RBT_TREAT_BIT(MEMORY)) != 0 &&
		((t.said & RBT_TREAT_BIT(MEMORY)) == 0 || t.memory > max.memory)) {
		lower.memory = max.memory;
		lower.said |= RBT_TREAT_BIT(MEMORY);
	}
	rbt_treatment_merge(&t, &lower);
	*ret = t;
	return lower.said & (wanted.said | wanted.reset);
}
