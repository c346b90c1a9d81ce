/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms, accounts of programs, and the text they are told in. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "daemon/metrics/account.h"
#include "daemon/metrics/metrics.h"

#define MS UINT64_C(1000000)

static void test_hist(void)
{
	struct rbt_hist h = {0};

	CHECK_INT(rbt_hist_quantile_ns(&h, 500), 0);
	CHECK_INT(rbt_hist_bucket(0), 0);
	CHECK_INT(rbt_hist_bucket(999), 0);
	CHECK_INT(rbt_hist_bucket(1000), 1);
	CHECK_INT(rbt_hist_bucket(1999), 1);
	CHECK_INT(rbt_hist_bucket(2000), 2);
	CHECK_INT(rbt_hist_bucket(485 * 1000), rbt_hist_bucket(511 * 1000));
	CHECK_INT(rbt_hist_bucket(512 * 1000), rbt_hist_bucket(511 * 1000) + 1);
	CHECK_INT(rbt_hist_bucket(UINT64_MAX), RBT_HIST_BUCKETS - 1);
	for (uint32_t i = 0; i < RBT_HIST_BUCKETS; i++) {
		uint64_t from_ns = rbt_hist_begin_ns(i), to_ns = rbt_hist_begin_ns(i + 1);

		CHECK_INT(rbt_hist_bucket(from_ns), i);
		CHECK_INT(rbt_hist_bucket(to_ns - 1), i);
		CHECK(to_ns - from_ns <= 1000 || (to_ns - from_ns) * 8 <= from_ns);
	}
	CHECK_INT(rbt_hist_begin_ns(RBT_HIST_BUCKETS), 1000 * (INT64_C(1) << RBT_HIST_OCTAVES));
	for (int i = 0; i < 99; i++) {
		rbt_hist_add(&h, 3000);
	}
	rbt_hist_add(&h, 70000);
	CHECK_INT(rbt_hist_count(&h), 100);
	CHECK_INT(h.sum_ns, 99 * 3000 + 70000);
	CHECK_INT(h.max_ns, 70000);
	CHECK_INT(rbt_hist_quantile_ns(&h, 500), 3000 + 1000 * 50 / 99);
	CHECK_INT(rbt_hist_quantile_ns(&h, 990), 4000);
	CHECK_INT(rbt_hist_quantile_ns(&h, 991), 70000); /* not the end of its bucket, 72 us */
	CHECK_INT(rbt_hist_count_before(&h, rbt_hist_bucket(64000)), 99);
	CHECK_INT(rbt_hist_count_before(&h, rbt_hist_bucket(128000)), 100);
	CHECK_INT(rbt_hist_quantile_ns(&h, 1000), 70000);
	rbt_hist_add(&h, UINT64_C(1) << 60);
	CHECK_INT(rbt_hist_quantile_ns(&h, 1000), INT64_C(1) << 60);
}

/* Durations that differ have different quantiles, and each is an eighth off at most. */
static void test_quantiles(void)
{
	for (uint64_t us = 100; us < 10000000; us *= 3) {
		struct rbt_hist h = {0}, same = {0};

		for (uint64_t i = 0; i < 100; i++) {
			rbt_hist_add(&h, us * 1000 * (100 + i) / 100);
			rbt_hist_add(&same, us * 1000);
		}
		uint64_t p50_ns = rbt_hist_quantile_ns(&h, 500);
		uint64_t p99_ns = rbt_hist_quantile_ns(&h, 990);

		CHECK(p50_ns >= us * 1313 && p50_ns <= us * 1688); /* 1500 */
		CHECK(p99_ns > p50_ns && p99_ns <= h.max_ns && h.max_ns == us * 1990);
		CHECK(rbt_hist_quantile_ns(&same, 500) >= us * 875);
		CHECK_INT(rbt_hist_quantile_ns(&same, 1000), us * 1000);
	}
	/* The two samples of a report in which p50 was the maximum. */
	struct rbt_hist two = {0};
	rbt_hist_add(&two, 209000);
	rbt_hist_add(&two, 485000);
	CHECK(rbt_hist_quantile_ns(&two, 500) <= 224000 && two.max_ns == 485000);
}

