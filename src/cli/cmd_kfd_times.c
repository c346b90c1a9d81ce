/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd_kfd_times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rubato/kfd.h"

#define N_BUCKETS 40
#define BAR       40u

void kfd_times_add(struct kfd_times *t, uint64_t us)
{
	if (t->n == t->room) {
		size_t room = t->room == 0 ? 64 : 2 * t->room;
		uint64_t *grown = realloc(t->us, room * sizeof(*grown));
		if (grown == NULL) {
			return;
		}
		t->us = grown;
		t->room = room;
	}
	t->us[t->n++] = us;
	t->sorted = false;
}

void kfd_times_finish(struct kfd_times *t)
{
	free(t->us);
	*t = (struct kfd_times){0};
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t kfd_times_quantile(struct kfd_times *t, double q)
{
	if (t->n == 0) {
		return 0;
	}
	if (!t->sorted) {
		qsort(t->us, t->n, sizeof(t->us[0]), compare);
		t->sorted = true;
	}
	size_t rank = (size_t)(q * (double)t->n);
	/* Rounded up: of ten values, 0.99 is the tenth. */
	rank += (double)rank < q * (double)t->n;
	return t->us[rank == 0 ? 0 : rank - 1];
}

double kfd_times_mean(const struct kfd_times *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->n; i++) {
		sum += (double)t->us[i];
	}
	return t->n > 0 ? sum / (double)t->n : 0;
}

/* Powers of two: bucket i begins at 2^(i-1), the first at 0. */
static unsigned bucket_of(uint64_t us)
{
	unsigned i = 0;

	while (us > 0 && i < N_BUCKETS - 1) {
		us >>= 1;
		i++;
	}
	return i;
}

static void print_histogram(const struct kfd_times *t)
{
	size_t counts[N_BUCKETS] = {0}, most = 1;
	unsigned first = N_BUCKETS, last = 0;

	for (size_t i = 0; i < t->n; i++) {
		unsigned b = bucket_of(t->us[i]);
		counts[b]++;
		most = counts[b] > most ? counts[b] : most;
		first = b < first ? b : first;
		last = b > last ? b : last;
	}
	for (unsigned b = first; b <= last && t->n > 0; b++) {
		printf("  %8" PRIu64 " us.. %7zu ", b == 0 ? (uint64_t)0 : UINT64_C(1) << (b - 1),
			counts[b]);
		for (size_t k = 0; k < (counts[b] * BAR + most - 1) / most; k++) {
			putchar('#');
		}
		putchar('\n');
	}
}

void kfd_times_print(struct kfd_times *t, const char *name)
{
	printf("%s: mean %.0f us, min %" PRIu64 ", p50 %" PRIu64 ", p90 %" PRIu64 ", p99 %" PRIu64
	       ", max %" PRIu64 "\n",
		name, kfd_times_mean(t), kfd_times_quantile(t, 0), kfd_times_quantile(t, 0.5),
		kfd_times_quantile(t, 0.9), kfd_times_quantile(t, 0.99), kfd_times_quantile(t, 1));
	print_histogram(t);
}

void kfd_times_json(struct kfd_times *t, struct rbt_json *j, const char *key)
{
	rbt_json_object(j, key);
	rbt_json_double(j, "mean", kfd_times_mean(t));
	rbt_json_u64(j, "min", kfd_times_quantile(t, 0));
	rbt_json_u64(j, "p50", kfd_times_quantile(t, 0.5));
	rbt_json_u64(j, "p90", kfd_times_quantile(t, 0.9));
	rbt_json_u64(j, "p99", kfd_times_quantile(t, 0.99));
	rbt_json_u64(j, "max", kfd_times_quantile(t, 1));
	rbt_json_end(j, '}');
}

static void json_us(struct rbt_json *j, const char *key, uint64_t ns)
{
	if (ns != 0) {
		rbt_json_u64(j, key, ns / 1000);
	} else {
		rbt_json_null(j, key);
	}
}

void kfd_json_latency(struct rbt_json *j, const char *key, const struct rubato_kfd_latency *latency)
{
	rbt_json_object(j, key);
	json_us(j, "open", latency->open_ns);
	json_us(j, "enable", latency->enable_ns);
	json_us(j, "snapshot", latency->snapshot_ns);
	rbt_json_end(j, '}');
}

static double hist_mean_us(const struct rbt_hist *h)
{
	uint64_t n = rbt_hist_count(h);

	return n > 0 ? (double)h->sum_ns / (double)n / 1e3 : 0;
}

void kfd_hist_print(const struct rbt_hist *h, const char *name)
{
	printf("%s: mean %.0f us, p50 %" PRIu64 ", p90 %" PRIu64 ", p99 %" PRIu64 ", max %" PRIu64
	       "\n",
		name, hist_mean_us(h), rbt_hist_quantile_ns(h, 500) / 1000,
		rbt_hist_quantile_ns(h, 900) / 1000, rbt_hist_quantile_ns(h, 990) / 1000,
		h->max_ns / 1000);
}

void kfd_hist_json(const struct rbt_hist *h, struct rbt_json *j, const char *key)
{
	rbt_json_object(j, key);
	rbt_json_double(j, "mean", hist_mean_us(h));
	rbt_json_u64(j, "p50", rbt_hist_quantile_ns(h, 500) / 1000);
	rbt_json_u64(j, "p90", rbt_hist_quantile_ns(h, 900) / 1000);
	rbt_json_u64(j, "p99", rbt_hist_quantile_ns(h, 990) / 1000);
	rbt_json_u64(j, "max", h->max_ns / 1000);
	rbt_json_end(j, '}');
}
