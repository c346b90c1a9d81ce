/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a program's queues, and their statistics. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd_kfd.h"
#include "cli/cmd_kfd_times.h"
#include "util/parse.h"
#include "util/time.h"

#define DEFAULT_DURATION_MS 10000u
#define DEFAULT_INTERVAL_MS 1000u
#define MAX_DURATION_MS     (366ull * 24 * 3600 * 1000)
#define MAX_SAMPLES         1000000000u
#define MAX_SHOWN           16u /* ids in a sample's line */

enum form { FORM_TEXT, FORM_JSON, FORM_CSV, FORM_LIVE };

#define FLUSH_NS (100 * RBT_NS_PER_MS)

struct monitor {
	pid_t pid;
	enum form form;
	bool addresses;
	uint64_t duration_ms, interval_ms, start_ns, flushed_ns;
	struct rbt_json json;
	/* Statistics instead of all samples: a day at 100 Hz would not fit. Owned. */
	struct rubato_kfd_stats *stats;
	struct rubato_kfd_snapshot *last;
	struct rubato_kfd *kfd;
	struct rbt_hist took; /* by each snapshot */
};

static void csv_line(const struct monitor *m, const struct rubato_kfd_snapshot *s, uint32_t at)
{
	const struct rubato_kfd_queue *q = &s->queues[at];
	uint64_t pending = 0;

	printf("%.6f,%u,%u,%s,%u", (double)(s->time_ns - m->start_ns) / 1e9, q->id, q->gpu_id,
		rubato_kfd_type_name(q->type), q->ring_size);
	if (q->has_addresses) {
		printf(",0x%" PRIx64 ",0x%" PRIx64 ",%u", q->ring_address, q->save_address,
			q->save_size);
	} else {
		printf(",,,");
	}
	if (q->has_pointers) {
		printf(",%" PRIu64 ",%" PRIu64, q->write_pointer, q->read_pointer);
	} else {
		printf(",,");
	}
	if (rubato_kfd_pending(q, &pending)) {
		printf(",%" PRIu64 "\n", pending);
	} else {
		printf(",\n");
	}
}

static void text_line(const struct monitor *m, const struct rubato_kfd_snapshot *s)
{
	uint64_t packets = 0, pending;
	uint32_t active = 0;

	printf("%8.3f s  %u queue%s:", (double)(s->time_ns - m->start_ns) / 1e9, s->n_queues,
		s->n_queues == 1 ? "" : "s");
	for (uint32_t i = 0; i < s->n_queues; i++) {
		const struct rubato_kfd_queue *q = &s->queues[i];
		if (i < MAX_SHOWN) {
			printf(" %u", q->id);
		}
		if (rubato_kfd_pending(q, &pending)) {
			/* Other queues count words and bytes. */
			packets += q->type == RUBATO_KFD_AQL ? pending : 0;
			active += pending != 0;
		}
	}
	printf("%s", s->n_queues > MAX_SHOWN ? " ..." : "");
	if (m->addresses) {
		printf("  %u active, %" PRIu64 " packets pending", active, packets);
	}
	printf("\n");
}

static void show(struct monitor *m, const struct rubato_kfd_snapshot *s)
{
	switch (m->form) {
	case FORM_TEXT:
		if (m->last == NULL) {
			rubato_kfd_print_snapshot(stdout, s);
		}
		text_line(m, s);
		break;
	case FORM_JSON:
		kfd_json_snapshot(&m->json, NULL, s, m->start_ns, NULL);
		break;
	case FORM_CSV:
		for (uint32_t i = 0; i < s->n_queues; i++) {
			csv_line(m, s, i);
		}
		break;
	default:
		printf("\033[H\033[2J");
		rubato_kfd_print_snapshot(stdout, s);
		text_line(m, s);
		break;
	}
	/* A viewer does not see more than this rate: at 100 Hz, flushing is a fifth of our work. */
	if (s->time_ns - m->flushed_ns >= FLUSH_NS) {
		m->flushed_ns = s->time_ns;
		fflush(stdout);
	}
}

static int on_sample(struct rubato_kfd_snapshot *snap, void *data)
{
	struct monitor *m = data;

	if (m->last == NULL) {
		m->start_ns = snap->time_ns;
	}
	/* A signal has ended the pause before this sample. */
	if (kfd_stop && m->last != NULL) {
		return -EINTR;
	}
	int r = rubato_kfd_stats_add(m->stats, snap);
	if (r < 0) {
		return r;
	}
	struct rubato_kfd_latency latency;
	rubato_kfd_get_latency(m->kfd, &latency);
	rbt_hist_add(&m->took, latency.snapshot_ns);
	show(m, snap);
	rubato_kfd_snapshot_free(m->last);
	m->last = snap;
	return 1;
}

static void advise(const struct rubato_kfd_stats *s)
{
	if (s->max_queues == 0) {
		printf("advice: there was no queue; sample while the program computes\n");
	} else if (s->stable) {
		printf("advice: the queues did not change: their ids can be kept and used again\n");
	} else {
		printf("advice: queues come and go: take a snapshot right before every suspend; "
		       "of the ids below, those that were always there are the safest\n");
	}
}