static void test_offs(void)
{
	struct account a;

	account_start(&a, 5 * MS);
	CHECK(!account_set_off(&a, false, false, true, 6 * MS));
	/* Idle when it was taken off: nothing was taken from it, but it is let on again. */
	CHECK(!account_set_off(&a, false, true, false, 7 * MS));
	CHECK(!account_set_off(&a, true, true, true, 8 * MS));
	CHECK(account_set_off(&a, true, false, true, 9 * MS));
	CHECK_INT(a.n_preemptions, 0);
	CHECK_INT(rbt_hist_count(&a.off), 0);
	CHECK(!account_set_off(&a, false, true, true, 10 * MS));
	CHECK(!account_set_off(&a, true, true, false, 11 * MS)); /* said again */
	CHECK(account_set_off(&a, true, false, false, 90 * MS));
	CHECK_INT(a.n_preemptions, 1);
	CHECK_INT(rbt_hist_count(&a.off), 1);
	CHECK_INT(a.off.sum_ns, 80 * MS);
}

static struct account_step sample(
	struct account *a, struct rbt_board *b, uint64_t now_ns, uint64_t on_ns)
{
	struct rbt_sched_stats stats = {
		.on_ns = on_ns, .reserved_ns = on_ns / 2, .kept_off_ns = on_ns / 5};

	return account_sample(a, &stats, true, b, now_ns);
}

static struct rbt_board *make_board(void)
{
	struct rbt_board *b = aligned_alloc(64, sizeof(*b));

	memset(b, 0, sizeof(*b));
	rbt_board_init(b);
	b->n_used = 1;
	return b;
}

static void test_used(void)
{
	struct rbt_board *b = make_board();
	struct account a;

	account_start(&a, 1000 * MS);
	account_begin_board(&a, b, 1000 * MS);
	/* Never seen to be idle by the core: judged by what it does at the moment of looking. */
	b->slots[0].n[RBT_BOARD_LAUNCH] = 10;
	CHECK_INT(sample(&a, b, 1250 * MS, 250 * MS).used_ns, 250 * MS);
	CHECK_INT(a.used_ns, 250 * MS);
	CHECK_INT(sample(&a, b, 1500 * MS, 500 * MS).used_ns, 0);
	CHECK_INT(a.used_ns, 250 * MS);
	b->slots[0].in_sync = 1;
	CHECK_INT(sample(&a, b, 1750 * MS, 750 * MS).used_ns, 250 * MS);
	b->slots[0].in_sync = 0;
	/* The core follows it: its word is taken, also while it is idle. */
	struct account_step step = sample(&a, b, 2000 * MS, 790 * MS);
	CHECK_INT(step.used_ns, 40 * MS);
	CHECK_INT(step.reserved_ns, 20 * MS);
	/* Too soon to tell; the next look has it all. */
	CHECK_INT(a.waited_ns, 158 * MS);
	CHECK_INT(sample(&a, b, 2000 * MS + 1000, 790 * MS + 1000).used_ns, 0);
	CHECK_INT(a.waited_ns, 158 * MS); /* as of the same time as used_ns */
	CHECK_INT(sample(&a, b, 2250 * MS, 800 * MS).used_ns, 10 * MS);
	CHECK_INT(a.used_ns, 550 * MS);
	/* Not known: nothing is made up. */
	struct rbt_sched_stats stats = {.on_ns = 1000 * MS};
	CHECK_INT(account_sample(&a, &stats, false, NULL, 2450 * MS).used_ns, 0);

	struct rbt_program_account out;
	account_fill(&a, false, 3000 * MS, &out);
	CHECK_INT(out.valid, RBT_ACCOUNT_HAS_SUBMISSIONS);
	CHECK_INT(out.known_ns, 2000 * MS);
	account_fill(&a, true, 3000 * MS, &out);
	CHECK_INT(out.valid, RBT_ACCOUNT_HAS_SUBMISSIONS | RBT_ACCOUNT_HAS_USED);
	free(b);
}

