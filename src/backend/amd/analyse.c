/* SPDX-License-Identifier: Apache-2.0 */
/* rubato/kfd.h: what snapshots come to, and all of it in words. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rubato/kfd.h"

#define OLDEST_KERNEL "1.13 (Linux 6.5)"

/* Sorted by key. The array has room for one more. */
static void count(struct rubato_kfd_count *list, uint32_t *n, uint32_t key)
{
	uint32_t at = 0;

	while (at < *n && list[at].key < key) {
		at++;
	}
	if (at == *n || list[at].key != key) {
		memmove(&list[at + 1], &list[at], (*n - at) * sizeof(*list));
		list[at] = (struct rubato_kfd_count){.key = key};
		(*n)++;
	}
	list[at].n++;
}

int rubato_kfd_analyse(
	const struct rubato_kfd_snapshot *const *snaps, size_t n, struct rubato_kfd_stats **ret)
{
	size_t most = 0;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		most += snaps[i]->n_queues;
	}
	if (n == 0) {
		return -EINVAL;
	}
	struct rubato_kfd_stats *s =
		calloc(1, sizeof(*s) + 3 * (most + 1) * sizeof(struct rubato_kfd_count));
	if (s == NULL) {
		return -ENOMEM;
	}
	s->ids = (struct rubato_kfd_count *)(s + 1);
	s->gpus = s->ids + most + 1;
	s->types = s->gpus + most + 1;
	s->n_samples = (uint32_t)n;
	s->min_queues = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		const struct rubato_kfd_snapshot *snap = snaps[i];
		sum += snap->n_queues;
		s->min_queues = snap->n_queues < s->min_queues ? snap->n_queues : s->min_queues;
		s->max_queues = snap->n_queues > s->max_queues ? snap->n_queues : s->max_queues;
		for (uint32_t k = 0; k < snap->n_queues; k++) {
			count(s->ids, &s->n_ids, snap->queues[k].id);
			count(s->gpus, &s->n_gpus, snap->queues[k].gpu_id);
			count(s->types, &s->n_types, snap->queues[k].type);
		}
	}
	s->mean_queues = (double)sum / (double)n;
	s->stable = s->min_queues == s->max_queues && s->n_ids == s->max_queues;
	*ret = s;
	return 0;
}

void rubato_kfd_stats_free(struct rubato_kfd_stats *stats)
{
	free(stats);
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
	case EACCES:
		return "it may not be debugged by you: be root, or its parent (see ptrace_scope)";
	case EBUSY:
		return "another debugger has it, or its GPU: end that first";
	case ENOTCONN:
		return "its ROCm runtime has not started: queues can be listed, not suspended";
	case EIO:
		return "the GPU failed";
	default:
		return strerror(-error);
	}
}

static void print_queue(FILE *out, const struct rubato_kfd_queue *q)
{
	fprintf(out, "%7u  %6u  %-7s  %9u", q->id, q->gpu_id, rubato_kfd_type_name(q->type),
		q->ring_size);
	if (q->has_addresses) {
		fprintf(out,
			"  0x%012" PRIx64 "  0x%012" PRIx64 "  0x%012" PRIx64 "  0x%012" PRIx64
			"  %8u",
			q->ring_address, q->write_pointer_address, q->read_pointer_address,
			q->save_address, q->save_size);
	}
	if (q->has_pointers) {
		fprintf(out, "  %7" PRIu64, q->write_pointer - q->read_pointer);
	}
	fputc('\n', out);
}

void rubato_kfd_print_snapshot(FILE *out, const struct rubato_kfd_snapshot *snap)
{
	bool addresses = snap->n_queues > 0 && snap->queues[0].has_addresses;

	fprintf(out, "process %d: %u queue%s\n", (int)snap->pid, snap->n_queues,
		snap->n_queues == 1 ? "" : "s");
	if (snap->n_queues == 0) {
		return;
	}
	fprintf(out, "  QUEUE  GPU ID  TYPE      RING (B)%s\n",
		addresses
			? "  RING            WRITE POINTER   READ POINTER    SAVE AREA (CWSR)  SIZE  PENDING"
			: "");
	for (uint32_t i = 0; i < snap->n_queues; i++) {
		print_queue(out, &snap->queues[i]);
	}
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
