/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"
#include "util/parse.h"
#include "util/proc.h"
#include "util/runtime.h"

/* What libcuda makes for one context, and the test program after it: a compute task with 8
 * channels, three copy tasks with 4 each. */
#define TARGET_TASKS    4
#define TARGET_CHANNELS 20
#define LINGER_MS       3000

static const char usage[] =
	"usage: conformance BACKEND [--pid PID | --target PROGRAM] [--state COMMAND]\n"
	"                   [--shim LIBRARY] [--tasks N] [--channels N]\n"
	"  --pid PID         look at this program (any that uses the device)\n"
	"  --target PROGRAM  start this one; without either, rmclient from beside this program\n"
	"  --shim LIBRARY    take the records that this sends from inside the target\n"
	"  --state COMMAND   what prints the software GPU's state as JSON; never on hardware\n"
	"  --tasks, --channels  how many of them the program has\n";

enum { OPT_PID = 256, OPT_TARGET, OPT_SHIM, OPT_STATE, OPT_TASKS, OPT_CHANNELS };

static int parse_number(const char *text, uint64_t max, uint64_t *ret)
{
	return rbt_parse_u64(text, 1, max, ret) == 0 ? 0 : -EINVAL;
}

static const struct rbt_backend *find_backend(const char *name)
{
	for (size_t i = 0; rbt_backends[i] != NULL; i++) {
		if (strcmp(rbt_backends[i]->name, name) == 0) {
			return rbt_backends[i];
		}
	}
	return NULL;
}

static int parse_options(int argc, char **argv, struct options *opt)
{
	static const struct option longs[] = {
		{"pid", required_argument, NULL, OPT_PID},
		{"target", required_argument, NULL, OPT_TARGET},
		{"shim", required_argument, NULL, OPT_SHIM},
		{"state", required_argument, NULL, OPT_STATE},
		{"tasks", required_argument, NULL, OPT_TASKS},
		{"channels", required_argument, NULL, OPT_CHANNELS},
		{0},
	};
	uint64_t pid = 0;
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case OPT_PID:
			r = parse_number(optarg, 0x7fffffff, &pid);
			break;
		case OPT_TARGET:
			opt->target = optarg;
			break;
		case OPT_SHIM:
			opt->shim = optarg;
			break;
		case OPT_STATE:
			opt->state = optarg;
			break;
		case OPT_TASKS:
			r = parse_number(optarg, RBT_RECORD_MAX_TASKS, &opt->tasks);
			break;
		case OPT_CHANNELS:
			r = parse_number(optarg, RBT_RECORD_MAX_CHANNELS, &opt->channels);
			break;
		default:
			r = -EINVAL;
		}
	}
	opt->pid = (pid_t)pid;
	if (r < 0 || optind != argc - 1 || (opt->pid != 0 && opt->target != NULL)) {
		return -EINVAL;
	}
	opt->backend = find_backend(argv[optind]);
	return opt->backend != NULL ? 0 : -EINVAL;
}

static void run_checks(struct context *ctx)
{
	check_discover(ctx);
	if (ctx->n_records > 0) {
		check_timeslice(ctx);
		check_suspend(ctx);
		check_suspend_task(ctx);
		check_interleave(ctx);
		check_preempt(ctx);
		check_stats(ctx);
		check_errors(ctx);
	}
	free_records(ctx->records, ctx->n_records);
	ctx->records = NULL;
	ctx->n_records = 0;
	check_many_channels(ctx);
	check_exit_while_discovering(ctx);
}

int main(int argc, char **argv)
{
	struct context ctx = {0};
	char beside[4096];

	if (parse_options(argc, argv, &ctx.opt) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (ctx.opt.pid == 0 && ctx.opt.target == NULL) {
		if (rbt_sibling_path("rmclient", ".", beside, sizeof(beside)) < 0) {
			fputs("conformance: there is no rmclient beside this program\n", stderr);
			return 2;
		}
		ctx.opt.target = beside;
		ctx.opt.tasks = ctx.opt.tasks != 0 ? ctx.opt.tasks : TARGET_TASKS;
		ctx.opt.channels = ctx.opt.channels != 0 ? ctx.opt.channels : TARGET_CHANNELS;
	}
	size_t before = open_fds();
	check_probe(&ctx);
	if (ctx.opt.shim != NULL) {
		check_shim(&ctx);
		return failures() > 0;
	}
	ctx.pid = ctx.opt.pid != 0 ? ctx.opt.pid : target_start(ctx.opt.target, NULL, NULL);
	if (ctx.pid < 0) {
		fail("start", "%s: %s", ctx.opt.target, strerror(-ctx.pid));
		return 1;
	}
	ctx.pidfd = rbt_pidfd_open(ctx.pid);
	if (ctx.pidfd < 0) {
		fail("start", "pid %d: %s", (int)ctx.pid, strerror(-ctx.pidfd));
	} else {
		run_checks(&ctx);
		close(ctx.pidfd);
	}
	if (ctx.opt.pid == 0) {
		target_stop(ctx.pid);
	}
	/* What a backend keeps for the next call, it does not keep for ever. */
	for (int i = 0; i < LINGER_MS && open_fds() > before; i++) {
		usleep(1000);
	}
	expect("suite-leaks-no-fd", (int)open_fds() - (int)before, 0);
	return failures() > 0;
}