/* What a board counted before it was ours does not count. */
static void test_board(struct account *a, struct rbt_board *b)
{
	struct rbt_program_account out;

	account_start(a, 1000 * MS);
	account_fill(a, false, 1000 * MS, &out);
	CHECK_INT(out.valid, 0);
	b->slots[0].n[RBT_BOARD_COPY] = 100;
	b->n_requests = 7;
	b->lengths.n[3] = 7;
	b->lengths.max_ns = 700 * MS; /* before our time */
	b->request_ns = 1000 * MS;
	account_begin_board(a, b, 1000 * MS);
	account_fill(a, true, 1001 * MS, &out);
	CHECK_INT(out.n_submissions, 0);
	CHECK_INT(out.valid & RBT_ACCOUNT_HAS_REQUESTS, 0);

	b->slots[0].n[RBT_BOARD_COPY] = 103;
	b->n_requests = 10;
	b->n_late = 1;
	rbt_board_add_length(b, 3000);
	rbt_board_add_length(b, 20 * MS);
	rbt_board_add_length(b, 38 * MS);
	sample(a, b, 1100 * MS, 0);
	account_fill(a, true, 1100 * MS, &out);
	CHECK_INT(out.n_submissions, 3);
	CHECK_INT(out.n_requests_late, 1);
	CHECK_INT(rbt_hist_count(&out.request), 3);
	CHECK_INT(out.request.n[3], 1);
	CHECK_INT(out.request.n[rbt_hist_bucket(20 * MS)], 1);
	CHECK_INT(out.request.sum_ns, 58 * MS + 3000);
	/* The end of its bucket: the board's longest is another one. */
	CHECK_INT(out.request.max_ns, rbt_hist_begin_ns(rbt_hist_bucket(38 * MS) + 1));
	CHECK_INT(out.valid & RBT_ACCOUNT_HAS_LATE, 0); /* seen, not announced */
	b->announces = 1;
	rbt_board_add_length(b, 800 * MS);
	sample(a, b, 1150 * MS, 0);
	account_fill(a, true, 1150 * MS, &out);
	CHECK_INT(out.request.max_ns, 800 * MS);
	CHECK((out.valid & RBT_ACCOUNT_HAS_LATE) != 0);
}

/* Nor what the one before it counted; what that one gave is kept. The next one is an older
 * library's. */
static void test_next_board(struct account *a, struct rbt_board *b)
{
	struct rbt_program_account out;

	b->slots[0].n[RBT_BOARD_COPY] = 103;
	b->n_requests = 10;
	b->features = 0;
	b->request_times[3] = 8;
	account_begin_board(a, b, 1200 * MS);
	b->slots[0].n[RBT_BOARD_COPY] = 104;
	b->n_requests = 11;
	b->request_times[3] = 9;
	sample(a, b, 1300 * MS, 0);
	account_fill(a, true, 1300 * MS, &out);
	CHECK_INT(out.n_submissions, 4);
	CHECK_INT(rbt_hist_count(&out.request), 5);
	CHECK_INT(out.request.n[6], 1); /* the middle of 4 to 8 us */
}

/* All that is there overwritten: sums, no more. */
static void test_forged_board(struct account *a, struct rbt_board *b)
{
	struct rbt_program_account out;

	memset(b->request_times, 0xff, sizeof(b->request_times));
	memset(b->slots, 0xff, sizeof(b->slots));
	b->n_late = UINT64_MAX / 2;
	b->request_ns = UINT64_MAX;
	sample(a, b, 1400 * MS, 0);
	account_fill(a, true, 1400 * MS, &out);
	CHECK_INT(out.n_requests_late, UINT32_MAX);
	memset(b->slots, 0, sizeof(b->slots));
	sample(a, b, 1500 * MS, 0);
	account_fill(a, true, 1500 * MS, &out);
	CHECK_INT(out.n_submissions, 3); /* of the first */
}

static void test_boards(void)
{
	struct rbt_board *first = make_board(), *second = make_board();
	struct account a;

	test_board(&a, first);
	test_next_board(&a, second);
	test_forged_board(&a, second);
	free(first);
	free(second);
}

