/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: preemption tables | figure
 * Prints the tables of docs/preemption.md, or its figure as SVG. tools/preemption puts them there.
 */
#include "preemption.h"

#include <stdlib.h>
#include <string.h>

static double us(uint64_t ns)
{
	return (double)ns / 1000;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_sorted(uint64_t *ns)
{
	qsort(ns, PREEMPTION_MOMENTS, sizeof(ns[0]), compare);
	printf(" | %.1f / %.1f / %.1f", us(ns[0]), us(ns[PREEMPTION_MOMENTS / 2]),
		us(ns[PREEMPTION_MOMENTS - 1]));
}

static void table_of_ways(void)
{
	static struct preemption_result r;

	printf("| | detection | preemption | resume | request's delay | best-effort's delay |"
	       " kernels repeated | resubmitted | wrong words |\n"
	       "|---|---|---|---|---|---|---|---|---|\n");
	for (const struct preemption_way *w = preemption_ways; w->name; w++) {
		preemption_run(w, PREEMPTION_MIDDLE, &r);
		printf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %u | %u | %u |\n", w->name,
			us(r.detect_ns), us(r.preempt_ns), us(r.resume_ns), us(r.request_delay_ns),
			us(r.best_effort_delay_ns), r.repeated, r.resubmitted, r.wrong);
	}
}

static void table_of_moments(void)
{
	static struct preemption_result r;

	printf("| | request's delay | best-effort's delay | kernels repeated | instructions"
	       " repeated, at most | saved, at most | runs with wrong words |\n"
	       "|---|---|---|---|---|---|---|\n");
	for (const struct preemption_way *w = preemption_ways; w->name; w++) {
		uint64_t request[PREEMPTION_MOMENTS], work[PREEMPTION_MOMENTS];
		uint64_t instructions = 0, saved = 0;
		uint32_t least = UINT32_MAX, most = 0, wrong = 0;

		for (unsigned k = 0; k < PREEMPTION_MOMENTS; k++) {
			preemption_run(w, k, &r);
			request[k] = r.request_delay_ns;
			work[k] = r.best_effort_delay_ns;
			least = r.repeated < least ? r.repeated : least;
			most = r.repeated > most ? r.repeated : most;
			instructions = r.repeated_instructions > instructions
					       ? r.repeated_instructions
					       : instructions;
			saved = r.saved_bytes > saved ? r.saved_bytes : saved;
			wrong += r.wrong > 0;
		}
		printf("| %s", w->name);
		print_sorted(request);
		print_sorted(work);
		printf(least == most ? " | %u" : " | %u–%u", least, most);
		printf(" | %llu | %llu KiB | %u of %u |\n", (unsigned long long)instructions,
			(unsigned long long)((saved + 1023) / 1024), wrong, PREEMPTION_MOMENTS);
	}
}

static void table_of_controllers(void)
{
	static struct preemption_result r;

	printf("| | notices after | takes off in | lets on in | request's delay |"
	       " best-effort's delay | kernels repeated |\n|---|---|---|---|---|---|---|\n");
	for (const struct preemption_way *w = preemption_controllers; w->name; w++) {
		preemption_run(w, PREEMPTION_MIDDLE, &r);
		printf("| %s | %.0f | %.0f | %.0f | %.1f | %.1f | %u |\n", w->name,
			us(w->notice_ns), us(w->off_ns), us(w->on_ns), us(r.request_delay_ns),
			us(r.best_effort_delay_ns), r.repeated);
	}
}

static void tables(void)
{
	const struct preemption_alone *alone = preemption_alone();

	printf("<!-- alone -->\n"
	       "Alone, a best-effort kernel takes %.1f µs, all %u of them %.1f ms, and the request"
	       " %.1f µs.\n\n<!-- ways -->\n",
		us(alone->kernel_ns), PREEMPTION_KERNELS, us(alone->best_effort_ns) / 1000,
		us(alone->request_ns));
	table_of_ways();
	printf("\n<!-- moments -->\n");
	table_of_moments();
	printf("\n<!-- controllers -->\n");
	table_of_controllers();
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "tables") == 0) {
		tables();
	} else if (argc == 2 && strcmp(argv[1], "figure") == 0) {
		preemption_figure(stdout);
	} else {
		fprintf(stderr, "usage: preemption tables | figure\n");
		return 2;
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
