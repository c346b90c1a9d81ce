/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "util/parse.h"

#define MAX_FOR_MS (366ull * 24 * 3600 * 1000)

struct order {
	uint64_t for_ms;
	uint32_t n_queues; /* 0: the whole program */
	uint32_t queues[RBT_RECORD_MAX_TASKS];
};

static int change_queues(pid_t pid, const struct order *o, uint32_t type)
{
	struct rbt_msg_queues msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = type},
		.pid = pid,
		.n = o->n_queues,
		.for_ms = o->for_ms,
	};
	struct rbt_msg_result result;

	memcpy(msg.ids, o->queues, sizeof(msg.ids));
	return target_request(pid, &msg, sizeof(msg), &result);
}

static int suspend_one(pid_t pid, const void *data)
{
	const struct order *o = data;
	struct rbt_msg_suspend msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_SUSPEND},
		.pid = pid,
		.for_ms = o->for_ms,
	};
	struct rbt_msg_result result;

	return o->n_queues > 0 ? change_queues(pid, o, RBT_MSG_SUSPEND_QUEUES)
			       : target_request(pid, &msg, sizeof(msg), &result);
}

static int resume_one(pid_t pid, const void *data)
{
	const struct order *o = data;
	struct rbt_msg_pid msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESUME}, .pid = pid};
	struct rbt_msg_result result;

	return o->n_queues > 0 ? change_queues(pid, o, RBT_MSG_RESUME_QUEUES)
			       : target_request(pid, &msg, sizeof(msg), &result);
}

/* Takes the value of --queue: one number, or several with commas between them. */
static int take_queues(const struct command *cmd, struct order *o, char *text)
{
	char *at = NULL;

	for (char *word = strtok_r(text, ",", &at); word != NULL; word = strtok_r(NULL, ",", &at)) {
		uint64_t id = 0;
		if (rbt_parse_u64(word, 0, UINT32_MAX, &id) < 0) {
			return usage_error(
				cmd, "--queue takes the number of a queue, not %s", word);
		}
		if (o->n_queues == RBT_RECORD_MAX_TASKS) {
			return usage_error(
				cmd, "--queue takes %d numbers at most", RBT_RECORD_MAX_TASKS);
		}
		o->queues[o->n_queues++] = (uint32_t)id;
	}
	return o->n_queues > 0 ? EXIT_OK : usage_error(cmd, "--queue takes the number of a queue");
}

static int take_option(const struct command *cmd, struct order *o, int c)
{
	switch (c) {
	case 'f':
		return rbt_parse_seconds(optarg, MAX_FOR_MS, &o->for_ms) < 0
			       ? usage_error(cmd,
					 "--for takes a time such as 90, 1.5m or 2h, not %s",
					 optarg)
			       : EXIT_OK;
	case 'q':
		return take_queues(cmd, o, optarg);
	default:
		return EXIT_USAGE;
	}
}

static int run(const struct command *cmd, const struct option *options,
	int (*fn)(pid_t pid, const void *data), int argc, char **argv)
{
	struct order o = {0};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h') {
			return print_usage(cmd);
		}
		int code = take_option(cmd, &o, c);
		if (code != EXIT_OK) {
			return code;
		}
	}
	/* Every program counts its queues from 0. */
	if (o.n_queues > 0 && argc - optind > 1) {
		return usage_error(cmd, "--queue is about one process at a time");
	}
	return target_each(cmd, argc, argv, fn, &o);
}

static int run_suspend(int argc, char **argv)
{
	static const struct option options[] = {
		{"for", required_argument, NULL, 'f'},
		{"queue", required_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	return run(&cmd_suspend, options, suspend_one, argc, argv);
}

static int run_resume(int argc, char **argv)
{
	static const struct option options[] = {
		{"queue", required_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};

	return run(&cmd_resume, options, resume_one, argc, argv);
}

const struct command cmd_suspend = {
	.name = "suspend",
	.summary = "take programs off the GPU",
	.usage =
		"Usage: rubato suspend PID... [--for TIME]\n"
		"       rubato suspend PID --queue ID... [--for TIME]\n"
		"\n"
		"Takes every task of the programs off the GPU, in the middle of a kernel if need be;\n"
		"nothing is lost or run twice. Their CPU side goes on until it waits for the GPU.\n"
		"Returns at once. rubatod keeps them suspended; if it ends, they run again.\n"
		"\n"
		"      --for TIME           resume by itself after this long: 90 (seconds), 1.5m, 2h\n"
		"      --queue ID           only this queue of an AMD program; can be repeated\n",
	.run = run_suspend,
};

const struct command cmd_resume = {
	.name = "resume",
	.summary = "let suspended programs run again",
	.usage =
		"Usage: rubato resume PID...\n"
		"       rubato resume PID --queue ID...\n"
		"\n"
		"Lets programs use the GPU again, whichever tool suspended them, with all their queues;\n"
		"also restores programs that a killed scheduler left suspended or changed.\n"
		"\n"
		"      --queue ID           only this queue of an AMD program; can be repeated\n",
	.run = run_resume,
};