/* The way of a request to the device: seen, the others off, the first packet done. */
static void test_times(void)
{
	struct rbt_board *b = make_board();
	struct rbt_sched_stats stats = {.displaced = 5, .reserves = 5};
	struct rbt_program_account out;
	struct account a;

	account_start(&a, 1000 * MS);
	account_begin_board(&a, b, 1000 * MS);
	account_cleared(&a, &stats, b, 1001 * MS); /* for another program */
	account_seen(&a, &stats, 1002 * MS);
	account_cleared(&a, &stats, b, 1003 * MS);
	CHECK_INT(b->cleared_ns, 0);
	stats.displaced = 6;
	account_cleared(&a, &stats, b, 1004 * MS);
	CHECK_INT(b->cleared_ns, 1004 * MS);
	stats.displaced = 7; /* in the same request: it has the GPU already */
	account_cleared(&a, &stats, b, 1050 * MS);
	CHECK_INT(rbt_hist_count(&a.seen_to_off), 1);
	CHECK_INT(a.seen_to_off.sum_ns, 2 * MS);
	/* The answer to an earlier question, then the one to this. */
	b->done_ns = 1003 * MS;
	b->done_for_ns = 1002 * MS;
	sample(&a, b, 1060 * MS, 0);
	CHECK_INT(rbt_hist_count(&a.off_to_done), 0);
	b->done_ns = 1007 * MS;
	b->done_for_ns = 1004 * MS;
	sample(&a, b, 1070 * MS, 0);
	sample(&a, b, 1080 * MS, 0);
	CHECK_INT(rbt_hist_count(&a.off_to_done), 1);
	CHECK_INT(a.off_to_done.sum_ns, 3 * MS);
	/* The next one takes nobody off; the one after it is answered before it is asked about. */
	account_seen(&a, &stats, 1100 * MS);
	stats.reserves = 6;
	account_cleared(&a, &stats, b, 1101 * MS);
	stats.displaced = 8;
	account_cleared(&a, &stats, b, 1150 * MS);
	CHECK_INT(rbt_hist_count(&a.seen_to_off), 1);
	for (uint64_t i = 0; i < 2; i++) {
		account_seen(&a, &stats, (1200 + 100 * i) * MS);
		stats.displaced++;
		account_cleared(&a, &stats, b, (1201 + 100 * i) * MS);
		b->done_ns = (i == 0 ? 1211 : 9999) * MS; /* the second is in the future */
		b->done_for_ns = b->cleared_ns;
	}
	sample(&a, b, 1351 * MS, 0);
	account_fill(&a, true, 1351 * MS, &out);
	CHECK_INT(rbt_hist_count(&out.seen_to_off), 3);
	CHECK_INT(rbt_hist_count(&out.off_to_done), 3);
	CHECK_INT(out.off_to_done.sum_ns, 3 * MS + 10 * MS + 50 * MS);
	CHECK_INT(out.off_to_done.max_ns, 50 * MS);
	CHECK(rbt_hist_quantile_ns(&out.off_to_done, 500) < out.off_to_done.max_ns);
	CHECK((out.valid & RBT_ACCOUNT_HAS_DONE) != 0);
	free(b);
}

static struct metrics_snapshot *make_snapshot(size_t n)
{
	struct metrics_snapshot *s = calloc(1, sizeof(*s) + n * sizeof(s->programs[0]));

	s->n_programs = n;
	snprintf(s->policy, sizeof(s->policy), "turns");
	return s;
}

/* All pieces together; free it. */
static char *write_all(const struct metrics_snapshot *s)
{
	static char piece[METRICS_PIECE_MAX];
	struct metrics_cursor cursor = {0};
	char *text = NULL;
	size_t size = 0, n;
	FILE *f = open_memstream(&text, &size);

	while ((n = metrics_write(s, &cursor, piece)) > 0) {
		CHECK(n < METRICS_PIECE_MAX && piece[n - 1] == '\n');
		fwrite(piece, n, 1, f);
	}
	CHECK_INT(metrics_write(s, &cursor, piece), 0);
	fclose(f);
	return text;
}

static void test_text(void)
{
	struct metrics_snapshot *s = make_snapshot(2);
	struct metrics_program *p = &s->programs[1];

	s->programs[0] = (struct metrics_program){.pid = 7, .priority = 13, .name = "x"};
	*p = (struct metrics_program){.pid = 8, .priority = 2, .gpus = 13, .has_turns = true};
	for (uint32_t minor = 0; minor < 3; minor++) {
		s->gpus[s->n_gpus++].gpu = (struct rbt_gpu){RBT_BACKEND_NVIDIA, minor};
	}
	s->gpus[s->n_gpus++].gpu = (struct rbt_gpu){RBT_BACKEND_AMD, 7};
	snprintf(p->name, sizeof(p->name), "a\"b\\c\nd\x01\xff\u00e9");
	snprintf(p->user, sizeof(p->user), "ann");
	p->account.valid = RBT_ACCOUNT_HAS_USED | RBT_ACCOUNT_HAS_REQUESTS | RBT_ACCOUNT_HAS_DONE;
	rbt_hist_add(&p->account.off_to_done, 400000);
	rbt_hist_add(&p->account.off_to_done, 4 * MS);
	p->account.used_ns = UINT64_C(12000000034);
	rbt_hist_add(&p->account.request, 3 * MS);
	char *text = write_all(s);
#define LABELS "{pid=\"8\",program=\"a\\\"b\\\\c\\nd??\u00e9\",user=\"ann\",gpu=\"0,2,amd7\""
	CHECK(strstr(text, "\nrubato_program_used_seconds_total" LABELS "} 12.000000034\n") !=
		NULL);
	CHECK(strstr(text, "rubato_program_used_seconds_total{pid=\"7\"") == NULL);
	CHECK(strstr(text, "rubato_program_turns_total{pid=\"7\"") == NULL);
	CHECK(strstr(text, "rubato_program_known_seconds_total{pid=\"7\"") != NULL);
	CHECK(strstr(
		text, "\nrubato_program_request_seconds_bucket" LABELS ",le=\"0.002048\"} 0\n"));
	CHECK(strstr(
		text, "\nrubato_program_request_seconds_bucket" LABELS ",le=\"0.004096\"} 1\n"));
	CHECK(strstr(text, "\nrubato_program_request_seconds_bucket" LABELS ",le=\"+Inf\"} 1\n"));
	CHECK(strstr(text, "\nrubato_program_request_seconds_sum" LABELS "} 0.003000000\n"));
	CHECK(strstr(text, "# TYPE rubato_program_request_seconds histogram\n"));
	CHECK(strstr(text,
		"\nrubato_program_off_to_done_seconds_bucket" LABELS ",le=\"0.000512\"} 1\n"));
	CHECK(strstr(text, "\nrubato_program_off_to_done_seconds_sum" LABELS "} 0.004400000\n"));
	CHECK(strstr(text, "rubato_program_seen_to_off_seconds") == NULL);
	/* What nobody has is not there at all. */
	CHECK(strstr(text, "rubato_program_pending") == NULL && strstr(text, "rubato_gpu") == NULL);
	free(text);
	free(s);
}

