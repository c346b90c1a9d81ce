/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <string.h>

#include "cli/cli.h"

/* Options without a letter have larger values than any letter. */
#define FIRST_VALUE 0x100

static const char letters[RBT_TREAT_KEYS] = {
	[RBT_TREAT_CLASS] = 'c',
	[RBT_TREAT_PRIORITY] = 'p',
	[RBT_TREAT_TIMESLICE] = 't',
	[RBT_TREAT_WEIGHT] = 'w',
	[RBT_TREAT_GROUP] = 'g',
};

static int value_of(enum rbt_treat_key key)
{
	return letters[key] != 0 ? letters[key] : FIRST_VALUE + (int)key;
}

void treat_options(uint32_t keys, const struct option *more, struct option *ret)
{
	size_t n = 0;

	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		enum rbt_treat_key key = (enum rbt_treat_key)i;
		if ((keys >> i & 1) != 0) {
			ret[n++] = (struct option){rbt_treat_key_name(key),
				rbt_treat_key_is_flag(key) ? no_argument : required_argument, NULL,
				value_of(key)};
		}
	}
	do {
		assert(n < TREAT_OPTIONS_MAX);
		ret[n++] = *more;
	} while ((more++)->name != NULL);
}

int treat_option(const struct command *cmd, struct rbt_treatment *t, int option, const char *arg)
{
	char why[RBT_TREAT_WHY_MAX];

	for (int i = 0; i < RBT_TREAT_KEYS; i++) {
		enum rbt_treat_key key = (enum rbt_treat_key)i;
		if (option == value_of(key)) {
			return rbt_treatment_set(t, key, arg != NULL ? arg : "1", why) < 0
				       ? usage_error(cmd, "%s", why)
				       : 0;
		}
	}
	return EXIT_USAGE;
}

int nice_habit(const struct command *cmd, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *arg = argv[i];
		bool is_option = arg[0] == '-' && (arg[1] == 'n' || isdigit((unsigned char)arg[1]));
		/* A later one may be the value of an option, or belong to the command. */
		if (is_option && (i == 1 || (cmd != &cmd_run && arg[1] == 'n'))) {
			return usage_error(cmd,
				"%s is no option: use --class, or --priority 0 (lowest) to 15 (highest)",
				arg);
		}
	}
	return EXIT_OK;
}
