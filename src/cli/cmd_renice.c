/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"
#include "sched/class.h"

/* A running program cannot change its group. */
#define KEYS (RBT_TREAT_ALL & ~RBT_TREAT_BIT(GROUP))

static int renice_one(pid_t pid, const void *data)
{
	const struct rbt_treatment *t = data;
	struct rbt_msg_renice msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RENICE},
		.pid = pid,
		.treat = *t,
	};
	struct rbt_msg_result result;
	char text[RBT_TREAT_TEXT_MAX];

	int code = target_request(pid, &msg, sizeof(msg), &result);
	if (code != EXIT_OK) {
		return code;
	}
	rbt_treatment_describe(
		t, ~(RBT_TREAT_BIT(PRIORITY) | RBT_TREAT_BIT(FORCE)), text, sizeof(text));
	printf("%d: %s, priority %u%s%s%s\n", (int)pid,
		rbt_class_name(rbt_class_of(result.priority)), result.priority, text,
		result.text[0] != '\0' ? "; " : "", result.text);
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	static const struct option more[] = {{"help", no_argument, NULL, 'h'}, {0}};
	struct option options[TREAT_OPTIONS_MAX];
	struct rbt_treatment t = RBT_TREATMENT_INIT;
	int c;

	if (nice_habit(&cmd_renice, argc, argv) != EXIT_OK) {
		return EXIT_USAGE;
	}
	treat_options(KEYS, more, options);
	while ((c = getopt_long(argc, argv, TREAT_LETTERS "h", options, NULL)) != -1) {
		if (c == 'h') {
			return print_usage(&cmd_renice);
		}
		if (c == '?' || treat_option(&cmd_renice, &t, c, optarg) != 0) {
			return EXIT_USAGE;
		}
	}
	rbt_treatment_settle(&t);
	if (((t.said | t.reset) & ~RBT_TREAT_BIT(FORCE)) == 0) {
		return usage_error(&cmd_renice,
			"give one of --class, --priority, --timeslice-us, --weight, "
			"--max-reserve-ms, --min-share, --memory or --park-idle-s");
	}
	/* A new priority brings its own slice. */
	if ((t.said & (RBT_TREAT_BIT(PRIORITY) | RBT_TREAT_BIT(TIMESLICE))) ==
		RBT_TREAT_BIT(PRIORITY)) {
		t.reset |= RBT_TREAT_BIT(TIMESLICE);
	}
	return target_each(&cmd_renice, argc, argv, renice_one, &t);
}

const struct command cmd_renice = {
	.name = "renice",
	.summary = "change the class of programs that are running",
	.usage =
		"Usage: rubato renice PID... (--class CLASS | --priority N | --timeslice-us N |\n"
		"                             --weight N | --max-reserve-ms N | --min-share PERCENT |\n"
		"                             --memory SIZE | --park-idle-s S)\n"
		"\n"
		"Changes how running programs share the GPU. Programs started with `rubato run` need\n"
		"no privilege; others need ptrace rights over them (root, or the same user if\n"
		"kernel.yama.ptrace_scope is 0). If one change is refused, nothing is changed.\n"
		"\n"
		"  -c, --class CLASS        latency, normal or best-effort\n"
		"  -p, --priority N         0 (lowest) to 15 (highest)\n"
		"  -t, --timeslice-us N     an exact timeslice, 1 to 1000000; alone, it keeps the\n"
		"                           priority. A new priority brings its own timeslice\n"
		"  -w, --weight N           its share of the turns at equal priority, 1 to 1000\n"
		"      --max-reserve-ms N   how long it may keep others off without being idle, or default\n"
		"      --min-share PERCENT  its least share of the GPU while others are busy, or default\n"
		"      --memory SIZE        how much memory its run may have on each GPU, or default: no limit\n"
		"      --park-idle-s S      park it after S seconds without any CUDA call, or default: never.\n"
		"                           Only if it was started with this option\n"
		"      --force              write to an unknown driver even if its trial failed\n"
		"\n"
		"Several best-effort programs on one GPU take turns, one at a time, because programs with\n"
		"short slices slow each other down if they run together.\n",
	.run = run,
};