static void test_info(void)
{
	struct metrics_snapshot *s = make_snapshot(2);
	struct metrics_program *p = &s->programs[1];

	s->programs[0] = (struct metrics_program){.pid = 7, .priority = 13, .name = "x", .gpus = 3};
	*p = (struct metrics_program){.pid = 8, .priority = 2, .name = "y", .gpus = 2};
	s->n_gpus = 2;
	s->gpus[0].gpu = (struct rbt_gpu){RBT_BACKEND_NVIDIA, 0};
	s->gpus[1].gpu = (struct rbt_gpu){RBT_BACKEND_NVIDIA, 1};
	snprintf(s->gpus[1].uuid, sizeof(s->gpus[1].uuid), "GPU-b");
	snprintf(p->place.container_id, sizeof(p->place.container_id), "c0ffee");
	snprintf(p->place.pod_uid, sizeof(p->place.pod_uid), "12-34");
	snprintf(p->place.slurm_job, sizeof(p->place.slurm_job), "42");
	p->guest = (struct rbt_program_guest){.vm = "lab", .command = "./a \"b\"", .pid = 31};
	p->limit_bytes = 1000;
	char *text = write_all(s);
	/* Unknown labels are left out; all UUIDs of a program are told, or none. */
	CHECK(strstr(text, "\nrubato_program_info{pid=\"7\",program=\"x\",user=\"\",gpu=\"0,1\","
			   "class=\"latency\"} 1\n") != NULL);
	CHECK(strstr(text, "\nrubato_program_info{pid=\"8\",program=\"y\",user=\"\",gpu=\"1\","
			   "class=\"best-effort\",gpu_uuid=\"GPU-b\",container_id=\"c0ffee\","
			   "pod_uid=\"12-34\",slurm_job=\"42\",vm=\"lab\",guest_pid=\"31\","
			   "guest_command=\"./a \\\"b\\\"\"} 1\n") != NULL);
	CHECK(strstr(text, "\nrubato_gpu_info{gpu=\"1\",uuid=\"GPU-b\"} 1\n") != NULL);
	CHECK(strstr(text, "rubato_gpu_info{gpu=\"0\"") == NULL);
	CHECK(strstr(text, "rubato_program_memory_bytes") == NULL);
	CHECK(strstr(text, "limit_bytes{pid=\"8\",program=\"y\",user=\"\",gpu=\"1\"} 1000\n") !=
		NULL);
	CHECK(strstr(text, "limit_bytes{pid=\"7\"") == NULL);
	s->gpus[0].uuid[0] = 'a';
	free(text);
	text = write_all(s);
	CHECK(strstr(text, "class=\"latency\",gpu_uuid=\"a,GPU-b\"} 1\n") != NULL);
	free(text);
	free(s);
}

