/* SPDX-License-Identifier: Apache-2.0 */
/* `rubato policy`: its options and verbs. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd_policy.h"
#include "util/parse.h"

#define MAX_INTERVAL_MS (3600ull * 1000)

enum {
	TAKES_CHOICE = 1 << 0, /* --engine and --set */
	TAKES_FOREGROUND = 1 << 1,
	TAKES_FOLLOW = 1 << 2,
	TAKES_INTERVAL = 1 << 3,
	TAKES_JSON = 1 << 4,
	/* Options come before operands, because a key or value can begin with a minus. */
	TAKES_MINUS = 1 << 5,
};

static const struct verb {
	const char *name;
	int (*run)(const struct policy_args *a);
	unsigned takes;
	int n_operands;
	const char *operands;
} verbs[] = {
	{"check", policy_check, TAKES_CHOICE | TAKES_JSON, 1, "FILE"},
	{"load", policy_load, TAKES_CHOICE | TAKES_FOREGROUND | TAKES_JSON, 1, "FILE"},
	{"unload", policy_unload, 0, 0, "no operand"},
	{"show", policy_show, TAKES_JSON, 0, "no operand"},
	{"stats", policy_stats, TAKES_INTERVAL | TAKES_JSON, 0, "no operand"},
	{"log", policy_log, TAKES_FOLLOW | TAKES_JSON, 0, "no operand"},
	{"map list", policy_map_list, TAKES_JSON, 0, "no operand"},
	{"map dump", policy_map_dump, TAKES_JSON, 1, "NAME"},
	{"map set", policy_map_set, TAKES_MINUS, 3, "NAME KEY VALUE"},
	{"map del", policy_map_del, TAKES_MINUS, 2, "NAME KEY"},
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static int take_engine(const struct command *cmd, struct policy_choice *choice)
{
	for (uint32_t i = 0; i < RBT_POLICY_N_ENGINES; i++) {
		if (strcmp(optarg, rbt_policy_engine_name(i)) == 0) {
			choice->engine = (enum rbt_policy_engine)i;
			return 0;
		}
	}
	return usage_error(cmd, "--engine takes auto, kernel or vm, not %s", optarg);
}

int policy_option(const struct command *cmd, struct policy_choice *choice, int option)
{
	if (option == 'e') {
		return take_engine(cmd, choice);
	}
	if (strchr(optarg, '=') == NULL || optarg[0] == '=') {
		return usage_error(cmd, "--set takes NAME=VALUE, not %s", optarg);
	}
	if (choice->n_settings == RBT_POLICY_MAX_SETTINGS) {
		return usage_error(cmd, "--set: at most %d times", RBT_POLICY_MAX_SETTINGS);
	}
	choice->settings[choice->n_settings++] = optarg;
	return 0;
}

static int take_option(struct policy_args *a, int c)
{
	switch (c) {
	case 'e':
	case 's':
		return policy_option(&cmd_policy, &a->choice, c);
	case 'F':
		a->is_foreground = true;
		return EXIT_OK;
	case 'f':
		a->is_follow = true;
		return EXIT_OK;
	case 'j':
		a->json = true;
		return EXIT_OK;
	case 'i':
		return rbt_parse_seconds(optarg, MAX_INTERVAL_MS, &a->interval_ms) < 0
			       ? usage_error(&cmd_policy,
					 "--interval takes a number of seconds, not %s", optarg)
			       : EXIT_OK;
	default:
		return EXIT_USAGE;
	}
}

/* The options that this verb takes. */
static void choose_options(unsigned takes, struct option *ret)
{
	static const struct {
		unsigned takes;
		struct option option;
	} all[] = {
		{TAKES_CHOICE, {"engine", required_argument, NULL, 'e'}},
		{TAKES_CHOICE, {"set", required_argument, NULL, 's'}},
		{TAKES_FOREGROUND, {"foreground", no_argument, NULL, 'F'}},
		{TAKES_FOLLOW, {"follow", no_argument, NULL, 'f'}},
		{TAKES_INTERVAL, {"interval", required_argument, NULL, 'i'}},
		{TAKES_JSON, {"json", no_argument, NULL, 'j'}},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if ((takes & all[i].takes) != 0) {
			*ret++ = all[i].option;
		}
	}
	*ret++ = (struct option){"help", no_argument, NULL, 'h'};
	*ret = (struct option){0};
}

static int run_verb(const struct verb *v, int argc, char **argv)
{
	struct policy_args a = {0};
	struct option options[8];
	const char *letters = (v->takes & TAKES_MINUS) != 0 ? "+h" : "h";
	int c;

	choose_options(v->takes, options);
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		if (c == 'h') {
			return print_usage(&cmd_policy);
		}
		int code = take_option(&a, c);
		if (code != EXIT_OK) {
			return code;
		}
	}
	if (argc - optind != v->n_operands) {
		return usage_error(&cmd_policy, "%s takes %s", v->name, v->operands);
	}
	a.operands = argv + optind;
	a.choice.file = a.operands[0];
	return v->run(&a);
}