static void sum_up(struct monitor *m)
{
	struct rubato_kfd_latency latency;

	rubato_kfd_get_latency(m->kfd, &latency);
	if (m->form == FORM_JSON) {
		rbt_json_end(&m->json, ']');
		kfd_json_stats(&m->json, m->stats);
		kfd_json_latency(&m->json, "latency_us", &latency);
		kfd_hist_json(&m->took, &m->json, "snapshot_us");
		rbt_json_end(&m->json, '}');
	} else if (m->form != FORM_CSV) {
		printf("\n");
		rubato_kfd_print_stats(stdout, m->stats);
		latency.snapshot_ns = 0; /* of the last one only */
		rubato_kfd_print_latency(stdout, &latency);
		kfd_hist_print(&m->took, "snapshot");
		advise(m->stats);
		rubato_kfd_print_ids(stdout, m->last, m->stats);
	}
}

static void begin_output(struct monitor *m)
{
	if (m->form == FORM_JSON) {
		rbt_json_init(&m->json, stdout);
		rbt_json_object(&m->json, NULL);
		rbt_json_u64(&m->json, "pid", (uint64_t)m->pid);
		rbt_json_array(&m->json, "samples");
	} else if (m->form == FORM_CSV) {
		printf("time_s,queue,gpu_id,type,ring_size,ring_address,save_address,save_size,"
		       "write_pointer,read_pointer,pending\n");
	}
}

static bool has_gone(const struct monitor *m, struct rubato_kfd *kfd)
{
	struct rubato_kfd_snapshot *snap;
	int r = rubato_kfd_snapshot_take(kfd, m->pid, &snap);

	if (r == 0) {
		rubato_kfd_snapshot_free(snap);
	}
	return r == -ESRCH || r == -ENXIO;
}

/* The first sample is taken before anything is printed, so that an error is one line and nothing
 * else. */
static int watch(struct monitor *m, struct rubato_kfd *kfd)
{
	struct rubato_kfd_snapshot *probe;
	int r = rubato_kfd_snapshot_take(kfd, m->pid, &probe);

	if (r == 0) {
		rubato_kfd_snapshot_free(probe);
		r = rubato_kfd_stats_create(&m->stats);
	}
	if (r < 0) {
		return kfd_failed(&cmd_kfd_monitor, m->pid, r);
	}
	begin_output(m);
	r = rubato_kfd_monitor(kfd, m->pid, (double)m->duration_ms / 1e3,
		(double)m->interval_ms / 1e3, on_sample, m);
	if (m->last == NULL) {
		return kfd_failed(&cmd_kfd_monitor, m->pid, r < 0 ? r : -ESRCH);
	}
	sum_up(m);
	/* Sampling ended early: there is nothing left to sample. */
	if (r == 0 && !kfd_stop && has_gone(m, kfd)) {
		fflush(stdout);
		kfd_say_end(&cmd_kfd_monitor, m->pid);
	}
	return r < 0 && r != -EINTR ? kfd_failed(&cmd_kfd_monitor, m->pid, r) : EXIT_OK;
}

/* 0 means until the tool is interrupted or the program ends, as in the library. */
static int parse_duration(const char *text, uint64_t *ret_ms)
{
	if (strspn(text, "0.") == strlen(text) && strchr(text, '0') != NULL) {
		*ret_ms = 0;
		return 0;
	}
	return rbt_parse_seconds(text, MAX_DURATION_MS, ret_ms);
}

static int take_times(struct monitor *m, int argc, char **argv)
{
	if (optind >= argc) {
		return usage_error(&cmd_kfd_monitor, "no process named");
	}
	if (argc - optind > 3) {
		return usage_error(&cmd_kfd_monitor, "unexpected argument: %s", argv[optind + 3]);
	}
	if (optind + 1 < argc && parse_duration(argv[optind + 1], &m->duration_ms) < 0) {
		return usage_error(&cmd_kfd_monitor, "a duration is a number of seconds, not %s",
			argv[optind + 1]);
	}
	if (optind + 2 < argc &&
		rbt_parse_seconds(argv[optind + 2], MAX_DURATION_MS, &m->interval_ms) < 0) {
		return usage_error(&cmd_kfd_monitor, "an interval is a number of seconds, not %s",
			argv[optind + 2]);
	}
	if (m->duration_ms / m->interval_ms > MAX_SAMPLES) {
		return usage_error(
			&cmd_kfd_monitor, "that would be more than %u samples", MAX_SAMPLES);
	}
	return kfd_take_pid(&cmd_kfd_monitor, argv[optind], &m->pid);
}

int kfd_monitor(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"csv", no_argument, NULL, 'c'},
		{"live", no_argument, NULL, 'l'},
		{"addresses", no_argument, NULL, 'a'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct monitor m = {.duration_ms = DEFAULT_DURATION_MS, .interval_ms = DEFAULT_INTERVAL_MS};
	struct rubato_kfd *kfd;
	int c, n_forms = 0;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'j':
		case 'c':
		case 'l':
			n_forms++;
			m.form = c == 'j' ? FORM_JSON : c == 'c' ? FORM_CSV : FORM_LIVE;
			break;
		case 'a':
			m.addresses = true;
			break;
		case 'h':
			fputs(cmd_kfd.usage, stdout);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	int code = n_forms > 1 ? usage_error(&cmd_kfd_monitor, "one of --json, --csv and --live")
			       : take_times(&m, argc, argv);
	if (code == EXIT_OK) {
		code = kfd_begin(&cmd_kfd_monitor, m.pid, m.addresses, &kfd);
	}
	if (code != EXIT_OK) {
		return code;
	}
	m.kfd = kfd;
	code = watch(&m, kfd);
	rubato_kfd_close(kfd);
	rubato_kfd_stats_free(m.stats);
	rubato_kfd_snapshot_free(m.last);
	return code;
}

const struct command cmd_kfd_monitor = {.name = "kfd monitor", .run = kfd_monitor};
