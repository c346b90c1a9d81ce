/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"
#include "sched/class.h"

struct wish {
	struct niceness n;
	bool force;
};

static void print_limits(const struct rbt_limits *said)
{
	uint32_t ms = said->max_reserve_ms, share = said->min_share_permille;

	if (ms == RBT_LIMIT_DEFAULT) {
		printf(", default max-reserve-ms");
	} else if (ms != 0) {
		printf(", max-reserve-ms %u", ms);
	}
	if (share == RBT_LIMIT_DEFAULT) {
		printf(", default min-share");
	} else if (share != 0) {
		share = share == RBT_SHARE_NONE ? 0 : share;
		printf(", min-share %u.%u %%", share / 10, share % 10);
	}
}

static int renice_one(pid_t pid, const void *data)
{
	const struct wish *w = data;
	const struct niceness *n = &w->n;
	struct rbt_msg_renice msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RENICE},
		.pid = pid,
		.priority =
			n->has_class || n->has_priority ? (uint32_t)n->priority : RBT_PRIORITY_KEEP,
		.force = w->force,
		.weight = (uint32_t)n->weight,
		.timeslice_us = n->timeslice_us,
		.limits = n->limits,
	};
	struct rbt_msg_result result;

	int code = target_request(pid, &msg, sizeof(msg), &result);
	if (code != EXIT_OK) {
		return code;
	}
	printf("%d: %s, priority %u", (int)pid, rbt_class_name(rbt_class_of(result.priority)),
		result.priority);
	if (n->has_timeslice) {
		printf(", timeslice %u us", (unsigned)n->timeslice_us);
	}
	if (n->has_weight) {
		printf(", weight %u", (unsigned)n->weight);
	}
	print_limits(&n->limits);
	printf("%s%s\n", result.text[0] != '\0' ? "; " : "", result.text);
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {
		NICENESS_OPTIONS,
		{"force", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct wish w = {0};
	int c;

	while ((c = getopt_long(argc, argv, NICENESS_LETTERS "h", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(cmd_renice.usage, stdout);
			return EXIT_OK;
		}
		if (c == '?') {
			return EXIT_USAGE;
		}
		if (c == 'f') {
			w.force = true;
		} else if (niceness_parse(&cmd_renice, &w.n, c, optarg) != 0) {
			return EXIT_USAGE;
		}
	}
	if (niceness_settle(&cmd_renice, &w.n) != 0) {
		return EXIT_USAGE;
	}
	if (!w.n.has_class && !w.n.has_priority && !w.n.has_timeslice && !w.n.has_weight &&
		w.n.limits.max_reserve_ms == 0 && w.n.limits.min_share_permille == 0) {
		return usage_error(&cmd_renice,
			"say what to: --class, --priority, --timeslice-us, --weight, "
			"--max-reserve-ms or --min-share");
	}
	return target_each(&cmd_renice, argc, argv, renice_one, &w);
}

const struct command cmd_renice = {
	.name = "renice",
	.summary = "change the class of programs that are running",
	.usage =
		"Usage: rubato renice PID... (--class CLASS | --priority N | --timeslice-us N |\n"
		"                             --weight N | --max-reserve-ms N | --min-share PERCENT)\n"
		"\n"
		"Changes how running programs share the GPU. Programs started with `rubato run` need\n"
		"no privilege; others need ptrace rights over them (root, or the same user where\n"
		"kernel.yama.ptrace_scope is 0). Fails as a whole: what is refused changes nothing.\n"
		"\n"
		"  -c, --class CLASS        latency, normal or best-effort\n"
		"  -p, --priority N         0 (lowest) to 15 (highest)\n"
		"  -t, --timeslice-us N     an exact timeslice, 1 to 1000000; alone, it keeps the\n"
		"                           priority. Without it, the timeslice is the priority's\n"
		"  -w, --weight N           its share of the turns, 1 to 1000; alone, it keeps all else\n"
		"      --max-reserve-ms N   how long it may keep others off while it never idles, or default\n"
		"      --min-share PERCENT  what it gets at least, however busy others are; or default\n"
		"      --force              write to a driver that is not known even if its trial failed\n"
		"\n"
		"Several best-effort programs on one GPU take turns, one at a time: together, their short\n"
		"slices would make them thrash.\n",
	.run = run,
};