/* A verb is one word, or two: "map list". */
static const struct verb *find_verb(int argc, char **argv, int *ret_words)
{
	char name[32];

	*ret_words = argc > 2 && strcmp(argv[1], "map") == 0 ? 2 : 1;
	snprintf(name, sizeof(name), "%s%s%s", argv[1], *ret_words > 1 ? " " : "",
		*ret_words > 1 ? argv[2] : "");
	for (size_t i = 0; i < N_VERBS; i++) {
		if (strcmp(name, verbs[i].name) == 0) {
			return &verbs[i];
		}
	}
	return NULL;
}

static int run(int argc, char **argv)
{
	static char name[40];
	int n_words = 0;

	if (argc < 2) {
		return usage_error(
			&cmd_policy, "no verb: check, load, unload, show, stats, log or map");
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		return print_usage(&cmd_policy);
	}
	const struct verb *v = find_verb(argc, argv, &n_words);
	if (v == NULL && strcmp(argv[1], "map") == 0) {
		return usage_error(&cmd_policy, "map takes list, dump, set or del");
	}
	if (v == NULL) {
		return usage_error(&cmd_policy, "no such verb: %s", argv[1]);
	}
	/* The name under which getopt() complains. */
	snprintf(name, sizeof(name), "rubato: policy %s", v->name);
	argv[n_words] = name;
	return run_verb(v, argc - n_words, argv + n_words);
}

const struct command cmd_policy = {
	.name = "policy",
	.summary = "load and inspect policies in eBPF",
	.usage =
		"Usage: rubato policy check FILE [--engine ENGINE] [--set NAME=VALUE]... [--json]\n"
		"       rubato policy load FILE [--engine ENGINE] [--set NAME=VALUE]...\n"
		"                          [--foreground [--json]]\n"
		"       rubato policy unload\n"
		"       rubato policy show [--json]\n"
		"       rubato policy stats [--interval SECONDS] [--json]\n"
		"       rubato policy log [--follow] [--json]\n"
		"       rubato policy map list [--json]\n"
		"       rubato policy map dump NAME [--json]\n"
		"       rubato policy map set NAME KEY VALUE\n"
		"       rubato policy map del NAME KEY\n"
		"\n"
		"A policy is an object file for BPF that decides how programs share the GPUs.\n"
		"`check` needs no daemon and no privilege: it reads FILE, tries each hook, and measures\n"
		"the time of a call. `load` gives FILE to rubatod, which replaces the loaded policy, or\n"
		"keeps it if FILE is refused. `show`, `stats` and `log` tell what the policy does;\n"
		"`map` reads and changes entries of its maps.\n"
		"\n"
		"      --engine ENGINE      kernel, vm, or auto (default): the kernel's if it can be used\n"
		"      --set NAME=VALUE     set a `const volatile` variable; can be repeated\n"
		"      --foreground         stay, print the policy's log, and unload it when interrupted\n"
		"      --interval SECONDS   print what has changed, again and again\n"
		"      --follow             wait for more lines\n"
		"      --json               the same facts as JSON\n"
		"\n"
		"KEY and VALUE are numbers, names of enumerators, or field=value,... for structs; fields\n"
		"that are not named keep their values. rubato-policy(1) has the details.\n"
		"\n"
		"Exit status: 0; 1 if a policy is refused or ejected; 2 wrong usage; 4 no permission.\n",
	.run = run,
};
