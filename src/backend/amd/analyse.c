/* SPDX-License-Identifier: Apache-2.0 */
/* rubato/kfd.h: statistics over snapshots, and everything as text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/analyse.h"
#include "rubato/kfd.h"

#define OLDEST_KERNEL "1.13 (Linux 6.5)"

/* A list that grows. Its public part is in the statistics. */
struct counts {
	struct rubato_kfd_count *list; /* owned; sorted by key */
	uint32_t n, room;
};

struct running {
	struct rubato_kfd_stats public; /* first member: pointers to both are equal */
	struct counts ids, gpus, types;
	uint64_t sum; /* of queues over samples */
};

static int reserve(struct counts *c, uint32_t n)
{
	if (c->room - c->n >= n) {
		return 0;
	}
	uint32_t room = c->n + n + c->n / 2;
	struct rubato_kfd_count *grown = realloc(c->list, room * sizeof(*grown));
	if (grown == NULL) {
		return -ENOMEM;
	}
	c->list = grown;
	c->room = room;
	return 0;
}

/* The caller has made room for one more. */
static void count(struct counts *c, uint32_t key)
{
	uint32_t at = 0, end = c->n;

	while (at < end) {
		uint32_t middle = at + (end - at) / 2;
		if (c->list[middle].key < key) {
			at = middle + 1;
		} else {
			end = middle;
		}
	}
	if (at == c->n || c->list[at].key != key) {
		memmove(&c->list[at + 1], &c->list[at], (c->n - at) * sizeof(*c->list));
		c->list[at] = (struct rubato_kfd_count){.key = key};
		c->n++;
	}
	c->list[at].n++;
}

int rubato_kfd_stats_create(struct rubato_kfd_stats **ret)
{
	struct running *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		return -ENOMEM;
	}
	*ret = &r->public;
	return 0;
}

static void publish(struct running *r)
{
	struct rubato_kfd_stats *s = &r->public;

	s->ids = r->ids.list;
	s->n_ids = r->ids.n;
	s->gpus = r->gpus.list;
	s->n_gpus = r->gpus.n;
	s->types = r->types.list;
	s->n_types = r->types.n;
	s->mean_queues = (double)r->sum / (double)s->n_samples;
	s->stable = s->min_queues == s->max_queues && s->n_ids == s->max_queues;
}

int rubato_kfd_stats_add(struct rubato_kfd_stats *s, const struct rubato_kfd_snapshot *snap)
{
	struct running *r = (struct running *)s;
	uint32_t n = snap->n_queues;

	if (reserve(&r->ids, n) < 0 || reserve(&r->gpus, n) < 0 || reserve(&r->types, n) < 0) {
		return -ENOMEM;
	}
	s->min_queues = s->n_samples == 0 || n < s->min_queues ? n : s->min_queues;
	s->max_queues = n > s->max_queues ? n : s->max_queues;
	s->n_samples++;
	r->sum += n;
	for (uint32_t i = 0; i < n; i++) {
		count(&r->ids, snap->queues[i].id);
		count(&r->gpus, snap->queues[i].gpu_id);
		count(&r->types, snap->queues[i].type);
	}
	publish(r);
	return 0;
}

int rubato_kfd_analyse(
	const struct rubato_kfd_snapshot *const *snaps, size_t n, struct rubato_kfd_stats **ret)
{
	struct rubato_kfd_stats *s;

	if (n == 0) {
		return -EINVAL;
	}
	int r = rubato_kfd_stats_create(&s);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = rubato_kfd_stats_add(s, snaps[i]);
		if (r < 0) {
			rubato_kfd_stats_free(s);
		}
	}
	if (r == 0) {
		*ret = s;
	}
	return r;
}

void rubato_kfd_stats_free(struct rubato_kfd_stats *stats)
{
	struct running *r = (struct running *)stats;

	if (r != NULL) {
		free(r->ids.list);
		free(r->gpus.list);
		free(r->types.list);
		free(r);
	}
}

bool rubato_kfd_pending(const struct rubato_kfd_queue *q, uint64_t *ret)
{
	uint64_t pending = q->write_pointer - q->read_pointer;

	/* The unit of the pointers varies, but is never smaller than a byte. */
	if (!q->has_pointers || pending > q->ring_size) {
		return false;
	}
	*ret = pending;
	return true;
}

