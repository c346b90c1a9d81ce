/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slurm's plugin for Rubato: `srun --gpu-class=best-effort --gpu-memory=20G`. Each task of such a
 * job starts with the environment that `rubato run` would give it. Whatever is wrong with Rubato, or
 * with the plugin's line in plugstack.conf, no job stops because of it.
 */
/* Slurm finds these functions by name. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(rubato, 1)
#pragma GCC visibility pop

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits.h"
#include "proto/protocol.h"
#include "sched/class.h"
#include "start.h"

static int take_option(int key, const char *value, int is_remote);

static struct slurm_rules rules;
static struct rbt_treatment asked; /* the options of the job */

static struct spank_option class_option = {(char *)"gpu-class", (char *)"CLASS",
	(char *)"share GPUs as this class: latency, normal or best-effort", 1, RBT_TREAT_CLASS,
	take_option};
static struct spank_option memory_option = {(char *)"gpu-memory", (char *)"SIZE",
	(char *)"let the tasks of a node have this much memory on each GPU, such as 20G", 1,
	RBT_TREAT_MEMORY, take_option};

/* In srun, a wrong value ends the command. On the node, which may have another version, it is left
 * out. */
static int take_option(int key, const char *value, int is_remote)
{
	char why[RBT_TREAT_WHY_MAX];

	if (rbt_treatment_set(&asked, (enum rbt_treat_key)key, value, why) == 0) {
		return 0;
	}
	slurm_error("rubato: --gpu-%s: %s", rbt_treat_key_name((enum rbt_treat_key)key), why);
	return is_remote ? 0 : -1;
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	char why[SLURM_WHY_MAX];
	spank_context_t context = spank_context();

	rules = (struct slurm_rules){.rubato = RUBATO_BINDIR "/rubato"};
	asked = RBT_TREATMENT_INIT;
	for (int i = 0; i < ac; i++) {
		/* The line is the administrator's, so users are not told. */
		if (slurm_rules_add(&rules, av[i], why) < 0 &&
			(context == S_CTX_SLURMD || context == S_CTX_REMOTE)) {
			slurm_error("rubato: plugstack.conf: %s: ignored", why);
		}
	}
	if (spank_option_register(sp, &class_option) != ESPANK_SUCCESS ||
		spank_option_register(sp, &memory_option) != ESPANK_SUCCESS) {
		slurm_error("rubato: Slurm does not take the options --gpu-class and --gpu-memory");
	}
	return ESPANK_SUCCESS;
}

/* Finds NAME=VALUE by the name of another entry. */
static const char *find(char *const *env, const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (; *env != NULL; env++) {
		if (strncmp(*env, entry, len) == 0 && (*env)[len] == '=') {
			return *env;
		}
	}
	return NULL;
}

static bool has(const char *text, size_t size, const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (const char *at = text; at < text + size; at += strlen(at) + 1) {
		if (strncmp(at, entry, len) == 0 && at[len] == '=') {
			return true;
		}
	}
	return false;
}

/* Removes the job's variables that are not in the text. The array changes with each. */
static void unset_missing(spank_t sp, char *const *env, const char *text, size_t size)
{
	for (size_t i = 0; env[i] != NULL;) {
		char name[256];
		int n = snprintf(name, sizeof(name), "%.*s", (int)strcspn(env[i], "="), env[i]);

		if (n <= 0 || (size_t)n >= sizeof(name) || has(text, size, env[i]) ||
			spank_unsetenv(sp, name) != ESPANK_SUCCESS ||
			spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS) {
			i++;
		}
	}
}

/* Makes the task's environment that of the text; modifies the text. */
static void replace_environment(spank_t sp, char *const *env, char *text, size_t size)
{
	unset_missing(sp, env, text, size);
	for (char *at = text; at < text + size;) {
		char *next = at + strlen(at) + 1, *equals = strchr(at, '=');
		/* Setting a variable may move the array. */
		const char *old = spank_get_item(sp, S_JOB_ENV, &env) == ESPANK_SUCCESS
					  ? find(env, at)
					  : NULL;

		if (equals != NULL && (old == NULL || strcmp(old, at) != 0)) {
			*equals = '\0';
			spank_setenv(sp, at, equals + 1, 1);
		}
		at = next;
	}
}

static void tell_lowered(uint32_t lowered, const char *partition, const struct rbt_treatment *t)
{
	char memory[RBT_TREAT_TEXT_MAX] = "";
	const char *cls = rbt_class_name(rbt_class_of(t->priority));
	bool has_class = (lowered & RBT_TREAT_BIT(PRIORITY)) != 0;

	if (lowered != 0) {
		rbt_treatment_describe(t, lowered & RBT_TREAT_BIT(MEMORY), memory, sizeof(memory));
		slurm_spank_log("rubato: partition %s allows at most%s%s%s", partition,
			has_class ? " class " : "", has_class ? cls : "",
			has_class || memory[0] == '\0' ? memory : memory + 1);
	}
}

/* The tasks of a job on this node share its memory limit, as the processes of one `rubato run` do. */
static void share_limit(spank_t sp)
{
	char name[32];
	uint32_t job;

	if (spank_get_item(sp, S_JOB_ID, &job) == ESPANK_SUCCESS) {
		snprintf(name, sizeof(name), "slurm-%" PRIu32, job);
		spank_setenv(sp, RBT_ENV_RUN, name, 1);
	}
}

/* Called in each task's process, as the job's user, before the program replaces it. */
int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	char partition[SLURM_PARTITION_MAX] = "", why[SLURM_START_WHY_MAX], path[128];
	struct rbt_treatment t;
	char **env, *text;
	size_t size;

	(void)spank_getenv(sp, "SLURM_JOB_PARTITION", partition, sizeof(partition));
	uint32_t lowered = slurm_rules_apply(&rules, partition, &asked, &t);
	if (t.said == 0) {
		return ESPANK_SUCCESS;
	}
	tell_lowered(lowered, partition, &t);
	if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS) {
		slurm_error("rubato: Slurm does not show the task's environment: the task runs "
			    "without Rubato");
		return ESPANK_SUCCESS;
	}
	if (slurm_start_environment(rules.rubato, &t, env, &text, &size, why) < 0) {
		slurm_error("rubato: %s: the task runs without Rubato", why);
		return ESPANK_SUCCESS;
	}
	replace_environment(sp, env, text, size);
	free(text);
	if ((t.said & RBT_TREAT_BIT(MEMORY)) != 0) {
		share_limit(sp);
	}
	if (spank_getenv(sp, RBT_ENV_SOCKET, path, sizeof(path)) == ESPANK_SUCCESS) {
		slurm_start_await(path);
	}
	return ESPANK_SUCCESS;
}