static void test_policy_text(void)
{
	struct metrics_snapshot *s = make_snapshot(0);
	struct rbt_policy_hook *hook = &s->bpf.hooks[2];

	s->n_ejections = 3;
	char *text = write_all(s);
	CHECK(strstr(text, "rubato_policy_info") == NULL);
	CHECK(strstr(text, "rubato_policy_calls_total") == NULL);
	CHECK(strstr(text, "\nrubato_policy_ejections_total 3\n") != NULL);
	CHECK(strstr(text, "\nrubato_policy_overruled_total 0\n") != NULL);
	free(text);
	s->bpf.state = RBT_POLICY_EJECTED;
	s->bpf.engine = RBT_POLICY_VM;
	snprintf(s->bpf.name, sizeof(s->bpf.name), "a\"b");
	snprintf(s->bpf.label, sizeof(s->bpf.label), "x.o");
	*hook = (struct rbt_policy_hook){
		.is_present = 1, .n_calls = 7, .n_errors = 6, .n_late = 5, .ns = 4, .max_ns = 3};
	text = write_all(s);
	CHECK(strstr(text, "\nrubato_policy_info{name=\"a\\\"b\",file=\"x.o\",engine=\"vm\",state="
			   "\"ejected\"} 1\n") != NULL);
	CHECK(strstr(text, "\nrubato_policy_calls_total{hook=\"work_submit\"} 7\n") != NULL);
	CHECK(strstr(text, "\nrubato_policy_errors_total{hook=\"work_submit\"} 6\n") != NULL);
	CHECK(strstr(text, "\nrubato_policy_late_total{hook=\"work_submit\"} 5\n") != NULL);
	CHECK(strstr(text, "\nrubato_policy_seconds_total{hook=\"work_submit\"} 0.000000004\n") !=
		NULL);
	CHECK(strstr(text, "hook=\"task_init\"") == NULL);
	free(text);
	free(s);
}

/* The longest of everything fits in a piece. */
static void test_longest(void)
{
	struct metrics_snapshot *s = make_snapshot(1);
	struct metrics_program *p = &s->programs[0];

	memset(p, 0xff, sizeof(*p));
	p->priority = 2;
	p->is_suspended = p->is_waiting = p->is_parked = p->has_turns = p->has_memory = true;
	p->place.container_id[sizeof(p->place.container_id) - 1] = '\0';
	p->place.pod_uid[sizeof(p->place.pod_uid) - 1] = '\0';
	p->place.slurm_job[sizeof(p->place.slurm_job) - 1] = '\0';
	p->guest.vm[sizeof(p->guest.vm) - 1] = '\0';
	p->guest.command[sizeof(p->guest.command) - 1] = '\0';
	memset(p->name, '"', sizeof(p->name) - 1);
	memset(p->user, '\\', sizeof(p->user) - 1);
	p->name[sizeof(p->name) - 1] = p->user[sizeof(p->user) - 1] = '\0';
	for (uint32_t gpu = 0; gpu < RBT_MAX_GPUS; gpu++) {
		memset(&s->gpus[gpu], 0xff, sizeof(s->gpus[gpu]));
		s->gpus[gpu].is_used = s->gpus[gpu].has_used = true;
		s->gpus[gpu].gpu.backend = RBT_BACKEND_AMD;
		memset(s->gpus[gpu].uuid, '"', sizeof(s->gpus[gpu].uuid) - 1);
		s->gpus[gpu].uuid[sizeof(s->gpus[gpu].uuid) - 1] = '\0';
	}
	s->n_gpus = RBT_MAX_GPUS;
	char *text = write_all(s);
	CHECK(strstr(text,
		      "rubato_gpu_programs{gpu=\"amd4294967295\",class=\"latency\"} 4294967295\n") !=
		NULL);
	free(text);
	free(s);
}

static void test_places(void)
{
	char path[METRICS_AT_MAX + 1];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[METRICS_AT_MAX] = '\0';
	CHECK(metrics_check(path) < 0);
	path[METRICS_AT_MAX - 1] = '\0';
	CHECK_INT(metrics_check(path), 0);
	CHECK_INT(metrics_check("none"), 0);
	CHECK_INT(metrics_check("65535"), 0);
	CHECK(metrics_check("0") < 0 && metrics_check("65536") < 0 && metrics_check("") < 0);
	CHECK(metrics_check("-1") < 0 && metrics_check("localhost:80") < 0);
}

int main(void)
{
	test_hist();
	test_quantiles();
	test_offs();
	test_used();
	test_boards();
	test_times();
	test_text();
	test_info();
	test_policy_text();
	test_longest();
	test_places();
	return check_result();
}