const char *rubato_kfd_type_name(uint32_t type)
{
	static const char *const names[] = {"compute", "sdma", "aql", "xgmi"};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

const char *rubato_kfd_strerror(int error)
{
	switch (-error) {
	case ENODEV:
		return "no AMD compute driver here (/dev/kfd, /sys/class/kfd)";
	case EOPNOTSUPP:
		return "the kernel's KFD interface is older than " OLDEST_KERNEL
		       ": queues can be listed, not debugged";
	case ESRCH:
		return "no such process";
	case ENXIO:
		return "it does not use an AMD GPU (KFD does not know it)";
	case EPERM:
		return "you may not debug it: that needs root, or its parent (see ptrace_scope)";
	case EACCES:
		return "you may not open /dev/kfd: that needs root, or its group (often `render`)";
	case EBUSY:
		return "another debugger uses it or its GPU: end that debugger first";
	case ENOTCONN:
		return "no debug session: attach to it first";
	case EAGAIN:
		return "its ROCm runtime has not started: queues can be listed, not suspended";
	case EIO:
		return "the GPU failed";
	default:
		return strerror(-error);
	}
}

static void print_addresses(FILE *out, const struct rubato_kfd_queue *q)
{
	uint64_t pending = 0;

	fprintf(out,
		"  0x%012" PRIx64 "  0x%012" PRIx64 "  0x%012" PRIx64 "  0x%012" PRIx64 "  %8u",
		q->ring_address, q->write_pointer_address, q->read_pointer_address, q->save_address,
		q->save_size);
	if (rubato_kfd_pending(q, &pending)) {
		fprintf(out, "  %7" PRIu64 "%s", pending,
			q->type == RUBATO_KFD_AQL       ? ""
			: q->type == RUBATO_KFD_COMPUTE ? " words"
							: " bytes");
	} else {
		fprintf(out, "  %7s", "-");
	}
}

void rbt_amd_print_queues(
	FILE *out, const struct rubato_kfd_snapshot *snap, const struct rbt_amd_columns *more)
{
	fprintf(out, "process %d: %u queue%s\n", (int)snap->pid, snap->n_queues,
		snap->n_queues == 1 ? "" : "s");
	if (snap->n_queues == 0) {
		return;
	}
	fprintf(out, "  QUEUE  GPU ID  TYPE      RING (B)%s%s\n", more != NULL ? more->heading : "",
		snap->queues[0].has_addresses
			? "  RING            WRITE POINTER   READ POINTER    SAVE AREA (CWSR)  SIZE  PENDING"
			: "");
	for (uint32_t i = 0; i < snap->n_queues; i++) {
		const struct rubato_kfd_queue *q = &snap->queues[i];
		fprintf(out, "%7u  %6u  %-7s  %9u", q->id, q->gpu_id, rubato_kfd_type_name(q->type),
			q->ring_size);
		if (more != NULL) {
			more->print(out, q, more->data);
		}
		if (q->has_addresses) {
			print_addresses(out, q);
		}
		fputc('\n', out);
	}
}

void rubato_kfd_print_snapshot(FILE *out, const struct rubato_kfd_snapshot *snap)
{
	rbt_amd_print_queues(out, snap, NULL);
}

static void print_share(FILE *out, const char *what, const struct rubato_kfd_count *c, uint64_t sum)
{
	fprintf(out, "  %-12s %5.1f %%\n", what, sum > 0 ? 100.0 * c->n / (double)sum : 0);
}

void rubato_kfd_print_stats(FILE *out, const struct rubato_kfd_stats *s)
{
	uint64_t sum = 0;
	char name[32];

	fprintf(out, "%u sample%s: %u to %u queues, %.1f on average: %s\n", s->n_samples,
		s->n_samples == 1 ? "" : "s", s->min_queues, s->max_queues, s->mean_queues,
		s->stable ? "stable" : "dynamic");
	for (uint32_t i = 0; i < s->n_ids; i++) {
		fprintf(out, "  queue %-6u %5.1f %% of samples\n", s->ids[i].key,
			100.0 * s->ids[i].n / s->n_samples);
	}
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		sum += s->gpus[i].n;
	}
	fputs("by GPU:\n", out);
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		snprintf(name, sizeof(name), "%u", s->gpus[i].key);
		print_share(out, name, &s->gpus[i], sum);
	}
	fputs("by type:\n", out);
	for (uint32_t i = 0; i < s->n_types; i++) {
		print_share(out, rubato_kfd_type_name(s->types[i].key), &s->types[i], sum);
	}
}

static bool is_compute(const struct rubato_kfd_queue *q)
{
	return q->type == RUBATO_KFD_COMPUTE || q->type == RUBATO_KFD_AQL;
}

static bool in_every_sample(const struct rubato_kfd_stats *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->n_ids; i++) {
		if (s->ids[i].key == id) {
			return s->ids[i].n == s->n_samples;
		}
	}
	return false;
}

void rubato_kfd_print_latency(FILE *out, const struct rubato_kfd_latency *latency)
{
	const struct {
		const char *name;
		uint64_t ns;
	} calls[] = {{"open", latency->open_ns}, {"enable", latency->enable_ns},
		{"snapshot", latency->snapshot_ns}};
	const char *between = "latency: ";

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].ns != 0) {
			fprintf(out, "%s%s %" PRIu64 " us", between, calls[i].name,
				calls[i].ns / 1000);
			between = ", ";
		}
	}
	fputs(between[0] == ',' ? "\n" : "", out);
}

void rubato_kfd_print_ids(
	FILE *out, const struct rubato_kfd_snapshot *last, const struct rubato_kfd_stats *stats)
{
	uint32_t n = 0;
	bool compute = false;

	for (uint32_t i = 0; i < last->n_queues; i++) {
		compute |=
			is_compute(&last->queues[i]) && in_every_sample(stats, last->queues[i].id);
	}
	fprintf(out, "/* process %d: %s */\nstatic const uint32_t queue_ids[] = {", (int)last->pid,
		compute ? "compute queues that were always there" : "all queues at the last look");
	for (uint32_t i = 0; i < last->n_queues; i++) {
		const struct rubato_kfd_queue *q = &last->queues[i];
		if (!compute || (is_compute(q) && in_every_sample(stats, q->id))) {
			fprintf(out, "%s%u", n++ > 0 ? ", " : "", q->id);
		}
	}
	fprintf(out, "};\nstatic const uint32_t n_queue_ids = %u;\n", n);
}
