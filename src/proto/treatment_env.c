/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Treatments in the environment. Each key also has a variable of its own, so that two parties (two
 * container devices, for example) can each set a key without overwriting the other's.
 */
#include <string.h>

#include "proto/treatment.h"

#define PREFIX RBT_ENV_TREAT "_"

/* Version 0.1.0 had these variables. Its `rubato run` may have started programs that still make
 * children, and its manual named RUBATO_GROUP. The next version drops them. */
static const char *const old_names[RBT_TREAT_KEYS] = {
	[RBT_TREAT_PRIORITY] = "RUBATO_PRIORITY",
	[RBT_TREAT_TIMESLICE] = "RUBATO_TIMESLICE_US",
	[RBT_TREAT_WEIGHT] = "RUBATO_WEIGHT",
	[RBT_TREAT_MAX_RESERVE] = "RUBATO_MAX_RESERVE_MS",
	[RBT_TREAT_MIN_SHARE] = "RUBATO_MIN_SHARE_PERMILLE",
	[RBT_TREAT_GROUP] = "RUBATO_GROUP",
	[RBT_TREAT_FORCE] = "RUBATO_FORCE",
};

const char *rbt_treat_key_old_env(enum rbt_treat_key key)
{
	return old_names[key];
}

void rbt_treat_key_env(enum rbt_treat_key key, char ret[RBT_TREAT_ENV_MAX])
{
	const char *name = rbt_treat_key_name(key);
	size_t n = strlen(PREFIX);

	memcpy(ret, PREFIX, n);
	for (; *name != '\0' && n < RBT_TREAT_ENV_MAX - 1; name++) {
		ret[n++] = *name == '-' ? '_' : (char)(*name - 'a' + 'A');
	}
	ret[n] = '\0';
}

/* Converts thousandths to percent: 25 becomes 2.5. */
static const char *percent(const char *permille, char buf[16])
{
	size_t n = strlen(permille);

	if (n == 0 || n > 4) {
		return permille;
	}
	buf[0] = '0';
	memcpy(buf + 1, permille, n - 1);
	buf[n] = '.';
	buf[n + 1] = permille[n - 1];
	buf[n + 2] = '\0';
	return buf;
}

/* Version 0.1.0 ignored wrong values silently. Returns whether RUBATO_PRIORITY is set: without it,
 * the library did nothing. */
static bool read_old(
	const char *(*get)(void *ctx, const char *name), void *ctx, struct rbt_treatment *ret)
{
	char buf[16], why[RBT_TREAT_WHY_MAX];

	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		const char *value = old_names[i] != NULL ? get(ctx, old_names[i]) : NULL;
		if (value != NULL && i == RBT_TREAT_MIN_SHARE) {
			value = percent(value, buf);
		}
		if (value != NULL) {
			(void)rbt_treatment_set(ret, (enum rbt_treat_key)i, value, why);
		}
	}
	return (ret->said & RBT_TREAT_BIT(PRIORITY)) != 0;
}

bool rbt_treatment_read_keys(const char *(*get)(void *ctx, const char *name), void *ctx,
	struct rbt_treatment *ret, char why[RBT_TREAT_WHY_MAX])
{
	char name[RBT_TREAT_ENV_MAX], reason[RBT_TREAT_WHY_MAX];
	bool is_there = false;

	*ret = RBT_TREATMENT_INIT;
	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		rbt_treat_key_env((enum rbt_treat_key)i, name);
		const char *value = get(ctx, name);
		if (value == NULL || value[0] == '\0') {
			continue;
		}
		is_there = true;
		if (rbt_treatment_set(ret, (enum rbt_treat_key)i, value, reason) < 0 &&
			why[0] == '\0') {
			memcpy(why, reason, sizeof(reason));
		}
	}
	return is_there;
}

bool rbt_treatment_read_env(const char *(*get)(void *ctx, const char *name), void *ctx,
	struct rbt_treatment *ret, char why[RBT_TREAT_WHY_MAX])
{
	struct rbt_treatment old = RBT_TREATMENT_INIT, said = RBT_TREATMENT_INIT, single;
	const char *text = get(ctx, RBT_ENV_TREAT);

	why[0] = '\0';
	bool is_there = read_old(get, ctx, &old);
	/* If RUBATO_TREAT is set, the old variables are left over from a parent and are ignored.
	 * Only the group counts, because users may set it themselves. */
	old.said &= text != NULL ? RBT_TREAT_BIT(GROUP) : UINT32_MAX;
	if (text != NULL) {
		rbt_treatment_parse(&said, text, why);
	}
	is_there = rbt_treatment_read_keys(get, ctx, &single, why) || is_there || text != NULL;
	*ret = RBT_TREATMENT_INIT;
	rbt_treatment_merge(ret, &old);
	rbt_treatment_merge(ret, &said);
	rbt_treatment_merge(ret, &single);
	return is_there;
}

void rbt_treatment_find_group(
	const char *(*get)(void *ctx, const char *name), void *ctx, struct rbt_treatment *t)
{
	char name[RBT_GROUP_NAME_MAX];

	if ((t->said & RBT_TREAT_BIT(GROUP)) == 0 && rbt_rankgroup_find(get, ctx, name) == 0) {
		memcpy(t->group, name, strlen(name));
		t->said |= RBT_TREAT_BIT(GROUP);
	}
}

void rbt_treatment_find_memory(
	const char *(*get)(void *ctx, const char *name), void *ctx, struct rbt_treatment *t)
{
	const char *value = get(ctx, "CUDA_DEVICE_MEMORY_LIMIT");
	char why[RBT_TREAT_WHY_MAX];

	if (value != NULL && (t->said & RBT_TREAT_BIT(MEMORY)) == 0) {
		(void)rbt_treatment_set(t, RBT_TREAT_MEMORY, value, why);
	}
}

void rbt_treatment_find_strays(char *const *env, char why[RBT_TREAT_WHY_MAX])
{
	static const char text[] = "no such key: ";

	for (; env != NULL && *env != NULL && why[0] == '\0'; env++) {
		char name[RBT_TREAT_ENV_MAX];
		size_t n = 0;

		if (strncmp(*env, PREFIX, strlen(PREFIX)) != 0) {
			continue;
		}
		for (const char *c = *env + strlen(PREFIX);
			*c != '=' && *c != '\0' && n < sizeof(name) - 1; c++) {
			name[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
		}
		name[n] = '\0';
		if (rbt_treat_key_find(name) < 0) {
			memcpy(why, text, sizeof(text));
			memcpy(why + sizeof(text) - 1, name, n + 1);
		}
	}
}
