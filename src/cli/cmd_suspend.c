/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"
#include "util/parse.h"

#define MAX_FOR_MS (366ull * 24 * 3600 * 1000)

static int suspend_one(pid_t pid, const void *data)
{
	struct rbt_msg_suspend msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_SUSPEND},
		.pid = pid,
		.for_ms = *(const uint64_t *)data,
	};
	struct rbt_msg_result result;

	return target_request(pid, &msg, sizeof(msg), &result);
}

static int resume_one(pid_t pid, const void *data)
{
	struct rbt_msg_pid msg = {
		.h = {.magic = RBT_PROTOCOL_MAGIC, .type = RBT_MSG_RESUME}, .pid = pid};
	struct rbt_msg_result result;

	return target_request(pid, &msg, sizeof(msg), &result);
}

static int run_suspend(int argc, char **argv)
{
	static const struct option options[] = {
		{"for", required_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	uint64_t for_ms = 0;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'f':
			if (rbt_parse_seconds(optarg, MAX_FOR_MS, &for_ms) < 0) {
				return usage_error(&cmd_suspend,
					"--for takes a number of seconds, not %s", optarg);
			}
			break;
		case 'h':
			fputs(cmd_suspend.usage, stdout);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	return target_each(&cmd_suspend, argc, argv, suspend_one, &for_ms);
}

static int run_resume(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 'h') {
			return EXIT_USAGE;
		}
		fputs(cmd_resume.usage, stdout);
		return EXIT_OK;
	}
	return target_each(&cmd_resume, argc, argv, resume_one, NULL);
}

const struct command cmd_suspend = {
	.name = "suspend",
	.summary = "take programs off the GPU",
	.usage =
		"Usage: rubato suspend PID... [--for SECONDS]\n"
		"\n"
		"Takes every task of the programs off the GPU, in the middle of a kernel if need be;\n"
		"nothing is lost or run twice. Their CPU side goes on until it waits for the GPU.\n"
		"Returns at once. rubatod keeps them suspended; if it ends, they run again.\n"
		"\n"
		"      --for SECONDS        resume by itself after this long (fractions allowed)\n",
	.run = run_suspend,
};

const struct command cmd_resume = {
	.name = "resume",
	.summary = "let suspended programs run again",
	.usage =
		"Usage: rubato resume PID...\n"
		"\n"
		"Lets programs use the GPU again, whichever tool suspended them; also restores programs\n"
		"that a killed scheduler left suspended or changed.\n",
	.run = run_resume,
};
