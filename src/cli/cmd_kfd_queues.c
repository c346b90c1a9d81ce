/* SPDX-License-Identifier: Apache-2.0 */
/* Lists a program's queues once. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "backend/amd/analyse.h"
#include "cli/cmd_kfd.h"
#include "cli/cmd_kfd_times.h"
#include "util/log.h"

/* What the daemon knows of the queue. A dash means unknown. */
static void print_known(FILE *out, const struct rubato_kfd_queue *q, const void *data)
{
	const struct kfd_known *known = data;
	const struct rbt_task_state *t = kfd_known_find(known, q->id);
	const char *state = t != NULL ? kfd_known_state(known, t) : "-";
	char priority[16] = "-", percentage[16] = "-";

	if (t != NULL && (t->task.valid & RBT_TASK_HAS_SETTINGS) != 0) {
		snprintf(priority, sizeof(priority), "%u", t->task.own_priority);
		snprintf(percentage, sizeof(percentage), "%u", t->task.own_percentage);
	}
	fprintf(out, "  %8s  %7s  %-9s  %-3s", priority, percentage,
		strcmp(state, "suspended") == 0 ? "yes"
		: strcmp(state, "running") == 0 ? "no"
						: state,
		!q->has_addresses ? "-"
		: q->is_new       ? "yes"
				  : "no");
}

static void print_queues(const struct rubato_kfd_snapshot *snap, const struct kfd_known *known)
{
	struct rbt_amd_columns more = {.heading = "  PRIORITY  PERCENT  SUSPENDED  NEW",
		.print = print_known,
		.data = known};

	rbt_amd_print_queues(stdout, snap, &more);
}

static int show(
	const struct rubato_kfd_snapshot *snap, const struct rubato_kfd_latency *latency, bool json)
{
	static struct kfd_known known;
	struct rubato_kfd_stats *stats;
	struct rbt_json j;
	int r = rubato_kfd_analyse(&(const struct rubato_kfd_snapshot *){snap}, 1, &stats);

	if (r < 0) {
		return kfd_failed(&cmd_kfd_queues, snap->pid, r);
	}
	kfd_known_read(snap->pid, &known);
	if (json) {
		rbt_json_init(&j, stdout);
		rbt_json_object(&j, NULL);
		rbt_json_u64(&j, "pid", (uint64_t)snap->pid);
		kfd_json_snapshot(&j, "snapshot", snap, snap->time_ns, &known);
		kfd_json_stats(&j, stats);
		kfd_json_latency(&j, "latency_us", latency);
		rbt_json_end(&j, '}');
	} else {
		print_queues(snap, &known);
		rubato_kfd_print_latency(stdout, latency);
		if (snap->n_queues > 0) {
			rubato_kfd_print_stats(stdout, stats);
			rubato_kfd_print_ids(stdout, snap, stats);
		}
	}
	rubato_kfd_stats_free(stats);
	return EXIT_OK;
}

int kfd_queues(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"addresses", no_argument, NULL, 'a'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct rubato_kfd_snapshot *snap;
	struct rubato_kfd_latency latency;
	struct rubato_kfd *kfd;
	bool json = false, addresses = false;
	pid_t pid;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = true;
			break;
		case 'a':
			addresses = true;
			break;
		case 'h':
			fputs(cmd_kfd.usage, stdout);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind != argc - 1) {
		return usage_error(&cmd_kfd_queues,
			optind == argc ? "no process named" : "one process at a time");
	}
	int code = kfd_take_pid(&cmd_kfd_queues, argv[optind], &pid);
	if (code == EXIT_OK) {
		code = kfd_begin(&cmd_kfd_queues, pid, addresses, &kfd);
	}
	if (code != EXIT_OK) {
		return code;
	}
	int r = rubato_kfd_snapshot_take(kfd, pid, &snap);
	rubato_kfd_get_latency(kfd, &latency);
	code = r < 0 ? kfd_failed(&cmd_kfd_queues, pid, r) : show(snap, &latency, json);
	if (r == 0) {
		rubato_kfd_snapshot_free(snap);
	}
	rubato_kfd_close(kfd);
	return code;
}

const struct command cmd_kfd_queues = {.name = "kfd queues", .run = kfd_queues};
